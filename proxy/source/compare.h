/*
 * A comparison that a client waits for: every key of the primary is read again, at full speed, and
 * the table has what the primary has when it ends. For a switch-over, whose writes wait meanwhile:
 * what no event told of is found by that.
 *
 *   ┌──────┐ asked ┌───────────┐ the reconcile has ended, and the state is live ─▶ told what was
 * found │ IDLE │──────▶│ COMPARING │ lost, held, no room, not confirmed any more ─────▶ told why
 *   └──────┘       └───────────┘ the client is gone ──────────────────────────────▶ told that, too
 *      ▲                 │
 *      └─────────────────┘
 *
 * It is a reconcile, so the state is `reconciling` meanwhile, and what differs is mended. The
 * limits of fetching (source.primary_share, source.keys_per_second, source.bytes_per_second) do not
 * hold. If the client is gone, they hold again, and the reconcile goes on.
 *
 * Loop thread only.
 */
#ifndef KW_PROXY_SOURCE_COMPARE_H
#define KW_PROXY_SOURCE_COMPARE_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct kw_source;

struct kw_source_compared {
	uint64_t keys;    /* of the primary */
	uint64_t changed; /* records that the table has now, and had not when it began */
	uint64_t us;      /* it took */
};

/* What a client waits for. */
struct kw_source_comparing {
	/* Once: compared, or NULL and an error. KW_E_STATE: it cannot begin. KW_E_IO: the
	 * connection was lost. KW_E_REFUSED: the state at its end is another one, and which. */
	void (*done)(
		void *arg, const struct kw_source_compared *compared, const struct kw_error *error);
	bool (*wanted)(void *arg); /* a question: is the client still there? */
	void *arg;
};

void kw_source_compare(struct kw_source *source, const struct kw_source_comparing *asker);

/* The part of the source. */
struct kw_source_comparison {
	struct kw_source_comparing asker; /* done NULL: IDLE */
	uint64_t begun_us, version;       /* of the table, when it began */
	uint64_t ups;                     /* of the link, then */
};

static inline bool kw_source_is_comparing(const struct kw_source_comparison *comparison)
{
	return comparison->asker.done;
}

/* At the end of a loop turn, when the state is of now. */
void kw_source_comparison_turn(struct kw_source *source);

/* The source closes. */
void kw_source_comparison_end(struct kw_source *source);

#endif
