/* Sessions: agents after their handshake. */
#include "base/buffer.h"
#include "base/clock.h"
#include "remote/server_internal.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SESSIONS 256
#define SESSIONS_MAX 4096

#define TO(state) KW_SM_TO(KW_SESSION_##state)
static const struct kw_sm_state states[] = {
	[KW_SESSION_NEW] = {"new", TO(JOINED), KW_SM_INITIAL},
	[KW_SESSION_JOINED] = {"joined", TO(ENDING)},
	[KW_SESSION_ENDING] = {"ending", 0, KW_SM_FINAL},
};

static bool session_holds(const void *owner, int state)
{
	const struct kw_session *session = owner;

	return session->listener && session->server == session->listener->server &&
	       (state == KW_SESSION_NEW || (session->own && session->server->session_count > 0));
}

static const struct kw_sm_conf machine = {
	.where = "session",
	.states = states,
	.count = sizeof states / sizeof *states,
	.invariant = session_holds,
};

static bool is_joined(const struct kw_session *session)
{
	return session->sm.state == KW_SESSION_JOINED;
}

void kw_reported_take(struct kw_reported *reported, const struct kw_remote_progress *progress)
{
	if (reported->heard_us == 0 || strcmp(reported->progress.state, progress->state) != 0)
		reported->state_us = kw_wall_us();
	reported->progress = *progress;
	reported->heard_us = kw_clock_us();
}

uint64_t kw_reported_show(const struct kw_reported *reported, struct kw_session_info *info)
{
	info->progress = reported->progress;
	info->reported = reported->heard_us != 0;
	info->state_us = info->reported ? reported->state_us : info->connected_us;
	/* The proxy does not see them: the agent tells. */
	info->reads = info->reported ? info->progress.reads : UINT64_MAX;
	info->bytes = info->reported ? info->progress.bytes : UINT64_MAX;
	return reported->heard_us;
}

static uint64_t describe(const struct kw_session *session, struct kw_session_info *info)
{
	*info = (struct kw_session_info){
		.id = session->id,
		.identity = session->identity,
		.carrier = session->listener->address.carrier,
		.connected_us = session->connected_us,
		.depth = session->depth,
		.wire_bytes = UINT64_MAX,
		.compressed = session->compressed,
		.tls = "",
	};
	memcpy(info->name, session->name, sizeof info->name);
	memcpy(info->peer, session->origin.text, sizeof info->peer);
	return session->listener->ops->figures(session, info);
}

/* ---- admission ---- */

void kw_server_set_limits(struct kw_server *server, const struct kw_server_limits *limits)
{
	struct kw_server_limits *own = &server->options.limits;

	*own = *limits;
	if (own->sessions == 0)
		own->sessions = SESSIONS;
	if (own->sessions > SESSIONS_MAX)
		own->sessions = SESSIONS_MAX;
}

static bool is_silent(const struct kw_session *session)
{
	struct kw_session_info info;
	uint64_t now_us = kw_clock_us(), heard_us = describe(session, &info);
	uint64_t since_us = heard_us ? heard_us : session->joined_us;

	return now_us > since_us && now_us - since_us > session->server->options.silent_us;
}

/* What the sessions that there are say about a newcomer. */
struct company {
	uint32_t of_name, of_peer;
	struct kw_session *silent; /* of the same name and peer: gives way; NULL: there is none */
};

/* Names count for each role and principal: an agent and a gateway of one host may share one. */
static bool is_namesake(const struct kw_session *session, const struct kw_handshake *handshake)
{
	const struct kw_identity *one = &session->identity, *other = &handshake->identity;

	return strcmp(session->name, handshake->name) == 0 && one->role == other->role &&
	       strcmp(kw_identity_principal(one), kw_identity_principal(other)) == 0;
}

static struct company look_at(struct kw_server *server, const struct kw_handshake *handshake,
	const struct kw_origin *origin)
{
	struct company company = {0};

	for (struct kw_session *at = server->sessions; at; at = at->next) {
		bool name_too = is_namesake(at, handshake);
		bool peer_too = at->origin.peer == origin->peer;

		if (!is_joined(at))
			continue;
		company.of_name += name_too;
		company.of_peer += peer_too;
		if (name_too && peer_too && is_silent(at))
			company.silent = at;
	}
	return company;
}

/* Is that one more than there may be? 0: there is no limit. */
static bool beyond(uint32_t count, uint32_t limit)
{
	return limit > 0 && count >= limit;
}

/* Listed or proved: of a user who is not listed, only a key is believed. */
static bool may_enter(const struct kw_handshake *handshake, const struct kw_origin *origin)
{
	return handshake->identity.proved != KW_PROVED_NOTHING ||
	       (origin->user != KW_PEER_UNLISTED && origin->user != KW_PEER_UNSEEN);
}

/* A dead connection of the same agent must not keep it out until its end is noticed. */
static void let_silent_go(struct company *company, const struct kw_server_limits *limits)
{
	if (!company->silent || !beyond(company->of_name, limits->of_name))
		return;
	kw_session_end(company->silent, KW_FRAME_REVOKED,
		"silent, and gave way to a new connection of its name");
	company->of_name--;
	company->of_peer--;
}

/* By peer, and the oldest of each first. */
static int by_peer(const void *a, const void *b)
{
	const struct kw_session *one = *(struct kw_session *const *)a;
	const struct kw_session *other = *(struct kw_session *const *)b;

	if (one->origin.peer != other->origin.peer)
		return one->origin.peer < other->origin.peer ? -1 : 1;
	return one->joined_us < other->joined_us ? -1 : one->joined_us > other->joined_us;
}

/* The oldest session of the peer that has most of these. *most: so many. They are sorted. */
static struct kw_session *find_crowd(struct kw_session *const *sorted, size_t count, size_t *most)
{
	struct kw_session *oldest = NULL;

	*most = 0;
	for (size_t begin = 0, end; begin < count; begin = end) {
		for (end = begin; end < count; end++)
			if (sorted[end]->origin.peer != sorted[begin]->origin.peer)
				break;
		if (end - begin > *most) {
			*most = end - begin;
			oldest = sorted[begin];
		}
	}
	return oldest;
}

/*
 * Without a key of its own an agent proves no name: others who know the secret can say the same. So
 * the sessions of one name are shared out between the peers. One of the peer that has most of them
 * gives way, if that peer then has as many as the newcomer's at least. So no two peers take turns.
 */
static void let_crowd_go(struct kw_server *server, const struct kw_handshake *handshake,
	const struct kw_origin *origin, struct company *company)
{
	struct kw_session **namesakes = kw_alloc((company->of_name + 1) * sizeof *namesakes);
	size_t count = 0, own = 0, most;
	struct kw_session *crowd;

	for (struct kw_session *at = server->sessions; at; at = at->next)
		if (is_joined(at) && is_namesake(at, handshake)) {
			assert(count < company->of_name);
			namesakes[count++] = at;
			own += at->origin.peer == origin->peer;
		}
	qsort(namesakes, count, sizeof *namesakes, by_peer);
	crowd = find_crowd(namesakes, count, &most);
	free(namesakes);
	if (!crowd || crowd->origin.peer == origin->peer || most < own + 2)
		return;
	kw_session_end(crowd, KW_FRAME_REVOKED,
		"its host has most sessions of this name, and one gave way to another host's");
	company->of_name--;
}

static bool refuse(struct kw_handshake *handshake, enum kw_refusal reason, uint32_t limit)
{
	(void)kw_handshake_refuse(handshake, reason, limit);
	return true;
}

static bool refuses_limits(
	struct kw_server *server, struct kw_handshake *handshake, const struct kw_origin *origin)
{
	const struct kw_server_limits *limits = &server->options.limits;
	struct company company = look_at(server, handshake, origin);

	if (server->session_count >= limits->sessions)
		return refuse(handshake, KW_REFUSE_SESSIONS, limits->sessions);
	let_silent_go(&company, limits);
	if (beyond(company.of_name, limits->of_name))
		let_crowd_go(server, handshake, origin, &company);
	if (beyond(company.of_name, limits->of_name))
		return refuse(handshake, KW_REFUSE_NAME_LIMIT, limits->of_name);
	if (beyond(company.of_peer, limits->of_peer))
		return refuse(handshake, KW_REFUSE_PEER_LIMIT, limits->of_peer);
	return false;
}

enum kw_compression kw_server_compression(const struct kw_server *server)
{
	uint32_t count = 0;

	if (!kw_compression_built())
		return KW_COMPRESSION_UNBUILT;
	if (server->options.limits.compressed == 0)
		return KW_COMPRESSION_FORBIDDEN;
	for (const struct kw_session *at = server->sessions; at; at = at->next)
		count += at->compressed;
	return count < server->options.limits.compressed ? KW_COMPRESSION_ZSTD
							 : KW_COMPRESSION_FULL;
}

void kw_server_admit(
	struct kw_server *server, struct kw_handshake *handshake, const struct kw_origin *origin)
{
	bool unseen = origin->user == KW_PEER_UNSEEN;
	struct kw_handshake_facts facts;

	if (kw_server_closing(server)) {
		(void)refuse(handshake, KW_REFUSE_SHUTDOWN, 0);
	} else if (!may_enter(handshake, origin)) {
		(void)refuse(
			handshake, KW_REFUSE_PEER, unseen ? KW_REFUSE_PEER_UNSEEN : origin->uid);
	} else if (!kw_server_refuses_key(server, handshake) &&
		   !refuses_limits(server, handshake, origin)) {
		kw_server_facts(server, handshake, &facts);
		kw_handshake_welcome(handshake, &facts);
	}
}

/* ---- sessions ---- */

struct kw_session *kw_session_new(struct kw_listener *listener,
	const struct kw_handshake *handshake, const struct kw_origin *origin)
{
	struct kw_server *server = listener->server;
	struct kw_session *session = kw_zalloc(sizeof *session);

	assert(kw_handshake_is(handshake, KW_HANDSHAKE_DONE));
	session->server = server;
	session->listener = listener;
	session->id = handshake->facts.session;
	memcpy(session->name, handshake->name, sizeof session->name);
	session->origin = *origin;
	session->identity = handshake->identity;
	session->connected_us = kw_wall_us();
	session->joined_us = kw_clock_us();
	session->depth = handshake->facts.depth;
	session->scoped = handshake->facts.scoped;
	session->wakes = handshake->facts.wakes && listener->ops->wake;
	/* Handshakes that ended meanwhile can have taken the last place: then it is served plain.
	 */
	session->compressed = handshake->facts.compression == KW_COMPRESSION_ZSTD &&
			      kw_server_compression(server) == KW_COMPRESSION_ZSTD;
	kw_sm_init(&session->sm, &machine, session, KW_SESSION_NEW);
	return session;
}

void kw_session_joined(struct kw_session *session)
{
	struct kw_server *server = session->server;
	struct kw_session_info info;

	session->next = server->sessions;
	if (server->sessions)
		server->sessions->previous = session;
	server->sessions = session;
	server->session_count++;
	server->stats.sessions++;
	kw_sm_move(&session->sm, KW_SESSION_JOINED, session->name);
	describe(session, &info);
	server->handlers.joined(server->handlers.arg, &info);
	/* The keys might have been replaced since it was admitted. */
	if (!kw_server_key_holds(server, session))
		uv_async_send(&server->async);
}

void kw_session_free(struct kw_session *session)
{
	kw_tls_peer_free(session->certificate);
	kw_tls_context_unref(session->judged_by);
	free(session);
}

void kw_session_ending(struct kw_session *session)
{
	kw_sm_move(&session->sm, KW_SESSION_ENDING, session->why);
}

void kw_session_ended(struct kw_session *session, const char *why)
{
	struct kw_server *server = session->server;
	struct kw_session_info info;

	if (session->previous)
		session->previous->next = session->next;
	else
		server->sessions = session->next;
	if (session->next)
		session->next->previous = session->previous;
	assert(server->session_count > 0);
	server->session_count--;
	kw_session_is_awake(session);
	describe(session, &info);
	server->handlers.left(server->handlers.arg, &info, session->why[0] ? session->why : why);
	kw_session_free(session);
	kw_server_maybe_finish(server);
}

void kw_session_end(struct kw_session *session, enum kw_frame_status bye, const char *why)
{
	if (!is_joined(session))
		return;
	snprintf(session->why, sizeof session->why, "%s", why);
	kw_session_ending(session);
	session->listener->ops->end(session, bye);
}

int kw_server_sessions(const struct kw_server *server, struct kw_session_info *infos, int most)
{
	int count = 0;

	for (const struct kw_session *at = server->sessions; at; at = at->next) {
		if (!is_joined(at))
			continue;
		if (count < most)
			describe(at, &infos[count]);
		count++;
	}
	return count;
}

bool kw_server_any_ticket(const struct kw_server *server, kw_server_wants_fn wants, void *arg)
{
	for (const struct kw_session *at = server->sessions; at; at = at->next) {
		struct kw_session_info info;

		if (is_joined(at) && describe(at, &info) > 0 && info.progress.ticket &&
			wants(arg, info.progress.ticket))
			return true;
	}
	return false;
}

uint64_t kw_server_lowest_passed(const struct kw_server *server)
{
	uint64_t lowest = UINT64_MAX;

	for (const struct kw_session *at = server->sessions; at; at = at->next) {
		struct kw_session_info info;
		uint64_t passed = describe(at, &info) ? info.progress.passed : 0;

		if (is_silent(at))
			continue;
		if (passed < lowest)
			lowest = passed;
	}
	return lowest;
}

bool kw_server_disconnect(struct kw_server *server, uint64_t id, const char *why)
{
	for (struct kw_session *at = server->sessions; at; at = at->next) {
		if (at->id != id || !is_joined(at))
			continue;
		kw_session_end(at, KW_FRAME_REVOKED, why);
		return true;
	}
	return false;
}
