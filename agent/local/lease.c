/*
 * Claiming the local server for this agent: the names of connections, and CLIENT LIST. What they
 * mean is in authority/lease.h.
 *
 *   SETNAME …:claims:…   CLIENT LIST ──▶ free:   CLIENT KILL the dead, SETNAME …:writes:…
 *                                    └─▶ taken:  SETNAME …:waits:…, and the server is refused
 *
 * An agent that yields the server does not claim it: only the first name is set.
 *
 * All of it goes over the connection that the agent writes with, once for each connection. A server
 * that was refused for this is asked about the other agent's connection alone, each second.
 */
#include "internal.h"

#include "base/log.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Whoever took the lease might have ended since, but CLIENT LIST does not say so. */
#define BLIND                                                                                      \
	"; the end of that agent would not be noticed: then restart this one, or grant its user "  \
	"+client|list +client|setname"

static bool is_leased(const struct kw_local *local)
{
	return local->options.lease.session != 0;
}

static void set_name(struct kw_local *local, enum kw_lease_stage stage)
{
	char name[KW_LEASE_NAME];

	kw_lease_name(&local->options.lease, stage, name);
	kw_redis_words(local->redis, NULL, NULL, "CLIENT", "SETNAME", name, NULL);
	local->lease.stage = stage;
}

void kw_local_name_connections(struct kw_local *local)
{
	static_assert(sizeof local->options.redis.client_name >= KW_LEASE_NAME, "it must fit");
	if (is_leased(local))
		kw_lease_name(
			&local->options.lease, KW_LEASE_WAITS, local->options.redis.client_name);
}

void kw_local_begin_lease(struct kw_local *local)
{
	local->lease.stage = KW_LEASE_WAITS;
}

void kw_local_drop_lease(struct kw_local *local)
{
	if (local->redis && local->lease.stage != KW_LEASE_WAITS)
		set_name(local, KW_LEASE_WAITS);
}

/* Other agents cannot be seen, or cannot see this one: it goes on as agents did before. */
static void go_on_blind(struct kw_local *local, struct kw_slice words)
{
	if (!local->lease.warned)
		kw_log_warn("local",
			"another agent on the local server would not be noticed (\"%.*s\"): grant "
			"the agent's user +client|list +client|kill +client|setname",
			(int)(words.length < 160 ? words.length : 160),
			words.length ? (const char *)words.data : "");
	local->lease.warned = local->lease.blind = true;
	kw_local_leased(local);
}

static void on_killed(void *arg, const struct kw_reply *reply)
{
	struct kw_local *local = arg;

	if (!reply || reply->type != KW_REPLY_ERROR || local->lease.warned)
		return;
	local->lease.warned = true;
	kw_log_warn("local",
		"the connection of an agent that hangs cannot be ended (\"%.*s\"): grant the "
		"agent's user +client|kill",
		(int)(reply->text.length < 160 ? reply->text.length : 160),
		(const char *)reply->text.data);
}

/* Whatever these connections still have to say, the server does not hear it any more. */
static void end_dead(struct kw_local *local, const struct kw_lease_survey *survey)
{
	for (size_t i = 0; i < survey->dead_count; i++) {
		char id[24];

		snprintf(id, sizeof id, "%" PRIu64, survey->dead[i]);
		kw_log_warn("local",
			"connection %s of an agent that hangs, or is lost, is ended: its lease has "
			"expired",
			id);
		kw_redis_words(local->redis, on_killed, local, "CLIENT", "KILL", "ID", id, NULL);
	}
}

/* Remember the other one, for the sentence and for the next question. */
static void note_other(struct kw_local *local, const struct kw_lease_survey *survey)
{
	const struct kw_lease_seen *other = kw_lease_other(survey);

	local->lease.other = other->id;
	local->lease.holder = other->owner;
}

static void refuse_for_other(struct kw_local *local)
{
	char text[KW_LOCAL_WHY];

	kw_lease_refusal(&local->lease.holder, text, sizeof text);
	kw_local_refuse(local, KW_UNFIT_TAKEN, "%s%s", text, local->lease.blind ? BLIND : "");
}

static void judge(struct kw_local *local, struct kw_slice list)
{
	struct kw_lease_survey survey;
	char text[KW_LOCAL_WHY];

	kw_lease_look(&survey, list, &local->options.lease);
	local->lease.other = 0;
	switch (kw_lease_judge(&survey)) {
	case KW_LEASE_FREE:
		local->lease.blind = false;
		end_dead(local, &survey);
		set_name(local, KW_LEASE_WRITES);
		kw_local_leased(local);
		break;
	case KW_LEASE_TAKEN:
	case KW_LEASE_YIELD:
		note_other(local, &survey);
		refuse_for_other(local);
		break;
	case KW_LEASE_AWAIT:
		note_other(local, &survey);
		kw_lease_refusal(&local->lease.holder, text, sizeof text);
		local->lease.other = 0;
		kw_local_wait(local, "%s", text);
		break;
	case KW_LEASE_UNSEEN:
		go_on_blind(local, kw_slice_text("CLIENT SETNAME is refused"));
		break;
	}
}

/* The connection is there, and not being closed: is this an answer to go on with? */
static bool is_expected(const struct kw_local *local, const struct kw_reply *reply)
{
	return reply && kw_local_state(local) == KW_LOCAL_ASKING;
}

static void on_list(void *arg, const struct kw_reply *reply)
{
	struct kw_local *local = arg;

	if (!is_expected(local, reply) || kw_local_defer(local, "CLIENT LIST", reply))
		return;
	if (reply->type == KW_REPLY_STRING)
		judge(local, reply->text);
	else
		go_on_blind(local, reply->text);
}

static void ask_all(struct kw_local *local)
{
	if (local->lease.stage == KW_LEASE_WAITS)
		set_name(local, KW_LEASE_CLAIMS);
	kw_redis_words(local->redis, on_list, local, "CLIENT", "LIST", "TYPE", "normal", NULL);
}

/* Is the agent for which the server was refused still there? */
static void on_other(void *arg, const struct kw_reply *reply)
{
	struct kw_local *local = arg;
	struct kw_lease_survey survey;

	if (!is_expected(local, reply) || kw_local_defer(local, "CLIENT LIST", reply))
		return;
	kw_lease_look(&survey, reply->type == KW_REPLY_STRING ? reply->text : (struct kw_slice){0},
		&local->options.lease);
	if (kw_lease_other(&survey)->id == local->lease.other)
		refuse_for_other(local);
	else
		ask_all(local);
}

bool kw_local_lease_gone(struct kw_local *local)
{
	const struct kw_local_facts *facts = &local->facts;
	struct kw_local_lease *lease = &local->lease;
	bool ours = facts->cursor_kind == KW_CURSOR_OURS;

	lease->entered = ours ? facts->cursor.lease : (struct kw_lease_owner){0};
	/* It cannot be asked whether that agent lives: it had the lease last. */
	if (!lease->blind || lease->taker.session == 0 ||
		lease->entered.session != lease->taker.session)
		return false;
	lease->holder = lease->taker;
	refuse_for_other(local);
	return true;
}

void kw_local_lease_found(struct kw_local *local, const struct kw_lease_owner *found)
{
	struct kw_local_lease *lease = &local->lease;

	if (!kw_lease_lost(&local->options.lease, &lease->entered, found))
		return;
	lease->taker = lease->holder = *found;
	refuse_for_other(local);
}

void kw_local_lease(struct kw_local *local)
{
	char id[24];

	if (!is_leased(local) || local->lease.stage == KW_LEASE_WRITES) {
		kw_local_leased(local);
		return;
	}
	if (local->lease.yields[0]) {
		kw_local_refuse(local, KW_UNFIT_YIELDED, "%s", local->lease.yields);
		return;
	}
	if (local->lease.other == 0) {
		ask_all(local);
		return;
	}
	snprintf(id, sizeof id, "%" PRIu64, local->lease.other);
	kw_redis_words(local->redis, on_other, local, "CLIENT", "LIST", "ID", id, NULL);
}

/* It follows this agent, or it will when it finds it again. */
static bool is_our_replica(const struct kw_local *local)
{
	return kw_local_is_primary(local) && strcmp(local->facts.identity.role, "master") != 0;
}

void kw_local_yield(struct kw_local *local, const char *why)
{
	assert(kw_local_ready(local) && why[0]);
	if (!is_leased(local) || is_our_replica(local))
		return;
	local->lease.other = 0;
	snprintf(local->lease.yields, sizeof local->lease.yields, "%s", why);
	kw_local_refuse(local, KW_UNFIT_YIELDED, "%s", local->lease.yields);
}

void kw_local_claim(struct kw_local *local)
{
	if (!local->lease.yields[0])
		return;
	local->lease.yields[0] = '\0';
	if (kw_local_state(local) == KW_LOCAL_REFUSED)
		local->next_us = 0;
}
