#include "source/functions.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/log.h"
#include "rdb/libraries.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

static bool holds(const void *owner, int state)
{
	const struct kw_source_functions *functions = owner;

	return state == KW_SOURCE_FUNCTIONS_IDLE ||
	       (functions->standing != KW_SOURCE_FUNCTIONS_OFF && functions->server);
}

#define TO(state) KW_SM_TO(KW_SOURCE_FUNCTIONS_##state)
static const struct kw_sm_state states[] = {
	[KW_SOURCE_FUNCTIONS_IDLE] = {"idle", TO(DUE), KW_SM_INITIAL},
	[KW_SOURCE_FUNCTIONS_DUE] = {"due", TO(ASKED) | TO(IDLE)},
	[KW_SOURCE_FUNCTIONS_ASKED] = {"asked", TO(AGAIN) | TO(IDLE)},
	[KW_SOURCE_FUNCTIONS_AGAIN] = {"asked, and due", TO(DUE) | TO(IDLE)},
};

static const struct kw_sm_conf machine = {
	"functions", states, KW_SOURCE_FUNCTIONS_AGAIN + 1, holds};

static void move(struct kw_source_functions *functions, enum kw_source_functions_state state)
{
	kw_sm_move(&functions->sm, (int)state, "");
}

void kw_source_functions_init(struct kw_source_functions *functions, bool carries,
	struct kw_data_connection *data, struct kw_table *table, const char *user)
{
	*functions = (struct kw_source_functions){
		.data = data,
		.table = table,
		.user = user,
		.standing = carries ? KW_SOURCE_FUNCTIONS_UNKNOWN : KW_SOURCE_FUNCTIONS_OFF,
	};
	kw_sm_init(&functions->sm, &machine, functions, KW_SOURCE_FUNCTIONS_IDLE);
}

/* ---- what came of it ---- */

/* A trouble is logged when it begins, and again when it is another one. */
static void stand(struct kw_source_functions *functions, enum kw_source_functions_standing standing,
	const char *why)
{
	assert((standing == KW_SOURCE_FUNCTIONS_CARRIED) == (why[0] == '\0'));
	if (standing == functions->standing && strcmp(why, functions->why) == 0)
		return;
	if (why[0])
		kw_log_warn("source", "functions: %s", why);
	else if (functions->why[0])
		kw_log_info("source", "functions are carried again");
	functions->standing = standing;
	snprintf(functions->why, sizeof functions->why, "%s", why);
}

/* None are carried: agents leave the libraries of their servers as they are. */
static void drop(struct kw_source_functions *functions, enum kw_source_functions_standing standing,
	const char *why)
{
	kw_table_forget_functions(functions->table);
	functions->libraries = 0;
	stand(functions, standing, why);
}

static void publish(struct kw_source_functions *functions, const struct kw_libraries *set)
{
	uint64_t version = kw_table_history(functions->table)->functions.version;
	struct kw_buffer bytes = {0};
	char why[KW_ERROR_TEXT];

	kw_libraries_write(set, (uint16_t)kw_server_rdb_version(functions->server), &bytes);
	if (kw_buffer_length(&bytes) > KW_FUNCTIONS_BYTES) {
		snprintf(why, sizeof why,
			"the primary's function libraries take more than %u KiB, and are not "
			"carried: load them into each replica",
			KW_FUNCTIONS_BYTES >> 10);
		drop(functions, KW_SOURCE_FUNCTIONS_UNFIT, why);
	} else {
		kw_table_set_functions(functions->table,
			kw_slice(kw_buffer_bytes(&bytes), kw_buffer_length(&bytes)),
			functions->loss == KW_SOURCE_FUNCTIONS_LOSS_EXPLAINED ? KW_FUNCTIONS_TOLD
									      : KW_FUNCTIONS_FOUND);
		functions->changes +=
			kw_table_history(functions->table)->functions.version != version;
		functions->libraries = set->count;
		stand(functions, KW_SOURCE_FUNCTIONS_CARRIED, "");
	}
	kw_buffer_close(&bytes);
}

/* How many the table has: those of a process before are counted when they are needed. */
static uint64_t held_libraries(const struct kw_source_functions *functions)
{
	struct kw_slice held = kw_table_functions(functions->table);
	struct kw_libraries set = {0};
	struct kw_error error;
	uint64_t count = 0;

	if (held.length > 0 && kw_libraries_read(&set, held, KW_FUNCTIONS_BYTES, &error) == KW_OK)
		count = set.count;
	kw_libraries_close(&set);
	return count;
}

static void take_set(struct kw_source_functions *functions, const struct kw_libraries *set)
{
	char why[KW_ERROR_TEXT];
	uint64_t held = set->count > 0 ? 0 : held_libraries(functions);

	functions->cursors = set->cursor_count;
	if (held > 0 && functions->loss == KW_SOURCE_FUNCTIONS_LOSS_UNEXPLAINED) {
		functions->libraries = held;
		snprintf(why, sizeof why,
			"the primary has no function library, and no command is known that took "
			"the %" PRIu64 " that it had: the table keeps them; load them there "
			"again, or run `keywakectl approve` if they may go",
			held);
		stand(functions, KW_SOURCE_FUNCTIONS_HELD, why);
		return;
	}
	/* From now on only a command can take them, whether it is seen or not. */
	if (set->count > 0)
		functions->loss = KW_SOURCE_FUNCTIONS_LOSS_EXPLAINED;
	publish(functions, set);
}

static void take_dump(struct kw_source_functions *functions, struct kw_slice dump)
{
	struct kw_libraries set = {0};
	struct kw_error error;

	if (kw_libraries_read(&set, dump, KW_FUNCTIONS_BYTES, &error) == KW_OK) {
		take_set(functions, &set);
	} else {
		kw_error_wrap(&error, "they are not carried, so load them into each replica");
		drop(functions, KW_SOURCE_FUNCTIONS_UNFIT, error.text);
	}
	kw_libraries_close(&set);
}

/* ---- asking ---- */

/* Ask from now on, once more if a question is out. */
static void want(struct kw_source_functions *functions)
{
	if (functions->standing == KW_SOURCE_FUNCTIONS_OFF || !functions->server)
		return;
	if (functions->sm.state == KW_SOURCE_FUNCTIONS_IDLE)
		move(functions, KW_SOURCE_FUNCTIONS_DUE);
	else if (functions->sm.state == KW_SOURCE_FUNCTIONS_ASKED)
		move(functions, KW_SOURCE_FUNCTIONS_AGAIN);
}

static void answered(void *arg, const struct kw_reply *reply)
{
	struct kw_source_functions *functions = arg;
	struct kw_error error;

	reply = kw_data_reply(functions->data, reply);
	if (!reply || functions->sm.state < KW_SOURCE_FUNCTIONS_ASKED)
		return; /* the connection is lost, or about to be */
	if (reply->type == KW_REPLY_ERROR && kw_server_error_passes(kw_server_error(reply->text))) {
		want(functions); /* the table keeps what it has until then */
	} else if (reply->type == KW_REPLY_STRING) {
		take_dump(functions, reply->text);
		functions->answered = functions->questions;
	} else {
		kw_data_refusal(&error, functions->user, "FUNCTION DUMP", "+function|dump", reply);
		drop(functions, KW_SOURCE_FUNCTIONS_REFUSED, error.text);
		functions->answered = functions->questions;
	}
	move(functions, functions->sm.state == KW_SOURCE_FUNCTIONS_AGAIN
				? KW_SOURCE_FUNCTIONS_DUE
				: KW_SOURCE_FUNCTIONS_IDLE);
}

void kw_source_functions_up(struct kw_source_functions *functions, enum kw_feed_server server,
	const struct kw_server_identity *identity)
{
	assert(functions->sm.state == KW_SOURCE_FUNCTIONS_IDLE);
	functions->server = identity;
	functions->asked_us = 0;
	if (server == KW_FEED_ANOTHER_SERVER)
		functions->loss = KW_SOURCE_FUNCTIONS_LOSS_UNEXPLAINED;
	want(functions);
}

void kw_source_functions_down(struct kw_source_functions *functions)
{
	if (functions->sm.state != KW_SOURCE_FUNCTIONS_IDLE)
		move(functions, KW_SOURCE_FUNCTIONS_IDLE);
	functions->server = NULL;
}

void kw_source_functions_told(struct kw_source_functions *functions, enum kw_feed_functions what)
{
	if (functions->server && what == KW_FEED_FUNCTIONS_FLUSHED)
		functions->loss = KW_SOURCE_FUNCTIONS_LOSS_EXPLAINED;
	want(functions);
}

void kw_source_functions_doubt(struct kw_source_functions *functions)
{
	functions->loss = KW_SOURCE_FUNCTIONS_LOSS_UNEXPLAINED;
	want(functions);
}

static bool knows_functions(const struct kw_server_identity *server)
{
	return server->valkey || server->major >= 7;
}

void kw_source_functions_turn(struct kw_source_functions *functions, uint64_t now_us)
{
	if (functions->asked_us > 0 && now_us >= functions->asked_us + KW_SOURCE_FUNCTIONS_LOOK_US)
		want(functions);
	if (functions->sm.state != KW_SOURCE_FUNCTIONS_DUE || kw_data_is_broken(functions->data) ||
		now_us < kw_source_functions_ready_us(functions))
		return;
	functions->asked_us = now_us;
	functions->questions++;
	move(functions, KW_SOURCE_FUNCTIONS_ASKED);
	if (knows_functions(functions->server)) {
		kw_data_words(functions->data, answered, functions, "FUNCTION", "DUMP", NULL);
		return;
	}
	drop(functions, KW_SOURCE_FUNCTIONS_UNSUPPORTED,
		"the primary is older than Redis 7.0, and knows no functions");
	functions->answered = functions->questions;
	move(functions, KW_SOURCE_FUNCTIONS_IDLE);
}

uint64_t kw_source_functions_question(const struct kw_source_functions *functions)
{
	switch ((enum kw_source_functions_state)functions->sm.state) {
	case KW_SOURCE_FUNCTIONS_IDLE:
		break;
	case KW_SOURCE_FUNCTIONS_ASKED:
		return functions->questions;
	case KW_SOURCE_FUNCTIONS_DUE:
	case KW_SOURCE_FUNCTIONS_AGAIN:
		return functions->questions + 1;
	}
	return functions->answered;
}

uint64_t kw_source_functions_ready_us(const struct kw_source_functions *functions)
{
	if (functions->standing == KW_SOURCE_FUNCTIONS_OFF || !functions->server)
		return UINT64_MAX;
	switch ((enum kw_source_functions_state)functions->sm.state) {
	case KW_SOURCE_FUNCTIONS_IDLE:
		return functions->asked_us ? functions->asked_us + KW_SOURCE_FUNCTIONS_LOOK_US
					   : UINT64_MAX;
	case KW_SOURCE_FUNCTIONS_DUE:
		return functions->asked_us ? functions->asked_us + KW_SOURCE_FUNCTIONS_PAUSE_US : 0;
	case KW_SOURCE_FUNCTIONS_ASKED:
	case KW_SOURCE_FUNCTIONS_AGAIN:
		break;
	}
	return UINT64_MAX;
}

/* ---- what an operator asks ---- */

bool kw_source_functions_approve(struct kw_source_functions *functions, char finding[KW_ERROR_TEXT])
{
	const struct kw_libraries none = {0};

	if (functions->standing != KW_SOURCE_FUNCTIONS_HELD || !functions->server)
		return false;
	snprintf(finding, KW_ERROR_TEXT,
		"the deletion of %" PRIu64 " function libraries that the primary lacks",
		functions->libraries);
	functions->loss = KW_SOURCE_FUNCTIONS_LOSS_EXPLAINED;
	publish(functions, &none);
	return true;
}

void kw_source_functions_report(
	const struct kw_source_functions *functions, struct kw_source_functions_report *report)
{
	static const char *const names[] = {
		[KW_SOURCE_FUNCTIONS_OFF] = "off",
		[KW_SOURCE_FUNCTIONS_UNKNOWN] = "unknown",
		[KW_SOURCE_FUNCTIONS_CARRIED] = "carried",
		[KW_SOURCE_FUNCTIONS_HELD] = "held",
		[KW_SOURCE_FUNCTIONS_UNSUPPORTED] = "unsupported",
		[KW_SOURCE_FUNCTIONS_REFUSED] = "refused",
		[KW_SOURCE_FUNCTIONS_UNFIT] = "unfit",
	};
	const struct kw_history_functions *table = &kw_table_history(functions->table)->functions;

	*report = (struct kw_source_functions_report){
		.state = names[functions->standing],
		.libraries = functions->libraries,
		.bytes = table->bytes,
		.version = table->version,
		.changes = functions->changes,
		.held = functions->standing == KW_SOURCE_FUNCTIONS_HELD,
		.why = functions->why,
	};
}
