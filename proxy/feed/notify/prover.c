#include "feed/notify/prover.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/log.h"
#include "feed/notify/beat.h"
#include "fetch/errand.h"
#include "redis/server.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#define ACL_TEXT 64
#define QUOTED 120 /* bytes of an error of the server */

struct kw_prover {
	struct kw_errand *errand; /* carries the writes of the beat under way */
	struct kw_beat beat;
	struct kw_slice key;
	char user[128];
	kw_flag_classes told; /* the log said that the user may not write these */
	struct kw_prover_handlers handlers;
};

/* Of each class that is denied, once: "+rpush +sadd". */
static void list_acl(kw_flag_classes denied, char text[ACL_TEXT])
{
	int length = 0;

	*text = '\0';
	for (size_t i = 0; i < KW_BEAT_WRITES; i++) {
		const struct kw_beat_write *write = kw_beat_write(i);

		if (!(denied & KW_FLAG_CLASS(write->class)))
			continue;
		denied &= ~KW_FLAG_CLASS(write->class);
		length += snprintf(text + length, (size_t)(ACL_TEXT - length), " %s", write->acl);
		assert(length < ACL_TEXT);
	}
}

/* All at once: the operator gives them with one line. */
static void tell_denied(struct kw_prover *prover)
{
	kw_flag_classes denied = prover->beat.denied & ~prover->told;
	const char *user = prover->user[0] ? prover->user : "default";
	char classes[KW_FLAG_CLASSES_TEXT], acl[ACL_TEXT];

	if (!denied)
		return;
	prover->told |= denied;
	kw_flag_classes_text(denied, classes);
	list_acl(denied, acl);
	kw_log_warn("source",
		"the user '%s' may not write source.canary_key, so these notification flags stay "
		"unproven: %s: give the permission with ACL SETUSER %s%s",
		user, classes, user, acl);
}

/* ---- the writes ---- */

static enum kw_beat_answer answer_of(const struct kw_reply *reply)
{
	switch (reply->type) {
	case KW_REPLY_ERROR:
		kw_log_debug("source", "source.canary_key was refused: %.*s",
			(int)(reply->text.length < QUOTED ? reply->text.length : QUOTED),
			(const char *)reply->text.data);
		return kw_server_error(reply->text) == KW_SERVER_E_PERMISSION ? KW_BEAT_DENIED
									      : KW_BEAT_NOTHING;
	case KW_REPLY_INTEGER:
		return reply->integer > 0 ? KW_BEAT_DONE : KW_BEAT_NOTHING;
	case KW_REPLY_STATUS:
	case KW_REPLY_STRING:
		return KW_BEAT_DONE;
	default:
		return KW_BEAT_NOTHING;
	}
}

static void write_answered(void *arg, const struct kw_reply *reply)
{
	struct kw_prover *prover = arg;

	if (!reply || prover->beat.sm.state != KW_BEAT_WRITING)
		return;
	kw_beat_answered(&prover->beat, answer_of(reply), kw_clock_us());
	if (prover->beat.sm.state == KW_BEAT_EXPIRING)
		tell_denied(prover);
}

static void send_write(struct kw_prover *prover, const struct kw_beat_write *write)
{
	struct kw_slice argv[2 + KW_BEAT_ARGUMENTS] = {kw_slice_text(write->command), prover->key};
	int argc = 2;

	for (int i = 0; i < KW_BEAT_ARGUMENTS && write->arguments[i]; i++)
		argv[argc++] = kw_slice_text(write->arguments[i]);
	kw_redis_send(kw_errand_redis(prover->errand), write_answered, prover, argc, argv);
}

static bool may_write(const struct kw_prover *prover)
{
	return prover->handlers.may_write(prover->handlers.arg);
}

static void on_open(void *arg)
{
	struct kw_prover *prover = arg;

	assert(prover->beat.sm.state == KW_BEAT_WRITING);
	if (!may_write(prover)) {
		kw_errand_end(prover->errand);
		return;
	}
	for (size_t i = 0; i < KW_BEAT_WRITES; i++)
		send_write(prover, kw_beat_write(i));
	kw_redis_flush(kw_errand_redis(prover->errand));
}

static void exists_answered(void *arg, const struct kw_reply *reply)
{
	struct kw_prover *prover = arg;

	if (!reply || prover->beat.sm.state != KW_BEAT_READING)
		return;
	kw_beat_read(&prover->beat, reply->type == KW_REPLY_INTEGER && reply->integer == 0);
	kw_errand_end(prover->errand);
	prover->handlers.ask_events(prover->handlers.arg);
}

static void read_key(struct kw_prover *prover)
{
	const struct kw_slice argv[] = {kw_slice_text("EXISTS"), prover->key};

	kw_redis_send(kw_errand_redis(prover->errand), exists_answered, prover, 2, argv);
}

/* What it proved so far counts for nothing if it ends before all was written and read. */
static void on_closed(void *arg, const struct kw_error *why)
{
	struct kw_prover *prover = arg;

	if (why->code != KW_OK)
		kw_log_debug("source", "source.canary_key was not written: %s", why->text);
	if (prover->beat.sm.state != KW_BEAT_ASKING)
		kw_beat_stop(&prover->beat);
	prover->handlers.closed(prover->handlers.arg);
}

/* ---- what the feed tells ---- */

static void begin(struct kw_prover *prover, const char *address, const char *run_id)
{
	struct kw_error why;

	if (!kw_errand_begin(prover->errand, address, run_id, &why))
		return;
	kw_log_debug("source", "source.canary_key was not written: %s", why.text);
	kw_beat_stop(&prover->beat);
}

void kw_prover_look(
	struct kw_prover *prover, const char *address, const char *run_id, uint64_t now_us)
{
	if (kw_errand_is_open(prover->errand) && kw_beat_reads(&prover->beat, now_us))
		read_key(prover);
	else if (prover->key.length > 0 && kw_errand_is_idle(prover->errand) && may_write(prover) &&
		 kw_beat_begin(&prover->beat, now_us))
		begin(prover, address, run_id);
}

void kw_prover_turn(struct kw_prover *prover)
{
	if (prover->beat.sm.state != KW_BEAT_RESTING && !may_write(prover)) {
		kw_errand_end(prover->errand);
		kw_beat_stop(&prover->beat);
	}
}

void kw_prover_heard(struct kw_prover *prover, struct kw_slice event, struct kw_slice key)
{
	if (prover->key.length > 0 && kw_slice_equal(prover->key, key))
		kw_beat_heard(&prover->beat, event);
}

void kw_prover_passed(struct kw_prover *prover, bool ok)
{
	kw_flag_classes lacking = kw_beat_passed(&prover->beat, ok);

	if (lacking)
		prover->handlers.lacking(prover->handlers.arg, lacking);
}

void kw_prover_stop(struct kw_prover *prover)
{
	kw_beat_reset(&prover->beat);
	kw_errand_end(prover->errand);
}

bool kw_prover_is_idle(const struct kw_prover *prover)
{
	return kw_errand_is_idle(prover->errand);
}

bool kw_prover_has_key(const struct kw_prover *prover)
{
	return prover->key.length > 0;
}

kw_flag_classes kw_prover_proven(const struct kw_prover *prover, uint64_t now_us)
{
	return kw_beat_proven(&prover->beat, now_us);
}

struct kw_prover *kw_prover_new(uv_loop_t *loop, const struct kw_redis_options *options,
	struct kw_slice key, const struct kw_prover_handlers *handlers)
{
	struct kw_prover *prover = kw_zalloc(sizeof *prover);
	const struct kw_errand_handlers errand = {on_open, on_closed, prover};

	prover->errand = kw_errand_new(loop, options, "canary", &errand);
	prover->key = key;
	snprintf(prover->user, sizeof prover->user, "%s", options->username);
	prover->handlers = *handlers;
	kw_beat_init(&prover->beat);
	return prover;
}

void kw_prover_free(struct kw_prover *prover)
{
	if (!prover)
		return;
	kw_errand_free(prover->errand);
	free(prover);
}
