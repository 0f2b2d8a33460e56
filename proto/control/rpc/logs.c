/*
 * log.lines: the last lines of the log, and the next ones as they come.
 *
 * A client says up to which line it has read, and gets what came after it. With `wait` the answer
 * stays away until there is a line. So nothing is queued for a slow client: it reads the ring of
 * the log when it is ready to, and is told how many lines the ring has forgotten meanwhile. The log
 * calls us only while a call waits.
 */
#include "control/rpc/internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "control/json_text.h"

#include <assert.h>
#include <stdlib.h>

struct rpc_log_wait {
	struct rpc_log_wait *next;
	struct kw_rpc_call *call;
	uint64_t after; /* lines up to this one were looked at */
	enum kw_log_level level;
};

/* ---- reading ---- */

static json_t *line_json(const struct kw_log_line *line)
{
	return json_pack("{s:I,s:I,s:s,s:o,s:o}", "number", (json_int_t)line->number, "at_us",
		(json_int_t)line->at_us, "level", kw_log_level_name(line->level), "where",
		kw_json_text(line->where), "text", kw_json_text(line->text));
}

/*
 * The lines after *after that are no less serious than the level. *after moves to the last one that
 * was looked at; *missed: lines of any level before the first one that is still kept.
 */
static json_t *read_lines(uint64_t *after, enum kw_log_level level, uint64_t *missed)
{
	json_t *list = json_array();
	struct kw_log_line line;

	*missed = 0;
	/* Other threads can log meanwhile: what comes then is for the next time. */
	for (int i = 0; i < RPC_LOG_LINES_MAX && kw_log_kept(*after + 1, &line); i++) {
		if (i == 0)
			*missed = line.number - (*after + 1);
		*after = line.number;
		if (line.level <= level)
			json_array_append_new(list, line_json(&line));
	}
	return list;
}

static json_t *answer_of(
	const struct kw_rpc_server *server, json_t *lines, uint64_t last, uint64_t missed)
{
	return json_pack("{s:I,s:I,s:I,s:o}", "run", (json_int_t)server->run, "last",
		(json_int_t)last, "missed", (json_int_t)missed, "lines", lines);
}

/* ---- waiting ---- */

static void set_watch(struct kw_rpc_server *server);

/* Answer it if there is something to tell, or if nobody waits for it, or `now` in any case. */
static bool serve(struct kw_rpc_server *server, struct rpc_log_wait *wait, bool now)
{
	uint64_t missed;
	json_t *lines = read_lines(&wait->after, wait->level, &missed);

	if (json_array_size(lines) == 0 && missed == 0 && !now && kw_rpc_call_wanted(wait->call)) {
		json_decref(lines);
		return false;
	}
	kw_rpc_result(wait->call, answer_of(server, lines, wait->after, missed));
	return true;
}

static void serve_all(struct kw_rpc_server *server, bool now)
{
	struct rpc_log_wait **link = &server->log_waits;

	while (*link) {
		struct rpc_log_wait *wait = *link;

		if (!serve(server, wait, now)) {
			link = &wait->next;
			continue;
		}
		*link = wait->next;
		free(wait);
	}
	set_watch(server);
}

static void on_lines(uv_async_t *async)
{
	serve_all(async->data, false);
}

/* Any thread, while it logs. */
static void wake(void *arg)
{
	uv_async_send(arg);
}

static void set_watch(struct kw_rpc_server *server)
{
	kw_log_set_watch(server->log_waits ? wake : NULL, &server->log_news);
}

/* One of each connection, and those whose client is gone are forgotten: a bounded number. */
static bool may_wait(struct kw_rpc_server *server, const struct kw_rpc_call *call)
{
	serve_all(server, false);
	for (const struct rpc_log_wait *w = server->log_waits; w; w = w->next)
		if (w->call->connection == call->connection)
			return false;
	return true;
}

static void add_wait(struct kw_rpc_server *server, struct kw_rpc_call *call, uint64_t after,
	enum kw_log_level level)
{
	struct rpc_log_wait *wait;

	if (!may_wait(server, call)) {
		kw_rpc_fail(call, KW_RPC_CODE(KW_E_STATE),
			"another call of this connection waits for lines already");
		return;
	}
	wait = kw_zalloc(sizeof *wait);
	*wait = (struct rpc_log_wait){server->log_waits, call, after, level};
	server->log_waits = wait;
	set_watch(server);
	/* A line that another thread wrote before the log called us. */
	serve_all(server, false);
}

/* ---- the method ---- */

static bool take_level(const json_t *params, enum kw_log_level *level, struct kw_rpc_call *call)
{
	const char *word = json_string_value(json_object_get(params, "level"));
	int parsed = word ? kw_log_level_parse(word) : KW_LOG_TRACE;

	*level = (enum kw_log_level)parsed;
	if (parsed < 0)
		kw_rpc_fail(call, KW_RPC_BAD_PARAMS,
			"level must be error, warn, info, debug or trace; given %.40s", word);
	return parsed >= 0;
}

void rpc_log_lines(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	struct kw_rpc_server *server = arg;
	const json_t *given = json_object_get(params, "after");
	json_int_t run = json_integer_value(json_object_get(params, "run"));
	json_int_t count = json_integer_value(json_object_get(params, "count"));
	bool follows = given && (uint64_t)run == server->run && json_integer_value(given) >= 0;
	uint64_t after = follows ? (uint64_t)json_integer_value(given) : 0, missed;
	enum kw_log_level level;
	json_t *lines;

	if (!take_level(params, &level, call))
		return;
	lines = read_lines(&after, level, &missed);
	/* To a client that has read nothing yet, what is forgotten is no loss. */
	if (!follows)
		missed = 0;
	while (count > 0 && json_array_size(lines) > (size_t)count)
		json_array_remove(lines, 0);
	if (json_array_size(lines) > 0 || missed > 0 || !follows ||
		!json_is_true(json_object_get(params, "wait"))) {
		kw_rpc_result(call, answer_of(server, lines, after, missed));
		return;
	}
	json_decref(lines);
	add_wait(server, call, after, level);
}

void rpc_logs_open(struct kw_rpc_server *server)
{
	server->run = kw_wall_us();
	/* It fails when the loop has no descriptor left, and the loop made its own already. */
	if (uv_async_init(server->loop, &server->log_news, on_lines))
		abort();
	uv_unref((uv_handle_t *)&server->log_news);
	server->log_news.data = server;
}

void rpc_logs_close(struct kw_rpc_server *server)
{
	serve_all(server, true);
	assert(!server->log_waits);
}
