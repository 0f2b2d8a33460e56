/*
 * Read your own writes, and the order of a connection: where does a client's request go now?
 *
 * After a forwarded write the client's reads of the keys that it wrote go to the primary. They do
 * so until the table holds all that the primary did before the write's answer (horizon.h).
 *
 * The keys of a client's last writes are remembered as hashes: a key that shares its hash with one
 * of them goes to the primary, too. If the keys of a write are not known (scripts, FLUSHALL), it
 * counts as a write of every key of every database. So does one with more keys than there is room
 * for.
 *
 *   write sent ──▶ mark: unanswered ──answer──▶ mark: wrote_us ──covered──▶ free
 *
 * A client's requests take effect in their order, as far as it can see by the keys it wrote:
 *   - A write waits for the client's gets from the table: an earlier get must not see it.
 *   - Requests on another line (database, version of RESP) wait until those before are answered.
 *   - A read of a key never overtakes a write of it: it goes to the primary, after it.
 *
 * Not promised: that a read from the table is as new as the client's last read from the primary, as
 * to writes of others. Nor that it has writes of others that were executed before the client's own
 * write of another key. A barrier between the two makes it so.
 *
 * One struct a client, zeroed. Times are of our own monotonic clock. Pure; one thread.
 */
#ifndef KW_AGENT_GATEWAY_FORWARD_OWN_H
#define KW_AGENT_GATEWAY_FORWARD_OWN_H

#include <stdbool.h>
#include <stdint.h>

/* Keys of one request. */
#define KW_OWN_REQUEST_KEYS 64
struct kw_own_keys {
	bool all; /* or more than there is room for, or not known */
	uint32_t count;
	uint64_t hashes[KW_OWN_REQUEST_KEYS]; /* of database and key */
};

/* Keys that one client has written, remembered at once. */
#define KW_OWN_MARKS 128
struct kw_own_mark {
	uint64_t hash;
	uint64_t last; /* number of the last write, not answered; 0: all are */
	uint64_t
		wrote_us; /* when one was answered, this one or a later one; 0: none was executed */
};

struct kw_own {
	uint32_t forwarded; /* of its requests, not answered; on the one line `line` */
	uint32_t writes;    /* of these */
	uint32_t line;
	uint64_t wrote_us;         /* when its last write was answered; 0: it has not written */
	uint64_t number;           /* of its last write */
	struct kw_own_mark any;    /* writes whose keys are not remembered one by one */
	struct kw_own_mark *marks; /* KW_OWN_MARKS; NULL: it has not written */
};

enum kw_own_want {
	KW_OWN_READS_TABLE,   /* a read that the table can answer */
	KW_OWN_READS_PRIMARY, /* a read that only the primary answers */
	KW_OWN_WRITES,
	KW_OWN_BARRIER,
};

enum kw_own_place {
	KW_OWN_TABLE, /* of a barrier: it begins now */
	KW_OWN_PRIMARY,
	KW_OWN_WAIT, /* ask again when one of the client's requests has been answered */
};

struct kw_own_facts {
	enum kw_own_want want;
	uint32_t line;       /* that the request would take: kw_forward_line_of */
	uint32_t gets;       /* requests of the client that the table has not answered yet */
	uint64_t covered_us; /* horizon.h */
	const struct kw_own_keys *keys; /* READS_TABLE, unless kw_own_all_covered; NULL: all */
};

/* Does the table hold all that the client has written? Then the keys of a read do not matter. */
bool kw_own_all_covered(const struct kw_own *own, uint64_t covered_us);

enum kw_own_place kw_own_judge(const struct kw_own *own, const struct kw_own_facts *facts);

/*
 * A request goes to the primary on this line. keys: that it writes; NULL: it is no write. Returns
 * the write's number; 0: it is none.
 */
uint64_t kw_own_sent(
	struct kw_own *own, uint32_t line, const struct kw_own_keys *keys, uint64_t covered_us);

/*
 * It was answered, or lost, at now_us. 0: it was not executed. Those of one line are answered in
 * the order in which they were sent.
 */
void kw_own_answered(struct kw_own *own, uint64_t number, uint64_t now_us);

/* The client is gone, and nothing of it is under way. */
void kw_own_close(struct kw_own *own);

#endif
