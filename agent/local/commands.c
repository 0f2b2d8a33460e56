/*
 * Which commands of the local server write? The server is asked about those that the table of
 * writers.h does not have (COMMAND INFO): modules' commands, and those of later servers.
 */
#include "internal.h"

#include "base/log.h"

#include <assert.h>
#include <stdlib.h>

/* More are asked about with the next look. */
#define ASKED_MAX 32

/* The names that were asked about, in the order of the answers. */
struct question {
	struct kw_local *local;
	size_t count;
	char names[ASKED_MAX][KW_WRITERS_NAME];
};

/* Also when the server does not say it: then each of them is one that writes. */
static void take_answer(const struct question *question, const struct kw_reply *reply)
{
	bool said = reply->type == KW_REPLY_ARRAY && reply->count == question->count;

	if (!said)
		kw_log_info("local",
			"the local server does not say which commands write (grant +command|info): "
			"%s and %zu others count as such",
			question->names[0], question->count - 1);
	for (size_t i = 0; i < question->count; i++)
		kw_writers_answer(&question->local->facts.writers, question->names[i],
			!said || kw_writers_does_write(&reply->elements[i]));
}

static void on_commands(void *arg, const struct kw_reply *reply)
{
	struct question *question = arg;
	struct kw_local *local = question->local;

	/* Lost, or not to be asked now: it is asked again with the next look. */
	if (reply && !kw_local_defer(local, "COMMAND INFO", reply)) {
		take_answer(question, reply);
		local->sets.fresh = 0; /* told already */
		if (kw_local_ready(local) && local->handlers.counted)
			local->handlers.counted(local->handlers.arg);
		/* All are asked about before the cursor is judged by their calls. */
		if (kw_local_state(local) == KW_LOCAL_ASKING && !kw_local_ask_writers(local))
			kw_local_lease(local);
	}
	free(question);
}

bool kw_local_ask_writers(struct kw_local *local)
{
	const char *names[ASKED_MAX];
	struct kw_slice argv[ASKED_MAX + 2] = {kw_slice_text("COMMAND"), kw_slice_text("INFO")};
	size_t count = kw_writers_unknown(&local->facts.writers, names, ASKED_MAX);
	struct question *question;

	if (count == 0)
		return false;
	question = kw_zalloc(sizeof *question);
	question->local = local;
	question->count = count;
	for (size_t i = 0; i < count; i++) {
		memcpy(question->names[i], names[i], KW_WRITERS_NAME);
		argv[i + 2] = kw_slice_text(question->names[i]);
	}
	kw_redis_send(local->redis, on_commands, question, (int)count + 2, argv);
	return true;
}
