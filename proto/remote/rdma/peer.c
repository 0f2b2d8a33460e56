#include "remote/rdma/peer.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "remote/socket.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAREWELL_MS 500 /* for last messages: a dead peer never takes them */
#define SENTENCE (KW_ERROR_TEXT + KW_ADDRESS_TEXT + KW_PEER_TEXT + 8)

#define IN(state) KW_SM_TO(KW_RDMA_##state)
static const struct kw_sm_state states[] = {
	[KW_RDMA_BUILDING] = {"building", IN(GREETING) | IN(DROPPED) | IN(GONE), KW_SM_INITIAL},
	[KW_RDMA_GREETING] = {"greeting", IN(SESSION) | IN(LEAVING) | IN(GONE)},
	[KW_RDMA_SESSION] = {"session", IN(LEAVING) | IN(GONE)},
	[KW_RDMA_LEAVING] = {"leaving", IN(GONE)},
	[KW_RDMA_DROPPED] = {"dropped", IN(GONE)},
	[KW_RDMA_GONE] = {"gone", 0, KW_SM_FINAL},
};

static bool peer_holds(const void *owner, int state)
{
	const struct kw_rdma_peer *peer = owner;
	const struct kw_session *session = peer->session;

	switch ((enum kw_rdma_peer_state)state) {
	case KW_RDMA_BUILDING:
	case KW_RDMA_DROPPED:
		return peer->id && !session && !peer->end.poll;
	case KW_RDMA_GREETING:
		return peer->id && !session && peer->end.qp;
	case KW_RDMA_SESSION:
		return peer->id && peer->end.qp &&
		       kw_handshake_is(&peer->handshake, KW_HANDSHAKE_DONE);
	case KW_RDMA_LEAVING:
	case KW_RDMA_GONE:
		return !session || session->sm.state == KW_SESSION_ENDING;
	}
	return false;
}

static const struct kw_sm_conf machine = {
	.where = "rdma peer",
	.states = states,
	.count = sizeof states / sizeof *states,
	.invariant = peer_holds,
};

static bool is(const struct kw_rdma_peer *peer, enum kw_rdma_peer_state state)
{
	return peer->sm.state == (int)state;
}

static struct kw_server *server_of(const struct kw_rdma_peer *peer)
{
	return peer->listen->listener->server;
}

static struct kw_rdma_peer *peer_of(struct kw_slot *slot)
{
	return (struct kw_rdma_peer *)((char *)slot - offsetof(struct kw_rdma_peer, slot));
}

static bool is_greeted(const struct kw_rdma_peer *peer)
{
	return is(peer, KW_RDMA_BUILDING) || is(peer, KW_RDMA_GREETING);
}

static bool is_gone(const struct kw_rdma_peer *peer)
{
	return is(peer, KW_RDMA_DROPPED) || is(peer, KW_RDMA_GONE);
}

/* Also while a stranger's last words are on their way: else it could hold more than the slots. */
static bool has_slot(const struct kw_rdma_peer *peer)
{
	return is(peer, KW_RDMA_GREETING) || (is(peer, KW_RDMA_LEAVING) && !peer->session);
}

static void move(struct kw_rdma_peer *peer, enum kw_rdma_peer_state state, const char *reason)
{
	bool building = is(peer, KW_RDMA_BUILDING), slot = has_slot(peer);

	if (peer->session && state >= KW_RDMA_LEAVING)
		kw_session_ending(peer->session);
	kw_sm_move(&peer->sm, (int)state, reason);
	if (building)
		kw_server_greeted(server_of(peer));
	if (slot && !has_slot(peer))
		kw_slots_leave(&peer->listen->slots, &peer->slot);
}

void kw_rdma_listen_reject(
	struct kw_rdma_listen *listen, const char *peer, const struct kw_error *error)
{
	char address[KW_ADDRESS_TEXT], why[SENTENCE];

	kw_address_text(&listen->listener->address, address, sizeof address);
	snprintf(why, sizeof why, "%s: %s: %s", address, peer, error->text);
	kw_server_rejected(listen->listener->server, why);
}

/* ---- the end ---- */

static void finish(struct kw_rdma_peer *peer)
{
	struct kw_rdma_listen *listen = peer->listen;
	struct kw_session *session = peer->session;

	assert(is(peer, KW_RDMA_GONE) && !peer->id);
	if (peer->previous)
		peer->previous->next = peer->next;
	else
		listen->peers = peer->next;
	if (peer->next)
		peer->next->previous = peer->previous;
	/* The server's calls for the session now come to us: so we are freed last. */
	if (session)
		kw_session_ended(session, peer->why.text);
	free(peer);
	listen->peer_freed(listen);
}

static void on_closed(uv_handle_t *handle)
{
	struct kw_rdma_peer *peer = handle->data;

	if (--peer->handles == 0)
		finish(peer);
}

static void on_poll_closed(uv_handle_t *handle)
{
	struct kw_rdma_peer *peer = handle->data;

	free(handle);
	if (--peer->handles == 0)
		finish(peer);
}

/* linked: the connection was accepted. */
static void release(struct kw_rdma_peer *peer, bool linked)
{
	kw_rdma_end_stop(&peer->end);
	if (peer->end.poll) {
		peer->handles++;
		uv_close((uv_handle_t *)peer->end.poll, on_poll_closed);
		peer->end.poll = NULL;
	}
	if (linked)
		(void)rdma_disconnect(peer->id);
	kw_rdma_end_close(&peer->end);
	(void)rdma_destroy_id(peer->id);
	peer->id = NULL;
	uv_close((uv_handle_t *)&peer->deadline, on_closed);
}

static void gone(struct kw_rdma_peer *peer)
{
	if (is_gone(peer))
		return;
	uv_timer_stop(&peer->deadline);
	if (is(peer, KW_RDMA_BUILDING)) {
		move(peer, KW_RDMA_DROPPED, peer->why.text);
		(void)uv_cancel((uv_req_t *)&peer->work);
		return;
	}
	move(peer, KW_RDMA_GONE, peer->why.text);
	release(peer, true);
}

/* why is told unless it was told before. */
void kw_rdma_peer_lost(struct kw_rdma_peer *peer, const struct kw_error *why)
{
	if (is_gone(peer))
		return;
	if (is_greeted(peer))
		kw_rdma_listen_reject(peer->listen, peer->origin.text, why);
	if (!is(peer, KW_RDMA_LEAVING))
		peer->why = *why;
	gone(peer);
}

static void on_deadline(uv_timer_t *timer)
{
	struct kw_rdma_peer *peer = timer->data;
	struct kw_error error;

	if (is(peer, KW_RDMA_LEAVING)) {
		gone(peer);
		return;
	}
	kw_error_set(&error, KW_E_TIMEOUT, "handshake: deadline of %u ms passed",
		kw_server_handshake_timeout_ms(server_of(peer)));
	kw_rdma_peer_lost(peer, &error);
}

/* The last messages are on their way, or there are none. */
static void leave(struct kw_rdma_peer *peer)
{
	move(peer, KW_RDMA_LEAVING, peer->why.text);
	if (peer->end.sends == 0)
		gone(peer);
	else
		uv_timer_start(&peer->deadline, on_deadline, FAREWELL_MS, 0);
}

static void farewell(struct kw_rdma_peer *peer, enum kw_frame_status bye)
{
	struct kw_frame_reply reply;
	struct kw_error error;

	/* At once, whatever becomes of the message after it. */
	(void)kw_rdma_end_open(&peer->end, false, &error);
	kw_frame_encode_reply(&reply, bye, 0, 0);
	(void)kw_rdma_end_send(&peer->end, &reply, sizeof reply, &error);
	leave(peer);
}

void kw_rdma_peer_end(struct kw_session *session, enum kw_frame_status bye)
{
	struct kw_rdma_peer *peer = session->own;

	if (is(peer, KW_RDMA_SESSION))
		farewell(peer, bye);
}

/* ---- messages ---- */

static bool send_output(struct kw_rdma_peer *peer)
{
	struct kw_slice output = kw_handshake_output(&peer->handshake);
	struct kw_error error;

	if (output.length == 0)
		return true;
	if (kw_rdma_end_send(&peer->end, output.data, (uint32_t)output.length, &error) != 0) {
		kw_rdma_peer_lost(peer, &error);
		return false;
	}
	kw_handshake_sent(&peer->handshake, output.length);
	return true;
}

static void refused(struct kw_rdma_peer *peer)
{
	struct kw_error error = peer->handshake.error;

	kw_error_wrap(&error, "handshake");
	kw_rdma_listen_reject(peer->listen, peer->origin.text, &error);
	peer->why = error;
	leave(peer);
}

/*
 * A host that died sends nothing, and this end posts nothing that could fail. So it sends an empty
 * reply without a request: the agent's device acknowledges it, or the session is over. A stopped
 * agent takes KW_RDMA_RECEIVES of them before it counts as dead too.
 */
static void on_probe(uv_timer_t *timer)
{
	struct kw_rdma_peer *peer = timer->data;
	uint64_t since =
		peer->reported.heard_us ? peer->reported.heard_us : peer->session->joined_us;
	struct kw_frame_reply reply;
	struct kw_error error;

	if (!is(peer, KW_RDMA_SESSION) || peer->end.sends > 0 ||
		kw_clock_us() - since < (uint64_t)peer->listen->options.probe_ms * 1000)
		return;
	kw_frame_encode_reply(&reply, KW_FRAME_OK, 0, 0);
	if (kw_rdma_end_send(&peer->end, &reply, sizeof reply, &error) != 0)
		kw_rdma_peer_lost(peer, &error);
}

/* It has proved itself: first allow its READs, then tell it so. */
static void welcome(struct kw_rdma_peer *peer)
{
	struct kw_session *session;
	struct kw_error error;

	if (kw_rdma_end_open(&peer->end, true, &error) != 0) {
		kw_rdma_peer_lost(peer, &error);
		return;
	}
	if (!send_output(peer))
		return;
	uv_timer_start(&peer->deadline, on_probe, peer->listen->options.probe_ms,
		peer->listen->options.probe_ms);
	move(peer, KW_RDMA_SESSION, peer->origin.text);
	session = kw_session_new(peer->listen->listener, &peer->handshake, &peer->origin);
	session->own = peer;
	peer->session = session;
	kw_session_joined(session);
}

static void greet(struct kw_rdma_peer *peer, const uint8_t *bytes, uint32_t length)
{
	struct kw_handshake *handshake = &peer->handshake;

	(void)kw_handshake_input(handshake, bytes, length);
	if (kw_handshake_is(handshake, KW_HANDSHAKE_PROVED))
		kw_server_admit(server_of(peer), handshake, &peer->origin);
	if (kw_handshake_is(handshake, KW_HANDSHAKE_DONE)) {
		welcome(peer);
		return;
	}
	if (send_output(peer) && kw_handshake_is(handshake, KW_HANDSHAKE_FAILED))
		refused(peer);
}

static void hear_frame(struct kw_rdma_peer *peer, const uint8_t *bytes, uint32_t length)
{
	struct kw_frame_reply reply;
	struct kw_frame frame;
	struct kw_error error;
	size_t taken;
	int code = kw_frame_take(bytes, length, &taken, &frame, &error);

	if (code == 0 && (taken != length || frame.op != KW_FRAME_REPORT))
		code = kw_error_set(&error, KW_E_PROTOCOL,
			"a message that is no report (over rdma there is no other)");
	if (code != 0) {
		kw_server_violated(server_of(peer), KW_FRAME_BAD);
		peer->why = error;
		kw_error_wrap(&peer->why, "it sent");
		farewell(peer, KW_FRAME_BAD);
		return;
	}
	kw_reported_take(&peer->reported, &frame.progress);
	kw_session_wishes(peer->session, peer->reported.progress.ticket);
	/* The answer lets it send the next one: so there is always a receive for it. */
	kw_frame_encode_reply(&reply, KW_FRAME_OK, 0, 0);
	if (kw_rdma_end_send(&peer->end, &reply, sizeof reply, &error) == 0)
		return;
	/* Only an agent that does not wait for its answers gets here. */
	kw_server_violated(server_of(peer), KW_FRAME_BAD);
	kw_rdma_peer_lost(peer, &error);
}

static void on_message(void *owner, const uint8_t *bytes, uint32_t length)
{
	struct kw_rdma_peer *peer = owner;

	if (is(peer, KW_RDMA_GREETING))
		greet(peer, bytes, length);
	else if (is(peer, KW_RDMA_SESSION))
		hear_frame(peer, bytes, length);
}

static void on_sent(void *owner)
{
	struct kw_rdma_peer *peer = owner;

	if (is(peer, KW_RDMA_LEAVING) && peer->end.sends == 0)
		gone(peer);
}

static void on_read(void *owner, uint64_t last)
{
	(void)owner;
	(void)last;
	abort(); /* this end starts none */
}

/* The queue of an end that starts no READs holds less than a batch. */
static void on_more(void *owner)
{
	(void)owner;
	abort();
}

static void on_broken(void *owner, const struct kw_error *why)
{
	kw_rdma_peer_lost(owner, why);
}

static const struct kw_rdma_end_ops end_ops = {
	.message = on_message,
	.sent = on_sent,
	.read = on_read,
	.more = on_more,
	.broken = on_broken,
};

/* ---- the beginning ---- */

static void on_work(uv_work_t *work)
{
	struct kw_rdma_peer *peer = work->data;
	struct kw_rdma_end *end = &peer->end;

	if (kw_rdma_end_build(end, 0, 0, &peer->built) == 0 &&
		kw_rdma_end_connect(end, 0, peer->reads, &peer->listen->options, &peer->built) == 0)
		peer->built.code = KW_OK;
}

static int accept_now(struct kw_rdma_peer *peer, struct kw_error *error)
{
	struct kw_rdma_private private;
	struct rdma_conn_param param = {
		.private_data = &private,
		.private_data_len = sizeof private,
		.responder_resources = peer->reads,
		.rnr_retry_count = 6, /* 7 is for ever */
		.qp_num = peer->end.qp->qp_num,
	};

	struct kw_channel channel = kw_rdma_end_channel(&peer->end, false);

	kw_handshake_set_channel(&peer->handshake, &channel);
	kw_rdma_private_init(&private, KW_RDMA_REJECT_NONE);
	if (kw_rdma_end_start(&peer->end, kw_server_loop(server_of(peer)), peer, error) != 0)
		return (int)error->code;
	if (rdma_accept(peer->id, &param) != 0)
		return kw_error_errno(error, errno, "accept");
	return 0;
}

/* It is accepted: if no slot is free, another one leaves its slot. */
static void begin_greeting(struct kw_rdma_peer *peer)
{
	struct kw_slots *slots = &peer->listen->slots;
	struct kw_slot *victim = kw_slots_victim(slots);
	struct kw_error error;

	move(peer, KW_RDMA_GREETING, peer->origin.text);
	if (victim) {
		kw_error_set(&error, KW_E_TIMEOUT,
			"handshake: gave way to a newer one, as %d were under way", KW_SLOTS_MAX);
		kw_rdma_peer_lost(peer_of(victim), &error);
	}
	kw_slots_take(slots, &peer->slot, peer->origin.peer);
}

static void on_worked(uv_work_t *work, int status)
{
	struct kw_rdma_peer *peer = work->data;
	struct kw_error error = peer->built;
	struct kw_rdma_private private;

	(void)status;
	if (is(peer, KW_RDMA_DROPPED)) {
		move(peer, KW_RDMA_GONE, "the thread has ended");
		release(peer, false);
		return;
	}
	if (error.code == KW_OK && accept_now(peer, &error) == 0) {
		begin_greeting(peer);
		return;
	}
	kw_rdma_private_init(&private, KW_RDMA_REJECT_RESOURCES);
	(void)rdma_reject(peer->id, &private, sizeof private);
	kw_rdma_listen_reject(peer->listen, peer->origin.text, &error);
	peer->why = error;
	uv_timer_stop(&peer->deadline);
	move(peer, KW_RDMA_GONE, error.text);
	release(peer, false);
}

void kw_rdma_peer_new(struct kw_rdma_listen *listen, const struct kw_rdma_cm_event *cm_event)
{
	struct kw_server *server = listen->listener->server;
	struct kw_rdma_peer *peer = kw_zalloc(sizeof *peer);
	const struct sockaddr *from = rdma_get_peer_addr(cm_event->id);
	struct kw_error error;

	peer->listen = listen;
	kw_tcp_socket_text(from,
		from->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					    : sizeof(struct sockaddr_in),
		peer->origin.text, sizeof peer->origin.text);
	peer->origin.peer = kw_tcp_socket_peer(from);
	if (kw_server_greet(server, &peer->handshake, &error) != 0) {
		kw_rdma_listen_reject(listen, peer->origin.text, &error);
		(void)rdma_destroy_id(cm_event->id);
		free(peer);
		return;
	}
	kw_rdma_end_init(&peer->end, &end_ops, peer);
	peer->id = peer->end.id = cm_event->id;
	peer->end.pd = listen->device->pd;
	peer->reads = cm_event->responder_resources < listen->device->depth
			      ? cm_event->responder_resources
			      : (uint8_t)listen->device->depth;
	kw_sm_init(&peer->sm, &machine, peer, KW_RDMA_BUILDING);
	uv_timer_init(kw_server_loop(server), &peer->deadline);
	peer->deadline.data = peer->work.data = peer;
	peer->handles = 1;
	peer->next = listen->peers;
	if (listen->peers)
		listen->peers->previous = peer;
	listen->peers = peer;
	uv_timer_start(&peer->deadline, on_deadline, kw_server_handshake_timeout_ms(server), 0);
	peer->built.code = KW_E_IO;
	if (uv_queue_work(kw_server_loop(server), &peer->work, on_work, on_worked) != 0)
		abort(); /* only for a NULL callback */
}

void kw_rdma_peer_turn_away(struct kw_rdma_peer *peer)
{
	struct kw_error error;

	if (is(peer, KW_RDMA_GREETING) && peer->handshake.sm.state < KW_HANDSHAKE_PROVED) {
		(void)kw_handshake_refuse(&peer->handshake, KW_REFUSE_SHUTDOWN, 0);
		if (send_output(peer))
			leave(peer);
		return;
	}
	if (!is(peer, KW_RDMA_BUILDING))
		return;
	/* The thread pool still has it; releasing the request rejects it. */
	kw_error_set(&error, KW_E_GONE, "the proxy is shutting down");
	peer->why = error;
	gone(peer);
}

void kw_rdma_peer_event(struct kw_rdma_peer *peer, const struct kw_rdma_cm_event *cm_event)
{
	struct kw_error error;

	if (is_gone(peer) || cm_event->type == RDMA_CM_EVENT_ESTABLISHED)
		return;
	if (cm_event->type == RDMA_CM_EVENT_DISCONNECTED && !is(peer, KW_RDMA_BUILDING)) {
		/* What it had sent before counts. */
		kw_rdma_end_poll(&peer->end);
		if (is_gone(peer))
			return;
	}
	kw_rdma_cm_error(&error, cm_event);
	if (is(peer, KW_RDMA_GREETING))
		kw_error_wrap(&error, "handshake");
	kw_rdma_peer_lost(peer, &error);
}
