#include "functions.h"

#include "base/clock.h"
#include "base/log.h"
#include "plan.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

/* A READ that was lost, a server that is busy. */
#define RETRY_US 1000000
/* The server cannot be changed at this moment, by our own doing. */
#define SOON_US 100000
#define REFUSED_LOWEST_MS 1000
#define REFUSED_HIGHEST_MS 60000
/* READs in a row that do not verify, each of another publication. */
#define TORN_MOST 16

static bool holds(const void *owner, int state)
{
	const struct kw_functions *functions = owner;

	switch ((enum kw_functions_state)state) {
	case KW_FUNCTIONS_IDLE:
		return true;
	case KW_FUNCTIONS_READING:
		return functions->asked.epoch != 0;
	case KW_FUNCTIONS_LOOKING:
	case KW_FUNCTIONS_CHANGING:
		return functions->place.epoch != 0;
	}
	return false;
}

#define TO(state) KW_SM_TO(KW_FUNCTIONS_##state)
static const struct kw_sm_state states[] = {
	[KW_FUNCTIONS_IDLE] = {"idle", TO(READING) | TO(LOOKING), KW_SM_INITIAL},
	[KW_FUNCTIONS_READING] = {"reading", TO(IDLE)},
	[KW_FUNCTIONS_LOOKING] = {"looking", TO(IDLE) | TO(CHANGING)},
	[KW_FUNCTIONS_CHANGING] = {"changing", TO(IDLE)},
};

static const struct kw_sm_conf machine = {"functions", states, KW_FUNCTIONS_CHANGING + 1, holds};

static void move(struct kw_functions *functions, enum kw_functions_state state)
{
	kw_sm_move(&functions->sm, (int)state, "");
}

static void go_on(struct kw_functions *functions)
{
	functions->options.due(functions->options.arg);
}

/* ---- places ---- */

static const struct kw_functions_place nowhere;

static bool is_same(const struct kw_functions_place *a, const struct kw_functions_place *b)
{
	return a->epoch == b->epoch && kw_history_functions_equal(&a->named, &b->named);
}

/* What the table named last; epoch 0: nothing yet; version 0: it carries none. */
static struct kw_functions_place newest_of(const struct kw_functions *functions)
{
	const struct kw_follow *follow = functions->options.sync->follow;

	if (follow->superblock.epoch == 0)
		return functions->named;
	return (struct kw_functions_place){follow->superblock.epoch, follow->history.functions};
}

/* The same, if it can be read now. Otherwise nowhere. */
static struct kw_functions_place present(const struct kw_functions *functions)
{
	const struct kw_follow *follow = functions->options.sync->follow;

	if (!kw_follow_up(follow) || follow->superblock.epoch == 0 ||
		follow->history.functions.version == 0)
		return nowhere;
	return newest_of(functions);
}

/* The proxy hides the area from a key with a scope. */
static bool applies(const struct kw_functions *functions)
{
	const struct kw_sync *sync = functions->options.sync;

	return functions->options.apply && kw_pair_needs_local(sync->pair) &&
	       !sync->follow->info.scoped;
}

static bool may_work(const struct kw_functions *functions)
{
	const struct kw_sync *sync = functions->options.sync;

	return applies(functions) && sync->intake == KW_SYNC_INTAKE_OPEN &&
	       kw_sync_phase(sync) == KW_SYNC_TAIL && kw_sync_may_follow(sync) &&
	       kw_local_ready(sync->local) && present(functions).epoch != 0;
}

/* ---- standings ---- */

static void stand(struct kw_functions *functions, enum kw_functions_standing standing,
	const char *format, ...) __attribute__((format(printf, 3, 4)));

/* What keeps the agent from being warm is logged when it begins, or is another one. */
static void stand(struct kw_functions *functions, enum kw_functions_standing standing,
	const char *format, ...)
{
	char before[KW_ERROR_TEXT];
	va_list args;

	memcpy(before, functions->why, sizeof before);
	va_start(args, format);
	vsnprintf(functions->why, sizeof functions->why, format, args);
	va_end(args);
	if (functions->why[0] && strcmp(before, functions->why) != 0)
		kw_log_warn("functions", "%s", functions->why);
	functions->standing = standing;
}

#define REFUSE(functions, ...)                                                                     \
	do {                                                                                       \
		stand(functions, KW_FUNCTIONS_REFUSED, __VA_ARGS__);                               \
		try_later(functions);                                                              \
	} while (0)

static void try_later(struct kw_functions *functions)
{
	functions->looked_us = 0;
	functions->retry_us = kw_clock_us() + kw_backoff_next_us(&functions->backoff);
}

static void try_in(struct kw_functions *functions, uint64_t us)
{
	functions->looked_us = 0;
	functions->retry_us = kw_clock_us() + us;
}

void kw_functions_doubt(struct kw_functions *functions)
{
	functions->looked_us = functions->retry_us = 0;
	functions->tried = nowhere;
	if (functions->standing == KW_FUNCTIONS_EQUAL)
		functions->standing = KW_FUNCTIONS_PENDING;
}

/* ---- the set of the table ---- */

static void forget_set(struct kw_functions *functions)
{
	kw_libraries_close(&functions->set);
	functions->place = functions->tried = nowhere;
}

static void take_set(struct kw_functions *functions, struct kw_slice bytes)
{
	struct kw_libraries set = {0};
	struct kw_error error;

	forget_set(functions);
	if (kw_libraries_read(&set, bytes, KW_FUNCTIONS_BYTES, &error)) {
		REFUSE(functions, "the proxy's function libraries cannot be used: %.300s",
			error.text);
		return;
	}
	functions->set = set;
	functions->digest = kw_libraries_digest(&set);
	functions->place = functions->asked;
	functions->looked_us = functions->retry_us = 0;
	kw_backoff_reset(&functions->backoff);
	stand(functions, KW_FUNCTIONS_PENDING, "%s", "");
}

/* The writer was two sets further, or wrote just now: the next superblock names what is there. */
static void note_torn(struct kw_functions *functions)
{
	functions->torn_at = functions->options.sync->follow->superblock.publication;
	if (++functions->torn <= TORN_MOST)
		return;
	functions->torn = 1;
	REFUSE(functions, "the proxy's function libraries do not verify: if this lasts, restart "
			  "the proxy");
}

static void on_read(struct kw_remote_read *read, const struct kw_error *lost)
{
	struct kw_functions *functions = read->arg;
	const uint8_t *bytes = read->buffer;

	move(functions, KW_FUNCTIONS_IDLE);
	if (lost && lost->code == KW_E_ARGUMENT) {
		REFUSE(functions, "the proxy's function libraries lie outside of its table: "
				  "restart the proxy");
	} else if (lost) {
		functions->asked = nowhere;
		try_in(functions, RETRY_US);
	} else if (!kw_history_functions_hold(&functions->asked.named, bytes)) {
		note_torn(functions);
	} else {
		functions->torn = 0;
		take_set(functions, kw_slice(bytes, functions->asked.named.bytes));
		go_on(functions);
	}
	kw_buffer_close(&functions->bytes);
}

static void read_set(struct kw_functions *functions, const struct kw_functions_place *place)
{
	struct kw_remote_read *read = &functions->read;

	functions->asked = *place;
	if (functions->standing == KW_FUNCTIONS_EQUAL)
		functions->standing = KW_FUNCTIONS_PENDING;
	*read = (struct kw_remote_read){
		.offset = place->named.offset,
		.length = place->named.bytes,
		.buffer = kw_buffer_reserve(&functions->bytes, place->named.bytes),
		.done = on_read,
		.arg = functions,
	};
	move(functions, KW_FUNCTIONS_READING);
	kw_remote_read(functions->options.sync->follow->remote, &read, 1);
}

/* ---- changing the server ---- */

static void on_changed(void *arg, const struct kw_failure *failure)
{
	struct kw_functions *functions = arg;

	move(functions, KW_FUNCTIONS_IDLE);
	if (!failure) {
		functions->changes++;
		functions->tried = functions->place;
		functions->looked_us = functions->retry_us = 0;
		go_on(functions);
	} else if (failure->code == KW_E_STATE) {
		try_in(functions, SOON_US);
	} else if (failure->code == KW_E_IO || kw_failure_passes(failure)) {
		try_in(functions, RETRY_US);
	} else {
		REFUSE(functions, "%s", failure->text);
	}
}

static void hold(struct kw_functions *functions, const struct kw_plan *plan)
{
	functions->held = plan->held;
	stand(functions, KW_FUNCTIONS_HELD,
		"the primary has no function library, and may have lost them: the %zu of the local "
		"server stay until it has one, or until `keywakectl approve`",
		plan->held);
}

static void carry_out(struct kw_functions *functions, const struct kw_plan *plan)
{
	switch (plan->verdict) {
	case KW_PLAN_CLASH:
		REFUSE(functions,
			"the primary has a function library \"%.*s\", and an agent keeps its "
			"cursor in one of that name: choose another apply.cursor_name",
			(int)plan->clash.length, (const char *)plan->clash.data);
		break;
	case KW_PLAN_HELD:
		hold(functions, plan);
		break;
	case KW_PLAN_EQUAL:
	case KW_PLAN_CHANGE:
		assert(plan->verdict == KW_PLAN_CHANGE); /* the digests differ */
		move(functions, KW_FUNCTIONS_CHANGING);
		kw_pair_change_libraries(
			functions->options.sync->pair, &plan->change, on_changed, functions);
		return;
	}
	move(functions, KW_FUNCTIONS_IDLE);
}

static enum kw_plan_absence absence(const struct kw_functions *functions)
{
	return functions->place.named.origin == KW_FUNCTIONS_TOLD ||
			       is_same(&functions->place, &functions->approved)
		       ? KW_PLAN_ABSENCE_MEANT
		       : KW_PLAN_ABSENCE_DOUBTED;
}

/* Others have changed what was equal. */
static void note_difference(struct kw_functions *functions)
{
	if (functions->standing != KW_FUNCTIONS_EQUAL)
		return;
	functions->differences++;
	functions->standing = KW_FUNCTIONS_PENDING;
	kw_log_warn("functions", "the function libraries of the local server were changed by "
				 "another client: they are mended");
}

static void make_equal(struct kw_functions *functions, const struct kw_libraries *local)
{
	const struct kw_server_identity *server = &functions->options.sync->local->facts.identity;
	struct kw_plan plan = {0};

	note_difference(functions);
	if (is_same(&functions->tried, &functions->place)) {
		functions->tried = nowhere;
		move(functions, KW_FUNCTIONS_IDLE);
		REFUSE(functions, "the local server does not keep the function libraries that were "
				  "loaded: another client, or another agent, changes them");
		return;
	}
	kw_plan_make(
		&plan, &functions->set, local, absence(functions), kw_server_rdb_version(server));
	carry_out(functions, &plan);
	kw_plan_close(&plan);
}

/* ---- looking at the server ---- */

static void found_equal(struct kw_functions *functions)
{
	if (functions->standing != KW_FUNCTIONS_EQUAL)
		kw_log_info("functions",
			"the local server has the function libraries of the primary (%zu)",
			functions->set.count);
	functions->tried = nowhere;
	kw_backoff_reset(&functions->backoff);
	stand(functions, KW_FUNCTIONS_EQUAL, "%s", "");
	move(functions, KW_FUNCTIONS_IDLE);
}

static void take_dump(struct kw_functions *functions, struct kw_slice dump)
{
	const struct kw_functions_place newest = present(functions);
	struct kw_libraries local = {0};
	struct kw_hash128 digest;
	struct kw_error error;

	if (kw_libraries_read(&local, dump, KW_FUNCTIONS_LOCAL_BYTES, &error)) {
		move(functions, KW_FUNCTIONS_IDLE);
		REFUSE(functions,
			"the local server's function libraries are not understood (%.300s): delete "
			"the one that is meant, or set apply.functions=false",
			error.text);
	} else if (!may_work(functions) || !is_same(&newest, &functions->place)) {
		/* Another set is there already, or this is no time to change the server. */
		functions->looked_us = 0;
		move(functions, KW_FUNCTIONS_IDLE);
	} else {
		functions->local_count = local.count;
		digest = kw_libraries_digest(&local);
		if (memcmp(&digest, &functions->digest, sizeof digest) == 0)
			found_equal(functions);
		else
			make_equal(functions, &local);
	}
	kw_libraries_close(&local);
}

static void on_dump(void *arg, const struct kw_reply *reply)
{
	struct kw_functions *functions = arg;
	char text[KW_LOCAL_ANSWER];

	if (reply && reply->type == KW_REPLY_STRING) {
		take_dump(functions, reply->text);
		go_on(functions);
		return;
	}
	move(functions, KW_FUNCTIONS_IDLE);
	if (!reply || (reply->type == KW_REPLY_ERROR &&
			      kw_server_error_passes(kw_server_error(reply->text)))) {
		try_in(functions, RETRY_US);
		return;
	}
	kw_local_tell_answer(functions->options.sync->local, reply,
		"allow +function|dump, +function|restore and +function|delete, or set "
		"apply.functions=false",
		text);
	REFUSE(functions, "local server: FUNCTION DUMP %s", text);
}

static void look(struct kw_functions *functions, uint64_t now_us)
{
	struct kw_local *local = functions->options.sync->local;
	const struct kw_server_identity *server = &local->facts.identity;

	functions->looked_us = now_us;
	functions->calls = local->facts.functions;
	if (!server->valkey && server->major < 7) {
		REFUSE(functions,
			"the local server is Redis %d.%d, which knows no functions: upgrade it to "
			"7.0, or set apply.functions=false",
			server->major, server->minor);
		return;
	}
	kw_local_use_functions(local);
	move(functions, KW_FUNCTIONS_LOOKING);
	kw_redis_words(local->redis, on_dump, functions, "FUNCTION", "DUMP", NULL);
}

static bool is_look_due(const struct kw_functions *functions, uint64_t now_us)
{
	return functions->looked_us == 0 || now_us >= functions->looked_us + KW_FUNCTIONS_LOOK_US ||
	       functions->calls != functions->options.sync->local->facts.functions;
}

static bool is_read_due(
	const struct kw_functions *functions, const struct kw_functions_place *newest)
{
	const struct kw_follow *follow = functions->options.sync->follow;

	if (functions->torn > 0 && functions->torn_at == follow->superblock.publication)
		return false;
	return functions->torn > 0 || !is_same(newest, &functions->asked);
}

static bool is_another(
	const struct kw_functions *functions, const struct kw_functions_place *newest)
{
	return functions->asked.epoch != 0 && !is_same(newest, &functions->asked);
}

void kw_functions_step(struct kw_functions *functions, uint64_t now_us)
{
	const struct kw_functions_place newest = present(functions);

	functions->named = newest_of(functions);
	if (kw_sync_phase(functions->options.sync) != KW_SYNC_TAIL &&
		functions->sm.state == KW_FUNCTIONS_IDLE)
		kw_functions_doubt(functions);
	if (functions->sm.state != KW_FUNCTIONS_IDLE || !may_work(functions))
		return;
	if (is_read_due(functions, &newest)) {
		/* Another set than the one that was refused need not wait. */
		if (now_us >= functions->retry_us || is_another(functions, &newest))
			read_set(functions, &newest);
	} else if (is_same(&newest, &functions->place) && now_us >= functions->retry_us &&
		   is_look_due(functions, now_us)) {
		/* By an older set nothing is judged: the newest may be unreadable. */
		look(functions, now_us);
	}
}

/* ---- what an operator asks ---- */

bool kw_functions_approve(struct kw_functions *functions, char finding[KW_SYNC_WHY])
{
	if (kw_functions_fact(functions) != KW_FUNCTIONS_ARE_HELD)
		return false;
	snprintf(finding, KW_SYNC_WHY,
		"the deletion of all %zu function libraries of the local server, because the "
		"primary has none",
		functions->held);
	kw_log_warn("functions", "approved by the operator: %s", finding);
	functions->approved = functions->place;
	stand(functions, KW_FUNCTIONS_PENDING, "%s", "");
	functions->looked_us = functions->retry_us = 0;
	return true;
}

enum kw_functions_fact kw_functions_fact(const struct kw_functions *functions)
{
	const struct kw_functions_place newest = newest_of(functions);

	if (!applies(functions) || newest.named.version == 0)
		return KW_FUNCTIONS_FINE;
	if (!is_same(&newest, &functions->asked))
		return KW_FUNCTIONS_LATE;
	switch (functions->standing) {
	case KW_FUNCTIONS_EQUAL:
		return is_same(&newest, &functions->place) ? KW_FUNCTIONS_FINE : KW_FUNCTIONS_LATE;
	case KW_FUNCTIONS_HELD:
		return KW_FUNCTIONS_ARE_HELD;
	case KW_FUNCTIONS_REFUSED:
		return KW_FUNCTIONS_ARE_REFUSED;
	case KW_FUNCTIONS_PENDING:
		break;
	}
	return KW_FUNCTIONS_LATE;
}

static const char *state_name(const struct kw_functions *functions)
{
	static const char *const names[] = {
		[KW_FUNCTIONS_FINE] = "equal",
		[KW_FUNCTIONS_LATE] = "pending",
		[KW_FUNCTIONS_ARE_HELD] = "held",
		[KW_FUNCTIONS_ARE_REFUSED] = "refused",
	};
	const struct kw_sync *sync = functions->options.sync;

	if (!functions->options.apply || !kw_pair_needs_local(sync->pair))
		return "off";
	if (sync->follow->info.scoped)
		return "hidden";
	return newest_of(functions).named.version == 0 ? "not carried"
						       : names[kw_functions_fact(functions)];
}

void kw_functions_report(const struct kw_functions *functions, struct kw_functions_report *report)
{
	const bool equal = functions->standing == KW_FUNCTIONS_EQUAL;

	*report = (struct kw_functions_report){
		.state = state_name(functions),
		.why = kw_functions_fact(functions) == KW_FUNCTIONS_FINE ? "" : functions->why,
		.libraries = functions->set.count,
		.bytes = functions->place.named.bytes,
		.version = equal ? functions->place.named.version : 0,
		.table_version = newest_of(functions).named.version,
		.changes = functions->changes,
		.differences = functions->differences,
	};
}

/* ---- the beginning and the end ---- */

void kw_functions_init(struct kw_functions *functions, const struct kw_functions_options *options)
{
	*functions = (struct kw_functions){.options = *options};
	assert(options->sync && options->due);
	kw_backoff_init(&functions->backoff, REFUSED_LOWEST_MS, REFUSED_HIGHEST_MS);
	kw_sm_init(&functions->sm, &machine, functions, KW_FUNCTIONS_IDLE);
}

void kw_functions_close(struct kw_functions *functions)
{
	kw_libraries_close(&functions->set);
	kw_buffer_close(&functions->bytes);
}
