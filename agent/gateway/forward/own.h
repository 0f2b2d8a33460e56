/*
 * Read your own writes, and the order of a connection: where does a client's request go now?
 *
 * After a forwarded write the client's reads go to the primary, of whatever key, until the table is
 * known to hold all that the primary did before the write's answer (horizon.h). To know which keys
 * a write changed would take each command's syntax, and scripts have none.
 *
 * A client's requests take effect in their order:
 *   - A write waits for the client's gets from the table: an earlier get must not see it.
 *   - Requests on another line (database, version of RESP) wait until those before are answered.
 *   - A read of the table never overtakes a write: it goes to the primary, after it.
 *
 * Not promised: that a read from the table is as new as the client's last read from the primary, as
 * to writes of others. A barrier between them makes it so.
 *
 * One struct a client, zeroed. Times are of our own monotonic clock. Pure; one thread.
 */
#ifndef KW_AGENT_GATEWAY_FORWARD_OWN_H
#define KW_AGENT_GATEWAY_FORWARD_OWN_H

#include <stdbool.h>
#include <stdint.h>

struct kw_own {
	uint32_t forwarded; /* of its requests, not answered; on the one line `line` */
	uint32_t writes;    /* of these */
	uint32_t line;
	uint64_t wrote_us; /* when its last write was answered; 0: it has not written */
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
};

enum kw_own_place kw_own_judge(const struct kw_own *own, const struct kw_own_facts *facts);

/*
 * A request goes to the primary on this line; it was answered, or lost, at now_us. 0: it was not
 * executed.
 */
void kw_own_sent(struct kw_own *own, uint32_t line, bool writes);
void kw_own_answered(struct kw_own *own, bool writes, uint64_t now_us);

#endif
