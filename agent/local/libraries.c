#include "libraries.h"

#include "base/buffer.h"
#include "internal.h"

#include <assert.h>
#include <stdlib.h>

void kw_libraries_commands(
	const struct kw_libraries_change *change, kw_libraries_send_fn send, void *arg)
{
	assert(change->deleted_count > 0 || change->payload.length > 0);
	for (size_t i = 0; i < change->deleted_count; i++) {
		const struct kw_slice argv[] = {
			kw_slice_text("FUNCTION"), kw_slice_text("DELETE"), change->deleted[i]};

		send(arg, 3, argv);
	}
	if (change->payload.length > 0) {
		const struct kw_slice argv[] = {kw_slice_text("FUNCTION"), kw_slice_text("RESTORE"),
			change->payload, kw_slice_text("REPLACE")};

		send(arg, 4, argv);
	}
}

/* One change that is out. */
struct change {
	struct kw_local *local;
	size_t owed; /* answers */
	struct kw_failure failure;
	kw_local_done_fn done;
	void *arg;
};

static void note_refusal(struct change *change, const struct kw_reply *reply)
{
	char text[KW_LOCAL_ANSWER];

	if (kw_failed(&change->failure))
		return;
	kw_local_tell_answer(change->local, reply,
		"allow +function|restore and +function|delete, or set apply.functions=false", text);
	kw_failure_answered(&change->failure, reply,
		"the local server does not take the primary's functions: it %s", text);
}

static void on_answer(void *arg, const struct kw_reply *reply)
{
	struct change *change = arg;

	if (reply && reply->type == KW_REPLY_ERROR)
		note_refusal(change, reply);
	else if (!reply && !kw_failed(&change->failure))
		kw_failure_answered(&change->failure, NULL,
			"the connection was lost while functions were loaded");
	if (--change->owed > 0)
		return;
	change->done(change->arg, kw_failed(&change->failure) ? &change->failure : NULL);
	free(change);
}

static void send_one(void *arg, int argc, const struct kw_slice *argv)
{
	struct change *change = arg;

	change->owed++;
	kw_redis_send(change->local->redis, on_answer, change, argc, argv);
}

void kw_local_change_libraries(struct kw_local *local, const struct kw_libraries_change *change,
	kw_local_done_fn done, void *arg)
{
	struct change *out = kw_zalloc(sizeof *out);

	assert(kw_local_ready(local));
	out->local = local;
	out->done = done;
	out->arg = arg;
	kw_libraries_commands(change, send_one, out);
}
