/*
 * How large the reply to each command may be. The server decides what it sends, so a reply is
 * refused before it takes more memory than its command can need.
 *
 *   login    16 KiB    8 elements         AUTH, CLIENT SETNAME: before anything is known
 *   short    64 KiB    1024               every command that is not named here
 *   text     128 MiB   131072             INFO, COMMAND, COMMAND INFO, FUNCTION LIST
 *   page     1 GiB     4 Mi               SCAN, CLIENT LIST
 *   value    2 GiB     1024               DUMP, FUNCTION DUMP, GET, and messages, which hold a key
 *
 * A page of SCAN has a few more keys than were asked for. But a hash table that is being replaced
 * by a much smaller one can hold a large part of all keys in one bucket, and SCAN never divides a
 * bucket (dictScan in dict.c). Names and values can have 512 MB (proto-max-bulk-len).
 *
 * Pure. Any thread.
 */
#ifndef KW_REDIS_BOUND_H
#define KW_REDIS_BOUND_H

#include "redis/reply.h"

#include <stdint.h>

enum kw_bound {
	KW_BOUND_SHORT,
	KW_BOUND_LOGIN,
	KW_BOUND_MESSAGE,
	KW_BOUND_UNASKED, /* a reply to no command */
	KW_BOUND_DUMP,
	KW_BOUND_SCAN,
	KW_BOUND_INFO,
	KW_BOUND_GET,
	KW_BOUND_CONFIG_GET, /* can hold passwords: its bytes are wiped */
	KW_BOUND_CLIENT_LIST,
	KW_BOUND_COMMAND_INFO,
	KW_BOUND_COMMAND,
	KW_BOUND_FUNCTION_LIST,
	KW_BOUND_FUNCTION_DUMP,
};

/* By the first words of a command, in capital letters as all senders here write them. */
enum kw_bound kw_bound_of(int argc, const struct kw_slice *argv);

/* Static. */
const struct kw_reply_bound *kw_bound(enum kw_bound bound);

#endif
