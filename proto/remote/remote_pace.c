/*
 * When things happen on a connection: deadlines, reports and turns, by one timer and one idle
 * handle.
 */
#include "base/clock.h"
#include "remote/carrier.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

/* Reports are sent at most this often, … */
#define REPORT_INTERVAL_US 100000
/* … and the last one is repeated this often: the proxy takes a silent agent for a stuck one. */
#define REPORT_REPEAT_US 3000000
/*
 * A READ whose deadline passed gets so much longer, so that bytes that are already here are read.
 */
#define LAST_CHANCE_US 10000
/*
 * A handshake takes milliseconds. When so much of each millisecond for it is left, it is asked what
 * listens there.
 */
#define LOOK_SHARE_US 750

/* ---- the one timer ----
 *
 * It is only ever moved to an earlier moment; one that turns out too early looks around and sets
 * itself anew. So a READ a millisecond costs no timer operation.
 */
static void on_timer(uv_timer_t *timer);

void kw_remote_wake_at(struct kw_remote *remote, uint64_t at_us)
{
	uint64_t loop_us;

	if (at_us >= remote->timer_us || remote->sm.state >= KW_REMOTE_CLOSING)
		return;
	remote->timer_us = at_us;
	/* The loop's idea of now can be old, and the timer counts from it. */
	loop_us = uv_now(remote->loop) * 1000;
	uv_timer_start(
		&remote->timer, on_timer, at_us > loop_us ? (at_us - loop_us + 999) / 1000 : 0, 0);
}

static uint64_t look_at_us(const struct kw_remote *remote)
{
	return remote->connect_deadline_us -
	       (uint64_t)remote->options.connect_timeout_ms * LOOK_SHARE_US;
}

static void check_connect(struct kw_remote *remote, uint64_t now)
{
	struct kw_error error;

	if (!kw_remote_is(remote, KW_REMOTE_CONNECTING))
		return;
	if (now < look_at_us(remote)) {
		kw_remote_wake_at(remote, look_at_us(remote));
		return;
	}
	if (now < remote->connect_deadline_us) {
		kw_remote_suspect(remote);
		kw_remote_wake_at(remote, remote->connect_deadline_us);
		return;
	}
	kw_error_set(&error, KW_E_TIMEOUT, "connect: deadline of %" PRIu32 " ms passed",
		remote->options.connect_timeout_ms);
	kw_remote_fail(remote, &error);
}

static void check_head(struct kw_remote *remote, uint64_t now)
{
	const struct kw_remote_read *head = remote->flight.head;
	struct kw_error error;

	if (!head || !kw_remote_is(remote, KW_REMOTE_READY))
		return;
	if (now < head->deadline_us) {
		kw_remote_wake_at(remote, head->deadline_us);
		return;
	}
	/* If this process was stopped, the bytes are here and only need to be read. */
	if (remote->overdue_us == 0) {
		remote->overdue_us = now;
		kw_remote_wake_at(remote, now + LAST_CHANCE_US);
		return;
	}
	kw_error_set(&error, KW_E_TIMEOUT,
		"READ of %" PRIu64 " bytes at %" PRIu64 ": deadline of %" PRIu32 " ms passed",
		head->length, head->offset, remote->options.read_timeout_ms);
	kw_remote_fail(remote, &error);
}

/* A person waits for a ticket. There are few of them: each takes the proxy a look at its primary.
 */
static bool is_urgent(const struct kw_remote *remote)
{
	return remote->reporting == KW_REPORT_DUE && remote->report.ticket > 0 &&
	       remote->report.ticket != remote->report_last.ticket;
}

static void check_report(struct kw_remote *remote, uint64_t now)
{
	uint64_t due;

	if (!kw_remote_is(remote, KW_REMOTE_READY) || remote->reporting == KW_REPORT_NONE)
		return;
	due = remote->report_us +
	      (remote->reporting == KW_REPORT_DUE ? REPORT_INTERVAL_US : REPORT_REPEAT_US);
	if (remote->report_us == 0 || is_urgent(remote))
		due = 0;
	if (now < due) {
		kw_remote_wake_at(remote, due);
		return;
	}
	remote->reporting = KW_REPORT_DUE;
	remote->ops->report(remote);
	/* If it cannot be sent at once, the carrier sends it when its socket has room. */
	if (kw_remote_is(remote, KW_REMOTE_READY))
		kw_remote_wake_at(remote, now + REPORT_REPEAT_US);
}

static void check_turn(struct kw_remote *remote, uint64_t now)
{
	if (now >= remote->turn_at_us) {
		remote->turn_at_us = KW_NEVER;
		kw_remote_turn_soon(remote);
	} else if (remote->turn_at_us != KW_NEVER) {
		kw_remote_wake_at(remote, remote->turn_at_us);
	}
}

static void on_timer(uv_timer_t *timer)
{
	struct kw_remote *remote = timer->data;
	uint64_t now = kw_clock_us();

	remote->timer_us = KW_NEVER;
	check_connect(remote, now);
	check_head(remote, now);
	check_report(remote, now);
	check_turn(remote, now);
}

/* ---- turns ----
 *
 * An idle handle runs before the loop polls, in the same iteration as the timer that asked for it.
 * It is stopped again before the loop decides how long to sleep. So a turn neither waits nor keeps
 * the loop busy.
 */
static void tell_refused(struct kw_remote *remote)
{
	struct kw_read_list refused = remote->refused;
	struct kw_remote_read *read;
	struct kw_error error;

	remote->refused = (struct kw_read_list){0};
	while ((read = kw_read_list_pop(&refused))) {
		kw_error_set(&error, KW_E_ARGUMENT,
			"READ of %" PRIu64 " bytes at %" PRIu64
			" is outside of the extents that the proxy advertised",
			read->length, read->offset);
		read->done(read, &error);
	}
}

static void on_turn(uv_idle_t *idle)
{
	struct kw_remote *remote = idle->data;

	uv_idle_stop(idle);
	tell_refused(remote);
	if (remote->sm.state < KW_REMOTE_CLOSING)
		remote->ops->turn(remote);
}

void kw_remote_turn_soon(struct kw_remote *remote)
{
	if (remote->sm.state < KW_REMOTE_CLOSING)
		uv_idle_start(&remote->turn, on_turn);
}

void kw_remote_turn_at(struct kw_remote *remote, uint64_t at_us)
{
	remote->turn_at_us = at_us;
	kw_remote_wake_at(remote, at_us);
}

/* ---- reports ---- */

void kw_remote_report(struct kw_remote *remote, const struct kw_remote_progress *progress)
{
	if (remote->sm.state >= KW_REMOTE_CLOSING)
		return;
	remote->report = *progress;
	remote->report.state[sizeof remote->report.state - 1] = 0;
	/* Equal to the last report: the repetition is soon enough. */
	if (remote->reporting == KW_REPORT_SENT &&
		memcmp(&remote->report, &remote->report_last, sizeof remote->report) == 0)
		return;
	remote->reporting = KW_REPORT_DUE;
	check_report(remote, kw_clock_us());
}

void kw_remote_report_taken(struct kw_remote *remote)
{
	assert(remote->reporting == KW_REPORT_DUE);
	remote->report_last = remote->report;
	remote->reporting = KW_REPORT_SENT;
	remote->report_us = kw_clock_us();
}

void kw_remote_report_soon(struct kw_remote *remote)
{
	check_report(remote, kw_clock_us());
}

/* ---- beginning and end ---- */

void kw_remote_pace_init(struct kw_remote *remote)
{
	remote->timer_us = remote->turn_at_us = KW_NEVER;
	uv_timer_init(remote->loop, &remote->timer);
	uv_idle_init(remote->loop, &remote->turn);
	remote->timer.data = remote->turn.data = remote;
	remote->connect_deadline_us =
		kw_clock_us() + (uint64_t)remote->options.connect_timeout_ms * 1000;
	kw_remote_wake_at(remote, look_at_us(remote));
	kw_remote_turn_soon(remote);
}

void kw_remote_pace_close(struct kw_remote *remote)
{
	kw_remote_shut(remote, (uv_handle_t *)&remote->timer, false);
	kw_remote_shut(remote, (uv_handle_t *)&remote->turn, false);
}
