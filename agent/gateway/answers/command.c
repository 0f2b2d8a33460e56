#include "command.h"

#include "answers.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#define LAST (-1)

/* In the order of their names: found by halves. */
static const struct kw_command commands[] = {
	/* name, arity, join, first key, last key, kind, answer, what is refused first */
	{"bitcount", -2, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_STRING, kw_answer_bitcount,
		KW_REFUSES_WORDS},
	{"bitfield_ro", -2, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_STRING, kw_answer_bitfield,
		KW_REFUSES_WORDS},
	{"bitpos", -3, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_STRING, kw_answer_bitpos, KW_REFUSES_WORDS},
	{"dump", 2, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_UNKNOWN, kw_answer_dump},
	{"exists", -2, KW_COMMAND_SUM, 1, LAST, KW_VALUE_UNKNOWN, kw_answer_exists},
	{"expiretime", 2, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_UNKNOWN, kw_answer_expiretime},
	{"geodist", -4, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_ZSET, kw_answer_geodist, KW_REFUSES_WORDS},
	{"geohash", -2, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_ZSET, kw_answer_geohash},
	{"geopos", -2, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_ZSET, kw_answer_geopos},
	{"georadius_ro", -6, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_ZSET, kw_answer_georadius},
	{"georadiusbymember_ro", -5, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_ZSET,
		kw_answer_georadiusbymember},
	{"geosearch", -7, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_ZSET, kw_answer_geosearch},
	{"get", 2, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_STRING, kw_answer_get},
	{"getbit", 3, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_STRING, kw_answer_getbit, KW_REFUSES_WORDS},
	{"getrange", 4, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_STRING, kw_answer_getrange,
		KW_REFUSES_WORDS},
	{"hexists", 3, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_HASH, kw_answer_hexists},
	{"hexpiretime", -5, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_HASH, kw_answer_hexpiretime,
		KW_REFUSES_BY_FORK},
	{"hget", 3, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_HASH, kw_answer_hget},
	{"hgetall", 2, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_HASH, kw_answer_hgetall},
	{"hkeys", 2, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_HASH, kw_answer_hkeys},
	{"hlen", 2, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_HASH, kw_answer_hlen},
	{"hmget", -3, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_HASH, kw_answer_hmget},
	{"hpexpiretime", -5, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_HASH, kw_answer_hpexpiretime,
		KW_REFUSES_BY_FORK},
	{"hpttl", -5, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_HASH, kw_answer_hpttl, KW_REFUSES_BY_FORK},
	{"hrandfield", -2, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_HASH, kw_answer_hrandfield,
		KW_REFUSES_WORDS},
	{"hscan", -3, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_HASH, kw_answer_hscan, KW_REFUSES_WORDS},
	{"hstrlen", 3, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_HASH, kw_answer_hstrlen},
	{"httl", -5, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_HASH, kw_answer_httl, KW_REFUSES_BY_FORK},
	{"hvals", 2, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_HASH, kw_answer_hvals},
	{"lindex", 3, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_LIST, kw_answer_lindex},
	{"llen", 2, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_LIST, kw_answer_size},
	{"lpos", -3, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_LIST, kw_answer_lpos, KW_REFUSES_WORDS},
	{"lrange", 4, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_LIST, kw_answer_lrange, KW_REFUSES_WORDS},
	{"mget", -2, KW_COMMAND_EACH, 1, LAST, KW_VALUE_STRING, kw_answer_get},
	{"pexpiretime", 2, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_UNKNOWN, kw_answer_pexpiretime},
	{"pfcount", 2, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_STRING, kw_answer_pfcount},
	{"pttl", 2, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_UNKNOWN, kw_answer_pttl},
	{"scard", 2, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_SET, kw_answer_size},
	{"sismember", 3, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_SET, kw_answer_sismember},
	{"smembers", 2, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_SET, kw_answer_smembers},
	{"smismember", -3, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_SET, kw_answer_smismember},
	{"srandmember", -2, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_SET, kw_answer_srandmember,
		KW_REFUSES_WORDS},
	{"sscan", -3, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_SET, kw_answer_sscan, KW_REFUSES_WORDS},
	{"strlen", 2, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_STRING, kw_answer_strlen},
	{"substr", 4, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_STRING, kw_answer_getrange,
		KW_REFUSES_WORDS},
	{"ttl", 2, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_UNKNOWN, kw_answer_ttl},
	{"type", 2, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_UNKNOWN, kw_answer_type},
	{"xlen", 2, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_STREAM, kw_answer_xlen},
	{"xrange", -4, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_STREAM, kw_answer_xrange, KW_REFUSES_WORDS},
	{"xrevrange", -4, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_STREAM, kw_answer_xrevrange,
		KW_REFUSES_WORDS},
	{"zcard", 2, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_ZSET, kw_answer_size},
	{"zcount", 4, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_ZSET, kw_answer_zcount, KW_REFUSES_WORDS},
	{"zlexcount", 4, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_ZSET, kw_answer_zlexcount,
		KW_REFUSES_WORDS},
	{"zmscore", -3, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_ZSET, kw_answer_zmscore},
	{"zrandmember", -2, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_ZSET, kw_answer_zrandmember,
		KW_REFUSES_WORDS},
	{"zrange", -4, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_ZSET, kw_answer_zrange, KW_REFUSES_WORDS},
	{"zrangebylex", -4, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_ZSET, kw_answer_zrangebylex,
		KW_REFUSES_WORDS},
	{"zrangebyscore", -4, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_ZSET, kw_answer_zrangebyscore,
		KW_REFUSES_WORDS},
	{"zrank", -3, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_ZSET, kw_answer_zrank, KW_REFUSES_WORDS},
	{"zrevrange", -4, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_ZSET, kw_answer_zrevrange,
		KW_REFUSES_WORDS},
	{"zrevrangebylex", -4, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_ZSET, kw_answer_zrevrangebylex,
		KW_REFUSES_WORDS},
	{"zrevrangebyscore", -4, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_ZSET, kw_answer_zrevrangebyscore,
		KW_REFUSES_WORDS},
	{"zrevrank", -3, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_ZSET, kw_answer_zrevrank,
		KW_REFUSES_WORDS},
	{"zscan", -3, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_ZSET, kw_answer_zscan, KW_REFUSES_WORDS},
	{"zscore", 3, KW_COMMAND_WHOLE, 1, 1, KW_VALUE_ZSET, kw_answer_zscore},
};

#define COMMANDS (sizeof commands / sizeof *commands)
#define NAME_MAX_BYTES 32

size_t kw_command_count(void)
{
	return COMMANDS;
}

const struct kw_command *kw_command_find(struct kw_slice name)
{
	char text[NAME_MAX_BYTES];
	size_t low = 0, high = COMMANDS;

	if (name.length == 0 || name.length >= sizeof text)
		return NULL;
	for (size_t i = 0; i < name.length; i++) {
		char byte = ((const char *)name.data)[i];

		if (byte == '\0') /* it would end the name */
			return NULL;
		text[i] = byte >= 'A' && byte <= 'Z' ? (char)(byte - 'A' + 'a') : byte;
	}
	text[name.length] = '\0';
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = text[0] - commands[middle].name[0]; /* mostly enough */

		if (order == 0)
			order = strcmp(text, commands[middle].name);
		if (order == 0)
			return &commands[middle];
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}

int kw_command_fits(const struct kw_command *command, size_t words)
{
	if (command->arity > 0)
		return words == (size_t)command->arity;
	return words >= (size_t)-command->arity;
}

size_t kw_command_keys(const struct kw_command *command, size_t words)
{
	if (command->last_key > 0)
		return (size_t)(command->last_key - command->first_key + 1);
	return words - (size_t)-command->last_key - (size_t)command->first_key + 1;
}

void kw_command_refuse(const struct kw_command *command, const struct kw_reply_to *to)
{
	kw_reply_error(to, "ERR wrong number of arguments for '%s' command", command->name);
}

/* Would the words be refused whatever the value is? Then that was replied. */
static bool refuses_words(const struct kw_command *command, struct kw_ask *ask)
{
	struct kw_slice payload = ask->payload;

	if (command->refuses == KW_REFUSES_KIND ||
		(command->refuses == KW_REFUSES_BY_FORK && ask->to->release.fork != KW_FORK_VALKEY))
		return false;
	ask->payload = kw_slice(NULL, 0);
	command->answer(ask);
	ask->payload = payload;
	if (kw_buffer_bytes(ask->to->out)[ask->begun] == '-')
		return true;
	ask->to->out->end = ask->to->out->start + ask->begun;
	return false;
}

void kw_command_answer(const struct kw_command *command, const struct kw_ask *ask)
{
	struct kw_ask begun = *ask;

	begun.begun = kw_buffer_length(ask->to->out);
	if (kw_ask_is_missing(ask) || command->kind == KW_VALUE_UNKNOWN ||
		command->kind == ask->kind)
		command->answer(&begun);
	else if (command->join == KW_COMMAND_EACH)
		kw_reply_nil(ask->to);
	else if (!refuses_words(command, &begun))
		kw_reply_error(ask->to, "WRONGTYPE Operation against a key holding the wrong kind "
					"of value");
}
