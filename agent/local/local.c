/* The local server: which server answers, may it be written to, and are the data still ours? */
#include "internal.h"

#include "base/clock.h"
#include "base/log.h"

#include <assert.h>
#include <inttypes.h>

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
static void refuse_replica(struct kw_local *local)
{
	const struct kw_local_facts *facts = &local->facts;

	if (kw_local_replid_ours(facts->identity.replid))
		kw_local_refuse(local, KW_UNFIT_REPLICA,
			"the local server is a replica of a keywake agent (apply.mode=replica): "
			"start the agent in that mode, or send the server REPLICAOF NO ONE");
	else
		kw_local_refuse(local, KW_UNFIT_REPLICA,
			"the local server is a replica of %.200s:%" PRIu64
			": send it REPLICAOF NO ONE, or point redis.address at a server of its own",
			facts->master_host, facts->master_port);
}

/* Whatever its role, can the server be asked and used? False: refused, with the sentence. */
static bool check_server(struct kw_local *local, struct kw_slice info)
{
	struct kw_server_identity *identity = &local->facts.identity;
	struct kw_error error;

	if (kw_server_identity_parse(info, identity, &error) ||
		kw_server_identity_check(identity, &error)) {
		kw_local_refuse(local, KW_UNFIT_UNSUPPORTED, "local server: %s", error.text);
		return false;
	}
	if (identity->loading && !(kw_local_is_primary(local) && kw_local_ready(local))) {
		kw_local_wait(local, "the local server is still loading its data");
		return false;
	}
	if (local->options.store == KW_STORE_FUNCTION && !identity->valkey && identity->major < 7) {
		kw_local_refuse(local, KW_UNFIT_UNSUPPORTED,
			"apply.cursor_store=function needs Redis 7.0, the local server is %d.%d: "
			"set it to auto or key",
			identity->major, identity->minor);
		return false;
	}
	return true;
}

/* May a server of this role be written to? False: refused, with the sentence. */
static bool check_role(struct kw_local *local)
{
	if (strcmp(local->facts.identity.role, "master") == 0 || kw_local_is_primary(local))
		return true;
	refuse_replica(local);
	return false;
}

/* READY: have other clients changed the data? */
static void look_again(struct kw_local *local, struct kw_slice info)
{
	struct kw_local_facts *facts = &local->facts;
	struct kw_key_counts before;
	enum kw_continuity_verdict verdict;

	kw_key_counts_set(&before, facts->database_keys);
	read_facts(local, info);
	if (!check_role(local))
		return;
	verdict = kw_continuity_look(&local->continuity, facts, &before);
	kw_local_ask_later(local);
	if (verdict == KW_CONTINUITY_REPLACED) {
		/*
		 * The server might have been a replica of another server: then the data might be
		 * that server's.
		 */
		kw_local_wait(local,
			"the local server's replication id changed: reading the cursor again");
		return;
	}
	kw_local_ask_writers(local);
	if (verdict == KW_CONTINUITY_FLUSHED)
		local->handlers.flushed(local->handlers.arg);
	if (local->handlers.looked)
		local->handlers.looked(local->handlers.arg);
}

/* In these states the answer to INFO is of use. */
static bool is_asked(const struct kw_local *local)
{
	return kw_local_state(local) == KW_LOCAL_ASKING || kw_local_ready(local) ||
	       kw_sm_failed(&local->sm);
}

static void refuse_info(struct kw_local *local, const struct kw_reply *reply)
{
	char text[KW_LOCAL_ANSWER];

	kw_local_tell_answer(local, reply, "allow it (ACL +info)", text);
	kw_local_refuse(local, KW_UNFIT_FORBIDDEN, "local server: INFO %s", text);
}

static void on_info(void *arg, const struct kw_reply *reply)
{
	struct kw_local *local = arg;

	/* The connection is lost, or it is being closed. */
	if (!reply || !is_asked(local))
		return;
	local->looks.answered++;
	if (kw_local_defer(local, "INFO", reply))
		return;
	if (reply->type != KW_REPLY_STRING) {
		refuse_info(local, reply);
		return;
	}
	if (!check_server(local, reply->text))
		return;
	local->looks.told = local->looks.answered;
	local->sets.fresh = local->sets.asked - local->sets.told;
	local->sets.told = local->sets.asked;
	if (kw_local_ready(local)) {
		look_again(local, reply->text);
		return;
	}
	local->facts.cursor_kind = KW_CURSOR_NONE;
	read_facts(local, reply->text);
	kw_local_move(local, KW_LOCAL_ASKING, "");
	if (!kw_local_ask_writers(local))
		kw_local_lease(local);
}

/* Another agent is the better reason: it can have made the server its replica. */
void kw_local_leased(struct kw_local *local)
{
	if (check_role(local))
		kw_local_read_cursor(local);
}

void kw_local_cursor_read(struct kw_local *local)
{
	const struct kw_server_identity *identity = &local->facts.identity;
	struct kw_continuity *continuity = &local->continuity;
	enum kw_continuity_verdict verdict;

	if (kw_local_lease_gone(local))
		return;
	leave_out_cursor(local);
	verdict = kw_continuity_judge(continuity, &local->facts);
	if (verdict == KW_CONTINUITY_ELSEWHERE)
		kw_log_warn("local", "the local server was another's replica: what its cursor says "
				     "is not believed");
	kw_continuity_adopt(continuity, &local->facts, verdict);
	local->why[0] = '\0';
	kw_local_move(local, KW_LOCAL_READY, kw_continuity_text(verdict));
	kw_local_ask_later(local);
	kw_backoff_reset(&local->backoff);
	kw_log_info("local", "%s %d.%d.%d, run %.8s: %s", identity->valkey ? "Valkey" : "Redis",
		identity->major, identity->minor, identity->patch, identity->run_id,
		kw_continuity_text(verdict));
	local->handlers.assessed(local->handlers.arg, verdict == KW_CONTINUITY_SAME);
}

void kw_local_look(struct kw_local *local)
{
	if (kw_local_asking(local))
		return;
	local->looks.sent++;
	local->asked_us = kw_clock_us();
	local->sets.asked = local->sets.sent;
	kw_flushes_asked(&local->continuity.flushes);
	kw_redis_words(local->redis, on_info, local, "INFO", "all", NULL);
}

bool kw_local_count_out(struct kw_local *local)
{
	if (!kw_local_ready(local))
		return true;
	if (local->last_look == 0 && !kw_local_asking(local)) {
		local->last_look = kw_local_next_look(local);
		kw_local_look(local);
	}
	return local->last_look > 0 && local->looks.answered >= local->last_look;
}

void kw_local_begin(struct kw_local *local)
{
	assert(!kw_local_asking(local));
	kw_databases_begin(&local->databases, local->redis);
	local->stale = KW_STALE_SERVED;
	kw_local_begin_lease(local);
	kw_local_begin_permissions(local);
	kw_local_move(local, KW_LOCAL_ASKING, "");
	kw_local_look(local);
}

void kw_local_end(struct kw_local *local)
{
	local->looks.answered = local->looks.sent;
}

void kw_local_flushed(struct kw_local *local)
{
	kw_flushes_acknowledged(&local->continuity.flushes);
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
	kw_flushes_sent(&local->continuity.flushes, flushes);
}

void kw_local_link_ended(struct kw_local *local, uint64_t flushes)
{
	kw_flushes_link_ended(&local->continuity.flushes, flushes);
}

void kw_local_link_forgotten(struct kw_local *local)
{
	kw_flushes_forget_link(&local->continuity.flushes);
}

const struct kw_local_cursor *kw_local_written(const struct kw_local *local)
{
	return local->continuity.standing == KW_STANDING_WRITTEN ? &local->continuity.written
								 : NULL;
}

void kw_local_set_history(struct kw_local *local, const struct kw_history *history)
{
	assert(history->standing != KW_HISTORY_AWAITED);
	local->history = *history;
}

void kw_local_set_term(struct kw_local *local, const struct kw_term *term)
{
	local->term = *term;
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
