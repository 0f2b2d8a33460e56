#include "feed/notify/channel.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

bool kw_channel_parse(struct kw_slice channel, uint32_t *database, struct kw_slice *event)
{
	static const char front[] = "__keyevent@";
	static const char behind[] = "__:";
	const char *text = channel.data;
	size_t at = sizeof front - 1, digits = at;
	uint64_t number = 0;

	if (channel.length < at || memcmp(text, front, at) != 0)
		return false;
	for (; at < channel.length && text[at] >= '0' && text[at] <= '9'; at++) {
		number = number * 10 + (uint64_t)(text[at] - '0');
		if (number > INT32_MAX) /* a server counts its databases in an int */
			return false;
	}
	if (at == digits || channel.length - at < sizeof behind - 1 ||
		memcmp(text + at, behind, sizeof behind - 1) != 0)
		return false;
	*database = (uint32_t)number;
	at += sizeof behind - 1;
	assert(at <= channel.length);
	*event = kw_slice(text + at, channel.length - at);
	return true;
}

/* Sorted. What notifyKeyspaceEvent is called with in the servers' sources, from 6.2 to 9.1. */
static const char *const lasting[] = {"append", "decrby", "del", "evicted", "expired",
	"georadiusstore", "geosearchstore", "hdel", "hexpire", "hexpired", "hincrby",
	"hincrbyfloat", "hpersist", "hset", "incrby", "incrbyfloat", "linsert", "lpop", "lpush",
	"lrem", "lset", "ltrim", "move_from", "new", "overwritten", "persist", "pfadd",
	"rename_from", "rpop", "rpush", "sadd", "sdiffstore", "set", "setbit", "setrange",
	"sinterstore", "sortstore", "spop", "srem", "sunionstore", "type_changed", "xack",
	"xackdel", "xadd", "xautoclaim", "xclaim", "xdel", "xdelex", "xgroup-create",
	"xgroup-createconsumer", "xgroup-delconsumer", "xgroup-destroy", "xgroup-setid", "xsetid",
	"xtrim", "zadd", "zdiffstore", "zincr", "zinterstore", "zrangestore", "zrem",
	"zremrangebylex", "zremrangebyrank", "zremrangebyscore", "zunionstore"};

static int compare_name(const void *key, const void *member)
{
	const struct kw_slice *event = key;
	const char *name = *(const char *const *)member;
	int order = strncmp(event->data, name, event->length);

	return order ? order : -(name[event->length] != '\0');
}

bool kw_channel_is_change(struct kw_slice event)
{
	return !kw_slice_equal(event, kw_slice_text("keymiss"));
}

bool kw_channel_may_expire(struct kw_slice event)
{
	if (event.length == 0 || memchr(event.data, '\0', event.length))
		return true;
	return !bsearch(
		&event, lasting, sizeof lasting / sizeof *lasting, sizeof *lasting, compare_name);
}
