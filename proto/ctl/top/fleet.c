#include "ctl/top/fleet.h"

#include "base/buffer.h"
#include "base/clock.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static void move(struct top_daemon *daemon, enum top_link link)
{
	static const unsigned allowed[] = {
		[TOP_AWAY] = 1 << TOP_ASKED_VERSION,
		[TOP_ASKED_VERSION] = 1 << TOP_ASKED_STATUS | 1 << TOP_AWAY,
		[TOP_ASKED_STATUS] = 1 << TOP_ASKED_AGENTS | 1 << TOP_RESTING | 1 << TOP_AWAY,
		[TOP_ASKED_AGENTS] = 1 << TOP_RESTING | 1 << TOP_AWAY,
		[TOP_RESTING] = 1 << TOP_ASKED_STATUS | 1 << TOP_AWAY,
	};

	assert(allowed[daemon->link] & 1U << link);
	daemon->link = link;
	assert((daemon->link == TOP_AWAY) == !daemon->client);
	assert((daemon->link == TOP_ASKED_AGENTS) == (daemon->status != NULL));
}

static bool is_asked(const struct top_daemon *daemon)
{
	return daemon->link != TOP_AWAY && daemon->link != TOP_RESTING;
}

static size_t group_of(const struct top_fleet *fleet, const struct top_daemon *daemon)
{
	return (size_t)(daemon - fleet->daemons);
}

/* ---- rows ---- */

static void set_rows(struct top_fleet *fleet, struct top_daemon *daemon, size_t count)
{
	free(daemon->rows);
	daemon->rows = kw_zalloc(count * sizeof *daemon->rows);
	daemon->row_count = count;
	for (size_t i = 0; i < count; i++) {
		daemon->rows[i].group = group_of(fleet, daemon);
		daemon->rows[i].socket = daemon->socket;
	}
	fleet->changed = true;
}

static void show_away(struct top_fleet *fleet, struct top_daemon *daemon, const char *sentence)
{
	set_rows(fleet, daemon, 1);
	top_row_away(daemon->rows, daemon->kind, daemon->label, sentence);
}

/* The meter of that session at the last look; the lists are in the same order, as a rule. */
static struct top_meter meter_of(const struct top_daemon *daemon, json_int_t id, size_t likely)
{
	if (likely < daemon->meter_count && daemon->meters[likely].id == id)
		return daemon->meters[likely];
	for (size_t i = 0; i < daemon->meter_count; i++)
		if (daemon->meters[i].id == id)
			return daemon->meters[i];
	return (struct top_meter){.id = id};
}

/* agents: NULL for a daemon that has none. */
static void show_answers(struct top_fleet *fleet, struct top_daemon *daemon, const json_t *status,
	const json_t *agents, uint64_t now_us)
{
	const struct top_moment now = {now_us, kw_wall_us()};
	size_t count = json_array_size(agents);
	struct top_meter *meters;

	count = count < TOP_AGENTS_MAX ? count : TOP_AGENTS_MAX;
	set_rows(fleet, daemon, 1 + count);
	top_row_daemon(daemon->rows, daemon->kind, daemon->label, status, &now, &daemon->meter);
	/* Its row keeps the name when it goes away. */
	memcpy(daemon->label, daemon->rows->name, sizeof daemon->label);
	meters = kw_zalloc((count + 1) * sizeof *meters);
	for (size_t i = 0; i < count; i++) {
		const json_t *session = json_array_get(agents, i);
		json_int_t id = json_integer_value(json_object_get(session, "id"));

		meters[i] = meter_of(daemon, id, i);
		top_row_agent(&daemon->rows[1 + i], daemon->rows, session, &now, &meters[i]);
	}
	free(daemon->meters);
	daemon->meters = meters;
	daemon->meter_count = count;
	/* An answer that came late must not have the next one right after it: no rate comes of
	 * that. */
	daemon->round_us = now_us;
	daemon->looks++;
}

/* ---- the connection ---- */

static void lose(struct top_fleet *fleet, struct top_daemon *daemon, const struct kw_error *error)
{
	kw_rpc_client_close(daemon->client);
	daemon->client = NULL;
	json_decref(daemon->status);
	daemon->status = NULL;
	daemon->looks = 0;
	daemon->silent_s = 0;
	daemon->meter = (struct top_meter){0};
	daemon->meter_count = 0;
	if (daemon->link != TOP_AWAY)
		move(daemon, TOP_AWAY);
	show_away(fleet, daemon, error->text);
}

/* A request fits into the socket's buffer, because the one before it was answered. */
static void ask(struct top_fleet *fleet, struct top_daemon *daemon, const char *method,
	enum top_link link, uint64_t now_us)
{
	struct kw_error error;

	if (kw_rpc_client_begin(daemon->client, method, NULL, -1, &error)) {
		lose(fleet, daemon, &error);
		return;
	}
	daemon->asked_us = now_us;
	move(daemon, link);
}

static void ask_status(struct top_fleet *fleet, struct top_daemon *daemon, uint64_t now_us)
{
	ask(fleet, daemon, "status", TOP_ASKED_STATUS, now_us);
}

static void reach(struct top_fleet *fleet, struct top_daemon *daemon, uint64_t now_us)
{
	struct kw_error error;

	daemon->round_us = now_us;
	if (kw_rpc_client_open_at_once(daemon->socket, &daemon->client, &error))
		lose(fleet, daemon, &error);
	else
		ask(fleet, daemon, "version", TOP_ASKED_VERSION, now_us);
}

/* "keywake-agent" is an agent. */
static void take_version(struct top_daemon *daemon, const json_t *version)
{
	const char *program = json_string_value(json_object_get(version, "program"));
	const char *dash = program ? strrchr(program, '-') : NULL;

	snprintf(daemon->kind, sizeof daemon->kind, "%s", dash ? dash + 1 : "daemon");
}

static void take_answer(
	struct top_fleet *fleet, struct top_daemon *daemon, json_t *answer, uint64_t now_us)
{
	json_t *status = daemon->status;

	switch (daemon->link) {
	case TOP_ASKED_VERSION:
		take_version(daemon, answer);
		ask_status(fleet, daemon, now_us);
		break;
	case TOP_ASKED_STATUS:
		if (strcmp(daemon->kind, "proxy") == 0) {
			daemon->status = json_incref(answer);
			ask(fleet, daemon, "agents.list", TOP_ASKED_AGENTS, now_us);
			break;
		}
		show_answers(fleet, daemon, answer, NULL, now_us);
		move(daemon, TOP_RESTING);
		break;
	case TOP_ASKED_AGENTS:
		show_answers(fleet, daemon, status, answer, now_us);
		daemon->status = NULL;
		json_decref(status);
		move(daemon, TOP_RESTING);
		break;
	case TOP_AWAY:
	case TOP_RESTING:
		assert(!"an answer to no question");
	}
}

/* No answer yet: after a while the row says for how long, each second anew. */
static void note_silence(struct top_fleet *fleet, struct top_daemon *daemon, uint64_t now_us)
{
	uint64_t silent_us = now_us - daemon->asked_us;
	uint32_t seconds = (uint32_t)(silent_us / 1000000);
	char sentence[KW_ERROR_TEXT];

	if (silent_us < TOP_SILENT_US || seconds == daemon->silent_s)
		return;
	daemon->silent_s = seconds;
	snprintf(sentence, sizeof sentence,
		"%s: the daemon has not answered for %u s: it hangs, is stopped, or this host is "
		"busy",
		daemon->socket, seconds);
	show_away(fleet, daemon, sentence);
}

/* True: an answer was taken, and there can be more to do at once. */
static bool hear(struct top_fleet *fleet, struct top_daemon *daemon, uint64_t now_us)
{
	struct kw_error error;
	json_t *answer;
	int code = kw_rpc_client_await(daemon->client, 0, &answer, &error);

	if (code == KW_E_TIMEOUT) {
		note_silence(fleet, daemon, now_us);
		return false;
	}
	if (code) {
		lose(fleet, daemon, &error);
		return false;
	}
	daemon->silent_s = 0;
	take_answer(fleet, daemon, answer, now_us);
	json_decref(answer);
	return is_asked(daemon);
}

/* ---- the fleet ---- */

/* "/run/keywake/agent-main.sock" is agent-main. */
static void label(struct top_daemon *daemon)
{
	const char *slash = strrchr(daemon->socket, '/');
	const char *name = slash ? slash + 1 : daemon->socket;
	const char *dot = strrchr(name, '.');

	snprintf(daemon->label, sizeof daemon->label, "%.*s",
		(int)(dot && dot > name ? dot - name : (ptrdiff_t)strlen(name)), name);
}

static void add(struct top_fleet *fleet, char *socket)
{
	struct top_daemon *daemon = &fleet->daemons[fleet->count++];

	assert(fleet->count <= TOP_DAEMONS_MAX);
	daemon->socket = socket;
	label(daemon);
}

void top_fleet_init(struct top_fleet *fleet, char **sockets, size_t count, uint64_t interval_us)
{
	*fleet = (struct top_fleet){.interval_us = interval_us};
	for (size_t i = 0; i < count; i++)
		add(fleet, sockets[i]);
}

static bool has(const struct top_fleet *fleet, const char *socket)
{
	for (size_t i = 0; i < fleet->count; i++)
		if (strcmp(fleet->daemons[i].socket, socket) == 0)
			return true;
	return false;
}

void top_fleet_find(struct top_fleet *fleet, char **sockets, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (has(fleet, sockets[i]) || fleet->count == TOP_DAEMONS_MAX)
			free(sockets[i]);
		else
			add(fleet, sockets[i]);
}

void top_fleet_close(struct top_fleet *fleet)
{
	for (size_t i = 0; i < fleet->count; i++) {
		struct top_daemon *daemon = &fleet->daemons[i];

		kw_rpc_client_close(daemon->client);
		json_decref(daemon->status);
		free(daemon->meters);
		free(daemon->rows);
		free(daemon->socket);
	}
	fleet->count = 0;
}

static uint64_t due_of(const struct top_fleet *fleet, const struct top_daemon *daemon)
{
	if (is_asked(daemon))
		return daemon->asked_us +
		       (daemon->silent_s ? (daemon->silent_s + 1) * UINT64_C(1000000)
					 : TOP_SILENT_US);
	return daemon->round_us ? daemon->round_us + fleet->interval_us : 0;
}

/* A round is three answers; a daemon that is fast is done in one step. */
#define ROUND_ANSWERS 3

void top_fleet_step(struct top_fleet *fleet, uint64_t now_us)
{
	for (size_t i = 0; i < fleet->count; i++) {
		struct top_daemon *daemon = &fleet->daemons[i];

		if (!is_asked(daemon) && now_us >= due_of(fleet, daemon)) {
			if (daemon->link == TOP_AWAY)
				reach(fleet, daemon, now_us);
			else
				ask_status(fleet, daemon, now_us);
		}
		for (int answers = 0; answers < ROUND_ANSWERS && is_asked(daemon); answers++)
			if (!hear(fleet, daemon, now_us))
				break;
	}
}

uint64_t top_fleet_due(const struct top_fleet *fleet)
{
	uint64_t due_us = UINT64_MAX;

	for (size_t i = 0; i < fleet->count; i++) {
		uint64_t own_us = due_of(fleet, &fleet->daemons[i]);

		if (own_us < due_us)
			due_us = own_us;
	}
	return due_us;
}

size_t top_fleet_poll(const struct top_fleet *fleet, struct pollfd fds[TOP_DAEMONS_MAX])
{
	size_t count = 0;

	for (size_t i = 0; i < fleet->count; i++)
		if (is_asked(&fleet->daemons[i]))
			fds[count++] = (struct pollfd){
				.fd = kw_rpc_client_fd(fleet->daemons[i].client),
				.events = POLLIN,
			};
	return count;
}

/* It said nothing, or that it cannot be asked. */
static bool is_away(const struct top_daemon *daemon)
{
	return daemon->row_count > 0 && (daemon->link == TOP_AWAY || daemon->silent_s > 0);
}

bool top_fleet_settled(const struct top_fleet *fleet, uint32_t looks)
{
	for (size_t i = 0; i < fleet->count; i++)
		if (fleet->daemons[i].looks < looks && !is_away(&fleet->daemons[i]))
			return false;
	return true;
}

size_t top_fleet_away(const struct top_fleet *fleet)
{
	size_t count = 0;

	for (size_t i = 0; i < fleet->count; i++)
		count += is_away(&fleet->daemons[i]);
	return count;
}

/* Those that answer are of no proxy yet. */
static size_t forget_proxies(struct top_fleet *fleet)
{
	size_t all = 0;

	for (size_t i = 0; i < fleet->count; i++) {
		all += fleet->daemons[i].row_count;
		if (fleet->daemons[i].row_count > 0)
			fleet->daemons[i].rows->of = NULL;
	}
	return all;
}

/* Does it answer for itself? Then its own row is of that proxy. */
static bool answers_itself(struct top_fleet *fleet, const struct top_row *told)
{
	for (size_t i = 0; told->below && i < fleet->count; i++) {
		const struct top_daemon *daemon = &fleet->daemons[i];
		struct top_row *own = daemon->rows;

		if (daemon->row_count == 0 || is_away(daemon) || own->of ||
			strcmp(own->kind, told->kind) != 0 || strcmp(own->name, told->name) != 0)
			continue;
		own->of = told->of;
		return true;
	}
	return false;
}

struct top_row **top_fleet_rows(struct top_fleet *fleet, size_t *count)
{
	struct top_row **rows = kw_alloc((forget_proxies(fleet) + 1) * sizeof *rows);

	*count = 0;
	for (size_t i = 0; i < fleet->count; i++)
		for (size_t row = 0; row < fleet->daemons[i].row_count; row++)
			if (!answers_itself(fleet, &fleet->daemons[i].rows[row]))
				rows[(*count)++] = &fleet->daemons[i].rows[row];
	return rows;
}
