/*
 * CONFIG SETs of others, which can take notification flags away and put them back between two looks
 * at them. Pure.
 *
 * That takes two CONFIG SETs. The server's counter is read a moment before the flags. So if both
 * lie between two looks at the flags, one of them can be counted in the next look only: two within
 * two looks are suspicious. One alone is not: otherwise every change of a harmless setting would
 * cost a scan of everything.
 *
 * Where the flags themselves are not looked at (blind), one CONFIG SET can have taken them away.
 *
 * Before Redis 7.0 subcommands have no counter of their own: then all calls of CONFIG count, less
 * our own. Zeroed memory is a watch that has not begun.
 */
#ifndef KW_PROXY_FEED_WATCH_SETTINGS_H
#define KW_PROXY_FEED_WATCH_SETTINGS_H

#include "redis/counters.h"

#include <stdbool.h>
#include <stdint.h>

#define KW_SETTINGS_SUSPICIOUS 2

struct kw_settings {
	bool blind;
	uint64_t own_sets, own_gets; /* our calls */
	uint64_t asked_sets;         /* … of them, those before the INFO under way: of SET */
	uint64_t asked_all;          /* … and of all */
	uint64_t looked_own;         /* our calls in the last look, of the kind that it counted */
	uint64_t earlier;            /* calls of others that the last look found, not reported */
	struct kw_counter calls;
};

/* We send CONFIG SET; CONFIG GET; INFO commandstats. In the order in which they go out. */
static inline void kw_settings_set(struct kw_settings *settings)
{
	settings->own_sets++;
}

static inline void kw_settings_get(struct kw_settings *settings)
{
	settings->own_gets++;
}

static inline void kw_settings_asked(struct kw_settings *settings)
{
	settings->asked_sets = settings->own_sets;
	settings->asked_all = settings->own_sets + settings->own_gets;
}

/*
 * INFO commandstats is answered: calls of CONFIG SET (counts_all: of CONFIG). begin: there is
 * nothing to compare it with. True: the flags might have been away. Those calls are then reported.
 */
static inline bool kw_settings_look(
	struct kw_settings *settings, uint64_t calls, bool counts_all, bool begin)
{
	uint64_t own = counts_all ? settings->asked_all : settings->asked_sets;
	uint64_t ours = begin ? 0 : own - settings->looked_own;
	uint64_t enough = settings->blind ? 1 : KW_SETTINGS_SUSPICIOUS;
	enum kw_counter_found found;
	bool suspicious;

	if (begin)
		settings->calls = (struct kw_counter){0};
	found = kw_counter_look(
		&settings->calls, calls, 0, (struct kw_counter_ours){.least = ours, .most = ours});
	suspicious =
		found == KW_COUNTER_ANEW ||
		(found == KW_COUNTER_MORE && settings->calls.others >= enough - settings->earlier);
	settings->looked_own = own;
	settings->earlier = suspicious ? 0 : settings->calls.others;
	return suspicious;
}

#endif
