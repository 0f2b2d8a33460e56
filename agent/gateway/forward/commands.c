#include "commands.h"

#include <string.h>
#include <strings.h>

#define NAME_MAX_BYTES 32
#define LENGTH(table) (sizeof(table) / sizeof *(table))

#define REMEDY "; send it to the primary itself"
#define BLOCKS "it can wait, and all clients share the connection to the primary" REMEDY
#define CONNECTION                                                                                 \
	"it changes the state of a connection, and all clients share the one to the "              \
	"primary" REMEDY
#define MESSAGES "messages do not pass through the gateway" REMEDY
#define ADMINISTERS "it administers a server" REMEDY
#define SILENT "no event tells of it, so this gateway would go on to answer from before it" REMEDY
#define UNKNOWN                                                                                    \
	"the gateway does not know it: it could wait, or change the connection that all clients "  \
	"share" REMEDY

struct refusal {
	const char *name, *why;
};

/* A command of several: what its second word may be. NULL ends a list. Others administer. */
struct container {
	const char *name;
	const char *reads[8], *writes[8];
};

/* All tables are in the order of the names: they are searched by halves. */

static const char *const reads[] = {"bitcount", "bitfield_ro", "bitpos", "clusterscan", "dbsize",
	"digest", "dump", "eval_ro", "evalsha_ro", "exists", "expiretime", "fcall_ro", "geodist",
	"geohash", "geopos", "georadius_ro", "georadiusbymember_ro", "geosearch", "get", "getbit",
	"getrange", "hexists", "hexpiretime", "hget", "hgetall", "hkeys", "hlen", "hmget",
	"hpexpiretime", "hpttl", "hrandfield", "hscan", "hstrlen", "httl", "hvals", "keys",
	"lastsave", "lcs", "lindex", "llen", "lolwut", "lpos", "lrange", "mget", "pexpiretime",
	"pfcount", "pttl", "publish", "randomkey", "scan", "scard", "sdiff", "sinter", "sintercard",
	"sismember", "smembers", "smismember", "sort_ro", "spublish", "srandmember", "sscan",
	"strlen", "substr", "sunion", "time", "touch", "ttl", "type", "vcard", "vdim", "vemb",
	"vgetattr", "vinfo", "vismember", "vlinks", "vrandmember", "vsim", "xlen", "xpending",
	"xrange", "xread", "xrevrange", "zcard", "zcount", "zdiff", "zinter", "zintercard",
	"zlexcount", "zmscore", "zrandmember", "zrange", "zrangebylex", "zrangebyscore", "zrank",
	"zrevrange", "zrevrangebylex", "zrevrangebyscore", "zrevrank", "zscan", "zscore", "zunion"};

static const char *const writes[] = {"append", "bitfield", "bitop", "copy", "decr", "decrby", "del",
	"delex", "delifeq", "eval", "evalsha", "expire", "expireat", "fcall", "flushall", "flushdb",
	"geoadd", "georadius", "georadiusbymember", "geosearchstore", "getdel", "getex", "getset",
	"hdel", "hexpire", "hexpireat", "hgetdel", "hgetex", "hincrby", "hincrbyfloat", "hmset",
	"hpersist", "hpexpire", "hpexpireat", "hset", "hsetex", "hsetnx", "incr", "incrby",
	"incrbyfloat", "linsert", "lmove", "lmpop", "lpop", "lpush", "lpushx", "lrem", "lset",
	"ltrim", "move", "mset", "msetex", "msetnx", "persist", "pexpire", "pexpireat", "pfadd",
	"pfmerge", "psetex", "rename", "renamenx", "restore", "rpop", "rpoplpush", "rpush",
	"rpushx", "sadd", "sdiffstore", "set", "setbit", "setex", "setnx", "setrange",
	"sinterstore", "smove", "sort", "spop", "srem", "sunionstore", "unlink", "vadd", "vrem",
	"vsetattr", "xack", "xackdel", "xadd", "xautoclaim", "xclaim", "xdel", "xdelex",
	"xreadgroup", "xsetid", "xtrim", "zadd", "zdiffstore", "zincrby", "zinterstore", "zmpop",
	"zpopmax", "zpopmin", "zrangestore", "zrem", "zremrangebylex", "zremrangebyrank",
	"zremrangebyscore", "zunionstore"};

static const struct refusal refusals[] = {
	{"acl", ADMINISTERS},
	{"asking", CONNECTION},
	{"auth", CONNECTION},
	{"bgrewriteaof", ADMINISTERS},
	{"bgsave", ADMINISTERS},
	{"blmove", BLOCKS},
	{"blmpop", BLOCKS},
	{"blpop", BLOCKS},
	{"brpop", BLOCKS},
	{"brpoplpush", BLOCKS},
	{"bzmpop", BLOCKS},
	{"bzpopmax", BLOCKS},
	{"bzpopmin", BLOCKS},
	{"client", CONNECTION},
	{"cluster", ADMINISTERS},
	{"commandlog", ADMINISTERS},
	{"config", ADMINISTERS},
	{"debug", ADMINISTERS},
	{"discard", CONNECTION},
	{"exec", CONNECTION},
	{"failover", ADMINISTERS},
	{"hello", CONNECTION},
	{"hotkeys", ADMINISTERS},
	{"latency", ADMINISTERS},
	{"migrate", ADMINISTERS},
	{"module", ADMINISTERS},
	{"monitor", MESSAGES},
	{"multi", CONNECTION},
	{"pfdebug", ADMINISTERS},
	{"pfselftest", ADMINISTERS},
	{"psubscribe", MESSAGES},
	{"psync", ADMINISTERS},
	{"punsubscribe", MESSAGES},
	{"quit", CONNECTION},
	{"readonly", CONNECTION},
	{"readwrite", CONNECTION},
	{"replconf", ADMINISTERS},
	{"replicaof", ADMINISTERS},
	{"reset", CONNECTION},
	{"restore-asking", ADMINISTERS},
	{"role", ADMINISTERS},
	{"save", ADMINISTERS},
	{"select", CONNECTION},
	{"shutdown", ADMINISTERS},
	{"slaveof", ADMINISTERS},
	{"slowlog", ADMINISTERS},
	{"ssubscribe", MESSAGES},
	{"subscribe", MESSAGES},
	{"sunsubscribe", MESSAGES},
	{"swapdb", SILENT},
	{"sync", ADMINISTERS},
	{"unsubscribe", MESSAGES},
	{"unwatch", CONNECTION},
	{"wait", BLOCKS},
	{"waitaof", BLOCKS},
	{"watch", CONNECTION},
};

static const struct container containers[] = {
	{"command", {"count", "docs", "getkeys", "getkeysandflags", "help", "info", "list"}, {0}},
	{"function", {"dump", "help", "list", "stats"}, {0}},
	{"memory", {"help", "usage"}, {0}},
	{"object", {"encoding", "freq", "help", "idletime", "refcount"}, {0}},
	{"pubsub", {"channels", "help", "numpat", "numsub", "shardchannels", "shardnumsub"}, {0}},
	{"script", {"exists", "help", "load", "show"}, {0}},
	{"xgroup", {"help"}, {"create", "createconsumer", "delconsumer", "destroy", "setid"}},
	{"xinfo", {"consumers", "groups", "help", "stream"}, {0}},
};

/* A word as text in the given room; false: it is longer than any name, or holds a zero byte. */
static bool to_text(struct kw_slice word, char text[NAME_MAX_BYTES])
{
	if (word.length >= NAME_MAX_BYTES || memchr(word.data ? word.data : "", 0, word.length))
		return false;
	memcpy(text, word.data ? word.data : "", word.length);
	text[word.length] = '\0';
	return true;
}

/* Each entry begins with the pointer to its name. */
static const void *find(const char *name, const void *table, size_t count, size_t entry_bytes)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const void *entry = (const char *)table + middle * entry_bytes;
		int order = strcasecmp(name, *(const char *const *)entry);

		if (order == 0)
			return entry;
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}

#define FIND(name, table) find(name, table, LENGTH(table), sizeof *(table))

static struct kw_forward_verdict passes(enum kw_forward_class class)
{
	return (struct kw_forward_verdict){.class = class};
}

static struct kw_forward_verdict refused(const char *why)
{
	return (struct kw_forward_verdict){.class = KW_FORWARD_REFUSED, .why = why};
}

static bool is_listed(const char *name, const char *const list[8])
{
	for (int i = 0; i < 8 && list[i]; i++) {
		if (strcasecmp(name, list[i]) == 0)
			return true;
	}
	return false;
}

static struct kw_forward_verdict judge_container(
	const struct container *container, const struct kw_slice *words, size_t count)
{
	char second[NAME_MAX_BYTES] = "";

	/* COMMAND alone is complete; of the others the primary says what is missing. */
	if (count == 1 || !to_text(words[1], second))
		return passes(KW_FORWARD_READS);
	if (is_listed(second, container->reads))
		return passes(KW_FORWARD_READS);
	if (is_listed(second, container->writes))
		return passes(KW_FORWARD_WRITES);
	return refused(ADMINISTERS);
}

static bool is_word(struct kw_slice word, const char *text)
{
	return word.length == strlen(text) && strncasecmp(word.data, text, word.length) == 0;
}

/* XREAD and XREADGROUP wait if BLOCK stands before STREAMS. */
static bool waits_for_streams(const struct kw_slice *words, size_t count)
{
	bool group = is_word(words[0], "xreadgroup");
	size_t first = 1;

	/* XREADGROUP GROUP name consumer: those two can have any name. */
	if (!group && !is_word(words[0], "xread"))
		return false;
	for (size_t i = first; i < count && !is_word(words[i], "streams"); i++) {
		if (is_word(words[i], "block"))
			return true;
		if (group && is_word(words[i], "group"))
			i += 2;
	}
	return false;
}

struct kw_forward_verdict kw_forward_may(const struct kw_slice *words, size_t count)
{
	const struct container *container;
	const struct refusal *refusal;
	char name[NAME_MAX_BYTES];

	if (!to_text(words[0], name))
		return (struct kw_forward_verdict){KW_FORWARD_UNKNOWN, UNKNOWN};
	if (waits_for_streams(words, count))
		return refused(BLOCKS);
	if (FIND(name, reads))
		return passes(KW_FORWARD_READS);
	if (FIND(name, writes))
		return passes(KW_FORWARD_WRITES);
	refusal = FIND(name, refusals);
	if (refusal)
		return refused(refusal->why);
	container = FIND(name, containers);
	if (container)
		return judge_container(container, words, count);
	return (struct kw_forward_verdict){KW_FORWARD_UNKNOWN, UNKNOWN};
}
