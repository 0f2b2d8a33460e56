/* Leading the local server: it is made to follow, acknowledges, is lost and comes again. */
#include "replica.h"

#include "base/clock.h"
#include "base/log.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#define RETRY_US 1000000
#define REFUSED_LOWEST_MS 1000
#define REFUSED_HIGHEST_MS 60000

void kw_replica_trouble(
	struct kw_replica *replica, enum kw_trouble_kind kind, const char *format, ...)
{
	struct kw_trouble *trouble = &replica->trouble;
	va_list args;

	assert(kind != KW_TROUBLE_NONE);
	trouble->kind = kind;
	va_start(args, format);
	vsnprintf(trouble->why, sizeof trouble->why, format, args);
	va_end(args);
}

void kw_replica_no_trouble(struct kw_replica *replica)
{
	replica->trouble = (struct kw_trouble){0};
}

void kw_replica_tell(struct kw_replica *replica)
{
	if (replica->attached && !kw_replica_is_leaving(replica))
		kw_link_confirm(replica->link);
	replica->handlers.progress(replica->handlers.arg);
}

void kw_replica_prepared(struct kw_replica *replica, const struct kw_failure *failure)
{
	kw_local_done_fn done = replica->done;

	replica->done = NULL;
	if (done)
		done(replica->done_arg, failure);
}

void kw_replica_reset(struct kw_replica *replica, const char *why)
{
	kw_takeover_stop(&replica->takeover);
	kw_downlink_drop(&replica->downlink, why);
	replica->asked.replid[0] = '\0';
	replica->done = NULL;
	kw_replica_move(replica, KW_REPLICA_OFF, why);
	replica->hooks.dropped(replica->hooks.arg);
	kw_link_forget(replica->link);
}

void kw_replica_give_up(struct kw_replica *replica, const char *why)
{
	kw_replica_reset(replica, why);
	replica->handlers.lost(replica->handlers.arg, why);
	kw_replica_tell(replica);
}

/* ---- taking over ---- */

/* The server does not follow: OFF, or APART if it shall only continue. */
static void fall_back(struct kw_replica *replica, const char *why)
{
	assert(kw_replica_is(replica, KW_REPLICA_TAKING) ||
		kw_replica_is(replica, KW_REPLICA_WAITING));
	kw_replica_move(replica,
		replica->in.waiting.want == KW_TAKEOVER_CONTINUE ? KW_REPLICA_APART
								 : KW_REPLICA_OFF,
		why);
}

static void on_taken(void *arg, const struct kw_failure *failure)
{
	struct kw_replica *replica = arg;

	if (failure) {
		fall_back(replica, failure->text);
		replica->retry_us = kw_clock_us() + RETRY_US;
		kw_replica_trouble(replica,
			kw_failure_passes(failure) ? KW_TROUBLE_WAIT : KW_TROUBLE_FAIL, "%s",
			failure->text);
		kw_replica_prepared(replica, failure);
		kw_replica_tell(replica);
		return;
	}
	replica->in.waiting.until_us = kw_clock_us() + KW_REPLICA_CONNECT_US;
	replica->link->databases = replica->takeover.databases;
	kw_replica_move(replica, KW_REPLICA_WAITING, "the server was told to follow");
	kw_possession_taken(replica);
	kw_replica_trouble(replica, KW_TROUBLE_WAIT,
		"waiting for the local server to connect to %s:%u", replica->downlink.host,
		replica->downlink.port);
	if (replica->asked.replid[0])
		kw_replica_answer(replica);
	kw_replica_tell(replica);
}

static void take(struct kw_replica *replica, enum kw_takeover_want want)
{
	struct kw_failure failure;
	struct kw_error error;

	replica->retry_us = kw_clock_us() + RETRY_US;
	if (kw_downlink_listen(&replica->downlink, &error)) {
		kw_replica_trouble(replica, KW_TROUBLE_FAIL, "%s", error.text);
		kw_failure_set(&failure, error.code, "%s", error.text);
		kw_replica_prepared(replica, &failure);
		return;
	}
	replica->in.waiting = (struct kw_replica_waiting){.want = want};
	replica->asked.replid[0] = '\0'; /* its connection ends now */
	kw_takeover_start(&replica->takeover, replica->downlink.host, replica->downlink.port, want,
		on_taken, replica);
	kw_replica_move(replica, KW_REPLICA_TAKING, "");
}

/*
 * Functions, and the cursor as a library: servers from 7.0 on. And a load beside the old data: if a
 * load through the disk failed, both the data and the server's dump.rdb would be lost.
 */
static bool is_capable(struct kw_replica *replica)
{
	const struct kw_local_facts *facts = &replica->local->facts;

	if (kw_local_store_is_key(replica->local))
		kw_replica_trouble(replica, KW_TROUBLE_FAIL,
			"apply.mode=replica needs Redis 7.0 or Valkey, and apply.cursor_store=auto "
			"or function; the local server is %s %d.%d",
			facts->identity.valkey ? "Valkey" : "Redis", facts->identity.major,
			facts->identity.minor);
	else if (facts->module[0])
		kw_replica_trouble(replica, KW_TROUBLE_FAIL,
			"the local server's module %s does not bear a load beside the old data "
			"(handle-io-errors, handle-repl-async-load): unload it, or use "
			"apply.mode=commands",
			facts->module);
	else
		return true;
	return false;
}

/* May a snapshot be prepared now? */
static bool may_prepare(struct kw_replica *replica, struct kw_failure *failure)
{
	const char *why = replica->trouble.why;

	if (kw_replica_left_alone(replica) || !is_capable(replica))
		kw_failure_set(failure, KW_E_REFUSED, "%s", why);
	else if (kw_clock_us() < replica->retry_us)
		kw_failure_set(
			failure, KW_E_STATE, "%s", why[0] ? why : "a pause before a snapshot");
	else
		return true;
	return false;
}

void kw_replica_prepare(struct kw_replica *replica, kw_local_done_fn done, void *arg)
{
	struct kw_failure failure;

	assert(replica->hooks.start);
	if (!may_prepare(replica, &failure)) {
		done(arg, &failure);
		return;
	}
	kw_replica_reset(replica, "a new snapshot follows");
	kw_local_unwritten(replica->local);
	replica->done = done;
	replica->done_arg = arg;
	if (replica->trouble.kind != KW_TROUBLE_FAIL)
		kw_replica_trouble(
			replica, KW_TROUBLE_WAIT, "asking the local server to follow this agent");
	take(replica, KW_TAKEOVER_SNAPSHOT);
}

void kw_replica_sent(struct kw_replica *replica)
{
	kw_replica_move(replica, KW_REPLICA_LOADING, "all of the snapshot is handed on");
	kw_replica_trouble(replica, KW_TROUBLE_WAIT, "the local server loads the snapshot");
}

void kw_replica_doubt(struct kw_replica *replica, const char *format, ...)
{
	struct kw_replica_snapshot *snapshot = &replica->in.snapshot;
	va_list args;

	assert(kw_replica_is(replica, KW_REPLICA_SNAPSHOT));
	va_start(args, format);
	vsnprintf(snapshot->doubt, sizeof snapshot->doubt, format, args);
	va_end(args);
}

void kw_replica_abandon(struct kw_replica *replica)
{
	if (kw_replica_is(replica, KW_REPLICA_SNAPSHOT))
		kw_replica_reset(replica, "the snapshot cannot be completed; the server keeps its "
					  "data of before");
}

void kw_replica_resume(struct kw_replica *replica)
{
	if (kw_replica_is(replica, KW_REPLICA_OFF))
		kw_replica_move(replica, KW_REPLICA_APART, "it shall continue");
	if (kw_replica_is(replica, KW_REPLICA_APART) && replica->attached &&
		!kw_replica_left_alone(replica))
		take(replica, KW_TAKEOVER_CONTINUE);
}

/* ---- the link comes and goes ---- */

static void on_psync(void *arg, const char *replid, int64_t offset)
{
	struct kw_replica *replica = arg;

	replica->asked.offset = offset;
	snprintf(replica->asked.replid, sizeof replica->asked.replid, "%s", replid);
	if (kw_replica_is(replica, KW_REPLICA_WAITING))
		kw_replica_answer(replica);
}

static void on_loaded(struct kw_replica *replica)
{
	const struct kw_local_facts *facts = &replica->local->facts;

	kw_downlink_attach(&replica->downlink, &replica->link->feed);
	kw_link_open(replica->link);
	kw_replica_move(replica, KW_REPLICA_ONLINE, "the snapshot is loaded");
	kw_ownership_forget(&replica->memory);
	replica->online_us = kw_clock_us();
	kw_counter_begin(&replica->refused, facts->refused, facts->resets);
	replica->hooks.loaded(replica->hooks.arg);
	kw_log_info("link", "the local server has loaded the snapshot");
	if (replica->attached && kw_local_ready(replica->local))
		kw_takeover_loaded(&replica->takeover);
	kw_replica_no_trouble(replica);
}

static void on_ack(void *arg, uint64_t offset)
{
	struct kw_replica *replica = arg;
	struct kw_link_applier *link = replica->link;

	if (kw_replica_is(replica, KW_REPLICA_LOADING) && offset == link->feed.offset &&
		kw_buffer_length(&replica->downlink.output) == 0)
		on_loaded(replica);
	if (!kw_replica_is(replica, KW_REPLICA_ONLINE) || !kw_link_acknowledge(link, offset)) {
		kw_replica_give_up(replica, "the local server acknowledges what it was never sent");
		return;
	}
	kw_local_link_sent(replica->local, link->feed.flushes_out);
	replica->counts.acknowledged = offset;
	kw_downlink_wake(&replica->downlink);
	kw_replica_tell(replica);
}

static void on_filling(void *arg)
{
	kw_feed_ask(&((struct kw_replica *)arg)->link->feed);
}

static void on_room(void *arg)
{
	struct kw_replica *replica = arg;

	kw_local_link_sent(replica->local, replica->link->feed.flushes_out);
	kw_replica_tell(replica);
}

static void on_lost(void *arg, const char *why)
{
	struct kw_replica *replica = arg;
	char words[512];

	replica->asked.replid[0] = '\0';
	if (kw_replica_is_leaving(replica))
		return;
	if (kw_replica_loads(replica)) {
		snprintf(words, sizeof words,
			"the replication link broke before the snapshot was loaded (%.200s; the "
			"server keeps its data of before)",
			why);
		replica->retry_us = kw_clock_us() + RETRY_US;
		kw_replica_give_up(replica, words);
	} else if (kw_replica_is(replica, KW_REPLICA_ONLINE)) {
		kw_log_warn("link", "the replication link is lost: %s", why);
		kw_replica_trouble(replica, KW_TROUBLE_WAIT,
			"the replication link is lost (%.200s): waiting for the local server to "
			"connect again",
			why);
		replica->in.waiting = (struct kw_replica_waiting){
			.want = KW_TAKEOVER_CONTINUE,
			.until_us = kw_clock_us() + KW_REPLICA_CONNECT_US,
		};
		kw_link_close(replica->link);
		kw_replica_move(replica, KW_REPLICA_WAITING, why);
		kw_replica_tell(replica);
	}
}

static void on_downlink_closed(void *arg)
{
	struct kw_replica *replica = arg;

	replica->closed(replica->closed_arg);
}

const struct kw_downlink_handlers kw_replica_downlink_handlers = {
	.psync = on_psync,
	.ack = on_ack,
	.filling = on_filling,
	.room = on_room,
	.lost = on_lost,
	.closed = on_downlink_closed,
};

/* Other data than before: forget what was known of the server. */
static void begin_anew(struct kw_replica *replica)
{
	const struct kw_local_facts *facts = &replica->local->facts;

	kw_replica_reset(replica, "the local server's data are not those known before");
	kw_possession_untaken(replica);
	kw_counter_begin(&replica->refused, facts->refused, facts->resets);
	if (!kw_replica_left_alone(replica))
		kw_replica_no_trouble(replica);
	kw_possession_found(replica);
}

void kw_replica_attach(struct kw_replica *replica, bool continuous)
{
	replica->attached = true;
	replica->retry_us = 0;
	replica->link->base.ops->attach(&replica->link->base, continuous);
	if (!continuous)
		begin_anew(replica);
	else if (kw_replica_is(replica, KW_REPLICA_ONLINE))
		kw_takeover_loaded(&replica->takeover);
	kw_replica_tell(replica);
}

void kw_replica_detach(struct kw_replica *replica)
{
	replica->attached = false;
	replica->link->base.ops->detach(&replica->link->base);
	kw_takeover_stop(&replica->takeover);
	replica->done = NULL;
	if (kw_replica_is(replica, KW_REPLICA_TAKING) ||
		kw_replica_awaits(replica, KW_TAKEOVER_SNAPSHOT))
		fall_back(replica, "the connection to the server is gone");
	kw_replica_tell(replica);
}

/* ---- the clock ---- */

/* The server does not come. A connection that failed before it said anything tells why. */
static void explain_absence(const struct kw_replica *replica, struct kw_failure *failure)
{
	const struct kw_downlink *downlink = &replica->downlink;

	if (downlink->refusal[0])
		kw_failure_set(failure, KW_E_TIMEOUT,
			"the local server does not come through to %s:%u: %s", downlink->host,
			downlink->port, downlink->refusal);
	else
		kw_failure_set(failure, KW_E_TIMEOUT,
			"the local server does not connect to %s:%u: apply.replica.listen must be "
			"an address that it can reach (its log says more)",
			downlink->host, downlink->port);
}

static void tick_waiting(struct kw_replica *replica, uint64_t now_us)
{
	struct kw_failure failure;

	if (now_us < replica->in.waiting.until_us || !replica->attached)
		return;
	fall_back(replica, "the server does not connect");
	explain_absence(replica, &failure);
	kw_replica_trouble(replica, KW_TROUBLE_WAIT, "%s", failure.text);
	kw_replica_prepared(replica, &failure);
}

static void tick_link(struct kw_replica *replica, uint64_t now_us)
{
	bool silent = kw_downlink_up(&replica->downlink) &&
		      now_us > replica->downlink.wrote_us + KW_REPLICA_PING_US;

	if (silent && kw_replica_is(replica, KW_REPLICA_SNAPSHOT) &&
		kw_buffer_length(&replica->downlink.output) == 0) {
		replica->hooks.idle(replica->hooks.arg, kw_downlink_output(&replica->downlink));
		kw_downlink_appended(&replica->downlink);
	}
	/* Behind a fence they would only gather. */
	if (silent && kw_replica_is(replica, KW_REPLICA_ONLINE) &&
		replica->link->feed.fence == 0 && !kw_feed_unsent(&replica->link->feed)) {
		kw_feed_ping(&replica->link->feed);
		kw_downlink_wake(&replica->downlink);
	}
}

/* Not from within the record that showed the doubt. */
static void give_up_doubtful(struct kw_replica *replica, uint64_t now_us)
{
	char doubt[sizeof replica->in.snapshot.doubt];

	memcpy(doubt, replica->in.snapshot.doubt, sizeof doubt);
	replica->retry_us = now_us + kw_backoff_next_us(&replica->refusing);
	kw_replica_give_up(replica, doubt);
}

void kw_replica_tick(struct kw_replica *replica, uint64_t now_us)
{
	kw_downlink_tick(&replica->downlink, now_us);
	if (kw_replica_is(replica, KW_REPLICA_SNAPSHOT) && replica->in.snapshot.doubt[0])
		give_up_doubtful(replica, now_us);
	if (kw_replica_is(replica, KW_REPLICA_WAITING))
		tick_waiting(replica, now_us);
	if (kw_replica_is(replica, KW_REPLICA_APART) && replica->attached &&
		!kw_replica_left_alone(replica) && !kw_replica_is_leaving(replica) &&
		kw_local_ready(replica->local) && now_us >= replica->retry_us)
		take(replica, KW_TAKEOVER_CONTINUE);
	tick_link(replica, now_us);
	if (replica->attached && !kw_replica_is_leaving(replica))
		kw_link_confirm(replica->link);
}

void kw_replica_report(const struct kw_replica *replica, struct kw_link_report *report)
{
	*report = replica->counts;
	/* To an operator it does not matter whether the link is off for good or only apart. */
	report->state =
		kw_replica_is(replica, KW_REPLICA_APART) ? "off" : kw_sm_name(&replica->phase);
	report->port = replica->downlink.port;
	report->tls = kw_downlink_cipherer(&replica->downlink);
	report->offset = replica->link->feed.sent_end;
}

/* ---- the beginning and the end ---- */

static void on_added(void *arg)
{
	kw_downlink_wake(&((struct kw_replica *)arg)->downlink);
}

void kw_replica_init(struct kw_replica *replica, const struct kw_replica_options *options)
{
	const struct kw_link_owner owner = {.added = on_added, .arg = replica};
	struct kw_downlink_handlers handlers = kw_replica_downlink_handlers;
	const struct kw_takeover_options takeover = {
		.local = options->local,
		.downlink = &replica->downlink,
		.operators = options->masterauth,
		.tls = options->tls,
	};

	*replica = (struct kw_replica){
		.handlers = options->handlers,
		.local = options->local,
		.link = options->link,
	};
	handlers.arg = replica;
	kw_local_lead(replica->local);
	kw_downlink_init(&replica->downlink, options->loop, options->listen, &handlers);
	replica->downlink.guarded = !options->stays;
	replica->downlink.certificates = options->certificates;
	kw_takeover_init(&replica->takeover, &takeover);
	kw_backoff_init(&replica->refusing, REFUSED_LOWEST_MS, REFUSED_HIGHEST_MS);
	kw_replica_init_phase(replica);
	kw_leave_init(replica);
	kw_possession_init(replica);
	kw_link_own(replica->link, &owner);
}

void kw_replica_hook(struct kw_replica *replica, const struct kw_replica_snapshot_hooks *hooks)
{
	assert(hooks->start && hooks->loaded && hooks->dropped && hooks->idle);
	replica->hooks = *hooks;
}

void kw_replica_close(struct kw_replica *replica, void (*closed)(void *arg), void *arg)
{
	if (replica->shutdown != KW_SHUTDOWN_STAY && kw_replica_leads(replica) &&
		replica->leaving.state != KW_LEAVE_DONE)
		kw_log_error("link", "the local server was not promoted: it did not answer in time "
				     "(send it REPLICAOF NO ONE)");
	replica->closed = closed;
	replica->closed_arg = arg;
	kw_downlink_close(&replica->downlink);
}

void kw_replica_free(struct kw_replica *replica)
{
	kw_takeover_close(&replica->takeover);
}
