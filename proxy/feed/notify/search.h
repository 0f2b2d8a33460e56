/*
 * The search for vector sets that the table does not know. VADD makes a new key and raises no
 * event, so when its count moved the server is asked for all keys of that type:
 *
 *             wanted       listed              all told
 *   ┌──────┐       ┌────────┐      ┌──────────┐
 *   │ IDLE │──────▶│ ASKING │─────▶│ SCANNING │──────▶ IDLE; ASKING if it was wanted meanwhile
 *   └──────┘       └────────┘      └──────────┘
 *                  INFO keyspace   SCAN … TYPE vectorset
 *
 * SCAN looks at every key of the server, whatever its type, so the search has a pace of its own:
 * KW_SEARCH_KEYS_PER_SECOND. A search that is wanted during another one follows it: keys can have
 * been added where that one had been already.
 *
 * The owner provides the struct, and calls kw_search_turn at the end of each loop turn. Loop thread
 * only.
 */
#ifndef KW_PROXY_FEED_NOTIFY_SEARCH_H
#define KW_PROXY_FEED_NOTIFY_SEARCH_H

#include "base/bucket.h"
#include "base/sm.h"
#include "fetch/data.h"
#include "fetch/scan.h"

#include <stdbool.h>
#include <stdint.h>

/* Some 200 SCANs a second, which take about 2 % of the server's time. */
#define KW_SEARCH_KEYS_PER_SECOND 100000

enum kw_search_state {
	KW_SEARCH_IDLE,
	KW_SEARCH_ASKING,
	KW_SEARCH_SCANNING,
};

struct kw_search {
	struct kw_sm sm;
	struct kw_data_connection *data;
	void (*found)(void *arg, uint32_t database, struct kw_slice key); /* more than once, too */
	void *arg;

	struct kw_scan *scan;
	struct kw_bucket pace;
	uint64_t wanted; /* searches asked for, ever; several wishes can share one */
	uint64_t begun;  /* … those that the search under way, or the last one, answers */
	uint64_t ended;
	uint32_t owed; /* answers to INFO keyspace; the last of them is for this search */
};

/* After the members above the blank line were set; the rest is zeroed. */
void kw_search_init(struct kw_search *search, uint64_t now_us);

/* No answer may be owed. */
void kw_search_close(struct kw_search *search);

/* Find all that is there now. Returns the number of this wish. */
uint64_t kw_search_want(struct kw_search *search);

/* Did a search end that began after this wish? */
static inline bool kw_search_done(const struct kw_search *search, uint64_t wish)
{
	return search->ended >= wish;
}

/* The connection is gone. The source reads everything again, so every wish is fulfilled. */
void kw_search_abandon(struct kw_search *search);

/* Send what is due. The data connection must be open. */
void kw_search_turn(struct kw_search *search, uint64_t now_us);

/* When it needs a turn of its own; UINT64_MAX: never. */
uint64_t kw_search_ready_us(const struct kw_search *search, uint64_t now_us);

#endif
