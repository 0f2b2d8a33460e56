/*
 * The compact encodings: several elements in one run of bytes (listpack, ziplist, intset, zipmap).
 *
 *   listpack   bytes u32 │ count u16 │ { encoding, data, length of both backwards } … │ 0xff
 *   ziplist    bytes u32 │ tail u32 │ count u16 │ { length of the one before, encoding, data } … │
 *              0xff
 *
 *   intset     bytes an integer u32 │ count u32 │ integers
 *
 *   zipmap     count u8 │ { length, field, length, free u8, value, free bytes } … │ 0xff
 *
 * (The servers' listpack.c, ziplist.c, intset.c, zipmap.c; all little-endian but for the lengths of
 * a ziplist's strings.)
 *
 *   open -> (more -> next)… -> finish
 *
 * Used by the payload_*.c files only. Errors are KW_E_CORRUPT with the sentence in *error.
 */
#ifndef KW_RDB_PAYLOAD_PACK_H
#define KW_RDB_PAYLOAD_PACK_H

#include "rdb/payload_input.h"

#include <stdbool.h>

enum kw_pack_kind { KW_PACK_LISTPACK, KW_PACK_ZIPLIST, KW_PACK_INTSET, KW_PACK_ZIPMAP };

struct kw_pack {
	enum kw_pack_kind kind;
	const uint8_t *at, *end; /* end: of the elements, before the end mark */
	uint64_t counted;        /* elements handed out */
	uint64_t announced;      /* by the header; UINT64_MAX: not said */
	uint32_t width;          /* intset: bytes an integer; ziplist: length of the one before */
	char digits[KW_DIGITS_MAX];
};

/* bytes stay in place while the pack is read. */
int kw_pack_open(struct kw_pack *pack, enum kw_pack_kind kind, struct kw_slice bytes,
	struct kw_error *error);

static inline bool kw_pack_more(const struct kw_pack *pack)
{
	return pack->at < pack->end;
}

/* The next element, integers as decimal text; valid until the next one is taken. */
int kw_pack_next(struct kw_pack *pack, struct kw_slice *element, struct kw_error *error);

/* The next element of a listpack, which must be an integer. */
int kw_pack_integer(struct kw_pack *pack, int64_t *number, struct kw_error *error);

/* After the last element: does the header's count hold? */
int kw_pack_finish(const struct kw_pack *pack, struct kw_error *error);

#endif
