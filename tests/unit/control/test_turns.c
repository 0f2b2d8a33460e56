/* A turn is the time that the loop works, and none in which it waits. */
#include "base/clock.h"
#include "base/log.h"
#include "control/turns.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define WORK_US 30000
#define WAIT_MS 400

static uv_loop_t loop;
static struct kw_turns turns;
static uint64_t worked_us;

static void work(uv_timer_t *timer)
{
	uint64_t begun_us = kw_clock_us();

	while (kw_clock_us() - begun_us < WORK_US)
		;
	worked_us = kw_clock_us() - begun_us;
}

static void do_nothing(uv_timer_t *timer)
{
}

static void begin(void)
{
	assert_int_equal(uv_loop_init(&loop), 0);
	kw_turns_begin(&turns, &loop, "test");
}

static void run_timer(uv_timer_cb callback, uint64_t after_ms)
{
	uv_timer_t timer;

	uv_timer_init(&loop, &timer);
	uv_timer_start(&timer, callback, after_ms, 0);
	uv_run(&loop, UV_RUN_DEFAULT);
	uv_close((uv_handle_t *)&timer, NULL);
	uv_run(&loop, UV_RUN_DEFAULT);
}

/* The turn ends when the loop waits again. */
static void wait_again(void)
{
	run_timer(do_nothing, 1);
}

static void end(void)
{
	kw_turns_end(&turns);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&loop), 0);
}

static void waiting_is_no_turn(void **state)
{
	uint64_t begun_us = kw_clock_us();

	begin();
	run_timer(do_nothing, WAIT_MS);
	wait_again();
	assert_true(kw_clock_us() - begun_us >= WAIT_MS * 1000);
	/* A crowded host can take a part of it; hardly all. */
	assert_true(kw_turns_longest_us(&turns) < WAIT_MS * 1000 / 2);
	end();
}

static void on_async(uv_async_t *async)
{
	work(NULL);
	uv_close((uv_handle_t *)async, NULL);
}

/* Callbacks of I/O run before libuv says that the wait is over (uv_check_t). */
static void work_for_a_descriptor_counts(void **state)
{
	uv_async_t async;

	begin();
	uv_async_init(&loop, &async, on_async);
	uv_async_send(&async);
	uv_run(&loop, UV_RUN_DEFAULT);
	wait_again();
	assert_true(kw_turns_longest_us(&turns) >= WORK_US);
	end();
}

static void the_longest_turn_is_kept(void **state)
{
	begin();
	run_timer(work, 1);
	wait_again();
	assert_true(kw_turns_longest_us(&turns) >= WORK_US);
	for (int i = 0; i < 5; i++)
		wait_again();
	assert_true(kw_turns_longest_us(&turns) >= WORK_US);
	end();
}

/* Of this minute and of the one before. */
static void it_is_forgotten_after_two_minutes(void **state)
{
	const uint64_t hour_us = UINT64_C(3600000000);

	begin();
	turns.longest_us[0] = hour_us;
	turns.begun_us -= KW_TURNS_WINDOW_US;
	wait_again();
	assert_int_equal(kw_turns_longest_us(&turns), hour_us);
	turns.begun_us -= KW_TURNS_WINDOW_US;
	wait_again();
	assert_true(kw_turns_longest_us(&turns) < hour_us);
	end();
}

static const char *last_line(void)
{
	static struct kw_log_line line;

	line.text[0] = '\0';
	for (uint64_t number = 1; kw_log_kept(number, &line); number = line.number + 1)
		;
	return line.text;
}

static void a_long_turn_is_told(void **state)
{
	begin();
	turns.woke_us -= 3 * KW_TURNS_LONG_US; /* as if the loop had not come to wait since */
	wait_again();
	assert_non_null(strstr(last_line(), "nobody was listened to for 3."));
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(waiting_is_no_turn),
		cmocka_unit_test(work_for_a_descriptor_counts),
		cmocka_unit_test(the_longest_turn_is_kept),
		cmocka_unit_test(it_is_forgotten_after_two_minutes),
		cmocka_unit_test(a_long_turn_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
