/*
 * The copies that large READs of mapped memory make, by two threads: the loop's, and one of libuv's
 * pool beside it (the helper). Much of a copy's time are page faults of a fresh mapping, so these
 * and the copying pass while the loop's thread verifies what came before.
 *
 *     added ───────────────────────────────▶ taken by whoever comes to it first ─▶ done ─▶ told
 *           by the helper, if it is wanted: the next one, as long as there is one
 *           by the loop: when the oldest is due and not yet there
 *
 * Neither waits for the other while there is something to copy. If the helper gets no processor (or
 * the pool has no thread), the loop copies all by itself.
 *
 * Loop thread only, but for the helper's own function. READs are told by the owner, in
 * the order they were added.
 */
#ifndef KW_REMOTE_SHM_COPIER_H
#define KW_REMOTE_SHM_COPIER_H

#include "remote/carrier.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#define KW_COPIER_JOBS 64 /* added and not told; what is beyond the owner copies itself */

/* Below, handing it over costs more than it gains; above, one copy would hold up a loop. */
#define KW_COPIER_BYTES_MIN (UINT64_C(32) << 10)
#define KW_COPIER_BYTES_MAX (UINT64_C(1) << 20)

struct kw_copier_job {
	const struct kw_remote_read *read; /* the loop's: whose bytes these are */
	const uint8_t *from;
	uint8_t *to;
	uint64_t length;
	_Atomic bool done;
};

struct kw_copier {
	struct kw_remote *remote;
	void (*closed)(struct kw_remote *remote);  /* NULL: not closing */
	struct kw_copier_job jobs[KW_COPIER_JOBS]; /* a ring, by these counts modulo its size: */
	uint32_t told;
	_Atomic uint32_t taken, added;
	uv_work_t work;
	bool wanted;
	bool helping;      /* work is queued, or at it, or its end not yet heard of */
	_Atomic bool left; /* the helper is through; the loop has not heard of it */
	_Atomic bool stop;
};

void kw_copier_init(struct kw_copier *copier, struct kw_remote *remote);

/* Have `read` filled from here. False: not of its sizes, or no place left. */
bool kw_copier_add(
	struct kw_copier *copier, const struct kw_remote_read *read, const uint8_t *from);

/*
 * Is the loop always busy with READs (true), or idle now and then? The helper is woken only in the
 * first case. If another process is the bottleneck, such as the server that applies the records,
 * the helper gains nothing and takes a processor from it.
 */
void kw_copier_want_help(struct kw_copier *copier, bool wanted);

/* After the last of some: wakes the helper if it is wanted and there is enough for two. */
void kw_copier_added(struct kw_copier *copier);

/* Is this READ the oldest of those added? */
bool kw_copier_is_due(const struct kw_copier *copier, const struct kw_remote_read *read);

enum kw_copier_step {
	KW_COPIER_DONE, /* the oldest has its bytes, and is forgotten here: tell it */
	KW_COPIER_MORE, /* another one was copied meanwhile: ask again */
	KW_COPIER_WAIT, /* the helper is at it, and nothing else can be copied: a turn follows */
};

/* The oldest is due: copy it, unless the helper does; then the next one that is not begun. */
enum kw_copier_step kw_copier_step(struct kw_copier *copier);

/*
 * The helper ended, and the loop has not looked. The helper can be woken again only from the loop.
 * So a caller that tells READs for long should go on in another turn.
 */
bool kw_copier_left(const struct kw_copier *copier);

/*
 * Copy nothing any more. True: no copy is under way. False: the helper still makes one, and
 * `closed` follows, from the loop. Until then the remote is held open (kw_remote_hold): buffers and
 * mapping must stay.
 */
bool kw_copier_close(struct kw_copier *copier, void (*closed)(struct kw_remote *remote));

#endif
