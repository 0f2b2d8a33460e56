/*
 * CONFIG SETs of others, by which notification flags can be taken away and put back between two
 * looks at them. Pure.
 *
 * That takes two of them. The server's counter is read a moment before the flags, so of two that
 * lie between two looks at the flags one may be in the next look's count: two within two looks are
 * suspicious. One is not, or every change of a harmless setting would cost a scan of everything.
 *
 * Before Redis 7.0 subcommands have no counter of their own: there all of CONFIG counts, but for
 * our own calls. Zeroed memory is a watch that has not begun.
 */
#ifndef KW_PROXY_FEED_SETTINGS_H
#define KW_PROXY_FEED_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#define KW_SETTINGS_SUSPICIOUS 2

struct kw_settings {
	uint64_t own_sets, own_gets; /* our calls */
	uint64_t asked_sets;         /* … of them, those before the INFO under way: of SET */
	uint64_t asked_all;          /* … and of all */
	uint64_t last, before;       /* calls of others, as of the last look and the one before */
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
 * nothing to compare it with. True: the flags may have been away; those calls are done with then.
 */
static inline bool kw_settings_look(
	struct kw_settings *settings, uint64_t calls, bool counts_all, bool begin)
{
	/* A counter that fell wraps here, and is suspicious. */
	uint64_t others = calls - (counts_all ? settings->asked_all : settings->asked_sets);
	bool suspicious = !begin && others - settings->before >= KW_SETTINGS_SUSPICIOUS;

	settings->before = begin || suspicious ? others : settings->last;
	settings->last = others;
	return suspicious;
}

#endif
