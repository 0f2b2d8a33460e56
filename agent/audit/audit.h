/*
 * The audit: walks the table and the local keys without end, compares them, and mends what differs.
 *
 *   ┌──────┐ the agent is level ┌───────┐ every entry is settled ┌───────┐ every key is ┌──────┐
 *   │ IDLE │───────────────────▶│ TABLE │───────────────────────▶│ LOCAL │─────────────▶│ REST │
 *   └──────┘                    └───────┘                        └───────┘   settled    └──────┘
 *      ▲                            ▲  ▲                             │                      │
 *      │ no longer level, paused,   │  └────── a cause, see cause.h ─┘ (in full speed)      │
 *      │ or a connection is lost    └───────────────── after a pause, or a cause ───────────┘
 *      └── from each of these
 *
 * TABLE walks the index by hash (table/walk.h) and compares each key with DUMP and PEXPIRETIME of
 * the local server, over a connection of its own. LOCAL walks the local keys by SCAN and asks the
 * index whether the table has them. No set of keys is kept.
 *
 * A key that differs becomes a suspect (suspects.h), and is looked at again. What is confirmed goes
 * to the agent's own applier, in order, as if the table's log had brought it. The table is the
 * truth: a value is put, a local key that the table lacks is deleted. A change of that key that the
 * log brings meanwhile wins.
 *
 * Pace: apply.audit_keys_per_second; a large value counts as several keys. After a cause a round
 * runs at once, at full speed, for half of the time. Loop thread only.
 */
#ifndef KW_AGENT_AUDIT_AUDIT_H
#define KW_AGENT_AUDIT_AUDIT_H

#include "cause.h"
#include "follow/follow.h"
#include "keys/filter.h"
#include "keys/quarantine.h"
#include "local/local.h"
#include "sync/sync.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

enum kw_audit_state {
	KW_AUDIT_IDLE,
	KW_AUDIT_TABLE,
	KW_AUDIT_LOCAL,
	KW_AUDIT_REST,
	KW_AUDIT_CLOSING,
};

/* In which way a local key differed. */
enum kw_audit_kind { KW_AUDIT_DIFFERENT, KW_AUDIT_MISSING, KW_AUDIT_EXTRA, KW_AUDIT_KINDS };

#define KW_AUDIT_REFUSAL 256

struct kw_audit_options {
	uv_loop_t *loop;
	struct kw_sync *sync;     /* outlives the audit, and all that it works with */
	uint64_t keys_per_second; /* 0: off */
};

struct kw_audit_report {
	const char *state;
	uint64_t rounds;
	uint64_t compared; /* keys of the table */
	uint64_t found[KW_AUDIT_KINDS], mended[KW_AUDIT_KINDS];
	uint64_t unsettled; /* keys that changed at each look, and were left to the log */
	uint64_t causes;
	uint64_t proven_us; /* age of the oldest comparison; UINT64_MAX: not all was compared */
	uint64_t unmended;
};

struct kw_audit;

struct kw_audit *kw_audit_new(const struct kw_audit_options *options);

/* done is called from the loop, and the audit is freed. */
void kw_audit_close(struct kw_audit *audit, void (*done)(void *arg), void *arg);

/* Call it each 50 ms or so. */
void kw_audit_tick(struct kw_audit *audit);

void kw_audit_set_rate(struct kw_audit *audit, uint64_t keys_per_second);

/*
 * The facts of the local server were read: at first, and again. If the audit is off, one cause is
 * known all the same (KW_CAUSE_RESET), and a reconcile follows. And before the first: these are
 * other data than before.
 */
void kw_audit_looked(struct kw_audit *audit);
void kw_audit_forget(struct kw_audit *audit);

/*
 * Something says that many local keys may differ: a whole round follows, and the agent is not warm
 * before it is over. False: the audit is off, and nothing follows.
 */
bool kw_audit_urge(struct kw_audit *audit, enum kw_cause cause, uint64_t now_us);

/*
 * While one of these says something, the agent must not be warm: keys known to differ now, being
 * mended or not to be mended; why a whole round must be gone before the data count as equal.
 */
uint64_t kw_audit_unmended(const struct kw_audit *audit);
enum kw_cause kw_audit_cause(const struct kw_audit *audit);

/*
 * So much a cursor that is written now must not speak for: keys that differ, one for a cause, and
 * one for what may become a cause within seconds.
 */
uint64_t kw_audit_doubted(const struct kw_audit *audit);

/*
 * What follows from the cause, as the end of its sentence; or why the round does not go on until a
 * person mends that.
 */
const char *kw_audit_remedy(const struct kw_audit *audit);

void kw_audit_report(const struct kw_audit *audit, uint64_t now_us, struct kw_audit_report *report);

#endif
