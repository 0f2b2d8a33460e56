/*
 * The slots for handshakes at one listener, and who gives way when all are taken.
 *
 * A newcomer always gets in. If every slot is taken, the oldest entry of the peer that holds the
 * most slots gives way; among peers that hold equally many, the oldest of them all. So a peer that
 * floods the listener displaces only itself, as long as another one holds fewer slots. If flood
 * and agents come from one peer (over loopback, say), age alone decides: an honest agent is done
 * within two round trips, long before it is the oldest. What an entry has sent makes no difference,
 * because a stranger can send as much as an agent can.
 *
 * Pure. The caller owns every struct; a slot is part of what holds it. Any thread, one at a time.
 */
#ifndef KW_REMOTE_SLOTS_H
#define KW_REMOTE_SLOTS_H

#include <stdint.h>
#include <sys/types.h>

#define KW_SLOTS_MAX 256

/* One entry: from kw_slots_take to kw_slots_leave. */
struct kw_slot {
	struct kw_slot *older, *newer;
	uint16_t holder; /* its peer's line in kw_slots.holders */
};

/* Zeroed memory has no entry. */
struct kw_slots {
	struct kw_slot *oldest, *newest;
	uint32_t count;
	struct {
		uint64_t peer;
		uint32_t held; /* 0: the line is free */
	} holders[KW_SLOTS_MAX];
};

/* The entry that gives way to the next one; NULL while a slot is free. */
struct kw_slot *kw_slots_victim(const struct kw_slots *slots);

/* Take a free slot (the victim has left): it becomes the newest. */
void kw_slots_take(struct kw_slots *slots, struct kw_slot *slot, uint64_t peer);

void kw_slots_leave(struct kw_slots *slots, struct kw_slot *slot);

/*
 * What counts as one peer: an IPv4 address, the first 64 bits of an IPv6 address (one host can have
 * all addresses below them), or a user of this host. An IPv4 address mapped into IPv6 is the
 * former. The numbers of IPv4 addresses and users lie in ::/8, from which no IPv6 peer comes.
 */
uint64_t kw_peer_of_ipv4(const uint8_t address[4]);
uint64_t kw_peer_of_ipv6(const uint8_t address[16]);
uint64_t kw_peer_of_user(uid_t user);

#endif
