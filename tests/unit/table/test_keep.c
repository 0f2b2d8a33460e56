/* A table that is sealed, and adopted by the next process: it is the same table, or it is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fixture.h"
#include "table/index.h"
#include "table/keep.h"
#include "table/record.h"
#include "table/view.h"

#include <stdlib.h>
#include <string.h>

#define KEYS 400
#define SEGMENT (UINT64_C(16) << 10)
#define LARGE (40u << 10) /* a value with a run of its own */

static const struct kw_keep_terms TERMS = {7, 11};

/* What the table must hold; by number, in database 0. tag 0: the key is gone. */
struct model {
	uint64_t tags[KEYS];
	uint32_t lengths[KEYS];
};

static uint64_t dice(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return *state >> 33;
}

static void put(struct fixture *fixture, struct model *model, uint32_t number, uint64_t tag,
	uint32_t length)
{
	assert_int_equal(fixture_put(fixture, number, tag, length), KW_PUT_STORED);
	model->tags[number] = tag;
	model->lengths[number] = length;
}

static void change_some(
	struct fixture *fixture, struct model *model, uint64_t *random, uint32_t steps)
{
	for (uint32_t i = 0; i < steps; i++) {
		uint32_t number = (uint32_t)(dice(random) % KEYS);
		uint64_t tag = dice(random) + 1;

		if (dice(random) % 5 == 0) {
			(void)fixture_delete(fixture, number);
			model->tags[number] = 0;
		} else if (dice(random) % 700 == 0) {
			(void)kw_table_flush(fixture->table, 0);
			memset(model, 0, sizeof *model);
		} else {
			bool large = dice(random) % 40 == 0;

			put(fixture, model, number, tag,
				large ? LARGE : (uint32_t)(dice(random) % 900));
		}
		if (i % 16 == 0) {
			fixture_advance(fixture, 20000);
			kw_table_tidy(fixture->table);
			fixture_publish(fixture);
		}
	}
}

static void assert_is(const struct fixture *fixture, const struct model *model)
{
	uint64_t keys = 0;

	for (uint32_t number = 0; number < KEYS; number++) {
		keys += model->tags[number] != 0;
		assert_true(model->tags[number] ? fixture_has(fixture, number, model->tags[number],
							  model->lengths[number])
						: fixture_gone(fixture, number));
	}
	assert_int_equal(kw_table_database_keys(fixture->table, 0), keys);
}

static void end(struct fixture *fixture)
{
	kw_table_seal(fixture->table, &TERMS, fixture->now_us + FIXTURE_WALL_US);
	kw_table_free(fixture->table);
	fixture->table = NULL;
}

static bool adopt(struct fixture *fixture, struct kw_error *error)
{
	fixture->table = kw_table_adopt(&fixture->options, &fixture->memory, &TERMS, error);
	if (!fixture->table)
		return false;
	kw_table_set_time(fixture->table, fixture->now_us);
	fixture_publish(fixture);
	return true;
}

static void must_adopt(struct fixture *fixture)
{
	struct kw_error error = {0};

	if (!adopt(fixture, &error))
		fail_msg("not adopted: %s", error.text);
}

static void refuse(struct fixture *fixture, const char *words)
{
	struct kw_error error = {0};

	assert_false(adopt(fixture, &error));
	if (!strstr(error.text, words))
		fail_msg("\"%s\" is not in: %s", words, error.text);
}

static void open_filled(struct fixture *fixture, struct model *model, uint64_t seed, uint32_t steps)
{
	fixture_open(fixture,
		&(struct kw_table_options){.segment_bytes = SEGMENT, .retention_us = 100000});
	memset(model, 0, sizeof *model);
	change_some(fixture, model, &seed, steps);
}

/* ---- what is adopted is the same table ---- */

static void an_adopted_table_is_the_same_and_goes_on(void **state)
{
	for (uint64_t seed = 1; seed <= 12; seed++) {
		struct fixture fixture;
		struct model model;
		uint64_t random = seed * 77;

		open_filled(&fixture, &model, seed, 1500);
		for (int life = 0; life < 4; life++) {
			struct kw_table_stats before = fixture_stats(&fixture), after;

			end(&fixture);
			must_adopt(&fixture);
			after = fixture_stats(&fixture);
			assert_int_equal(after.keys, before.keys);
			assert_int_equal(after.version, before.version);
			assert_int_equal(after.tombstones, before.tombstones);
			assert_int_equal(after.payload_bytes, before.payload_bytes);
			assert_int_equal(after.live_bytes, before.live_bytes);
			assert_int_equal(after.tombstone_floor, before.tombstone_floor);
			assert_int_equal(after.index_slots, before.index_slots);
			assert_is(&fixture, &model);
			change_some(&fixture, &model, &random, 1500);
			assert_is(&fixture, &model);
		}
		fixture_close(&fixture);
	}
}

static void an_index_that_grows_is_adopted_in_the_middle(void **state)
{
	struct fixture fixture;
	uint32_t number = 0;

	fixture_open(&fixture, &(struct kw_table_options){.segment_bytes = SEGMENT});
	for (int life = 0; life < 60; life++) {
		for (uint32_t i = 0; i < 61; i++)
			assert_int_equal(fixture_put(&fixture, number++, 5, 10), KW_PUT_STORED);
		end(&fixture);
		must_adopt(&fixture);
	}
	for (uint32_t i = 0; i < number; i++)
		assert_true(fixture_has(&fixture, i, 5, 10));
	assert_int_equal(fixture_stats(&fixture).keys, number);
	fixture_close(&fixture);
}

/* ---- readers go on ---- */

static void a_reader_goes_on_from_its_cursor_and_finds_nothing(void **state)
{
	struct fixture fixture;
	struct follower follower;
	struct model model;
	struct kw_cursor cursor;

	open_filled(&fixture, &model, 3, 900);
	fixture_publish(&fixture);
	follower_open(&follower, &fixture, &(struct kw_reader_options){0});
	follower_start(&follower, NULL);
	cursor = (struct kw_cursor){fixture.options.epoch, follower.pass.consistent};
	follower_close(&follower);

	end(&fixture);
	must_adopt(&fixture);
	follower_open(&follower, &fixture, &(struct kw_reader_options){0});
	follower_start(&follower, &cursor);
	assert_int_equal(follower.lapses + follower.failures + follower.begun, 0);
	assert_int_equal(follower.records, 0);
	assert_int_equal(follower.superblock.epoch, fixture.options.epoch);

	assert_int_equal(fixture_put(&fixture, 3, 4242, 30), KW_PUT_STORED);
	fixture_publish(&fixture);
	follower_poll(&follower);
	assert_int_equal(follower.records, 1);
	assert_true(follower_has(&follower, 3, 4242, 30));
	follower_close(&follower);
	fixture_close(&fixture);
}

static void what_is_published_goes_on(void **state)
{
	const struct kw_history history = {.standing = KW_HISTORY_TOLD,
		.replid = "00000000000000000000000000000000000000ab",
		.proxy = 1,
		.proxy_name = "here"};
	struct kw_table_facts facts = {KW_SOURCE_LIVE, true, 11, 77, 123456, 99};
	struct kw_superblock before;
	struct fixture fixture;
	struct model model;

	open_filled(&fixture, &model, 5, 300);
	kw_table_set_history(fixture.table, &history);
	kw_table_set_facts(fixture.table, &facts);
	assert_false(kw_table_is_kept(fixture.table));
	end(&fixture);
	before = *fixture_superblock(&fixture);
	must_adopt(&fixture);
	assert_true(kw_table_is_kept(fixture.table));
	assert_true(fixture_superblock(&fixture)->publication > before.publication);
	assert_int_equal(fixture_superblock(&fixture)->version, before.version);
	assert_int_equal(kw_table_epoch(fixture.table), before.epoch);
	assert_true(kw_history_equal(kw_table_history(fixture.table), &history));
	assert_int_equal(fixture_superblock(&fixture)->history_checksum, before.history_checksum);
	assert_int_equal(fixture_superblock(&fixture)->ticket, 77);
	assert_int_equal(fixture_superblock(&fixture)->source_id, 99);
	assert_int_equal(fixture_superblock(&fixture)->complete, 1);
	/* Nothing is fresh until the source has proved it. */
	assert_int_equal(fixture_superblock(&fixture)->fresh_us, 0);
	assert_int_equal(fixture_superblock(&fixture)->source_state, KW_SOURCE_CONNECTING);
	fixture_close(&fixture);
}

/* ---- what is not adopted ---- */

static void without_a_clean_end_nothing_is_adopted(void **state)
{
	struct fixture fixture;
	struct model model;

	open_filled(&fixture, &model, 1, 200);
	kw_table_free(fixture.table); /* killed */
	refuse(&fixture, "no seal");
	fixture_close(&fixture);

	open_filled(&fixture, &model, 1, 200);
	end(&fixture);
	must_adopt(&fixture);
	kw_table_free(fixture.table); /* killed in its second life */
	refuse(&fixture, "did not end in good order");
	fixture_close(&fixture);
}

static void what_is_published_after_the_seal_is_noticed(void **state)
{
	struct fixture fixture;
	struct model model;

	open_filled(&fixture, &model, 1, 200);
	kw_table_seal(fixture.table, &TERMS, 1);
	fixture_publish(&fixture);
	kw_table_free(fixture.table);
	refuse(&fixture, "after it was sealed");
	fixture_close(&fixture);
}

static void a_changed_key_is_named(void **state)
{
	const struct kw_keep_terms named = {8, 11}, scoped = {7, 12};
	struct kw_table_options larger, other;
	struct kw_error error = {0};
	struct fixture fixture;
	struct model model;

	open_filled(&fixture, &model, 1, 200);
	end(&fixture);
	larger = other = fixture.options;
	larger.max_bytes = fixture.memory.reserve_bytes + 1;
	other.segment_bytes *= 2;
	assert_null(kw_table_adopt(&larger, &fixture.memory, &TERMS, &error));
	assert_non_null(strstr(error.text, "table.max_bytes"));
	assert_null(kw_table_adopt(&other, &fixture.memory, &TERMS, &error));
	assert_non_null(strstr(error.text, "table.segment_bytes"));
	assert_null(kw_table_adopt(&fixture.options, &fixture.memory, &named, &error));
	assert_non_null(strstr(error.text, "name was changed"));
	assert_null(kw_table_adopt(&fixture.options, &fixture.memory, &scoped, &error));
	assert_non_null(strstr(error.text, "source.databases"));
	/* None of these has touched it. segment_bytes 0: as it was. */
	fixture.options.segment_bytes = 0;
	must_adopt(&fixture);
	assert_is(&fixture, &model);
	fixture_close(&fixture);
}

/* A file of anybody's, even if it is this user's. */
static void memory_too_small_for_a_seal_is_refused(void **state)
{
	static uint8_t bytes[KW_DIRECTORY_OFFSET];
	const struct kw_table_options options = {.max_bytes = 1 << 20, .epoch = 1};
	const struct kw_table_memory memory = {.base = bytes, .reserve_bytes = sizeof bytes};
	struct kw_error error = {0};

	assert_null(kw_table_adopt(&options, &memory, &TERMS, &error));
	assert_int_equal(error.code, KW_E_CORRUPT);
	assert_non_null(strstr(error.text, "4096 bytes"));
}

/* It would be full for ever: the index does not shrink. A new table fits. */
static void an_index_without_room_beside_it_is_not_kept(void **state)
{
	struct fixture fixture;

	fixture_open(&fixture, &(struct kw_table_options){.segment_bytes = SEGMENT});
	for (uint32_t number = 0; number < 20000; number++)
		assert_int_equal(fixture_put(&fixture, number, 5, 10), KW_PUT_STORED);
	end(&fixture);
	fixture.options.max_bytes = 8 * SEGMENT;
	refuse(&fixture, "table.max_bytes was lowered");
	fixture_close(&fixture);
}

/* ---- one byte is another ---- */

/* A table of few keys, sealed, and its bytes: control area, index and log. */
#define FEW 12
#define INDEX_BYTES ((KW_INDEX_FIRST_SLOTS + KW_INDEX_OVERFLOW) * sizeof(struct kw_index_slot))
#define LOG_BYTES (UINT64_C(256) << 10)

struct part {
	uint64_t offset, length;
	uint8_t *bytes;
};

struct sealed {
	struct fixture fixture;
	struct model model;
	struct part parts[4];
	uint64_t record; /* of key 3: where, and its length without padding */
	uint64_t record_bytes, slot;
};

static void keep_part(struct sealed *sealed, int number, uint64_t offset, uint64_t length)
{
	struct part *part = &sealed->parts[number];

	*part = (struct part){offset, length, malloc(length)};
	memcpy(part->bytes, sealed->fixture.memory.base + offset, length);
}

static uint64_t find_slot(const struct sealed *sealed)
{
	const uint8_t *base = sealed->fixture.memory.base;
	const struct kw_index_root *root = (const void *)(base + KW_INDEX_ROOT_OFFSET);
	const struct kw_index_slot *slots = (const void *)(base + root->offset);

	for (uint64_t i = 0; i < root->slots + root->overflow; i++)
		if (slots[i].place && kw_place_offset(slots[i].place) == sealed->record)
			return root->offset + i * sizeof *slots;
	fail_msg("no slot names the record");
	return 0;
}

static void find_record(struct sealed *sealed)
{
	struct kw_slice key = fixture_key(3), value;
	uint64_t expires_ms;

	assert_true(kw_table_get(sealed->fixture.table, 0, key, &value, &expires_ms));
	sealed->record_bytes = kw_record_length(key.length, value.length, 0);
	sealed->record = (uint64_t)((const uint8_t *)value.data - key.length - KW_RECORD_HEADER -
				    sealed->fixture.memory.base);
	assert_int_equal(sealed->record_bytes % KW_RECORD_ALIGN, 5); /* it has padding */
}

static void seal_few(struct sealed *sealed)
{
	const struct kw_superblock *superblock;
	const struct kw_index_root *root;
	uint64_t first;

	memset(sealed, 0, sizeof *sealed);
	fixture_open(&sealed->fixture, &(struct kw_table_options){.segment_bytes = SEGMENT});
	for (uint32_t number = 0; number < FEW; number++)
		put(&sealed->fixture, &sealed->model, number, number + 1, 38);
	for (uint32_t number = 0; number < 3; number++) {
		assert_int_equal(fixture_delete(&sealed->fixture, number), KW_PUT_STORED);
		sealed->model.tags[number] = 0;
	}
	find_record(sealed);
	first = sealed->record / SEGMENT * SEGMENT;
	end(&sealed->fixture);
	sealed->slot = find_slot(sealed);
	superblock = fixture_superblock(&sealed->fixture);
	root = (const void *)(sealed->fixture.memory.base + KW_INDEX_ROOT_OFFSET);
	keep_part(sealed, 0, 0, KW_DIRECTORY_OFFSET);
	keep_part(sealed, 1, superblock->directory_offset, superblock->directory_bytes);
	keep_part(sealed, 2, root->offset, INDEX_BYTES);
	keep_part(sealed, 3, first, LOG_BYTES);
}

static void put_back(struct sealed *sealed)
{
	for (int i = 0; i < 4; i++)
		memcpy(sealed->fixture.memory.base + sealed->parts[i].offset,
			sealed->parts[i].bytes, sealed->parts[i].length);
}

static void close_sealed(struct sealed *sealed)
{
	for (int i = 0; i < 4; i++)
		free(sealed->parts[i].bytes);
	fixture_close(&sealed->fixture);
}

/* How often the table was adopted with one byte of these changed: then it must be the same. */
static uint64_t flip_each(struct sealed *sealed, uint64_t offset, uint64_t length, uint8_t bits)
{
	struct fixture *fixture = &sealed->fixture;
	uint64_t adopted = 0;

	for (uint64_t i = 0; i < length; i++) {
		struct kw_error error = {0};

		put_back(sealed);
		fixture->memory.base[offset + i] ^= bits;
		if (!adopt(fixture, &error)) {
			assert_true(error.text[0] != '\0');
			continue;
		}
		adopted++;
		assert_is(fixture, &sealed->model);
		kw_table_free(fixture->table);
		fixture->table = NULL;
	}
	put_back(sealed);
	return adopted;
}

static void no_flipped_byte_is_adopted(void **state)
{
	static const uint8_t patterns[] = {0x01, 0x10, 0x80};
	struct sealed sealed;

	seal_few(&sealed);
	for (size_t i = 0; i < sizeof patterns; i++) {
		const uint8_t bits = patterns[i];
		const struct part *directory = &sealed.parts[1];

		assert_int_equal(flip_each(&sealed, KW_SUPERBLOCK_OFFSET, 128, bits), 0);
		assert_int_equal(flip_each(&sealed, KW_INDEX_ROOT_OFFSET, 64, bits), 0);
		assert_int_equal(flip_each(&sealed, KW_KEEP_OFFSET, 256, bits), 0);
		assert_int_equal(flip_each(&sealed, directory->offset, directory->length, bits), 0);
		assert_int_equal(flip_each(&sealed, sealed.record, sealed.record_bytes, bits), 0);
		/* The mark of a sweep says nothing about the key. */
		assert_int_equal(flip_each(&sealed, sealed.slot, 16, bits), bits == 0x80);
	}
	must_adopt(&sealed.fixture);
	assert_is(&sealed.fixture, &sealed.model);
	close_sealed(&sealed);
}

static void reseal_root(struct fixture *fixture)
{
	kw_index_root_seal((void *)(fixture->memory.base + KW_INDEX_ROOT_OFFSET));
}

/* Each is whole by its checksum, and none is what this program writes. */
static void what_does_not_fit_together_is_refused(void **state)
{
	struct sealed sealed;
	struct kw_index_root *root;
	struct kw_index_slot *slot, *free_slot;
	uint64_t *stripes;

	seal_few(&sealed);
	root = (void *)(sealed.fixture.memory.base + KW_INDEX_ROOT_OFFSET);
	stripes = (void *)(sealed.fixture.memory.base + KW_INDEX_STRIPES_OFFSET);
	slot = (void *)(sealed.fixture.memory.base + sealed.slot);

	root->moves++;
	reseal_root(&sealed.fixture);
	refuse(&sealed.fixture, "index root");
	put_back(&sealed);
	root->grown_slots = UINT64_MAX;
	reseal_root(&sealed.fixture);
	refuse(&sealed.fixture, "index root");
	put_back(&sealed);
	stripes[3]++;
	refuse(&sealed.fixture, "index root");
	put_back(&sealed);

	*slot = (struct kw_index_slot){0}; /* a key that no lookup would find */
	refuse(&sealed.fixture, "index does not lead to it");
	put_back(&sealed);
	for (free_slot = slot; free_slot->place != 0;)
		free_slot++;
	*free_slot = *slot; /* the same record twice */
	refuse(&sealed.fixture, "no live record");
	put_back(&sealed);

	must_adopt(&sealed.fixture);
	assert_is(&sealed.fixture, &sealed.model);
	close_sealed(&sealed);
}

static void memory_that_cannot_be_had_is_told(void **state)
{
	struct sealed sealed;

	seal_few(&sealed);
	sealed.fixture.refuse_extents = true;
	refuse(&sealed.fixture, "the test has no memory");
	close_sealed(&sealed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_adopted_table_is_the_same_and_goes_on),
		cmocka_unit_test(an_index_that_grows_is_adopted_in_the_middle),
		cmocka_unit_test(a_reader_goes_on_from_its_cursor_and_finds_nothing),
		cmocka_unit_test(what_is_published_goes_on),
		cmocka_unit_test(without_a_clean_end_nothing_is_adopted),
		cmocka_unit_test(what_is_published_after_the_seal_is_noticed),
		cmocka_unit_test(a_changed_key_is_named),
		cmocka_unit_test(memory_too_small_for_a_seal_is_refused),
		cmocka_unit_test(an_index_without_room_beside_it_is_not_kept),
		cmocka_unit_test(no_flipped_byte_is_adopted),
		cmocka_unit_test(what_does_not_fit_together_is_refused),
		cmocka_unit_test(memory_that_cannot_be_had_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
