/*
 * Have the server's counts begun anew (CONFIG RESETSTAT)? Nothing says so, but three signs do:
 *
 *   infos       calls of INFO: ours is counted after it was answered, so each look finds one more
 *   commands    total_commands_processed: the same
 *   resetstats  calls of CONFIG RESETSTAT: each clears them, and is counted after that, so they are
 *               0 or 1 (Redis 6.2 does not count it by itself)
 *
 * A second reset can go unseen: others must have called INFO, and more commands than there were
 * between the first and the last look. Pure; any thread. The numbers come from the server.
 */
#ifndef KW_AGENT_LOCAL_RESETS_H
#define KW_AGENT_LOCAL_RESETS_H

#include <stdbool.h>
#include <stdint.h>

/* One answer to INFO. 0: not told. */
struct kw_reset_signs {
	uint64_t infos, commands, resetstats;
};

/* Zeroed: nothing is known. */
struct kw_resets {
	bool looked;
	struct kw_reset_signs last;
};

/* Did the counts begin anew since the last look? A first look finds nothing. */
bool kw_resets_look(struct kw_resets *resets, const struct kw_reset_signs *now);

#endif
