/*
 * Fetching: takes keys out of the dirty set, reads each from the server and hands it to the store.
 *
 *   for each key:  [SELECT]  [PEXPIRETIME]  DUMP       pipelined, answered in order
 *
 * The expiry is asked for only if there can be one: an event could have set it, or the table's
 * record has one.
 *
 * The expiry is asked before the value: its number waits for the payload, not the other way round,
 * so that payloads are never copied. A change between the two raises an event, and the key is
 * fetched again. Before Redis 7.0 the expiry is TIME + PTTL, asked together; it comes out a
 * little different each time, so a difference within KW_FETCH_JITTER_MS counts as none.
 *
 * At most `window` keys are in flight, and about KW_FETCH_FLIGHT_BYTES of payload, by the size of
 * the last ones: the server holds its answers in memory until they are read. Payloads are verified
 * by their CRC64. Both rates are limited by token buckets.
 *
 * An answer can break the connection: a payload larger than a reply may be, or beyond the server's
 * client-output-buffer-limit, or a value at which the server dies. So of the keys that were in
 * flight when it broke, at most KW_FETCH_GROUP are in flight together from then on, and others fill
 * up such a group. If it breaks again, those of them are each asked for alone. If it breaks
 * KW_FETCH_STRIKES times more at one key, once among its group and then alone, that key is
 * unreadable: all others must not wait for it for ever. A window of W keys costs about
 * W / KW_FETCH_GROUP round trips after a break, and KW_FETCH_GROUP more if one of them is to blame.
 * When its owner puts it on trial it is asked for alone once more, and one strike is enough.
 *
 * Answers are stored in batches, because a table of a million keys is in no cache (table.h). Small
 * payloads are copied for that. A large one is stored at once, without that copy.
 *
 * A key that is not there is deleted only if that is explained: an event or a command named it, or
 * a sweep counted it and lets it go. A key that a scan saw a moment ago is left as it is, and so is
 * a key that is stale (dirty.h): an event will tell, or the next count finds it with the others.
 *
 * If the value of a key in flight came by another way (kw_dirty_overtake), its answer is not used.
 * The owner settles before, so that no answer to it waits to be stored.
 *
 * Loop thread only.
 */
#ifndef KW_PROXY_FETCH_FETCH_H
#define KW_PROXY_FETCH_FETCH_H

#include "fetch/data.h"
#include "fetch/pace.h"
#include "keys/dirty.h"
#include "table/table.h"

#include <stdbool.h>
#include <stdint.h>

#define KW_FETCH_FLIGHT_BYTES ((uint64_t)32 << 20)
#define KW_FETCH_WINDOW_MOST 65536
#define KW_FETCH_BATCH 32 /* answers that are stored at a time */
#define KW_FETCH_JITTER_MS 5
#define KW_FETCH_STRIKES 3
#define KW_FETCH_GROUP 32        /* keys in flight while one of them was lost with its connection */
#define KW_FETCH_RETRY_US 100000 /* a key the server could not give now is asked for again */

/* Can the key be fetched? */
enum kw_fetch_mark {
	KW_FETCH_READABLE,
	KW_FETCH_UNREADABLE, /* only whether it is there is asked */
	KW_FETCH_ON_TRIAL,   /* it was unreadable, and is asked for alone */
};

/* Why a key has no value here. */
enum kw_fetch_found {
	KW_FETCH_BROKE,   /* the connection broke at it */
	KW_FETCH_CHANGED, /* it is there, and was asked about because of an event */
	KW_FETCH_THERE,   /* it is there */
};

struct kw_fetch_handlers {
	/*
	 * What the server has for 1 to KW_FETCH_BATCH keys, in the order of its answers. Each is a
	 * put of the payload and the absolute expiry, or a delete because the key is gone. The
	 * handler sets each result: KW_PUT_FULL parks the key; everything else means that it is
	 * done. flags: KW_DIRTY_… of each, those that came during its flight, too. The handler must
	 * not call the fetcher.
	 */
	void (*store)(
		void *arg, struct kw_table_change *changes, const uint8_t *flags, size_t count);
	/* The expiry that the table has for the key now, 0 none; asked only before Redis 7.0. */
	uint64_t (*expiry)(void *arg, uint32_t database, struct kw_slice key);
	/*
	 * Can the key have an expiry, though no event since the last fetch could have set one?
	 * Asked for keys without KW_DIRTY_TTL. NULL: no key can.
	 */
	bool (*expires)(void *arg, uint32_t database, struct kw_slice key);
	/* The key is unreadable: what must be done with it? As store. NULL: fetch on. */
	enum kw_put_result (*unreadable)(
		void *arg, uint32_t database, struct kw_slice key, enum kw_fetch_found found);
	/* NULL: all keys are readable. */
	enum kw_fetch_mark (*mark)(void *arg, uint32_t database, struct kw_slice key);
	/* The key is gone, and nothing explains that yet: it is not stored. NULL: as it is. */
	void (*spared)(void *arg, uint32_t database, struct kw_slice key);
	void *arg;
};

struct kw_fetch_stats {
	uint64_t fetches, bytes;
	uint64_t rejected; /* payloads whose CRC64 did not hold */
	uint64_t retries;  /* answers that could not be used: errors, changes in between */
};

struct kw_fetch;

struct kw_fetch *kw_fetch_new(struct kw_data_connection *data, struct kw_dirty *dirty,
	uint32_t window, const struct kw_fetch_handlers *handlers);
/* Nothing may be in flight. */
void kw_fetch_free(struct kw_fetch *fetch);

/* 0: no limit. */
void kw_fetch_limit(struct kw_fetch *fetch, uint64_t keys_per_second, uint64_t bytes_per_second,
	uint64_t now_us);

/* Asks the pace before each key; NULL: none. It must outlive the fetcher. */
void kw_fetch_set_pace(struct kw_fetch *fetch, struct kw_pace *pace);

/* Does the server know PEXPIRETIME (7.0)? */
void kw_fetch_set_pexpiretime(struct kw_fetch *fetch, bool known);

/* How many databases the server has: keys of others are gone, and are not asked for. */
void kw_fetch_set_databases(struct kw_fetch *fetch, uint32_t databases);

/*
 * Hand on the answers that wait to be stored. Call it at the latest when the loop has taken the
 * input of a turn; until then these keys are in flight. It must also be called before the whole
 * table is compared with the server's answers on this connection: a flush, the end of a scan.
 */
void kw_fetch_settle(struct kw_fetch *fetch);

/* Settle, then send what windows and limits allow. */
void kw_fetch_pump(struct kw_fetch *fetch, uint64_t now_us);

/* When to pump again without any reply or event; UINT64_MAX: never. */
uint64_t kw_fetch_ready_us(const struct kw_fetch *fetch, uint64_t now_us);

/* Take the last connection on which values were asked for: were some not answered when it ended? */
bool kw_fetch_was_asking(const struct kw_fetch *fetch);

/* The RDB version that the last payload named; 0: none was seen. */
uint16_t kw_fetch_rdb_version(const struct kw_fetch *fetch);

/* Another server answers. It can write another version. */
void kw_fetch_forget_version(struct kw_fetch *fetch);

const struct kw_fetch_stats *kw_fetch_stats(const struct kw_fetch *fetch);

#endif
