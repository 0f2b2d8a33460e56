#include "base/clock.h"
#include "verify_internal.h"

#include <stdlib.h>

/* Bytes of records asked for and not yet answered; one larger record can be among them. */
#define WINDOW_BYTES (UINT64_C(1) << 20)
/* What a question costs beside its value. */
#define QUESTION_BYTES 256
/* Without PEXPIRETIME: the answer's way, and clocks read at two places. */
#define PTTL_TOLERANCE_MS 2000

/* In verify->asked, followed by the key. */
struct question {
	struct kw_verify_expected expected;
	uint64_t weight;
	uint32_t database;
	uint32_t key_length;
};

static bool same_expiry(const struct kw_verify *verify, uint64_t expected_ms, int64_t local_ms)
{
	int64_t apart = (int64_t)expected_ms - local_ms;

	if (expected_ms == 0 || local_ms < 0)
		return expected_ms == 0 && local_ms < 0;
	if (verify->options.pexpiretime)
		return apart == 0;
	return apart <= PTTL_TOLERANCE_MS && apart >= -PTTL_TOLERANCE_MS;
}

enum kw_verify_verdict kw_verify_judge(const struct kw_verify *verify,
	const struct kw_verify_expected *expected, const struct kw_verify_local *local)
{
	uint64_t now_ms = kw_wall_us() / 1000;

	if (expected->version == 0)
		return local->there ? KW_EXTRA : KW_SAME;
	if (!local->there) {
		/* Its time is over: gone here, and about to go there. */
		bool expired = expected->expires_ms != 0 && expected->expires_ms <= now_ms;

		return expired ? KW_SAME : KW_MISSING;
	}
	if (!same_expiry(verify, expected->expires_ms, local->expires_ms) ||
		!kw_fingerprint_matches(&expected->value, local->payload))
		return KW_DIFFERENT;
	return KW_SAME;
}

/* PEXPIRETIME, or PTTL, which is made absolute. */
static void on_expiry(void *arg, const struct kw_reply *reply)
{
	struct kw_verify *verify = arg;

	if (!reply || kw_verify_over(verify))
		return;
	if (reply->type != KW_REPLY_INTEGER) {
		kw_verify_fail_reply(
			verify, verify->options.pexpiretime ? "PEXPIRETIME" : "PTTL", reply);
		return;
	}
	verify->answer.expires_ms = reply->integer;
	if (!verify->options.pexpiretime && reply->integer >= 0)
		verify->answer.expires_ms += (int64_t)(kw_wall_us() / 1000);
}

void kw_verify_fetch(
	struct kw_verify *verify, uint32_t database, struct kw_slice key, kw_reply_fn fn)
{
	struct kw_slice argv[2] = {[1] = key};

	kw_verify_select(verify, database);
	argv[0] = kw_slice_text(verify->options.pexpiretime ? "PEXPIRETIME" : "PTTL");
	kw_redis_send(verify->redis, on_expiry, verify, 2, argv);
	argv[0] = kw_slice_text("DUMP");
	kw_redis_send(verify->redis, fn, verify, 2, argv);
}

bool kw_verify_answered(struct kw_verify *verify, const struct kw_reply *reply)
{
	if (!reply || kw_verify_over(verify))
		return false;
	if (reply->type != KW_REPLY_STRING && reply->type != KW_REPLY_NIL) {
		kw_verify_fail_reply(verify, "DUMP", reply);
		return false;
	}
	/* -2: it was deleted between the two questions. */
	verify->answer.there = reply->type == KW_REPLY_STRING && verify->answer.expires_ms != -2;
	verify->answer.payload = reply->text;
	return true;
}

static void on_value(void *arg, const struct kw_reply *reply)
{
	struct kw_verify *verify = arg;
	struct question question;
	struct kw_slice key;

	if (!kw_verify_answered(verify, reply))
		return;
	memcpy(&question, kw_buffer_bytes(&verify->asked), sizeof question);
	key = kw_slice(kw_buffer_bytes(&verify->asked) + sizeof question, question.key_length);
	verify->result.checked++;
	if (kw_verify_judge(verify, &question.expected, &verify->answer) == KW_SAME)
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
		.expected = {.version = record->version, .expires_ms = record->expires_ms},
		.weight = record->length + QUESTION_BYTES,
		.database = record->database,
		.key_length = (uint32_t)record->key.length,
	};

	kw_fingerprint_make(record->value, &question.expected.value);
	kw_buffer_append(&verify->asked, &question, sizeof question);
	kw_buffer_append(&verify->asked, record->key.data, record->key.length);
	verify->asked_bytes += question.weight;
	kw_verify_fetch(verify, record->database, record->key, on_value);
}

uint64_t kw_verify_room(const struct kw_verify *verify)
{
	if (verify->asked_bytes >= WINDOW_BYTES || verify->suspects >= KW_VERIFY_SUSPECTS_MAX)
		return 0;
	return WINDOW_BYTES - verify->asked_bytes;
}
