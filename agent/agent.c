#include "agent.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/log.h"
#include "index/digests.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define TICK_MS 50

/* follow, scouts, local, pair, audit, tick, turn, awake */
#define OPEN_PARTS 8

static void on_awake(uv_idle_t *handle)
{
}

/* Run one step after the events of this turn, before the loop sleeps. */
static void want_step(void *arg)
{
	struct kw_agent *agent = arg;

	if (agent->life.state != KW_LIFE_CLOSE)
		uv_idle_start(&agent->awake, on_awake);
}

static bool is_step_wanted(const struct kw_agent *agent)
{
	return uv_is_active((const uv_handle_t *)&agent->awake);
}

/* ---- the end ---- */

static const struct kw_sm_state lives[] = {
	[KW_LIFE_RUN] = {"running", KW_SM_TO(KW_LIFE_DRAIN), KW_SM_INITIAL},
	[KW_LIFE_DRAIN] = {"draining", KW_SM_TO(KW_LIFE_SAVE)},
	[KW_LIFE_SAVE] = {"saving", KW_SM_TO(KW_LIFE_LEAVE)},
	[KW_LIFE_LEAVE] = {"leaving", KW_SM_TO(KW_LIFE_CLOSE)},
	[KW_LIFE_CLOSE] = {"closing", 0, KW_SM_FINAL},
};

/* From the drain on nothing more is handed on: the cursor would not cover it. */
static bool life_holds(const void *owner, int life)
{
	const struct kw_agent *agent = owner;

	if (life == KW_LIFE_RUN)
		return agent->until_us == 0;
	return agent->until_us > 0 && agent->sync.intake == KW_SYNC_INTAKE_ENDED &&
	       kw_follow_idle(&agent->follow) && agent->open > 0;
}

static const struct kw_sm_conf life = {"agent", lives, KW_LIFE_CLOSE + 1, life_holds};

static void part_closed(struct kw_agent *agent)
{
	struct kw_agent_handlers handlers = agent->handlers;

	assert(agent->life.state == KW_LIFE_CLOSE && agent->open > 0);
	if (--agent->open > 0)
		return;
	kw_pair_free(agent->pair);
	kw_functions_close(&agent->functions);
	kw_sync_close(&agent->sync);
	kw_quarantine_close(&agent->quarantine);
	kw_filter_close(&agent->filter);
	free(agent);
	handlers.closed(handlers.arg);
}

static void on_part_closed(void *arg)
{
	part_closed(arg);
}

static void on_handle_closed(uv_handle_t *handle)
{
	part_closed(handle->data);
}

static void close_parts(struct kw_agent *agent)
{
	assert(agent->life.state == KW_LIFE_CLOSE && agent->open == OPEN_PARTS);
	uv_close((uv_handle_t *)&agent->tick, on_handle_closed);
	uv_close((uv_handle_t *)&agent->turn, on_handle_closed);
	uv_close((uv_handle_t *)&agent->awake, on_handle_closed);
	kw_audit_close(agent->audit, on_part_closed, agent);
	kw_local_close(&agent->local);
	kw_follow_close(&agent->follow);
	kw_scouts_close(&agent->scouts);
	if (!kw_pair_close(agent->pair, on_part_closed, agent))
		agent->open--; /* the handles above are still open: it is not the last */
}

/* Have all changes handed on arrived? Do not wait for those that a load of the server delays. */
static bool is_drained(const struct kw_agent *agent)
{
	return kw_pair_is_loading(agent->pair) || kw_pair_is_level(agent->pair);
}

/*
 * Once nothing is under way, the server's count of what agents use, too, belongs into the cursor:
 * the next agent finds by it whether others have used that.
 */
static bool is_counted(struct kw_agent *agent)
{
	return !kw_pair_needs_local(agent->pair) || !kw_pair_is_level(agent->pair) ||
	       kw_local_count_out(&agent->local);
}

static bool is_saved(struct kw_agent *agent, uint64_t now_us)
{
	if (!is_counted(agent))
		return false;
	return !kw_sync_save(&agent->sync, now_us) || agent->sync.save.error[0];
}

static bool has_left(struct kw_agent *agent)
{
	return !kw_pair_leave(agent->pair);
}

/*
 * One step of the end. LEAVE has time of its own: our settings are put back, and a server is
 * promoted, even if nothing else could be done. It also has the rest of the drain's time. So a
 * server that is busy with a script is promoted within the same time, whether or not a cursor was
 * written.
 */
static void end_step(struct kw_agent *agent, uint64_t now_us)
{
	bool gone = kw_pair_needs_local(agent->pair) && !kw_local_ready(&agent->local);

	assert(!kw_agent_runs(agent) && agent->until_us > 0);
	kw_sync_acknowledged(&agent->sync);
	if (agent->life.state == KW_LIFE_DRAIN &&
		(gone || now_us >= agent->until_us || is_drained(agent)))
		kw_sm_move(&agent->life, KW_LIFE_SAVE, "");
	if (agent->life.state == KW_LIFE_SAVE &&
		(gone || now_us >= agent->until_us || is_saved(agent, now_us))) {
		agent->until_us += (uint64_t)KW_AGENT_LEAVE_MS * 1000;
		kw_sm_move(&agent->life, KW_LIFE_LEAVE, "");
	}
	if (agent->life.state == KW_LIFE_LEAVE &&
		(gone || has_left(agent) || now_us >= agent->until_us)) {
		kw_sm_move(&agent->life, KW_LIFE_CLOSE, gone ? "the local server is gone" : "");
		close_parts(agent);
	}
}

void kw_agent_close(struct kw_agent *agent)
{
	if (!kw_agent_runs(agent))
		return;
	agent->until_us = kw_clock_us() + (uint64_t)KW_AGENT_DRAIN_MS * 1000;
	kw_sync_end(&agent->sync);
	kw_sm_move(&agent->life, KW_LIFE_DRAIN, "asked to end");
	want_step(agent);
}

/* ---- the step ---- */

/* An audit's round is over: it has mended all that others wrote before it. */
static void hear_audit_of_writes(struct kw_agent *agent)
{
	struct kw_debt *debt = &agent->sync.debt;

	if (debt->foreign.audited && kw_audit_cause(agent->audit) == KW_CAUSE_NONE &&
		kw_audit_unmended(agent->audit) == 0)
		kw_debt_audited(debt);
}

void kw_agent_step(struct kw_agent *agent)
{
	uint64_t now = kw_clock_us();

	if (agent->life.state == KW_LIFE_CLOSE)
		return;
	kw_debt_doubt(&agent->sync.debt, kw_audit_doubted(agent->audit));
	if (!kw_agent_runs(agent)) {
		end_step(agent, now);
	} else {
		kw_sync_step(&agent->sync, now);
		if (kw_sync_phase(&agent->sync) != KW_SYNC_WAIT &&
			agent->sync.intake == KW_SYNC_INTAKE_OPEN)
			kw_follow_resume(&agent->follow);
		kw_follow_step(&agent->follow, now);
		kw_functions_step(&agent->functions, now);
		hear_audit_of_writes(agent);
		kw_agent_evaluate(agent, now);
	}
	if (agent->life.state != KW_LIFE_CLOSE && kw_local_ready(&agent->local))
		kw_redis_flush(agent->local.redis);
}

static void on_turn(uv_check_t *handle)
{
	struct kw_agent *agent = handle->data;

	if (!is_step_wanted(agent))
		return;
	uv_idle_stop(&agent->awake);
	kw_agent_step(agent);
}

static void on_tick(uv_timer_t *handle)
{
	struct kw_agent *agent = handle->data;
	uint64_t now = kw_clock_us();

	if (kw_agent_runs(agent)) {
		kw_follow_tick(&agent->follow, now);
		kw_scouts_tick(&agent->scouts, now);
		if (kw_pair_needs_local(agent->pair))
			kw_local_tick(&agent->local, now);
		kw_audit_tick(agent->audit);
	}
	kw_pair_tick(agent->pair, now);
	want_step(agent);
}

/* ---- what the parts tell ---- */

/* A key was given up: its value is not the one that was handed on. */
static void on_quarantined(void *arg, uint32_t database, struct kw_slice key)
{
	struct kw_agent *agent = arg;

	/* With other names here there is no index (may_index). */
	assert(!kw_digests_is_on(&agent->sync.index) ||
		kw_naming_is_identity(&agent->filter.names));
	/* A deletion that was refused: the key is there, and has no entry any more. */
	if (!kw_digests_disbelieve(&agent->sync.index, database, key))
		kw_digests_incomplete(&agent->sync.index);
}

/* Before a snapshot can begin in this turn of the loop. */
static void hear_audit_of_doubts(struct kw_agent *agent)
{
	kw_debt_doubt(&agent->sync.debt, kw_audit_doubted(agent->audit));
}

static void on_link(void *arg, bool up)
{
	struct kw_agent *agent = arg;

	memset(&agent->reported, 0, sizeof agent->reported);
	agent->reported_us = 0;
	/* A server that is loading must not wait for a proxy to come back. */
	if (!up)
		kw_sync_end_load(&agent->sync, "the proxy was lost in the midst of the snapshot");
	want_step(agent);
}

/* Other clients wrote: an audit finds out what. If there is none, a reconcile will. */
static void tell_audit_of_writes(struct kw_agent *agent)
{
	struct kw_debt *debt = &agent->sync.debt;

	if (kw_agent_runs(agent) && debt->foreign.counter.others > 0 && debt->foreign.count > 0)
		kw_debt_audits(debt, kw_audit_urge(agent->audit, KW_CAUSE_WRITES, kw_clock_us()));
}

static void on_assessed(void *arg, bool continuous)
{
	struct kw_agent *agent = arg;
	const struct kw_local_facts *facts = &agent->local.facts;

	if (kw_local_may_evict(facts))
		kw_log_warn("local",
			"maxmemory-policy is %s: the local server may evict keys by itself, and "
			"each time a reconcile must bring them back; use noeviction and enough "
			"maxmemory",
			facts->policy);
	if (!continuous)
		kw_audit_forget(agent->audit);
	kw_sync_assessed(&agent->sync, continuous);
	kw_functions_doubt(&agent->functions);
	kw_audit_looked(agent->audit);
	hear_audit_of_doubts(agent);
	tell_audit_of_writes(agent);
	want_step(agent);
}

static void on_gone(void *arg)
{
	struct kw_agent *agent = arg;

	kw_sync_gone(&agent->sync);
	want_step(agent);
}

static void on_flushed(void *arg)
{
	struct kw_agent *agent = arg;

	kw_digests_tell(&agent->sync.index, KW_DIGESTS_FLUSHED);
	if (kw_agent_runs(agent))
		kw_sync_restart(
			&agent->sync, "somebody flushed or swapped databases of the local server");
	want_step(agent);
}

static void on_looked(void *arg)
{
	struct kw_agent *agent = arg;

	kw_sync_looked(&agent->sync);
	kw_pair_looked(agent->pair);
	kw_audit_looked(agent->audit);
	hear_audit_of_doubts(agent);
	tell_audit_of_writes(agent);
	want_step(agent);
}

static void on_counted(void *arg)
{
	struct kw_agent *agent = arg;

	kw_sync_looked(&agent->sync);
	tell_audit_of_writes(agent);
	want_step(agent);
}

static void on_lost(void *arg, const char *why)
{
	struct kw_agent *agent = arg;

	kw_digests_tell(&agent->sync.index, KW_DIGESTS_LOST);
	if (kw_agent_runs(agent))
		kw_sync_restart(&agent->sync, why);
	want_step(agent);
}

static void on_selected(void *arg)
{
	struct kw_agent *agent = arg;

	kw_prune_selected(&agent->sync.walk);
	kw_pair_selected(agent->pair);
	want_step(agent);
}

/* ---- the beginning ---- */

/* The proxy hides some keys from this agent: it must not follow any of these. */
static int on_scoped(void *arg, const struct kw_scope *scope, struct kw_error *error)
{
	const struct kw_agent *agent = arg;

	return kw_filter_check_scope(&agent->filter, scope, error);
}

static int open_follow(
	struct kw_agent *agent, struct kw_agent_options *options, struct kw_error *error)
{
	const struct kw_follow_handlers handlers = {
		.link = on_link,
		.due = want_step,
		.closed = on_part_closed,
		.arg = agent,
	};
	struct kw_reader_sink sink = kw_sync_sink(&agent->sync);

	int code = kw_proxies_check(&options->proxies, error);

	options->follow.loop = agent->loop;
	options->follow.remote.scoped = on_scoped;
	options->follow.remote.scoped_arg = agent;
	if (!code)
		code = kw_follow_init(&agent->follow, options->proxies.address[0], &options->follow,
			&handlers, &sink, error);
	return code;
}

/* May the data go on with this table, and what is it to their term? */
static void on_judge(void *arg, const struct kw_history *table, struct kw_choice *choice)
{
	const struct kw_agent *agent = arg;
	const struct kw_term *term = &agent->local.term;

	choice->allowed = kw_sync_permission(&agent->sync, table) == KW_PERMISSION_GRANTED;
	choice->confirmed = kw_term_judge(term, table) == KW_TERM_CURRENT;
	choice->same_domain = term->domain == 0 || term->domain == table->domain;
	choice->term = choice->confirmed ? table->term : 0;
}

static bool is_level(void *arg)
{
	return kw_pair_is_level(((struct kw_agent *)arg)->pair);
}

static void open_scouts(struct kw_agent *agent, const struct kw_agent_options *options)
{
	const struct kw_scouts_handlers handlers = {
		.judge = on_judge,
		.level = is_level,
		.closed = on_part_closed,
		.arg = agent,
	};

	kw_scouts_init(
		&agent->scouts, &agent->follow, &options->proxies, &options->follow, &handlers);
	agent->sync.listed = options->proxies.count > 1;
}

enum kw_local_manner kw_agent_manner(const struct kw_mode *mode)
{
	return (kw_mode_leads(mode) ? KW_LOCAL_AS_PRIMARY : 0) |
	       (mode->applier == KW_MODE_APPLIER_COMMANDS ? KW_LOCAL_BY_COMMANDS : 0);
}

static void open_local(struct kw_agent *agent, struct kw_agent_options *options)
{
	const struct kw_local_handlers handlers = {
		.assessed = on_assessed,
		.gone = on_gone,
		.flushed = on_flushed,
		.looked = on_looked,
		.counted = on_counted,
		.selected = on_selected,
		.closed = on_part_closed,
		.arg = agent,
	};

	options->local.loop = agent->loop;
	options->local.filter = &agent->filter;
	options->local.manner = kw_agent_manner(options->mode);
	kw_local_init(&agent->local, &options->local, &handlers);
}

/*
 * With a filter the server's counts do not tell whose keys other clients write. What the counts
 * cannot tell at all, the audit finds.
 */
static bool may_index(const struct kw_agent *agent, const struct kw_agent_options *options)
{
	return options->index && options->mode->applier != KW_MODE_APPLIER_NONE &&
	       kw_filter_is_everything(&agent->filter) && options->audit_keys_per_second > 0;
}

static void open_pair(struct kw_agent *agent, const struct kw_agent_options *options)
{
	const struct kw_pair_options pair = {
		.loop = agent->loop,
		.local = &agent->local,
		.filter = &agent->filter,
		.quarantine = &agent->quarantine,
		.window_bytes = options->window_bytes,
		.bytes_per_second = options->bytes_per_second,
		.listen = options->listen,
		.masterauth = options->masterauth,
		.tls = options->link_tls,
		.certificates = options->link_certificates,
		.shutdown = options->shutdown,
		.handlers = {want_step, on_lost, agent},
	};

	agent->quarantine.entered = on_quarantined;
	agent->quarantine.arg = agent;
	agent->pair = kw_pair_new(options->mode, &pair);
	agent->sync = (struct kw_sync){
		.follow = &agent->follow,
		.local = &agent->local,
		.pair = agent->pair,
		.filter = &agent->filter,
		.quarantine = &agent->quarantine,
		.consent = options->consent,
		.foreign = options->foreign,
		.max_prune = options->max_prune,
		.indexes = may_index(agent, options),
		.audited = options->audit_keys_per_second > 0,
		.warm_lag_us = (uint64_t)options->warm_lag_ms * 1000,
		.due = want_step,
		.arg = agent,
	};
	kw_sync_init(&agent->sync);
}

static void open_audit(struct kw_agent *agent, const struct kw_agent_options *options)
{
	const struct kw_audit_options audit = {
		.loop = agent->loop,
		.sync = &agent->sync,
		.keys_per_second = options->audit_keys_per_second,
	};

	agent->audit = kw_audit_new(&audit);
}

static void open_functions(struct kw_agent *agent, const struct kw_agent_options *options)
{
	const struct kw_functions_options functions = {
		.sync = &agent->sync,
		.apply = options->functions,
		.due = want_step,
		.arg = agent,
	};

	kw_functions_init(&agent->functions, &functions);
}

static void open_handles(struct kw_agent *agent)
{
	uv_timer_init(agent->loop, &agent->tick);
	uv_check_init(agent->loop, &agent->turn);
	uv_idle_init(agent->loop, &agent->awake);
	agent->tick.data = agent->turn.data = agent->awake.data = agent;
	uv_timer_start(&agent->tick, on_tick, 0, TICK_MS);
	uv_check_start(&agent->turn, on_turn);
	agent->open = OPEN_PARTS;
}

int kw_agent_new(uv_loop_t *loop, struct kw_agent_options *options,
	const struct kw_agent_handlers *handlers, struct kw_agent **result, struct kw_error *error)
{
	struct kw_agent *agent = kw_zalloc(sizeof *agent);
	int code;

	agent->loop = loop;
	agent->handlers = *handlers;
	agent->started_us = kw_clock_us();
	kw_sm_init(&agent->sm, &kw_agent_machine, agent, KW_AGENT_CONNECTING);
	agent->cause = KW_REASON_PROXY_AWAY;
	kw_sm_init(&agent->life, &life, agent, KW_LIFE_RUN);
	code = open_follow(agent, options, error);
	if (code) {
		kw_error_wrap(error, "proxy");
		free(agent);
		return code;
	}
	agent->filter = options->filter;
	options->filter = (struct kw_filter){0};
	open_local(agent, options);
	open_pair(agent, options);
	open_audit(agent, options);
	open_functions(agent, options);
	open_scouts(agent, options);
	open_handles(agent);
	*result = agent;
	return KW_OK;
}

/* ---- what an operator asks for ---- */

void kw_agent_pause(struct kw_agent *agent, bool paused)
{
	kw_sync_pause(&agent->sync, paused);
	want_step(agent);
}

void kw_agent_resync(struct kw_agent *agent, const char *why)
{
	kw_sync_resync(&agent->sync, why);
	want_step(agent);
}

int kw_agent_approve(struct kw_agent *agent, char finding[KW_SYNC_WHY], struct kw_error *error)
{
	int code = kw_sync_approve(&agent->sync, finding, error);

	if (code == KW_E_STATE && kw_functions_approve(&agent->functions, finding))
		code = KW_OK;
	want_step(agent);
	return code;
}

void kw_agent_set_key(struct kw_agent *agent, const char *id, struct kw_slice secret)
{
	kw_follow_set_key(&agent->follow, id, secret);
	kw_scouts_set_key(&agent->scouts, id, secret);
}

int kw_agent_set_proxies(
	struct kw_agent *agent, const struct kw_proxies *proxies, struct kw_error *error)
{
	int code = kw_scouts_retarget(&agent->scouts, proxies, error);

	if (!code)
		agent->sync.listed = proxies->count > 1;
	return code;
}

int kw_agent_retarget(struct kw_agent *agent, const char *proxy, struct kw_error *error)
{
	struct kw_proxies one = {0};
	int code = kw_proxies_add(&one, proxy, error);

	return code ? code : kw_agent_set_proxies(agent, &one, error);
}

void kw_agent_set_window(struct kw_agent *agent, uint64_t bytes)
{
	kw_pair_set_window(agent->pair, bytes);
	want_step(agent);
}

void kw_agent_set_limit(struct kw_agent *agent, uint64_t bytes_per_second)
{
	kw_pair_set_limit(agent->pair, bytes_per_second);
	want_step(agent);
}

void kw_agent_set_shutdown(struct kw_agent *agent, enum kw_shutdown shutdown)
{
	kw_pair_set_shutdown(agent->pair, shutdown);
}

int kw_agent_promote(struct kw_agent *agent, struct kw_error *error)
{
	if (!kw_pair_leads(agent->pair))
		return kw_error_set(error, KW_E_STATE,
			"the local server is no replica of this agent that could be promoted "
			"(apply.mode=%s, %s%s%s): nothing was done",
			kw_pair_mode(agent->pair), kw_sm_name(&agent->sm),
			agent->reason[0] ? ": " : "", agent->reason);
	kw_pair_set_shutdown(agent->pair, KW_SHUTDOWN_PROMOTE_FINAL);
	return KW_OK;
}

void kw_agent_set_max_prune(struct kw_agent *agent, double share)
{
	kw_sync_set_max_prune(&agent->sync, share);
	want_step(agent);
}

void kw_agent_set_audit_rate(struct kw_agent *agent, uint64_t keys_per_second)
{
	bool doubts = kw_audit_doubted(agent->audit) > 0;

	agent->sync.audited = keys_per_second > 0;
	if (keys_per_second == 0) {
		kw_debt_audits(&agent->sync.debt, false);
		kw_digests_tell(&agent->sync.index, KW_DIGESTS_UNAUDITED);
	}
	kw_audit_set_rate(agent->audit, keys_per_second);
	if (keys_per_second == 0 && doubts && kw_agent_runs(agent) &&
		kw_sync_phase(&agent->sync) == KW_SYNC_TAIL)
		kw_sync_restart(
			&agent->sync, "the audit was switched off before it had compared all keys");
	want_step(agent);
}

void kw_agent_set_foreign(struct kw_agent *agent, enum kw_foreign foreign)
{
	agent->sync.foreign = foreign;
	want_step(agent);
}

void kw_agent_set_warm_lag(struct kw_agent *agent, uint32_t warm_lag_ms)
{
	agent->sync.warm_lag_us = (uint64_t)warm_lag_ms * 1000;
}

void kw_agent_set_pace(struct kw_agent *agent, uint32_t idle_us, bool busy)
{
	kw_follow_set_pace(&agent->follow, idle_us, busy);
}
