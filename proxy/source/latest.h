/*
 * Changes that the feed told with their values, until the table stores them: at most one of each
 * key, the last one.
 *
 *   told:     SET k 1 │ INCR k │ DEL m │ INCR k          stored: k = 3, m is gone
 *
 * A hot key is thus one record in each batch, however often it changes, and it is encoded once. All
 * of a batch is published together, so the order between its keys does not show.
 *
 * LZF takes a third of the time of a SET of 100 bytes, and two thirds of one of 1000. Random bytes
 * it cannot pack. So after KW_LATEST_VAIN strings in a row that it did not pack, it is tried on one
 * in KW_LATEST_TRIED, until it packs one. A string that is stored plain and that the server packs
 * is the same value: the table does not store it again (kw_source_same_value).
 *
 * Pure. The caller owns the struct. One thread.
 */
#ifndef KW_PROXY_SOURCE_LATEST_H
#define KW_PROXY_SOURCE_LATEST_H

#include "base/buffer.h"
#include "base/slice.h"
#include "source/order.h"
#include "table/table.h"

#include <stdbool.h>
#include <stdint.h>

#define KW_LATEST_KEYS 32
#define KW_LATEST_VAIN 64
#define KW_LATEST_TRIED 64
#define KW_LATEST_BYTES ((size_t)256 << 10) /* at least: the last value can be larger */

enum kw_latest_form {
	KW_LATEST_GONE,    /* the key is gone */
	KW_LATEST_TEXT,    /* it has this string, as it is */
	KW_LATEST_PAYLOAD, /* … the value of this DUMP payload */
};

/* What a key has. */
struct kw_latest_value {
	enum kw_latest_form form;
	struct kw_slice bytes;
	uint64_t expires_ms;       /* absolute; 0: never */
	struct kw_order_span told; /* where it got this */
};

struct kw_latest_change {
	enum kw_latest_form form;
	uint32_t database;
	uint32_t count;            /* so many changes of the key */
	struct kw_order_span told; /* the last of them */
	uint64_t hash;
	size_t name_at, name_length, value_at, value_length; /* in `bytes` */
	size_t encoded_at, encoded_length;                   /* TEXT: in `encoded` */
	uint64_t expires_ms;
};

struct kw_latest {
	uint64_t seed;
	struct kw_latest_change changes[KW_LATEST_KEYS];
	uint32_t count;
	uint32_t vain;            /* strings in a row that LZF did not pack, or was not tried on */
	struct kw_buffer bytes;   /* names and values */
	struct kw_buffer encoded; /* payloads */
};

/* seed: unpredictable. */
void kw_latest_init(struct kw_latest *latest, uint64_t seed);
void kw_latest_close(struct kw_latest *latest);

/* False: it must be stored and cleared before one more is set. */
bool kw_latest_has_room(const struct kw_latest *latest);

/* NULL: no change of the key waits. */
struct kw_latest_change *kw_latest_find(
	struct kw_latest *latest, uint32_t database, struct kw_slice name);

/* What the key has after this change. The bytes are valid until the next kw_latest_set. */
struct kw_latest_value kw_latest_value(
	const struct kw_latest *latest, const struct kw_latest_change *change);

/* The key has this value now; the texts are copied, and lie elsewhere. There was room. */
void kw_latest_set(struct kw_latest *latest, uint32_t database, struct kw_slice name,
	const struct kw_latest_value *value);

/* Its value stays, with this expiry (0: never). It is not gone. */
void kw_latest_expire(
	struct kw_latest_change *change, uint64_t expires_ms, struct kw_order_span told);

/* Encode a text as a payload. Before kw_latest_change, of each that is stored. */
void kw_latest_encode(
	struct kw_latest *latest, struct kw_latest_change *change, uint16_t rdb_version);

/* As a change of the table. It is valid until the next call that is not const. */
struct kw_table_change kw_latest_change(
	const struct kw_latest *latest, const struct kw_latest_change *change);

/* All are stored. Much memory is given back. */
void kw_latest_clear(struct kw_latest *latest);

#endif
