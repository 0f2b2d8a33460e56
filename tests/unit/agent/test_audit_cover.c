/* Which moment of the table is applied here, from equality and publications. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "audit/cover.h"

/*
 * A writer, its superblocks and a follower, in steps of time. Each write is in the publication that
 * follows it; a look at the superblock finds the newest; equality follows some steps after it.
 */
struct world {
	uint64_t now, random;
	uint64_t published_at; /* of the newest publication */
	uint64_t publication;
	uint64_t read_at, read; /* the superblock that was read last: when asked, and its number */
	uint64_t read_covers;   /* writes before are in it */
	uint64_t equal_at, applied; /* equality: as of when asked, and the writes that it covers */
};

static uint64_t dice(struct world *world, uint64_t sides)
{
	world->random ^= world->random << 13;
	world->random ^= world->random >> 7;
	world->random ^= world->random << 17;
	return world->random % sides;
}

static void what_is_covered_is_applied_whatever_the_pace(void **state)
{
	struct world world = {.now = 1000, .random = 88172645463325252};
	struct kw_cover cover = {0};
	uint64_t marks = 0, last = 0;

	for (int i = 0; i < 300000; i++) {
		world.now += 1 + dice(&world, 3);
		if (dice(&world, 20) == 0) {
			world.publication++;
			world.published_at = world.now;
		}
		if (dice(&world, 3) == 0 && world.read_at > world.equal_at) {
			world.equal_at = world.read_at;
			world.applied = world.read_covers;
		}
		if (dice(&world, 5) == 0) {
			world.read_at = world.now;
			world.read = world.publication;
			world.read_covers = world.published_at;
		}
		kw_cover_look(&cover, world.equal_at, world.read, world.now);
		assert_true(cover.covered_us <= world.applied);
		marks += cover.covered_us != last;
		last = cover.covered_us;
	}
	assert_true(marks > 1000);
}

static void nothing_is_covered_while_the_proxy_publishes_nothing(void **state)
{
	struct kw_cover cover = {0};

	for (uint64_t now = 1000; now < 100000; now += 10)
		kw_cover_look(&cover, now - 1, 7, now);
	assert_false(kw_cover_has(&cover, 0));
	kw_cover_look(&cover, 99999, 8, 100000);
	kw_cover_look(&cover, 100001, 8, 100002);
	assert_true(kw_cover_has(&cover, 999));
	assert_false(kw_cover_has(&cover, 1000));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_covered_is_applied_whatever_the_pace),
		cmocka_unit_test(nothing_is_covered_while_the_proxy_publishes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
