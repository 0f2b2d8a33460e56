#include "remote/rdma/dial.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "remote/rdma/software.h"
#include "remote/socket.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define RESOLVE_MS 2000
#define RNR_RETRIES 6 /* 7 is for ever */
#define BOUNCE_BYTES_MAX (16u << 20)

#define TO(state) KW_SM_TO(KW_RDMA_DIAL_##state)
#define END (TO(CLOSING) | TO(CLOSED))
static const struct kw_sm_state states[] = {
	[KW_RDMA_DIAL_IDLE] = {"idle", TO(NAME) | TO(CLOSED), KW_SM_INITIAL},
	[KW_RDMA_DIAL_NAME] = {"name", TO(ROUTE) | TO(CLOSED)},
	[KW_RDMA_DIAL_ROUTE] = {"route", TO(BUILD) | TO(NEXT) | TO(CLOSED)},
	[KW_RDMA_DIAL_BUILD] = {"build", TO(CONNECT) | TO(DROP) | TO(CLOSING)},
	[KW_RDMA_DIAL_DROP] = {"drop", TO(NEXT) | TO(CLOSING)},
	[KW_RDMA_DIAL_NEXT] = {"next", TO(ROUTE) | TO(CLOSED)},
	[KW_RDMA_DIAL_CONNECT] = {"connect", TO(UP) | TO(NEXT) | TO(CLOSED)},
	[KW_RDMA_DIAL_UP] = {"up", TO(LOST) | END},
	[KW_RDMA_DIAL_LOST] = {"lost", END, KW_SM_FAILURE},
	[KW_RDMA_DIAL_CLOSING] = {"closing", TO(CLOSED)},
	[KW_RDMA_DIAL_CLOSED] = {"closed", 0, KW_SM_FINAL},
};

static bool dial_holds(const void *owner, int state)
{
	const struct kw_rdma_dial *dial = owner;

	switch ((enum kw_rdma_dial_state)state) {
	case KW_RDMA_DIAL_IDLE:
	case KW_RDMA_DIAL_NAME:
		return !dial->address && !dial->id && !dial->channel;
	case KW_RDMA_DIAL_ROUTE:
		return dial->address && !dial->end->qp;
	case KW_RDMA_DIAL_BUILD:
	case KW_RDMA_DIAL_DROP:
	case KW_RDMA_DIAL_CONNECT:
		return dial->address && dial->id && dial->end->id == dial->id;
	case KW_RDMA_DIAL_NEXT:
		return dial->address && dial->address->ai_next;
	case KW_RDMA_DIAL_UP:
	case KW_RDMA_DIAL_LOST:
		return dial->id && dial->end->qp;
	case KW_RDMA_DIAL_CLOSING:
		return dial->id && !dial->addresses;
	case KW_RDMA_DIAL_CLOSED:
		return !dial->id && !dial->channel && !dial->poll && !dial->addresses;
	}
	return false;
}

static const struct kw_sm_conf machine = {
	.where = "rdma dial",
	.states = states,
	.count = sizeof states / sizeof *states,
	.invariant = dial_holds,
};

static bool is(const struct kw_rdma_dial *dial, enum kw_rdma_dial_state state)
{
	return dial->sm.state == (int)state;
}

static void move(struct kw_rdma_dial *dial, enum kw_rdma_dial_state state, const char *reason)
{
	kw_sm_move(&dial->sm, (int)state, reason);
}

static bool is_established(const struct kw_rdma_dial *dial)
{
	return is(dial, KW_RDMA_DIAL_UP) || is(dial, KW_RDMA_DIAL_LOST);
}

/* Is an address being tried that can still succeed? */
static bool is_trying(const struct kw_rdma_dial *dial)
{
	return is(dial, KW_RDMA_DIAL_ROUTE) || is(dial, KW_RDMA_DIAL_BUILD) ||
	       is(dial, KW_RDMA_DIAL_CONNECT);
}

/* ---- options ---- */

int kw_rdma_options_set(
	struct kw_rdma_options *own, const struct kw_rdma_options *given, struct kw_error *error)
{
	*own = *given;
	if (own->ack_timeout == 0)
		own->ack_timeout = KW_RDMA_ACK_TIMEOUT;
	if (own->retry_count == 0)
		own->retry_count = KW_RDMA_RETRY_COUNT;
	if (own->probe_ms == 0)
		own->probe_ms = KW_RDMA_PROBE_MS;
	if (own->read_bytes == 0)
		own->read_bytes = KW_RDMA_READ_BYTES;
	if (own->ack_timeout > 31)
		return kw_error_set(
			error, KW_E_CONFIG, "rdma: ack timeout %u (1 to 31)", own->ack_timeout);
	if (own->retry_count > 6)
		return kw_error_set(error, KW_E_CONFIG,
			"rdma: retry count %u (1 to 6; 7 would mean for ever)", own->retry_count);
	if (own->read_bytes < 4096 || own->read_bytes > KW_RDMA_READ_BYTES_MAX)
		return kw_error_set(error, KW_E_CONFIG, "rdma: READs of %u bytes (4096 to %u)",
			own->read_bytes, KW_RDMA_READ_BYTES_MAX);
	return 0;
}

int kw_rdma_options_apply(
	const struct kw_rdma_options *options, struct rdma_cm_id *id, struct kw_error *error)
{
	const char *name = ibv_get_device_name(id->verbs->device);
	uint8_t timeout = options->ack_timeout;

	if (options->device[0] && strcmp(options->device, name) != 0)
		return kw_error_set(error, KW_E_CONFIG,
			"the address leads over RDMA device %s, and %s is configured", name,
			options->device);
	if (options->port && options->port != id->port_num)
		return kw_error_set(error, KW_E_CONFIG,
			"the address leads over port %u of RDMA device %s, and %u is configured",
			id->port_num, name, options->port);
	/* Older kernels lack it; the queue pair's own attribute is set in any case. */
	(void)rdma_set_option(
		id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, sizeof timeout);
	return 0;
}

/* ---- steps ---- */

/* A proxy's own refusal says more than the failure of another address. */
static void remember(struct kw_rdma_dial *dial, const struct kw_error *error)
{
	const struct addrinfo *address = dial->address;
	char text[KW_PEER_TEXT];

	if (dial->last.code == KW_E_REFUSED || dial->last.code == KW_E_PROTOCOL)
		return;
	dial->last = *error;
	if (!dial->addresses->ai_next)
		return;
	kw_tcp_socket_text(address->ai_addr, address->ai_addrlen, text, sizeof text);
	kw_error_wrap(&dial->last, "%s", text);
}

/*
 * What was begun for an address is released in the next turn of the remote: its callbacks can be
 * under way now.
 */
static void failed(struct kw_rdma_dial *dial, const struct kw_error *error)
{
	if (is_established(dial)) {
		dial->lost(dial->remote, error);
		return;
	}
	if (!is_trying(dial))
		return;
	remember(dial, error);
	if (!dial->address->ai_next) {
		kw_remote_fail(dial->remote, &dial->last);
	} else if (is(dial, KW_RDMA_DIAL_BUILD)) {
		move(dial, KW_RDMA_DIAL_DROP, error->text);
	} else {
		move(dial, KW_RDMA_DIAL_NEXT, error->text);
		kw_remote_turn_soon(dial->remote);
	}
}

static void failed_errno(struct kw_rdma_dial *dial, const char *what)
{
	struct kw_error error;

	kw_error_errno(&error, errno, "%s", what);
	failed(dial, &error);
}

static void on_work(uv_work_t *work)
{
	struct kw_rdma_dial *dial = work->data;
	int depth = kw_rdma_device_depth(dial->id->verbs, &dial->built);

	if (depth < 0)
		return;
	dial->depth = dial->slots < (uint32_t)depth ? dial->slots : (uint32_t)depth;
	if (kw_rdma_end_build(dial->end, dial->slots, dial->options.read_bytes, &dial->built) != 0)
		return;
	dial->end->poster = kw_rdma_software_poster(dial->end, dial->remote);
	dial->built.code = KW_OK;
}

static int connect_now(struct kw_rdma_dial *dial, struct kw_error *error)
{
	struct kw_rdma_private private;
	struct rdma_conn_param param = {
		.private_data = &private,
		.private_data_len = sizeof private,
		.initiator_depth = (uint8_t)dial->depth,
		.retry_count = dial->options.retry_count,
		.rnr_retry_count = RNR_RETRIES,
		.qp_num = dial->end->qp->qp_num,
	};

	kw_rdma_private_init(&private, KW_RDMA_REJECT_NONE);
	if (kw_rdma_end_start(dial->end, dial->remote->loop, dial->remote, error) != 0)
		return (int)error->code;
	if (rdma_connect(dial->id, &param) != 0)
		return kw_error_errno(error, errno, "connect");
	return 0;
}

static void end_closing(void *owner);

static void on_worked(uv_work_t *work, int status)
{
	struct kw_rdma_dial *dial = work->data;
	struct kw_error error = dial->built;

	(void)status;
	if (is(dial, KW_RDMA_DIAL_CLOSING)) {
		end_closing(dial);
	} else if (is(dial, KW_RDMA_DIAL_DROP)) {
		move(dial, KW_RDMA_DIAL_NEXT, "the thread has ended");
		kw_remote_turn_soon(dial->remote);
	} else {
		move(dial, KW_RDMA_DIAL_CONNECT, "");
		if (error.code != KW_OK || connect_now(dial, &error) != 0)
			failed(dial, &error);
	}
}

static void build(struct kw_rdma_dial *dial)
{
	struct kw_error error;

	if (kw_rdma_options_apply(&dial->options, dial->id, &error) != 0) {
		failed(dial, &error);
		return;
	}
	dial->slots = dial->remote->options.depth;
	if (dial->slots > KW_RDMA_SLOTS_MAX)
		dial->slots = KW_RDMA_SLOTS_MAX;
	if (dial->slots > BOUNCE_BYTES_MAX / dial->options.read_bytes)
		dial->slots = BOUNCE_BYTES_MAX / dial->options.read_bytes;
	dial->built.code = KW_E_IO;
	dial->work.data = dial;
	move(dial, KW_RDMA_DIAL_BUILD, ibv_get_device_name(dial->id->verbs->device));
	if (uv_queue_work(dial->remote->loop, &dial->work, on_work, on_worked) != 0)
		abort(); /* only for a NULL callback */
}

/* The proxy answered: the rest of the queue pair's way, then the last message of the three. */
static void establish(struct kw_rdma_dial *dial, const struct kw_rdma_cm_event *cm_event)
{
	struct kw_error error;

	if (kw_rdma_private_check(cm_event->data, cm_event->data_length) != KW_RDMA_REJECT_NONE) {
		kw_error_set(
			&error, KW_E_PROTOCOL, "who answered is no keywake-proxy of this version");
		failed(dial, &error);
		return;
	}
	/* READs in flight on the wire: as many as the proxy's device takes; more wait in ours. */
	if (cm_event->initiator_depth < dial->depth)
		dial->depth = cm_event->initiator_depth ? cm_event->initiator_depth : 1;
	if (kw_rdma_end_connect(dial->end, (uint8_t)dial->depth, 0, &dial->options, &error) != 0) {
		failed(dial, &error);
		return;
	}
	if (rdma_establish(dial->id) != 0) {
		failed_errno(dial, "connect: establish");
		return;
	}
	move(dial, KW_RDMA_DIAL_UP, "");
	dial->connected(dial->remote);
}

/* The address leads over a device, and librdmacm has opened it: from now on it is watched. */
static void find_route(struct kw_rdma_dial *dial)
{
	struct kw_error error;

	dial->end->id = dial->id; /* events of the device are compared with it */
	if (kw_rdma_watch_start(
		    &dial->watch, dial->remote->loop, dial->id->verbs, dial->id, &error) != 0)
		failed(dial, &error);
	else if (rdma_resolve_route(dial->id, RESOLVE_MS) != 0)
		failed_errno(dial, "route");
}

static void on_cm_event(struct kw_rdma_dial *dial, const struct kw_rdma_cm_event *cm_event)
{
	struct kw_error error;

	switch (cm_event->type) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		find_route(dial);
		return;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		build(dial);
		return;
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		establish(dial, cm_event);
		return;
	case RDMA_CM_EVENT_ESTABLISHED:
		return;
	case RDMA_CM_EVENT_DISCONNECTED:
		if (!is(dial, KW_RDMA_DIAL_UP))
			break;
		move(dial, KW_RDMA_DIAL_LOST, "");
		/* A farewell can have come with it, and end the connection. */
		kw_rdma_end_poll(dial->end);
		if (!is(dial, KW_RDMA_DIAL_LOST))
			return;
		break;
	default:
		break;
	}
	kw_rdma_cm_error(&error, cm_event);
	failed(dial, &error);
}

static void on_channel(uv_poll_t *poll, int status, int events)
{
	struct kw_remote *remote = poll->data;
	struct kw_rdma_dial *dial = remote->own; /* the first member there */
	struct kw_rdma_cm_event cm_event;

	(void)status;
	(void)events;
	while ((is_trying(dial) || is_established(dial)) &&
		kw_rdma_cm_event_take(dial->channel, &cm_event))
		on_cm_event(dial, &cm_event);
}

static void on_device(void *owner, const struct ibv_async_event *event)
{
	struct kw_rdma_dial *dial = owner;
	struct kw_error error;

	if (!kw_rdma_end_concerned(dial->end, event))
		return;
	if (kw_rdma_async_error(
		    &error, event->event_type, ibv_get_device_name(dial->id->verbs->device)) != 0)
		failed(dial, &error);
}

/* ---- the name ---- */

static int open_channel(struct kw_rdma_dial *dial, struct kw_error *error)
{
	uint8_t class = dial->options.traffic_class;
	int status;

	dial->channel = kw_rdma_channel_new(error);
	if (!dial->channel)
		return (int)error->code;
	dial->poll = kw_zalloc(sizeof *dial->poll);
	status = uv_poll_init(dial->remote->loop, dial->poll, dial->channel->fd);
	if (status != 0) {
		free(dial->poll);
		dial->poll = NULL;
		return kw_error_errno(error, -status, "the event channel cannot be watched");
	}
	dial->poll->data = dial->remote;
	uv_poll_start(dial->poll, UV_READABLE, on_channel);
	if (rdma_create_id(dial->channel, &dial->id, NULL, RDMA_PS_TCP) != 0) {
		dial->id = NULL;
		return kw_error_errno(error, errno, "connection identifier");
	}
	/* Before the route: it takes the class over (cma_resolve_iboe_route of the kernel's cma.c),
	 * and the other side takes it from the connection request. */
	if (class && rdma_set_option(dial->id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &class,
			     sizeof class) != 0)
		return kw_error_errno(error, errno, "traffic class %u", class);
	return 0;
}

static void try_address(struct kw_rdma_dial *dial)
{
	struct kw_error error;

	assert(dial->address && !dial->id && !dial->poll);
	move(dial, KW_RDMA_DIAL_ROUTE, "");
	if (dial->address->ai_next) {
		dial->give_up_us = kw_clock_us() + dial->share_us;
		kw_remote_turn_at(dial->remote, dial->give_up_us);
	}
	if (open_channel(dial, &error) != 0)
		failed(dial, &error);
	else if (rdma_resolve_addr(dial->id, NULL, dial->address->ai_addr, RESOLVE_MS) != 0)
		failed_errno(dial, "no RDMA device leads to that address (`rdma link`)");
}

static void try_addresses(struct kw_rdma_dial *dial, struct addrinfo *addresses)
{
	uint64_t count = 0;

	for (const struct addrinfo *at = addresses; at; at = at->ai_next)
		count++;
	dial->share_us = (uint64_t)dial->remote->options.connect_timeout_ms * 1000 / count;
	dial->addresses = dial->address = addresses;
	try_address(dial);
}

static void on_resolved(void *owner, struct addrinfo *addresses, const struct kw_error *error)
{
	struct kw_rdma_dial *dial = owner;

	if (addresses)
		try_addresses(dial, addresses);
	else
		kw_remote_fail(dial->remote, error);
}

static void start(struct kw_rdma_dial *dial)
{
	move(dial, KW_RDMA_DIAL_NAME, dial->remote->info.peer);
	kw_resolve_start(
		&dial->resolve, dial->remote->loop, &dial->remote->address, on_resolved, dial);
}

static void check_share(struct kw_rdma_dial *dial)
{
	struct kw_error error;

	if (!dial->address->ai_next || kw_clock_us() < dial->give_up_us)
		return;
	kw_error_set(
		&error, KW_E_TIMEOUT, "no answer within %u ms", (unsigned)(dial->share_us / 1000));
	failed(dial, &error);
}

/* ---- the end ---- */

/* Release all that was made for one address; `before` is the state it was in. */
static void release(struct kw_rdma_dial *dial, enum kw_rdma_dial_state before)
{
	struct kw_remote *remote = dial->remote;

	kw_rdma_end_stop(dial->end);
	if (dial->end->poll)
		kw_remote_shut(remote, (uv_handle_t *)dial->end->poll, true);
	dial->end->poll = NULL;
	if (before == KW_RDMA_DIAL_UP)
		(void)rdma_disconnect(dial->id);
	kw_rdma_end_close(dial->end);
	kw_rdma_watch_stop(&dial->watch);
	if (dial->id)
		(void)rdma_destroy_id(dial->id);
	dial->id = NULL;
	/* First the handle, then the descriptor it polls. */
	if (dial->poll) {
		uv_poll_stop(dial->poll);
		kw_remote_shut(remote, (uv_handle_t *)dial->poll, true);
	}
	dial->poll = NULL;
	if (dial->channel)
		rdma_destroy_event_channel(dial->channel);
	dial->channel = NULL;
}

static void try_next(struct kw_rdma_dial *dial)
{
	release(dial, KW_RDMA_DIAL_NEXT);
	kw_rdma_end_init(dial->end, dial->end->ops, dial->end->owner);
	dial->address = dial->address->ai_next;
	try_address(dial);
}

void kw_rdma_dial_turn(struct kw_rdma_dial *dial)
{
	if (is(dial, KW_RDMA_DIAL_IDLE))
		start(dial);
	else if (is_trying(dial))
		check_share(dial);
	else if (is(dial, KW_RDMA_DIAL_NEXT))
		try_next(dial);
	else if (is_established(dial) && dial->end->poster)
		dial->end->poster->turn(dial->end->poster);
}

/* The thread that used the end has ended. */
static void end_closing(void *owner)
{
	struct kw_rdma_dial *dial = owner;
	struct kw_remote *remote = dial->remote;

	release(dial, dial->closed_in);
	move(dial, KW_RDMA_DIAL_CLOSED, "");
	kw_remote_release(remote);
}

/* Does a thread use the end? Then end_closing follows. */
static bool is_used(struct kw_rdma_dial *dial)
{
	struct kw_rdma_poster *poster = dial->end->poster;

	if (is(dial, KW_RDMA_DIAL_BUILD) || is(dial, KW_RDMA_DIAL_DROP)) {
		(void)uv_cancel((uv_req_t *)&dial->work);
		return true;
	}
	return is_established(dial) && poster && poster->stop(poster, end_closing, dial);
}

void kw_rdma_dial_close(struct kw_rdma_dial *dial)
{
	enum kw_rdma_dial_state before = (enum kw_rdma_dial_state)dial->sm.state;

	kw_resolve_forget(&dial->resolve);
	if (dial->addresses)
		uv_freeaddrinfo(dial->addresses);
	dial->addresses = dial->address = NULL;
	if (!is_used(dial)) {
		release(dial, before);
		move(dial, KW_RDMA_DIAL_CLOSED, "");
		return;
	}
	dial->closed_in = before;
	move(dial, KW_RDMA_DIAL_CLOSING, "a thread uses the queue pair");
	if (dial->poll)
		uv_poll_stop(dial->poll);
	if (before == KW_RDMA_DIAL_UP || before == KW_RDMA_DIAL_LOST)
		kw_rdma_end_stop(dial->end);
	kw_remote_hold(dial->remote);
}

void kw_rdma_dial_init(struct kw_rdma_dial *dial, struct kw_remote *remote, struct kw_rdma_end *end)
{
	dial->remote = remote;
	dial->end = end;
	dial->watch.told = on_device;
	dial->watch.owner = dial;
	kw_sm_init(&dial->sm, &machine, dial, KW_RDMA_DIAL_IDLE);
}
