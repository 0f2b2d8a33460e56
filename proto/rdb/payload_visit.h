/*
 * Visiting a value: every element of a DUMP payload, in the order in which it stands there,
 * whatever its encoding (LZF, integers, listpack, ziplist, quicklist, intset, zipmap).
 *
 *   string  bytes
 *   list    element, element, …              set    element, element, …
 *   hash    name, value, name, value, …      zset   name, score, name, score, …
 *   stream  entry, name, value, name, value, …, entry, …  (kw_payload_visit_entries)
 *
 * A visitor that has what it wants stops the visit: a lookup of one field does not walk the rest.
 * What stands after it is not checked then. The canonical digest is one visitor (payload_digest.c).
 *
 * Pure; any thread. Bytes handed out are valid during the call.
 */
#ifndef KW_RDB_PAYLOAD_VISIT_H
#define KW_RDB_PAYLOAD_VISIT_H

#include "base/error.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

enum kw_value_kind {
	KW_VALUE_UNKNOWN, /* a type that this program does not know */
	KW_VALUE_STRING,
	KW_VALUE_LIST,
	KW_VALUE_SET,
	KW_VALUE_HASH,
	KW_VALUE_ZSET,
	KW_VALUE_STREAM,
	KW_VALUE_MODULE,
};

/* What the payload's type byte says. */
enum kw_value_kind kw_payload_kind(struct kw_slice payload);

/* Can its fields have times of their own at which they expire? */
bool kw_payload_can_expire(struct kw_slice payload);

/* Is it a compact encoding (listpack, ziplist, intset, zipmap; not a list's nodes)? */
bool kw_payload_is_packed(struct kw_slice payload);

enum kw_visit { KW_VISIT_ON, KW_VISIT_STOP };

struct kw_stream_id {
	uint64_t ms, seq;
};

/* Only those of the value's kind are called; the others may be NULL. */
struct kw_visitor {
	enum kw_visit (*string)(void *arg, struct kw_slice bytes);
	enum kw_visit (*element)(void *arg, struct kw_slice bytes);
	/* A field of a hash or a member of a sorted set; `value` or `score` follows it. */
	enum kw_visit (*name)(void *arg, struct kw_slice bytes);
	/* expires_ms: the field's own, absolute; 0: none. */
	enum kw_visit (*value)(void *arg, struct kw_slice bytes, uint64_t expires_ms);
	enum kw_visit (*score)(void *arg, double score); /* never NaN */
	/* An entry of a stream that is not deleted; as many names and values follow. */
	enum kw_visit (*entry)(void *arg, struct kw_stream_id id, uint64_t fields);
	void *arg;
};

/*
 * Visit a string, list, set, hash or sorted set.
 *
 * KW_OK: all was visited, or the visitor stopped. KW_E_CORRUPT: the value is not well formed; some
 * of it can have been visited. KW_E_PROTOCOL: a type this program does not know. KW_E_ARGUMENT: a
 * stream or a module's value. KW_E_NOMEM: no memory to unpack a compressed string.
 */
int kw_payload_visit(
	struct kw_slice payload, const struct kw_visitor *visitor, struct kw_error *error);

/* Entries of a stream: from the first id to the last one, both included. */
struct kw_stream_range {
	struct kw_stream_id first, last;
	bool reversed; /* visited from the last to the first */
};

/*
 * Visit the entries within the range. Nodes outside of it are not unpacked, and what stands after
 * the nodes (groups, consumers) is not looked at: types 15 to 27 are alike up to there. Errors as
 * kw_payload_visit; KW_E_ARGUMENT: no stream.
 */
int kw_payload_visit_entries(struct kw_slice payload, const struct kw_stream_range *range,
	const struct kw_visitor *visitor, struct kw_error *error);

/* How many entries a stream has, as it says itself. Errors as kw_payload_visit_entries. */
int kw_payload_entries(struct kw_slice payload, uint64_t *entries, struct kw_error *error);

/*
 * How many elements, fields or members there are, or bytes of a string. Only the front of the
 * payload is read, or the headers of its nodes, as far as they say a number; otherwise the elements
 * are walked. Errors as kw_payload_visit.
 */
int kw_payload_size(struct kw_slice payload, uint64_t *size, struct kw_error *error);

#endif
