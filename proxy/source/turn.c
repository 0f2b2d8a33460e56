#include "source/turn.h"

#include <assert.h>
#include <stddef.h>

static void on_busy(uv_idle_t *busy)
{
	/* It only needs to be active. */
}

static void on_timer(uv_timer_t *timer)
{
	struct kw_turn *turn = timer->data;

	turn->timer_us = UINT64_MAX;
	kw_turn_wake(turn);
}

static void on_check(uv_check_t *check)
{
	struct kw_turn *turn = check->data;

	if (turn->state != KW_TURN_CLOSING)
		turn->fn(turn->arg);
}

void kw_turn_init(struct kw_turn *turn, uv_loop_t *loop, void (*fn)(void *arg), void *arg)
{
	*turn = (struct kw_turn){.fn = fn, .arg = arg, .timer_us = UINT64_MAX};
	uv_check_init(loop, &turn->check);
	uv_idle_init(loop, &turn->busy);
	uv_timer_init(loop, &turn->timer);
	turn->check.data = turn->busy.data = turn->timer.data = turn;
	turn->open_handles = 3;
}

void kw_turn_start(struct kw_turn *turn)
{
	assert(turn->state != KW_TURN_CLOSING);
	uv_check_start(&turn->check, on_check);
}

void kw_turn_wake(struct kw_turn *turn)
{
	kw_turn_want(turn);
	if (turn->state != KW_TURN_CLOSING && !uv_is_active((uv_handle_t *)&turn->busy))
		uv_idle_start(&turn->busy, on_busy);
}

bool kw_turn_take(struct kw_turn *turn)
{
	enum kw_turn_state before = turn->state;

	assert(before != KW_TURN_CLOSING);
	turn->state = KW_TURN_QUIET;
	return before == KW_TURN_WANTED;
}

void kw_turn_next(struct kw_turn *turn, uint64_t next_us, uint64_t now_us)
{
	if (next_us <= now_us) {
		kw_turn_wake(turn);
		return;
	}
	uv_idle_stop(&turn->busy);
	assert(next_us > now_us);
	if (next_us >= turn->timer_us)
		return;
	turn->timer_us = next_us;
	uv_timer_start(&turn->timer, on_timer, (next_us - now_us + 999) / 1000, 0);
}

static void handle_closed(uv_handle_t *handle)
{
	struct kw_turn *turn = handle->data;

	assert(turn->open_handles > 0);
	if (--turn->open_handles == 0)
		turn->closed(turn->arg);
}

void kw_turn_close(struct kw_turn *turn, void (*closed)(void *arg))
{
	assert(turn->state != KW_TURN_CLOSING);
	turn->state = KW_TURN_CLOSING;
	turn->closed = closed;
	uv_close((uv_handle_t *)&turn->check, handle_closed);
	uv_close((uv_handle_t *)&turn->busy, handle_closed);
	uv_close((uv_handle_t *)&turn->timer, handle_closed);
}
