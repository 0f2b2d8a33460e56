/*
 * A switch-over under way: the steps of the plan, done.
 *
 * The caller owns the struct. One thread.
 */
#ifndef KW_CTL_SWITCHOVER_RUN_H
#define KW_CTL_SWITCHOVER_RUN_H

#include "ctl/switchover/plan.h"
#include "ctl/switchover/sites.h"

#define KW_SWITCHOVER_DETAIL 160
#define KW_SWITCHOVER_RUN_ID 64

struct kw_switchover_options {
	const char *fence_command; /* NULL: the old proxy is asked */
	const char *address;       /* of the new proxy, for agents; NULL: not given */
	int64_t audit_age;         /* seconds; -1: verify */
	double hold_s, timeout_s;
};

/* fence.h. All are 0 while there is none. */
struct kw_switchover_fence {
	double seconds;    /* how long it stands without a renewal */
	uint64_t until_us; /* monotonic */
	uint64_t renew_us; /* … and when it is renewed; 0: its first closing was not acknowledged */
	char run_id[KW_SWITCHOVER_RUN_ID]; /* of the primary that has it */
	double changes, saved_s;           /* that it had counted at the last answer */
	double events;                     /* from it, as its proxy counts */
	double since_last; /* changes since the last fence before this one; -1: not known */
	bool proven;       /* no change is without an event, as far as the old proxy knows */
};

/* lock.h. All are 0 while there is none. */
struct kw_switchover_lock {
	struct kw_rpc_client *client; /* the lock ends with this connection */
	json_int_t token;
	uint64_t renew_us; /* monotonic */
};

struct kw_switchover_locks {
	struct kw_switchover_lock from, to;
};

struct kw_switchover {
	struct kw_switchover_options options;
	struct kw_sites sites;
	struct kw_switchover_facts facts;
	struct kw_switchover_start start;
	struct kw_sm sm;
	struct kw_switchover_fence fence;
	struct kw_switchover_locks locks;
	char detail[KW_SWITCHOVER_DETAIL]; /* what the step that was done last found */
};

/*
 * Do what leads to this state. KW_E_REFUSED: a daemon said no. KW_E_TIMEOUT: it took too long.
 * KW_E_STATE: interrupted.
 */
int kw_switchover_do(
	struct kw_switchover *run, enum kw_switchover_state state, struct kw_error *error);

/* Before PREFLIGHT with start.give_back: the old primary has its term again, and the agent is warm.
 */
int kw_switchover_give_back(struct kw_switchover *run, struct kw_error *error);

/* The step to this state failed: writes go on. Its own failure is a sentence in detail. */
void kw_switchover_undo(struct kw_switchover *run, enum kw_switchover_state state);

/* The end of a step that begins now (monotonic): --timeout. */
uint64_t kw_switchover_timeout_us(const struct kw_switchover *run);

/*
 * Between two looks: nap, and keep the locks and the fence. KW_E_TIMEOUT: the deadline (monotonic)
 * has come. KW_E_STATE: interrupted, or one of these is lost.
 */
int kw_switchover_go_on(struct kw_switchover *run, uint64_t deadline_us, struct kw_error *error);

/* Ctrl-C and SIGTERM end the step under way, so that it is undone. */
void kw_switchover_catch_signals(void);

#endif
