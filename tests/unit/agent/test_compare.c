/* One key of the table against the local server's: the verdict for each case. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "compare/compare.h"

#define NOW_MS 1000000

/* A string of one byte, as DUMP tells it; the footer is not looked at. */
static struct kw_slice value(char letter)
{
	static char bytes[256][13];
	char *payload = bytes[(unsigned char)letter];

	payload[1] = 1;
	payload[2] = letter;
	payload[3] = 11;
	return kw_slice(payload, 13);
}

struct compare_case {
	const char *about;
	char table;          /* letter of its value, 0: absent */
	uint64_t expires_ms; /* of it */
	char local;          /* letter of its value, 0: not there */
	int64_t local_ms;
	bool exact;
	enum kw_verdict_of_key verdict;
};

static const struct compare_case cases[] = {
	{"equal", 'a', 0, 'a', -1, true, KW_SAME},
	{"another value", 'a', 0, 'b', -1, true, KW_DIFFERENT},
	{"gone here", 'a', 0, 0, -2, true, KW_MISSING},
	{"absent on both sides", 0, 0, 0, -2, true, KW_SAME},
	{"too many here", 0, 0, 'a', -1, true, KW_EXTRA},
	{"the same expiry", 'a', NOW_MS + 5, 'a', NOW_MS + 5, true, KW_SAME},
	{"another expiry", 'a', NOW_MS + 5, 'a', NOW_MS + 6, true, KW_DIFFERENT},
	{"an expiry here only", 'a', 0, 'a', NOW_MS + 5, true, KW_DIFFERENT},
	{"an expiry there only", 'a', NOW_MS + 5, 'a', -1, true, KW_DIFFERENT},
	{"PTTL is not exact", 'a', NOW_MS + 5, 'a', NOW_MS + 2005, false, KW_SAME},
	{"nor off by any time", 'a', NOW_MS + 5, 'a', NOW_MS + 2006, false, KW_DIFFERENT},
	{"its time is over", 'a', NOW_MS, 0, -2, true, KW_SAME},
	{"its time comes", 'a', NOW_MS + 1, 0, -2, true, KW_MISSING},
	{"its time is over, and it is still here", 'a', NOW_MS, 'a', NOW_MS, true, KW_SAME},
};

static void each_case_has_its_verdict(void **state)
{
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const struct compare_case *c = &cases[i];
		const struct kw_compare_rules rules = {NOW_MS, c->exact, false};
		const struct kw_record_view record = {
			.version = 7,
			.kind = c->table ? KW_RECORD_PUT : KW_RECORD_DELETE,
			.expires_ms = c->expires_ms,
			.value = value(c->table),
		};
		const struct kw_found found = {c->local != 0, value(c->local), c->local_ms};
		struct kw_expected expected;

		kw_expect(&record, NOW_MS, &expected);
		assert_int_equal(expected.version, c->table ? 7 : 0);
		if (kw_compare(&expected, &found, &rules) != c->verdict)
			fail_msg("%s", c->about);
	}
}

/* Two servers write another version and CRC64 after the same value. */
static void the_footer_is_not_part_of_the_value(void **state)
{
	struct kw_fingerprint fingerprint;
	char other[13];

	memcpy(other, value('a').data, sizeof other);
	memset(other + 3, 0x77, 10);
	kw_fingerprint_make(value('a'), NOW_MS, &fingerprint);
	assert_true(kw_fingerprint_matches(&fingerprint, kw_slice(other, sizeof other)));
}

/* A type that we do not know, in two encodings: what is equal cannot be told from the bytes. */
static void a_value_without_a_digest_can_count_as_equal(void **state)
{
	struct kw_expected expected = {.version = 7, .value = {.bytes = {1, 2}}};
	const struct kw_found found = {true, value('a'), -1}, expires = {true, value('a'), 5};
	const struct kw_compare_rules strict = {NOW_MS, true, false},
				      lenient = {NOW_MS, true, true};

	assert_int_equal(kw_compare(&expected, &found, &strict), KW_DIFFERENT);
	assert_int_equal(kw_compare(&expected, &found, &lenient), KW_SAME);
	assert_int_equal(kw_compare(&expected, &expires, &lenient), KW_DIFFERENT);
	expected.value.has_digest = true;
	assert_int_equal(kw_compare(&expected, &found, &lenient), KW_DIFFERENT);
}

/* A vector set that was restored is written in another order. It must not be mended for ever. */
static void a_modules_value_can_only_be_compared_by_its_bytes(void **state)
{
	uint8_t table[32] = {7, 0x81}, local[32] = {7, 0x81};
	const struct kw_record_view record = {
		.version = 7, .kind = KW_RECORD_PUT, .value = kw_slice(table, sizeof table)};
	const struct kw_found same = {true, kw_slice(table, sizeof table), -1},
			      other = {true, kw_slice(local, sizeof local), -1};
	const struct kw_compare_rules strict = {NOW_MS, true, false},
				      lenient = {NOW_MS, true, true};
	struct kw_expected expected;

	table[15] = 1;
	local[16] = 1;
	kw_expect(&record, NOW_MS, &expected);
	assert_false(expected.value.has_digest);
	assert_int_equal(kw_compare(&expected, &same, &strict), KW_SAME);
	assert_int_equal(kw_compare(&expected, &other, &strict), KW_DIFFERENT);
	assert_int_equal(kw_compare(&expected, &other, &lenient), KW_SAME);
}

/* A hash as Valkey tells it: each field's expiry stands after its value. 'x' is a field without. */
static struct kw_slice hash_of(uint8_t *bytes, const char *fields, uint64_t expires_ms)
{
	size_t count = strlen(fields), at = 0;

	bytes[at++] = 22;
	bytes[at++] = (uint8_t)count;
	for (size_t i = 0; i < count; i++) {
		uint64_t expires = fields[i] == 'x' ? UINT64_MAX : expires_ms;

		bytes[at++] = 1;
		bytes[at++] = (uint8_t)fields[i];
		bytes[at++] = 1;
		bytes[at++] = 'v';
		memcpy(bytes + at, &expires, sizeof expires);
		at += sizeof expires;
	}
	bytes[at++] = 80; /* the RDB version: Valkey 9 */
	memset(bytes + at, 0, 9);
	return kw_slice(bytes, at + 9);
}

struct field_case {
	const char *about;
	const char *table; /* fields; those other than 'x' expire at expires_ms */
	uint64_t expires_ms;
	const char *local; /* NULL: not there */
	enum kw_verdict_of_key verdict;
};

static const struct field_case field_cases[] = {
	{"all are there", "xy", NOW_MS + 1, "xy", KW_SAME},
	{"one is gone before its time", "xy", NOW_MS + 1, "x", KW_DIFFERENT},
	{"its time is over, and it is gone here", "xy", NOW_MS, "x", KW_SAME},
	{"its time is over, and it is gone there", "x", NOW_MS, "xy", KW_SAME},
	{"a field that does not expire is gone", "xy", NOW_MS, "y", KW_DIFFERENT},
	{"the hash went with its last field", "yz", NOW_MS, NULL, KW_SAME},
	{"the hash went before its last field's time", "yz", NOW_MS + 1, NULL, KW_MISSING},
	{"the hash went, and a field does not expire", "xy", NOW_MS, NULL, KW_MISSING},
};

/* A server whose clock is ahead removes a field early, and again whenever it is restored. */
static void fields_whose_time_is_over_do_not_count(void **state)
{
	const struct kw_compare_rules rules = {NOW_MS, true, false};

	for (size_t i = 0; i < sizeof field_cases / sizeof *field_cases; i++) {
		const struct field_case *c = &field_cases[i];
		uint8_t table[128], local[128];
		const struct kw_record_view record = {
			.version = 7,
			.kind = KW_RECORD_PUT,
			.value = hash_of(table, c->table, c->expires_ms),
		};
		const struct kw_found found = {c->local != NULL,
			hash_of(local, c->local ? c->local : "", c->expires_ms),
			c->local ? -1 : -2};
		struct kw_expected expected;

		kw_expect(&record, NOW_MS, &expected);
		assert_true(expected.value.has_digest);
		if (kw_compare(&expected, &found, &rules) != c->verdict)
			fail_msg("%s", c->about);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_case_has_its_verdict),
		cmocka_unit_test(the_footer_is_not_part_of_the_value),
		cmocka_unit_test(fields_whose_time_is_over_do_not_count),
		cmocka_unit_test(a_value_without_a_digest_can_count_as_equal),
		cmocka_unit_test(a_modules_value_can_only_be_compared_by_its_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
