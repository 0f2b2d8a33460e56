/* Questions without an answer: they are asked again as they were, in order, each of them once. */
#include "fetch/questions.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

static int asker;

static void answered(void *arg, const struct kw_reply *reply)
{
}

static void answered_otherwise(void *arg, const struct kw_reply *reply)
{
}

static void ask(struct kw_questions *questions, int64_t database, const char *key)
{
	char text[64];

	strncpy(text, key, sizeof text - 1); /* it goes away: the words are copied */
	text[sizeof text - 1] = '\0';
	kw_questions_add(questions, &(struct kw_question){answered, &asker, database, 2,
					    {kw_slice_text("DUMP"), kw_slice(text, strlen(text))}});
	memset(text, '?', sizeof text);
}

static void expect(
	const struct kw_questions *questions, size_t *at, int64_t database, const char *key)
{
	struct kw_question question;

	assert_true(kw_questions_next(questions, at, &question));
	assert_ptr_equal(question.fn, answered);
	assert_ptr_equal(question.arg, &asker);
	assert_int_equal(question.database, database);
	assert_int_equal(question.argc, 2);
	assert_true(kw_slice_equal(question.argv[0], kw_slice_text("DUMP")));
	assert_true(kw_slice_equal(question.argv[1], kw_slice_text(key)));
}

static void expect_no_more(const struct kw_questions *questions, size_t *at)
{
	struct kw_question question;

	assert_false(kw_questions_next(questions, at, &question));
}

static void zeroed_memory_is_the_empty_queue(void **state)
{
	struct kw_questions questions = {0};
	size_t at = 0;

	expect_no_more(&questions, &at);
	assert_int_equal(questions.count, 0);
	kw_questions_close(&questions);
}

static void they_come_in_the_order_in_which_they_were_asked(void **state)
{
	struct kw_questions questions = {0};
	size_t at = 0;

	ask(&questions, 0, "one");
	ask(&questions, 3, "");
	ask(&questions, -1, "three");
	assert_int_equal(questions.count, 3);
	for (int walk = 0; walk < 2; walk++) { /* a walk changes nothing */
		at = 0;
		expect(&questions, &at, 0, "one");
		expect(&questions, &at, 3, "");
		expect(&questions, &at, -1, "three");
		expect_no_more(&questions, &at);
	}
	kw_questions_close(&questions);
}

/* Answers come in order: each removes the first, and others are asked meanwhile. */
static void an_answer_removes_the_first_one(void **state)
{
	struct kw_questions questions = {0};
	char key[16];
	size_t at;

	for (int i = 0; i < 1000; i++) {
		snprintf(key, sizeof key, "key:%d", i);
		ask(&questions, i, key);
		if (i < 10)
			continue;
		kw_questions_remove(&questions);
		assert_int_equal(questions.count, 10);
		snprintf(key, sizeof key, "key:%d", i - 9);
		at = 0;
		expect(&questions, &at, i - 9, key);
	}
	while (questions.count > 0)
		kw_questions_remove(&questions);
	at = 0;
	expect_no_more(&questions, &at);
	kw_questions_close(&questions);
}

static void words_are_any_bytes_and_as_many_as_there_is_room_for(void **state)
{
	static const char bytes[] = "a\0\r\n$5\xff";
	struct kw_questions questions = {0};
	struct kw_question asked = {answered_otherwise, NULL, 7, KW_QUESTION_WORDS, {{0}}}, found;
	size_t at = 0;

	for (int i = 0; i < KW_QUESTION_WORDS; i++)
		asked.argv[i] = kw_slice(bytes, (size_t)i);
	kw_questions_add(&questions, &asked);
	assert_true(kw_questions_next(&questions, &at, &found));
	assert_ptr_equal(found.fn, answered_otherwise);
	assert_null(found.arg);
	assert_int_equal(found.argc, KW_QUESTION_WORDS);
	for (int i = 0; i < KW_QUESTION_WORDS; i++)
		assert_true(kw_slice_equal(found.argv[i], asked.argv[i]));
	kw_questions_close(&questions);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(zeroed_memory_is_the_empty_queue),
		cmocka_unit_test(they_come_in_the_order_in_which_they_were_asked),
		cmocka_unit_test(an_answer_removes_the_first_one),
		cmocka_unit_test(words_are_any_bytes_and_as_many_as_there_is_room_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
