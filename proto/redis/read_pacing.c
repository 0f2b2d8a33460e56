/*
 * Reading by a timer when input comes as a stream.
 *
 *   DIRECT: read at each arrival
 *     │ ▲
 *     │ │ kw_redis_read_by_timer, from each of the other two
 *     ▼ │
 *   EAGER: read at each arrival ──from 4 to 32 KiB a ms───▶ PACED: read every ms
 *       ◀──────────below 2 KiB a ms, or 64 KiB at once────
 *
 * In each of them kw_redis_hold keeps it from being read, until kw_redis_release.
 *
 * Each write of a busy server wakes its subscriber: tens of thousands of times a second, for some
 * messages each. The wake-up costs the server, too, within its own write(2). Bytes that wait in the
 * socket for a millisecond cost nothing. The kernel holds 100 KiB and more of them
 * (net.core.wmem_default), which is the output of a server at full speed for more than two
 * milliseconds. A longer wait would cost: the server's next write then finds memory that no cache
 * holds.
 *
 * Large values fill the socket within a millisecond. Then the timer would bound how much comes: the
 * server's output would grow until it cuts the connection. And one wake-up brings much, so it costs
 * little for each byte. A busy host can also fire the timer late. So what counts is how much one
 * read found.
 *
 * A server with time to spare loses nothing by wake-ups, and the millisecond would be lag. So the
 * owner, who knows how busy the server is, chooses between DIRECT and the other two.
 */
#include "base/clock.h"
#include "redis/connection.h"

#include <assert.h>

#define PACE_MS 1
#define MEASURE_US 4000 /* the rate is taken over at least so long */
#define STALE_US 20000  /* a longer time includes a pause */
#define PACE_BYTES_MS 4096
#define EAGER_BYTES_MS 2048
#define MUCH_BYTES_MS (32 << 10)
#define FULL_BYTES ((size_t)64 << 10) /* in one read: the socket might have been full */

static void on_read_timer(uv_timer_t *timer)
{
	kw_redis_read(timer->data);
}

static void move_to(struct kw_redis *redis, enum kw_redis_reading reading)
{
	enum kw_redis_reading before = redis->reading;

	assert(!(before == KW_REDIS_READ_DIRECT && reading == KW_REDIS_READ_PACED));
	redis->reading = reading;
	if (reading == before)
		return;
	if (reading == KW_REDIS_READ_PACED) {
		uv_timer_start(&redis->read_timer, on_read_timer, PACE_MS, PACE_MS);
		kw_redis_rewatch(redis);
	} else if (before == KW_REDIS_READ_PACED) {
		uv_timer_stop(&redis->read_timer);
		kw_redis_rewatch(redis);
	}
}

/* Nothing is measured yet. */
static void measure(struct kw_redis *redis, uint64_t now_us)
{
	redis->measured_us = now_us;
	redis->measured_bytes = 0;
}

void kw_redis_read_by_timer(struct kw_redis *redis, bool may)
{
	if (kw_redis_is_over(redis) || may == (redis->reading != KW_REDIS_READ_DIRECT))
		return;
	measure(redis, kw_clock_us());
	move_to(redis, may ? KW_REDIS_READ_EAGER : KW_REDIS_READ_DIRECT);
}

void kw_redis_hold(struct kw_redis *redis)
{
	assert(redis->input_kind == KW_REDIS_STREAM);
	if (kw_redis_is_over(redis) || redis->held)
		return;
	redis->held = true;
	kw_redis_rewatch(redis);
}

void kw_redis_release(struct kw_redis *redis)
{
	assert(redis->input_kind == KW_REDIS_STREAM);
	if (kw_redis_is_over(redis) || !redis->held)
		return;
	redis->held = false;
	kw_redis_rewatch(redis);
	kw_redis_wake(redis); /* TLS can hold bytes that no poll shows */
}

static bool is_worth_a_wait(const struct kw_redis *redis, uint64_t bytes_ms)
{
	if (redis->reading == KW_REDIS_READ_PACED)
		return bytes_ms >= EAGER_BYTES_MS;
	return bytes_ms >= PACE_BYTES_MS && bytes_ms < MUCH_BYTES_MS;
}

void kw_redis_pace_reads(struct kw_redis *redis, size_t bytes)
{
	bool paced = redis->reading == KW_REDIS_READ_PACED;
	uint64_t now_us, passed_us, bytes_ms;

	if (redis->reading == KW_REDIS_READ_DIRECT || kw_redis_is_over(redis))
		return;
	now_us = kw_clock_us();
	if (paced && bytes >= FULL_BYTES) {
		measure(redis, now_us);
		move_to(redis, KW_REDIS_READ_EAGER);
		return;
	}
	passed_us = now_us - redis->measured_us;
	redis->measured_bytes += bytes;
	if (passed_us < MEASURE_US)
		return;
	bytes_ms = redis->measured_bytes * 1000 / passed_us;
	if (!paced && passed_us >= STALE_US)
		bytes_ms = 0;
	measure(redis, now_us);
	move_to(redis,
		is_worth_a_wait(redis, bytes_ms) ? KW_REDIS_READ_PACED : KW_REDIS_READ_EAGER);
}
