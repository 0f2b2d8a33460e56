/*
 * Looking at input now and then, where it comes as a stream.
 *
 *   EAGER: read at each arrival ──from 4 KiB a ms on──▶ LULLED: read every ms
 *       ◀──────────────────────────below 2 KiB a ms───
 *
 * A subscriber of a busy server is woken by each of its writes, tens of thousands of times a
 * second, for some messages each; and waking it costs the server, too, within its own write(2).
 * What lies in the socket for a millisecond costs nobody anything: the kernel holds 100 KiB and
 * more of it (net.core.wmem_default), the output of a server at full speed for more than two of
 * them. Longer than that it does: the server's next write finds no memory that was read just now.
 */
#include "base/clock.h"
#include "redis/connection.h"

#define LOOK_MS 1
#define JUDGE_US 4000  /* so long a stretch of input is judged by */
#define STALE_US 20000 /* a longer one had a pause in it */
#define LULL_BYTES_MS 4096
#define WAKE_BYTES_MS 2048

static void on_look(uv_timer_t *look)
{
	kw_redis_read(look->data);
}

static void lull(struct kw_redis *redis, bool lulled)
{
	if (lulled == redis->lulled)
		return;
	redis->lulled = lulled;
	if (lulled)
		uv_timer_start(&redis->look, on_look, LOOK_MS, LOOK_MS);
	else
		uv_timer_stop(&redis->look);
	kw_redis_rewatch(redis);
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
	lull(redis, bytes_ms >= (redis->lulled ? WAKE_BYTES_MS : LULL_BYTES_MS));
}
