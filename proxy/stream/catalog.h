/*
 * Which words of a command are the keys that it may change: what the server says in COMMAND.
 *
 *   Redis 7.0, Valkey   key specifications: begin (an index, or a keyword), then a range of words,
 *                       or a number that says how many; each with flags. Keys that are only read
 *                       (RO) are left out. Subcommands have their own.
 *   Redis 6.2           first key, last key, step
 *
 * So commands of modules, and of servers that are newer than this program, are understood as well.
 * (https://redis.io/docs/latest/develop/reference/key-specs/) Pure. One thread.
 */
#ifndef KW_PROXY_STREAM_CATALOG_H
#define KW_PROXY_STREAM_CATALOG_H

#include "redis/reply.h"
#include "stream/parse.h"

#define KW_REPL_COMMANDS_MOST 4096 /* subcommands included; Redis 8.0 has some 420 */
#define KW_REPL_SPECS_MOST 16      /* of one command */

struct kw_repl_catalog;

/*
 * From the reply to COMMAND. An entry that is not understood is left out, so its command is
 * unknown. KW_E_PROTOCOL: this is no such reply, or it has more than KW_REPL_COMMANDS_MOST entries.
 */
int kw_repl_catalog_new(
	const struct kw_reply *reply, struct kw_repl_catalog **catalog, struct kw_error *error);
void kw_repl_catalog_free(struct kw_repl_catalog *catalog);

/* How many commands it has, subcommands included. */
size_t kw_repl_catalog_count(const struct kw_repl_catalog *catalog);

enum kw_repl_keys {
	KW_REPL_KEYS_TOLD,    /* all keys that the command may change were told */
	KW_REPL_KEYS_NONE,    /* it changes no key */
	KW_REPL_KEYS_UNKNOWN, /* nobody knows which of its database; some may have been told */
	/* Nobody knows which, nor of which database: the server does not list the command, which
	 * can be SWAPDB or MOVE under another name (rename-command).
	 */
	KW_REPL_KEYS_ANYWHERE,
};

/*
 * Tell the indexes of the words that are keys which this command may change. A key can be told
 * twice. A word that is not there (the command was cut, or is none that a server accepts) makes it
 * unknown. catalog NULL: nothing is known.
 */
enum kw_repl_keys kw_repl_catalog_keys(const struct kw_repl_catalog *catalog,
	const struct kw_repl_command *command, void (*key)(void *arg, uint32_t index), void *arg);

#endif
