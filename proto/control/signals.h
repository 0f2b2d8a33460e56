/*
 * The signals of a daemon, read from a descriptor by its loop.
 *
 *   SIGTERM, SIGINT ──▶ ended(name)      SIGHUP ──▶ reload, until the first of the others came
 *
 * The three are blocked from before the first thread begins until the process is gone, so none of
 * them ever has its default action. (With handlers that are put in and taken out, a SIGHUP between
 * the last uv_close and the exit killed a daemon that had ended well.) A signal that arrives before
 * kw_signals_start waits for it. The daemons start no programs that would inherit the mask.
 */
#ifndef KW_CONTROL_SIGNALS_H
#define KW_CONTROL_SIGNALS_H

#include "base/error.h"

#include <uv.h>

struct kw_signals_handlers {
	void (*ended)(
		void *arg, const char *name); /* "SIGTERM" or "SIGINT"; perhaps more than once */
	void (*reload)(void *arg);
	void *arg;
};

/* Memory of the owner's, which outlives the loop; zeroed before the start. Loop thread only. */
struct kw_signals {
	struct kw_signals_handlers handlers;
	uv_poll_t poll;
	int fd;
	enum { KW_SIGNALS_OFF, KW_SIGNALS_ALL, KW_SIGNALS_ENDING } state;
};

/* Block them. Main thread, before any other is begun. */
void kw_signals_block(void);

/* KW_E_IO: no descriptor for it. */
int kw_signals_start(struct kw_signals *signals, uv_loop_t *loop,
	const struct kw_signals_handlers *handlers, struct kw_error *error);

/* Harmless if it was not started. They stay blocked. */
void kw_signals_close(struct kw_signals *signals);

#endif
