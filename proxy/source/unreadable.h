/*
 * Keys at which the connection breaks (fetch.h): named, counted, and left alone for a while. Pure
 * but for the log; the time is handed in.
 *
 *   it broke ─▶ LEFT_ALONE ── an event ──▶ CHANGED ── 1 min … 1 h ──▶ tried alone
 *      ▲            └────────────── a day ──────────────────────────────▶│
 *      └── it broke again: twice as long ──────────────── readable: forgotten
 *
 *   the server died of it ─▶ DEADLY ── the operator asks for a reconcile ──▶ FORGIVEN, tried at
 * once
 *
 * So a value that shrank is found, and the cost of one that did not is bounded.
 *
 * The caller owns the struct. One thread.
 */
#ifndef KW_PROXY_SOURCE_UNREADABLE_H
#define KW_PROXY_SOURCE_UNREADABLE_H

#include "fetch/fetch.h"
#include "keys/databases.h"
#include "keys/dirty.h"
#include "keys/key_table.h"

#include <stdbool.h>
#include <stdint.h>

struct kw_unreadable {
	struct kw_key_table keys;
	uint64_t pause_us; /* after the first break, if the key changed since */
	uint64_t retry_us; /* when the first key is due; UINT64_MAX: none is */
};

void kw_unreadable_init(struct kw_unreadable *unreadable, uint32_t pause_ms, uint64_t seed);
void kw_unreadable_close(struct kw_unreadable *unreadable);

/* What fetch found out about a key. */
void kw_unreadable_found(struct kw_unreadable *unreadable, uint32_t database, struct kw_slice key,
	enum kw_fetch_found found, uint64_t now_us);

/* How is the key to be fetched now? */
enum kw_fetch_mark kw_unreadable_mark(const struct kw_unreadable *unreadable, uint32_t database,
	struct kw_slice key, uint64_t now_us);

/* Keys that were left alone for long enough get dirty. */
void kw_unreadable_retry(struct kw_unreadable *unreadable, struct kw_dirty *dirty, uint64_t now_us);

/* The cause of unreadable keys might be mended: all are due. */
void kw_unreadable_forgive(struct kw_unreadable *unreadable);

/* The server died while it was asked for keys: suspect those at which a connection broke since. */
void kw_unreadable_condemn(struct kw_unreadable *unreadable, uint64_t since_us);

#endif
