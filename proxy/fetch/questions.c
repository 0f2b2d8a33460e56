#include "fetch/questions.h"

#include <assert.h>
#include <string.h>

struct head {
	kw_reply_fn fn;
	void *arg;
	int64_t database;
	uint32_t bytes; /* with the head */
	uint32_t argc;
};

void kw_questions_add(struct kw_questions *questions, const struct kw_question *question)
{
	struct head head = {.fn = question->fn,
		.arg = question->arg,
		.database = question->database,
		.bytes = sizeof head,
		.argc = (uint32_t)question->argc};

	assert(question->argc > 0 && question->argc <= KW_QUESTION_WORDS);
	for (int i = 0; i < question->argc; i++)
		head.bytes += (uint32_t)(sizeof(uint32_t) + question->argv[i].length);
	kw_buffer_append(&questions->bytes, &head, sizeof head);
	for (int i = 0; i < question->argc; i++) {
		uint32_t length = (uint32_t)question->argv[i].length;

		kw_buffer_append(&questions->bytes, &length, sizeof length);
		kw_buffer_append(&questions->bytes, question->argv[i].data, length);
	}
	questions->count++;
}

bool kw_questions_next(
	const struct kw_questions *questions, size_t *at, struct kw_question *question)
{
	const uint8_t *byte = kw_buffer_bytes(&questions->bytes);
	struct head head;

	assert(*at <= kw_buffer_length(&questions->bytes));
	if (*at == kw_buffer_length(&questions->bytes))
		return false;
	byte += *at;
	memcpy(&head, byte, sizeof head);
	*at += head.bytes;
	*question = (struct kw_question){head.fn, head.arg, head.database, (int)head.argc, {{0}}};
	byte += sizeof head;
	for (uint32_t i = 0; i < head.argc; i++) {
		uint32_t length;

		memcpy(&length, byte, sizeof length);
		question->argv[i] = kw_slice(byte + sizeof length, length);
		byte += sizeof length + length;
	}
	return true;
}

void kw_questions_remove(struct kw_questions *questions)
{
	struct head head;

	assert(questions->count > 0);
	memcpy(&head, kw_buffer_bytes(&questions->bytes), sizeof head);
	kw_buffer_consume(&questions->bytes, head.bytes);
	questions->count--;
}

void kw_questions_close(struct kw_questions *questions)
{
	kw_buffer_close(&questions->bytes);
	questions->count = 0;
}
