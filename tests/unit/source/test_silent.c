/* Which keys may change without an event, and going round them. */
#include "feed/watch/silent.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>

#define PAYLOAD(text) kw_slice(text, sizeof text - 1)

static void streams_and_hyperloglogs_are_told_from_the_rest(void **state)
{
	assert_int_equal(kw_silent_classify(PAYLOAD("\x0f...")), KW_SILENT_STREAM);
	assert_int_equal(kw_silent_classify(PAYLOAD("\x13...")), KW_SILENT_STREAM);
	assert_int_equal(kw_silent_classify(PAYLOAD("\x15...")), KW_SILENT_STREAM);
	assert_int_equal(kw_silent_classify(PAYLOAD("\x00\x10HYLL\x01...........")), KW_SILENT_HLL);
	assert_int_equal(kw_silent_classify(PAYLOAD("\x00\x70\x10HYLL\x00....")), KW_SILENT_HLL);
	assert_int_equal(kw_silent_classify(PAYLOAD("\x00\x80....HYLL....")), KW_SILENT_HLL);
	/* LZF: compressed length, length, a literal run of more than four bytes */
	assert_int_equal(
		kw_silent_classify(PAYLOAD("\x00\xc3\x20\x70\x10\x04HYLL\x00")), KW_SILENT_HLL);
	assert_int_equal(
		kw_silent_classify(PAYLOAD("\x00\xc3\x20\x70\x10\x00HYLL\x00")), KW_SILENT_NONE);
	assert_int_equal(kw_silent_classify(PAYLOAD("\x00\x05hello")), KW_SILENT_NONE);
	assert_int_equal(kw_silent_classify(PAYLOAD("\x00\xc0\x05")), KW_SILENT_NONE); /* integer */
	assert_int_equal(kw_silent_classify(PAYLOAD("\x04\x10HYLL")), KW_SILENT_NONE); /* a hash */
}

/* "vectorset" and its encoding in one 64-bit length. */
#define VECTOR_SET "\x07\x81\xbd\xe7\x2d\xa2\xbb\x1e\xb4\x00"

static void vector_sets_are_told_from_values_of_other_modules(void **state)
{
	static const char whole[] = VECTOR_SET "\x02\x03";

	assert_int_equal(kw_silent_classify(PAYLOAD(VECTOR_SET)), KW_SILENT_VECTOR);
	/* A later encoding; another module; another form of the length. */
	assert_int_equal(kw_silent_classify(PAYLOAD("\x07\x81\xbd\xe7\x2d\xa2\xbb\x1e\xb4\x01")),
		KW_SILENT_VECTOR);
	assert_int_equal(kw_silent_classify(PAYLOAD("\x07\x81\xbd\xe7\x2d\xa2\xbb\x1e\xb8\x00")),
		KW_SILENT_NONE);
	assert_int_equal(kw_silent_classify(PAYLOAD("\x07\x80\xbd\xe7\x2d\xa2\xbb\x1e\xb4\x00")),
		KW_SILENT_NONE);
	for (size_t length = 0; length < 10; length++)
		assert_int_equal(kw_silent_classify(kw_slice(whole, length)), KW_SILENT_NONE);
}

static void cut_payloads_are_of_no_kind(void **state)
{
	static const char whole[] = "\x00\xc3\x20\x70\x10\x04HYLL";

	for (size_t length = 0; length < sizeof whole - 1; length++)
		assert_int_equal(kw_silent_classify(kw_slice(whole, length)), KW_SILENT_NONE);
}

static int hand_out_all(struct kw_silent *silent)
{
	uint32_t database;
	struct kw_slice key;
	int count = 0;

	while (kw_silent_next(silent, &database, &key))
		count++;
	return count;
}

static void a_stir_hands_out_every_key_of_the_kind_once(void **state)
{
	struct kw_silent *silent = kw_silent_new(1);
	uint32_t database;
	struct kw_slice key;
	char name[16];

	for (int i = 0; i < 10; i++) {
		snprintf(name, sizeof name, "s%d", i);
		kw_silent_note(silent, 0, kw_slice_text(name), KW_SILENT_STREAM);
		kw_silent_note(silent, 0, kw_slice_text(name), KW_SILENT_STREAM);
	}
	kw_silent_note(silent, 1, kw_slice_text("h"), KW_SILENT_HLL);
	kw_silent_note(silent, 1, kw_slice_text("other"), KW_SILENT_NONE);
	assert_false(kw_silent_due(silent));
	kw_silent_stir(silent, KW_SILENT_STREAM);
	assert_int_equal(kw_silent_due(silent), 10);
	assert_int_equal(hand_out_all(silent), 10);
	kw_silent_stir(silent, KW_SILENT_STREAM);
	for (int i = 0; i < 4; i++)
		assert_true(kw_silent_next(silent, &database, &key));
	kw_silent_stir(silent, KW_SILENT_STREAM); /* again in the middle: a full round from here */
	assert_int_equal(hand_out_all(silent), 10);
	kw_silent_stir(silent, KW_SILENT_HLL);
	assert_true(kw_silent_next(silent, &database, &key));
	assert_int_equal(database, 1);
	assert_true(kw_slice_equal(key, kw_slice_text("h")));
	assert_false(kw_silent_due(silent));
	kw_silent_free(silent);
}

static void keys_that_went_or_changed_are_forgotten(void **state)
{
	struct kw_silent *silent = kw_silent_new(1);
	char name[16];

	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof name, "s%d", i);
		kw_silent_note(silent, (uint32_t)i % 3, kw_slice_text(name), KW_SILENT_STREAM);
	}
	kw_silent_note(silent, 0, kw_slice_text("s0"), KW_SILENT_NONE);
	kw_silent_note(silent, 1, kw_slice_text("s1"), KW_SILENT_HLL);
	kw_silent_stir(silent, KW_SILENT_STREAM);
	kw_silent_forget_database(silent, 2);
	assert_int_equal(kw_silent_count(silent, KW_SILENT_STREAM), 1000 - 333 - 2);
	assert_int_equal(kw_silent_count(silent, KW_SILENT_HLL), 1);
	assert_int_equal(hand_out_all(silent), 1000 - 333 - 2);
	kw_silent_forget_database(silent, 0);
	kw_silent_forget_database(silent, 1);
	kw_silent_stir(silent, KW_SILENT_STREAM);
	assert_false(kw_silent_due(silent));
	kw_silent_free(silent);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(streams_and_hyperloglogs_are_told_from_the_rest),
		cmocka_unit_test(vector_sets_are_told_from_values_of_other_modules),
		cmocka_unit_test(cut_payloads_are_of_no_kind),
		cmocka_unit_test(a_stir_hands_out_every_key_of_the_kind_once),
		cmocka_unit_test(keys_that_went_or_changed_are_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
