#include "writers.h"

#include "redis/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/*
 * Commands of Redis 6.2 to 8.0 and Valkey 7.2 to 9.1 that change no key, in order. A container
 * stands for all its subcommands. With them stand commands that carry the mark of a write and
 * mostly read, and those that are counted elsewhere: flushes and functions.
 */
static const char *const readers[] = {"acl", "asking", "auth", "bgrewriteaof", "bgsave", "bitcount",
	"bitfield_ro", "bitpos", "client", "cluster", "clusterscan", "command", "commandlog",
	"config", "dbsize", "debug", "discard", "dump", "echo", "eval", "eval_ro", "evalsha",
	"evalsha_ro", "exec", "exists", "expiretime", "failover", "fcall", "fcall_ro", "flushall",
	"flushdb", "function", "geodist", "geohash", "geopos", "georadius", "georadius_ro",
	"georadiusbymember", "georadiusbymember_ro", "geosearch", "get", "getbit", "getex",
	"getrange", "hello", "hexists", "hexpiretime", "hget", "hgetall", "hgetex", "hkeys", "hlen",
	"hmget", "host:", "hpexpiretime", "hpttl", "hrandfield", "hscan", "hstrlen", "httl",
	"hvals", "info", "keys", "lastsave", "latency", "lcs", "lindex", "llen", "lolwut", "lpos",
	"lrange", "memory", "mget", "module", "monitor", "multi", "object", "pexpiretime",
	"pfcount", "pfdebug", "pfselftest", "ping", "post", "psubscribe", "psync", "pttl",
	"publish", "pubsub", "punsubscribe", "quit", "randomkey", "readonly", "readwrite",
	"replconf", "replicaof", "reset", "role", "save", "scan", "scard", "script", "sdiff",
	"select", "sentinel", "shutdown", "sinter", "sintercard", "sismember", "slaveof", "slowlog",
	"smembers", "smismember", "sort", "sort_ro", "spublish", "srandmember", "sscan",
	"ssubscribe", "stralgo", "strlen", "subscribe", "substr", "sunion", "sunsubscribe",
	"swapdb", "sync", "time", "touch", "ttl", "type", "unsubscribe", "unwatch", "vcard", "vdim",
	"vemb", "vgetattr", "vinfo", "vismember", "vlinks", "vrandmember", "vsim", "wait",
	"waitaof", "watch", "xgroup|help", "xinfo", "xlen", "xpending", "xrange", "xread",
	"xrevrange", "zcard", "zcount", "zdiff", "zinter", "zintercard", "zlexcount", "zmscore",
	"zrandmember", "zrange", "zrangebylex", "zrangebyscore", "zrank", "zrevrange",
	"zrevrangebylex", "zrevrangebyscore", "zrevrank", "zscan", "zscore", "zunion"};

/* Agents use these for the data. */
static const char *const shared[] = {"restore", "unlink"};

static int compare(const void *key, const void *element)
{
	return strcasecmp(key, *(const char *const *)element);
}

/* The name, or the container before '|'. */
static bool is_reader(const char *name)
{
	char container[KW_WRITERS_NAME];
	size_t length = strcspn(name, "|");
	size_t count = sizeof readers / sizeof *readers;

	if (bsearch(name, readers, count, sizeof *readers, compare))
		return true;
	snprintf(container, sizeof container, "%.*s", (int)length, name);
	return name[length] == '|' &&
	       bsearch(container, readers, count, sizeof *readers, compare) != NULL;
}

static bool is_shared(const char *name)
{
	for (size_t i = 0; i < sizeof shared / sizeof *shared; i++)
		if (strcasecmp(shared[i], name) == 0)
			return true;
	return false;
}

/* The numbers are the server's, and can be any. */
static void add(uint64_t *sum, uint64_t more)
{
	*sum = *sum <= UINT64_MAX - more ? *sum + more : UINT64_MAX;
}

static struct kw_writers_name *find(struct kw_writers *writers, const char *name)
{
	for (size_t i = 0; i < writers->count; i++)
		if (strcmp(writers->names[i].text, name) == 0)
			return &writers->names[i];
	return NULL;
}

static void sum_up(struct kw_writers *writers)
{
	writers->foreign = writers->nameless;
	for (size_t i = 0; i < writers->count; i++)
		if (writers->names[i].class == KW_WRITERS_WRITES)
			add(&writers->foreign, writers->names[i].calls);
}

static void count_command(void *arg, struct kw_slice command, uint64_t calls, uint64_t usec)
{
	struct kw_writers *writers = arg;
	struct kw_writers_name *name;
	char text[KW_WRITERS_NAME];

	if (calls == 0)
		return;
	snprintf(text, sizeof text, "%.*s", (int)command.length, (const char *)command.data);
	if (is_reader(text))
		return;
	if (is_shared(text)) {
		add(&writers->shared, calls);
		return;
	}
	name = find(writers, text);
	if (!name && (writers->count == KW_WRITERS_NAMES || command.length >= sizeof text)) {
		add(&writers->nameless, calls);
		return;
	}
	if (!name) {
		name = &writers->names[writers->count++];
		/* Cursors are written by SET, too: its calls count from the first one on. */
		name->class = strcasecmp(text, "set") == 0 ? KW_WRITERS_WRITES : KW_WRITERS_UNKNOWN;
		memcpy(name->text, text, sizeof text);
	}
	name->calls = calls;
}

/* A name whose calls are more than they were: one of those that others used last. */
static void note_last(struct kw_writers *writers, const uint64_t *before, size_t known)
{
	for (size_t i = 0; i < writers->count; i++)
		if (writers->names[i].calls > (i < known ? before[i] : 0) &&
			writers->names[i].class != KW_WRITERS_READS)
			memcpy(writers->last, writers->names[i].text, sizeof writers->last);
}

void kw_writers_count(struct kw_writers *writers, struct kw_slice info)
{
	uint64_t before[KW_WRITERS_NAMES];
	size_t known = writers->count;

	for (size_t i = 0; i < known; i++) {
		before[i] = writers->names[i].calls;
		writers->names[i].calls = 0;
	}
	writers->nameless = writers->shared = 0;
	kw_info_commands(info, count_command, writers);
	note_last(writers, before, known);
	sum_up(writers);
}

static bool has_flag(const struct kw_reply *flags, const char *flag)
{
	for (size_t i = 0; i < flags->count; i++)
		if (kw_slice_equal(flags->elements[i].text, kw_slice_text(flag)))
			return true;
	return false;
}

bool kw_writers_does_write(const struct kw_reply *command)
{
	return command->type != KW_REPLY_ARRAY || command->count < 3 ||
	       command->elements[2].type != KW_REPLY_ARRAY ||
	       has_flag(&command->elements[2], "write");
}

size_t kw_writers_unknown(const struct kw_writers *writers, const char **names, size_t room)
{
	size_t found = 0;

	for (size_t i = 0; i < writers->count && found < room; i++)
		if (writers->names[i].class == KW_WRITERS_UNKNOWN)
			names[found++] = writers->names[i].text;
	return found;
}

void kw_writers_answer(struct kw_writers *writers, const char *name, bool writes)
{
	struct kw_writers_name *known = find(writers, name);

	if (!known)
		return;
	known->class = writes ? KW_WRITERS_WRITES : KW_WRITERS_READS;
	sum_up(writers);
}
