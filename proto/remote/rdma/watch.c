#include "remote/rdma/watch.h"

#include "base/buffer.h"
#include "remote/rdma/bind.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>

struct kw_rdma_watched {
	uv_poll_t poll;
	uv_loop_t *loop;
	struct ibv_context *verbs; /* NULL: nobody watches, and it may be gone */
	struct kw_rdma_watch *watches;
	struct kw_rdma_watched *next;
	bool telling;
};

static struct kw_rdma_watched *all;

static void on_closed(uv_handle_t *handle)
{
	free(handle->data);
}

static void drop_if_unused(struct kw_rdma_watched *watched)
{
	struct kw_rdma_watched **at = &all;

	if (watched->watches)
		return;
	while (*at != watched)
		at = &(*at)->next;
	*at = watched->next;
	uv_poll_stop(&watched->poll);
	/* Whoever watched has destroyed what it had there. */
	if (kw_rdma_removed(watched->verbs))
		kw_rdma_let_go(watched->verbs);
	watched->verbs = NULL;
	if (!watched->telling)
		uv_close((uv_handle_t *)&watched->poll, on_closed);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
	struct kw_rdma_watched *watched = poll->data;
	struct ibv_async_event event;

	(void)status;
	(void)events;
	watched->telling = true;
	/* The last watch may stop at any of them, and the device be closed behind it. */
	while (watched->verbs && ibv_get_async_event(watched->verbs, &event) == 0) {
		struct kw_rdma_watch *next;

		/* Destroying a queue pair waits for the acknowledgement of its events. */
		ibv_ack_async_event(&event);
		for (struct kw_rdma_watch *at = watched->watches; at; at = next) {
			next = at->next;
			at->told(at->owner, &event);
		}
	}
	watched->telling = false;
	if (!watched->verbs)
		uv_close((uv_handle_t *)&watched->poll, on_closed);
}

static int watch_new(uv_loop_t *loop, struct ibv_context *verbs, struct kw_error *error)
{
	struct kw_rdma_watched *watched = kw_zalloc(sizeof *watched);
	int status = uv_poll_init(loop, &watched->poll, verbs->async_fd);

	if (status != 0 || fcntl(verbs->async_fd, F_SETFL, O_NONBLOCK) != 0) {
		free(watched);
		return kw_error_errno(
			error, status ? -status : errno, "the device's events cannot be watched");
	}
	watched->poll.data = watched;
	watched->loop = loop;
	watched->verbs = verbs;
	watched->next = all;
	all = watched;
	uv_poll_start(&watched->poll, UV_READABLE, on_poll);
	return 0;
}

int kw_rdma_watch_start(struct kw_rdma_watch *watch, uv_loop_t *loop, struct ibv_context *verbs,
	struct kw_error *error)
{
	struct kw_rdma_watched *at = all;

	assert(!watch->of && watch->told);
	while (at && (at->verbs != verbs || at->loop != loop))
		at = at->next;
	if (!at) {
		int code = watch_new(loop, verbs, error);

		if (code != 0)
			return code;
		at = all;
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
	drop_if_unused(of);
}
