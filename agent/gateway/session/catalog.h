/*
 * What is known of each command of the servers: its words, its keys, its flags, its categories. The
 * gateway needs this of commands that it does not answer, too: a user's permissions are checked
 * before a command is forwarded.
 *
 * The rows are those of Redis 7.0, with the commands of Redis 8 and Valkey 9 that came after. A
 * unit test compares them with what real servers say (COMMAND).
 *
 * Pure and constant; any thread.
 */
#ifndef KW_AGENT_GATEWAY_SESSION_CATALOG_H
#define KW_AGENT_GATEWAY_SESSION_CATALOG_H

#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* In the order in which COMMAND names them. */
enum kw_catalog_flag {
	KW_FLAG_WRITE = 1 << 0,
	KW_FLAG_READ = 1 << 1,
	KW_FLAG_PUBSUB = 1 << 2,
	KW_FLAG_DENYOOM = 1 << 3,
	KW_FLAG_ASKING = 1 << 4,
	KW_FLAG_ADMIN = 1 << 5,
	KW_FLAG_MODULE = 1 << 6,
	KW_FLAG_NOSCRIPT = 1 << 7,
	KW_FLAG_BLOCKING = 1 << 8,
	KW_FLAG_LOADING = 1 << 9,
	KW_FLAG_STALE = 1 << 10,
	KW_FLAG_NOMONITOR = 1 << 11,
	KW_FLAG_NOASYNC = 1 << 12,
	KW_FLAG_NOSLOWLOG = 1 << 13,
	KW_FLAG_NOKEYS = 1 << 14,
	KW_FLAG_FAST = 1 << 15,
	KW_FLAG_MOVABLE = 1 << 16,
	KW_FLAG_NOAUTH = 1 << 17, /* allowed before AUTH */
	KW_FLAG_NOMULTI = 1 << 18,
	KW_FLAG_BUSY = 1 << 19,
};
#define KW_FLAG_COUNT 20
extern const char *const kw_flag_names[KW_FLAG_COUNT];

/* Categories of permissions, in the order of ACL CAT. */
enum kw_catalog_category {
	KW_CATEGORY_KEYSPACE,
	KW_CATEGORY_READ,
	KW_CATEGORY_WRITE,
	KW_CATEGORY_SET,
	KW_CATEGORY_SORTEDSET,
	KW_CATEGORY_LIST,
	KW_CATEGORY_HASH,
	KW_CATEGORY_STRING,
	KW_CATEGORY_BITMAP,
	KW_CATEGORY_HYPERLOGLOG,
	KW_CATEGORY_GEO,
	KW_CATEGORY_STREAM,
	KW_CATEGORY_PUBSUB,
	KW_CATEGORY_ADMIN,
	KW_CATEGORY_FAST,
	KW_CATEGORY_SLOW,
	KW_CATEGORY_BLOCKING,
	KW_CATEGORY_DANGEROUS,
	KW_CATEGORY_CONNECTION,
	KW_CATEGORY_TRANSACTION,
	KW_CATEGORY_SCRIPTING,
	KW_CATEGORY_COUNT
};
extern const char *const kw_category_names[KW_CATEGORY_COUNT];

/* How the keys of a request are found. */
enum kw_catalog_search {
	KW_KEYS_RANGE,         /* first to last, by step */
	KW_KEYS_COUNTED,       /* these, and as many as words[count_at] says, after that word */
	KW_KEYS_COUNTED_PAIRS, /* the same; after each key comes its value */
	KW_KEYS_STREAMS,       /* the first half of what follows the word STREAMS */
	KW_KEYS_UNSURE,        /* first to last, by step; options can name more (STORE, BY, GET) */
};

struct kw_catalog_row {
	const char *name;      /* lower case; of a subcommand "client|id" */
	int arity;             /* words, the names included; negative: at least so many */
	int first, last, step; /* keys; first 0: none; last negative: from the end */
	enum kw_catalog_search search;
	int count_at;
	uint32_t flags;      /* enum kw_catalog_flag */
	uint32_t categories; /* bits of kw_catalog_category; those that follow from flags are not
				set */
};

size_t kw_catalog_count(void);
const struct kw_catalog_row *kw_catalog_at(size_t position);
size_t kw_catalog_position(const struct kw_catalog_row *row);

/* A command, or a subcommand by its whole name; in any case. NULL: there is none. */
const struct kw_catalog_row *kw_catalog_find(struct kw_slice name);

/* The subcommands of a command follow it. How many? */
size_t kw_catalog_subcommands(const struct kw_catalog_row *row);
bool kw_catalog_is_subcommand(const struct kw_catalog_row *row);

/* What a request asks for: the subcommand where there is one. NULL: no such (sub)command. */
const struct kw_catalog_row *kw_catalog_resolve(const struct kw_slice *words, size_t count);

/* Does the number of words fit? */
bool kw_catalog_fits(const struct kw_catalog_row *row, size_t count);

/* All categories of a row. */
uint32_t kw_catalog_categories(const struct kw_catalog_row *row);

/*
 * Which words are keys. The walk begins with zero; each call gives the next key's position, 0 after
 * the last one. A count that is no number, or more than the words: 0, and `malformed` is set.
 */
struct kw_catalog_walk {
	int64_t at, left;
	int step;
	int stage;
	bool malformed;
};
size_t kw_catalog_next_key(struct kw_catalog_walk *walk, const struct kw_catalog_row *row,
	const struct kw_slice *words, size_t count);

#endif
