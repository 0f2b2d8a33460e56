/*
 * The apply modes (apply.mode): which loader goes with which applier.
 *
 *   commands = restore + commands      the agent is a client of the server
 *   replica  = rdb + link              the agent is the server's primary
 *   hybrid   = rdb + commands          its primary until the snapshot is loaded, then a client
 *   discard  = none + none             there is no server
 *
 * Constants; any thread.
 */
#ifndef KW_AGENT_LOAD_MODE_H
#define KW_AGENT_LOAD_MODE_H

#include <stdbool.h>

/* load.h */
enum kw_mode_loader {
	KW_MODE_LOADER_NONE,
	KW_MODE_LOADER_RESTORE,
	KW_MODE_LOADER_RDB,
};

/* apply/apply.h */
enum kw_mode_applier {
	KW_MODE_APPLIER_NONE,
	KW_MODE_APPLIER_COMMANDS,
	KW_MODE_APPLIER_LINK,
};

struct kw_mode {
	const char *name;
	enum kw_mode_loader loader;
	enum kw_mode_applier applier;
};

/* By apply.mode; NULL for an unknown word. */
const struct kw_mode *kw_mode_find(const char *name);

/* Does it act as the server's primary, at least until a snapshot is loaded? */
static inline bool kw_mode_leads(const struct kw_mode *mode)
{
	return mode->loader == KW_MODE_LOADER_RDB;
}

/* Does it stay the primary? */
static inline bool kw_mode_stays(const struct kw_mode *mode)
{
	return mode->applier == KW_MODE_APPLIER_LINK;
}

/* Does it act as the primary only until then? */
static inline bool kw_mode_hands_over(const struct kw_mode *mode)
{
	return kw_mode_leads(mode) && mode->applier != KW_MODE_APPLIER_LINK;
}

#endif
