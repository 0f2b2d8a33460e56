/*
 * rdma, the proxy's end: the device, listening, and whose connection requests are answered.
 */
#include "base/buffer.h"
#include "remote/rdma_dial.h"
#include "remote/rdma_peer.h"
#include "remote/rdma_watch.h"
#include "remote/tcp_socket.h"

#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BACKLOG 128

struct listen {
	struct kw_rdma_listen common; /* first: peers know no more of us */
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	uv_poll_t poll;
	struct kw_rdma_watch watch;
	bool paused, closing, released;
};

static_assert(offsetof(struct listen, common) == 0, "peers go by it");

/* ---- the device ---- */

/* Of several devices none is the obvious one, and a table is registered with one only. */
static struct ibv_context *choose_device(
	const struct kw_rdma_options *options, struct kw_error *error)
{
	struct ibv_context **all, *found = NULL;
	int count = 0;

	all = rdma_get_devices(&count);
	for (int i = 0; all && i < count; i++)
		if (options->device[0] == 0
				? count == 1
				: strcmp(options->device, ibv_get_device_name(all[i]->device)) == 0)
			found = all[i];
	if (all)
		rdma_free_devices(all);
	if (found)
		return found;
	if (count == 0)
		kw_error_set(error, KW_E_CONFIG, "%s", KW_RDMA_NO_DEVICE);
	else if (options->device[0])
		kw_error_set(
			error, KW_E_CONFIG, "this host has no RDMA device \"%s\"", options->device);
	else
		kw_error_set(error, KW_E_CONFIG,
			"this host has %d RDMA devices: listen on the address of one of them, or "
			"name one (rdma.device)",
			count);
	return NULL;
}

/* The addresses of the name. Resolving may block: only at start. NULL: *error. */
static struct addrinfo *resolve(const struct kw_address *address, struct kw_error *error)
{
	struct addrinfo hints = {
		.ai_socktype = SOCK_STREAM,
		.ai_flags = AI_PASSIVE | AI_NUMERICSERV,
	};
	struct addrinfo *found = NULL;
	char port[8];
	int status;

	snprintf(port, sizeof port, "%u", address->port);
	status = getaddrinfo(address->host, port, &hints, &found);
	if (status == 0)
		return found;
	kw_error_set(error, KW_E_CONFIG, "the host cannot be resolved: %s", gai_strerror(status));
	return NULL;
}

static int bind_id(struct kw_server *server, const struct kw_address *address,
	struct rdma_cm_id *id, struct kw_error *error)
{
	struct addrinfo *found = resolve(address, error);
	int code = 0;

	if (!found)
		return (int)error->code;
	if (!kw_server_open_to_all(server) && !kw_tcp_socket_loopback(found->ai_addr))
		code = kw_error_set(error, KW_E_CONFIG,
			"the name leads beyond this host, and there is no secret: set "
			"auth.secret_file");
	else if (rdma_bind_addr(id, found->ai_addr) != 0)
		code = kw_error_errno(error, errno, "bind%s",
			errno == EADDRINUSE ? " (another process listens there)"
			: errno == EADDRNOTAVAIL || errno == ENODEV
				? " (no RDMA device of this host has that address)"
				: "");
	freeaddrinfo(found);
	return code;
}

static int open_id(struct listen *listen, struct kw_server *server,
	const struct kw_address *address, struct kw_error *error)
{
	listen->channel = kw_rdma_channel_new(error);
	if (!listen->channel)
		return (int)error->code;
	if (rdma_create_id(listen->channel, &listen->id, NULL, RDMA_PS_TCP) != 0) {
		listen->id = NULL;
		return kw_error_errno(error, errno, "connection identifier");
	}
	return bind_id(server, address, listen->id, error);
}

static void close_id(struct listen *listen)
{
	if (listen->id)
		(void)rdma_destroy_id(listen->id);
	if (listen->channel)
		rdma_destroy_event_channel(listen->channel);
	listen->id = NULL;
	listen->channel = NULL;
}

static void free_device(void *device)
{
	kw_rdma_device_free(device);
}

/* Bound to no device (a wildcard address): the one that was named, or the only one. */
static struct ibv_context *device_of(
	const struct listen *listen, const struct kw_rdma_options *options, struct kw_error *error)
{
	if (listen->id->verbs == NULL)
		return choose_device(options, error);
	return kw_rdma_options_apply(options, listen->id, error) == 0 ? listen->id->verbs : NULL;
}

/* The device of the address, opened once for all listeners; another one is refused. */
static int take_device(struct kw_server *server, struct listen *listen, struct kw_error *error)
{
	struct ibv_context *verbs = device_of(listen, &listen->common.options, error);
	struct kw_rdma_device *device = kw_server_kept(server);

	if (!verbs)
		return (int)error->code;
	if (!device) {
		device = kw_rdma_device_new(kw_server_memory(server), verbs, error);
		if (!device)
			return (int)error->code;
		kw_server_keep(server, device, free_device);
	}
	listen->common.device = device;
	if (device->verbs == verbs)
		return 0;
	return kw_error_set(error, KW_E_CONFIG,
		"the table is registered with RDMA device %s already, and one proxy serves one",
		ibv_get_device_name(device->verbs->device));
}

static int prepare_rdma(
	struct kw_server *server, const struct kw_address *address, struct kw_error *error)
{
	struct listen probe = {0};
	int code = kw_rdma_options_set(&probe.common.options, kw_server_rdma(server), error);

	if (code == 0)
		code = open_id(&probe, server, address, error);
	if (code == 0)
		code = take_device(server, &probe, error);
	close_id(&probe);
	return code;
}

/* ---- requests ---- */

static struct kw_rdma_peer *find_peer(const struct listen *listen, const struct rdma_cm_id *id)
{
	struct kw_rdma_peer *at = listen->common.peers;

	while (at && at->id != id)
		at = at->next;
	return at;
}

static enum kw_rdma_reject judge(const struct listen *listen, const struct kw_rdma_news *news)
{
	enum kw_rdma_reject reject = kw_rdma_private_check(news->data, news->data_length);

	if (reject != KW_RDMA_REJECT_NONE)
		return reject;
	if (listen->closing)
		return KW_RDMA_REJECT_SHUTDOWN;
	if (news->id->verbs != listen->common.device->verbs)
		return KW_RDMA_REJECT_DEVICE;
	return listen->paused ? KW_RDMA_REJECT_BUSY : KW_RDMA_REJECT_NONE;
}

static void request(struct listen *listen, const struct kw_rdma_news *news)
{
	static const char *const sentences[] = {
		[KW_RDMA_REJECT_FOREIGN] = "its connection request is not keywake's",
		[KW_RDMA_REJECT_VERSION] = "it has another version of the rdma carrier",
		[KW_RDMA_REJECT_BUSY] = "as many handshakes are under way as there may be",
		[KW_RDMA_REJECT_SHUTDOWN] = "the proxy is shutting down",
		[KW_RDMA_REJECT_DEVICE] = "it came over another RDMA device",
	};
	enum kw_rdma_reject reject = judge(listen, news);
	struct kw_rdma_private private;
	struct kw_error error;

	if (reject == KW_RDMA_REJECT_NONE) {
		kw_rdma_peer_new(&listen->common, news);
		return;
	}
	kw_rdma_private_init(&private, reject);
	(void)rdma_reject(news->id, &private, sizeof private);
	(void)rdma_destroy_id(news->id);
	kw_rdma_count(KW_RDMA_REJECTED);
	kw_error_set(&error, KW_E_REFUSED, "%s", sentences[reject]);
	kw_rdma_listen_reject(&listen->common, "a connection", &error);
}

static void on_channel(uv_poll_t *poll, int status, int events)
{
	struct listen *listen = poll->data;
	struct kw_rdma_news news;

	(void)status;
	(void)events;
	while (!listen->released && kw_rdma_news_take(listen->channel, &news)) {
		struct kw_rdma_peer *peer = find_peer(listen, news.id);
		struct kw_error error;

		if (news.event == RDMA_CM_EVENT_CONNECT_REQUEST) {
			request(listen, &news);
		} else if (peer) {
			kw_rdma_peer_hear(peer, &news);
		} else if (news.id == listen->id) {
			kw_rdma_say_news(&error, &news);
			/* What it was registered with is gone, and what listened on it. */
			if (news.event == RDMA_CM_EVENT_DEVICE_REMOVAL)
				kw_error_set(&error, KW_E_IO,
					"the RDMA device was removed: nobody can connect over it "
					"until this proxy is started anew (soft-RoCE stays until "
					"every process that used it has ended, agents too)");
			kw_rdma_listen_reject(&listen->common, "the listener", &error);
		}
	}
}

static void on_device(void *owner, const struct ibv_async_event *event)
{
	struct listen *listen = owner;
	struct kw_rdma_peer *at, *next;

	for (at = listen->common.peers; at; at = next) {
		struct kw_error error;

		next = at->next;
		if (at->id == NULL)
			continue;
		if (event->event_type == IBV_EVENT_PORT_ERR &&
			event->element.port_num != at->id->port_num)
			continue;
		if (event->event_type == IBV_EVENT_CQ_ERR && event->element.cq != at->end.cq)
			continue;
		if ((event->event_type == IBV_EVENT_QP_FATAL ||
			    event->event_type == IBV_EVENT_QP_REQ_ERR ||
			    event->event_type == IBV_EVENT_QP_ACCESS_ERR) &&
			event->element.qp != at->end.qp)
			continue;
		if (kw_rdma_say_async(&error, event->event_type,
			    ibv_get_device_name(listen->common.device->verbs->device)) != 0)
			kw_rdma_peer_lost(at, &error);
	}
}

/* ---- the listener ---- */

static void on_poll_closed(uv_handle_t *handle)
{
	struct listen *listen = handle->data;
	struct kw_listener *listener = listen->common.listener;

	rdma_destroy_event_channel(listen->channel);
	free(listen);
	listener->own = NULL;
	kw_listener_closed(listener);
}

/* The channel is the peers' too: it goes when the last of them has. */
static void maybe_release(struct kw_rdma_listen *common)
{
	struct listen *listen = (struct listen *)common;

	if (!listen->closing || listen->released || common->peers)
		return;
	listen->released = true;
	uv_poll_stop(&listen->poll);
	uv_close((uv_handle_t *)&listen->poll, on_poll_closed);
}

static int start(struct listen *listen, struct kw_error *error)
{
	struct kw_server *server = listen->common.listener->server;
	int status;

	if (rdma_listen(listen->id, BACKLOG) != 0)
		return kw_error_errno(error, errno, "listen%s",
			errno == EADDRINUSE ? " (another process listens there)" : "");
	listen->watch.told = on_device;
	listen->watch.owner = listen;
	if (kw_rdma_watch_start(&listen->watch, kw_server_loop(server),
		    listen->common.device->verbs, error) != 0)
		return (int)error->code;
	status = uv_poll_init(kw_server_loop(server), &listen->poll, listen->channel->fd);
	if (status != 0) {
		kw_rdma_watch_stop(&listen->watch);
		return kw_error_errno(error, -status, "event channel");
	}
	listen->poll.data = listen;
	uv_poll_start(&listen->poll, UV_READABLE, on_channel);
	return 0;
}

static int listen_rdma(struct kw_listener *listener, struct kw_error *error)
{
	struct listen *listen = kw_zalloc(sizeof *listen);
	int code = kw_rdma_options_set(
		&listen->common.options, kw_server_rdma(listener->server), error);

	listen->common.listener = listener;
	listen->common.peer_freed = maybe_release;
	if (code == 0)
		code = open_id(listen, listener->server, &listener->address, error);
	if (code == 0)
		code = take_device(listener->server, listen, error);
	if (code == 0)
		code = start(listen, error);
	if (code != 0) {
		close_id(listen);
		free(listen);
		return code;
	}
	listener->address.port = ntohs(rdma_get_src_port(listen->id));
	listener->own = listen;
	return 0;
}

static void pause_rdma(struct kw_listener *listener, bool paused)
{
	struct listen *listen = listener->own;

	/* There is no queue to leave them in: they are told to come again. */
	listen->paused = paused;
}

static void close_rdma(struct kw_listener *listener)
{
	struct listen *listen = listener->own;
	struct kw_rdma_peer *at, *next;

	listen->closing = true;
	kw_rdma_watch_stop(&listen->watch);
	(void)rdma_destroy_id(listen->id);
	listen->id = NULL;
	for (at = listen->common.peers; at; at = next) {
		next = at->next;
		kw_rdma_peer_turn_away(at);
	}
	maybe_release(&listen->common);
}

static uint64_t figures_rdma(const struct kw_session *session, struct kw_session_info *info)
{
	const struct kw_rdma_peer *peer = session->own;

	snprintf(info->device, sizeof info->device, "%s",
		ibv_get_device_name(peer->listen->device->verbs->device));
	info->progress = peer->progress;
	info->reported = peer->heard_us != 0;
	/* Nobody here sees them: the agent tells. */
	info->reads = info->reported ? info->progress.reads : UINT64_MAX;
	info->bytes = info->reported ? info->progress.bytes : UINT64_MAX;
	return peer->heard_us;
}

const struct kw_listener_ops kw_listener_rdma = {
	.carrier = KW_CARRIER_RDMA,
	.prepare = prepare_rdma,
	.listen = listen_rdma,
	.pause = pause_rdma,
	.close = close_rdma,
	.end = kw_rdma_peer_end,
	.figures = figures_rdma,
};
