/* Whose data are in the table: the record, and what a reader knows before it gets a change. */
#include "fixture.h"

#include "table/view.h"

#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define FIRST "1111111111111111111111111111111111111111"
#define SECOND "2222222222222222222222222222222222222222"
#define ZEROS "0000000000000000000000000000000000000000"

static const struct kw_history first = {
	.standing = KW_HISTORY_TOLD,
	.replid = FIRST,
	.proxy = 77,
	.proxy_name = "hosta/unix:///run/redis.sock",
};

static const struct kw_history second = {
	.standing = KW_HISTORY_TOLD,
	.replid = SECOND,
	.replid2 = FIRST,
	.second_offset = 815,
	.proxy = 77,
	.proxy_name = "hosta/unix:///run/redis.sock",
};

static const struct kw_history confirmed = {
	.standing = KW_HISTORY_TOLD,
	.replid = SECOND,
	.proxy = 77,
	.proxy_name = "hosta/unix:///run/redis.sock",
	.mandate = KW_MANDATE_CONFIRMED,
	.term = 7,
	.term_version = 4711,
	.domain = 99,
	.lease_ms = 900,
	.looked = {4700, 123456},
};

static const struct kw_history with_functions = {
	.standing = KW_HISTORY_TOLD,
	.replid = FIRST,
	.proxy = 77,
	.proxy_name = "hosta/unix:///run/redis.sock",
	.functions = {3, 1 << 16, 815, 0xdeadbeef, KW_FUNCTIONS_TOLD},
};

/* ---- the record ---- */

static void what_is_written_is_read_back(void **state)
{
	const struct kw_history histories[] = {first, second, confirmed, with_functions,
		{.standing = KW_HISTORY_AWAITED, .proxy = 1, .proxy_name = "x"},
		{.standing = KW_HISTORY_UNTOLD,
			.proxy = UINT64_MAX,
			.proxy_name = "y",
			.server = {2, 9, 1, 255, 65535}}};
	struct kw_history_record record;
	struct kw_history found;

	for (size_t i = 0; i < sizeof histories / sizeof *histories; i++) {
		kw_history_record_make(&record, &histories[i]);
		assert_int_not_equal(record.checksum, 0);
		assert_int_equal(kw_history_parse(&record, record.checksum, &found, NULL), KW_OK);
		assert_true(kw_history_published_equal(&found, &histories[i]));
		assert_memory_equal(&found.server, &histories[i].server, sizeof found.server);
		assert_memory_equal(
			&found.functions, &histories[i].functions, sizeof found.functions);
	}
}

/* A later proxy can say more in the same record. What it says today still counts. */
static void what_a_later_proxy_says_beyond_is_passed_over(void **state)
{
	struct kw_history_record record;
	struct kw_history found;

	kw_history_record_make(&record, &confirmed);
	memset(record.reserved, 0x5a, sizeof record.reserved);
	memset(record.reserved2, 0x5a, sizeof record.reserved2);
	kw_history_seal(&record);
	assert_int_equal(kw_history_parse(&record, record.checksum, &found, NULL), KW_OK);
	assert_true(kw_history_published_equal(&found, &confirmed));
}

/* Every single bit counts; what is torn or of another superblock is read again. */
static void a_bent_record_is_read_again(void **state)
{
	struct kw_history_record record;
	struct kw_history found = second;
	struct kw_error error;
	uint32_t checksum;

	kw_history_record_make(&record, &first);
	checksum = record.checksum;
	for (size_t bit = 0; bit < 8 * sizeof record; bit++) {
		if (bit / 8 < offsetof(struct kw_history_record, checksum))
			continue; /* the magic: below */
		((uint8_t *)&record)[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_int_equal(kw_history_parse(&record, checksum, &found, &error), KW_E_GONE);
		((uint8_t *)&record)[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	assert_int_equal(kw_history_parse(&record, checksum + 1, &found, &error), KW_E_GONE);
	assert_true(kw_history_equal(&found, &second));
	assert_int_equal(kw_history_parse(&record, checksum, &found, &error), KW_OK);
}

static void refused(const struct kw_history_record *bent)
{
	struct kw_history_record record = *bent;
	struct kw_history found;
	struct kw_error error;

	kw_history_seal(&record);
	assert_int_equal(kw_history_parse(&record, record.checksum, &found, &error), KW_E_PROTOCOL);
	assert_int_not_equal(strlen(error.text), 0);
}

static void what_no_proxy_writes_is_refused(void **state)
{
	struct kw_history_record good, bent;

	kw_history_record_make(&good, &second);
#define BENT(change)                                                                               \
	do {                                                                                       \
		bent = good;                                                                       \
		change;                                                                            \
		refused(&bent);                                                                    \
	} while (0)
	BENT(bent.magic++);
	BENT(bent.standing = KW_HISTORY_NONE);
	BENT(bent.standing = KW_HISTORY_AWAITED); /* … and an id all the same */
	BENT(bent.standing = KW_HISTORY_UNTOLD + 1);
	BENT(bent.standing = UINT32_MAX);
	BENT(bent.proxy = 0);
	BENT(memset(bent.replid, 0, KW_HISTORY_ID));
	BENT(memset(bent.replid, '0', KW_HISTORY_ID));
	BENT(bent.replid[0] = 'X');
	BENT(bent.replid2[39] = '\n');
	BENT(bent.replid2[0] = '\0');
	BENT(bent.proxy_name[0] = '\0');
	BENT(bent.proxy_name[3] = ' ');
	BENT(bent.proxy_name[3] = '\n');
	BENT(bent.term = 1);
	BENT(bent.term_version = 1);
	BENT(bent.domain = 1);
	BENT(bent.lease_ms = 900);
	BENT(bent.mandate = KW_MANDATE_LOST);
	kw_history_record_make(&good, &confirmed);
	BENT(bent.mandate = KW_MANDATE_NONE);
	BENT(bent.mandate = KW_MANDATE_ELSEWHERE + 1);
	BENT(bent.mandate = UINT16_MAX);
	BENT(bent.domain = 0);
	BENT(bent.lease_ms = 0);
	BENT(bent.term = UINT64_MAX);
	BENT(bent.term_version = UINT64_C(1) << KW_VERSION_BITS);
	BENT(bent.looked_version = UINT64_C(1) << KW_VERSION_BITS);
	BENT(bent.functions_offset = 1 << 16); /* … and no version */
	BENT(bent.functions_bytes = 1);
	BENT(bent.functions_checksum = 1);
	BENT(bent.functions_origin = KW_FUNCTIONS_TOLD);
	kw_history_record_make(&good, &with_functions);
	BENT(bent.functions_version = 0);
	BENT(bent.functions_origin = KW_FUNCTIONS_TOLD + 1);
	BENT(bent.functions_bytes = 0);
	BENT(bent.functions_bytes = KW_FUNCTIONS_BYTES + 1);
	BENT(bent.functions_bytes = UINT32_MAX);
	BENT(bent.functions_offset = 0);
	BENT(bent.functions_offset = KW_DIRECTORY_OFFSET);
	BENT(bent.functions_offset++);
	BENT(bent.functions_offset = UINT64_MAX - 7);
#undef BENT
}

/*
 * The record of a proxy of before: server and what follows it are zeros, or the server alone was
 * written. Its checksum is the one that such a proxy computed.
 */
static void the_record_of_a_proxy_of_before_has_no_mandate(void **state)
{
	struct kw_history_record record = {
		.magic = KW_HISTORY_MAGIC,
		.standing = KW_HISTORY_TOLD,
		.proxy = 77,
		.replid = FIRST,
		.proxy_name = "hosta/unix:///run/redis.sock",
		.server = {1, 7, 0, 15},
	};
	struct kw_history found;

	kw_history_seal(&record);
	assert_int_equal(record.checksum, UINT32_C(0xebba8998));
	assert_int_equal(kw_history_parse(&record, record.checksum, &found, NULL), KW_OK);
	assert_int_equal(found.mandate, KW_MANDATE_NONE);
	assert_int_equal(found.term, 0);
	assert_int_equal(found.term_version, 0);
	assert_int_equal(found.domain, 0);
	assert_int_equal(found.lease_ms, 0);
	assert_int_equal(found.functions.version, 0);
	assert_true(kw_history_published_equal(&found, &first));
}

/* Offsets of proto/table/FORMAT.md, and what lies at them: a reader of before takes the rest as it
 * did. */
static void a_mandate_lies_where_zeros_were(void **state)
{
	struct kw_history_record with, without;
	struct kw_history plain = confirmed;

	plain.mandate = KW_MANDATE_NONE;
	plain.term = plain.term_version = plain.domain = plain.lease_ms = 0;
	plain.looked.version = plain.looked.offset = 0;
	kw_history_record_make(&with, &confirmed);
	kw_history_record_make(&without, &plain);
	assert_int_equal(offsetof(struct kw_history_record, term), 32);
	assert_int_equal(offsetof(struct kw_history_record, term_version), 192);
	assert_int_equal(offsetof(struct kw_history_record, domain), 200);
	assert_int_equal(offsetof(struct kw_history_record, mandate), 208);
	assert_int_equal(offsetof(struct kw_history_record, lease_ms), 210);
	assert_int_equal(offsetof(struct kw_history_record, looked_version), 216);
	assert_int_equal(offsetof(struct kw_history_record, looked_offset), 224);
	assert_int_equal(offsetof(struct kw_history_record, functions_origin), 212);
	assert_int_equal(offsetof(struct kw_history_record, functions_version), 232);
	assert_int_equal(offsetof(struct kw_history_record, functions_offset), 240);
	assert_int_equal(offsetof(struct kw_history_record, functions_bytes), 248);
	assert_int_equal(offsetof(struct kw_history_record, functions_checksum), 252);
	assert_memory_equal(&with.standing, &without.standing, 32 - 8);
	assert_memory_equal(with.replid, without.replid, 192 - 40);
}

/* Whose data they are does not depend on who is the primary: the cursor is not written again. */
static void a_mandate_does_not_say_whose_data(void **state)
{
	struct kw_history other = confirmed;

	other.mandate = KW_MANDATE_LOST;
	assert_true(kw_history_equal(&confirmed, &other));
	assert_false(kw_history_published_equal(&confirmed, &other));
	other = confirmed;
	other.term++;
	assert_true(kw_history_equal(&confirmed, &other));
	assert_false(kw_history_published_equal(&confirmed, &other));
	other = confirmed;
	other.server.major = 8;
	assert_true(kw_history_published_equal(&confirmed, &other));
}

static void domains_differ_by_kind_and_name(void **state)
{
	assert_true(kw_mandate_domain("sentinel", "a") == kw_mandate_domain("sentinel", "a"));
	assert_true(kw_mandate_domain("sentinel", "a") != kw_mandate_domain("sentinel", "b"));
	assert_true(kw_mandate_domain("sentinel", "a") != kw_mandate_domain("operator", "a"));
	assert_true(kw_mandate_domain("sentinel", "") != 0);
	assert_string_equal(kw_mandate_state_name(KW_MANDATE_ELSEWHERE), "elsewhere");
}

static void zeros_are_no_history(void **state)
{
	assert_true(kw_history_is_id(FIRST));
	assert_false(kw_history_is_id(ZEROS));
	assert_false(kw_history_is_id(""));
	assert_false(kw_history_is_id(FIRST "1"));
	assert_false(kw_history_is_id("111111111111111111111111111111111111111X"));
}

static void names_are_short_and_printable(void **state)
{
	char name[KW_PROXY_NAME_MAX + 2];
	struct kw_error error;

	memset(name, 'n', sizeof name);
	name[sizeof name - 1] = '\0';
	assert_int_equal(kw_proxy_name_check(name, &error), KW_E_CONFIG);
	assert_int_equal(kw_proxy_name_check(name + 1, &error), KW_OK);
	assert_int_equal(kw_proxy_name_check("", &error), KW_E_CONFIG);
	assert_int_equal(kw_proxy_name_check("a b", &error), KW_E_CONFIG);
	assert_true(kw_proxy_identity("a") != kw_proxy_identity("b"));
	assert_true(kw_proxy_identity("a") == kw_proxy_identity("a"));
	assert_true(kw_proxy_identity(name) != 0);
}

/* ---- what a reader knows ---- */

struct told {
	struct kw_history history; /* of the last superblock */
	uint64_t superblocks;
};

static void told_superblock(
	void *arg, const struct kw_superblock *superblock, const struct kw_history *history)
{
	struct told *told = arg;

	assert_int_equal(superblock->history_checksum == 0, history->standing == KW_HISTORY_NONE);
	told->history = *history;
	told->superblocks++;
}

static void told_done(void *arg, bool moved)
{
}

static void told_failed(void *arg, const struct kw_error *error)
{
}

static void open_told(struct fixture *fixture, struct follower *follower, struct told *told)
{
	const struct kw_reader_driver driver = {
		told_superblock, told_done, told_done, told_failed, told};

	*told = (struct told){0};
	follower_open(follower, fixture, &(struct kw_reader_options){0});
	kw_reader_set_driver(follower->reader, &driver);
}

static void a_table_without_a_history_costs_no_read(void **state)
{
	struct follower follower;
	struct fixture fixture;
	struct told told;

	fixture_open(&fixture, &(struct kw_table_options){0});
	fixture_change(&fixture, 1, 1);
	open_told(&fixture, &follower, &told);
	follower_start(&follower, NULL);
	assert_int_equal(told.history.standing, KW_HISTORY_NONE);
	assert_int_equal(
		kw_reader_stats(follower.reader)->reads, 3); /* superblock, directory, log */
	follower_finish(&fixture, &follower);
}

/* Once at the start; a poll at rest stays one READ. */
static void the_history_is_read_once(void **state)
{
	struct follower follower;
	struct fixture fixture;
	struct told told;
	uint64_t reads;

	fixture_open(&fixture, &(struct kw_table_options){0});
	kw_table_set_history(fixture.table, &first);
	fixture_change(&fixture, 1, 1);
	open_told(&fixture, &follower, &told);
	follower_start(&follower, NULL);
	assert_true(kw_history_equal(&told.history, &first));
	reads = kw_reader_stats(follower.reader)->reads;
	assert_int_equal(reads, 4);
	for (int i = 0; i < 100; i++) {
		fixture_publish(&fixture);
		follower_poll(&follower);
	}
	assert_int_equal(kw_reader_stats(follower.reader)->reads,
		reads + follower.looks + follower.passes - 1);
	assert_true(told.superblocks > 1);
	follower_finish(&fixture, &follower);
}

static void a_history_set_again_changes_nothing(void **state)
{
	struct fixture fixture;
	uint64_t head;

	fixture_open(&fixture, &(struct kw_table_options){0});
	kw_table_set_history(fixture.table, &first);
	fixture_change(&fixture, 1, 1);
	head = fixture_superblock(&fixture)->head_segment;
	kw_table_set_history(fixture.table, &first);
	assert_false(kw_table_unpublished(fixture.table));
	kw_table_set_history(fixture.table, &second);
	assert_true(kw_table_unpublished(fixture.table));
	fixture_publish(&fixture);
	assert_true(fixture_superblock(&fixture)->head_segment > head);
	fixture_close(&fixture);
}

/* A record of a new term, or of a server that lost its mandate, is in another segment (rule 7). */
static void a_new_mandate_begins_another_segment(void **state)
{
	struct kw_history next = confirmed;
	struct fixture fixture;
	uint64_t head;

	fixture_open(&fixture, &(struct kw_table_options){0});
	kw_table_set_history(fixture.table, &confirmed);
	fixture_change(&fixture, 1, 1);
	for (int round = 0; round < 2; round++) {
		head = fixture_superblock(&fixture)->head_segment;
		if (round == 0)
			next.mandate = KW_MANDATE_LOST;
		else
			next.term++;
		kw_table_set_history(fixture.table, &next);
		assert_true(kw_table_unpublished(fixture.table));
		fixture_change(&fixture, 2, 1 + (uint64_t)round);
		fixture_publish(&fixture);
		assert_true(fixture_superblock(&fixture)->head_segment > head);
	}
	fixture_close(&fixture);
}

/*
 * The reader looks at the tail alone, and the next record is of another history. It must not be
 * handed on before the superblock that says so, whatever stood in the segment before.
 */
static void no_record_comes_before_its_history(void **state)
{
	static const uint32_t before[] = {0, 1, 7, 40, 160};
	struct follower follower;
	struct fixture fixture;
	struct told told;

	for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
		fixture_open(&fixture, &(struct kw_table_options){0});
		kw_table_set_history(fixture.table, &first);
		for (uint32_t n = 0; n < before[i]; n++)
			fixture_change(&fixture, n, 1);
		fixture_publish(&fixture);
		open_told(&fixture, &follower, &told);
		follower_start(&follower, NULL);
		kw_table_set_history(fixture.table, &second);
		fixture_change(&fixture, 500, 5);
		while (follower_lacks(&follower, 500)) {
			assert_true(kw_reader_waiting(follower.reader));
			follower_look(&follower);
			assert_true(follower_lacks(&follower, 500) ||
				    kw_history_equal(&told.history, &second));
		}
		assert_true(kw_history_equal(&told.history, &second));
		follower_finish(&fixture, &follower);
	}
}

/* The head is full to its end, and no memory is left for another. */
static void also_when_there_is_no_memory_for_another_segment(void **state)
{
	const struct kw_table_options options = {.max_bytes = 300 << 10, .segment_bytes = 16 << 10};
	struct follower follower;
	struct fixture fixture;
	struct told told;
	uint32_t keys = 0;

	fixture_open(&fixture, &options);
	kw_table_set_history(fixture.table, &first);
	while (fixture_put(&fixture, keys, 1, 100) == KW_PUT_STORED)
		keys++;
	fixture_publish(&fixture);
	open_told(&fixture, &follower, &told);
	follower_start(&follower, NULL);
	for (int round = 0; round < 20; round++) {
		const struct kw_history *next = round % 2 ? &first : &second;
		uint64_t records = follower.records;

		kw_table_set_history(fixture.table, next);
		assert_int_equal(fixture_delete(&fixture, (uint32_t)round), KW_PUT_STORED);
		fixture_publish(&fixture);
		while (follower.records == records)
			follower_look(&follower);
		assert_true(kw_history_equal(&told.history, next));
	}
	follower_finish(&fixture, &follower);
}

/* Changed while a reader is between superblock and record: it reads both again. */
static void change(struct follower *follower, struct kw_read *read)
{
	struct fixture *fixture = follower->bend_arg;

	if (read->offset != KW_SUPERBLOCK_OFFSET)
		return;
	follower->bend = NULL;
	kw_table_set_history(fixture->table, &second);
	fixture_publish(fixture);
}

static void a_history_that_changes_meanwhile_is_read_again(void **state)
{
	struct follower follower;
	struct fixture fixture;
	struct told told;

	fixture_open(&fixture, &(struct kw_table_options){0});
	kw_table_set_history(fixture.table, &first);
	fixture_change(&fixture, 1, 1);
	open_told(&fixture, &follower, &told);
	follower.bend = change;
	follower.bend_arg = &fixture;
	follower_start(&follower, NULL);
	assert_true(kw_history_equal(&told.history, &second));
	assert_int_equal(kw_reader_stats(follower.reader)->retries, 1);
	follower_finish(&fixture, &follower);
}

/* It never fits: the reader comes to an end, and hands nothing on. */
static void spoil(struct follower *follower, struct kw_read *read)
{
	if (read->offset == KW_HISTORY_OFFSET)
		read->buffer[100]++;
}

static void one_that_never_fits_is_corruption(void **state)
{
	struct follower follower;
	struct fixture fixture;
	struct told told;

	fixture_open(&fixture, &(struct kw_table_options){0});
	kw_table_set_history(fixture.table, &first);
	fixture_change(&fixture, 1, 1);
	open_told(&fixture, &follower, &told);
	follower.bend = spoil;
	follower_start(&follower, NULL);
	assert_int_equal(follower.failures, 1);
	assert_int_equal(follower.records, 0);
	assert_int_equal(told.superblocks, 0);
	follower_close(&follower);
	fixture_close(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_read_back),
		cmocka_unit_test(what_a_later_proxy_says_beyond_is_passed_over),
		cmocka_unit_test(a_bent_record_is_read_again),
		cmocka_unit_test(what_no_proxy_writes_is_refused),
		cmocka_unit_test(the_record_of_a_proxy_of_before_has_no_mandate),
		cmocka_unit_test(a_mandate_lies_where_zeros_were),
		cmocka_unit_test(a_mandate_does_not_say_whose_data),
		cmocka_unit_test(domains_differ_by_kind_and_name),
		cmocka_unit_test(a_new_mandate_begins_another_segment),
		cmocka_unit_test(zeros_are_no_history),
		cmocka_unit_test(names_are_short_and_printable),
		cmocka_unit_test(a_table_without_a_history_costs_no_read),
		cmocka_unit_test(the_history_is_read_once),
		cmocka_unit_test(a_history_set_again_changes_nothing),
		cmocka_unit_test(no_record_comes_before_its_history),
		cmocka_unit_test(also_when_there_is_no_memory_for_another_segment),
		cmocka_unit_test(a_history_that_changes_meanwhile_is_read_again),
		cmocka_unit_test(one_that_never_fits_is_corruption),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
