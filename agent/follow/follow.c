#include "follow.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/log.h"
#include "table/view.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define SKEW_WINDOW_US 10000000
#define BACKOFF_LOWEST_MS 50
#define BACKOFF_HIGHEST_MS 5000
#define PROBE_INTERVAL_US 100000
/* A look reads the superblock once it is this old, whatever the reader's own count of looks. */
#define SUPERBLOCK_AGE_US 6000

#define TO(state) KW_SM_TO(KW_FOLLOW_##state)
static const struct kw_sm_state states[] = {
	[KW_FOLLOW_DOWN] = {"down", TO(CONNECTING) | TO(CLOSING), KW_SM_INITIAL},
	[KW_FOLLOW_CONNECTING] = {"connecting", TO(UP) | TO(DOWN) | TO(LEAVING) | TO(CLOSING)},
	[KW_FOLLOW_UP] = {"up", TO(DOWN) | TO(LEAVING) | TO(CLOSING)},
	[KW_FOLLOW_LEAVING] = {"leaving", TO(DOWN) | TO(CLOSING)},
	[KW_FOLLOW_CLOSING] = {"closing", TO(CLOSED)},
	[KW_FOLLOW_CLOSED] = {"closed", 0, KW_SM_FINAL},
};

static bool follow_holds(const void *owner, int state)
{
	const struct kw_follow *follow = owner;

	switch ((enum kw_follow_state)state) {
	case KW_FOLLOW_DOWN:
		return !follow->remote && follow->probed_us == 0 && follow->code != KW_OK &&
		       kw_reader_idle(follow->reader);
	case KW_FOLLOW_CONNECTING:
		return follow->remote && follow->info.depth == 0 && kw_reader_idle(follow->reader);
	case KW_FOLLOW_UP:
		return follow->remote && follow->info.depth > 0 && follow->code == KW_OK;
	case KW_FOLLOW_LEAVING:
		return follow->remote && follow->code != KW_OK && kw_reader_idle(follow->reader);
	case KW_FOLLOW_CLOSING:
		return kw_reader_idle(follow->reader);
	case KW_FOLLOW_CLOSED:
		return !follow->remote && follow->reads.outstanding == 0;
	}
	return false;
}

static const struct kw_sm_conf machine = {
	.where = "follow",
	.states = states,
	.count = sizeof states / sizeof *states,
	.invariant = follow_holds,
};

static bool is(const struct kw_follow *follow, enum kw_follow_state state)
{
	return follow->sm.state == (int)state;
}

/* The sentences of the carriers name the address themselves. */
static void set_why(struct kw_follow *follow, enum kw_code code, const char *text)
{
	follow->code = follow->failed = code;
	snprintf(follow->why, sizeof follow->why, "%s", text);
}

bool kw_follow_is_hopeless(const struct kw_follow *follow, enum kw_code *code)
{
	if (code)
		*code = follow->failed;
	return follow->failed == KW_E_REFUSED || follow->failed == KW_E_PROTOCOL ||
	       follow->failed == KW_E_CONFIG;
}

/*
 * Close the connection. The reader goes idle first, so that it answers no failed READ with another
 * READ. `why` stays as it is: it says more than the carrier's sentence for a closed connection.
 */
static void leave(struct kw_follow *follow)
{
	kw_reader_stop(follow->reader);
	kw_sm_move(&follow->sm, KW_FOLLOW_LEAVING, follow->why);
	kw_remote_close(follow->remote);
}

/* A READ failed: open a new connection, whatever the reason. */
static void link_failed(struct kw_follow *follow, const struct kw_error *error)
{
	if (!is(follow, KW_FOLLOW_UP))
		return;
	set_why(follow, error->code ? error->code : KW_E_IO, error->text);
	leave(follow);
}

/* The same for bytes that cannot be used, however often they are read. */
static void table_failed(struct kw_follow *follow, const struct kw_error *error)
{
	struct kw_error named = *error;

	kw_error_wrap(&named, "%.200s", follow->proxy);
	link_failed(follow, &named);
}

static void on_lost(void *arg, const struct kw_error *error)
{
	link_failed(arg, error);
}

/* The reader is started while connected, and stopped before the connection is freed. */
static struct kw_remote *connection(void *arg)
{
	struct kw_follow *follow = arg;

	assert(follow->remote);
	return follow->remote;
}

/* Set the timer, 0: stop it. Setting clears an expiry, so that the fd need not be read. */
static void arm(struct kw_follow *follow, uint32_t us)
{
	const struct itimerspec when = {
		.it_value = {.tv_sec = us / 1000000, .tv_nsec = (long)(us % 1000000) * 1000},
	};

	follow->armed_us = us;
	timerfd_settime(follow->timer_fd, 0, &when, NULL);
}

/*
 * How far the proxy's clock is ahead of ours. A heartbeat was written some time before it is read,
 * so the largest difference of this window and the one before is the best estimate. A clock that is
 * slow counts as equal: a client that waits for its time then waits longer, and is safe.
 */
static void learn_skew(struct kw_follow *follow, uint64_t heartbeat_us, uint64_t now)
{
	int64_t ahead = (int64_t)(heartbeat_us - kw_wall_us()), most;

	if (now - follow->skew_window_us > SKEW_WINDOW_US) {
		follow->skew_window_us = now;
		follow->skew_before_us = follow->skew_best_us;
		follow->skew_best_us = ahead;
	}
	if (ahead > follow->skew_best_us)
		follow->skew_best_us = ahead;
	most = follow->skew_best_us > follow->skew_before_us ? follow->skew_best_us
							     : follow->skew_before_us;
	follow->skew_us = most > 0 ? most : 0;
}

/* begun_us: when the READ that brought it began. */
static void learn_superblock(struct kw_follow *follow, const struct kw_superblock *superblock,
	const struct kw_history *history, uint64_t begun_us)
{
	uint64_t now = kw_clock_us();
	bool same_epoch = superblock->epoch == follow->superblock.epoch;

	/* A pass of the reader's can overtake a probe. */
	if (same_epoch && superblock->publication < follow->superblock.publication)
		return;
	if (!same_epoch || superblock->heartbeat_us != follow->superblock.heartbeat_us) {
		follow->heartbeat_us = now;
		follow->heartbeat_begun_us = begun_us;
	}
	learn_skew(follow, superblock->heartbeat_us, now);
	follow->failed = KW_OK;
	follow->superblock = *superblock;
	follow->superblock_us = now;
	follow->superblock_begun_us = begun_us;
	follow->history = *history;
}

/* The age of the table's data, by its own clock. */
static uint64_t behind_us(const struct kw_follow *follow)
{
	const struct kw_superblock *superblock = &follow->superblock;

	if (superblock->fresh_us == 0 || superblock->heartbeat_us < superblock->fresh_us)
		return 0;
	return superblock->heartbeat_us - superblock->fresh_us;
}

static void poll_when(struct kw_follow *follow, enum kw_follow_polls when)
{
	if (follow->polls != KW_FOLLOW_HELD)
		follow->polls = when;
}

/* If the operator's own pause is as long as that of a sleeper, nothing is gained. */
bool kw_follow_is_woken(const struct kw_follow *follow)
{
	return follow->info.wakes && follow->options.idle_us < follow->options.asleep_us;
}

/* A table that lags its primary makes for longer pauses: that saves what each wake would cost. */
static bool may_sleep(const struct kw_follow *follow)
{
	return kw_follow_is_woken(follow) && kw_follow_up(follow) &&
	       follow->superblock.epoch != 0 && behind_us(follow) <= KW_PAUSE_BEHIND_US;
}

static bool is_long(uint32_t pause_us, uint32_t idle_us)
{
	return pause_us >= idle_us / 2 || pause_us >= KW_FOLLOW_SLEEP_FROM_US;
}

static void pace(struct kw_follow *follow, bool moved)
{
	uint32_t idle_us = follow->options.busy ? 0 : follow->options.idle_us;
	uint32_t pause_us = kw_pause_next_us(
		&follow->pause, moved, follow->begun_us, idle_us, behind_us(follow));

	if (pause_us == 0) {
		poll_when(follow, KW_FOLLOW_DUE);
		if (follow->armed_us > 0)
			arm(follow, 0);
		follow->handlers.due(follow->handlers.arg);
		return;
	}
	poll_when(follow, KW_FOLLOW_WAITS);
	if (may_sleep(follow) && is_long(pause_us, idle_us)) {
		kw_remote_sleep(follow->remote, follow->superblock.publication);
		pause_us = follow->options.asleep_us;
	}
	/* After a long rest on_timer has set it already: that saves a system call in each poll. */
	if (follow->armed_us != pause_us)
		arm(follow, pause_us);
}

static void on_superblock(
	void *arg, const struct kw_superblock *superblock, const struct kw_history *history)
{
	struct kw_follow *follow = arg;

	learn_superblock(follow, superblock, history, follow->begun_us);
}

static void on_pass_done(void *arg, bool moved)
{
	struct kw_follow *follow = arg;

	kw_backoff_reset(&follow->backoff);
	follow->passed_us = follow->begun_us;
	pace(follow, moved);
}

static void on_look_done(void *arg, bool found)
{
	pace(arg, found);
}

/*
 * The reader is idle. If bytes do not verify, the writer might only be stopped in the middle, which
 * another connection would not mend: the owner decides. Everything else ends the connection.
 */
static void on_failed(void *arg, const struct kw_error *error)
{
	struct kw_follow *follow = arg;

	if (error->code != KW_E_CORRUPT)
		table_failed(follow, error);
}

static void on_link_ready(void *arg, const struct kw_remote_info *info)
{
	struct kw_follow *follow = arg;

	assert(info->depth > 0);
	follow->info = *info;
	follow->code = KW_OK;
	follow->superblock = (struct kw_superblock){0};
	follow->superblock_us = follow->superblock_begun_us = 0;
	follow->history = (struct kw_history){0};
	follow->heartbeat_us = follow->heartbeat_begun_us = kw_clock_us();
	kw_sm_move(&follow->sm, KW_FOLLOW_UP, info->peer);
	kw_log_info("follow", "%s: connected to %s, %u READs in flight", follow->proxy, info->peer,
		info->depth);
	if (info->wished && info->compression != KW_COMPRESSION_ZSTD)
		kw_log_warn("follow", "%s: what is read comes without compression: %s",
			follow->proxy, kw_compression_text(info->compression));
	follow->handlers.link(follow->handlers.arg, true);
	kw_follow_tick(follow, kw_clock_us());
}

static void on_awake(void *arg)
{
	struct kw_follow *follow = arg;

	follow->wakes++;
	/* It tells what the proxy woke for: it would do so again for the publication of before. */
	kw_reader_want_superblock(follow->reader);
	poll_when(follow, KW_FOLLOW_DUE);
	kw_follow_step(follow, kw_clock_us());
}

static void on_timer_closed(uv_handle_t *handle)
{
	struct kw_follow *follow = handle->data;

	kw_sm_move(&follow->sm, KW_FOLLOW_CLOSED, "");
	close(follow->timer_fd);
	kw_remote_end(follow->options.loop);
	kw_reader_free(follow->reader);
	kw_reads_close(&follow->reads);
	kw_regions_close(&follow->regions);
	follow->handlers.closed(follow->handlers.arg);
}

/* One line for a connection that was up, and one for a row of failed attempts. */
static void log_down(const struct kw_follow *follow, bool was_up)
{
	if (was_up || follow->backoff.failures == 1)
		kw_log_warn("follow", "%s", follow->why);
}

static void on_link_closed(void *arg, const struct kw_error *why)
{
	struct kw_follow *follow = arg;
	const bool was_up = follow->info.depth > 0;
	const bool closing = is(follow, KW_FOLLOW_CLOSING);

	kw_reader_stop(follow->reader);
	if (is(follow, KW_FOLLOW_CONNECTING) || is(follow, KW_FOLLOW_UP))
		set_why(follow, why->code ? why->code : KW_E_IO, why->text);
	follow->received += kw_remote_received(follow->remote);
	kw_remote_free(follow->remote); /* and `why` with it */
	follow->remote = NULL;
	follow->info = (struct kw_remote_info){0};
	follow->probed_us = 0;
	kw_regions_forget(&follow->regions);
	follow->next_us = kw_clock_us() + kw_backoff_next_us(&follow->backoff);
	if (!closing) {
		kw_sm_move(&follow->sm, KW_FOLLOW_DOWN, follow->why);
		log_down(follow, was_up);
	}
	follow->handlers.link(follow->handlers.arg, false);
	if (closing)
		uv_close((uv_handle_t *)&follow->timer, on_timer_closed);
}

static void connect_link(struct kw_follow *follow)
{
	const struct kw_remote_handlers handlers = {
		.ready = on_link_ready,
		.closed = on_link_closed,
		.arg = follow,
		.awake = follow->options.asleep_us > 0 ? on_awake : NULL,
	};
	struct kw_error error;

	assert(!follow->remote);
	follow->reconnects++;
	follow->key_used = follow->key;
	if (!kw_remote_open(follow->options.loop, &follow->address, &follow->options.remote,
		    &handlers, &follow->remote, &error)) {
		kw_sm_move(&follow->sm, KW_FOLLOW_CONNECTING, follow->proxy);
		return;
	}
	follow->remote = NULL;
	set_why(follow, error.code, error.text);
	follow->next_us = kw_clock_us() + kw_backoff_next_us(&follow->backoff);
	log_down(follow, false);
}

static void read_probe(struct kw_follow *follow, uint64_t offset, void *buffer, uint32_t length,
	void (*done)(struct kw_remote_read *read, const struct kw_error *lost))
{
	struct kw_remote_read *read = &follow->probe_read;

	*read = (struct kw_remote_read){
		.offset = offset,
		.length = length,
		.buffer = buffer,
		.done = done,
		.arg = follow,
	};
	kw_remote_read(follow->remote, &read, 1);
}

static void probed(struct kw_follow *follow, const struct kw_history *history)
{
	learn_superblock(follow, &follow->probe_superblock, history, follow->probe_us);
	if (kw_follow_up(follow) && follow->info.carrier == KW_CARRIER_RDMA)
		kw_regions_look(
			&follow->regions, follow->remote, &follow->probe_superblock, kw_clock_us());
	follow->sink.superblock(follow->sink.arg, &follow->superblock);
}

static void on_probed_history(struct kw_remote_read *read, const struct kw_error *lost)
{
	struct kw_follow *follow = read->arg;
	struct kw_history history;
	struct kw_error error;

	assert(follow->probed_us > 0);
	follow->probed_us = 0;
	if (lost)
		return; /* on_link_closed follows */
	switch (kw_history_parse(&follow->probe_history, follow->probe_superblock.history_checksum,
		&history, &error)) {
	case KW_OK:
		probed(follow, &history);
		return;
	case KW_E_PROTOCOL:
		table_failed(follow, &error);
		return;
	default:
		return; /* it has just changed: the next tick asks again */
	}
}

/* The superblock of a probe is whole. It counts once the history that it names is known. */
static void look_for_history(struct kw_follow *follow)
{
	const uint32_t named = follow->probe_superblock.history_checksum;
	const struct kw_history none = {0}, known = follow->history;

	if (named == 0) {
		probed(follow, &none);
	} else if (named == follow->superblock.history_checksum) {
		probed(follow, &known);
	} else if (kw_follow_up(follow)) {
		follow->probed_us = kw_clock_us();
		read_probe(follow, KW_HISTORY_OFFSET, &follow->probe_history,
			sizeof follow->probe_history, on_probed_history);
	}
}

static void on_probe(struct kw_remote_read *read, const struct kw_error *lost)
{
	struct kw_follow *follow = read->arg;
	struct kw_error error;

	assert(follow->probed_us > 0);
	follow->probed_us = 0;
	if (lost)
		return; /* on_link_closed follows */
	switch (kw_superblock_check(&follow->probe_superblock, &error)) {
	case KW_OK:
		look_for_history(follow);
		return;
	case KW_E_PROTOCOL:
		table_failed(follow, &error);
		return;
	default:
		return; /* torn: the next tick asks again */
	}
}

static void probe(struct kw_follow *follow, uint64_t now_us)
{
	assert(follow->probed_us == 0);
	assert(now_us > 0);

	follow->probed_us = follow->probe_us = now_us;
	read_probe(follow, KW_SUPERBLOCK_OFFSET, &follow->probe_superblock,
		sizeof follow->probe_superblock, on_probe);
}

/* The present connection proved an earlier key, and nothing is lost if it ends now. */
static bool is_key_due(const struct kw_follow *follow)
{
	return kw_follow_up(follow) && follow->key_used != follow->key &&
	       (kw_reader_waiting(follow->reader) || kw_reader_idle(follow->reader));
}

void kw_follow_tick(struct kw_follow *follow, uint64_t now_us)
{
	if (is_key_due(follow)) {
		set_why(follow, KW_E_STATE, "connecting again with the new key");
		leave(follow);
	}
	if (is(follow, KW_FOLLOW_DOWN) && now_us >= follow->next_us)
		connect_link(follow);
	if (kw_follow_up(follow) && follow->probed_us == 0 &&
		now_us - follow->superblock_us >= PROBE_INTERVAL_US)
		probe(follow, now_us);
}

void kw_follow_look(struct kw_follow *follow, uint64_t now_us)
{
	assert(kw_follow_up(follow));
	if (follow->probed_us == 0)
		probe(follow, now_us);
}

void kw_follow_step(struct kw_follow *follow, uint64_t now_us)
{
	if (follow->polls != KW_FOLLOW_DUE || !kw_follow_up(follow) ||
		!kw_reader_waiting(follow->reader))
		return;
	assert(follow->remote);
	follow->polls = KW_FOLLOW_WAITS;
	follow->begun_us = now_us;
	if (now_us - follow->passed_us >= SUPERBLOCK_AGE_US)
		kw_reader_want_superblock(follow->reader);
	kw_reader_poll(follow->reader);
}

static void on_timer(uv_poll_t *handle, int status, int events)
{
	struct kw_follow *follow = handle->data;

	(void)status;
	(void)events;
	arm(follow, follow->polls == KW_FOLLOW_HELD ? 0 : follow->pause.us);
	poll_when(follow, KW_FOLLOW_DUE);
	kw_follow_step(follow, kw_clock_us());
}

void kw_follow_start(struct kw_follow *follow, const struct kw_cursor *cursor)
{
	assert(kw_follow_up(follow));
	assert(kw_reader_idle(follow->reader));
	follow->begun_us = kw_clock_us();
	kw_pause_begin(&follow->pause);
	poll_when(follow, KW_FOLLOW_DUE);
	kw_reader_start(follow->reader, cursor);
}

void kw_follow_stop(struct kw_follow *follow)
{
	kw_reader_stop(follow->reader);
}

bool kw_follow_idle(const struct kw_follow *follow)
{
	return kw_reader_idle(follow->reader);
}

void kw_follow_want_superblock(struct kw_follow *follow)
{
	kw_reader_want_superblock(follow->reader);
}

void kw_follow_hurry(struct kw_follow *follow)
{
	if (!kw_follow_up(follow) || follow->polls == KW_FOLLOW_HELD)
		return;
	kw_follow_want_superblock(follow);
	kw_pause_begin(&follow->pause);
	follow->polls = KW_FOLLOW_DUE;
	follow->handlers.due(follow->handlers.arg);
}

void kw_follow_set_polling(struct kw_follow *follow, bool polling)
{
	if (!polling) {
		follow->polls = KW_FOLLOW_HELD;
	} else if (follow->polls == KW_FOLLOW_HELD) {
		kw_pause_begin(&follow->pause);
		follow->polls = KW_FOLLOW_DUE;
		follow->handlers.due(follow->handlers.arg);
	}
}

void kw_follow_set_pace(struct kw_follow *follow, uint32_t idle_us, bool busy)
{
	follow->options.idle_us = idle_us;
	follow->options.busy = busy;
	follow->options.remote.rdma.busy = busy; /* from the next connection on */
	poll_when(follow, KW_FOLLOW_DUE);
	follow->handlers.due(follow->handlers.arg);
}

void kw_follow_resume(struct kw_follow *follow)
{
	if (kw_follow_up(follow))
		kw_reader_resume(follow->reader);
}

uint64_t kw_follow_received(const struct kw_follow *follow)
{
	return follow->received + (follow->remote ? kw_remote_received(follow->remote) : 0);
}

void kw_follow_report(struct kw_follow *follow, const struct kw_remote_progress *progress)
{
	if (kw_follow_up(follow))
		kw_remote_report(follow->remote, progress);
}

static int set_proxy(struct kw_follow *follow, const char *proxy, struct kw_error *error)
{
	struct kw_address address;
	int code = kw_address_parse(proxy, &address, error);

	if (code)
		return code;
	follow->address = address;
	snprintf(follow->proxy, sizeof follow->proxy, "%s", proxy);
	return KW_OK;
}

int kw_follow_retarget(struct kw_follow *follow, const char *proxy, struct kw_error *error)
{
	int code = set_proxy(follow, proxy, error);

	if (code)
		return code;
	kw_backoff_reset(&follow->backoff);
	follow->next_us = 0;
	follow->failed = KW_E_STATE;
	if (!follow->remote || is(follow, KW_FOLLOW_CLOSING))
		return KW_OK;
	set_why(follow, KW_E_STATE, "leaving for the new address");
	leave(follow);
	return KW_OK;
}

void kw_follow_set_key(struct kw_follow *follow, const char *id, struct kw_slice secret)
{
	snprintf(follow->options.remote.key_id, sizeof follow->options.remote.key_id, "%s", id);
	follow->options.remote.secret = secret;
	follow->key++;
	/* The earlier key might be why there is no connection. */
	kw_backoff_reset(&follow->backoff);
	follow->next_us = 0;
}

void kw_follow_close(struct kw_follow *follow)
{
	kw_reader_stop(follow->reader);
	uv_poll_stop(&follow->timer);
	assert(!is(follow, KW_FOLLOW_CLOSING));
	kw_sm_move(&follow->sm, KW_FOLLOW_CLOSING, "");
	/* The connection goes first: every READ must be told back before the reader is freed. */
	if (follow->remote)
		kw_remote_close(follow->remote);
	else
		uv_close((uv_handle_t *)&follow->timer, on_timer_closed);
}

static struct kw_reader *new_reader(struct kw_follow *follow)
{
	const struct kw_reader_options options = {
		.depth = follow->options.remote.depth,
		.ahead = follow->options.ahead,
	};
	const struct kw_reader_driver driver = {
		.superblock = on_superblock,
		.pass_done = on_pass_done,
		.look_done = on_look_done,
		.failed = on_failed,
		.arg = follow,
	};
	const struct kw_reader_io io = kw_reads_reader_io(&follow->reads);
	struct kw_reader *reader = kw_reader_new(&options, &io, &follow->sink);

	kw_reader_set_driver(reader, &driver);
	return reader;
}

int kw_follow_init(struct kw_follow *follow, const char *proxy,
	const struct kw_follow_options *options, const struct kw_follow_handlers *handlers,
	const struct kw_reader_sink *sink, struct kw_error *error)
{
	int code;

	*follow = (struct kw_follow){
		.options = *options,
		.handlers = *handlers,
		.sink = *sink,
	};
	code = set_proxy(follow, proxy, error);
	if (code)
		return code;
	follow->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (follow->timer_fd < 0)
		return kw_error_errno(error, errno, "timerfd_create");
	code = uv_poll_init(options->loop, &follow->timer, follow->timer_fd);
	if (code != 0) {
		close(follow->timer_fd);
		return kw_error_errno(error, -code, "the timer cannot be watched");
	}
	kw_reads_init(&follow->reads, connection, follow);
	kw_regions_init(&follow->regions, &follow->superblock);
	follow->reads.lost = on_lost;
	follow->reader = new_reader(follow);
	kw_backoff_init(&follow->backoff, BACKOFF_LOWEST_MS, BACKOFF_HIGHEST_MS);
	set_why(follow, KW_E_IO, "not connected yet");
	kw_sm_init(&follow->sm, &machine, follow, KW_FOLLOW_DOWN);
	follow->timer.data = follow;
	uv_poll_start(&follow->timer, UV_READABLE, on_timer);
	return KW_OK;
}
