/* The cursor's way into the local server and back: a function library, or a key. */
#include "internal.h"

#include "base/buffer.h"
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>

bool kw_local_store_is_key(const struct kw_local *local)
{
	const struct kw_server_identity *identity = &local->facts.identity;

	if (local->options.store == KW_STORE_AUTO)
		return !identity->valkey && identity->major < 7;
	return local->options.store == KW_STORE_KEY;
}

bool kw_local_owns_key(const struct kw_local *local, uint32_t database, struct kw_slice key)
{
	return database == 0 && kw_local_store_is_key(local) &&
	       kw_slice_equal(key, kw_slice_text(local->options.cursor_name));
}

static bool is_text(const struct kw_reply *reply)
{
	return reply->type == KW_REPLY_STRING || reply->type == KW_REPLY_STATUS;
}

/* The code among the name-value pairs of FUNCTION LIST's one library; empty when it is not there.
 */
static struct kw_slice find_code(const struct kw_reply *list)
{
	const struct kw_reply *library;

	if (list->count == 0 || list->elements[0].type != KW_REPLY_ARRAY)
		return (struct kw_slice){0};
	library = &list->elements[0];
	for (size_t i = 0; i + 1 < library->count; i += 2)
		if (is_text(&library->elements[i]) && is_text(&library->elements[i + 1]) &&
			kw_slice_equal(library->elements[i].text, kw_slice_text("library_code")))
			return library->elements[i + 1].text;
	return (struct kw_slice){0};
}

void kw_local_refused_stale(struct kw_local *local)
{
	local->stale = KW_STALE_REFUSED;
}

static void set_serve_stale(struct kw_local *local, const char *value)
{
	if (kw_local_is_primary(local) && local->stale == KW_STALE_REFUSED)
		kw_redis_words(local->redis, NULL, NULL, "CONFIG", "SET",
			"replica-serve-stale-data", value, NULL);
}

void kw_local_serve_stale(struct kw_local *local)
{
	set_serve_stale(local, "yes");
}

void kw_local_serve_stale_end(struct kw_local *local)
{
	set_serve_stale(local, "no");
	local->stale = KW_STALE_SERVED;
}

/* The link to its primary, perhaps an earlier agent, is down: ask once more, in the other way. */
static bool asked_again(struct kw_local *local, const struct kw_reply *reply)
{
	bool again = reply->type == KW_REPLY_ERROR && kw_local_is_primary(local) &&
		     local->stale != KW_STALE_TRIED &&
		     kw_server_error(reply->text) == KW_SERVER_E_MASTERDOWN;

	local->stale = again ? KW_STALE_REFUSED : KW_STALE_SERVED;
	if (!again)
		return false;
	kw_local_read_cursor(local);
	local->stale = KW_STALE_TRIED;
	return true;
}

/* The connection is there, and not being closed: is this an answer to go on with? */
static bool is_expected(const struct kw_local *local, const struct kw_reply *reply)
{
	return reply && kw_local_state(local) == KW_LOCAL_ASKING;
}

static void on_library(void *arg, const struct kw_reply *reply)
{
	struct kw_local *local = arg;
	struct kw_local_facts *facts = &local->facts;
	char text[KW_LOCAL_ANSWER];

	if (!is_expected(local, reply) || asked_again(local, reply) ||
		kw_local_defer(local, "FUNCTION LIST", reply))
		return;
	if (reply->type != KW_REPLY_ARRAY) {
		kw_local_tell_answer(local, reply,
			"allow +function|list and +function|load, or set apply.cursor_store=key",
			text);
		kw_local_refuse(local, KW_UNFIT_FORBIDDEN, "local server: FUNCTION LIST %s", text);
		return;
	}
	facts->cursor_kind = KW_CURSOR_NONE;
	if (reply->count > 0)
		facts->cursor_kind = kw_cursor_from_library(find_code(reply), &facts->cursor);
	if (facts->cursor_kind == KW_CURSOR_FOREIGN) {
		kw_local_refuse(local, KW_UNFIT_CURSOR,
			"the local server has a function library \"%s\" that is not a cursor: "
			"delete it, or choose another apply.cursor_name",
			local->options.cursor_name);
		return;
	}
	kw_local_cursor_read(local);
}

static void on_key(void *arg, const struct kw_reply *reply)
{
	struct kw_local *local = arg;
	struct kw_local_facts *facts = &local->facts;
	char text[KW_LOCAL_ANSWER];

	if (!is_expected(local, reply) || kw_local_defer(local, "GET", reply))
		return;
	if (reply->type == KW_REPLY_NIL) {
		facts->cursor_kind = KW_CURSOR_NONE;
	} else if (reply->type == KW_REPLY_STRING && kw_cursor_parse(reply->text, &facts->cursor)) {
		facts->cursor_kind = KW_CURSOR_OURS;
	} else if (reply->type == KW_REPLY_ERROR &&
		   kw_server_error(reply->text) != KW_SERVER_E_OTHER) {
		kw_local_tell_answer(local, reply, "allow +get and +set", text);
		kw_local_refuse(local, KW_UNFIT_FORBIDDEN, "local server: GET %s %s",
			local->options.cursor_name, text);
		return;
	} else {
		kw_local_refuse(local, KW_UNFIT_CURSOR,
			"the local server's key \"%s\" in database 0 is not a cursor: delete it, "
			"or choose another apply.cursor_name",
			local->options.cursor_name);
		return;
	}
	kw_local_cursor_read(local);
}

void kw_local_read_cursor(struct kw_local *local)
{
	const char *name = local->options.cursor_name;

	if (!kw_local_store_is_key(local)) {
		kw_local_serve_stale(local);
		kw_redis_words(local->redis, on_library, local, "FUNCTION", "LIST", "LIBRARYNAME",
			name, "WITHCODE", NULL);
		kw_local_serve_stale_end(local);
		return;
	}
	/*
	 * Database 0 is confirmed from the start, so this need not wait for it. If the SELECT of
	 * another part is pending, it is asked again with the next INFO.
	 */
	if (kw_local_use(local, 0) == KW_USE_OK)
		kw_redis_words(local->redis, on_key, local, "GET", name, NULL);
	else
		kw_local_refuse(local, KW_UNFIT_PASSES,
			"waiting for a SELECT before the cursor can be read");
}

/* ---- whose is it now? ---- */

static void on_library_again(void *arg, const struct kw_reply *reply)
{
	struct kw_local *local = arg;
	struct kw_local_cursor cursor;

	if (reply && kw_local_ready(local) && reply->type == KW_REPLY_ARRAY && reply->count > 0 &&
		kw_cursor_from_library(find_code(reply), &cursor) == KW_CURSOR_OURS)
		kw_local_lease_found(local, &cursor.lease);
}

static void on_key_again(void *arg, const struct kw_reply *reply)
{
	struct kw_local *local = arg;
	struct kw_local_cursor cursor;

	if (kw_local_in_place(local, reply) && reply && kw_local_ready(local) &&
		reply->type == KW_REPLY_STRING && kw_cursor_parse(reply->text, &cursor))
		kw_local_lease_found(local, &cursor.lease);
}

void kw_local_read_back(struct kw_local *local)
{
	const char *name = local->options.cursor_name;

	if (local->options.lease.session == 0)
		return;
	if (!kw_local_store_is_key(local))
		kw_redis_words(local->redis, on_library_again, local, "FUNCTION", "LIST",
			"LIBRARYNAME", name, "WITHCODE", NULL);
	else if (kw_local_use(local, 0) == KW_USE_OK)
		kw_redis_words(local->redis, on_key_again, local, "GET", name, NULL);
}

void kw_local_cursor_now(const struct kw_local *local, const struct kw_cursor_progress *progress,
	struct kw_local_cursor *cursor)
{
	*cursor = (struct kw_local_cursor){
		.epoch = progress->epoch,
		.version = progress->version,
		.flushes = kw_local_flushes(local),
		.quarantined = progress->quarantined,
		.evicted = local->facts.evicted,
		.bond = progress->bond,
		.consented = progress->consented,
		.writes = {true, kw_local_writes_counted(local)},
		.ended = {kw_local_has_ended(local), local->facts.writers.shared},
		.lease = local->options.lease,
		.filter = kw_filter_hash(local->options.filter),
		.history = local->history,
		.term = local->term,
	};
	kw_key_counts_set(&cursor->key_counts, local->facts.database_keys);
	memcpy(cursor->agent, local->options.agent, sizeof cursor->agent);
	memcpy(cursor->run_id, local->facts.identity.run_id, sizeof cursor->run_id);
}

void kw_local_cursor_written(struct kw_local *local, const struct kw_local_cursor *cursor)
{
	kw_continuity_written(&local->continuity, cursor);
	local->facts.cursor = *cursor;
	local->facts.cursor_kind = KW_CURSOR_OURS;
}

/* One write of the cursor that is out. */
struct write {
	struct kw_local *local;
	struct kw_local_cursor cursor;
	kw_local_done_fn done;
	void *arg;
};

static void explain_unwritten(
	struct kw_local *local, const struct kw_reply *reply, struct kw_failure *failure)
{
	const char *command = kw_local_store_is_key(local) ? "SET" : "FUNCTION LOAD";
	char text[KW_LOCAL_ANSWER];

	kw_local_tell_answer(
		local, reply, "allow +function|load, or +set for apply.cursor_store=key", text);
	kw_failure_answered(failure, reply, "the cursor cannot be written: %s %s", command, text);
}

static void on_written(void *arg, const struct kw_reply *reply)
{
	struct write *write = arg;
	struct kw_local *local = write->local;
	struct kw_failure failure;

	if (kw_local_store_is_key(local) && !kw_local_in_place(local, reply))
		reply = NULL;
	if (reply && reply->type != KW_REPLY_ERROR) {
		kw_local_cursor_written(local, &write->cursor);
		write->done(write->arg, NULL);
	} else if (reply) {
		explain_unwritten(local, reply, &failure);
		write->done(write->arg, &failure);
	} else {
		kw_failure_answered(
			&failure, NULL, "the connection was lost while the cursor was written");
		write->done(write->arg, &failure);
	}
	free(write);
}

void kw_local_write_cursor(struct kw_local *local, const struct kw_cursor_progress *progress,
	kw_local_done_fn done, void *arg)
{
	const char *name = local->options.cursor_name;
	struct write *write = kw_alloc(sizeof *write);
	struct kw_buffer code = {0};
	struct kw_failure failure;
	char text[KW_CURSOR_TEXT];

	*write = (struct write){
		.local = local,
		.done = done,
		.arg = arg,
	};
	kw_local_cursor_now(local, progress, &write->cursor);
	if (kw_local_store_is_key(local)) {
		write->cursor.writes.calls++; /* this SET */
		/* Not after a SELECT that can fail: the owner tries again. */
		if (kw_local_use(local, 0) != KW_USE_OK) {
			free(write);
			kw_failure_set(&failure, KW_E_STATE,
				"waiting for a SELECT before the cursor can be written");
			done(arg, &failure);
			return;
		}
		kw_cursor_format(&write->cursor, text);
		kw_redis_words(local->redis, on_written, write, "SET", name, text, NULL);
		local->sets.sent++;
		return;
	}
	kw_cursor_library(name, &write->cursor, &code);
	{
		struct kw_slice argv[] = {
			kw_slice_text("FUNCTION"),
			kw_slice_text("LOAD"),
			kw_slice_text("REPLACE"),
			kw_slice(kw_buffer_bytes(&code), kw_buffer_length(&code)),
		};

		kw_redis_send(local->redis, on_written, write, 4, argv);
	}
	kw_buffer_close(&code);
}
