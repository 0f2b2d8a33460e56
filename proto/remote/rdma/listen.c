/*
 * rdma, the proxy's end: listening, and which connection requests are answered.
 */
#include "base/backoff.h"
#include "base/buffer.h"
#include "remote/rdma/bind.h"
#include "remote/rdma/dial.h"
#include "remote/rdma/peer.h"
#include "remote/rdma/watch.h"
#include "remote/socket.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BACKLOG 128
#define RETRY_LOWEST_MS 100
#define RETRY_HIGHEST_MS 5000
#define LOOK_MS 1000 /* a wildcard address brings no event when its device is removed */

/*
 *                    device and address are there
 *        ┌─────────┐ ───────────────────────────▶ ┌─────────────┐ (a thread of the pool; only the
 *   ────▶│ WAITING │      failed                  │ REGISTERING │  first listener of a device)
 *        └─────────┘ ◀─────────────────────────── └─────────────┘
 *             ▲                                          │ registered, placed
 *             │ the last connection is gone              ▼
 *        ┌──────────┐  removed, changed           ┌───────────┐
 *        │ DRAINING │ ◀────────────────────────── │ LISTENING │
 *        └──────────┘                             └───────────┘
 *
 *   close: WAITING ──▶ CLOSED
 *          REGISTERING ──▶ ABORTING ──the thread has ended──▶ CLOSED
 *          LISTENING, DRAINING ──▶ LEAVING ──the last connection is gone──▶ CLOSED
 */
enum listen_state { WAITING, REGISTERING, LISTENING, DRAINING, ABORTING, LEAVING, CLOSED };

#define TO KW_SM_TO
static const struct kw_sm_state states[] = {
	[WAITING] = {"waiting", TO(REGISTERING) | TO(LISTENING) | TO(CLOSED), KW_SM_INITIAL},
	[REGISTERING] = {"registering", TO(WAITING) | TO(LISTENING) | TO(ABORTING)},
	[LISTENING] = {"listening", TO(DRAINING) | TO(LEAVING)},
	[DRAINING] = {"draining", TO(WAITING) | TO(LEAVING)},
	[ABORTING] = {"aborting", TO(CLOSED)},
	[LEAVING] = {"leaving", TO(CLOSED)},
	[CLOSED] = {"closed", 0, KW_SM_FINAL},
};

struct listen {
	struct kw_rdma_listen common; /* first: peers know no more of us */
	struct kw_sm sm;
	struct sockaddr_storage address; /* resolved once: that can block */
	struct kw_rdma_bound bound;
	struct kw_rdma_watch watch;
	struct kw_backoff backoff;
	uv_timer_t timer; /* the next try; LISTENING on a wildcard: the next look */
	uv_poll_t *poll;  /* of bound.channel */
	uv_work_t work;
	struct kw_error built; /* by the thread pool: its code is KW_OK when all went well */
	int handles;           /* not yet closed */
};

static_assert(offsetof(struct listen, common) == 0, "peers go by it");

static bool listen_holds(const void *owner, int state)
{
	const struct listen *listen = owner;
	const struct kw_rdma_device *device = listen->common.device;

	switch ((enum listen_state)state) {
	case WAITING:
	case CLOSED:
		return !listen->common.peers && !device && !listen->poll && !listen->bound.id;
	case REGISTERING:
	case ABORTING:
		return !listen->common.peers && device && device->users == 1 && !listen->poll;
	case LISTENING:
		return device && device->placed && listen->poll && listen->bound.id;
	case DRAINING:
	case LEAVING:
		return device && listen->poll;
	}
	return false;
}

static const struct kw_sm_conf machine = {
	.where = "rdma listener",
	.states = states,
	.count = sizeof states / sizeof *states,
	.invariant = listen_holds,
};

static bool is(const struct listen *listen, enum listen_state state)
{
	return listen->sm.state == (int)state;
}

static struct kw_server *server_of(const struct listen *listen)
{
	return listen->common.listener->server;
}

/* ---- requests ---- */

static struct kw_rdma_peer *find_peer(const struct listen *listen, const struct rdma_cm_id *id)
{
	struct kw_rdma_peer *at = listen->common.peers;

	while (at && at->id != id)
		at = at->next;
	return at;
}

static enum kw_rdma_reject judge(
	const struct listen *listen, const struct kw_rdma_cm_event *cm_event)
{
	enum kw_rdma_reject reject = kw_rdma_private_check(cm_event->data, cm_event->data_length);

	if (reject != KW_RDMA_REJECT_NONE)
		return reject;
	if (is(listen, LEAVING))
		return KW_RDMA_REJECT_SHUTDOWN;
	if (cm_event->id->verbs != listen->bound.verbs)
		return KW_RDMA_REJECT_DEVICE;
	/* There is no queue for them, so they are told to come again. */
	return kw_server_busy(server_of(listen)) ? KW_RDMA_REJECT_BUSY : KW_RDMA_REJECT_NONE;
}

static void request(struct listen *listen, const struct kw_rdma_cm_event *cm_event)
{
	static const char *const sentences[] = {
		[KW_RDMA_REJECT_FOREIGN] = "its connection request is not keywake's",
		[KW_RDMA_REJECT_VERSION] = "it has another version of the rdma carrier",
		[KW_RDMA_REJECT_BUSY] = "as many handshakes are under way as there may be",
		[KW_RDMA_REJECT_SHUTDOWN] = "the proxy is shutting down",
		[KW_RDMA_REJECT_DEVICE] = "it came over another RDMA device",
	};
	enum kw_rdma_reject reject = judge(listen, cm_event);
	struct kw_rdma_private private;
	struct kw_error error;

	if (reject == KW_RDMA_REJECT_NONE) {
		kw_rdma_peer_new(&listen->common, cm_event);
		return;
	}
	kw_rdma_private_init(&private, reject);
	(void)rdma_reject(cm_event->id, &private, sizeof private);
	(void)rdma_destroy_id(cm_event->id);
	kw_rdma_count(KW_RDMA_REJECTED);
	kw_error_set(&error, KW_E_REFUSED, "%s", sentences[reject]);
	kw_rdma_listen_reject(&listen->common, "a connection", &error);
}

/* ---- the end of a device, or of all ---- */

static void on_handle_closed(uv_handle_t *handle)
{
	struct listen *listen = handle->data;
	struct kw_listener *listener = listen->common.listener;

	if (handle != (uv_handle_t *)&listen->timer)
		free(handle);
	assert(listen->handles > 0);
	if (--listen->handles > 0)
		return;
	assert(is(listen, CLOSED));
	free(listen);
	listener->own = NULL;
	kw_listener_closed(listener);
}

/*
 * Release all that was there, in this order: first what is on the device, then the watch, which can
 * let go of it, then the ids that keep it open.
 */
static void release(struct listen *listen)
{
	if (listen->poll) {
		uv_poll_stop(listen->poll);
		uv_close((uv_handle_t *)listen->poll, on_handle_closed);
	}
	listen->poll = NULL;
	kw_rdma_device_leave(listen->common.device, server_of(listen));
	listen->common.device = NULL;
	kw_rdma_watch_stop(&listen->watch);
	kw_rdma_unbind(&listen->bound);
}

static void on_retry(uv_timer_t *timer);

static void try_later(struct listen *listen)
{
	uv_timer_start(&listen->timer, on_retry, kw_backoff_next_us(&listen->backoff) / 1000, 0);
}

static void close_timer(struct listen *listen)
{
	kw_sm_move(&listen->sm, CLOSED, "");
	uv_close((uv_handle_t *)&listen->timer, on_handle_closed);
}

/* It cannot listen now: release what there is, and try again. */
static void failed(struct listen *listen, const struct kw_error *why)
{
	release(listen);
	kw_sm_move(&listen->sm, WAITING, why->text);
	kw_listener_waits(listen->common.listener, why);
	try_later(listen);
}

/* Connections hold the channel, the device and its ids: these go after the last connection. */
static void go_on(struct kw_rdma_listen *common)
{
	struct listen *listen = (struct listen *)common;

	if (common->peers || !(is(listen, DRAINING) || is(listen, LEAVING)))
		return;
	release(listen);
	if (is(listen, LEAVING)) {
		close_timer(listen);
		return;
	}
	kw_sm_move(&listen->sm, WAITING, "nothing is left on the device");
	try_later(listen);
}

/* No agent can connect any more over what there is. */
static void lose(struct listen *listen, const struct kw_error *why)
{
	struct kw_rdma_peer *at, *next;

	if (!is(listen, LISTENING))
		return;
	kw_sm_move(&listen->sm, DRAINING, why->text);
	uv_timer_stop(&listen->timer);
	uv_poll_stop(listen->poll);
	kw_listener_waits(listen->common.listener, why);
	for (at = listen->common.peers; at; at = next) {
		next = at->next;
		kw_rdma_peer_lost(at, why);
	}
	go_on(&listen->common);
}

static void lose_if_removed(struct listen *listen)
{
	struct kw_error error;

	if (!kw_rdma_removed(listen->bound.verbs))
		return;
	kw_rdma_count(KW_RDMA_DEVICE_REMOVED);
	kw_error_set(&error, KW_E_GONE, "the RDMA device was removed");
	lose(listen, &error);
}

/* ---- what is heard ---- */

static void on_channel(uv_poll_t *poll, int status, int events)
{
	struct listen *listen = poll->data;
	struct kw_rdma_cm_event cm_event;

	(void)status;
	(void)events;
	while ((is(listen, LISTENING) || is(listen, LEAVING)) &&
		kw_rdma_cm_event_take(listen->bound.channel, &cm_event)) {
		struct kw_rdma_peer *peer = find_peer(listen, cm_event.id);
		struct kw_error error;

		if (cm_event.type == RDMA_CM_EVENT_CONNECT_REQUEST) {
			request(listen, &cm_event);
		} else if (peer) {
			kw_rdma_peer_event(peer, &cm_event);
			if (cm_event.type == RDMA_CM_EVENT_DEVICE_REMOVAL && is(listen, LISTENING))
				lose_if_removed(listen);
		} else if (cm_event.id == listen->bound.id) {
			kw_rdma_cm_error(&error, &cm_event);
			lose(listen, &error);
		}
	}
}

static void on_device(void *owner, const struct ibv_async_event *event)
{
	struct listen *listen = owner;
	struct kw_rdma_peer *at, *next;
	const char *name = ibv_get_device_name(listen->bound.verbs->device);
	struct kw_error error;

	if (event->event_type == IBV_EVENT_DEVICE_FATAL) {
		kw_rdma_async_error(&error, event->event_type, name);
		lose(listen, &error);
		return;
	}
	for (at = listen->common.peers; at; at = next) {
		next = at->next;
		if (at->id == NULL || !kw_rdma_end_concerned(&at->end, event))
			continue;
		if (kw_rdma_async_error(&error, event->event_type, name) != 0)
			kw_rdma_peer_lost(at, &error);
	}
}

static void on_look(uv_timer_t *timer)
{
	lose_if_removed(timer->data);
}

/* ---- the beginning ---- */

/* Bound, and the device has the table: begin. */
static int start(struct listen *listen, struct kw_error *error)
{
	uv_loop_t *loop = kw_server_loop(server_of(listen));
	int status;

	if (rdma_listen(listen->bound.id, BACKLOG) != 0)
		return kw_error_errno(error, errno, "listen%s",
			errno == EADDRINUSE ? " (another process listens there)" : "");
	listen->poll = kw_zalloc(sizeof *listen->poll);
	status = uv_poll_init(loop, listen->poll, listen->bound.channel->fd);
	if (status != 0) {
		free(listen->poll);
		listen->poll = NULL;
		return kw_error_errno(error, -status, "event channel");
	}
	listen->handles++;
	listen->poll->data = listen;
	uv_poll_start(listen->poll, UV_READABLE, on_channel);
	if (listen->bound.held)
		uv_timer_start(&listen->timer, on_look, LOOK_MS, LOOK_MS);
	return 0;
}

static void listening(struct listen *listen)
{
	struct kw_listener *listener = listen->common.listener;

	kw_sm_move(&listen->sm, LISTENING, listener->address.host);
	kw_backoff_reset(&listen->backoff);
	/*
	 * The same port again after a loss: agents go on trying it. (It stands at the same place in
	 * an address of either family.)
	 */
	listener->address.port = ntohs(rdma_get_src_port(listen->bound.id));
	((struct sockaddr_in *)&listen->address)->sin_port = htons(listener->address.port);
	snprintf(listener->device, sizeof listener->device, "%s",
		ibv_get_device_name(listen->bound.verbs->device));
}

/* Address and device, but not yet what is registered with it. */
static int take(struct listen *listen, struct kw_error *error)
{
	int code = kw_rdma_bind(&listen->bound, (struct sockaddr *)&listen->address,
		&listen->common.options, error);

	if (code != 0)
		return code;
	listen->common.device = kw_rdma_device_of(server_of(listen), listen->bound.verbs, error);
	if (!listen->common.device)
		return (int)error->code;
	assert(!listen->watch.of);
	listen->common.device->users++;
	/*
	 * From now on: if the device is removed while the table is being registered, it must be let
	 * go of too.
	 */
	listen->watch.told = on_device;
	listen->watch.owner = listen;
	return kw_rdma_watch_start(&listen->watch, kw_server_loop(server_of(listen)),
		listen->bound.verbs, listen->bound.id, error);
}

static void resume(struct listen *listen)
{
	struct kw_error error;

	if (start(listen, &error) != 0) {
		failed(listen, &error);
		return;
	}
	listening(listen);
	kw_listener_listens(listen->common.listener);
}

static void on_work(uv_work_t *work)
{
	struct listen *listen = work->data;

	if (kw_rdma_device_register(listen->common.device, &listen->built) == 0)
		listen->built.code = KW_OK;
}

static void on_worked(uv_work_t *work, int status)
{
	struct listen *listen = work->data;

	(void)status;
	if (is(listen, ABORTING)) {
		release(listen);
		close_timer(listen);
		return;
	}
	if (listen->built.code != KW_OK) {
		failed(listen, &listen->built);
		return;
	}
	kw_rdma_device_place(listen->common.device, server_of(listen));
	resume(listen);
}

/* Pinning the whole table takes long, and the loop has other things to do. */
static void on_retry(uv_timer_t *timer)
{
	struct listen *listen = timer->data;
	struct kw_error error;

	if (take(listen, &error) != 0) {
		failed(listen, &error);
	} else if (listen->common.device->placed) {
		resume(listen);
	} else if (listen->common.device->users > 1) {
		release(listen); /* another listener is registering the table there */
		try_later(listen);
	} else {
		kw_sm_move(&listen->sm, REGISTERING, listen->common.listener->address.host);
		kw_error_set(&listen->built, KW_E_STATE, "cancelled");
		listen->work.data = listen;
		if (uv_queue_work(kw_server_loop(server_of(listen)), &listen->work, on_work,
			    on_worked) != 0)
			abort(); /* only for a NULL callback */
	}
}

static int first_try(struct listen *listen, struct kw_error *error)
{
	struct kw_server *server = server_of(listen);
	int code = take(listen, error);

	if (code == 0)
		code = kw_rdma_device_ready(listen->common.device, server, error);
	if (code == 0)
		code = start(listen, error);
	if (code == 0)
		listening(listen);
	return code;
}

static void on_given_up(uv_handle_t *handle)
{
	free(handle->data);
}

static int listen_rdma(struct kw_listener *listener, struct kw_error *error)
{
	struct listen *listen;
	struct sockaddr_storage address;
	struct kw_rdma_options options;
	int code = kw_rdma_options_set(&options, kw_server_rdma(listener->server), error);

	if (code == 0)
		code = kw_rdma_resolve(&listener->address, &address, error);
	if (code != 0)
		return code;
	listen = kw_zalloc(sizeof *listen);
	listen->common.options = options;
	listen->common.listener = listener;
	listen->common.peer_freed = go_on;
	listen->address = address;
	kw_sm_init(&listen->sm, &machine, listen, WAITING);
	kw_backoff_init(&listen->backoff, RETRY_LOWEST_MS, RETRY_HIGHEST_MS);
	uv_timer_init(kw_server_loop(listener->server), &listen->timer);
	listen->timer.data = listen;
	listen->handles = 1;
	code = first_try(listen, error);
	if (code == KW_E_GONE) {
		failed(listen, error);
	} else if (code != 0) {
		/* Nothing was started that has a poll handle. */
		release(listen);
		uv_close((uv_handle_t *)&listen->timer, on_given_up);
		return code;
	}
	listener->own = listen;
	return 0;
}

static void close_rdma(struct kw_listener *listener)
{
	struct listen *listen = listener->own;
	struct kw_rdma_peer *at, *next;

	uv_timer_stop(&listen->timer);
	for (at = listen->common.peers; at; at = next) {
		next = at->next;
		kw_rdma_peer_turn_away(at);
	}
	if (is(listen, WAITING)) {
		close_timer(listen);
	} else if (is(listen, REGISTERING)) {
		kw_sm_move(&listen->sm, ABORTING, "the proxy is shutting down");
		(void)uv_cancel((uv_req_t *)&listen->work);
	} else {
		kw_sm_move(&listen->sm, LEAVING, "the proxy is shutting down");
		go_on(&listen->common);
	}
}

static uint64_t figures_rdma(const struct kw_session *session, struct kw_session_info *info)
{
	const struct kw_rdma_peer *peer = session->own;

	snprintf(info->device, sizeof info->device, "%s",
		ibv_get_device_name(peer->listen->device->verbs->device));
	return kw_reported_show(&peer->reported, info);
}

const struct kw_listener_ops kw_listener_rdma = {
	.carrier = KW_CARRIER_RDMA,
	.look = kw_rdma_look,
	.prepare = kw_rdma_prepare,
	.listen = listen_rdma,
	.close = close_rdma,
	.end = kw_rdma_peer_end,
	.figures = figures_rdma,
};
