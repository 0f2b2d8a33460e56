/*
 * The agent: a follower of one proxy beside one local server.
 *
 *   proxy's table ──follow──▶ sync ──apply──▶ local server
 *                                └──progress──▶ state, status, cursor, reports to the proxy
 *
 * The state is what an operator wants to know. It follows from facts about the parts (judge.h):
 *
 *   ┌────────────┐     ┌───────────────┐     ┌──────┐  behind, paused,   ┌─────────┐
 *   │ CONNECTING │────▶│ BOOTSTRAPPING │────▶│ WARM │◀─────────────────▶│ LAGGING │
 *   └────────────┘     └───────────────┘     └──────┘  quarantine, full  └─────────┘
 *      ▲   │                  ▲                ▲ │
 *      │   │           ┌─────────────┐         │ │ lapsed, flushed by others
 *      │   └──────────▶│ RECONCILING │─────────┘ │
 *      │               └─────────────┘◀──────────┘
 *   from every state:  CONNECTING (proxy or local server lost), STALLED (heartbeat stopped, the
 *   proxy's primary is down), HELD (deletions wait for approval), FAILED (only a person can mend
 *   it; the reason says how).
 *   WARM is never entered straight from FAILED.
 *
 * WARM means: within the last warm.lag_ms there was a moment at which the local data were equal to
 * the newest version that the proxy had published. All of it is acknowledged, no key is in
 * quarantine, none is known to differ, and none is left to be pruned. The proxy itself is complete,
 * live, and lags its primary by at most warm.lag_ms. Loop thread only.
 */
#ifndef KW_AGENT_AGENT_H
#define KW_AGENT_AGENT_H

#include "audit/audit.h"
#include "follow/scouts.h"
#include "functions/functions.h"
#include "judge.h"
#include "keys/filter.h"
#include "keys/quarantine.h"
#include "load/pair.h"
#include "local/local.h"
#include "sync/sync.h"

#include "base/sm.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#define KW_AGENT_REASON 640

struct kw_agent_options {
	struct kw_proxies proxies;
	struct kw_follow_options follow; /* loop filled in by kw_agent_new */
	struct kw_local_options local;   /* loop and filter filled in by kw_agent_new */
	const struct kw_mode *mode;
	char listen[128];           /* apply.replica.listen, checked */
	struct kw_slice masterauth; /* of apply.replica.masterauth_file; must stay in place */
	enum kw_link_tls link_tls;  /* apply.replica.tls */
	const struct kw_tls_current *link_certificates; /* outlives the agent; may hold none */
	enum kw_shutdown shutdown;                      /* apply.on_shutdown */
	uint64_t window_bytes;
	uint64_t bytes_per_second; /* apply.bytes_per_second; 0: no limit */
	bool consent;
	enum kw_foreign foreign;
	double max_prune; /* apply.max_prune, 0 to 1 */
	uint32_t warm_lag_ms;
	uint64_t audit_keys_per_second; /* 0: no audit */
	bool index;                     /* apply.index */
	bool functions;                 /* apply.functions */
	struct kw_filter filter;        /* taken over */
};

struct kw_agent_handlers {
	/* The state or its reason changed. */
	void (*state)(void *arg, const char *state, const char *reason);
	/* kw_agent_close is done and the agent freed. */
	void (*closed)(void *arg);
	void *arg;
};

/*
 * How it ends. Each step is taken as far as its time allows; then the next one follows, also after
 * a failure.
 *
 *   ┌─────┐ kw_agent_close ┌───────┐    ┌──────┐    ┌───────┐    ┌───────┐
 *   │ RUN │───────────────▶│ DRAIN │───▶│ SAVE │───▶│ LEAVE │───▶│ CLOSE │ handlers.closed
 *   └─────┘                └───────┘    └──────┘    └───────┘    └───────┘
 *             what was handed on    the cursor   the server is left   handles and
 *             is acknowledged       is written   as configured        connections
 */
enum kw_agent_life {
	KW_LIFE_RUN,
	KW_LIFE_DRAIN,
	KW_LIFE_SAVE,
	KW_LIFE_LEAVE,
	KW_LIFE_CLOSE,
};

struct kw_agent {
	uv_loop_t *loop;
	struct kw_agent_handlers handlers;
	struct kw_filter filter;
	struct kw_quarantine quarantine;
	struct kw_follow follow;
	struct kw_scouts scouts; /* of the other proxies, if there are several */
	struct kw_local local;
	struct kw_pair *pair;
	struct kw_sync sync;
	struct kw_audit *audit;
	struct kw_functions functions;
	struct kw_sm sm;
	char reason[KW_AGENT_REASON];
	enum kw_reason cause; /* of the state */
	uint64_t started_us;

	uv_timer_t tick;
	uv_check_t turn; /* after the poll of a loop turn: one step for all that happened in it */
	uv_idle_t awake; /* active while a step is wanted: the loop does not sleep before it */

	struct kw_remote_progress reported;
	uint64_t reported_us;

	struct kw_sm life; /* enum kw_agent_life */
	uint64_t until_us; /* DRAIN, SAVE, LEAVE: no longer than that */
	int open;          /* parts and handles not yet closed */
};

/*
 * options->filter is taken over. KW_E_CONFIG: a proxy's address is not valid. Then nothing was
 * opened, and the filter stays with the caller.
 */
int kw_agent_new(uv_loop_t *loop, struct kw_agent_options *options,
	const struct kw_agent_handlers *handlers, struct kw_agent **agent, struct kw_error *error);

/*
 * Begin the end. DRAIN and SAVE together have KW_AGENT_DRAIN_MS. They do not wait for changes that
 * a load of the server delays. LEAVE has KW_AGENT_LEAVE_MS more. handlers.closed follows from the
 * loop, and then the agent is freed. A second call does nothing.
 */
#define KW_AGENT_DRAIN_MS 5000
#define KW_AGENT_LEAVE_MS 5000
void kw_agent_close(struct kw_agent *agent);

/*
 * What these ask for is done in the next step. kw_agent_step takes one at once, so that the state
 * is that of afterwards. From the loop, and not from within a handler of the agent.
 */
void kw_agent_step(struct kw_agent *agent);
void kw_agent_pause(struct kw_agent *agent, bool paused);
void kw_agent_resync(struct kw_agent *agent, const char *why);
/* As kw_sync_approve; and if nothing waits there, as kw_functions_approve. */
int kw_agent_approve(struct kw_agent *agent, char finding[KW_SYNC_WHY], struct kw_error *error);
/* As kw_follow_set_key. */
void kw_agent_set_key(struct kw_agent *agent, const char *id, struct kw_slice secret);
/* As kw_scouts_retarget; and for one proxy. */
int kw_agent_set_proxies(
	struct kw_agent *agent, const struct kw_proxies *proxies, struct kw_error *error);
int kw_agent_retarget(struct kw_agent *agent, const char *proxy, struct kw_error *error);
void kw_agent_set_window(struct kw_agent *agent, uint64_t bytes);
void kw_agent_set_limit(struct kw_agent *agent, uint64_t bytes_per_second);
void kw_agent_set_shutdown(struct kw_agent *agent, enum kw_shutdown shutdown);
/*
 * Promote the local server when the agent is closed, which should follow. Agents then leave the
 * server alone until resync. KW_E_STATE: there is nothing to promote, and nothing was changed.
 */
int kw_agent_promote(struct kw_agent *agent, struct kw_error *error);
void kw_agent_set_max_prune(struct kw_agent *agent, double share);
void kw_agent_set_audit_rate(struct kw_agent *agent, uint64_t keys_per_second);
void kw_agent_set_foreign(struct kw_agent *agent, enum kw_foreign foreign);
void kw_agent_set_warm_lag(struct kw_agent *agent, uint32_t warm_lag_ms);
void kw_agent_set_pace(struct kw_agent *agent, uint32_t idle_us, bool busy);

/* state.c: judge the state, move to it, tell the owner, and report to the proxy. */
void kw_agent_evaluate(struct kw_agent *agent, uint64_t now_us);
/*
 * Call this before the state is answered to a client. Data that came in with the question are
 * judged only by the next step, and then the agent might no longer be warm. Any other state stays
 * as it is: only a whole step makes the agent warm.
 */
void kw_agent_doubt(struct kw_agent *agent, uint64_t now_us);
extern const struct kw_sm_conf kw_agent_machine;

static inline bool kw_agent_runs(const struct kw_agent *agent)
{
	return agent->life.state == KW_LIFE_RUN;
}

/*
 * How far the local data lag the primary: the time since the oldest head that is not applied was
 * seen, and the proxy's own lag. It is 0 when all is applied and the proxy keeps up. It grows while
 * the primary or the proxy is gone. KW_LEVEL_LAG_UNKNOWN: the proxy does not know its own.
 */
uint64_t kw_agent_lag_us(const struct kw_agent *agent, uint64_t now_us);
uint64_t kw_agent_source_lag_us(const struct kw_agent *agent, uint64_t now_us);

/* 0..1: how much of the data is there; 1 only when level. */
double kw_agent_progress(const struct kw_agent *agent);

/* How a mode writes to the local server. */
enum kw_local_manner kw_agent_manner(const struct kw_mode *mode);

#endif
