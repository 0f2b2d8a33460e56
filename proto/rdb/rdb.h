/*
 * An RDB stream composed from DUMP payloads: what a server loads from a file or from its primary.
 *
 *   REDIS00vv (VALKEY0vv) │ functions │ { [FE database] [FC expiry ms] type key value } … │ FF │
 *   CRC64 or zeros
 *
 * A payload is type byte, value, RDB version, CRC64. Without its first byte and its last ten it
 * stands in the stream as it is. A corrupt payload stops a server, and a key that comes twice makes
 * it panic. So each payload is verified here (CRC64, version not above the stream's). The caller
 * must pass each key and each library once.
 *
 * Calls in this order: begin, functions and function, then sizes and put in any order, end. The
 * stream is smallest if each database is put in one run. Pure: it only appends bytes to the
 * caller's buffer, which may be consumed between two calls. One thread a writer.
 */
#ifndef KW_RDB_RDB_H
#define KW_RDB_RDB_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

#define KW_RDB_VERSION_MAX 999 /* three digits are what a header has room for */

struct kw_rdb {
	uint16_t version;        /* of the stream */
	int64_t database;        /* selected last; -1: none yet */
	uint64_t entries, bytes; /* written so far; bytes count the values of put_head, too */
	bool checksummed;        /* crc is kept: for files; a replication link needs none */
	uint64_t crc;
};

/* One key of the table. */
struct kw_rdb_entry {
	uint32_t database;
	uint64_t expires_ms; /* absolute; 0: none */
	struct kw_slice key, payload;
};

/*
 * Header. version: the payloads' (9 to 14, or from 80 on: Valkey 9), at most what the reader
 * accepts and 1 to KW_RDB_VERSION_MAX.
 */
void kw_rdb_begin(struct kw_rdb *rdb, uint16_t version, bool checksummed, struct kw_buffer *out);

/* Function libraries to leave out. */
struct kw_rdb_except {
	const char *name;                    /* the one of this name; NULL: none */
	bool (*leave)(struct kw_slice code); /* those for whose code it is true; NULL: none */
};

/*
 * The libraries of a FUNCTION DUMP payload, less what `except` says (NULL: all of them).
 * KW_E_CORRUPT: it does not verify, or holds anything but libraries; KW_E_PROTOCOL: its version is
 * above the stream's, or of the other fork; KW_E_NOMEM. Nothing was appended then.
 */
int kw_rdb_functions(struct kw_rdb *rdb, struct kw_slice dump, const struct kw_rdb_except *except,
	struct kw_buffer *out, struct kw_error *error);

/* One library from its source text. */
void kw_rdb_function(struct kw_rdb *rdb, struct kw_slice code, struct kw_buffer *out);

/* A sizing hint for the loading server (FB); counts may be rough. Selects the database. */
void kw_rdb_sizes(struct kw_rdb *rdb, uint32_t database, uint64_t keys, uint64_t expires,
	struct kw_buffer *out);

/*
 * KW_E_CORRUPT: the payload does not verify; KW_E_PROTOCOL: its version is above the stream's or of
 * the other fork, or its first byte is no value's type. Nothing was appended then and the stream
 * goes on.
 */
int kw_rdb_put(struct kw_rdb *rdb, const struct kw_rdb_entry *entry, struct kw_buffer *out,
	struct kw_error *error);

/*
 * The same in two parts, for values too large to copy. What comes before the value is appended to
 * out. *value is the part of the payload that must follow next.
 */
int kw_rdb_put_head(struct kw_rdb *rdb, const struct kw_rdb_entry *entry, struct kw_buffer *out,
	struct kw_slice *value, struct kw_error *error);

/* FF and the checksum (zeros when it is not kept). Nothing follows. */
void kw_rdb_end(struct kw_rdb *rdb, struct kw_buffer *out);

#endif
