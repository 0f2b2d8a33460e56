/*
 * How many of some local keys does the table lack? Each is looked up in the proxy's memory, one
 * after the other, by READs alone.
 *
 *   ┌──────┐ start ┌────────┐ all are looked up, or the table cannot be read: done
 *   │ IDLE │──────▶│ ASKING │──────────────────────────────────────────────────────▶ IDLE
 *   └──────┘       └────────┘
 *
 * Loop thread only.
 */
#ifndef KW_AGENT_SYNC_SAMPLE_H
#define KW_AGENT_SYNC_SAMPLE_H

#include "base/buffer.h"
#include "base/error.h"
#include "follow/follow.h"
#include "table/lookup.h"

#include <stdbool.h>
#include <stdint.h>

/* So many keys show a share to within some percent (standard error: 1.1 at most). */
#define KW_SAMPLE_KEYS 2000

enum kw_sample_state {
	KW_SAMPLE_IDLE,
	KW_SAMPLE_ASKING,
};

/* error NULL: looked_up and absent are there. From the loop, and not from kw_sample_start. */
typedef void (*kw_sample_fn)(void *arg, const struct kw_error *error);

struct kw_sample {
	struct kw_follow *follow;
	struct kw_reads reads;
	struct kw_lookups *lookups;
	enum kw_sample_state state;
	struct kw_buffer keys; /* ASKING: not looked up yet (kw_prune_next_key) */
	uint64_t looked_up, absent;
	kw_sample_fn done;
	void *arg;
};

/* follow outlives the sample. */
void kw_sample_init(struct kw_sample *sample, struct kw_follow *follow);
/* The connection to the proxy is closed: every READ was told back, or is by this. */
void kw_sample_close(struct kw_sample *sample);

/*
 * Take the keys over, and look them up. done is called once, unless it is stopped. There is at
 * least one key, and nothing is looked up at present.
 */
void kw_sample_start(
	struct kw_sample *sample, struct kw_buffer *keys, kw_sample_fn done, void *arg);
void kw_sample_stop(struct kw_sample *sample);

/* From time to time while ASKING: lookups that found no certain answer are tried again. */
void kw_sample_tick(struct kw_sample *sample);

#endif
