#include "local.h"

#include "base/clock.h"
#include "base/log.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#define ASK_INTERVAL_US 1000000
#define BACKOFF_LOWEST_MS 50
#define BACKOFF_HIGHEST_MS 5000

static void on_selected(void *arg)
{
	struct kw_local *local = arg;

	local->handlers.selected(local->handlers.arg);
}

/* Others might as well have flushed: everything is looked at again, on a new connection. */
static void on_harmed(void *arg)
{
	struct kw_local *local = arg;

	kw_continuity_harmed(&local->continuity);
	kw_redis_close(local->redis);
}

void kw_local_init(struct kw_local *local, const struct kw_local_options *options,
	const struct kw_local_handlers *handlers)
{
	const struct kw_databases_handlers database_handlers = {
		.selected = on_selected,
		.harmed = on_harmed,
		.arg = local,
	};

	*local = (struct kw_local){.options = *options, .handlers = *handlers};
	kw_databases_init(&local->databases, &database_handlers);
	kw_backoff_init(&local->backoff, BACKOFF_LOWEST_MS, BACKOFF_HIGHEST_MS);
	snprintf(local->why, sizeof local->why, "not connected to the local server yet");
}

const char *kw_local_why(const struct kw_local *local)
{
	return local->why;
}

void kw_local_refuse(struct kw_local *local, const char *format, ...)
{
	char why[KW_LOCAL_WHY];
	va_list args;

	va_start(args, format);
	vsnprintf(why, sizeof why, format, args);
	va_end(args);
	if (strcmp(why, local->why) != 0)
		kw_log_warn("local", "%s", why);
	memcpy(local->why, why, sizeof why);
	local->state = KW_LOCAL_REFUSED;
	local->passing = false;
	local->next_us = kw_clock_us() + ASK_INTERVAL_US;
	/* With answers owed a fresh connection is the clean cut; it is asked all over again. */
	if (local->told)
		kw_redis_close(local->redis);
}

bool kw_local_defer(struct kw_local *local, const char *command, const struct kw_reply *reply)
{
	if (reply->type != KW_REPLY_ERROR || !kw_server_error_passes(kw_server_error(reply->text)))
		return false;
	local->next_us = kw_clock_us() + ASK_INTERVAL_US;
	if (kw_local_ready(local))
		return true;
	kw_local_refuse(local, "the local server cannot be asked yet: %s answers \"%.*s\"", command,
		(int)(reply->text.length < 200 ? reply->text.length : 200),
		(const char *)reply->text.data);
	local->passing = true;
	return true;
}

/* The cursor's own key, when there is one, is not data. */
static void leave_out_cursor(struct kw_local *local)
{
	if (kw_local_store_is_key(local))
		kw_facts_leave_out_cursor_key(&local->facts);
}

static void read_facts(struct kw_local *local, struct kw_slice info)
{
	kw_facts_read(&local->facts, info, local->options.filter);
	leave_out_cursor(local);
}

/* A replica, and we do not act as its primary. */
static void refuse_replica(struct kw_local *local, struct kw_slice info)
{
	struct kw_slice host = {0}, port = {0};

	if (kw_local_replid_ours(local->facts.identity.replid)) {
		kw_local_refuse(local,
			"the local server is a replica of a keywake agent (apply.mode=replica): "
			"start the agent in that mode, or send the server REPLICAOF NO ONE");
		return;
	}
	kw_info_text(info, "master_host", &host);
	kw_info_text(info, "master_port", &port);
	kw_local_refuse(local,
		"the local server is a replica of %.*s:%.*s: send it REPLICAOF NO ONE, or "
		"point redis.address at a server of its own",
		(int)host.length, host.length ? (const char *)host.data : "", (int)port.length,
		port.length ? (const char *)port.data : "");
}

/* May this server be written to at all? False: refused, with the sentence. */
static bool check_fit(struct kw_local *local, struct kw_slice info)
{
	struct kw_server_identity *identity = &local->facts.identity;
	struct kw_error error;

	if (kw_server_identity_parse(info, identity, &error) ||
		kw_server_identity_check(identity, &error)) {
		kw_local_refuse(local, "local server: %s", error.text);
		return false;
	}
	if (identity->loading && !(kw_local_is_primary(local) && kw_local_ready(local))) {
		kw_local_refuse(local, "the local server is still loading its data");
		local->passing = true;
		return false;
	}
	if (strcmp(identity->role, "master") != 0 && !kw_local_is_primary(local)) {
		refuse_replica(local, info);
		return false;
	}
	if (local->options.store == KW_STORE_FUNCTION && !identity->valkey && identity->major < 7) {
		kw_local_refuse(local,
			"apply.cursor_store=function needs Redis 7.0, the local server is %d.%d: "
			"set it to auto or key",
			identity->major, identity->minor);
		return false;
	}
	return true;
}

/* READY: has anything happened to the data that we did not do? */
static void look_again(struct kw_local *local, struct kw_slice info)
{
	struct kw_local_facts *facts = &local->facts;
	struct kw_key_counts before;
	enum kw_continuity_verdict verdict;

	kw_key_counts_set(&before, facts->database_keys);
	read_facts(local, info);
	verdict = kw_continuity_look(
		&local->continuity, facts, kw_local_find_flushes(local, info, &before));
	local->next_us = kw_clock_us() + ASK_INTERVAL_US;
	if (verdict == KW_CONTINUITY_REPLACED) {
		/* The server may have been a replica of another server: the data may be that one's.
		 */
		kw_local_refuse(local,
			"the local server's replication id changed: reading the cursor again");
		local->passing = true;
		return;
	}
	if (verdict == KW_CONTINUITY_FLUSHED)
		local->handlers.flushed(local->handlers.arg);
	if (local->handlers.looked)
		local->handlers.looked(local->handlers.arg);
}

static void on_info(void *arg, const struct kw_reply *reply)
{
	struct kw_local *local = arg;

	local->asked = false;
	if (!reply || local->closing || kw_local_defer(local, "INFO", reply))
		return;
	if (reply->type != KW_REPLY_STRING) {
		kw_local_refuse(local, "local server: INFO answers \"%.*s\": allow it (ACL +info)",
			(int)reply->text.length, (const char *)reply->text.data);
		return;
	}
	if (!check_fit(local, reply->text))
		return;
	local->looks = local->asks;
	if (local->state == KW_LOCAL_READY) {
		look_again(local, reply->text);
		return;
	}
	local->facts.cursor_kind = KW_CURSOR_NONE;
	read_facts(local, reply->text);
	kw_local_count_flushes(local, reply->text);
	local->state = KW_LOCAL_ASKING;
	kw_local_read_cursor(local);
}

void kw_local_cursor_read(struct kw_local *local)
{
	const struct kw_server_identity *identity = &local->facts.identity;
	struct kw_continuity *continuity = &local->continuity;
	enum kw_continuity_verdict verdict;

	leave_out_cursor(local);
	verdict = kw_continuity_judge(
		continuity, &local->facts, local->flushes_out + local->flushes_unsure);
	if (verdict == KW_CONTINUITY_ELSEWHERE)
		kw_log_warn("local", "the local server was another's replica: what its cursor says "
				     "is not believed");
	/* Flushes that are still on their way count when they are acknowledged. */
	if (verdict == KW_CONTINUITY_SAME)
		local->facts.flushes = continuity->flushes;
	kw_continuity_adopt(continuity, &local->facts, verdict);
	kw_counter_begin(&local->flushes, local->facts.flushes, local->facts.resets);
	local->state = KW_LOCAL_READY;
	local->why[0] = '\0';
	local->next_us = kw_clock_us() + ASK_INTERVAL_US;
	local->told = true;
	kw_backoff_reset(&local->backoff);
	kw_log_info("local", "%s %d.%d.%d, run %.8s: %s", identity->valkey ? "Valkey" : "Redis",
		identity->major, identity->minor, identity->patch, identity->run_id,
		kw_continuity_text(verdict));
	local->handlers.assessed(local->handlers.arg, verdict == KW_CONTINUITY_SAME);
}

static void ask(struct kw_local *local)
{
	if (local->asked)
		return;
	local->asked = true;
	local->asks++;
	local->asked_flushes = local->facts.flushes;
	kw_redis_words(local->redis, on_info, local, "INFO", "all", NULL);
}

void kw_local_look(struct kw_local *local)
{
	ask(local);
}

static void on_ready(void *arg)
{
	struct kw_local *local = arg;

	kw_databases_begin(&local->databases, local->redis);
	local->refuses_stale = local->asked_stale = false;
	local->state = KW_LOCAL_ASKING;
	ask(local);
}

static void on_closed(void *arg, const struct kw_error *why)
{
	struct kw_local *local = arg;
	bool refused = why->code == KW_E_REFUSED;

	local->asked = false;
	if (why->code != KW_OK)
		snprintf(local->why, sizeof local->why, "local server: %.480s", why->text);
	/* Refused (wrong password) is told as such; what is worth a try is only down. */
	local->state = refused ? KW_LOCAL_REFUSED : KW_LOCAL_DOWN;
	local->passing = false;
	local->next_us = kw_clock_us() + kw_backoff_next_us(&local->backoff);
	if (why->code != KW_OK && (local->told || local->backoff.failures == 1))
		kw_log_warn("local", "%s", why->text);
	kw_redis_free(local->redis); /* and `why` with it */
	local->redis = NULL;
	if (local->told) {
		local->told = false;
		local->handlers.gone(local->handlers.arg);
	}
	if (local->closing)
		local->handlers.closed(local->handlers.arg);
}

static void open_connection(struct kw_local *local)
{
	const struct kw_redis_handlers handlers = {
		.ready = on_ready,
		.closed = on_closed,
		.arg = local,
	};
	struct kw_error error;

	local->reconnects++;
	local->state = KW_LOCAL_CONNECTING;
	if (!kw_redis_open(
		    local->options.loop, &local->options.redis, &handlers, &local->redis, &error))
		return;
	local->redis = NULL;
	local->state = KW_LOCAL_REFUSED;
	local->passing = false;
	local->next_us = kw_clock_us() + kw_backoff_next_us(&local->backoff);
	snprintf(local->why, sizeof local->why, "redis.address: %.480s", error.text);
}

void kw_local_tick(struct kw_local *local, uint64_t now_us)
{
	if (local->closing)
		return;
	if (kw_local_ready(local))
		kw_databases_tick(&local->databases, now_us);
	if (now_us < local->next_us)
		return;
	if (!local->redis)
		open_connection(local);
	else if (local->state == KW_LOCAL_REFUSED || local->state == KW_LOCAL_READY)
		ask(local);
}

void kw_local_close(struct kw_local *local)
{
	local->closing = true;
	if (local->redis)
		kw_redis_close(local->redis);
	else
		local->handlers.closed(local->handlers.arg);
}

void kw_local_flushed(struct kw_local *local)
{
	local->facts.flushes++;
	local->continuity.flushes++;
}

void kw_local_lead(struct kw_local *local)
{
	local->continuity.relation = KW_RELATION_PRIMARY;
}

void kw_local_let_go(struct kw_local *local)
{
	local->continuity.relation = KW_RELATION_CLIENT;
}

void kw_local_link_sent(struct kw_local *local, uint64_t flushes)
{
	local->flushes_out = flushes;
}

void kw_local_link_ended(struct kw_local *local, uint64_t flushes)
{
	local->flushes_unsure += flushes;
	local->flushes_out = 0;
}

void kw_local_link_forgotten(struct kw_local *local)
{
	local->flushes_unsure = 0;
}

const struct kw_local_cursor *kw_local_written(const struct kw_local *local)
{
	return local->continuity.standing == KW_STANDING_WRITTEN ? &local->continuity.written
								 : NULL;
}

bool kw_local_spoiled(const struct kw_local *local)
{
	return local->continuity.standing == KW_STANDING_SPOILED;
}

void kw_local_unwritten(struct kw_local *local)
{
	kw_continuity_unwritten(&local->continuity);
}

void kw_local_claimed(struct kw_local *local)
{
	kw_continuity_claimed(&local->continuity);
}
