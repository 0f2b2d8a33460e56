/*
 * How long the turns of a loop are: the time in which it does not listen. A daemon does all its
 * work in one loop, so the longest turn is how long the primary's output, a client of the control
 * socket or an agent can have waited for it.
 *
 * A turn lasts from the moment at which the loop has something to do until it waits again. The time
 * that a crowded host takes away counts, too. The longest one of the last minute or two is kept; a
 * turn of more than a second is told in the log, at most once in ten seconds.
 *
 *   prepare ─▶ wait ─▶ uv_now is set ─▶ callbacks of I/O ─▶ check ─▶ … ─▶ prepare
 *                      └──────────────────── a turn ─────────────────────┘
 *
 * Libuv sets uv_now when epoll_wait returns (uv__io_poll), in whole milliseconds: so the turn is at
 * most one or two longer here than it was. This costs no system call. (UV_METRICS_IDLE_TIME would
 * cost one more epoll_wait a turn.) Callbacks must not call uv_update_time.
 *
 * The owner keeps the struct until the loop has ended. Loop thread only.
 */
#ifndef KW_CONTROL_TURNS_H
#define KW_CONTROL_TURNS_H

#include <stdint.h>
#include <uv.h>

#define KW_TURNS_WINDOW_US UINT64_C(60000000)
#define KW_TURNS_LONG_US UINT64_C(1000000)

struct kw_turns {
	uv_prepare_t before_wait;
	uv_check_t after_wait;
	uint64_t woke_us;        /* when the turn began, by uv_hrtime, which uv_now is made of */
	uint64_t begun_us;       /* of the minute */
	uint64_t longest_us[2];  /* of this minute, and of the one before */
	uint64_t quiet_until_us; /* no line before that */
	const char *component;
};

/* component: of log lines; it outlives the struct. */
void kw_turns_begin(struct kw_turns *turns, uv_loop_t *loop, const char *component);
void kw_turns_end(struct kw_turns *turns);

uint64_t kw_turns_longest_us(const struct kw_turns *turns);

#endif
