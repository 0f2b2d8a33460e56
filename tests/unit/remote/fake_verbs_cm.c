/* The half of the fake that is librdmacm. */
#include "fake_verbs_state.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REQUEST_MAX 56
#define REPLY_MAX 196
#define REJECT_MAX 148
#define REJ_INVALID_SERVICE_ID 8
#define REJ_CONSUMER_DEFINED 28

struct fake_event {
	struct rdma_cm_event cm;
	uint8_t data[256];
	struct fake_event *next;
};

struct fake_events {
	struct rdma_event_channel cm;
	struct fake_event *head;
	int ids;
};

struct fake_id {
	struct rdma_cm_id cm;
	struct fake_id *peer, *next;
	bool active, listening, connected, routed;
	uint32_t qp_num;
	uint8_t responder_resources, initiator_depth;
	int unacknowledged;
};

static struct fake_id *ids;
static uint16_t next_port = 20000;

static struct fake_id *fake_of(struct rdma_cm_id *id)
{
	return (struct fake_id *)id;
}

static int failed(int errnum)
{
	errno = errnum;
	return -1;
}

/* ---- events ---- */

static struct fake_event *tell(struct fake_id *id, enum rdma_cm_event_type what, int status)
{
	struct fake_events *channel = (struct fake_events *)id->cm.channel;
	struct fake_event *event = calloc(1, sizeof *event);
	struct fake_event **end = &channel->head;

	event->cm.id = &id->cm;
	event->cm.event = what;
	event->cm.status = status;
	while (*end)
		end = &(*end)->next;
	*end = event;
	fake_fd_add(channel->cm.fd);
	return event;
}

/* Private data always comes as long as it may be, with zeros behind. */
static void attach(struct fake_event *event, const void *data, size_t length, size_t padded)
{
	if (length > 0)
		memcpy(event->data, data, length);
	event->cm.param.conn.private_data = event->data;
	event->cm.param.conn.private_data_len = (uint8_t)padded;
}

struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct fake_events *channel;

	if (fake_fails("rdma_create_event_channel"))
		return NULL;
	channel = calloc(1, sizeof *channel);
	channel->cm.fd = fake_fd();
	LOCK();
	fake_objects++;
	UNLOCK();
	return &channel->cm;
}

void rdma_destroy_event_channel(struct rdma_event_channel *cm)
{
	struct fake_events *channel = (struct fake_events *)cm;

	LOCK();
	fake_must(channel->ids == 0, "an event channel is destroyed that has ids");
	fake_must(channel->head == NULL, "an event channel is destroyed with events of nobody");
	fake_objects--;
	UNLOCK();
	close(cm->fd);
	free(channel);
}

int rdma_get_cm_event(struct rdma_event_channel *cm, struct rdma_cm_event **out)
{
	struct fake_events *channel = (struct fake_events *)cm;
	struct fake_event *event;

	if (!fake_fd_take(cm->fd))
		return -1;
	LOCK();
	event = channel->head;
	channel->head = event->next;
	fake_of(event->cm.id)->unacknowledged++;
	*out = &event->cm;
	UNLOCK();
	return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *cm)
{
	LOCK();
	fake_must(--fake_of(cm->id)->unacknowledged >= 0, "an event is acknowledged twice");
	UNLOCK();
	/* What was in it must not be looked at any more. */
	memset(cm, 0xEE, sizeof(struct fake_event));
	free(cm);
	return 0;
}

/* ---- ids ---- */

static struct fake_id *new_id(struct rdma_event_channel *channel, void *context)
{
	struct fake_id *id = calloc(1, sizeof *id);

	id->cm.channel = channel;
	id->cm.context = context;
	id->next = ids;
	ids = id;
	((struct fake_events *)channel)->ids++;
	fake_objects++;
	return id;
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
	enum rdma_port_space space)
{
	(void)space;
	if (fake_fails("rdma_create_id"))
		return -1;
	LOCK();
	*id = &new_id(channel, context)->cm;
	UNLOCK();
	return 0;
}

static void break_pair(struct fake_id *id)
{
	struct fake_qp *qp = fake_find_qp(id->qp_num);

	if (qp)
		fake_qp_break(qp);
}

static void disconnect(struct fake_id *id)
{
	if (id->connected)
		tell(id, RDMA_CM_EVENT_DISCONNECTED, 0);
	id->connected = false;
}

static void reject(struct fake_id *id, const void *data, size_t length)
{
	if (!id->peer)
		return;
	attach(tell(id->peer, RDMA_CM_EVENT_REJECTED, REJ_CONSUMER_DEFINED), data, length,
		REJECT_MAX);
	id->peer->peer = NULL;
	id->peer = NULL;
}

static void unlink_id(struct fake_id *id);

/* Events of it that nobody took are gone; so are requests that only it knew of. */
static void forget_events(struct fake_id *id)
{
	struct fake_events *channel = (struct fake_events *)id->cm.channel;
	struct fake_event **at = &channel->head;

	while (*at) {
		struct fake_event *event = *at;
		bool request = event->cm.listen_id == &id->cm;
		struct fake_id *child = fake_of(event->cm.id);

		if (child != id && !request) {
			at = &event->next;
			continue;
		}
		*at = event->next;
		fake_fd_forget(channel->cm.fd);
		free(event);
		if (request) {
			reject(child, NULL, 0);
			unlink_id(child);
		}
	}
}

static void unlink_id(struct fake_id *id)
{
	struct fake_id **at = &ids;

	while (*at != id)
		at = &(*at)->next;
	*at = id->next;
	((struct fake_events *)id->cm.channel)->ids--;
	fake_objects--;
	free(id);
}

int rdma_destroy_id(struct rdma_cm_id *cm)
{
	struct fake_id *id = fake_of(cm);

	LOCK();
	fake_must(id->unacknowledged == 0, "an id is destroyed with events not acknowledged");
	forget_events(id);
	if (id->peer) {
		if (!id->active && !id->connected && id->qp_num == 0)
			reject(id, NULL, 0);
		if (id->peer) {
			disconnect(id->peer);
			id->peer->peer = NULL;
		}
	}
	unlink_id(id);
	UNLOCK();
	return 0;
}

struct ibv_context **rdma_get_devices(int *count)
{
	struct ibv_context **all = calloc((size_t)fake_verbs.devices + 1, sizeof *all);

	for (int i = 0; i < fake_verbs.devices; i++)
		all[i] = &fake_context;
	*count = fake_verbs.devices;
	return all;
}

void rdma_free_devices(struct ibv_context **all)
{
	free(all);
}

static struct fake_id *find_listener(uint16_t port)
{
	for (struct fake_id *at = ids; at; at = at->next)
		if (at->listening && at->cm.route.addr.src_sin.sin_port == port)
			return at;
	return NULL;
}

int rdma_bind_addr(struct rdma_cm_id *cm, struct sockaddr *address)
{
	struct sockaddr_in *own = &cm->route.addr.src_sin;

	if (fake_fails("rdma_bind_addr"))
		return -1;
	if (address->sa_family != AF_INET)
		return failed(EADDRNOTAVAIL);
	LOCK();
	memcpy(own, address, sizeof *own);
	if (own->sin_port == 0)
		own->sin_port = htons(next_port++);
	if (own->sin_addr.s_addr != htonl(INADDR_ANY)) {
		cm->verbs = &fake_context;
		cm->port_num = 1;
	}
	UNLOCK();
	if (cm->verbs && fake_verbs.devices == 0) {
		cm->verbs = NULL;
		return failed(ENODEV);
	}
	return find_listener(own->sin_port) ? failed(EADDRINUSE) : 0;
}

__be16 rdma_get_src_port(struct rdma_cm_id *cm)
{
	return cm->route.addr.src_sin.sin_port;
}

int rdma_listen(struct rdma_cm_id *cm, int backlog)
{
	(void)backlog;
	if (fake_fails("rdma_listen"))
		return -1;
	if (fake_verbs.devices == 0) { /* it is being taken away */
		errno = EINVAL;
		return -1;
	}
	fake_of(cm)->listening = true;
	return 0;
}

int rdma_set_option(struct rdma_cm_id *cm, int level, int name, void *value, size_t length)
{
	(void)value;
	fake_must(name != RDMA_OPTION_ID_TOS || !fake_of(cm)->routed,
		"the traffic class comes after the route that should have it");
	return level == RDMA_OPTION_ID && length == 1 ? 0 : failed(EINVAL);
}

int rdma_resolve_addr(
	struct rdma_cm_id *cm, struct sockaddr *from, struct sockaddr *to, int timeout_ms)
{
	(void)from;
	(void)timeout_ms;
	if (fake_fails("rdma_resolve_addr"))
		return -1;
	if (to->sa_family != AF_INET)
		return failed(ENODEV);
	LOCK();
	memcpy(&cm->route.addr.dst_sin, to, sizeof(struct sockaddr_in));
	cm->route.addr.src_sin.sin_family = AF_INET;
	cm->route.addr.src_sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fake_verbs.devices == 0) {
		tell(fake_of(cm), RDMA_CM_EVENT_ADDR_ERROR, -ENODEV);
	} else {
		cm->verbs = &fake_context;
		cm->port_num = 1;
		tell(fake_of(cm), RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	}
	UNLOCK();
	return 0;
}

int rdma_resolve_route(struct rdma_cm_id *cm, int timeout_ms)
{
	(void)timeout_ms;
	if (fake_fails("rdma_resolve_route"))
		return -1;
	LOCK();
	fake_of(cm)->routed = true;
	tell(fake_of(cm), RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	UNLOCK();
	return 0;
}

/* ---- connections ---- */

static void request(
	struct fake_id *id, struct fake_id *listener, const struct rdma_conn_param *param)
{
	struct fake_id *child = new_id(listener->cm.channel, listener->cm.context);
	struct fake_event *event;

	child->cm.verbs = &fake_context;
	child->cm.port_num = 1;
	child->cm.route.addr.dst_sin = (struct sockaddr_in){.sin_family = AF_INET,
		.sin_port = htons(4242),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	child->cm.route.addr.src_sin = id->cm.route.addr.dst_sin;
	child->peer = id;
	id->peer = child;
	event = tell(child, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	event->cm.listen_id = &listener->cm;
	attach(event, param->private_data, param->private_data_len, REQUEST_MAX);
	event->cm.param.conn.responder_resources = param->initiator_depth;
	event->cm.param.conn.initiator_depth = param->responder_resources;
}

int rdma_connect(struct rdma_cm_id *cm, struct rdma_conn_param *param)
{
	struct fake_id *id = fake_of(cm), *listener;

	if (fake_fails("rdma_connect"))
		return -1;
	if (param->private_data_len > REQUEST_MAX || param->initiator_depth > fake_verbs.depth ||
		param->responder_resources > fake_verbs.depth || param->retry_count > 7)
		return failed(EINVAL);
	LOCK();
	id->active = true;
	id->qp_num = param->qp_num;
	listener = find_listener(cm->route.addr.dst_sin.sin_port);
	if (fake_verbs.instead_set)
		tell(id, fake_verbs.instead, fake_verbs.instead_status);
	else if (!listener && !fake_verbs.mute)
		tell(id, RDMA_CM_EVENT_REJECTED, REJ_INVALID_SERVICE_ID);
	else if (!fake_verbs.mute)
		request(id, listener, param);
	UNLOCK();
	return 0;
}

int rdma_accept(struct rdma_cm_id *cm, struct rdma_conn_param *param)
{
	struct fake_id *id = fake_of(cm);
	struct fake_event *event;

	if (fake_fails("rdma_accept"))
		return -1;
	if (param->private_data_len > REPLY_MAX || param->responder_resources > fake_verbs.depth)
		return failed(EINVAL);
	LOCK();
	id->qp_num = param->qp_num;
	if (id->peer) {
		event = tell(id->peer, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
		attach(event, param->private_data, param->private_data_len, REPLY_MAX);
		event->cm.param.conn.initiator_depth = param->responder_resources;
		event->cm.param.conn.responder_resources = param->initiator_depth;
		id->connected = true;
	} else {
		tell(id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
	}
	UNLOCK();
	return 0;
}

int rdma_establish(struct rdma_cm_id *cm)
{
	struct fake_id *id = fake_of(cm);

	if (fake_fails("rdma_establish"))
		return -1;
	LOCK();
	id->connected = true;
	if (id->peer)
		tell(id->peer, RDMA_CM_EVENT_ESTABLISHED, 0);
	UNLOCK();
	return 0;
}

int rdma_reject(struct rdma_cm_id *cm, const void *data, uint8_t length)
{
	if (length > REJECT_MAX)
		return failed(EINVAL);
	LOCK();
	reject(fake_of(cm), data, length);
	UNLOCK();
	return 0;
}

int rdma_disconnect(struct rdma_cm_id *cm)
{
	struct fake_id *id = fake_of(cm);

	LOCK();
	break_pair(id);
	disconnect(id);
	if (id->peer)
		disconnect(id->peer);
	UNLOCK();
	return 0;
}

void fake_verbs_tell(bool active, enum rdma_cm_event_type event, int status)
{
	LOCK();
	for (struct fake_id *at = ids; at; at = at->next)
		if (at->connected && at->active == active)
			tell(at, event, status);
	UNLOCK();
}

void fake_verbs_tell_listeners(enum rdma_cm_event_type event)
{
	LOCK();
	for (struct fake_id *at = ids; at; at = at->next)
		if (at->listening)
			tell(at, event, 0);
	UNLOCK();
}

void fake_ids_removed(void)
{
	for (struct fake_id *at = ids; at; at = at->next)
		if (at->cm.verbs)
			tell(at, RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
}

/* As the kernel does it: INIT would open the queue pair for whatever the request allowed. */
int rdma_init_qp_attr(struct rdma_cm_id *cm, struct ibv_qp_attr *attributes, int *mask)
{
	struct fake_id *id = fake_of(cm), *peer = id->peer;

	LOCK();
	*mask = IBV_QP_STATE;
	if (attributes->qp_state == IBV_QPS_INIT) {
		attributes->qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
		*mask |= IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	} else if (attributes->qp_state == IBV_QPS_RTR) {
		attributes->dest_qp_num = peer ? peer->qp_num : 0;
		*mask |= IBV_QP_DEST_QPN | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_RQ_PSN |
			 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	} else {
		attributes->retry_cnt = 7;
		*mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
			 IBV_QP_MAX_QP_RD_ATOMIC;
	}
	UNLOCK();
	return 0;
}
