/* The dirty set: each key once, in order, never forgotten, and small again afterwards. */
#include "keys/dirty.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

static struct kw_dirty *dirty;

static int make(void **state)
{
	dirty = kw_dirty_new(42);
	return 0;
}

static int drop(void **state)
{
	kw_dirty_free(dirty);
	return 0;
}

static void add(const char *name, unsigned flags)
{
	kw_dirty_add(dirty, 3, kw_slice_text(name), flags);
}

static struct kw_dirty_entry *take(const char *name)
{
	struct kw_dirty_entry *entry = kw_dirty_take(dirty, 1000);

	assert_non_null(entry);
	assert_int_equal(entry->key.database, 3);
	assert_true(kw_slice_equal(kw_dirty_name(dirty, entry), kw_slice_text(name)));
	return entry;
}

static bool absorbs(const char *name, unsigned flags)
{
	return kw_dirty_absorbs(dirty, &(struct kw_dirty_key){kw_slice_text(name), 3, flags});
}

static void a_key_is_in_it_once(void **state)
{
	for (int i = 0; i < 100; i++)
		add("a", 0);
	kw_dirty_add(dirty, 4, kw_slice_text("a"), 0);
	assert_int_equal(kw_dirty_total(dirty), 2);
	kw_dirty_done(dirty, take("a"));
	assert_int_equal(kw_dirty_take(dirty, 0)->key.database, 4);
	assert_null(kw_dirty_take(dirty, 0));
}

static void keys_come_in_the_order_they_got_dirty(void **state)
{
	add("a", 0);
	add("b", 0);
	add("c", 0);
	add("a", 0);
	kw_dirty_done(dirty, take("a"));
	kw_dirty_done(dirty, take("b"));
	kw_dirty_done(dirty, take("c"));
	assert_int_equal(kw_dirty_total(dirty), 0);
}

static void names_may_hold_any_bytes_or_none(void **state)
{
	kw_dirty_add(dirty, 0, kw_slice(NULL, 0), 0);
	kw_dirty_add(dirty, 0, kw_slice("\0", 1), 0);
	kw_dirty_add(dirty, 0, kw_slice("\0\r\n", 3), 0);
	assert_int_equal(kw_dirty_total(dirty), 3);
	assert_int_equal(kw_dirty_name(dirty, kw_dirty_take(dirty, 0)).length, 0);
	assert_int_equal(kw_dirty_name(dirty, kw_dirty_take(dirty, 0)).length, 1);
	assert_int_equal(kw_dirty_name(dirty, kw_dirty_take(dirty, 0)).length, 3);
}

static void a_key_dirty_in_flight_is_fetched_again(void **state)
{
	struct kw_dirty_entry *a;

	add("a", 0);
	a = take("a");
	add("a", KW_DIRTY_TTL);
	assert_null(kw_dirty_take(dirty, 0)); /* not twice at a time */
	kw_dirty_done(dirty, a);
	a = take("a");
	assert_true(a->flags & KW_DIRTY_TTL);
	kw_dirty_done(dirty, a);
	assert_int_equal(kw_dirty_total(dirty), 0);
}

/* An event that comes in any other state says something new: it must not be taken for known. */
static void only_a_waiting_key_absorbs_an_event(void **state)
{
	struct kw_slice name = kw_slice_text("a");
	struct kw_dirty_entry *a;

	assert_false(absorbs("a", 0));
	add("a", 0);
	assert_true(absorbs("a", 0));
	assert_false(absorbs("b", 0));
	assert_false(kw_dirty_absorbs(dirty, &(struct kw_dirty_key){name, 4, 0}));
	a = take("a");
	assert_false(absorbs("a", 0));
	add("a", 0);
	assert_false(absorbs("a", 0));
	kw_dirty_done(dirty, a);
	add("a", 0);
	assert_true(absorbs("a", 0));
	kw_dirty_delay(dirty, take("a"), 2000);
	assert_false(absorbs("a", 0));
	kw_dirty_park(dirty, kw_dirty_take(dirty, 2000), 10);
	assert_false(absorbs("a", 0));
	add("a", 0);
	assert_true(absorbs("a", 0));
	kw_dirty_done(dirty, take("a"));
	assert_false(absorbs("a", 0));
}

static void an_event_with_a_new_flag_is_not_absorbed(void **state)
{
	add("a", 0);
	assert_false(absorbs("a", KW_DIRTY_TTL));
	add("a", KW_DIRTY_TTL);
	assert_true(absorbs("a", KW_DIRTY_TTL));
	assert_true(absorbs("a", 0));
	kw_dirty_retry(dirty, take("a"), 0);
	add("a", 0);
	assert_true(absorbs("a", KW_DIRTY_TTL));
	kw_dirty_done(dirty, take("a"));
	add("a", 0);
	assert_false(absorbs("a", KW_DIRTY_TTL));
}

/* More keys than are remembered: some of those that wait are known, of the others none. */
static void many_waiting_keys_are_told_from_those_taken(void **state)
{
	int known = 0;
	char name[8];

	for (int i = 0; i < 20000; i++) {
		snprintf(name, sizeof(name), "%d", i);
		add(name, 0);
		assert_false(absorbs("x", 0));
	}
	for (int i = 0; i < 10000; i++)
		assert_non_null(kw_dirty_take(dirty, 0));
	for (int i = 0; i < 20000; i++) {
		snprintf(name, sizeof(name), "%d", i);
		if (i < 10000)
			assert_false(absorbs(name, 0));
		known += absorbs(name, 0);
	}
	assert_in_range(known, 1000, 10000);
}

static void a_flag_stays_until_it_is_answered(void **state)
{
	struct kw_dirty_entry *a;

	add("a", KW_DIRTY_TTL);
	add("a", 0);
	a = take("a");
	assert_true(a->flags & KW_DIRTY_TTL);
	add("a", 0);
	kw_dirty_done(dirty, a);
	a = take("a");
	assert_false(a->flags & KW_DIRTY_TTL);
	kw_dirty_retry(dirty, a, KW_DIRTY_TTL);
	assert_true(take("a")->flags & KW_DIRTY_TTL);
}

static void delayed_keys_come_when_they_are_due(void **state)
{
	char name[8];

	for (int i = 0; i < 50; i++) {
		snprintf(name, sizeof(name), "%d", i);
		add(name, 0);
	}
	for (int i = 0; i < 50; i++)
		kw_dirty_delay(dirty, kw_dirty_take(dirty, 0), 100 + (uint64_t)(i * 37 % 50));
	assert_int_equal(kw_dirty_due_us(dirty), 100);
	assert_null(kw_dirty_take(dirty, 99));
	add("0", 0); /* absorbed */
	assert_int_equal(kw_dirty_total(dirty), 50);
	for (uint64_t t = 100; t < 150; t++) {
		struct kw_dirty_entry *entry = kw_dirty_take(dirty, t);

		assert_non_null(entry);
		assert_int_equal(entry->until_us, t);
		assert_null(kw_dirty_take(dirty, t));
		kw_dirty_done(dirty, entry);
	}
	assert_int_equal(kw_dirty_due_us(dirty), UINT64_MAX);
}

static bool below_100(void *arg, uint64_t bytes)
{
	return bytes < 100;
}

static void parked_keys_wait_for_room_or_for_a_change(void **state)
{
	add("big", 0);
	add("small", 0);
	add("gone", 0);
	kw_dirty_park(dirty, take("big"), 1000);
	kw_dirty_park(dirty, take("small"), 10);
	kw_dirty_park(dirty, take("gone"), 1000);
	assert_null(kw_dirty_take(dirty, 1000));
	assert_int_equal(kw_dirty_unpark(dirty, 10, below_100, NULL), 1);
	assert_int_equal(kw_dirty_released(dirty), 1);
	/* Looked at again for its change, and still one that may be missing from the table. */
	add("gone", KW_DIRTY_TTL);
	assert_int_equal(kw_dirty_released(dirty), 2);
	kw_dirty_done(dirty, take("small"));
	assert_int_equal(kw_dirty_released(dirty), 1);
	kw_dirty_done(dirty, take("gone"));
	assert_int_equal(kw_dirty_released(dirty), 0);
	assert_int_equal(kw_dirty_count(dirty, KW_DIRTY_PARKED), 1);
	assert_int_equal(kw_dirty_total(dirty), 1);
}

static void a_key_dirty_in_flight_is_not_parked(void **state)
{
	struct kw_dirty_entry *a;

	add("a", 0);
	a = take("a");
	add("a", 0);
	kw_dirty_park(dirty, a, 10);
	assert_int_equal(kw_dirty_count(dirty, KW_DIRTY_PARKED), 0);
	take("a");
}

/* Nothing was stored, so the expiry that the first change brought is still to be read. */
static void a_key_that_found_no_room_owes_its_expiry(void **state)
{
	struct kw_dirty_entry *a;

	add("a", KW_DIRTY_TTL);
	a = take("a");
	add("a", 0);
	kw_dirty_park(dirty, a, 10);
	assert_true(take("a")->flags & KW_DIRTY_TTL);
}

static void a_scan_knows_when_its_keys_are_done(void **state)
{
	struct kw_dirty_entry *a, *b;

	add("a", KW_DIRTY_TTL); /* by an event */
	add("a", KW_DIRTY_SCAN);
	add("b", KW_DIRTY_SCAN);
	add("c", KW_DIRTY_SCAN);
	add("c", KW_DIRTY_SCAN);
	assert_int_equal(kw_dirty_scanned(dirty), 3);
	a = take("a");
	b = take("b");
	add("a", KW_DIRTY_TTL); /* an event in flight does not keep the scan waiting */
	kw_dirty_done(dirty, a);
	kw_dirty_retry(dirty, b, 0); /* a failure does */
	assert_int_equal(kw_dirty_scanned(dirty), 2);
	kw_dirty_park(dirty, take("c"), 1); /* no room: the scan goes on without it */
	assert_int_equal(kw_dirty_scanned(dirty), 1);
	kw_dirty_done(dirty, take("a"));
	kw_dirty_done(dirty, take("b"));
	assert_int_equal(kw_dirty_scanned(dirty), 0);
}

static void the_barrier_waits_for_all_before_it_and_nothing_else(void **state)
{
	struct kw_dirty_entry *a, *b;

	assert_true(kw_dirty_passed(dirty));
	add("a", 0);
	a = take("a");
	add("a", 0); /* a second time, before the mark */
	add("b", 0);
	kw_dirty_mark(dirty);
	add("c", 0); /* behind it */
	kw_dirty_done(dirty, a);
	b = take("b");
	add("b", 0);
	kw_dirty_done(dirty, b); /* what b owed from before is paid, though it is dirty again */
	assert_false(kw_dirty_passed(dirty)); /* a is not */
	kw_dirty_done(dirty, take("c"));
	assert_false(kw_dirty_passed(dirty));
	kw_dirty_done(dirty, take("a"));
	assert_true(kw_dirty_passed(dirty));
	assert_int_equal(kw_dirty_total(dirty), 1);
}

static void the_barrier_waits_for_delayed_and_parked_keys(void **state)
{
	add("a", 0);
	add("b", 0);
	kw_dirty_delay(dirty, take("a"), 2000);
	kw_dirty_park(dirty, take("b"), 1);
	kw_dirty_mark(dirty);
	add("a", 0);
	add("b", 0);
	kw_dirty_done(dirty, take("b"));
	assert_false(kw_dirty_passed(dirty));
	kw_dirty_done(dirty, kw_dirty_take(dirty, 2000));
	assert_true(kw_dirty_passed(dirty));
}

#define MODEL_KEYS 40

/* What the dirty set should hold, in plain arrays. */
struct model {
	int owed[MODEL_KEYS], marked[MODEL_KEYS]; /* adds not yet answered; those before the mark */
	int flying[MODEL_KEYS], flown_marked[MODEL_KEYS];
	struct kw_dirty_entry *flights[MODEL_KEYS];
	int count, absorbed;
};

static int key_of(const struct kw_dirty_entry *entry)
{
	char name[8];

	snprintf(name, sizeof name, "%.*s", (int)entry->key.length,
		(const char *)kw_dirty_name(dirty, entry).data);
	return atoi(name);
}

static void model_add(struct model *model)
{
	int key = (int)(random() % MODEL_KEYS);
	char name[8];

	snprintf(name, sizeof name, "%d", key);
	if (absorbs(name, 0)) {
		model->absorbed++;
		assert_true(model->owed[key] && !model->flying[key]);
		return;
	}
	add(name, 0);
	model->owed[key] = 1;
}

static void model_take(struct model *model)
{
	struct kw_dirty_entry *entry = kw_dirty_take(dirty, 0);
	int key;

	if (!entry)
		return;
	key = key_of(entry);
	assert_true(model->owed[key]);
	assert_false(model->flying[key]);
	model->flying[key] = 1;
	model->owed[key] = 0;
	model->flown_marked[key] = model->marked[key];
	model->marked[key] = 0;
	model->flights[model->count++] = entry;
}

static void model_land(struct model *model)
{
	int at = model->count ? (int)(random() % model->count) : -1;
	int key;

	if (at < 0)
		return;
	key = key_of(model->flights[at]);
	if (random() % 3 == 0) {
		model->owed[key] = 1;
		model->marked[key] |= model->flown_marked[key];
		kw_dirty_retry(dirty, model->flights[at], 0);
	} else {
		kw_dirty_done(dirty, model->flights[at]);
	}
	model->flying[key] = model->flown_marked[key] = 0;
	model->flights[at] = model->flights[--model->count];
}

static void model_mark(struct model *model)
{
	kw_dirty_mark(dirty);
	for (int i = 0; i < MODEL_KEYS; i++) {
		model->marked[i] = model->owed[i];
		model->flown_marked[i] = model->flying[i];
	}
}

static void model_check(const struct model *model)
{
	int left = 0, total = 0;

	for (int i = 0; i < MODEL_KEYS; i++) {
		left += model->marked[i] || model->flown_marked[i];
		total += model->owed[i] || model->flying[i];
	}
	assert_int_equal(kw_dirty_passed(dirty), left == 0);
	assert_int_equal(kw_dirty_total(dirty), total);
}

static void random_moves_agree_with_a_model(void **state)
{
	struct model model = {0};

	srandom(7);
	for (int step = 0; step < 200000; step++) {
		switch (random() % 5) {
		case 0:
		case 1:
			model_add(&model);
			break;
		case 2:
			model_take(&model);
			break;
		case 3:
			model_land(&model);
			break;
		default:
			if (random() % 20 == 0)
				model_mark(&model);
		}
		model_check(&model);
	}
	assert_true(model.absorbed > 1000);
}

/* By the system's account; under a sanitizer that counts its shadow of the addresses, too. */
static long resident_bytes(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	long pages = 0;

	assert_non_null(file);
	assert_int_equal(fscanf(file, "%*d %ld", &pages), 1);
	fclose(file);
	return pages * 4096;
}

static void memory_is_bounded_by_distinct_keys_and_given_back(void **state)
{
	size_t empty = kw_dirty_bytes(dirty), full;
	long resident = resident_bytes();
	char name[32];

	for (int round = 0; round < 3; round++)
		for (int i = 0; i < 200000; i++) {
			snprintf(name, sizeof(name), "some:key:%d", i);
			add(name, 0);
		}
	full = kw_dirty_bytes(dirty);
	assert_int_equal(kw_dirty_total(dirty), 200000);
	assert_true(full / 200000 < 200);
	assert_true(resident_bytes() > resident + 15000000);
	for (int i = 0; i < 200000; i++)
		kw_dirty_done(dirty, kw_dirty_take(dirty, 0));
	assert_int_equal(kw_dirty_total(dirty), 0);
	assert_true(kw_dirty_bytes(dirty) < empty + 300000);
#ifndef __SANITIZE_ADDRESS__
	assert_true(resident_bytes() < resident + 2000000);
#endif
}

/* Two sets that must be equal: one is filled by batches, the other key by key. */
static void take_all_of_both(struct kw_dirty *other)
{
	struct kw_dirty_entry *entry;

	assert_int_equal(kw_dirty_total(dirty), kw_dirty_total(other));
	assert_int_equal(kw_dirty_scanned(dirty), kw_dirty_scanned(other));
	while ((entry = kw_dirty_take(dirty, 0))) {
		struct kw_dirty_entry *same = kw_dirty_take(other, 0);

		assert_non_null(same);
		assert_int_equal(entry->key.database, same->key.database);
		assert_int_equal(entry->flags, same->flags);
		assert_true(
			kw_slice_equal(kw_dirty_name(dirty, entry), kw_dirty_name(other, same)));
		kw_dirty_done(dirty, entry);
		kw_dirty_done(other, same);
	}
	assert_null(kw_dirty_take(other, 0));
}

static void a_batch_is_the_same_as_its_keys_one_by_one(void **state)
{
	static const size_t counts[] = {0, 1, 2, 15, 16, 17, 31, 33, 100, 1000};
	struct kw_dirty *other = kw_dirty_new(7);
	struct kw_dirty_key keys[1000];
	char names[1000][8];

	srand(11);
	for (size_t round = 0; round < 200; round++) {
		size_t count = counts[round % (sizeof(counts) / sizeof(*counts))];

		for (size_t i = 0; i < count; i++) {
			int length = snprintf(names[i], sizeof(names[i]), "%d", rand() % 300);

			keys[i] = (struct kw_dirty_key){kw_slice(names[i], (size_t)length),
				(uint32_t)rand() % 2, (unsigned)rand() % 4};
			kw_dirty_add(other, keys[i].database, keys[i].name, keys[i].flags);
		}
		kw_dirty_add_all(dirty, keys, count);
		if (round % 3 == 0)
			take_all_of_both(other);
	}
	take_all_of_both(other);
	kw_dirty_free(other);
}

static void a_batch_marks_keys_in_flight(void **state)
{
	struct kw_dirty_key keys[] = {{kw_slice_text("a"), 3, 0}, {kw_slice_text("b"), 3, 0}};
	struct kw_dirty_entry *a;

	kw_dirty_add_all(dirty, keys, 2);
	a = take("a");
	kw_dirty_add_all(dirty, keys, 2);
	kw_dirty_done(dirty, a);
	kw_dirty_done(dirty, take("b"));
	kw_dirty_done(dirty, take("a"));
	assert_int_equal(kw_dirty_total(dirty), 0);
}

static void long_names_are_kept_whole(void **state)
{
	char name[5001];

	memset(name, 'x', 5000);
	name[5000] = '\0';
	add(name, 0);
	kw_dirty_done(dirty, take(name));
}

static bool watch(const char *name)
{
	return kw_dirty_watch(dirty, 1, 3, kw_slice_text(name));
}

static void a_key_can_be_watched_on_its_way(void **state)
{
	struct kw_dirty_entry *entry;

	assert_int_equal(kw_dirty_watched(dirty, 1), KW_DIRTY_UNSEEN);
	assert_false(watch("a"));
	add("a", 0);
	add("b", 0);
	assert_true(watch("b"));
	assert_int_equal(kw_dirty_watched(dirty, 1), KW_DIRTY_WAITS);
	kw_dirty_done(dirty, take("a"));
	assert_int_equal(kw_dirty_watched(dirty, 1), KW_DIRTY_WAITS);
	entry = take("b");
	assert_int_equal(kw_dirty_watched(dirty, 1), KW_DIRTY_FLIES);
	kw_dirty_delay(dirty, entry, 500);
	assert_int_equal(kw_dirty_watched(dirty, 1), KW_DIRTY_WAITS);
	entry = take("b");
	add("b", 0); /* later than the watch: the answer under way covers what is watched */
	assert_int_equal(kw_dirty_watched(dirty, 1), KW_DIRTY_FLIES);
	kw_dirty_done(dirty, entry);
	assert_int_equal(kw_dirty_watched(dirty, 1), KW_DIRTY_ANSWERED);
	kw_dirty_done(dirty, take("b"));
	assert_int_equal(kw_dirty_watched(dirty, 1), KW_DIRTY_ANSWERED);
}

/* The answer of a flight can be older than an event that came during it. */
static void an_answer_that_can_be_too_old_does_not_end_a_watch(void **state)
{
	struct kw_dirty_entry *entry;

	add("a", 0);
	entry = take("a");
	add("a", 0);
	assert_true(watch("a"));
	assert_int_equal(kw_dirty_watched(dirty, 1), KW_DIRTY_WAITS);
	kw_dirty_done(dirty, entry);
	assert_int_equal(kw_dirty_watched(dirty, 1), KW_DIRTY_WAITS);
	entry = take("a");
	assert_int_equal(kw_dirty_watched(dirty, 1), KW_DIRTY_FLIES);
	kw_dirty_done(dirty, entry);
	assert_int_equal(kw_dirty_watched(dirty, 1), KW_DIRTY_ANSWERED);
}

static void a_parked_key_is_not_watched_any_more(void **state)
{
	add("a", 0);
	assert_true(watch("a"));
	kw_dirty_park(dirty, take("a"), 10);
	assert_int_equal(kw_dirty_watched(dirty, 1), KW_DIRTY_UNSEEN);
	assert_true(watch("a"));
	assert_int_equal(kw_dirty_watched(dirty, 1), KW_DIRTY_WAITS);
}

static void keys_are_watched_side_by_side(void **state)
{
	struct kw_dirty_entry *entry;

	add("a", 0);
	add("b", 0);
	assert_true(watch("a"));
	assert_false(kw_dirty_watch(dirty, 2, 3, kw_slice_text("a")));
	assert_true(kw_dirty_watch(dirty, KW_DIRTY_WATCHES - 1, 3, kw_slice_text("b")));
	entry = take("a");
	kw_dirty_done(dirty, take("b"));
	assert_int_equal(kw_dirty_watched(dirty, KW_DIRTY_WATCHES - 1), KW_DIRTY_ANSWERED);
	assert_int_equal(kw_dirty_watched(dirty, 1), KW_DIRTY_FLIES);
	assert_false(watch("gone")); /* in the place of a */
	kw_dirty_done(dirty, entry);
	assert_int_equal(kw_dirty_watched(dirty, 1), KW_DIRTY_UNSEEN);
	add("a", 0);
	assert_true(kw_dirty_watch(dirty, 0, 3, kw_slice_text("a")));
}

static void overtake(const char *name)
{
	assert_true(kw_dirty_may_overtake(dirty, 3, kw_slice_text(name)));
	kw_dirty_overtake(dirty, 3, kw_slice_text(name));
}

static void a_waiting_key_that_is_overtaken_is_gone(void **state)
{
	add("a", KW_DIRTY_SCAN);
	add("b", 0);
	kw_dirty_mark(dirty);
	overtake("a");
	overtake("nobody knows it");
	assert_int_equal(kw_dirty_total(dirty), 1);
	assert_int_equal(kw_dirty_scanned(dirty), 0);
	assert_false(absorbs("a", 0));
	assert_false(kw_dirty_passed(dirty));
	overtake("b");
	assert_true(kw_dirty_passed(dirty));
	assert_null(kw_dirty_take(dirty, 0));
}

static void a_flying_key_that_is_overtaken_says_so_until_it_lands(void **state)
{
	struct kw_dirty_entry *entry;

	add("a", 0);
	entry = take("a");
	add("a", 0);
	overtake("a");
	kw_dirty_mark(dirty);
	assert_true(entry->overtaken);
	assert_false(kw_dirty_passed(dirty));
	kw_dirty_done(dirty, entry);
	assert_true(kw_dirty_passed(dirty));
	assert_int_equal(kw_dirty_total(dirty), 0); /* the value answered the add in flight, too */
}

static void what_changes_after_it_is_fetched(void **state)
{
	struct kw_dirty_entry *entry;

	add("a", 0);
	entry = take("a");
	overtake("a");
	add("a", KW_DIRTY_TTL);
	kw_dirty_mark(dirty);
	kw_dirty_done(dirty, entry);
	assert_false(kw_dirty_passed(dirty));
	entry = take("a");
	assert_false(entry->overtaken);
	assert_int_equal(entry->flags, KW_DIRTY_TTL);
	kw_dirty_done(dirty, entry);
	assert_true(kw_dirty_passed(dirty));
}

static void an_overtaken_flight_that_is_lost_counts_again(void **state)
{
	struct kw_dirty_entry *entry;

	add("a", 0);
	entry = take("a");
	overtake("a");
	kw_dirty_retry(dirty, entry, 0);
	assert_false(take("a")->overtaken);
}

static bool owes(const char *name)
{
	return kw_dirty_owes(dirty, 3, kw_slice_text(name));
}

static void a_key_owes_until_it_is_answered_or_overtaken(void **state)
{
	struct kw_dirty_entry *entry;

	assert_false(owes("a"));
	add("a", 0);
	assert_true(owes("a"));
	entry = take("a");
	assert_true(owes("a"));
	overtake("a");
	assert_false(owes("a")); /* although it is in the set */
	assert_int_equal(kw_dirty_total(dirty), 1);
	add("a", 0);
	assert_true(owes("a"));
	overtake("a");
	kw_dirty_retry(dirty, entry, 0);
	assert_true(owes("a")); /* it is asked for again, and that answer will be used */
	overtake("a");
	assert_false(owes("a"));
}

static void delayed_and_parked_keys_are_not_overtaken(void **state)
{
	add("a", 0);
	add("b", 0);
	kw_dirty_delay(dirty, take("a"), 5000);
	kw_dirty_park(dirty, take("b"), 100);
	assert_false(kw_dirty_may_overtake(dirty, 3, kw_slice_text("a")));
	assert_false(kw_dirty_may_overtake(dirty, 3, kw_slice_text("b")));
	assert_true(owes("a"));
	assert_true(owes("b"));
}

static bool owes_any(uint32_t database)
{
	struct kw_databases databases = {0};
	bool any;

	kw_databases_add(&databases, database);
	any = kw_dirty_owes_any(dirty, &databases);
	kw_databases_close(&databases);
	return any;
}

static void a_flight_that_was_overtaken_owes_nothing_to_its_database(void **state)
{
	add("a", 0);
	take("a");
	assert_true(owes_any(3));
	overtake("a");
	assert_int_equal(kw_dirty_total(dirty), 1);
	assert_false(owes_any(3));
	add("a", 0);
	assert_true(owes_any(3));
}

static void a_database_is_overtaken_as_a_whole(void **state)
{
	struct kw_databases databases = {0};
	struct kw_dirty_entry *entry;

	add("flies", 0);
	add("waits too long", 0);
	entry = take("flies");
	kw_dirty_delay(dirty, take("waits too long"), 5000);
	add("flies", 0);
	for (int i = 0; i < 1000; i++) {
		char name[8];

		snprintf(name, sizeof name, "%d", i);
		add(name, i % 2 ? KW_DIRTY_SCAN | KW_DIRTY_EVENT : 0);
	}
	kw_dirty_add(dirty, 4, kw_slice_text("elsewhere"), 0);
	kw_databases_add(&databases, 3);
	kw_dirty_overtake_databases(dirty, &databases);
	kw_databases_close(&databases);
	assert_int_equal(kw_dirty_total(dirty), 3);
	assert_int_equal(kw_dirty_scanned(dirty), 0);
	assert_true(entry->overtaken);
	assert_false(owes("flies"));
	assert_true(owes("waits too long"));
	assert_true(kw_dirty_owes(dirty, 4, kw_slice_text("elsewhere")));
	assert_true(owes_any(3));
	assert_true(owes_any(4));
	assert_false(owes_any(5));
	kw_dirty_done(dirty, entry);
	assert_int_equal(kw_dirty_total(dirty), 2);
}

static void what_only_a_scan_named_is_fetched_after_its_database_was_overtaken(void **state)
{
	struct kw_databases databases = {0};
	struct kw_dirty_entry *entry;

	add("flies", KW_DIRTY_SCAN);
	entry = take("flies");
	add("waits", KW_DIRTY_SCAN);
	kw_databases_add(&databases, 3);
	kw_dirty_overtake_databases(dirty, &databases);
	kw_dirty_overtake_databases(dirty, &databases);
	kw_databases_close(&databases);
	assert_true(entry->overtaken);
	assert_int_equal(kw_dirty_scanned(dirty), 2);
	kw_dirty_done(dirty, entry);
	entry = take("waits");
	assert_false(entry->overtaken);
	kw_dirty_done(dirty, entry);
	entry = take("flies");
	assert_false(entry->overtaken);
	assert_int_equal(entry->flags, KW_DIRTY_SCAN);
	kw_dirty_done(dirty, entry);
	assert_int_equal(kw_dirty_scanned(dirty), 0);
	assert_int_equal(kw_dirty_total(dirty), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make, drop)
	const struct CMUnitTest tests[] = {
		TEST(a_key_is_in_it_once),
		TEST(keys_come_in_the_order_they_got_dirty),
		TEST(names_may_hold_any_bytes_or_none),
		TEST(a_key_dirty_in_flight_is_fetched_again),
		TEST(only_a_waiting_key_absorbs_an_event),
		TEST(an_event_with_a_new_flag_is_not_absorbed),
		TEST(many_waiting_keys_are_told_from_those_taken),
		TEST(a_flag_stays_until_it_is_answered),
		TEST(delayed_keys_come_when_they_are_due),
		TEST(parked_keys_wait_for_room_or_for_a_change),
		TEST(a_key_dirty_in_flight_is_not_parked),
		TEST(a_key_that_found_no_room_owes_its_expiry),
		TEST(a_scan_knows_when_its_keys_are_done),
		TEST(the_barrier_waits_for_all_before_it_and_nothing_else),
		TEST(the_barrier_waits_for_delayed_and_parked_keys),
		TEST(random_moves_agree_with_a_model),
		TEST(memory_is_bounded_by_distinct_keys_and_given_back),
		TEST(a_batch_is_the_same_as_its_keys_one_by_one),
		TEST(a_batch_marks_keys_in_flight),
		TEST(long_names_are_kept_whole),
		TEST(a_key_can_be_watched_on_its_way),
		TEST(an_answer_that_can_be_too_old_does_not_end_a_watch),
		TEST(a_parked_key_is_not_watched_any_more),
		TEST(keys_are_watched_side_by_side),
		TEST(a_waiting_key_that_is_overtaken_is_gone),
		TEST(a_flying_key_that_is_overtaken_says_so_until_it_lands),
		TEST(what_changes_after_it_is_fetched),
		TEST(an_overtaken_flight_that_is_lost_counts_again),
		TEST(a_key_owes_until_it_is_answered_or_overtaken),
		TEST(delayed_and_parked_keys_are_not_overtaken),
		TEST(a_flight_that_was_overtaken_owes_nothing_to_its_database),
		TEST(a_database_is_overtaken_as_a_whole),
		TEST(what_only_a_scan_named_is_fetched_after_its_database_was_overtaken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
