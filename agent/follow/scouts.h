/*
 * Several proxies of one primary: one is followed, the others are scouted.
 *
 *   ┌──────┐ the list has one address
 *   │ SOLE │ nothing is scouted, nothing is chosen
 *   └──────┘
 *      ▲ │ another list (retarget)
 *      │ ▼
 *   ┌─────────┐ another table is better, and has been for 300 ms  ┌───────────┐
 *   │ HOLDING │──────────────────────────────────────────────────▶│ SWITCHING │
 *   └─────────┘◀──────────────────────────────────────────────────└───────────┘
 *        all that was read is applied, or a second is over: the follow is sent there;
 *        or the table that is followed is the best one again
 *
 * A scout is a connection of its own to each address that is not followed. It has a kw_follow whose
 * reader is never started, so it reads the superblock ten times a second, and the history when that
 * changes. Its proxy lists it as `standby`, and keeps no tombstones for it. The primary does not
 * notice.
 *
 * The better table is chosen by authority/choose.h. Loop thread only.
 */
#ifndef KW_AGENT_FOLLOW_SCOUTS_H
#define KW_AGENT_FOLLOW_SCOUTS_H

#include "authority/choose.h"
#include "follow.h"

#define KW_PROXIES_MAX 16

/* A table is better for so long before it is followed; what was read gets so long to be applied. */
#define KW_SCOUTS_BETTER_US 300000
#define KW_SCOUTS_LEVEL_US 1000000

/* The addresses in the order of the configuration; the first is followed first. */
struct kw_proxies {
	char address[KW_PROXIES_MAX][KW_PROXY_ADDRESS];
	size_t count;
};

enum kw_scouts_state { KW_SCOUTS_SOLE, KW_SCOUTS_HOLDING, KW_SCOUTS_SWITCHING };

struct kw_scouts_handlers {
	/* What the owner thinks of such a table: fills in all but seen, complete and serves. */
	void (*judge)(void *arg, const struct kw_history *table, struct kw_choice *choice);
	/* Is all applied that was read from the table that is followed? */
	bool (*level)(void *arg);
	void (*closed)(void *arg);
	void *arg;
};

struct kw_scout;

struct kw_scouts {
	struct kw_sm sm;          /* enum kw_scouts_state */
	struct kw_follow *follow; /* the owner's */
	struct kw_follow_options options;
	struct kw_scouts_handlers handlers;
	struct kw_proxies proxies;
	size_t current;                         /* is followed */
	struct kw_scout *scout[KW_PROXIES_MAX]; /* of the others; NULL: none yet */
	size_t better;                          /* the best at the last look; current: none is */
	uint64_t since_us;                      /* HOLDING: since when it is that one */
	uint64_t until_us;                      /* SWITCHING */
	uint64_t switches;
	bool refused;  /* the last scout could not be made, and the log was told */
	unsigned open; /* scouts whose connections are not closed yet */
	bool closing;
};

/* Is each of these an address, and are there 1 to KW_PROXIES_MAX? KW_E_CONFIG says which is not. */
int kw_proxies_check(const struct kw_proxies *proxies, struct kw_error *error);
/* One more. KW_E_CONFIG: it is too long, or there are too many. */
int kw_proxies_add(struct kw_proxies *proxies, const char *address, struct kw_error *error);

/*
 * The follow was initialised with the first address and these options. The secret of the options
 * stays in place, as that of the follow.
 */
void kw_scouts_init(struct kw_scouts *scouts, struct kw_follow *follow,
	const struct kw_proxies *proxies, const struct kw_follow_options *options,
	const struct kw_scouts_handlers *handlers);

/* Once. handlers.closed follows, from the loop or at once. */
void kw_scouts_close(struct kw_scouts *scouts);

/* Scout, choose, switch: what is due by the clock. After kw_follow_tick of the follow. */
void kw_scouts_tick(struct kw_scouts *scouts, uint64_t now_us);

/* Another list from now on; its first address is followed first. KW_E_CONFIG: nothing changed. */
int kw_scouts_retarget(
	struct kw_scouts *scouts, const struct kw_proxies *proxies, struct kw_error *error);

/* As kw_follow_set_key, for the scouts. */
void kw_scouts_set_key(struct kw_scouts *scouts, const char *id, struct kw_slice secret);

/* What is known through this address: of the follow, or of a scout. NULL: nothing yet. */
const struct kw_follow *kw_scouts_known(const struct kw_scouts *scouts, size_t index);

#endif
