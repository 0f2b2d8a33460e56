/*
 * One line of a memcached client, but for get and gets: what it asks for, from a table of the
 * commands in command.c.
 *
 * Pure; used by request.c only.
 */
#ifndef KW_AGENT_GATEWAY_MEMCACHED_COMMAND_H
#define KW_AGENT_GATEWAY_MEMCACHED_COMMAND_H

#include "request.h"

#include <stdbool.h>

#define KW_MEMCACHED_WORDS_MAX 24
#define KW_MEMCACHED_BAD_LINE "CLIENT_ERROR bad command line format\r\n"

struct kw_memcached_line {
	uint8_t *base; /* the line's first byte: words may be written over */
	struct kw_slice words[KW_MEMCACHED_WORDS_MAX];
	size_t count; /* of the line; more than WORDS_MAX: the others are not kept */
};

/* Short enough, and without control characters? */
bool kw_memcached_is_key(struct kw_slice word);

/* Sets what came of it: keys, says, how, or the data block that is expected. */
enum kw_memcached_act kw_memcached_command(
	struct kw_memcached_request *request, const struct kw_memcached_line *line);

/* The reply, as it is in this text. */
enum kw_memcached_act kw_memcached_say(
	struct kw_memcached_request *request, enum kw_memcached_act act, const char *text);

#endif
