/* Who gives way when every slot for a handshake is taken. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "remote/slots.h"

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define FLOOD 1
#define HONEST 2

struct crowd {
	struct kw_slots slots;
	struct kw_slot all[8 * KW_SLOTS_MAX];
	int made;
};

static struct kw_slot *come(struct crowd *crowd, uint64_t peer)
{
	struct kw_slot *victim = kw_slots_victim(&crowd->slots);
	struct kw_slot *slot = &crowd->all[crowd->made++];

	assert_true(crowd->made <= 8 * KW_SLOTS_MAX);
	if (victim)
		kw_slots_leave(&crowd->slots, victim);
	kw_slots_take(&crowd->slots, slot, peer);
	return slot;
}

static bool is_there(const struct crowd *crowd, const struct kw_slot *slot)
{
	for (const struct kw_slot *at = crowd->slots.oldest; at; at = at->newer)
		if (at == slot)
			return true;
	return false;
}

static struct crowd *new_crowd(void)
{
	struct crowd *crowd = calloc(1, sizeof *crowd);

	assert_non_null(crowd);
	return crowd;
}

static void nobody_gives_way_while_a_place_is_free(void **state)
{
	struct crowd *crowd = new_crowd();

	for (int i = 0; i < KW_SLOTS_MAX; i++) {
		assert_null(kw_slots_victim(&crowd->slots));
		come(crowd, FLOOD);
	}
	assert_ptr_equal(kw_slots_victim(&crowd->slots), &crowd->all[0]);
	kw_slots_leave(&crowd->slots, &crowd->all[17]);
	assert_null(kw_slots_victim(&crowd->slots));
	free(crowd);
}

static void of_one_peer_the_oldest_gives_way(void **state)
{
	struct crowd *crowd = new_crowd();

	for (int i = 0; i < 3 * KW_SLOTS_MAX; i++)
		come(crowd, FLOOD);
	assert_int_equal(crowd->slots.count, KW_SLOTS_MAX);
	for (int i = 0; i < 3 * KW_SLOTS_MAX; i++)
		assert_int_equal(is_there(crowd, &crowd->all[i]), i >= 2 * KW_SLOTS_MAX);
	free(crowd);
}

static void a_flood_displaces_only_itself(void **state)
{
	struct crowd *crowd = new_crowd();
	struct kw_slot *honest[3];

	for (int i = 0; i < 3; i++)
		honest[i] = come(crowd, HONEST + (uint64_t)i); /* older than all of the flood */
	for (int i = 0; i < 5 * KW_SLOTS_MAX; i++)
		come(crowd, FLOOD);
	for (int i = 0; i < 3; i++)
		assert_true(is_there(crowd, honest[i]));
	free(crowd);
}

static void a_newcomer_displaces_one_of_the_flood(void **state)
{
	struct crowd *crowd = new_crowd();
	struct kw_slot *first = come(crowd, HONEST);

	for (int i = 1; i < KW_SLOTS_MAX; i++)
		come(crowd, FLOOD);
	assert_ptr_equal(kw_slots_victim(&crowd->slots), &crowd->all[1]);
	come(crowd, HONEST);
	assert_true(is_there(crowd, first));
	assert_false(is_there(crowd, &crowd->all[1]));
	free(crowd);
}

static void among_equals_the_oldest_gives_way(void **state)
{
	struct crowd *crowd = new_crowd();

	for (int i = 0; i < KW_SLOTS_MAX; i++)
		come(crowd, (uint64_t)i / 2);
	assert_ptr_equal(kw_slots_victim(&crowd->slots), &crowd->all[0]);
	kw_slots_leave(&crowd->slots, &crowd->all[0]);
	come(crowd, 1000);
	/* The peer of the first holds one now. */
	assert_ptr_equal(kw_slots_victim(&crowd->slots), &crowd->all[2]);
	free(crowd);
}

/* Against a slow count of the same, over many random crowds. */
static void it_is_always_the_oldest_of_those_who_hold_most(void **state)
{
	struct crowd *crowd = new_crowd();
	uint32_t random = 1;

	for (int i = 0; i < 7 * KW_SLOTS_MAX; i++) {
		const struct kw_slot *victim = kw_slots_victim(&crowd->slots), *expected = NULL;
		uint32_t most = 0;

		for (const struct kw_slot *at = crowd->slots.oldest; at; at = at->newer) {
			uint32_t held = 0;

			for (const struct kw_slot *b = crowd->slots.oldest; b; b = b->newer)
				held += b->holder == at->holder;
			if (held > most)
				expected = at;
			if (held > most)
				most = held;
		}
		if (crowd->slots.count == KW_SLOTS_MAX)
			assert_ptr_equal(victim, expected);
		else
			assert_null(victim);
		random = random * 1664525 + 1013904223;
		come(crowd, (random >> 16) % 40);
		if ((random >> 24) % 3 == 0)
			kw_slots_leave(&crowd->slots, crowd->slots.oldest);
	}
	free(crowd);
}

static uint64_t peer_of(const char *text)
{
	uint8_t bytes[16];

	if (strchr(text, ':')) {
		assert_int_equal(inet_pton(AF_INET6, text, bytes), 1);
		return kw_peer_of_ipv6(bytes);
	}
	assert_int_equal(inet_pton(AF_INET, text, bytes), 1);
	return kw_peer_of_ipv4(bytes);
}

static void what_counts_as_one_peer(void **state)
{
	static const struct {
		const char *one, *other;
		bool same;
	} cases[] = {
		{"10.0.0.1", "10.0.0.1", true},
		{"10.0.0.1", "10.0.0.2", false},
		{"::ffff:10.0.0.1", "10.0.0.1", true},
		{"::ffff:10.0.0.1", "::ffff:10.0.0.2", false},
		{"2001:db8:1:2::1", "2001:db8:1:2:ffff::9", true},
		{"2001:db8:1:2::1", "2001:db8:1:3::1", false},
		{"::1", "127.0.0.1", false},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		assert_int_equal(peer_of(cases[i].one) == peer_of(cases[i].other), cases[i].same);
	assert_true(kw_peer_of_user(0) != kw_peer_of_user(65534));
	assert_true(kw_peer_of_user(0x7f000001) != peer_of("127.0.0.1"));
	assert_true(kw_peer_of_user(0) != peer_of("::1"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nobody_gives_way_while_a_place_is_free),
		cmocka_unit_test(of_one_peer_the_oldest_gives_way),
		cmocka_unit_test(a_flood_displaces_only_itself),
		cmocka_unit_test(a_newcomer_displaces_one_of_the_flood),
		cmocka_unit_test(among_equals_the_oldest_gives_way),
		cmocka_unit_test(it_is_always_the_oldest_of_those_who_hold_most),
		cmocka_unit_test(what_counts_as_one_peer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
