/*
 * Keys that differed once, and what becomes of them.
 *
 *   ┌──────┐ looked up in the table ┌──────┐ all that the table ┌───────┐ the same again, and
 *   │ LOOK │───────────────────────▶│ WAIT │ held is applied    │ CHECK │ confirmed by another
 * lookup └──────┘                        └──────┘───────────────────▶└───────┘───────────┐ ▲ ▼ │
 * still different            ┌───────┐ acknowledged                     ┌──────┐
 *      └────────────────────────────│ AFTER │◀─────────────────────────────────│ MEND │
 *                                   └───────┘──▶ equal: mended                 └──────┘
 *
 * A key that differs after several mends stays in the set, in STAY. It is known to differ until it
 * is equal, whatever rounds begin and end: it is looked at again after a pause.
 *
 * From LOOK on, every record of the key that is handed on from the table's log touches the suspect.
 * A touched suspect is dropped: the log brings what the table holds, and a mend would come after
 * it. The mend goes to the applier in the call that confirms it. So no change can come between.
 *
 * One set of them, bounded in number and in bytes of keys. Pure, but for the memory; one thread.
 */
#ifndef KW_AGENT_AUDIT_SUSPECTS_H
#define KW_AGENT_AUDIT_SUSPECTS_H

#include "base/hash.h"
#include "compare/compare.h"
#include "table/record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KW_SUSPECTS_MAX 8192
#define KW_SUSPECTS_BYTES_MAX ((size_t)4 << 20) /* of keys; one larger key is taken alone */
#define KW_SUSPECT_MENDS_MAX 3                  /* tries, before a key counts as not to be mended */
#define KW_SUSPECT_MOVED_MAX 5                  /* looks that said nothing */
/* So many that stay different are kept, and each is tried again after so long. */
#define KW_SUSPECTS_STAY_MAX 256
#define KW_SUSPECT_STAY_US 30000000

enum kw_suspect_stage {
	KW_SUSPECT_LOOK, /* must be looked up */
	KW_SUSPECT_WAIT, /* until all that the table held then is applied; then CHECK */
	KW_SUSPECT_MEND, /* until the mend is acknowledged; then AFTER */
	KW_SUSPECT_STAY, /* no mend helped: LOOK again after a pause, or when the log touches it */
	KW_SUSPECT_STAGES,
};

struct kw_audit_suspect {
	struct kw_audit_suspect *next;  /* of its stage's queue */
	struct kw_audit_suspect *chain; /* of its bucket */
	struct kw_hash128 hash;
	enum kw_suspect_stage stage;
	bool touched; /* the log brought a record of it since LOOK began */
	bool failed;  /* it stayed different once, and its range is not proven by it */
	uint8_t mends, moved;
	enum kw_verdict_of_key verdict; /* of the last comparison */
	struct kw_expected expected;    /* by the lookup in LOOK */
	uint64_t looked_us;             /* our clock when that ended; STAY: when it began */
	uint64_t bytes;                 /* about so many of its value */
	uint64_t position;              /* MEND: changes handed on, this one included */
	unsigned range;                 /* of proof.h */
	uint32_t database;
	size_t key_length;
	uint8_t key[];
};

#define KW_SUSPECTS_BUCKETS 4096

/* Zeroed memory is an empty set. */
struct kw_suspects {
	struct kw_audit_suspect *first[KW_SUSPECT_STAGES], *last[KW_SUSPECT_STAGES];
	struct kw_audit_suspect **buckets; /* NULL while there are none */
	size_t count, bytes;
	size_t staying; /* of count, those in STAY */
};

/* No more are taken for now. */
static inline bool kw_suspects_full(const struct kw_suspects *suspects)
{
	return suspects->count >= KW_SUSPECTS_MAX || suspects->bytes >= KW_SUSPECTS_BYTES_MAX;
}

/* NULL: it is not there. */
struct kw_audit_suspect *kw_suspects_find(
	const struct kw_suspects *suspects, uint32_t database, struct kw_slice key);

/* A key differed: it waits in LOOK. NULL: it is there already. */
struct kw_audit_suspect *kw_suspects_add(
	struct kw_suspects *suspects, uint32_t database, struct kw_slice key, unsigned range);

/* The next one of a stage leaves its queue; NULL: there is none. It stays in the set. */
struct kw_audit_suspect *kw_suspects_take(
	struct kw_suspects *suspects, enum kw_suspect_stage stage);
/* It waits in this stage. */
void kw_suspects_put(struct kw_suspects *suspects, struct kw_audit_suspect *suspect,
	enum kw_suspect_stage stage);

/* It is settled: out of the set, and freed. It is in no queue. */
void kw_suspects_drop(struct kw_suspects *suspects, struct kw_audit_suspect *suspect);

/* A record goes to the local server. */
void kw_suspects_touch(struct kw_suspects *suspects, const struct kw_record_view *record);

/* All but those that failed are dropped, wherever they are. These wait in STAY. */
void kw_suspects_keep_failed(struct kw_suspects *suspects);

/* All of them are dropped; those that were taken out of a queue, too. */
void kw_suspects_close(struct kw_suspects *suspects);

static inline struct kw_slice kw_suspect_key(const struct kw_audit_suspect *suspect)
{
	return kw_slice(suspect->key, suspect->key_length);
}

#endif
