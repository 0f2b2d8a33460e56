#include "remote/tcp/serve.h"

#include "base/buffer.h"
#include "remote/racy.h"
#include "remote/tcp/peer.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define EVENTS 64 /* taken from the kernel in one turn */

struct list {
	struct kw_tcp_peer *head;
};

struct kw_tcp_serve {
	const struct kw_memory *memory;
	void (*wake)(void *arg);
	void *arg;
	pthread_t thread;
	int epoll_fd, event_fd;
	bool stopped;            /* loop thread's */
	atomic_bool told_wishes; /* handed over: an agent waits for another ticket, and the owner
				    has not asked yet */

	pthread_mutex_t lock; /* of what follows */
	struct list added, ended;
	bool stop;

	/* the serving thread's: */
	struct kw_redact redact;          /* for peers with a scope */
	struct kw_compressor *compressor; /* NULL: this build has none */
	struct list serving;
	struct list over; /* ended in this turn */
	bool eager;       /* one of `serving` has input that epoll does not show */
	bool wished;      /* one of them waits for another ticket since this turn */
};

static void list_add(struct list *list, struct kw_tcp_peer *peer)
{
	peer->previous = NULL;
	peer->next = list->head;
	if (list->head)
		list->head->previous = peer;
	list->head = peer;
}

static void list_remove(struct list *list, struct kw_tcp_peer *peer)
{
	if (peer->previous)
		peer->previous->next = peer->next;
	else
		list->head = peer->next;
	if (peer->next)
		peer->next->previous = peer->previous;
}

/* Events of this turn can still name one that is over: the loop thread frees it, later. */
static void set_aside(struct kw_tcp_serve *serve, struct kw_tcp_peer *peer)
{
	list_remove(&serve->serving, peer);
	list_add(&serve->over, peer);
}

static enum kw_frame_status asked_bye(const struct kw_tcp_peer *peer)
{
	return (enum kw_frame_status)atomic_load_explicit(
		&peer->shown.shared.bye, memory_order_acquire);
}

static void watch(struct kw_tcp_serve *serve, struct kw_tcp_peer *peer)
{
	uint32_t events = kw_tcp_peer_events(peer);
	struct epoll_event event = {.events = events, .data.ptr = peer};

	if (events == peer->events)
		return;
	peer->events = events;
	if (epoll_ctl(serve->epoll_fd, EPOLL_CTL_MOD, peer->wire.fd, &event) != 0)
		kw_tcp_peer_lost(peer, errno);
}

/* The ticket that it waits for; only this thread writes it. */
static uint16_t ticket_of(const struct kw_tcp_peer *peer)
{
	return atomic_load_explicit(&peer->shown.shared.ticket, memory_order_relaxed);
}

static void peer_turn(struct kw_tcp_serve *serve, struct kw_tcp_peer *peer, uint32_t events)
{
	enum kw_frame_status bye = asked_bye(peer);
	uint16_t ticket = ticket_of(peer);

	if (bye != KW_FRAME_OK)
		kw_tcp_peer_end(peer, bye);
	else
		kw_tcp_peer_turn(peer, serve->memory, events & (EPOLLIN | EPOLLHUP | EPOLLERR));
	serve->wished |= ticket_of(peer) != ticket;
	if (!kw_tcp_peer_over(peer))
		watch(serve, peer);
	if (kw_tcp_peer_over(peer))
		set_aside(serve, peer);
	else if (kw_wire_pending(&peer->wire))
		serve->eager = true;
}

/* A turn for each whose wire holds input: it came with what was read before. */
static void serve_eager(struct kw_tcp_serve *serve)
{
	struct kw_tcp_peer *peer, *next;

	if (!serve->eager)
		return;
	serve->eager = false;
	for (peer = serve->serving.head; peer; peer = next) {
		next = peer->next;
		if (kw_wire_pending(&peer->wire))
			peer_turn(serve, peer, EPOLLIN);
	}
}

/* ---- the thread ---- */

static void hand_over(struct kw_tcp_serve *serve)
{
	struct kw_tcp_peer *peer;

	if (!serve->over.head && !serve->wished)
		return;
	if (serve->wished)
		atomic_store_explicit(&serve->told_wishes, true, memory_order_release);
	serve->wished = false;
	pthread_mutex_lock(&serve->lock);
	while ((peer = serve->over.head)) {
		list_remove(&serve->over, peer);
		list_add(&serve->ended, peer);
	}
	pthread_mutex_unlock(&serve->lock);
	serve->wake(serve->arg);
}

/*
 * Before any event of this turn is looked at: a new connection is added to epoll and to `added`
 * under one lock. So after this every connection with events is in `serving`.
 */
static bool take_added(struct kw_tcp_serve *serve)
{
	struct kw_tcp_peer *peer;
	bool stop;

	pthread_mutex_lock(&serve->lock);
	stop = serve->stop;
	while ((peer = serve->added.head)) {
		list_remove(&serve->added, peer);
		list_add(&serve->serving, peer);
		serve->eager |= kw_wire_pending(&peer->wire);
	}
	pthread_mutex_unlock(&serve->lock);
	return stop;
}

/* The loop thread wants something: the end of some connections, or of all. */
static void obey(struct kw_tcp_serve *serve, bool stop)
{
	struct kw_tcp_peer *peer, *next;

	for (peer = serve->serving.head; peer; peer = next) {
		enum kw_frame_status bye = asked_bye(peer);

		next = peer->next;
		if (stop && bye == KW_FRAME_OK)
			bye = KW_FRAME_SHUTDOWN;
		if (bye == KW_FRAME_OK)
			continue;
		kw_tcp_peer_end(peer, bye);
		set_aside(serve, peer);
	}
}

/*
 * Was the thread called? This comes before `stop` and the others' wishes are looked at: a call that
 * came behind that look must still be there for the next turn.
 */
static bool was_called(
	struct kw_tcp_serve *serve, const struct epoll_event *events, int event_count)
{
	uint64_t count;

	for (int i = 0; i < event_count; i++)
		if (!events[i].data.ptr) {
			(void)!read(serve->event_fd, &count, sizeof count);
			return true;
		}
	return false;
}

static void *serve_main(void *arg)
{
	struct kw_tcp_serve *serve = arg;
	bool stop = false;

	while (!stop) {
		struct epoll_event events[EVENTS];
		int count = epoll_wait(serve->epoll_fd, events, EVENTS, serve->eager ? 0 : -1);
		bool called = was_called(serve, events, count);

		stop = take_added(serve);

		/* Only EINTR is possible; the next turn asks again. */
		for (int i = 0; i < count; i++)
			if (events[i].data.ptr)
				peer_turn(serve, events[i].data.ptr, events[i].events);
		serve_eager(serve);
		if (called || stop)
			obey(serve, stop);
		hand_over(serve);
	}
	return NULL;
}

static void call(struct kw_tcp_serve *serve)
{
	uint64_t one = 1;

	/* A full counter (EAGAIN) wakes the thread, too. */
	while (write(serve->event_fd, &one, sizeof one) < 0 && errno == EINTR)
		continue;
}

/* Signals are the loop thread's. */
static int start_thread(struct kw_tcp_serve *serve)
{
	sigset_t all, old;
	int errnum;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	errnum = pthread_create(&serve->thread, NULL, serve_main, serve);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (errnum == 0)
		(void)pthread_setname_np(serve->thread, "kw-tcp-serve");
	return errnum;
}

struct kw_tcp_serve *kw_tcp_serve_new(
	const struct kw_memory *memory, void (*wake)(void *arg), void *arg, struct kw_error *error)
{
	struct kw_tcp_serve *serve = kw_zalloc(sizeof *serve);
	struct epoll_event event = {.events = EPOLLIN};
	int errnum;

	serve->memory = memory;
	kw_redact_init(&serve->redact, memory->base, kw_racy_copy);
	serve->compressor = kw_compressor_new();
	serve->wake = wake;
	serve->arg = arg;
	pthread_mutex_init(&serve->lock, NULL);
	serve->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	serve->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (serve->event_fd < 0 || serve->epoll_fd < 0 ||
		epoll_ctl(serve->epoll_fd, EPOLL_CTL_ADD, serve->event_fd, &event) != 0) {
		kw_error_errno(error, errno, "tcp: the serving thread's descriptors");
		goto undo;
	}
	errnum = start_thread(serve);
	if (errnum == 0)
		return serve;
	kw_error_errno(error, errnum, "tcp: the serving thread cannot be started");

undo:
	serve->stopped = true;
	kw_tcp_serve_free(serve);
	return NULL;
}

/* ---- the loop thread's calls ---- */

struct kw_tcp_conn *kw_tcp_serve_add(struct kw_tcp_serve *serve, struct kw_wire wire,
	const struct kw_tcp_client *client, struct kw_error *error)
{
	const struct kw_tcp_tools tools = {&serve->redact, serve->compressor};
	struct kw_tcp_peer *peer = kw_tcp_peer_new(wire, client, &tools);
	struct epoll_event event = {.events = peer->events, .data.ptr = peer};

	assert(!serve->stopped);
	pthread_mutex_lock(&serve->lock);
	if (epoll_ctl(serve->epoll_fd, EPOLL_CTL_ADD, wire.fd, &event) != 0) {
		kw_error_errno(error, errno, "tcp: the connection cannot be watched");
		kw_tcp_peer_free(peer);
		peer = NULL;
	} else {
		list_add(&serve->added, peer);
	}
	pthread_mutex_unlock(&serve->lock);
	call(serve);
	return peer ? &peer->shown : NULL;
}

void kw_tcp_serve_end(
	struct kw_tcp_serve *serve, struct kw_tcp_conn *conn, enum kw_frame_status bye)
{
	assert(bye != KW_FRAME_OK);
	atomic_store_explicit(&conn->shared.bye, (int)bye, memory_order_release);
	call(serve);
}

struct kw_tcp_conn *kw_tcp_serve_ended(struct kw_tcp_serve *serve)
{
	struct kw_tcp_peer *peer;

	pthread_mutex_lock(&serve->lock);
	peer = serve->ended.head;
	if (peer)
		list_remove(&serve->ended, peer);
	pthread_mutex_unlock(&serve->lock);
	return peer ? &peer->shown : NULL;
}

bool kw_tcp_serve_wished(struct kw_tcp_serve *serve)
{
	return atomic_exchange_explicit(&serve->told_wishes, false, memory_order_acquire);
}

void kw_tcp_conn_free(struct kw_tcp_conn *conn)
{
	kw_tcp_peer_free((struct kw_tcp_peer *)conn); /* it is the front of a peer */
}

void kw_tcp_serve_stop(struct kw_tcp_serve *serve)
{
	if (serve->stopped)
		return;
	pthread_mutex_lock(&serve->lock);
	serve->stop = true;
	pthread_mutex_unlock(&serve->lock);
	call(serve);
	pthread_join(serve->thread, NULL);
	serve->stopped = true;
}

void kw_tcp_serve_free(struct kw_tcp_serve *serve)
{
	if (!serve)
		return;
	assert(serve->stopped);
	assert(!serve->ended.head);
	if (serve->epoll_fd >= 0)
		close(serve->epoll_fd);
	if (serve->event_fd >= 0)
		close(serve->event_fd);
	pthread_mutex_destroy(&serve->lock);
	kw_redact_close(&serve->redact);
	kw_compressor_free(serve->compressor);
	free(serve);
}
