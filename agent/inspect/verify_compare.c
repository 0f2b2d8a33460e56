#include "base/clock.h"
#include "verify_internal.h"

#include <stdlib.h>

/* Bytes of records asked for and not yet answered; one larger record can be among them. */
#define WINDOW_BYTES (UINT64_C(1) << 20)
/* What a question costs beside its value. */
#define QUESTION_BYTES 256

/* In verify->asked, followed by the key. */
struct question {
	struct kw_expected expected;
	uint64_t weight;
	uint32_t database;
	uint32_t key_length;
};

enum kw_verdict_of_key kw_verify_judge(
	const struct kw_verify *verify, const struct kw_expected *expected)
{
	const struct kw_compare_rules rules = {
		.now_ms = kw_wall_us() / 1000,
		.exact_times = verify->ask.pexpiretime,
	};

	return kw_compare(expected, &verify->ask.answer, &rules);
}

static void on_value(void *arg, const struct kw_reply *reply)
{
	struct kw_verify *verify = arg;
	struct question question;
	struct kw_slice key;

	if (kw_verify_over(verify) || !kw_ask_answered(&verify->ask, reply))
		return;
	memcpy(&question, kw_buffer_bytes(&verify->asked), sizeof question);
	key = kw_slice(kw_buffer_bytes(&verify->asked) + sizeof question, question.key_length);
	verify->result.checked++;
	if (kw_verify_judge(verify, &question.expected) == KW_SAME)
		verify->result.equal++;
	else
		kw_verify_suspect(verify, question.database, key, false);
	kw_buffer_consume(&verify->asked, sizeof question + question.key_length);
	verify->asked_bytes -= question.weight;
	kw_verify_step(verify);
}

void kw_verify_compare(struct kw_verify *verify, const struct kw_record_view *record)
{
	struct question question = {
		.weight = record->length + QUESTION_BYTES,
		.database = record->database,
		.key_length = (uint32_t)record->key.length,
	};

	kw_expect(record, kw_wall_us() / 1000, &question.expected);
	kw_buffer_append(&verify->asked, &question, sizeof question);
	kw_buffer_append(&verify->asked, record->key.data, record->key.length);
	verify->asked_bytes += question.weight;
	kw_ask_key(&verify->ask, record->database, record->key, on_value, verify);
}

uint64_t kw_verify_room(const struct kw_verify *verify)
{
	if (verify->asked_bytes >= WINDOW_BYTES || verify->suspects >= KW_VERIFY_SUSPECTS_MAX)
		return 0;
	return WINDOW_BYTES - verify->asked_bytes;
}
