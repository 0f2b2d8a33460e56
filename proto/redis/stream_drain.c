#include "redis/stream_drain.h"

#include "base/buffer.h"
#include "base/clock.h"

#include <assert.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define POLL_MS 5 /* the thread waits for the socket; then it looks whether to end */
#define FULL_WAIT_NS UINT64_C(1000000) /* … for room in the reserve */

enum drain_state {
	ALONE,   /* there is no thread */
	RESTS,   /* it waits for a full read */
	WATCHES, /* it looks now and then whether the loop is late */
	DRAINS,  /* it reads the socket, and the loop does not */
	ENDS,
};

struct block {
	struct block *next;
	size_t begin, end; /* of what is not read yet, in bytes */
	uint8_t bytes[];
};

struct kw_redis_drain {
	struct kw_redis_stream inner;
	uv_async_t *wake;
	uv_thread_t thread; /* unless ALONE */
	uv_mutex_t calls;   /* on the inner stream; taken while `lock` is held, or without it */
	uv_mutex_t lock;    /* guards all that follows */
	uv_cond_t moved;    /* the state, or the reserve has room */
	enum drain_state state;
	struct block *first, *last;      /* the reserve */
	size_t held;                     /* its bytes */
	uint64_t full_us;                /* when a read filled its room last */
	uint64_t empty_us;               /* when the loop found the socket empty last */
	enum kw_redis_stream_result end; /* what the thread met after the reserve; MORE: nothing */
	struct kw_error why;             /* FAILED */
};

static struct kw_redis_drain *drain_of(const struct kw_redis_stream *stream)
{
	assert(stream->drain);
	return stream->drain;
}

/* ---- the reserve; locked ---- */

static struct block *new_block(void)
{
	struct block *block = mmap(NULL, KW_REDIS_DRAIN_BLOCK, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (block == MAP_FAILED)
		return NULL;
	(void)madvise(block, KW_REDIS_DRAIN_BLOCK, MADV_DONTDUMP);
	return block;
}

static void free_block(struct block *block)
{
	munmap(block, KW_REDIS_DRAIN_BLOCK);
}

static size_t room_of(const struct block *block)
{
	return KW_REDIS_DRAIN_BLOCK - sizeof *block - block->end;
}

/* The block to read into. NULL: the reserve is full, or there is no memory for more. */
static struct block *block_with_room(struct kw_redis_drain *drain)
{
	struct block *block = drain->last;

	if (block && room_of(block) > 0)
		return block;
	if (drain->held + KW_REDIS_DRAIN_BLOCK > KW_REDIS_DRAIN_MOST)
		return NULL;
	block = new_block();
	if (!block)
		return NULL;
	if (drain->last)
		drain->last->next = block;
	else
		drain->first = block;
	drain->last = block;
	return block;
}

/* Not the last one, which the thread may be reading into. */
static void drop_read_blocks(struct kw_redis_drain *drain)
{
	while (drain->first != drain->last && drain->first->begin == drain->first->end) {
		struct block *read = drain->first;

		drain->first = read->next;
		free_block(read);
	}
}

static size_t take(struct kw_redis_drain *drain, uint8_t *to, size_t room)
{
	size_t taken = 0;

	while (taken < room && drain->held > 0) {
		struct block *block = drain->first;
		size_t part = block->end - block->begin;

		if (part > room - taken)
			part = room - taken;
		memcpy(to + taken, block->bytes + block->begin, part);
		block->begin += part;
		drain->held -= part;
		taken += part;
		drop_read_blocks(drain);
	}
	uv_cond_signal(&drain->moved);
	return taken;
}

static void drop_all(struct kw_redis_drain *drain)
{
	while (drain->first) {
		struct block *block = drain->first;

		drain->first = block->next;
		free_block(block);
	}
	drain->last = NULL;
	drain->held = 0;
}

/* ---- the thread ---- */

static bool has_input(struct kw_redis_drain *drain)
{
	bool there;

	uv_mutex_lock(&drain->calls);
	there = kw_redis_stream_has_input(&drain->inner);
	uv_mutex_unlock(&drain->calls);
	return there;
}

static bool is_late(struct kw_redis_drain *drain, uint64_t now_us)
{
	return drain->end == KW_REDIS_STREAM_MORE &&
	       now_us - drain->empty_us > KW_REDIS_DRAIN_LATE_US && has_input(drain);
}

static void watch(struct kw_redis_drain *drain)
{
	uint64_t now_us;

	uv_cond_timedwait(&drain->moved, &drain->lock, UINT64_C(1000) * KW_REDIS_DRAIN_LATE_US);
	now_us = kw_clock_us();
	if (drain->state != WATCHES)
		return;
	if (is_late(drain, now_us))
		drain->state = DRAINS;
	else if (now_us - drain->full_us > KW_REDIS_DRAIN_REST_US)
		drain->state = RESTS;
}

/* The socket is the loop's again. */
static void give_back(struct kw_redis_drain *drain)
{
	if (drain->held == 0)
		drop_all(drain);
	if (drain->state == DRAINS)
		drain->state = WATCHES;
	drain->empty_us = kw_clock_us();
	uv_async_send(drain->wake);
}

/* Into a block that nobody else writes to. The lock is let go meanwhile. */
static enum kw_redis_stream_result read_into(
	struct kw_redis_drain *drain, struct block *block, size_t *got)
{
	enum kw_redis_stream_result result;
	uint8_t *to = block->bytes + block->end;
	size_t room = room_of(block);

	uv_mutex_unlock(&drain->lock);
	uv_mutex_lock(&drain->calls);
	result = kw_redis_stream_read(&drain->inner, to, room, got, &drain->why);
	uv_mutex_unlock(&drain->calls);
	uv_mutex_lock(&drain->lock);
	return result;
}

static void wait_for_input(struct kw_redis_drain *drain)
{
	struct pollfd poll_fd = {.fd = drain->inner.fd, .events = POLLIN};

	uv_mutex_unlock(&drain->lock);
	(void)poll(&poll_fd, 1, POLL_MS);
	uv_mutex_lock(&drain->lock);
}

static void drain_once(struct kw_redis_drain *drain)
{
	struct block *block = block_with_room(drain);
	enum kw_redis_stream_result result;
	bool was_empty;
	size_t got;

	if (!block) {
		uv_cond_timedwait(&drain->moved, &drain->lock, FULL_WAIT_NS);
		return;
	}
	result = read_into(drain, block, &got);
	was_empty = drain->held == 0;
	block->end += got;
	drain->held += got;
	if (got > 0 && was_empty)
		uv_async_send(drain->wake);
	if (result == KW_REDIS_STREAM_ENDED || result == KW_REDIS_STREAM_FAILED) {
		drain->end = result;
		give_back(drain);
	} else if (result != KW_REDIS_STREAM_MORE && drain->held == 0) {
		give_back(drain);
	} else if (result != KW_REDIS_STREAM_MORE) {
		wait_for_input(drain);
	}
}

static void run(void *arg)
{
	struct kw_redis_drain *drain = arg;

	uv_mutex_lock(&drain->lock);
	while (drain->state != ENDS) {
		if (drain->state == RESTS)
			uv_cond_wait(&drain->moved, &drain->lock);
		else if (drain->state == WATCHES)
			watch(drain);
		else
			drain_once(drain);
	}
	uv_mutex_unlock(&drain->lock);
}

/* ---- the loop ---- */

/* Much comes. Without a thread all is as it was. */
static void note_full(struct kw_redis_drain *drain, uint64_t now_us)
{
	drain->full_us = now_us;
	if (drain->state == ALONE) {
		drain->state = WATCHES;
		if (uv_thread_create(&drain->thread, run, drain) != 0)
			drain->state = ALONE;
	} else if (drain->state == RESTS) {
		drain->state = WATCHES;
		uv_cond_signal(&drain->moved);
	}
}

static enum kw_redis_stream_result read_direct(
	struct kw_redis_drain *drain, void *to, size_t room, size_t *got, struct kw_error *error)
{
	enum kw_redis_stream_result result;
	uint64_t now_us = kw_clock_us();

	uv_mutex_lock(&drain->calls);
	result = kw_redis_stream_read(&drain->inner, to, room, got, error);
	uv_mutex_unlock(&drain->calls);
	if (*got == room)
		note_full(drain, now_us);
	else
		drain->empty_us = now_us;
	return result;
}

static enum kw_redis_stream_result drain_read(
	struct kw_redis_stream *stream, void *to, size_t room, size_t *got, struct kw_error *error)
{
	struct kw_redis_drain *drain = drain_of(stream);
	enum kw_redis_stream_result result = KW_REDIS_STREAM_MORE;

	uv_mutex_lock(&drain->lock);
	if (drain->held > 0) {
		*got = take(drain, to, room);
	} else if (drain->end != KW_REDIS_STREAM_MORE) {
		result = drain->end;
		*error = drain->why;
	} else if (drain->state == DRAINS) {
		result = KW_REDIS_STREAM_AGAIN;
	} else {
		result = read_direct(drain, to, room, got, error);
	}
	uv_mutex_unlock(&drain->lock);
	return result;
}

static enum kw_redis_stream_result drain_write(struct kw_redis_stream *stream,
	struct iovec *vectors, int count, size_t *put, struct kw_error *error)
{
	struct kw_redis_drain *drain = drain_of(stream);
	enum kw_redis_stream_result result;

	uv_mutex_lock(&drain->calls);
	result = kw_redis_stream_write(&drain->inner, vectors, count, put, error);
	uv_mutex_unlock(&drain->calls);
	return result;
}

static enum kw_redis_stream_result drain_establish(
	struct kw_redis_stream *stream, struct kw_error *error)
{
	assert(!"it was open");
	return KW_REDIS_STREAM_DONE;
}

static short drain_wants(const struct kw_redis_stream *stream, enum kw_redis_stream_work work)
{
	struct kw_redis_drain *drain = drain_of(stream);
	short wants = 0;

	uv_mutex_lock(&drain->lock);
	if (work != KW_REDIS_STREAM_READ || drain->state != DRAINS) {
		uv_mutex_lock(&drain->calls);
		wants = kw_redis_stream_wants(&drain->inner, work);
		uv_mutex_unlock(&drain->calls);
	}
	uv_mutex_unlock(&drain->lock);
	return wants;
}

static bool drain_pending(const struct kw_redis_stream *stream)
{
	struct kw_redis_drain *drain = drain_of(stream);
	bool pending;

	uv_mutex_lock(&drain->lock);
	pending = drain->held > 0 || drain->end != KW_REDIS_STREAM_MORE;
	if (!pending && drain->state != DRAINS) {
		uv_mutex_lock(&drain->calls);
		pending = kw_redis_stream_pending(&drain->inner);
		uv_mutex_unlock(&drain->calls);
	}
	uv_mutex_unlock(&drain->lock);
	return pending;
}

/* The thread is gone before the socket is closed. */
static void drain_close(struct kw_redis_stream *stream)
{
	struct kw_redis_drain *drain = drain_of(stream);
	bool alone;

	uv_mutex_lock(&drain->lock);
	alone = drain->state == ALONE;
	drain->state = ENDS;
	uv_cond_signal(&drain->moved);
	uv_mutex_unlock(&drain->lock);
	if (!alone)
		uv_thread_join(&drain->thread);
	drain->inner.ops->close(&drain->inner); /* the caller closes the descriptor */
	drop_all(drain);
	uv_cond_destroy(&drain->moved);
	uv_mutex_destroy(&drain->calls);
	uv_mutex_destroy(&drain->lock);
	free(drain);
	stream->drain = NULL;
}

static const struct kw_redis_stream_ops drain_ops = {
	.establish = drain_establish,
	.read = drain_read,
	.write = drain_write,
	.wants = drain_wants,
	.pending = drain_pending,
	.close = drain_close,
};

static bool make_locks(struct kw_redis_drain *drain)
{
	if (uv_mutex_init(&drain->lock) != 0)
		return false;
	if (uv_mutex_init(&drain->calls) != 0) {
		uv_mutex_destroy(&drain->lock);
		return false;
	}
	if (uv_cond_init(&drain->moved) != 0) {
		uv_mutex_destroy(&drain->calls);
		uv_mutex_destroy(&drain->lock);
		return false;
	}
	return true;
}

size_t kw_redis_stream_reserve(const struct kw_redis_stream *stream)
{
	struct kw_redis_drain *drain = stream->drain;
	size_t held = 0;

	if (!drain)
		return 0;
	uv_mutex_lock(&drain->lock);
	held = drain->held;
	uv_mutex_unlock(&drain->lock);
	return held;
}

int kw_redis_stream_drain(struct kw_redis_stream *stream, uv_async_t *wake, struct kw_error *error)
{
	struct kw_redis_drain *drain = kw_zalloc(sizeof *drain);

	assert(stream->ops && !stream->drain);
	if (!make_locks(drain)) {
		free(drain);
		return kw_error_set(error, KW_E_NOMEM, "the locks of a thread cannot be made");
	}
	drain->inner = *stream;
	drain->wake = wake;
	drain->end = KW_REDIS_STREAM_MORE;
	drain->empty_us = kw_clock_us();
	*stream = (struct kw_redis_stream){.ops = &drain_ops, .fd = stream->fd, .drain = drain};
	return KW_OK;
}
