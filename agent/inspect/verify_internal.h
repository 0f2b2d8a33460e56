/*
 * The inside of verify, shared by its parts:
 *
 *   verify.c           begin, phases, what the run tells, the end
 *   verify_compare.c   first look: what the snapshot said against DUMP and PEXPIRETIME, pipelined
 *   verify_suspects.c  second looks
 *   verify_scan.c      local keys that the table does not have
 *
 * No other file includes this.
 */
#ifndef KW_AGENT_INSPECT_VERIFY_INTERNAL_H
#define KW_AGENT_INSPECT_VERIFY_INTERNAL_H

#include "base/buffer.h"
#include "compare/ask.h"
#include "keys/keyset.h"
#include "run.h"
#include "verify.h"

/* Of a run that is READING or READ; BEGUN while the connection is made. */
enum kw_verify_phase {
	KW_VERIFY_SNAPSHOT, /* until all of it is compared */
	KW_VERIFY_SCAN,
	KW_VERIFY_SETTLE,
};

/* Why a key waits for a second look: whether it was counted as checked already. */
struct kw_suspect {
	struct kw_suspect *next;
	uint64_t due_us;
	uint32_t database;
	uint16_t looks; /* that found the same difference */
	uint16_t moved; /* looks that said nothing */
	bool extra;     /* found by SCAN, not by the snapshot */
	size_t key_length;
	uint8_t key[];
};

struct kw_verify {
	struct kw_verify_options options;
	kw_verify_fn fn;
	void *arg;
	struct kw_run run;
	enum kw_verify_phase phase;
	struct kw_verify_result result;
	uint64_t told_us; /* of the progress */

	struct kw_redis *redis;
	struct kw_ask ask;
	struct kw_buffer name; /* of a key in the local server, while it is looked at */

	struct kw_lookups *lookups;
	uint64_t sample_seed, sample_below; /* a key is chosen when its hash is below */
	struct kw_keyset seen;              /* keys of the snapshot, when not sampling */

	/* verify_compare.c: what was asked and not yet answered, oldest first */
	struct kw_buffer asked;
	uint64_t asked_bytes; /* weight of it */

	/* verify_suspects.c */
	struct kw_suspect *first, *last; /* by due time */
	size_t suspects;
	struct kw_suspect *present; /* is being looked at */
	struct kw_expected expected;
	enum kw_verdict_of_key verdict;

	/* verify_scan.c */
	struct kw_verify_database {
		uint32_t local, table; /* its numbers */
	} * databases;
	size_t database_count, database_capacity, database_at;
	char cursor[24];
	bool scanning;              /* a SCAN is out */
	struct kw_buffer scan_name; /* of a key in the table, while it is looked at */
};

/* verify.c */
void kw_verify_fail_reply(
	struct kw_verify *verify, const char *command, const struct kw_reply *reply);
void kw_verify_step(struct kw_verify *verify); /* go on with all that can */
/* By the names of the table, which all has here; see kw_ask_key and verify_scan.c. */
bool kw_verify_wants(struct kw_verify *verify, uint32_t database, struct kw_slice key);
void kw_verify_name(struct kw_verify_list *list, uint32_t database, struct kw_slice key);

static inline bool kw_verify_over(const struct kw_verify *verify)
{
	return kw_run_over(&verify->run);
}

/* verify_compare.c */
void kw_verify_compare(struct kw_verify *verify, const struct kw_record_view *record);
uint64_t kw_verify_room(const struct kw_verify *verify);

/* Is the answer that came just now (verify->ask) what is expected? */
enum kw_verdict_of_key kw_verify_judge(
	const struct kw_verify *verify, const struct kw_expected *expected);

/* verify_suspects.c */
void kw_verify_suspect(
	struct kw_verify *verify, uint32_t database, struct kw_slice key, bool extra);
void kw_verify_suspects_step(struct kw_verify *verify);
void kw_verify_suspects_close(struct kw_verify *verify);

/* verify_scan.c */
void kw_verify_scan_start(struct kw_verify *verify);
void kw_verify_scan_step(struct kw_verify *verify);

#endif
