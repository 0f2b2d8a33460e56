/* Many lookups at once: what they share, remembered places, waiting, and their ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lookup_world.h"

#include "table/places.h"

/* ---- many at once ---- */

struct many {
	struct world *world;
	uint64_t outcomes[4];
};

static void on_one_of_many(void *arg, const struct kw_lookup_result *result)
{
	struct many *many = arg;

	many->outcomes[result->outcome]++;
}

static void begin_many(struct world *world, struct many *many, int from, int count)
{
	char key[32];

	for (int i = from; i < from + count; i++) {
		snprintf(key, sizeof key, "key-%d", i);
		assert_true(kw_lookups_have_room(world->lookups));
		kw_lookups_begin(world->lookups, 0, kw_slice_text(key), on_one_of_many, many);
	}
	kw_lookups_post(world->lookups);
}

static void lookups_share_what_is_known_of_the_table(void **state)
{
	const struct kw_lookups_stats *stats;
	struct many many = {0};
	struct world world;

	world_open(&world, 64 << 20, 64 << 10);
	connect_lookups(&world, &(struct kw_lookups_options){.depth = 64});
	fill(&world, 10000);
	begin_many(&world, &many, 0, 64);
	assert_false(kw_lookups_have_room(world.lookups));
	assert_int_equal(world.count, 1); /* superblock and root, once for all */
	answer(&world);
	assert_int_equal(world.count, 1); /* the directory, once for all */
	world.postings = 0;
	answer(&world);
	assert_int_equal(world.count, 64); /* the slots of all, in one posting */
	assert_int_equal(world.postings, 1);
	while (world.count > 0)
		answer(&world);
	assert_int_equal(many.outcomes[KW_LOOKUP_FOUND], 64);
	stats = kw_lookups_stats(world.lookups);
	assert_int_equal(stats->views, 2);
	begin_many(&world, &many, 64, 64);
	while (world.count > 0)
		answer(&world);
	assert_int_equal(many.outcomes[KW_LOOKUP_FOUND], 128);
	assert_int_equal(stats->views, 2);
	world_close(&world);
}

static void a_get_costs_little_more_than_two_reads_and_its_record(void **state)
{
	struct kw_lookups_stats before, after;
	struct world world;
	char key[32];
	const int keys = 100000;
	uint64_t records = 0;

	world_open(&world, 256 << 20, 1 << 20);
	fill(&world, keys);
	assert_int_equal(look_up(&world, 0, "key-0"), KW_LOOKUP_FOUND);
	before = *kw_lookups_stats(world.lookups);
	for (int i = 0; i < keys; i++) {
		snprintf(key, sizeof key, "key-%d", i);
		assert_int_equal(look_up(&world, 0, key), KW_LOOKUP_FOUND);
		records += world.result.record.length;
	}
	after = *kw_lookups_stats(world.lookups);
	print_message("%.3f READs a get, %.0f bytes beyond the record\n",
		(double)(after.reads - before.reads) / keys,
		(double)(after.bytes - before.bytes - records) / keys);
	assert_true(after.reads - before.reads <= keys * 2.05);
	assert_true(after.bytes - before.bytes <= records + keys * UINT64_C(320));
	world_close(&world);
}

/* ---- guesses ---- */

/* What a look at the superblock does. */
static void see(struct world *world)
{
	kw_lookups_seen(world->lookups, (const struct kw_superblock *)world->base);
	kw_lookups_post(world->lookups);
	while (world->count > 0)
		answer(world);
}

static void world_open_with_places(struct world *world)
{
	world_open(world, 8 << 20, 16 << 10);
	connect_lookups(world, &(struct kw_lookups_options){.places = 1 << 16});
}

static void a_key_whose_place_is_known_costs_one_read(void **state)
{
	struct kw_lookups_stats before;
	struct world world;

	world_open_with_places(&world);
	fill(&world, 1000);
	assert_int_equal(look_up(&world, 0, "key-7"), KW_LOOKUP_FOUND);
	before = *kw_lookups_stats(world.lookups);
	assert_int_equal(look_up(&world, 0, "key-7"), KW_LOOKUP_FOUND);
	assert_memory_equal(kw_buffer_bytes(&world.value), "key-7", 5);
	assert_int_equal(kw_lookups_stats(world.lookups)->reads, before.reads + 1);
	assert_int_equal(kw_lookups_stats(world.lookups)->guesses, 1);
	assert_int_equal(kw_lookups_stats(world.lookups)->misses, 0);
	world_close(&world);
}

/* The lookup that found it began before the one that found the newer record, and ended after it. */
static void a_place_of_an_older_record_replaces_none_of_a_newer_one(void **state)
{
	const struct kw_places_entry older = {.hash = 5, .place = 16, .version = 7};
	const struct kw_places_entry newer = {.hash = 5, .place = 32, .version = 8};
	const struct kw_places_entry moved = {.hash = 5, .place = 48, .version = 8};
	struct kw_places places;

	kw_places_init(&places, 64);
	kw_places_put(&places, &newer);
	kw_places_put(&places, &older);
	assert_int_equal(kw_places_find(&places, 5)->place, 32);
	kw_places_put(&places, &moved);
	assert_int_equal(kw_places_find(&places, 5)->place, 48);
	kw_places_close(&places);
}

static void a_guess_of_a_key_that_changed_or_went_is_noticed(void **state)
{
	struct world world;

	world_open_with_places(&world);
	fill(&world, 1000);
	assert_int_equal(look_up(&world, 0, "key-7"), KW_LOOKUP_FOUND);
	put(&world, 0, "key-7", "other");
	assert_int_equal(look_up(&world, 0, "key-7"), KW_LOOKUP_FOUND);
	assert_memory_equal(kw_buffer_bytes(&world.value), "other", 5);
	kw_table_delete(world.table, 0, kw_slice_text("key-7"));
	assert_int_equal(look_up(&world, 0, "key-7"), KW_LOOKUP_ABSENT);
	put(&world, 0, "key-7", "back");
	assert_int_equal(look_up(&world, 0, "key-7"), KW_LOOKUP_FOUND);
	kw_table_flush(world.table, 0);
	assert_int_equal(look_up(&world, 0, "key-7"), KW_LOOKUP_ABSENT);
	world_close(&world);
}

/*
 * The one case in which superseded_by does not tell: the cleaner moved the record, and the key was
 * written after that. What was seen says that the copy's segment is gone.
 */
static void a_copy_that_the_cleaner_left_behind_is_not_taken_for_the_newest(void **state)
{
	uint64_t stale_places = 0;
	struct world world;
	char key[32];

	world_open_with_places(&world);
	for (int round = 0; round < 300; round++) {
		for (int i = 0; i < 40; i++) {
			snprintf(key, sizeof key, "steady-%d", i);
			if (round % 7 == i % 7)
				put(&world, 0, key, key + (round + i) % 3);
		}
		for (int i = 0; i < 40; i++)
			write_some(&world);
		tick(&world);
		see(&world);
		for (int i = 0; i < 40; i++) {
			struct kw_slice value;
			uint64_t expires_ms;
			uint64_t misses = kw_lookups_stats(world.lookups)->misses;

			snprintf(key, sizeof key, "steady-%d", i);
			if (!kw_table_get(world.table, 0, kw_slice_text(key), &value, &expires_ms))
				continue;
			assert_int_equal(look_up(&world, 0, key), KW_LOOKUP_FOUND);
			assert_true(kw_slice_equal(value, kw_slice(kw_buffer_bytes(&world.value),
								  kw_buffer_length(&world.value))));
			stale_places += kw_lookups_stats(world.lookups)->misses - misses;
		}
	}
	print_message("%llu guesses, %llu of them did not hold\n",
		(unsigned long long)kw_lookups_stats(world.lookups)->guesses,
		(unsigned long long)stale_places);
	assert_true(kw_lookups_stats(world.lookups)->guesses > 1000);
	assert_true(stale_places > 10);
	assert_true(stale_places < kw_lookups_stats(world.lookups)->guesses / 2);
	world_close(&world);
}

/* A hostile proxy shows a later directory once, and never again: it is asked for once. */
static void a_directory_that_was_seen_and_is_not_there_is_not_asked_for_without_end(void **state)
{
	struct kw_superblock later;
	struct world world;
	uint64_t views;

	world_open_with_places(&world);
	fill(&world, 100);
	assert_int_equal(look_up(&world, 0, "key-1"), KW_LOOKUP_FOUND);
	later = *(const struct kw_superblock *)world.base;
	later.directory_publication += 2;
	views = kw_lookups_stats(world.lookups)->views;
	kw_lookups_seen(world.lookups, &later);
	kw_lookups_post(world.lookups);
	begin(&world, 0, "key-1");
	for (int reads = 0; world.count > 0; reads++) {
		assert_true(reads < 100);
		answer(&world);
	}
	assert_true(world.done);
	assert_int_equal(world.result.outcome, KW_LOOKUP_FOUND);
	assert_true(kw_lookups_stats(world.lookups)->views - views < 10);
	world_close(&world);
}

/* ---- waiting for a publication ---- */

static void a_segment_not_published_yet_is_waited_for(void **state)
{
	struct kw_lookups_stats before;
	struct world world;
	char value[3000];

	memset(value, 'v', sizeof value - 1);
	value[sizeof value - 1] = '\0';
	world_open(&world, 64 << 20, 16 << 10);
	fill(&world, 10);
	assert_int_equal(look_up(&world, 0, "key-1"), KW_LOOKUP_FOUND);
	/* More than the head holds, without a publication. */
	for (int i = 0; i < 40; i++) {
		char key[32];

		snprintf(key, sizeof key, "fresh-%d", i);
		put(&world, 0, key, value);
	}
	before = *kw_lookups_stats(world.lookups);
	begin(&world, 0, "fresh-39");
	while (world.count > 0)
		answer(&world);
	assert_false(world.done);
	assert_true(kw_lookups_parked(world.lookups));
	/* A tick without a publication does not use up the tries at once. */
	kw_lookups_tick(world.lookups);
	kw_lookups_post(world.lookups);
	while (world.count > 0)
		answer(&world);
	assert_true(kw_lookups_parked(world.lookups));
	assert_true(kw_lookups_stats(world.lookups)->reads - before.reads < 12);
	finish(&world);
	assert_int_equal(world.result.outcome, KW_LOOKUP_FOUND);
	world_close(&world);
}

/* ---- ends ---- */

static void stop_from_within(void *arg, const struct kw_lookup_result *result)
{
	struct many *many = arg;

	many->outcomes[result->outcome]++;
	kw_lookups_stop(many->world->lookups);
}

static void all_can_be_stopped_from_within_an_answer(void **state)
{
	struct world world;
	struct many many = {.world = &world};

	world_open(&world, 64 << 20, 64 << 10);
	connect_lookups(&world, &(struct kw_lookups_options){.depth = 8});
	fill(&world, 100);
	kw_lookups_begin(world.lookups, 0, kw_slice_text("key-1"), stop_from_within, &many);
	for (int i = 0; i < 7; i++)
		kw_lookups_begin(world.lookups, 0, kw_slice_text("key-2"), on_one_of_many, &many);
	kw_lookups_post(world.lookups);
	while (world.count > 0)
		answer(&world);
	assert_int_equal(many.outcomes[KW_LOOKUP_FOUND], 1);
	assert_false(kw_lookups_busy(world.lookups));
	assert_int_equal(look_up(&world, 0, "key-3"), KW_LOOKUP_FOUND);
	world_close(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lookups_share_what_is_known_of_the_table),
		cmocka_unit_test(a_get_costs_little_more_than_two_reads_and_its_record),
		cmocka_unit_test(a_key_whose_place_is_known_costs_one_read),
		cmocka_unit_test(a_place_of_an_older_record_replaces_none_of_a_newer_one),
		cmocka_unit_test(a_guess_of_a_key_that_changed_or_went_is_noticed),
		cmocka_unit_test(a_copy_that_the_cleaner_left_behind_is_not_taken_for_the_newest),
		cmocka_unit_test(
			a_directory_that_was_seen_and_is_not_there_is_not_asked_for_without_end),
		cmocka_unit_test(a_segment_not_published_yet_is_waited_for),
		cmocka_unit_test(all_can_be_stopped_from_within_an_answer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
