/*
 * One inspection run: the whole table is read once, by a reader of its own over the agent's
 * connection to the proxy. Export and verify are such runs; this is what both share.
 *
 *   ┌───────┐ kw_run_read ┌─────────┐ every key was seen ┌──────┐ kw_run_succeed ┌────────┐
 * ┌───────┐ │ BEGUN │────────────▶│ READING │───────────────────▶│ READ │───────────────▶│ ENDING
 * │──▶│ ENDED │ └───────┘             └─────────┘                    └──────┘ └────────┘ └───────┘
 *       └── failed, cancelled: from each of these ──────────────────────────────────▲
 *
 * A snapshot in which segments vanished is completed by a tail. If the table went past what was
 * read, it is read anew. Both are bounded; a table that changes faster fails the run.
 *
 * ENDING lasts until every READ was told back, because the carrier writes into our memory, and
 * until the owner has closed what it holds open (kw_run_hold). Loop thread only.
 */
#ifndef KW_AGENT_INSPECT_RUN_H
#define KW_AGENT_INSPECT_RUN_H

#include "base/error.h"
#include "base/sm.h"
#include "follow/reads.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

/* Reserve memory for no more keys than this, whatever the superblock says. */
#define KW_RUN_RESERVE_KEYS_MAX (UINT64_C(1) << 24)

enum kw_run_state {
	KW_RUN_BEGUN,
	KW_RUN_READING,
	KW_RUN_READ,
	KW_RUN_ENDING,
	KW_RUN_ENDED,
};

struct kw_run_options {
	const char *name; /* begins each error: "export", "verify"; static */
	uv_loop_t *loop;
	kw_reads_remote_fn remote; /* the connection to the proxy; NULL while there is none */
	void *remote_arg;
};

/* All but the last two are called in READING only, tick also in BEGUN and READ. */
struct kw_run_handlers {
	/* A snapshot begins; run->superblock is there. Again when the table is read anew. */
	void (*snapshot)(void *arg, uint64_t epoch, uint64_t version);
	void (*records)(void *arg, const struct kw_record_view *records, size_t count);
	uint64_t (*room)(void *arg);
	void (*read)(void *arg); /* every key was seen: READ */
	void (*tick)(void *arg); /* every KW_RUN_TICK_MS */
	/* ENDING begins: close what is held. */
	void (*ending)(void *arg);
	/* ENDED, and why (NULL: it succeeded). Call kw_run_close and free the run. */
	void (*ended)(void *arg, const struct kw_error *error);
	void *arg;
};

#define KW_RUN_TICK_MS 20

struct kw_run {
	struct kw_run_options options;
	struct kw_run_handlers handlers;
	struct kw_sm sm;
	struct kw_error error; /* code KW_OK: none */
	uint64_t begun_us;
	struct kw_reads reads;
	struct kw_reader *reader;
	struct kw_superblock superblock; /* the latest of the reader's, complete; epoch 0: none */
	uint32_t snapshots, tails;       /* begun anew; passes after a snapshot */
	uint32_t held;                   /* open handles of the owner */
	uv_timer_t tick;
};

/* BEGUN. run is memory of the owner that stays until handlers.ended. */
void kw_run_begin(struct kw_run *run, const struct kw_run_options *options,
	const struct kw_run_handlers *handlers);
void kw_run_close(struct kw_run *run);

void kw_run_read(struct kw_run *run);
/* There is room again: go on reading. Does nothing but in READING. */
void kw_run_resume(struct kw_run *run);

/* The end. Only the first of these counts. Cancel: KW_E_STATE and "name: why". */
void kw_run_succeed(struct kw_run *run);
void kw_run_fail(struct kw_run *run, const struct kw_error *error);
void kw_run_cancel(struct kw_run *run, const char *why);

/* The owner opened a handle that must be closed before the end; it is closed. */
void kw_run_hold(struct kw_run *run);
void kw_run_release(struct kw_run *run);

static inline bool kw_run_is(const struct kw_run *run, enum kw_run_state state)
{
	return run->sm.state == (int)state;
}

static inline bool kw_run_over(const struct kw_run *run)
{
	return run->sm.state >= KW_RUN_ENDING;
}

/* The keys of the table, as far as memory is reserved for them. */
uint64_t kw_run_keys(const struct kw_run *run);

double kw_run_seconds(const struct kw_run *run);

#endif
