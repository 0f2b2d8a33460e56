/* The audit's own connection to the local server: it asks, and never writes. */
#include "internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "redis/failure.h"

#include <assert.h>
#include <stdio.h>

static void later(struct kw_audit *audit)
{
	audit->connect_us = kw_clock_us() + kw_backoff_next_us(&audit->backoff);
}

static void on_ready(void *arg)
{
	struct kw_audit *audit = arg;

	if (audit->link != KW_AUDIT_LINK_OPENING)
		return;
	audit->link = KW_AUDIT_LINK_READY;
	kw_audit_go(audit);
}

static void on_closed(void *arg, const struct kw_error *why)
{
	struct kw_audit *audit = arg;
	bool lost = audit->link != KW_AUDIT_LINK_CLOSING;

	if (lost && audit->backoff.failures == 0)
		kw_log_warn("audit", "the local server: %s (trying again)", why->text);
	kw_redis_free(audit->redis);
	audit->redis = NULL;
	audit->ask.redis = NULL;
	audit->link = KW_AUDIT_LINK_DOWN;
	if (!lost)
		return;
	later(audit);
	if (kw_audit_state(audit) != KW_AUDIT_CLOSING)
		kw_audit_abandon(audit, "the audit's connection is lost");
}

static void on_ask_failed(void *arg, const char *command, const struct kw_reply *reply)
{
	kw_audit_refused(arg, command, reply);
}

void kw_audit_refused(struct kw_audit *audit, const char *command, const struct kw_reply *reply)
{
	struct kw_slice words = kw_ask_words(reply);
	struct kw_failure failure;

	if (audit->link != KW_AUDIT_LINK_READY)
		return;
	kw_failure_answered(&failure, reply, "%s", command);
	if (!kw_failure_passes(&failure)) {
		snprintf(audit->refusal, sizeof audit->refusal,
			"the local server answered %s with \"%.*s\": the audit waits (it needs "
			"+dump +pexpiretime +pttl +scan +select +info)",
			command, (int)(words.length < 120 ? words.length : 120),
			words.length ? (const char *)words.data : "");
		/* An audit that finds nothing is none. */
		kw_digests_tell(&audit->options.sync->index, KW_DIGESTS_UNAUDITED);
	}
	if (audit->backoff.failures == 0 && !kw_failure_passes(&failure))
		kw_log_warn("audit", "%s", audit->refusal);
	later(audit);
	kw_audit_abandon(audit, "the local server refuses to be asked");
}

/* The connection that the agent writes with is asked what else is lacking. */
static void on_denied(void *arg)
{
	kw_local_denied(((struct kw_audit *)arg)->options.sync->local);
}

void kw_audit_connect(struct kw_audit *audit, uint64_t now_us)
{
	const struct kw_redis_handlers handlers = {
		.ready = on_ready, .closed = on_closed, .denied = on_denied, .arg = audit};
	const struct kw_local *local = kw_audit_local(audit);
	struct kw_redis_options options = local->options.redis;

	if (audit->link != KW_AUDIT_LINK_DOWN || now_us < audit->connect_us)
		return;
	snprintf(options.client_name, sizeof options.client_name, "keywake-audit");
	if (kw_redis_open(audit->options.loop, &options, &handlers, &audit->redis, NULL)) {
		later(audit);
		return;
	}
	audit->link = KW_AUDIT_LINK_OPENING;
	audit->ask = (struct kw_ask){
		.redis = audit->redis,
		.names = &audit->options.sync->filter->names,
		.name = audit->ask.name,
		.pexpiretime = local->facts.identity.valkey || local->facts.identity.major >= 7,
		.failed = on_ask_failed,
		.arg = audit,
		.database = -1,
	};
}

void kw_audit_disconnect(struct kw_audit *audit)
{
	if (!audit->redis || audit->link == KW_AUDIT_LINK_CLOSING)
		return;
	audit->link = KW_AUDIT_LINK_CLOSING;
	kw_redis_close(audit->redis);
}
