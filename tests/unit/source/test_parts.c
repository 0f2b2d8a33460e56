/* The small pure parts: flags, channels, databases, rates, rest, canaries, settings. */
#include "base/bucket.h"
#include "feed/flags.h"
#include "feed/notify/canary.h"
#include "feed/notify/channel.h"
#include "feed/watch/deaf.h"
#include "feed/watch/settings.h"
#include "fetch/cooldown.h"
#include "keys/databases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>

static bool enough(const char *flags)
{
	return kw_flags_sufficient(kw_flags_parse(kw_slice_text(flags)));
}

static void flags_are_enough_when_they_cover_all_events(void **state)
{
	assert_true(enough("AE"));
	assert_true(enough("EA"));
	assert_true(enough("AKE"));
	assert_true(enough("g$lshzxetdE"));
	assert_true(enough("EdtexzhsL$lgK"));
	assert_false(enough(""));
	assert_false(enough("A"));
	assert_false(enough("E"));
	assert_false(enough("AK"));
	assert_false(enough("g$lshzxtdE")); /* no evictions */
	assert_false(enough("Ex"));
}

static void merged_flags_keep_what_others_need(void **state)
{
	char text[KW_FLAGS_TEXT];
	static const char *const present[] = {"", "KEx", "Kmn", "g$K", "AKoc", "zzz"};
	static const char *const merged[] = {"AE", "AEK", "AEKmn", "AEK", "AEKco", "AE"};

	for (int i = 0; i < 6; i++) {
		kw_flags_merged(kw_flags_parse(kw_slice_text(present[i])), text);
		assert_string_equal(text, merged[i]);
		assert_true(enough(text));
	}
}

static void a_channel_tells_its_database(void **state)
{
	static const char *const none[] = {"", "__keyevent@", "__keyevent@__:set",
		"__keyspace@0__:set", "__keyevent@1_:set", "__keyevent@1x__:set",
		"__keyevent@99999999999__:set", "__keyevent@-1__:set", "__redis__:invalidate"};
	uint32_t database = 99;
	struct kw_slice event;

	assert_true(kw_channel_parse(kw_slice_text("__keyevent@0__:set"), &database, &event));
	assert_true(kw_slice_equal(event, kw_slice_text("set")));
	assert_int_equal(database, 0);
	assert_true(kw_channel_parse(kw_slice_text("__keyevent@10__:del"), &database, &event));
	assert_int_equal(database, 10);
	assert_true(kw_channel_parse(kw_slice_text("__keyevent@15__:"), &database, &event));
	assert_int_equal(event.length, 0);
	assert_int_equal(database, 15);
	for (size_t i = 0; i < sizeof none / sizeof *none; i++)
		assert_false(kw_channel_parse(kw_slice_text(none[i]), &database, &event));
}

static void an_event_tells_whether_it_may_set_an_expiry(void **state)
{
	static const char *const may[] = {"expire", "restore", "rename_to", "copy_to", "move_to",
		"json.set", "loaded", "", "se", "sett", "Set", "append2", "zunionstor", "a", "~"};
	static const char *const never[] = {"append", "decrby", "del", "evicted", "expired",
		"hexpire", "hpersist", "hset", "incrby", "linsert", "lpush", "ltrim", "move_from",
		"new", "persist", "pfadd", "rename_from", "rpop", "sadd", "set", "setbit",
		"setrange", "sortstore", "spop", "srem", "sunionstore", "xadd", "xgroup-create",
		"xgroup-createconsumer", "xgroup-setid", "xtrim", "zadd", "zincr", "zrem",
		"zremrangebyscore", "zunionstore"};

	for (size_t i = 0; i < sizeof may / sizeof *may; i++)
		assert_true(kw_channel_may_expire(kw_slice_text(may[i])));
	for (size_t i = 0; i < sizeof never / sizeof *never; i++)
		assert_false(kw_channel_may_expire(kw_slice_text(never[i])));
	assert_true(kw_channel_may_expire(kw_slice("set\0", 4)));
}

/* An event that is not known is one. */
static void a_read_of_a_missing_key_is_no_change(void **state)
{
	static const char *const changes[] = {
		"set", "del", "expired", "new", "keymis", "keymisses", "vadd", ""};

	assert_false(kw_channel_is_change(kw_slice_text("keymiss")));
	for (size_t i = 0; i < sizeof changes / sizeof *changes; i++)
		assert_true(kw_channel_is_change(kw_slice_text(changes[i])));
}

static void a_set_of_databases_knows_its_numbers(void **state)
{
	struct kw_databases set = {0}, other = {0};
	uint32_t database = 0;

	assert_true(kw_databases_empty(&set));
	assert_true(kw_databases_add(&set, 0));
	assert_true(kw_databases_add(&set, 63));
	assert_true(kw_databases_add(&other, 64));
	assert_false(kw_databases_add(&other, KW_DATABASES_MOST));
	kw_databases_merge(&set, &other);
	assert_true(kw_databases_has(&set, 63));
	assert_false(kw_databases_has(&set, 1));
	assert_false(kw_databases_has(&set, 5000));
	assert_true(kw_databases_next(&set, &database));
	assert_int_equal(database, 0);
	database = 1;
	assert_true(kw_databases_next(&set, &database));
	assert_int_equal(database, 63);
	database = 64;
	assert_true(kw_databases_next(&set, &database));
	assert_int_equal(database, 64);
	database = 65;
	assert_false(kw_databases_next(&set, &database));
	kw_databases_remove(&set, 63);
	assert_false(kw_databases_has(&set, 63));
	kw_databases_swap(&set, 64, 300);
	assert_true(kw_databases_has(&set, 300) && !kw_databases_has(&set, 64));
	kw_databases_swap(&set, 0, 300); /* both */
	assert_true(kw_databases_has(&set, 300) && kw_databases_has(&set, 0));
	kw_databases_swap(&set, 300, 64);
	assert_true(kw_databases_has(&set, 64) && !kw_databases_has(&set, 300));
	kw_databases_add_all(&set);
	assert_true(kw_databases_has(&set, 5000));
	kw_databases_clear(&set);
	assert_true(kw_databases_empty(&set));
	kw_databases_close(&set);
	kw_databases_close(&other);
}

static void a_bucket_holds_the_rate(void **state)
{
	struct kw_bucket bucket;
	int begun = 0;

	kw_bucket_init(&bucket, 1000, 0);
	for (uint64_t now = 0; now < 1000000; now += 100)
		while (kw_bucket_allows(&bucket, now)) {
			kw_bucket_spend(&bucket, 1);
			begun++;
		}
	assert_in_range(begun, 1000, 1051);
}

static void a_bucket_in_debt_says_when_it_is_paid(void **state)
{
	struct kw_bucket bucket;
	uint64_t ready;

	kw_bucket_init(&bucket, 1000000, 0);
	assert_true(kw_bucket_allows(&bucket, 0));
	kw_bucket_spend(&bucket, 2050000); /* 50000 were saved */
	ready = kw_bucket_ready_us(&bucket, 0);
	assert_in_range(ready, 1999990, 2000010);
	assert_false(kw_bucket_allows(&bucket, ready - 100));
	assert_true(kw_bucket_allows(&bucket, ready));
}

static void a_bucket_without_a_rate_never_stops(void **state)
{
	struct kw_bucket bucket;

	kw_bucket_init(&bucket, 0, 0);
	kw_bucket_spend(&bucket, UINT64_MAX);
	assert_true(kw_bucket_allows(&bucket, 0));
	assert_int_equal(kw_bucket_ready_us(&bucket, 5), 5);
}

static void a_slow_bucket_still_lets_one_through(void **state)
{
	struct kw_bucket bucket;

	kw_bucket_init(&bucket, 1, 0);
	assert_true(kw_bucket_allows(&bucket, 0));
	kw_bucket_spend(&bucket, 1);
	assert_false(kw_bucket_allows(&bucket, 999000));
	assert_true(kw_bucket_allows(&bucket, 1000000));
}

static void a_large_key_rests_in_proportion_to_the_time_of_its_dump(void **state)
{
	static const struct {
		uint64_t bytes, dump_us;
		double share;
		uint64_t rest_us;
	} cases[] = {
		{64 << 20, 0, 0.5, (64 << 20) / 50}, /* by its size */
		{12 << 20, 60000, 0.5, (12 << 20) / 50},
		{12 << 20, 60000, 0.125, 420000}, /* 60 of 480 ms */
		{12 << 20, 60000, 1, (12 << 20) / 50},
		{12 << 20, UINT64_MAX, 0.001, KW_COOLDOWN_MOST_US},
		{20000, 750000, 0.5, 2000}, /* it waited for others: a DUMP is not so slow */
		{20000, 1500, 0.5, 1500},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		assert_int_equal(
			kw_cooldown_rest_us(cases[i].bytes, cases[i].dump_us, cases[i].share),
			cases[i].rest_us);
}

static void large_keys_rest_in_proportion(void **state)
{
	static struct kw_cooldown cooldown;

	kw_cooldown_note(&cooldown, 1, 64 << 20, (64 << 20) / 50, 1000);
	kw_cooldown_note(&cooldown, 2, 1 << 20, (1 << 20) / 50, 1000);
	kw_cooldown_note(&cooldown, 3, 1000, 20, 1000);
	assert_int_equal(kw_cooldown_until(&cooldown, 1, 1000), 1000 + (64 << 20) / 50);
	assert_int_equal(kw_cooldown_until(&cooldown, 2, 1000), 1000 + (1 << 20) / 50);
	assert_int_equal(kw_cooldown_until(&cooldown, 3, 1000), 0);
	assert_int_equal(kw_cooldown_until(&cooldown, 2, 30000), 0);
	assert_int_equal(kw_cooldown_until(&cooldown, 1, 5000000), 0);
	for (uint64_t i = 0; i < 100000; i++) /* bounded: no more than it has places */
		kw_cooldown_note(&cooldown, i * 7919, 1 << 20, (1 << 20) / 50, 1000 + i);
}

static void canaries_prove_that_a_database_was_spared(void **state)
{
	struct kw_canaries *canaries = kw_canaries_new();
	struct kw_canary *nest;
	char name[200] = {0};

	assert_null(kw_canary_of(canaries, 5));
	for (int i = 0; i < 10; i++) {
		snprintf(name, sizeof name, "k%d", i);
		kw_canary_offer(canaries, 5, kw_slice_text(name));
		kw_canary_offer(canaries, 5, kw_slice_text(name));
	}
	memset(name, 'x', sizeof name);
	kw_canary_gone(canaries, 5, kw_slice_text("k0"));
	kw_canary_offer(canaries, 5, kw_slice(name, sizeof name)); /* too long */
	nest = kw_canary_of(canaries, 5);
	assert_int_equal(nest[0].state, KW_CANARY_NONE);
	assert_int_equal(nest[3].state, KW_CANARY_TOUCHED);
	kw_canary_watch(canaries);
	assert_int_equal(nest[0].state, KW_CANARY_NONE);
	assert_int_equal(nest[3].state, KW_CANARY_UNTOUCHED);
	kw_canary_touch(canaries, 5, kw_slice_text("k3"));
	kw_canary_touch(canaries, 5, kw_slice_text("unknown"));
	kw_canary_touch(canaries, 900, kw_slice_text("k3"));
	assert_int_equal(nest[3].state, KW_CANARY_TOUCHED);
	assert_int_equal(nest[2].state, KW_CANARY_UNTOUCHED);
	kw_canary_offer(canaries, 5, kw_slice_text("late"));
	assert_int_equal(nest[0].state, KW_CANARY_TOUCHED); /* it proves nothing about the past */
	kw_canary_forget_database(canaries, 5);
	assert_int_equal(kw_canary_of(canaries, 5)[2].state, KW_CANARY_NONE);
	kw_canaries_free(canaries);
}

/* One look: as watch.c calls it, with `others` calls made by others until then. */
static bool settings_look(struct kw_settings *settings, uint64_t others, bool all, bool begin)
{
	uint64_t own = all ? settings->own_sets + settings->own_gets : settings->own_sets;

	kw_settings_asked(settings);
	kw_settings_get(settings); /* goes out behind the INFO, which does not count it */
	return kw_settings_look(settings, own + others, all, begin);
}

static void two_settings_within_two_looks_are_suspicious(void **state)
{
	for (int all = 0; all < 2; all++) {
		struct kw_settings settings = {0};

		kw_settings_get(&settings);
		assert_false(settings_look(&settings, 10, all, true));
		assert_false(settings_look(&settings, 10, all, false));
		assert_false(settings_look(&settings, 11, all, false)); /* one */
		assert_true(settings_look(&settings, 12, all, false));  /* one more, a look later */
		assert_false(settings_look(&settings, 12, all, false)); /* done with */
		assert_false(settings_look(&settings, 13, all, false));
		assert_false(settings_look(&settings, 13, all, false));
		assert_false(settings_look(&settings, 14, all, false)); /* two looks behind */
		assert_false(settings_look(&settings, 14, all, false));
		assert_true(settings_look(&settings, 16, all, false)); /* two at once */
		kw_settings_set(&settings);                            /* our own do not count */
		assert_false(settings_look(&settings, 16, all, false));
		kw_settings_set(&settings);
		assert_false(settings_look(&settings, 17, all, false));
		assert_true(settings_look(&settings, 3, all, false)); /* wiped */
		assert_false(settings_look(&settings, 3, all, false));
	}
}

/* Looks of one second. */
static void changes_without_events_are_found(void **state)
{
	static const struct {
		const char *what;
		uint64_t events[8], changes[8];
		int excused; /* this look; -1: none */
		int found;   /* … and this one; -1: none */
	} cases[] = {
		{"no changes", {0}, {0}, -1, -1},
		{"changes and events", {0, 1, 2, 3, 4, 5, 6, 7}, {0, 1, 2, 3, 4, 5, 6, 7}, -1, -1},
		{"changes alone", {0}, {0, 1, 2, 3, 4, 5, 6, 7}, -1, 4},
		{"one change alone", {0}, {0, 1, 1, 1, 1, 1, 1, 1}, -1, 4},
		{"the event is late", {0, 0, 0, 1, 1, 1, 1, 1}, {0, 1, 1, 1, 1, 1, 1, 1}, -1, -1},
		{"flags get lost", {0, 5, 9, 9, 9, 9, 9, 9}, {0, 5, 9, 12, 13, 13, 13, 13}, -1, 6},
		{"a save", {0}, {5, 6, 0, 0, 0, 0, 0, 0}, -1, -1},
		{"a save, and changes", {0}, {5, 6, 0, 1, 2, 3, 4, 5}, -1, 6},
		{"silent commands", {0}, {0, 0, 9, 9, 9, 9, 9, 9}, 2, -1},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct kw_deaf deaf = {0};
		int found = -1;

		for (int at = 0; at < 8 && found < 0; at++) {
			const struct kw_deaf_look look = {
				.now_us = (uint64_t)(at + 1) * 1000000,
				.asked_events = cases[i].events[at],
				.events = cases[i].events[at],
				.changes = cases[i].changes[at],
				.excused = at == cases[i].excused,
			};

			if (kw_deaf_look(&deaf, &look))
				found = at;
		}
		if (found != cases[i].found)
			fail_msg("%s: found at look %d", cases[i].what, found);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_settings_within_two_looks_are_suspicious),
		cmocka_unit_test(flags_are_enough_when_they_cover_all_events),
		cmocka_unit_test(merged_flags_keep_what_others_need),
		cmocka_unit_test(a_channel_tells_its_database),
		cmocka_unit_test(an_event_tells_whether_it_may_set_an_expiry),
		cmocka_unit_test(a_read_of_a_missing_key_is_no_change),
		cmocka_unit_test(a_set_of_databases_knows_its_numbers),
		cmocka_unit_test(a_bucket_holds_the_rate),
		cmocka_unit_test(a_bucket_in_debt_says_when_it_is_paid),
		cmocka_unit_test(a_bucket_without_a_rate_never_stops),
		cmocka_unit_test(a_slow_bucket_still_lets_one_through),
		cmocka_unit_test(a_large_key_rests_in_proportion_to_the_time_of_its_dump),
		cmocka_unit_test(large_keys_rest_in_proportion),
		cmocka_unit_test(canaries_prove_that_a_database_was_spared),
		cmocka_unit_test(changes_without_events_are_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
