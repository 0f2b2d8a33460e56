/*
 * Does the server change keys and raise no event? Asked when notification flags are trusted and not
 * looked at (source.flags=trust). Pure.
 *
 * INFO persistence counts every change (rdb_changes_since_last_save), whatever command made it; a
 * SET NX that found its key counts as none. So changes without any event for a while mean that the
 * flags are not there. Commands that raise no event for what they change are excused: a look that
 * saw one begins anew. So does one that heard an event, or a count that fell (a save).
 *
 * Zeroed memory is one that has not begun.
 */
#ifndef KW_PROXY_FEED_WATCH_DEAF_H
#define KW_PROXY_FEED_WATCH_DEAF_H

#include <stdbool.h>
#include <stdint.h>

/* Changes are this old at least, and so many looks: their events would have come. */
#define KW_DEAF_US UINT64_C(3000000)
#define KW_DEAF_LOOKS 3

struct kw_deaf {
	uint64_t events, changes; /* as of the beginning */
	uint64_t changed_us;      /* the first look that saw more changes; 0: none has */
	uint32_t looks;           /* since then */
	bool begun;
};

struct kw_deaf_look {
	uint64_t now_us;
	uint64_t asked_events; /* heard, ever, before the question of this look went out */
	uint64_t events;       /* … and now */
	uint64_t changes;      /* as the server counts them */
	bool excused;          /* a silent command was called */
};

static inline bool kw_deaf_look(struct kw_deaf *deaf, const struct kw_deaf_look *look)
{
	if (!deaf->begun || look->excused || look->events != deaf->events ||
		look->changes < deaf->changes) {
		/* An event between question and answer can be of a change that is counted next. */
		*deaf = (struct kw_deaf){look->asked_events, look->changes, 0, 0, true};
		return false;
	}
	if (look->changes == deaf->changes)
		return false;
	if (deaf->changed_us == 0)
		deaf->changed_us = look->now_us;
	deaf->looks++;
	return deaf->looks > KW_DEAF_LOOKS && look->now_us - deaf->changed_us >= KW_DEAF_US;
}

#endif
