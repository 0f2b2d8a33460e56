#include "remote/rdma/watch.h"

#include "base/buffer.h"
#include "remote/rdma/bind.h"
#include "remote/rdma/event.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum watched_state {
	WATCHED, /* there is a watch */
	TELLING, /* the same, and an event is being told: the poll is closed after it */
	IDLE,    /* the guard alone is on the device */
	DROPPED, /* out of the list; freed when its handles are closed */
};

struct kw_rdma_watched {
	enum watched_state state;
	uv_poll_t events; /* of the device */
	uv_loop_t *loop;
	struct ibv_context *verbs; /* not after DROPPED: it might be gone */
	struct kw_rdma_watch *watches;
	struct kw_rdma_watched *next;
	int handles; /* open, 1 or 2 */
	struct {
		struct rdma_event_channel *channel; /* NULL: there is no guard */
		struct rdma_cm_id *id;
		uv_poll_t poll;
	} guard;
};

static struct kw_rdma_watched *all;

static void on_closed(uv_handle_t *handle)
{
	struct kw_rdma_watched *watched = handle->data;

	if (--watched->handles > 0)
		return;
	assert(watched->state == DROPPED);
	if (watched->guard.channel)
		rdma_destroy_event_channel(watched->guard.channel);
	free(watched);
}

static void close_handles(struct kw_rdma_watched *watched)
{
	uv_close((uv_handle_t *)&watched->events, on_closed);
	if (watched->guard.channel)
		uv_close((uv_handle_t *)&watched->guard.poll, on_closed);
}

/* No watch is left, and the device is not kept. */
static void drop(struct kw_rdma_watched *watched)
{
	struct kw_rdma_watched **at = &all;
	bool telling = watched->state == TELLING;

	assert(!watched->watches && watched->state != DROPPED);
	while (*at != watched)
		at = &(*at)->next;
	*at = watched->next;
	uv_poll_stop(&watched->events);
	/* Every watcher has destroyed what it had there. */
	if (kw_rdma_removed(watched->verbs))
		kw_rdma_let_go(watched->verbs);
	watched->verbs = NULL;
	if (watched->guard.id)
		(void)rdma_destroy_id(watched->guard.id);
	watched->guard.id = NULL;
	watched->state = DROPPED;
	if (!telling)
		close_handles(watched);
}

/* Until the next connection: the handles do not keep the loop from its end meanwhile. */
static void rest(struct kw_rdma_watched *watched)
{
	watched->state = IDLE;
	uv_poll_stop(&watched->events);
	uv_unref((uv_handle_t *)&watched->guard.poll);
}

static void nobody_watches(struct kw_rdma_watched *watched)
{
	if (!watched->guard.id || kw_rdma_removed(watched->verbs))
		drop(watched);
	else if (watched->state == WATCHED)
		rest(watched);
}

/* ---- what is heard ---- */

static void tell(struct kw_rdma_watched *watched, const struct ibv_async_event *event)
{
	struct kw_rdma_watch *next;

	for (struct kw_rdma_watch *at = watched->watches; at; at = next) {
		next = at->next;
		at->told(at->owner, event);
	}
}

static void on_events(uv_poll_t *poll, int status, int events)
{
	struct kw_rdma_watched *watched = poll->data;
	struct ibv_async_event event;

	(void)status;
	(void)events;
	watched->state = TELLING;
	/* The last watch may stop at any of these events, and the device be closed after that. */
	while (watched->watches && ibv_get_async_event(watched->verbs, &event) == 0) {
		/* Destroying a queue pair waits for the acknowledgement of its events. */
		ibv_ack_async_event(&event);
		tell(watched, &event);
	}
	if (watched->state == DROPPED) {
		close_handles(watched);
		return;
	}
	watched->state = WATCHED;
	if (!watched->watches)
		nobody_watches(watched);
}

/* The watchers hear of it by ids of their own, and stop. */
static void on_guard(uv_poll_t *poll, int status, int events)
{
	struct kw_rdma_watched *watched = poll->data;
	struct kw_rdma_cm_event cm_event;

	(void)status;
	(void)events;
	while (kw_rdma_cm_event_take(watched->guard.channel, &cm_event)) {
		if (cm_event.type != RDMA_CM_EVENT_DEVICE_REMOVAL || watched->state != IDLE)
			continue;
		drop(watched);
		return;
	}
}

/* ---- starting ---- */

static bool address_of(struct rdma_cm_id *id, struct sockaddr_storage *address)
{
	struct sockaddr *own = rdma_get_local_addr(id);

	if (own->sa_family == AF_INET) {
		memcpy(address, own, sizeof(struct sockaddr_in));
		((struct sockaddr_in *)address)->sin_port = 0;
		return ((struct sockaddr_in *)address)->sin_addr.s_addr != htonl(INADDR_ANY);
	}
	if (own->sa_family != AF_INET6)
		return false;
	memcpy(address, own, sizeof(struct sockaddr_in6));
	((struct sockaddr_in6 *)address)->sin6_port = 0;
	return !IN6_IS_ADDR_UNSPECIFIED(&((struct sockaddr_in6 *)address)->sin6_addr);
}

/* Without a guard, only a removal while there is no watch goes unnoticed. */
static void post_guard(struct kw_rdma_watched *watched, struct rdma_cm_id *id)
{
	struct sockaddr_storage address = {0};
	struct kw_error error;

	if (!address_of(id, &address))
		return;
	watched->guard.channel = kw_rdma_channel_new(&error);
	if (!watched->guard.channel)
		return;
	if (rdma_create_id(watched->guard.channel, &watched->guard.id, NULL, RDMA_PS_TCP) != 0)
		watched->guard.id = NULL;
	if (!watched->guard.id ||
		rdma_bind_addr(watched->guard.id, (struct sockaddr *)&address) != 0 ||
		watched->guard.id->verbs != watched->verbs) {
		if (watched->guard.id)
			(void)rdma_destroy_id(watched->guard.id);
		watched->guard.id = NULL;
		rdma_destroy_event_channel(watched->guard.channel);
		watched->guard.channel = NULL;
		return;
	}
	if (uv_poll_init(watched->loop, &watched->guard.poll, watched->guard.channel->fd) != 0) {
		(void)rdma_destroy_id(watched->guard.id);
		watched->guard.id = NULL;
		rdma_destroy_event_channel(watched->guard.channel);
		watched->guard.channel = NULL;
		return;
	}
	watched->guard.poll.data = watched;
	watched->handles++;
	uv_poll_start(&watched->guard.poll, UV_READABLE, on_guard);
}

static int watch_new(
	uv_loop_t *loop, struct ibv_context *verbs, struct rdma_cm_id *id, struct kw_error *error)
{
	struct kw_rdma_watched *watched;
	int status;

	/* Before there is a handle: one that is open cannot be freed. */
	if (fcntl(verbs->async_fd, F_SETFL, O_NONBLOCK) != 0)
		return kw_error_errno(error, errno, "the device's events cannot be watched");
	watched = kw_zalloc(sizeof *watched);
	status = uv_poll_init(loop, &watched->events, verbs->async_fd);
	if (status != 0) {
		free(watched);
		return kw_error_errno(error, -status, "the device's events cannot be watched");
	}
	watched->events.data = watched;
	watched->handles = 1;
	watched->loop = loop;
	watched->verbs = verbs;
	watched->state = IDLE;
	post_guard(watched, id);
	watched->next = all;
	all = watched;
	return 0;
}

int kw_rdma_watch_start(struct kw_rdma_watch *watch, uv_loop_t *loop, struct ibv_context *verbs,
	struct rdma_cm_id *id, struct kw_error *error)
{
	struct kw_rdma_watched *at = all;

	assert(!watch->of && watch->told && id);
	while (at && (at->verbs != verbs || at->loop != loop))
		at = at->next;
	if (!at) {
		int code = watch_new(loop, verbs, id, error);

		if (code != 0)
			return code;
		at = all;
	}
	if (at->state == IDLE) {
		at->state = WATCHED;
		uv_poll_start(&at->events, UV_READABLE, on_events);
		if (at->guard.id)
			uv_ref((uv_handle_t *)&at->guard.poll);
	}
	watch->of = at;
	watch->next = at->watches;
	at->watches = watch;
	return 0;
}

void kw_rdma_watch_stop(struct kw_rdma_watch *watch)
{
	struct kw_rdma_watched *of = watch->of;
	struct kw_rdma_watch **at;

	if (!of)
		return;
	at = &of->watches;
	while (*at != watch)
		at = &(*at)->next;
	*at = watch->next;
	watch->of = NULL;
	if (!of->watches)
		nobody_watches(of);
}

void kw_rdma_watch_end(uv_loop_t *loop)
{
	struct kw_rdma_watched *next;

	for (struct kw_rdma_watched *at = all; at; at = next) {
		next = at->next;
		if (at->loop == loop && at->state == IDLE)
			drop(at);
	}
}
