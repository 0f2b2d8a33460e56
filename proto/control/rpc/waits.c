#include "control/rpc/waits.h"

#include "base/clock.h"

#include <assert.h>

static void answer(const struct kw_rpc_waits *waits, struct kw_rpc_call *call, uint64_t token)
{
	kw_rpc_result(call, json_pack("{s:I,s:b}", "token", (json_int_t)token, "passed",
				    (int)waits->passed(waits->arg, token)));
}

static void on_timer(uv_timer_t *timer)
{
	/* It wakes the loop; the owner looks before that sleeps again. */
}

/* The next look at the latest: when the first of them has waited long enough. */
static void await(struct kw_rpc_waits *waits, uint64_t now_us)
{
	uint64_t first_us = UINT64_MAX;

	for (uint32_t i = 0; i < waits->count; i++)
		if (waits->list[i].until_us < first_us)
			first_us = waits->list[i].until_us;
	if (first_us == UINT64_MAX)
		uv_timer_stop(&waits->timer);
	else
		uv_timer_start(&waits->timer, on_timer,
			first_us > now_us ? (first_us - now_us + 999) / 1000 : 0, 0);
}

static bool is_over(
	const struct kw_rpc_waits *waits, const struct kw_rpc_wait *wait, uint64_t now_us)
{
	return now_us >= wait->until_us || !kw_rpc_call_wanted(wait->call) ||
	       waits->passed(waits->arg, wait->token);
}

void kw_rpc_waits_init(struct kw_rpc_waits *waits, uv_loop_t *loop,
	bool (*passed)(void *arg, uint64_t token), void *arg)
{
	*waits = (struct kw_rpc_waits){.passed = passed, .arg = arg, .room = KW_RPC_WAITS};
	uv_timer_init(loop, &waits->timer);
}

void kw_rpc_waits_add(
	struct kw_rpc_waits *waits, struct kw_rpc_call *call, const json_t *params, uint64_t token)
{
	json_int_t ms = json_integer_value(json_object_get(params, "wait_ms"));
	uint64_t now_us = kw_clock_us();

	if (ms > KW_RPC_WAIT_MS_MOST)
		ms = KW_RPC_WAIT_MS_MOST;
	if (ms <= 0 || waits->count == waits->room || waits->passed(waits->arg, token)) {
		answer(waits, call, token);
		return;
	}
	waits->list[waits->count++] =
		(struct kw_rpc_wait){call, token, now_us + (uint64_t)ms * 1000};
	await(waits, now_us);
}

void kw_rpc_waits_look(struct kw_rpc_waits *waits)
{
	uint32_t before = waits->count;
	uint64_t now_us;

	if (before == 0)
		return;
	now_us = kw_clock_us();
	for (uint32_t i = 0; i < waits->count;) {
		const struct kw_rpc_wait wait = waits->list[i];

		if (!is_over(waits, &wait, now_us)) {
			i++;
			continue;
		}
		waits->list[i] = waits->list[--waits->count];
		answer(waits, wait.call, wait.token);
	}
	if (waits->count < before)
		await(waits, now_us);
}

void kw_rpc_waits_close(struct kw_rpc_waits *waits)
{
	assert(waits->room > 0);
	waits->room = 0;
	while (waits->count > 0) {
		const struct kw_rpc_wait wait = waits->list[--waits->count];

		answer(waits, wait.call, wait.token);
	}
	uv_close((uv_handle_t *)&waits->timer, NULL);
}
