/*
 * Looking at input now and then, where it comes as a stream.
 *
 *   EAGER: read at each arrival ──from 4 KiB a ms on──▶ LULLED: read every ms, or less often
 *       ◀──────────────────────────below 2 KiB a ms───
 *
 * A subscriber of a busy server is woken by each of its writes, tens of thousands of times a
 * second, for some messages each; and waking it costs the server, too, within its own write(2).
 * What lies in the socket for a millisecond costs nobody anything: the kernel holds 100 KiB and
 * more of it (net.core.wmem_default), the output of a server at full speed for more than two of
 * them.
 */
#include "base/clock.h"
#include "redis/connection.h"

#define HELD_BYTES ((uint64_t)64 * 1024) /* as much may lie in the socket */
#define JUDGE_US 4000                    /* so long a stretch of input is judged by */
#define STALE_US 20000                   /* a longer one had a pause in it */
#define LULL_BYTES_MS 4096
#define WAKE_BYTES_MS 2048

static void on_look(uv_timer_t *look)
{
	kw_redis_read(look->data);
}

/* As long as is allowed, unless what comes meanwhile would fill the socket. */
static uint32_t pause_ms(const struct kw_redis *redis, uint64_t bytes_ms)
{
	uint32_t ms = redis->patience_ms;

	while (ms > 1 && ms * bytes_ms > HELD_BYTES)
		ms--;
	return ms;
}

/* ms: from look to look; 0: at each arrival again. */
static void look_every(struct kw_redis *redis, uint32_t ms)
{
	if (ms == redis->look_ms)
		return;
	redis->look_ms = ms;
	redis->lulled = ms > 0;
	if (ms > 0)
		uv_timer_start(&redis->look, on_look, ms, ms);
	else
		uv_timer_stop(&redis->look);
	kw_redis_rewatch(redis);
}

void kw_redis_set_patience(struct kw_redis *redis, uint32_t ms)
{
	redis->patience_ms = ms > 0 ? ms : 1;
}

void kw_redis_judge_input(struct kw_redis *redis, size_t bytes)
{
	uint64_t now_us, passed_us, bytes_ms;

	if (!redis->may_lull || kw_redis_is_over(redis))
		return;
	now_us = kw_clock_us();
	passed_us = now_us - redis->judged_us;
	redis->judged_bytes += bytes;
	if (passed_us < JUDGE_US)
		return;
	bytes_ms = redis->judged_bytes * 1000 / passed_us;
	if (!redis->lulled && passed_us >= STALE_US)
		bytes_ms = 0;
	redis->judged_us = now_us;
	redis->judged_bytes = 0;
	if (bytes_ms >= (redis->lulled ? WAKE_BYTES_MS : LULL_BYTES_MS))
		look_every(redis, pause_ms(redis, bytes_ms));
	else
		look_every(redis, 0);
}
