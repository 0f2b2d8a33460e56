/*
 * Following the proxy's table: the connection, the reader that uses it, and when to poll.
 *
 *   ┌──────┐ backoff over ┌────────────┐ handshake ┌────┐
 *   │ DOWN │─────────────▶│ CONNECTING │──────────▶│ UP │
 *   └──────┘              └────────────┘           └────┘
 *     ▲ ▲ ▲    failed          │  │      lost        │ │
 *     │ │ └────────────────────┘  │                  │ │
 *     │ └─────────────────────────┼──────────────────┘ │
 *     │                  retarget ▼                    │ retarget, another key,
 *     │          closed    ┌─────────┐                 │ a READ failed, bad table
 *     └────────────────────│ LEAVING │◀────────────────┘
 *                          └─────────┘
 *
 *   each of these ──kw_follow_close──▶ CLOSING ──connection and timer closed──▶ CLOSED
 *
 * While UP the reader polls back to back as long as data flows. Then the pauses grow, up to a part
 * of the time in which changes come, and to idle_us if none come (pause.h). Most polls look at the
 * tail of the log alone. One poll in a few reads the superblock, and each poll does so when polls
 * are far apart.
 *
 * Over shm this module sleeps in place of a pause that is long: the proxy wakes it when there is
 * something new. It looks now and then all the same (KW_FOLLOW_ASLEEP_US).
 *
 * The reader does not read the superblock while it is idle, in a long snapshot, or held. Then this
 * module reads it by itself each PROBE_INTERVAL_US (a probe): heartbeat, versions and the state of
 * the source stay known. A probe also reads the history of the data if the superblock names another
 * one. The superblock counts as known only together with its history. Over rdma it also learns
 * where the memory is now (regions.h).
 *
 * The reader hands what it finds to the owner's sink directly. The superblock that the sink is told
 * can be older than follow->superblock, which can come from an earlier probe. Loop thread only.
 */
#ifndef KW_AGENT_FOLLOW_FOLLOW_H
#define KW_AGENT_FOLLOW_FOLLOW_H

#include "base/backoff.h"
#include "base/sm.h"
#include "pause.h"
#include "reads.h"
#include "regions.h"
#include "remote/remote.h"
#include "table/reader.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

/* If the heartbeat did not move for so long, it has stopped: the proxy hangs. */
#define KW_FOLLOW_HEARTBEAT_US 2000000
/* For a table with a mandate it can be less, down to this. The proxy's heartbeats are 100 ms apart.
 */
#define KW_FOLLOW_MANDATE_LEAST_US 200000

/* Below the time after which the superblock is read by a probe, so that none is needed. */
#define KW_FOLLOW_ASLEEP_US 90000
/* A pause so long is slept, or one of half of idle_us. A wake costs as much as some looks. */
#define KW_FOLLOW_SLEEP_FROM_US 100

#define KW_FOLLOW_WHY 512
#define KW_PROXY_ADDRESS 512

enum kw_follow_state {
	KW_FOLLOW_DOWN, /* no connection; kw_follow_tick opens one from next_us on */
	KW_FOLLOW_CONNECTING,
	KW_FOLLOW_UP,
	KW_FOLLOW_LEAVING, /* this side closes the connection; `why` says the reason */
	KW_FOLLOW_CLOSING, /* kw_follow_close was called */
	KW_FOLLOW_CLOSED,
};

/* When the next poll comes. */
enum kw_follow_polls {
	KW_FOLLOW_HELD,  /* the owner wants none */
	KW_FOLLOW_WAITS, /* when the timer fires, or what is under way ends */
	KW_FOLLOW_DUE,   /* in the next kw_follow_step in which the reader waits */
};

struct kw_follow_options {
	uv_loop_t *loop;
	struct kw_remote_options remote;
	uint32_t idle_us;   /* longest pause between polls */
	uint32_t asleep_us; /* … while the proxy would wake this end; 0: it is not asked to */
	bool busy;          /* no pause at all */
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
	struct kw_sm sm;            /* of enum kw_follow_state */
	struct kw_remote_info info; /* depth 0: this connection has not come up */
	struct kw_backoff backoff;
	uint64_t next_us;  /* DOWN: connect then */
	uint64_t key;      /* which key is proved from now on: they are counted */
	uint64_t key_used; /* … and which one was by this connection */
	uint64_t reconnects, wakes;
	uint64_t received;       /* by connections that have ended: see kw_follow_received */
	enum kw_code code;       /* of why; KW_OK while UP */
	enum kw_code failed;     /* of the last failure, until a superblock came; KW_OK: it has */
	char why[KW_FOLLOW_WHY]; /* why the link is, or was last, down */

	struct kw_superblock probe_superblock;  /* a probe reads into it */
	struct kw_history_record probe_history; /* and into this, if the superblock names another */
	struct kw_remote_read probe_read;
	uint64_t probed_us; /* when the probe that is out began; 0: none is out */
	uint64_t probe_us;  /* when the READ of its superblock began */
	struct kw_regions regions;

	struct kw_superblock superblock; /* newest known; epoch 0: none of this connection */
	uint64_t superblock_us;          /* when it came, … */
	uint64_t superblock_begun_us;    /* … and when the READ that brought it began */
	struct kw_history history;       /* the one that the superblock names */
	int64_t skew_us; /* how far the proxy's wall clock is ahead of ours; see learn_skew */
	int64_t skew_best_us, skew_before_us; /* of this window, and the one before */
	uint64_t skew_window_us;              /* when it began */
	uint64_t heartbeat_us;                /* our clock when its heartbeat last moved */
	uint64_t heartbeat_begun_us; /* … and when the READ that showed it began: an answer can come
					late */

	uv_poll_t timer;
	int timer_fd;
	enum kw_follow_polls polls;
	struct kw_pause pause;
	uint32_t armed_us;  /* what the timer is set to; 0: not at all */
	uint64_t begun_us;  /* our clock when the present or last poll began */
	uint64_t passed_us; /* the same of the last one that read the superblock */
};

/* KW_E_CONFIG: proxy is no address. Nothing was opened then. */
int kw_follow_init(struct kw_follow *follow, const char *proxy,
	const struct kw_follow_options *options, const struct kw_follow_handlers *handlers,
	const struct kw_reader_sink *sink, struct kw_error *error);

/* Another proxy from now on; the present connection ends. KW_E_CONFIG: nothing changed. */
int kw_follow_retarget(struct kw_follow *follow, const char *proxy, struct kw_error *error);

/*
 * Another key is proved from now on; its secret is the caller's memory until the next call or the
 * end. A connection that proved an earlier key ends as soon as the reader is between two passes, so
 * that a snapshot is not begun anew. The next one resumes.
 */
void kw_follow_set_key(struct kw_follow *follow, const char *id, struct kw_slice secret);

/* Once. handlers.closed follows from the loop. */
void kw_follow_close(struct kw_follow *follow);

/* Does the proxy ask Sentinel, or an operator, whether its server is the primary? */
static inline bool kw_follow_asks_mandate(const struct kw_follow *follow)
{
	return follow->history.mandate != KW_MANDATE_NONE;
}

/* Connected, and this side is not leaving. */
static inline bool kw_follow_up(const struct kw_follow *follow)
{
	return follow->sm.state == KW_FOLLOW_UP;
}

/*
 * Is there no table, for a reason that a person must remove? Also while it is tried again. *code
 * (may be NULL) is then that of the reason: KW_E_REFUSED, KW_E_PROTOCOL or KW_E_CONFIG.
 */
bool kw_follow_is_hopeless(const struct kw_follow *follow, enum kw_code *code);

/* Connect, probe: what is due by the clock. */
void kw_follow_tick(struct kw_follow *follow, uint64_t now_us);

/*
 * Read the superblock now, unless a probe is out; the sink is told. For an owner that wants it
 * newer than kw_follow_tick keeps it. Only while up.
 */
void kw_follow_look(struct kw_follow *follow, uint64_t now_us);

/* Poll if it is due. Not from within a callback of the reader. */
void kw_follow_step(struct kw_follow *follow, uint64_t now_us);

/* Start the reader: while UP, and when it is idle. NULL: a snapshot. */
void kw_follow_start(struct kw_follow *follow, const struct kw_cursor *cursor);
void kw_follow_stop(struct kw_follow *follow);
bool kw_follow_idle(const struct kw_follow *follow);

/* The next poll reads the superblock. */
void kw_follow_want_superblock(struct kw_follow *follow);

/* So it does, and comes at once; after it the pauses begin anew. While up, and not held. */
void kw_follow_hurry(struct kw_follow *follow);

/* Does it sleep in place of long pauses, and the proxy wakes it? */
bool kw_follow_is_woken(const struct kw_follow *follow);

/* May the reader begin passes? Held at first. */
void kw_follow_set_polling(struct kw_follow *follow, bool polling);
void kw_follow_set_pace(struct kw_follow *follow, uint32_t idle_us, bool busy);

/* The sink has room again. */
void kw_follow_resume(struct kw_follow *follow);

/* As kw_remote_received, of all connections. */
uint64_t kw_follow_received(const struct kw_follow *follow);

void kw_follow_report(struct kw_follow *follow, const struct kw_remote_progress *progress);

#endif
