/*
 * The type byte that begins a DUMP payload: the numbers of the servers' rdb.h. They are fixed for
 * ever, as RDB files hold them; servers only add.
 */
#ifndef KW_RDB_PAYLOAD_TYPE_H
#define KW_RDB_PAYLOAD_TYPE_H

#include "rdb/payload_input.h"

enum kw_rdb_type {
	KW_RDB_STRING = 0,
	KW_RDB_LIST = 1,
	KW_RDB_SET = 2,
	KW_RDB_ZSET = 3, /* scores as text */
	KW_RDB_HASH = 4,
	KW_RDB_ZSET_2 = 5, /* scores as doubles */
	KW_RDB_MODULE_2 = 7,
	KW_RDB_HASH_ZIPMAP = 9,
	KW_RDB_LIST_ZIPLIST = 10,
	KW_RDB_SET_INTSET = 11,
	KW_RDB_ZSET_ZIPLIST = 12,
	KW_RDB_HASH_ZIPLIST = 13,
	KW_RDB_LIST_QUICKLIST = 14, /* of ziplists */
	KW_RDB_STREAM = 15,
	KW_RDB_HASH_LISTPACK = 16,
	KW_RDB_ZSET_LISTPACK = 17,
	KW_RDB_LIST_QUICKLIST_2 = 18, /* of listpacks and plain elements */
	KW_RDB_STREAM_2 = 19,         /* with first id, deleted id, counters */
	KW_RDB_SET_LISTPACK = 20,
	KW_RDB_STREAM_3 = 21, /* with the consumers' active time */
	/*
	 * The forks part here. 22 is Valkey 9's hash with expiring fields (RDB 80 and later). It
	 * was also Redis 7.4's in its release candidates. The RDB version at the payload's end
	 * tells which.
	 */
	KW_RDB_HASH_2_OR_PRE_GA = 22,
	KW_RDB_HASH_LISTPACK_EX_PRE_GA = 23,
	KW_RDB_HASH_METADATA = 24,    /* Redis 7.4: fields that expire */
	KW_RDB_HASH_LISTPACK_EX = 25, /* the same in a listpack */
	KW_RDB_STREAM_4 = 26,         /* Redis 8.6 */
	KW_RDB_STREAM_5 = 27,
};

#define KW_RDB_VERSION_FORK 11   /* the last one of both: Redis 7.2, Valkey 7.2 to 8.1 */
#define KW_RDB_VERSION_VALKEY 80 /* from here on the numbers above 21 are Valkey's */

/* payload_stream.c: walk a stream of type 15, 19 or 21 (all of the input). */
struct kw_fold;
int kw_payload_fold_stream(struct kw_payload_input *input, unsigned type, struct kw_fold *fold);

#endif
