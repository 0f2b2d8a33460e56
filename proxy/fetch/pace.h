/*
 * The pace: how much of the primary's time fetching may take. Pure; time and measurements are
 * handed in.
 *
 *   others idle ──▶ FREE: no limit                     primary's time, at saturation:
 *   others busy, time left ──▶ up to 85 % in all       |others ··················|ours = share|
 *   saturated ──▶ halved each look, down to share
 *
 * The share binds only while other clients want the primary's time. A look compares two moments:
 * the CPU time of the server's main thread, and what our commands took of it. The server counts the
 * microseconds of each command (INFO commandstats), but not those for reading, parsing and
 * answering it. That part is learnt from looks in which the server was at work and hardly any
 * command but ours ran. Then all of the CPU time was for us. (A server at rest teaches nothing: its
 * timers and wakeups would be taken for the cost of the few keys that an audit fetches, ten times
 * what a key costs among many.)
 *
 * The primary is saturated if its main thread runs, or is ready to run and has no core, for 90 % of
 * the time: it could not do more for others. If its waiting is not known, use fetch latency: others
 * use the primary, and our fetches wait far longer than our own work explains.
 *
 * A bucket of microseconds enforces the share: it fills as allowed, and every key spends from it.
 * Once empty, it is spent from again when it is half full. Each look corrects the cost of a key,
 * and the bucket: what was spent too little is owed.
 *
 * The caller owns the struct. One thread.
 */
#ifndef KW_PROXY_FETCH_PACE_H
#define KW_PROXY_FETCH_PACE_H

#include <stdbool.h>
#include <stdint.h>

#define KW_PACE_LOOK_US UINT64_C(100000)       /* from look to look while much is fetched */
#define KW_PACE_IDLE_LOOK_US UINT64_C(1000000) /* … while little is */
#define KW_PACE_LOAD_US UINT64_C(3000000)      /* an older look tells nothing of the load */
#define KW_PACE_BURST_US 10000.0               /* what is saved up at most, in time as allowed */
#define KW_PACE_OWED_US 100000.0               /* what is owed at most, in the primary's time */
#define KW_PACE_BUSY_MOST 0.9     /* from here on, waiting included, the primary is saturated */
#define KW_PACE_BUSY_AIM 0.85     /* as far as time is taken that is left over */
#define KW_PACE_BUSY_SPARE 0.75   /* below, a primary that was saturated has time left again */
#define KW_PACE_OTHERS_LEAST 0.05 /* less of what it runs: no other client wants its time */
#define KW_PACE_WAIT_US 500.0     /* a shorter wait is ignored */

/*
 * A reconcile must end. So one more key is allowed after this long, or after four times its cost,
 * however little is allowed otherwise.
 */
#define KW_PACE_PATIENCE_US UINT64_C(20000)

/* What the server has counted up to a moment. */
struct kw_pace_counts {
	uint64_t cpu_us;      /* CPU time of its main thread */
	uint64_t wait_us;     /* that thread was ready to run and had no core; 0: not known */
	uint64_t usec;        /* of all commands, by the clock: waiting within them included */
	uint64_t calls;       /* of all commands */
	uint64_t ours_usec;   /* of the commands that fetching uses, ours and others' */
	uint64_t ours_calls;  /* … */
	uint64_t looks_usec;  /* of commands that only look (INFO, PING): not keys', not others' */
	uint64_t looks_calls; /* … */
	uint64_t dumps;       /* of them DUMP: we know how many of these were ours */
};

/* What the primary has left for others, as far as it is known. */
enum kw_pace_load {
	KW_PACE_UNKNOWN,   /* no two looks of late could be compared */
	KW_PACE_SPARE,     /* it has time left */
	KW_PACE_SATURATED, /* it could not do more, and not much time was left since */
};

struct kw_pace_report {
	double target;  /* the share that is configured */
	double taken;   /* part of the primary's time that our fetching took at the last look */
	double busy;    /* part of the time that the primary's main thread was busy */
	double waiting; /* part of the time that it was ready to run and had no core */
	double allowed; /* part of its time that fetching may take now; 1: all */
	double key_us;  /* what one key costs the primary */
	double cost_us; /* what fetching and looking has cost it since the start, CPU time */
	bool holding;   /* keys had to wait for the pace since the look before the last */
};

/* SAVING: the tokens ran out, and keys wait until there are enough for a batch of them. */
enum kw_pace_tokens { KW_PACE_SPENDING, KW_PACE_SAVING };

struct kw_pace {
	double share;
	double allowed;
	double key_us, overhead_us; /* a key; a command besides its own microseconds */
	double tokens_us;
	enum kw_pace_tokens state;
	uint64_t filled_us;
	uint64_t allowed_us; /* when a key was allowed last */

	struct kw_pace_counts counts; /* of the last look; no calls: there is nothing to compare */
	uint64_t looked_us, asked_us;
	uint64_t keys, answered; /* since the last look */
	double cost_us;          /* of fetching and looking, since the start */
	double spent_us;         /* … in tokens */
	uint32_t refusals;       /* … a key had to wait */
	double waits_us, least_wait_us;
	uint32_t waits;
	double taken, busy, waiting; /* of the last look */
	uint32_t refusals_before;    /* between the last look and the one before */
	enum kw_pace_load load;      /* as of the last look */
};

/* share: 0 to 1; 1 means no limit. */
void kw_pace_init(struct kw_pace *pace, double share, uint64_t now_us);
void kw_pace_set_share(struct kw_pace *pace, double share);

/* Another connection, perhaps another server: there is nothing to compare its counters with. */
void kw_pace_forget(struct kw_pace *pace);

/* May one more key be asked for? A no is remembered: keys wait. */
bool kw_pace_allows(struct kw_pace *pace, uint64_t now_us);

/* When it allows again; now_us when it does already. */
uint64_t kw_pace_ready_us(const struct kw_pace *pace, uint64_t now_us);

/* A key was asked for; its value (or that it has none) came. */
void kw_pace_asked(struct kw_pace *pace);
void kw_pace_answered(struct kw_pace *pace);

/* One fetch took so long, with so many unanswered fetches of ours before it. */
void kw_pace_waited(struct kw_pace *pace, uint64_t us, uint32_t ahead);

/* Is it time for a look? Once true, it is false until the next one is due. */
bool kw_pace_due(struct kw_pace *pace, uint64_t now_us);

void kw_pace_look(struct kw_pace *pace, const struct kw_pace_counts *counts, uint64_t now_us);

/*
 * Has the primary time to spare? Once saturated, it has none until it is busy for less than
 * KW_PACE_BUSY_SPARE. After KW_PACE_LOAD_US without a look this is unknown: with a share of 1, no
 * look is needed while little is fetched.
 */
enum kw_pace_load kw_pace_load(const struct kw_pace *pace, uint64_t now_us);

/*
 * May a feed read later what comes, so that the primary need not wake it so often? Not if the
 * primary has time to spare. If its load is not known yet, a look will tell soon: until then lag
 * counts for more. If nobody looks, because the share is 1, it may be saturated.
 */
bool kw_pace_lets_wait(const struct kw_pace *pace, uint64_t now_us);

void kw_pace_report(const struct kw_pace *pace, struct kw_pace_report *report);

#endif
