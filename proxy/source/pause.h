/*
 * The operator's fence: writes of all clients wait (CLIENT PAUSE WRITE). For a switch-over by hand.
 *
 * The server ends the pause by itself, so a tool that died never leaves a primary paused. Reads,
 * INFO, DUMP and events go on, so the table and its agents get level meanwhile.
 *
 * A later pause moves the end away, and none moves it nearer. A pause of 0 ends it at once.
 *
 * It has a connection of its own (fetch/errand.h), so no other command can hold it up. It goes to
 * the run of the server that is followed, or nowhere. With each answer the server says what it has
 * counted by then: a fence is unbroken if nothing was changed between two answers.
 *
 * Loop thread only.
 */
#ifndef KW_PROXY_SOURCE_PAUSE_H
#define KW_PROXY_SOURCE_PAUSE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kw_errand;
struct kw_source;

/* What the server had counted just after it took the pause. */
struct kw_source_paused {
	const char *run_id; /* of it; "": it tells none */
	uint64_t changes;   /* of keys, since its last save (rdb_changes_since_last_save) */
	uint64_t saved_s;   /* when that save was: the count began anew then */
	int64_t since_last; /* changes since the last pause was taken; -1: not known */
};

/* paused: NULL, and error is set: KW_E_REFUSED: the server said no; the sentence has the remedy. */
typedef void (*kw_source_paused_fn)(
	void *arg, const struct kw_source_paused *paused, const struct kw_error *error);

/*
 * Called once, perhaps before this returns: KW_E_STATE when the proxy is not connected (0 needs no
 * more than that it was), or too many wait; KW_E_IO when the connection was lost before the answer.
 * Then the server may have been paused all the same.
 */
void kw_source_pause_writes(
	struct kw_source *source, uint32_t ms, kw_source_paused_fn done, void *arg);

#define KW_SOURCE_PAUSES 16 /* that can wait for their answers */

/* The part of the source. */
struct kw_source_pauses {
	struct kw_errand *errand;
	struct kw_source_pause {
		uint32_t ms;
		uint64_t before_us; /* until_us, before this one was asked for */
		bool taken;         /* the server has taken it; what it has counted follows */
		kw_source_paused_fn done;
		void *arg;
	} asked[KW_SOURCE_PAUSES]; /* the oldest first */
	size_t count, sent;
	struct kw_source_counted {
		char run_id[41];
		uint64_t changes, saved_s; /* as of kw_source_paused */
		bool known;
	} last;            /* that was taken */
	uint64_t until_us; /* writes wait until then at most, as far as this proxy has asked */
};

void kw_source_pauses_init(struct kw_source *source);
/* Those that wait are told KW_E_IO. False: kw_source_part_closed follows. */
bool kw_source_pauses_end(struct kw_source *source);
void kw_source_pauses_free(struct kw_source_pauses *pauses);

/* Do writes wait, or may they? From before the server is asked until it lets them go on. */
static inline bool kw_source_pauses_hold(const struct kw_source_pauses *pauses, uint64_t now_us)
{
	return now_us < pauses->until_us;
}

#endif
