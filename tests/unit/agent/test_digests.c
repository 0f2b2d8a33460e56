/*
 * The digest index against a map, and what is believed of it.
 */
#include "index/digests.h"

#include "base/hash.h"
#include "rdb/payload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define SEED UINT64_C(0x9e3779b97f4a7c15)
#define ROOM 64

/* ---- records ---- */

struct text {
	char key[32];
	uint8_t value[ROOM];
	size_t length;
};

/* A string as DUMP writes it. The CRC64 takes no part in a digest. */
static size_t payload_of(uint8_t *bytes, const char *text)
{
	size_t length = strlen(text);

	assert_true(length < 63 - KW_PAYLOAD_FOOTER);
	memset(bytes, 0, ROOM);
	bytes[0] = 0;
	bytes[1] = (uint8_t)length;
	memcpy(bytes + 2, text, length);
	bytes[2 + length] = 9;
	return 2 + length + KW_PAYLOAD_FOOTER;
}

static struct kw_record_view put_of(
	struct text *text, uint32_t database, unsigned key, unsigned value, uint64_t expires_ms)
{
	char words[24];

	snprintf(text->key, sizeof text->key, "key:%u", key);
	snprintf(words, sizeof words, "value %u", value);
	text->length = payload_of(text->value, words);
	return (struct kw_record_view){
		.kind = KW_RECORD_PUT,
		.database = database,
		.expires_ms = expires_ms,
		.key = kw_slice(text->key, strlen(text->key)),
		.value = kw_slice(text->value, text->length),
	};
}

static struct kw_record_view delete_of(struct text *text, uint32_t database, unsigned key)
{
	struct kw_record_view record = put_of(text, database, key, 0, 0);

	record.kind = KW_RECORD_DELETE;
	record.value = (struct kw_slice){0};
	return record;
}

static void note_put(struct kw_digests *index, uint32_t database, unsigned key, unsigned value)
{
	struct text text;
	struct kw_record_view record = put_of(&text, database, key, value, 0);

	kw_digests_note(index, &record, 1);
}

/* Would a snapshot's record of this key be handed on? */
static bool differs(struct kw_digests *index, uint32_t database, unsigned key, unsigned value)
{
	struct text text;
	struct kw_record_view record = put_of(&text, database, key, value, 0);

	return kw_digests_compare(index, &record, 1) != 0;
}

static bool has(const struct kw_digests *index, uint32_t database, unsigned key)
{
	char name[32];

	snprintf(name, sizeof name, "key:%u", key);
	return kw_digests_has(index, database, kw_slice(name, strlen(name)));
}

static struct kw_digests *sound(void)
{
	static struct kw_digests index;

	kw_digests_init(&index, true, SEED);
	assert_false(kw_digests_begin(&index, true));
	for (unsigned key = 0; key < 100; key++)
		note_put(&index, 0, key, key);
	kw_digests_complete(&index);
	assert_int_equal(kw_digests_state(&index), KW_DIGESTS_SOUND);
	return &index;
}

/* ---- the shard against a plain list ---- */

#define KEYS 4000

static void a_shard_equals_a_map(void **state)
{
	static uint64_t map[KEYS];
	struct kw_digests_shard shard = {0};
	uint32_t count = 0;

	memset(map, 0, sizeof map);
	srand(7);
	for (unsigned step = 0; step < 200000; step++) {
		unsigned i = (unsigned)rand() % KEYS;
		/* Keys that crowd at the end of the shard, so that runs go round it. */
		uint64_t key = kw_hash_key(i % 3 ? SEED : 1, 0, &i, sizeof i) |
			       (i % 5 ? 1 : UINT64_C(0xfffff000000001));
		bool fresh;

		if (rand() % 5 < 3) {
			kw_shard_put(&shard, key, &fresh)->value = step;
			assert_int_equal(fresh, map[i] == 0);
			count += fresh;
			map[i] = step + 1;
		} else {
			assert_int_equal(kw_shard_remove(&shard, key), map[i] > 0);
			count -= map[i] > 0;
			map[i] = 0;
		}
		assert_int_equal(shard.count, count);
		assert_true(count * 100ull <= shard.capacity * 85ull);
	}
	for (unsigned i = 0; i < KEYS; i++) {
		uint64_t key = kw_hash_key(i % 3 ? SEED : 1, 0, &i, sizeof i) |
			       (i % 5 ? 1 : UINT64_C(0xfffff000000001));
		struct kw_digests_entry *entry = kw_shard_find(&shard, key);

		assert_int_equal(entry != NULL, map[i] > 0);
		if (entry)
			assert_int_equal(entry->value, map[i] - 1);
	}
	kw_shard_close(&shard);
}

static void a_sweep_leaves_the_marked_ones_to_be_found(void **state)
{
	struct kw_digests_shard shard = {0};
	bool fresh;

	for (uint64_t key = 1; key <= 1000; key++)
		kw_shard_put(&shard, key * UINT64_C(0x12345678901), &fresh)->value =
			key % 3 ? 0 : KW_DIGESTS_MARK;
	assert_int_equal(kw_shard_sweep(&shard, KW_DIGESTS_MARK), 667);
	for (uint64_t key = 1; key <= 1000; key++)
		assert_int_equal(
			kw_shard_find(&shard, key * UINT64_C(0x12345678901)) != NULL, key % 3 == 0);
	assert_int_equal(kw_shard_sweep(&shard, KW_DIGESTS_MARK), 0);
	assert_int_equal(kw_shard_sweep(&shard, 0), 333);
	assert_int_equal(shard.capacity, 0);
	kw_shard_close(&shard);
}

/* ---- the index against a map ---- */

#define DATABASES 3
#define MODEL_KEYS 600

struct model {
	struct {
		unsigned value; /* 0: not there */
		bool nothing;   /* disbelieved */
		bool shown;     /* by this snapshot */
	} keys[DATABASES][MODEL_KEYS];
};

static void check_model(const struct kw_digests *index, const struct model *model)
{
	uint64_t keys = 0;

	for (uint32_t d = 0; d < DATABASES; d++) {
		uint64_t of_database = 0;

		for (unsigned k = 0; k < MODEL_KEYS; k++) {
			assert_int_equal(has(index, d, k), model->keys[d][k].value > 0);
			of_database += model->keys[d][k].value > 0;
		}
		assert_int_equal(kw_digests_database_keys(index, d), of_database);
		keys += of_database;
	}
	assert_int_equal(index->keys, keys);
}

static void model_put(struct model *model, uint32_t d, unsigned k, unsigned value)
{
	model->keys[d][k].value = value;
	model->keys[d][k].nothing = false;
	model->keys[d][k].shown = true;
}

static void change(struct kw_digests *index, struct model *model)
{
	uint32_t d = (uint32_t)rand() % DATABASES;
	unsigned k = (unsigned)rand() % MODEL_KEYS, value = 1 + (unsigned)rand() % 5;
	struct text text;
	struct kw_record_view record;

	switch (rand() % 8) {
	case 0:
	case 1:
		record = delete_of(&text, d, k);
		kw_digests_note(index, &record, 1);
		model->keys[d][k].value = 0;
		break;
	case 2:
		kw_digests_disbelieve(index, d, delete_of(&text, d, k).key);
		model->keys[d][k].nothing = true;
		break;
	case 3:
		if (rand() % 50)
			break;
		record = (struct kw_record_view){.kind = KW_RECORD_FLUSH, .database = d};
		kw_digests_note(index, &record, 1);
		for (k = 0; k < MODEL_KEYS; k++)
			model->keys[d][k].value = 0;
		break;
	default:
		note_put(index, d, k, value);
		model_put(model, d, k, value);
	}
}

/* A snapshot that is read to its end, or only in part. */
static void snapshot(struct kw_digests *index, struct model *model, bool whole)
{
	assert_true(kw_digests_begin(index, true));
	for (uint32_t d = 0; d < DATABASES; d++)
		for (unsigned k = 0; k < MODEL_KEYS; k++)
			model->keys[d][k].shown = false;
	for (uint32_t d = 0; d < DATABASES; d++) {
		for (unsigned k = 0; k < MODEL_KEYS; k++) {
			unsigned value =
				rand() % 4 ? model->keys[d][k].value : 1 + (unsigned)rand() % 5;
			bool equal = model->keys[d][k].value == value && value > 0 &&
				     !model->keys[d][k].nothing;

			if (value == 0 || rand() % 10 == 0)
				continue;
			assert_int_equal(differs(index, d, k, value), !equal);
			model_put(model, d, k, value);
		}
		if (!whole)
			return;
	}
	kw_digests_sweep(index);
	for (uint32_t d = 0; d < DATABASES; d++)
		for (unsigned k = 0; k < MODEL_KEYS; k++)
			if (!model->keys[d][k].shown)
				model->keys[d][k].value = 0;
}

static void an_index_equals_a_map(void **state)
{
	static struct model model;
	struct kw_digests index;

	memset(&model, 0, sizeof model);
	srand(11);
	kw_digests_init(&index, true, SEED);
	kw_digests_begin(&index, true);
	for (unsigned round = 0; round < 60; round++) {
		for (unsigned i = 0; i < 2000; i++)
			change(&index, &model);
		check_model(&index, &model);
		snapshot(&index, &model, round % 3 > 0);
		check_model(&index, &model);
	}
	kw_digests_close(&index);
	assert_int_equal(index.bytes, 0);
}

static void it_takes_19_to_24_bytes_a_key(void **state)
{
	struct kw_digests index;
	uint64_t least = UINT64_MAX, most = 0;

	kw_digests_init(&index, true, SEED);
	for (unsigned key = 0; key < 1000000; key++) {
		note_put(&index, 0, key, 1);
		if (key < 300000 || key % 1000)
			continue;
		least = index.bytes * 10 / index.keys < least ? index.bytes * 10 / index.keys
							      : least;
		most = index.bytes * 10 / index.keys > most ? index.bytes * 10 / index.keys : most;
	}
	assert_int_equal(index.keys, 1000000);
	assert_true(least >= 187);
	assert_true(most <= 236);
	kw_digests_close(&index);
}

/* ---- what is believed ---- */

static void an_equal_record_is_passed_over_and_others_are_not(void **state)
{
	struct kw_digests *index = sound();
	struct text text;
	struct kw_record_view record;

	assert_true(kw_digests_begin(index, true));
	assert_false(differs(index, 0, 1, 1));
	assert_true(differs(index, 0, 2, 3));
	assert_true(differs(index, 1, 1, 1));   /* another database */
	assert_true(differs(index, 0, 500, 1)); /* a new key */
	record = put_of(&text, 0, 3, 3, 1700000000000);
	assert_int_equal(kw_digests_compare(index, &record, 1), 1); /* another expiry */
	assert_int_equal(kw_digests_compare(index, &record, 1), 0);
	assert_int_equal(index->compared, 6);
	assert_int_equal(index->differing, 4);
	kw_digests_close(index);
}

static void a_value_without_a_digest_is_handed_on_each_time(void **state)
{
	struct kw_digests *index = sound();
	struct text text;
	struct kw_record_view record = put_of(&text, 0, 1, 1, 0);

	text.value[0] = 0xee; /* no type */
	assert_true(kw_digests_begin(index, true));
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(kw_digests_compare(index, &record, 1), 1);
	assert_true(has(index, 0, 1)); /* the key is there all the same */
	kw_digests_close(index);
}

static void a_refused_key_is_handed_on_again_and_kept(void **state)
{
	struct kw_digests *index = sound();

	kw_digests_disbelieve(index, 0, kw_slice_text("key:7"));
	kw_digests_disbelieve(index, 0, kw_slice_text("key:not there"));
	assert_int_equal(index->keys, 100);
	assert_true(kw_digests_begin(index, true));
	assert_true(differs(index, 0, 7, 7));
	assert_false(differs(index, 0, 7, 7));
	kw_digests_close(index);
}

/* The snapshot was interrupted: what it showed, and what it did not show, counts anew. */
static void a_compare_after_half_a_compare_begins_anew(void **state)
{
	struct kw_digests *index = sound();

	assert_true(kw_digests_begin(index, true));
	for (unsigned key = 0; key < 50; key++)
		assert_false(differs(index, 0, key, key));
	assert_true(kw_digests_begin(index, true));
	for (unsigned key = 50; key < 100; key++)
		assert_false(differs(index, 0, key, key));
	assert_int_equal(kw_digests_sweep(index), 50);
	for (unsigned key = 0; key < 100; key++)
		assert_int_equal(has(index, 0, key), key >= 50);
	kw_digests_close(index);
}

static void every_event_ends_in_doubt_or_in_nothing(void **state)
{
	for (int event = 0; event < KW_DIGESTS_EVENTS; event++) {
		struct kw_digests *index = sound();
		bool forgets = event >= KW_DIGESTS_ASSESSED;

		kw_digests_tell(index, (enum kw_digests_event)event);
		assert_int_equal(
			kw_digests_state(index), forgets ? KW_DIGESTS_EMPTY : KW_DIGESTS_DOUBTED);
		assert_int_equal(index->keys, forgets ? 0 : 100);
		assert_true(strlen(kw_digests_event_text((enum kw_digests_event)event)) > 0);
		/* No snapshot is compared with it: it begins empty. */
		assert_false(kw_digests_is_believed(index));
		assert_false(kw_digests_begin(index, true));
		assert_int_equal(index->keys, 0);
		assert_int_equal(kw_digests_state(index), KW_DIGESTS_BUILDING);
		kw_digests_close(index);
	}
}

static void a_doubt_ends_with_a_round_that_began_after_it(void **state)
{
	struct kw_digests *index = sound();
	uint64_t before;

	kw_digests_tell(index, KW_DIGESTS_WRITTEN);
	before = index->doubts;
	kw_digests_tell(index, KW_DIGESTS_WRITTEN);
	kw_digests_proven(index, before);
	assert_int_equal(kw_digests_state(index), KW_DIGESTS_DOUBTED);
	kw_digests_proven(index, index->doubts);
	assert_int_equal(kw_digests_state(index), KW_DIGESTS_SOUND);
	kw_digests_close(index);
}

/*
 * Keys that the snapshot did not have wait for approval, and are there all the time. If the next
 * snapshot took the index for whole, it would not look for them.
 */
static void keys_that_are_left_over_are_known_to_be(void **state)
{
	struct kw_digests *index = sound();

	assert_true(kw_digests_begin(index, true));
	for (unsigned key = 0; key < 99; key++)
		assert_false(differs(index, 0, key, key));
	assert_int_equal(kw_digests_sweep(index), 1);
	assert_int_equal(kw_digests_state(index), KW_DIGESTS_BUILDING);
	assert_true(kw_digests_begin(index, true));
	for (unsigned key = 0; key < 99; key++)
		assert_false(differs(index, 0, key, key));
	assert_int_equal(kw_digests_sweep(index), 0);
	assert_int_equal(kw_digests_state(index), KW_DIGESTS_BUILDING);
	kw_digests_complete(index); /* pruned */
	assert_int_equal(kw_digests_state(index), KW_DIGESTS_SOUND);
	kw_digests_close(index);
}

static void an_incomplete_index_is_no_sound_one_after_a_doubt(void **state)
{
	struct kw_digests *index = sound();

	assert_false(kw_digests_disbelieve(index, 0, kw_slice_text("key:not there")));
	assert_true(kw_digests_disbelieve(index, 0, kw_slice_text("key:1")));
	kw_digests_tell(index, KW_DIGESTS_WRITTEN);
	kw_digests_incomplete(index);
	kw_digests_proven(index, index->doubts);
	assert_int_equal(kw_digests_state(index), KW_DIGESTS_BUILDING);
	kw_digests_close(index);
}

/* While keys are missing, a round of the audit does not bring them. */
static void a_doubted_build_goes_on_as_a_build(void **state)
{
	struct kw_digests index;

	kw_digests_init(&index, true, SEED);
	kw_digests_tell(&index, KW_DIGESTS_EVICTED); /* there is nothing to be doubted */
	assert_int_equal(kw_digests_state(&index), KW_DIGESTS_EMPTY);
	note_put(&index, 0, 1, 1);
	assert_int_equal(kw_digests_state(&index), KW_DIGESTS_BUILDING);
	kw_digests_tell(&index, KW_DIGESTS_RESET);
	kw_digests_proven(&index, index.doubts);
	assert_int_equal(kw_digests_state(&index), KW_DIGESTS_BUILDING);
	kw_digests_tell(&index, KW_DIGESTS_RESET);
	kw_digests_complete(&index);
	kw_digests_proven(&index, index.doubts);
	assert_int_equal(kw_digests_state(&index), KW_DIGESTS_SOUND);
	kw_digests_close(&index);
}

/* ---- what is learned from a comparison ---- */

static void learn(struct kw_digests *index, unsigned key, unsigned value, uint64_t since)
{
	struct text text;
	struct kw_record_view record = put_of(&text, 0, key, value, 0);
	struct kw_digests_found found = {.key = record.key, .since = since};

	assert_int_equal(kw_payload_digest(record.value, &found.digest, NULL), KW_OK);
	kw_digests_learn(index, &found);
}

static void a_key_that_was_compared_is_passed_over(void **state)
{
	struct kw_digests index;

	kw_digests_init(&index, true, SEED);
	learn(&index, 1, 1, 0);
	assert_int_equal(kw_digests_state(&index), KW_DIGESTS_BUILDING);
	assert_true(kw_digests_begin(&index, true));
	assert_false(differs(&index, 0, 1, 1));
	assert_true(differs(&index, 0, 2, 2));
	kw_digests_close(&index);
}

/* The table was asked before the log brought the change, and the server after it. */
static void what_the_log_brought_meanwhile_wins(void **state)
{
	struct kw_digests index;
	struct text text;
	struct kw_record_view record;
	uint64_t since;

	kw_digests_init(&index, true, SEED);
	note_put(&index, 0, 1, 7);
	since = index.removals;
	learn(&index, 1, 1, since);
	record = delete_of(&text, 0, 2);
	kw_digests_note(&index, &record, 1);
	learn(&index, 2, 2, since);
	assert_false(has(&index, 0, 2));
	learn(&index, 3, 3, since); /* another key */
	assert_true(has(&index, 0, 3));
	learn(&index, 2, 2, index.removals); /* compared after the deletion */
	assert_true(has(&index, 0, 2));
	since = index.removals;
	record = (struct kw_record_view){.kind = KW_RECORD_FLUSH};
	kw_digests_note(&index, &record, 1);
	learn(&index, 4, 4, since);
	assert_false(has(&index, 0, 4));
	since = index.removals;
	for (unsigned i = 0; i <= KW_DIGESTS_REMOVALS; i++) {
		record = delete_of(&text, 0, 1000 + i);
		kw_digests_note(&index, &record, 1);
	}
	learn(&index, 5, 5, since); /* too many to remember */
	assert_false(has(&index, 0, 5));
	note_put(&index, 0, 1, 7);
	assert_true(kw_digests_begin(&index, true));
	assert_false(differs(&index, 0, 1, 7));
	kw_digests_close(&index);
}

static void nothing_is_learned_while_there_is_a_doubt(void **state)
{
	struct kw_digests *index = sound();

	kw_digests_tell(index, KW_DIGESTS_WRITTEN);
	learn(index, 500, 1, 0);
	assert_false(has(index, 0, 500));
	kw_digests_close(index);
}

static void one_that_is_off_takes_nothing(void **state)
{
	struct kw_digests index;

	kw_digests_init(&index, false, SEED);
	note_put(&index, 0, 1, 1);
	kw_digests_disbelieve(&index, 0, kw_slice_text("key:1"));
	kw_digests_tell(&index, KW_DIGESTS_ASSESSED);
	kw_digests_proven(&index, 0);
	kw_digests_complete(&index);
	assert_int_equal(kw_digests_state(&index), KW_DIGESTS_OFF);
	assert_int_equal(index.bytes, 0);
	kw_digests_close(&index);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_shard_equals_a_map),
		cmocka_unit_test(a_sweep_leaves_the_marked_ones_to_be_found),
		cmocka_unit_test(an_index_equals_a_map),
		cmocka_unit_test(it_takes_19_to_24_bytes_a_key),
		cmocka_unit_test(an_equal_record_is_passed_over_and_others_are_not),
		cmocka_unit_test(a_value_without_a_digest_is_handed_on_each_time),
		cmocka_unit_test(a_refused_key_is_handed_on_again_and_kept),
		cmocka_unit_test(a_compare_after_half_a_compare_begins_anew),
		cmocka_unit_test(every_event_ends_in_doubt_or_in_nothing),
		cmocka_unit_test(a_doubt_ends_with_a_round_that_began_after_it),
		cmocka_unit_test(keys_that_are_left_over_are_known_to_be),
		cmocka_unit_test(an_incomplete_index_is_no_sound_one_after_a_doubt),
		cmocka_unit_test(a_doubted_build_goes_on_as_a_build),
		cmocka_unit_test(a_key_that_was_compared_is_passed_over),
		cmocka_unit_test(what_the_log_brought_meanwhile_wins),
		cmocka_unit_test(nothing_is_learned_while_there_is_a_doubt),
		cmocka_unit_test(one_that_is_off_takes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
