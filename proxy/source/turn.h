/*
 * The end of a loop turn: work is done once after all input of the turn was taken.
 *
 *   input, timers ─▶ kw_turn_want ─▶ end of this loop turn: fn
 *
 * libuv's check handle runs after the poll for input. A turn that is wanted from elsewhere (a
 * timer, a caller) would wait until that poll returns. kw_turn_wake keeps the poll from blocking.
 *
 * The caller owns the struct until `closed` is called. Loop thread only.
 */
#ifndef KW_PROXY_SOURCE_TURN_H
#define KW_PROXY_SOURCE_TURN_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

enum kw_turn_state {
	KW_TURN_QUIET,
	KW_TURN_WANTED,
	KW_TURN_CLOSING,
};

struct kw_turn {
	enum kw_turn_state state;
	uv_check_t check;
	uv_idle_t busy;    /* active: the loop does not block */
	uv_timer_t timer;  /* for a turn without any other event */
	uint64_t timer_us; /* when it fires; UINT64_MAX: never */
	int open_handles;
	void (*fn)(void *arg);
	void (*closed)(void *arg);
	void *arg;
};

/* fn is called at the end of every loop turn from kw_turn_start on. */
void kw_turn_init(struct kw_turn *turn, uv_loop_t *loop, void (*fn)(void *arg), void *arg);
void kw_turn_start(struct kw_turn *turn);

/* There is work for the end of this loop turn: from callbacks of connections. */
static inline void kw_turn_want(struct kw_turn *turn)
{
	if (turn->state == KW_TURN_QUIET)
		turn->state = KW_TURN_WANTED;
}

/* The same from anywhere else, when the loop might block first. */
void kw_turn_wake(struct kw_turn *turn);

/* fn begins: was there work? The next turn is not wanted yet. */
bool kw_turn_take(struct kw_turn *turn);

/* fn ends: the next turn is due then at the latest (UINT64_MAX: when input comes). */
void kw_turn_next(struct kw_turn *turn, uint64_t next_us, uint64_t now_us);

void kw_turn_close(struct kw_turn *turn, void (*closed)(void *arg));

#endif
