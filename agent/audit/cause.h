/*
 * What says, sooner than a walk would, that many local keys may differ from the table:
 *
 *   CLOCK    the local server's clock jumped against ours: keys with a TTL have expired too soon
 *   EXPIRED  it expired more keys than the changes of the table explain, for a few seconds: its
 *            clock may have jumped and come back between two looks
 *   WRITES   other clients wrote there (told by another part)
 *   RESET    its counts began anew (CONFIG RESETSTAT): what it evicted, refused or expired since
 *            the look before, and what others wrote, is not told any more
 *
 * A cause asks for a round of the audit at once. While causes repeat, rounds come with growing
 * pauses. Pure; one thread.
 *
 * RESET says only that nothing is known of a moment. It has pauses of its own, and a tool that
 * resets the counts each minute does not keep the agent from `warm`: a reset for which a round can
 * follow within KW_CAUSE_PATIENCE_US is a cause at once. Any other becomes one when its round is
 * due.
 */
#ifndef KW_AGENT_AUDIT_CAUSE_H
#define KW_AGENT_AUDIT_CAUSE_H

#include "base/backoff.h"
#include "redis/counters.h"

#include <stdbool.h>
#include <stdint.h>

enum kw_cause {
	KW_CAUSE_NONE,
	KW_CAUSE_CLOCK,
	KW_CAUSE_EXPIRED,
	KW_CAUSE_WRITES,
	KW_CAUSE_RESET,
};

/* A smaller step of a clock is not taken for a jump: clocks are slewed, and INFO takes its time. */
#define KW_CAUSE_JUMP_US 500000
/* So many expired keys, and a quarter of the keys with a TTL, need no explanation. */
#define KW_CAUSE_EXPIRED_KEYS 1000
/* So long the table has to explain them: of two servers one is quicker to expire a generation. */
#define KW_CAUSE_EXPIRED_US UINT64_C(5000000)

/* The agent waits so long at most, without being warm, for a round because of resets. */
#define KW_CAUSE_PATIENCE_US UINT64_C(15000000)
/* After such a round there is none for at least so many times as long as it took. */
#define KW_CAUSE_RESET_REST 9

/* One answer to INFO. */
struct kw_cause_look {
	uint64_t asked_us, told_us; /* our clock */
	uint64_t server_us;         /* the server's clock, sampled in between; 0: not told */
	uint64_t expired, resets;   /* its count of expired keys; how often counts began anew */
	uint64_t expires;           /* keys with a TTL */
	uint64_t handed;            /* changes handed on to it, ever */
	bool level; /* the local data were equal to the table a moment ago, as far as is known */
};

struct kw_causes {
	enum kw_cause present; /* asks for a round, or for the rest of one; NONE: quiet */
	uint64_t told;         /* causes seen, ever */
	uint64_t due_us;       /* the round begins then, unless it is for RESET */
	uint64_t last_us;      /* when the last cause but RESET was seen */
	uint64_t last;         /* `told` after that one */
	struct kw_backoff backoff;
	struct {
		bool waits;        /* one of them was met by no round yet */
		uint64_t last;     /* `told` after the last */
		uint64_t last_us;  /* when it was seen */
		uint64_t due_us;   /* no round for them before this */
		uint64_t since_us; /* `present` is RESET since then */
		struct kw_backoff backoff;
		char run_id[41]; /* of the server at the last look; "": there was none */
		uint64_t known;  /* how often its counts had begun anew by then */
	} resets;

	bool looked;                     /* the fields below are of a look */
	uint64_t earliest_us, latest_us; /* of server_us - our clock */
	struct kw_counter expired;
	uint64_t expires, handed;
	uint64_t unexplained; /* keys expired */
	uint64_t beyond_us;   /* since then they are too many; 0: they are not */
	uint64_t usual;  /* changes handed on between two looks, before that; the lesser of … */
	uint64_t lately; /* … the last two; the last */
};

void kw_causes_init(struct kw_causes *causes);

/*
 * Another server, or another connection: there is nothing to compare the next look with. Resets are
 * still told from those of another run of the server.
 */
void kw_causes_forget(struct kw_causes *causes);

/* The cause that this look shows; NONE. It is taken note of, as by kw_causes_tell. */
enum kw_cause kw_causes_look(struct kw_causes *causes, const struct kw_cause_look *look);

/*
 * For each look, also if no other cause is looked for: have the counts of this run of the server
 * begun anew? resets: how often that was seen. True: RESET asks for a round from now on.
 */
bool kw_causes_counted(
	struct kw_causes *causes, const char *run_id, uint64_t resets, uint64_t now_us);

/* A snapshot begins: it brings all that may be lost because of resets. */
void kw_causes_snapshot(struct kw_causes *causes, uint64_t now_us);

/* There is a cause; not RESET. */
void kw_causes_tell(struct kw_causes *causes, enum kw_cause cause, uint64_t now_us);

/* A sentence without its end. */
const char *kw_cause_text(enum kw_cause cause);

/*
 * Have keys expired that are too many, and can still be explained? It is no cause yet. An agent
 * that ends now knows nothing of it when it starts again.
 */
static inline bool kw_causes_wonder(const struct kw_causes *causes)
{
	return causes->beyond_us > 0;
}

/* Is a round due because of a cause? */
static inline bool kw_causes_due(const struct kw_causes *causes, uint64_t now_us)
{
	return causes->present != KW_CAUSE_NONE &&
	       now_us >=
		       (causes->present == KW_CAUSE_RESET ? causes->resets.due_us : causes->due_us);
}

/*
 * A whole round is over that began at began_us, when `told` was this: no cause is left, unless one
 * came since.
 */
void kw_causes_met(struct kw_causes *causes, uint64_t told, uint64_t began_us, uint64_t now_us);

#endif
