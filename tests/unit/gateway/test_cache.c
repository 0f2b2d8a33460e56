/* The near cache against a model: what it gives back is never older than what the log has told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gateway/table/cache.h"

#include <stdio.h>
#include <string.h>

#define SIZE (UINT64_C(256) << 10)

static uint64_t random_state = 88172645463325252;

static uint64_t dice(uint64_t sides)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state % sides;
}

static struct kw_cache_value text(const char *payload, uint64_t version)
{
	return (struct kw_cache_value){
		.payload = kw_slice_text(payload), .kind = KW_VALUE_STRING, .version = version};
}

static void put(struct kw_cache *cache, uint32_t database, const char *key, const char *payload,
	uint64_t version)
{
	struct kw_cache_value value = text(payload, version);

	kw_cache_put(cache, kw_cache_ticket(cache), database, kw_slice_text(key), &value);
}

static bool has(struct kw_cache *cache, uint32_t database, const char *key)
{
	struct kw_cache_value value;

	return kw_cache_find(cache, database, kw_slice_text(key), &value);
}

static void tell(struct kw_cache *cache, enum kw_record_kind kind, uint32_t database,
	const char *key, uint64_t version)
{
	const struct kw_record_view record = {
		.version = version, .database = database, .kind = kind, .key = kw_slice_text(key)};

	kw_cache_records(cache, &record, 1);
}

static struct kw_cache_stats stats_of(const struct kw_cache *cache)
{
	struct kw_cache_stats stats;

	kw_cache_stats(cache, &stats);
	return stats;
}

static void what_was_put_is_found_with_all_that_is_known_of_it(void **state)
{
	struct kw_cache *cache = kw_cache_new(SIZE, 1);
	struct kw_cache_value value = text("value", 7), found;

	value.expires_ms = 99;
	value.kind = KW_VALUE_HASH;
	kw_cache_put(cache, kw_cache_ticket(cache), 3, kw_slice("k\0y", 3), &value);
	assert_true(kw_cache_find(cache, 3, kw_slice("k\0y", 3), &found));
	assert_true(kw_slice_equal(found.payload, value.payload));
	assert_int_equal(found.version, 7);
	assert_int_equal(found.expires_ms, 99);
	assert_int_equal(found.kind, KW_VALUE_HASH);
	assert_false(has(cache, 2, "k"));
	assert_false(kw_cache_find(cache, 2, kw_slice("k\0y", 3), &found));
	assert_int_equal(stats_of(cache).hits, 1);
	assert_int_equal(stats_of(cache).misses, 2);
	kw_cache_free(cache);
}

static void newer_records_drop_entries_and_others_do_not(void **state)
{
	struct kw_cache *cache = kw_cache_new(SIZE, 1);

	put(cache, 0, "a", "one", 5);
	put(cache, 0, "b", "two", 6);
	put(cache, 1, "a", "three", 7);
	tell(cache, KW_RECORD_PUT, 0, "a", 5); /* the very record that was found */
	tell(cache, KW_RECORD_PUT, 0, "c", 8);
	assert_true(has(cache, 0, "a"));
	tell(cache, KW_RECORD_PUT, 0, "a", 9);
	assert_false(has(cache, 0, "a"));
	assert_true(has(cache, 0, "b"));
	tell(cache, KW_RECORD_DELETE, 0, "b", 10);
	assert_false(has(cache, 0, "b"));
	assert_true(has(cache, 1, "a"));
	assert_int_equal(stats_of(cache).invalidated, 2);
	kw_cache_free(cache);
}

/* Two lookups of one key: the one that began first ends last. */
static void what_was_told_to_be_gone_does_not_come_back(void **state)
{
	struct kw_cache *cache = kw_cache_new(SIZE, 1);
	const struct kw_cache_value old = text("old", 5);
	static char bytes[SIZE];
	struct kw_cache_value large = {
		.payload = kw_slice(bytes, sizeof bytes), .kind = KW_VALUE_STRING, .version = 6};
	uint64_t ticket = kw_cache_ticket(cache);

	kw_cache_forget(cache, 0, kw_slice_text("a"));
	kw_cache_put(cache, ticket, 0, kw_slice_text("a"), &old);
	assert_false(has(cache, 0, "a"));
	kw_cache_put(cache, ticket, 0, kw_slice_text("b"), &large);
	kw_cache_put(cache, ticket, 0, kw_slice_text("b"), &old);
	assert_false(has(cache, 0, "b"));
	/* The next superblock covers both. */
	kw_cache_covered(cache, 6);
	put(cache, 0, "a", "new", 7);
	assert_true(has(cache, 0, "a"));
	kw_cache_free(cache);
}

static void a_flush_empties_its_database_and_no_other(void **state)
{
	struct kw_cache *cache = kw_cache_new(SIZE, 1);

	put(cache, 0, "a", "one", 5);
	put(cache, 1, "a", "two", 6);
	tell(cache, KW_RECORD_FLUSH, 0, "", 7);
	assert_false(has(cache, 0, "a"));
	assert_true(has(cache, 1, "a"));
	assert_int_equal(stats_of(cache).entries, 1);
	kw_cache_covered(cache, 7);
	put(cache, 0, "a", "three", 8);
	assert_true(has(cache, 0, "a"));
	kw_cache_clear(cache);
	assert_int_equal(stats_of(cache).entries, 0);
	assert_false(has(cache, 0, "a"));
	assert_false(has(cache, 1, "a"));
	kw_cache_free(cache);
}

/* The record that replaced it came while the lookup was under way, or was not covered yet. */
static void a_value_that_might_be_old_is_refused(void **state)
{
	static const struct {
		enum kw_record_kind kind;
		bool before;  /* the record comes before the lookup begins … */
		bool covered; /* … and a superblock that covers it */
		bool kept;
	} cases[] = {
		{KW_RECORD_PUT, false, false, false},
		{KW_RECORD_PUT, true, false, false},
		{KW_RECORD_PUT, true, true, true},
		{KW_RECORD_FLUSH, false, false, false},
		{KW_RECORD_FLUSH, true, false, false},
		{KW_RECORD_FLUSH, true, true, true},
	};
	const struct kw_cache_value value = text("value", 5);

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct kw_cache *cache = kw_cache_new(SIZE, 1);
		uint64_t ticket;

		if (cases[i].before)
			tell(cache, cases[i].kind, 0, "a", 8);
		kw_cache_covered(cache, cases[i].covered ? 8 : 7);
		ticket = kw_cache_ticket(cache);
		if (!cases[i].before)
			tell(cache, cases[i].kind, 0, "a", 8);
		kw_cache_put(cache, ticket, 0, kw_slice_text("a"), &value);
		assert_int_equal(has(cache, 0, "a"), cases[i].kept);
		assert_int_equal(stats_of(cache).refused, !cases[i].kept);
		kw_cache_free(cache);
	}
}

static void a_lookup_that_began_before_all_was_missed_is_refused(void **state)
{
	struct kw_cache *cache = kw_cache_new(SIZE, 1);
	const struct kw_cache_value value = text("value", 5);
	uint64_t ticket = kw_cache_ticket(cache);

	kw_cache_clear(cache);
	kw_cache_put(cache, ticket, 0, kw_slice_text("a"), &value);
	put(cache, 0, "a", "value", 5); /* no superblock was told since */
	assert_false(has(cache, 0, "a"));
	kw_cache_covered(cache, 1);
	put(cache, 0, "a", "value", 5);
	assert_true(has(cache, 0, "a"));
	kw_cache_free(cache);
}

static void memory_is_bounded_and_what_is_asked_for_stays(void **state)
{
	struct kw_cache *cache = kw_cache_new(SIZE, 1);
	static char payload[SIZE];
	struct kw_cache_value value = {.payload = kw_slice(payload, SIZE / 8)};
	char key[32];
	int stayed = 0;

	kw_cache_put(cache, kw_cache_ticket(cache), 0, kw_slice_text("large"), &value);
	assert_false(has(cache, 0, "large"));
	put(cache, 0, "hot", "value", 1);
	for (int i = 0; i < 20000; i++) {
		snprintf(key, sizeof key, "key-%d", i);
		value.payload.length = dice(300);
		kw_cache_put(cache, kw_cache_ticket(cache), 0, kw_slice_text(key), &value);
		assert_true(stats_of(cache).bytes <= SIZE);
		stayed += has(cache, 0, "hot");
	}
	assert_int_equal(stayed, 20000);
	assert_true(stats_of(cache).evicted > 10000);
	assert_true(stats_of(cache).bytes > SIZE / 2);
	kw_cache_free(cache);
}

/* ---- the model ---- */

#define KEYS 64
#define DATABASES 3
#define LOG 1024
#define LOOKUPS 32
#define STEPS 400000

struct change {
	enum kw_record_kind kind;
	uint32_t database, key;
	uint64_t version;
};

struct lookup {
	bool begun;
	uint32_t database, key;
	uint64_t ticket;
	uint64_t found; /* the version that it will bring; 0: none */
};

/* The table's present, what the log has told, and what is between: a ring of changes. */
struct model {
	struct kw_cache *cache;
	uint64_t present[DATABASES][KEYS], told[DATABASES][KEYS]; /* 0: absent */
	struct change log[LOG];
	uint64_t version, told_version, superblock;
	uint64_t seen[DATABASES][KEYS]; /* by the superblock that the lookups know */
	struct lookup lookups[LOOKUPS];
	uint64_t hits;
};

static void apply(uint64_t keys[DATABASES][KEYS], const struct change *change)
{
	if (change->kind == KW_RECORD_FLUSH)
		memset(keys[change->database], 0, sizeof keys[change->database]);
	else
		keys[change->database][change->key] =
			change->kind == KW_RECORD_PUT ? change->version : 0;
}

static void write_one(struct model *model)
{
	struct change change = {.kind = dice(200) == 0 ? KW_RECORD_FLUSH
					: dice(4) == 0 ? KW_RECORD_DELETE
						       : KW_RECORD_PUT,
		.database = (uint32_t)dice(DATABASES),
		.key = (uint32_t)dice(KEYS),
		.version = model->version + 1};

	if (model->version - model->told_version == LOG)
		return;
	model->version++;
	model->log[change.version % LOG] = change;
	apply(model->present, &change);
}

static void tell_one(struct model *model)
{
	const struct change *change = &model->log[(model->told_version + 1) % LOG];
	char key[16];

	if (model->told_version == model->version)
		return;
	model->told_version++;
	apply(model->told, change);
	snprintf(key, sizeof key, "%u", change->key);
	tell(model->cache, change->kind, change->database, key, change->version);
}

/* A superblock covers all that is written; lookups know it from now on. */
static void look(struct model *model)
{
	memcpy(model->seen, model->present, sizeof model->seen);
	kw_cache_covered(model->cache, model->version);
}

/*
 * What a lookup finds: the present of some moment while it is under way, or (a place that the
 * cleaner left) what the superblock known when it began covers.
 */
static void sample(const struct model *model, struct lookup *lookup)
{
	lookup->found = model->present[lookup->database][lookup->key];
}

static void step_lookup(struct model *model, struct lookup *lookup)
{
	char key[16];

	if (!lookup->begun) {
		lookup->begun = true;
		lookup->database = (uint32_t)dice(DATABASES);
		lookup->key = (uint32_t)dice(KEYS);
		lookup->ticket = kw_cache_ticket(model->cache);
		lookup->found = model->seen[lookup->database][lookup->key];
		return;
	}
	if (dice(2) == 0) {
		sample(model, lookup);
		return;
	}
	lookup->begun = false;
	if (lookup->found == 0)
		return;
	snprintf(key, sizeof key, "%u", lookup->key);
	kw_cache_put(model->cache, lookup->ticket, lookup->database, kw_slice_text(key),
		&(struct kw_cache_value){
			.payload = kw_slice(&lookup->found, 8), .version = lookup->found});
}

static void check_one(struct model *model)
{
	uint32_t database = (uint32_t)dice(DATABASES), number = (uint32_t)dice(KEYS);
	struct kw_cache_value value;
	char key[16];

	snprintf(key, sizeof key, "%u", number);
	if (!kw_cache_find(model->cache, database, kw_slice_text(key), &value))
		return;
	model->hits++;
	assert_memory_equal(value.payload.data, &value.version, 8);
	/* No older than what was told; newer is right, too. */
	if (value.version <= model->told_version)
		assert_int_equal(value.version, model->told[database][number]);
}

static void no_hit_is_older_than_what_the_log_has_told(void **state)
{
	static struct model model;

	model = (struct model){.cache = kw_cache_new(KW_CACHE_BYTES_LEAST, 3)};
	for (int i = 0; i < STEPS; i++) {
		switch (dice(16)) {
		case 0:
			write_one(&model);
			break;
		case 1:
		case 2:
			tell_one(&model);
			break;
		case 3:
			look(&model);
			break;
		case 4:
			if (dice(2000) == 0)
				kw_cache_clear(model.cache);
			break;
		case 5:
		case 6:
		case 7:
		case 8:
			step_lookup(&model, &model.lookups[dice(LOOKUPS)]);
			break;
		default:
			check_one(&model);
		}
		assert_true(stats_of(model.cache).bytes <= KW_CACHE_BYTES_LEAST);
	}
	assert_true(model.hits > STEPS / 16);
	assert_true(stats_of(model.cache).refused > 100);
	kw_cache_free(model.cache);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_put_is_found_with_all_that_is_known_of_it),
		cmocka_unit_test(newer_records_drop_entries_and_others_do_not),
		cmocka_unit_test(what_was_told_to_be_gone_does_not_come_back),
		cmocka_unit_test(a_flush_empties_its_database_and_no_other),
		cmocka_unit_test(a_value_that_might_be_old_is_refused),
		cmocka_unit_test(a_lookup_that_began_before_all_was_missed_is_refused),
		cmocka_unit_test(memory_is_bounded_and_what_is_asked_for_stays),
		cmocka_unit_test(no_hit_is_older_than_what_the_log_has_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
