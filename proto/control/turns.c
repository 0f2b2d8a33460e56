#include "control/turns.h"

#include "base/log.h"

#define QUIET_US UINT64_C(10000000)

static uint64_t greater(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static void tell(struct kw_turns *turns, uint64_t turn_us, uint64_t now_us)
{
	if (turn_us < KW_TURNS_LONG_US || now_us < turns->quiet_until_us)
		return;
	turns->quiet_until_us = now_us + QUIET_US;
	kw_log_warn(turns->component,
		"nobody was listened to for %.1f s: that much was to be done at once, or the host "
		"had no core for this process",
		(double)turn_us / 1e6);
}

static uint64_t now(void)
{
	return uv_hrtime() / 1000;
}

static void on_wake(uv_check_t *handle)
{
	struct kw_turns *turns = handle->data;

	turns->woke_us = uv_now(handle->loop) * 1000;
}

static void on_wait(uv_prepare_t *handle)
{
	struct kw_turns *turns = handle->data;
	uint64_t now_us = now(), turn_us = now_us > turns->woke_us ? now_us - turns->woke_us : 0;

	if (now_us - turns->begun_us >= KW_TURNS_WINDOW_US) {
		turns->longest_us[1] = turns->longest_us[0];
		turns->longest_us[0] = 0;
		turns->begun_us = now_us;
	}
	turns->longest_us[0] = greater(turns->longest_us[0], turn_us);
	tell(turns, turn_us, now_us);
}

void kw_turns_begin(struct kw_turns *turns, uv_loop_t *loop, const char *component)
{
	uint64_t now_us = now();

	*turns = (struct kw_turns){.woke_us = now_us, .begun_us = now_us, .component = component};
	uv_prepare_init(loop, &turns->before_wait);
	uv_check_init(loop, &turns->after_wait);
	turns->before_wait.data = turns->after_wait.data = turns;
	uv_prepare_start(&turns->before_wait, on_wait);
	uv_check_start(&turns->after_wait, on_wake);
	uv_unref((uv_handle_t *)&turns->before_wait);
	uv_unref((uv_handle_t *)&turns->after_wait);
}

void kw_turns_end(struct kw_turns *turns)
{
	uv_close((uv_handle_t *)&turns->before_wait, NULL);
	uv_close((uv_handle_t *)&turns->after_wait, NULL);
}

uint64_t kw_turns_longest_us(const struct kw_turns *turns)
{
	return greater(turns->longest_us[0], turns->longest_us[1]);
}
