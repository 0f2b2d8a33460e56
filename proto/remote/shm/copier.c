#include "remote/shm/copier.h"

#include "remote/racy.h"

#include <assert.h>
#include <stdlib.h>

/* So many copies are worth waking a thread for: half a megabyte in the reader's READs. */
#define WORTH_HELP 4

/* Copies of one stay in the pool: a name lookup might be waiting for its thread. */
#define HELP_MAX 64

/* Between looks whether to stop. */
#define SLICE_BYTES (UINT64_C(128) << 10)

void kw_copier_init(struct kw_copier *copier, struct kw_remote *remote)
{
	copier->remote = remote;
	copier->work.data = copier;
}

/* ---- either thread ---- */

/* The next one that neither thread has taken; NULL: none. */
static struct kw_copier_job *take(struct kw_copier *copier)
{
	uint32_t next = atomic_load_explicit(&copier->taken, memory_order_relaxed);

	/* Each turn but the last passes a copy that the other thread has taken. */
	while (next != atomic_load_explicit(&copier->added, memory_order_acquire))
		if (atomic_compare_exchange_weak_explicit(&copier->taken, &next, next + 1,
			    memory_order_relaxed, memory_order_relaxed))
			return &copier->jobs[next % KW_COPIER_JOBS];
	return NULL;
}

static void copy(struct kw_copier *copier, struct kw_copier_job *job)
{
	for (uint64_t at = 0; at < job->length; at += SLICE_BYTES) {
		uint64_t left = job->length - at;

		if (atomic_load_explicit(&copier->stop, memory_order_relaxed))
			return;
		kw_racy_copy(job->to + at, job->from + at, left < SLICE_BYTES ? left : SLICE_BYTES);
	}
	atomic_store_explicit(&job->done, true, memory_order_release);
}

/* ---- the helper ---- */

static void on_work(uv_work_t *work)
{
	struct kw_copier *copier = work->data;

	for (int i = 0; i < HELP_MAX && !atomic_load(&copier->stop); i++) {
		struct kw_copier_job *job = take(copier);

		if (!job)
			break;
		copy(copier, job);
	}
	atomic_store_explicit(&copier->left, true, memory_order_relaxed);
}

static void on_worked(uv_work_t *work, int status)
{
	struct kw_copier *copier = work->data;

	(void)status;
	assert(copier->helping);
	copier->helping = false;
	atomic_store_explicit(&copier->left, false, memory_order_relaxed);
	if (copier->closed) {
		copier->closed(copier->remote);
		kw_remote_release(copier->remote);
		return;
	}
	kw_copier_added(copier);
	kw_remote_turn_soon(copier->remote);
}

/* ---- the loop ---- */

bool kw_copier_add(struct kw_copier *copier, const struct kw_remote_read *read, const uint8_t *from)
{
	uint32_t added = atomic_load_explicit(&copier->added, memory_order_relaxed);
	struct kw_copier_job *job = &copier->jobs[added % KW_COPIER_JOBS];

	assert(added - copier->told <= KW_COPIER_JOBS);
	if (read->length < KW_COPIER_BYTES_MIN || read->length > KW_COPIER_BYTES_MAX ||
		added - copier->told == KW_COPIER_JOBS)
		return false;
	job->read = read;
	job->from = from;
	job->to = read->buffer;
	job->length = read->length;
	atomic_store_explicit(&job->done, false, memory_order_relaxed);
	atomic_store_explicit(&copier->added, added + 1, memory_order_release);
	return true;
}

void kw_copier_want_help(struct kw_copier *copier, bool wanted)
{
	copier->wanted = wanted;
}

void kw_copier_added(struct kw_copier *copier)
{
	uint32_t left = atomic_load_explicit(&copier->added, memory_order_relaxed) -
			atomic_load_explicit(&copier->taken, memory_order_relaxed);

	if (!copier->wanted || copier->helping || left < WORTH_HELP)
		return;
	copier->helping = true;
	if (uv_queue_work(copier->remote->loop, &copier->work, on_work, on_worked) != 0)
		abort(); /* only for a NULL callback */
}

bool kw_copier_is_due(const struct kw_copier *copier, const struct kw_remote_read *read)
{
	return copier->told != atomic_load_explicit(&copier->added, memory_order_relaxed) &&
	       copier->jobs[copier->told % KW_COPIER_JOBS].read == read;
}

enum kw_copier_step kw_copier_step(struct kw_copier *copier)
{
	struct kw_copier_job *oldest = &copier->jobs[copier->told % KW_COPIER_JOBS];

	assert(oldest->read);
	if (!atomic_load_explicit(&oldest->done, memory_order_acquire)) {
		struct kw_copier_job *job = take(copier);

		/*
		 * Then the helper finds nothing either, and ends after the oldest: that brings the
		 * turn. If a READ is added first, that brings it.
		 */
		if (!job)
			return KW_COPIER_WAIT;
		copy(copier, job);
		if (job != oldest)
			return KW_COPIER_MORE;
	}
	oldest->read = NULL;
	copier->told++;
	return KW_COPIER_DONE;
}

bool kw_copier_left(const struct kw_copier *copier)
{
	return atomic_load_explicit(&copier->left, memory_order_relaxed);
}

bool kw_copier_close(struct kw_copier *copier, void (*closed)(struct kw_remote *remote))
{
	atomic_store(&copier->stop, true);
	if (!copier->helping)
		return true;
	copier->closed = closed;
	kw_remote_hold(copier->remote);
	(void)uv_cancel((uv_req_t *)&copier->work);
	return false;
}
