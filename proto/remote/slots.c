#include "remote/slots.h"

#include <assert.h>
#include <string.h>

#define IPV4 UINT64_C(0x0000ffff00000000) /* as in ::ffff:a.b.c.d */
#define USER UINT64_C(0x0001000000000000)

struct kw_slot *kw_slots_victim(const struct kw_slots *slots)
{
	struct kw_slot *victim = slots->oldest;

	if (slots->count < KW_SLOTS_MAX)
		return NULL;
	for (struct kw_slot *at = victim; at; at = at->newer)
		if (slots->holders[at->holder].held > slots->holders[victim->holder].held)
			victim = at;
	return victim;
}

/* The peer's line, or else a free one: there are as many lines as slots. */
static uint16_t find_holder(const struct kw_slots *slots, uint64_t peer)
{
	uint16_t vacant = KW_SLOTS_MAX;

	for (uint16_t i = 0; i < KW_SLOTS_MAX; i++) {
		if (slots->holders[i].held == 0)
			vacant = i;
		else if (slots->holders[i].peer == peer)
			return i;
	}
	assert(vacant < KW_SLOTS_MAX);
	return vacant;
}

void kw_slots_take(struct kw_slots *slots, struct kw_slot *slot, uint64_t peer)
{
	assert(slots->count < KW_SLOTS_MAX);
	*slot = (struct kw_slot){.older = slots->newest, .holder = find_holder(slots, peer)};
	if (slots->newest)
		slots->newest->newer = slot;
	else
		slots->oldest = slot;
	slots->newest = slot;
	slots->count++;
	slots->holders[slot->holder].peer = peer;
	slots->holders[slot->holder].held++;
}

void kw_slots_leave(struct kw_slots *slots, struct kw_slot *slot)
{
	assert(slots->count > 0 && slots->holders[slot->holder].held > 0);
	if (slot->older)
		slot->older->newer = slot->newer;
	else
		slots->oldest = slot->newer;
	if (slot->newer)
		slot->newer->older = slot->older;
	else
		slots->newest = slot->older;
	slots->count--;
	slots->holders[slot->holder].held--;
	*slot = (struct kw_slot){0};
}

uint64_t kw_peer_of_ipv4(const uint8_t address[4])
{
	return IPV4 | (uint64_t)address[0] << 24 | (uint64_t)address[1] << 16 |
	       (uint64_t)address[2] << 8 | address[3];
}

uint64_t kw_peer_of_ipv6(const uint8_t address[16])
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
	uint64_t bits = 0;

	if (memcmp(address, mapped, sizeof mapped) == 0)
		return kw_peer_of_ipv4(address + sizeof mapped);
	for (int i = 0; i < 8; i++)
		bits = bits << 8 | address[i];
	return bits;
}

uint64_t kw_peer_of_user(uid_t user)
{
	return USER | user;
}
