/*
 * Following the proxy's table: the carrier's connection, the reader behind it, and when to poll.
 *
 *   ┌──────┐ backoff ┌────────────┐ handshake ┌────┐  the reader is IDLE, or at work
 *   │ DOWN │────────▶│ CONNECTING │─────────▶│ UP │  polls: back to back while data flows, then
 *   └──────┘         └────────────┘           └────┘  50 µs, 100 µs, … up to idle_us
 *      ▲                   │ failed              │ lost, or the reader failed
 *      └───────────────────┴─────────────────────┘                 (pause.h)
 *
 * Most polls look at the tail of the log alone; the superblock comes with one in a few, and with
 * each when polls are far apart.
 * While the reader does not ask for the superblock itself (idle, in a long snapshot, polling held)
 * this does, every PROBE_INTERVAL: heartbeat, state of the source and versions stay known.
 * The reader hands what it finds to the owner's sink directly. The sink's superblock may be older
 * than follow->superblock, which a probe may have brought before. Loop thread only.
 */
#ifndef KW_AGENT_FOLLOW_FOLLOW_H
#define KW_AGENT_FOLLOW_FOLLOW_H

#include "base/backoff.h"
#include "reads.h"
#include "remote/remote.h"
#include "table/reader.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

/* A heartbeat that did not move for so long has stopped: the proxy hangs. */
#define KW_FOLLOW_HEARTBEAT_US 2000000

#define KW_FOLLOW_WHY 512
#define KW_PROXY_ADDRESS 512

enum kw_link { KW_LINK_DOWN, KW_LINK_CONNECTING, KW_LINK_UP };

struct kw_follow_options {
	uv_loop_t *loop;
	struct kw_remote_options remote;
	uint32_t idle_us; /* longest pause between polls */
	bool busy;        /* no pause at all */
	enum kw_ahead ahead;
};

struct kw_follow_handlers {
	void (*link)(void *arg, bool up);
	void (*due)(void *arg);    /* kw_follow_step wants to be called this loop turn */
	void (*closed)(void *arg); /* kw_follow_close is done */
	void *arg;
};

struct kw_follow {
	struct kw_follow_options options;
	struct kw_follow_handlers handlers;
	struct kw_reader_sink sink;
	char proxy[KW_PROXY_ADDRESS];
	struct kw_address address;
	struct kw_reads reads; /* the reader's */
	struct kw_reader *reader;
	struct kw_remote *remote;
	enum kw_link link;
	struct kw_remote_info info;
	struct kw_backoff backoff;
	uint64_t next_us; /* DOWN: connect then */
	bool leaving;     /* the connection is being closed, by us */
	bool closing;
	uint64_t reconnects;
	enum kw_code code;       /* of why; KW_OK while UP */
	char why[KW_FOLLOW_WHY]; /* why the link is, or was last, down */

	struct kw_superblock probe_superblock; /* sink of the probe's READ */
	struct kw_remote_read probe_read;
	bool probing;

	struct kw_superblock superblock; /* newest known; epoch 0: none of this connection */
	uint64_t superblock_us;          /* when it came */
	int64_t skew_us; /* how far the proxy's wall clock is ahead of ours; see learn_skew */
	int64_t skew_best_us, skew_before_us; /* of this window, and the one before */
	uint64_t skew_window_us;              /* when it began */
	uint64_t heartbeat_us;                /* our clock when its heartbeat last moved */

	uv_poll_t timer;
	int timer_fd;
	bool polling; /* held otherwise */
	bool due;
	uint32_t interval_us; /* the present pause; 0: back to back */
	uint32_t armed_us;    /* what the timer is set to; 0: not at all */
	uint64_t begun_us;    /* our clock when the present, or last, look or pass began */
	uint64_t passed_us;   /* the same of the last pass: no look at the tail alone */
};

/* KW_E_CONFIG: proxy is no address. Nothing was opened then. */
int kw_follow_init(struct kw_follow *follow, const char *proxy,
	const struct kw_follow_options *options, const struct kw_follow_handlers *handlers,
	const struct kw_reader_sink *sink, struct kw_error *error);

/* Another proxy from now on; the present connection ends. KW_E_CONFIG: nothing changed. */
int kw_follow_retarget(struct kw_follow *follow, const char *proxy, struct kw_error *error);

/* handlers.closed follows from the loop. */
void kw_follow_close(struct kw_follow *follow);

/* Connected, and nothing speaks against it. */
static inline bool kw_follow_up(const struct kw_follow *follow)
{
	return follow->link == KW_LINK_UP && !follow->leaving;
}

/* Connect, probe: what is due by the clock. */
void kw_follow_tick(struct kw_follow *follow, uint64_t now_us);

/* Poll if that is due. Not from within a callback of the reader's. */
void kw_follow_step(struct kw_follow *follow, uint64_t now_us);

/* Start the reader (link UP, reader idle); NULL: a snapshot. */
void kw_follow_start(struct kw_follow *follow, const struct kw_cursor *cursor);
void kw_follow_stop(struct kw_follow *follow);
bool kw_follow_idle(const struct kw_follow *follow);

/* May the reader begin passes? Held at first. */
void kw_follow_set_polling(struct kw_follow *follow, bool polling);
void kw_follow_set_pace(struct kw_follow *follow, uint32_t idle_us, bool busy);

/* The sink has room again. */
void kw_follow_resume(struct kw_follow *follow);

void kw_follow_report(struct kw_follow *follow, const struct kw_remote_progress *progress);

#endif
