/*
 * What one command of the replication stream means for the keys.
 *
 *   SET k v PXAT 17…        VALUE    k has the value v, and expires then
 *   DEL k                   DELETE
 *   INCRBY k 3              ADD      known if the value before it is
 *   ZADD k 1 m              TOUCH    k changed, and must be fetched: by COMMAND's key
 * specifications a command not known     DOUBT    any key of its database may have changed
 *
 * A primary has rewritten what does not repeat exactly: SET EX arrives as SET PXAT, EXPIRE as
 * PEXPIREAT, INCRBYFLOAT as SET KEEPTTL, GETSET as SET, SPOP as SREM (propagation in t_string.c,
 * expire.c, t_set.c). A command is only sent if it changed something, so conditions (NX, XX, GT)
 * hold. If a form arrives that is not understood, the key is TOUCHed: that is always right. Times
 * relative to now (Redis 6.2) are such a form.
 *
 * Each effect is what is true after the command, so effects may not be left out or reordered on one
 * key. Pure functions of their arguments. Any thread.
 */
#ifndef KW_PROXY_STREAM_MEANING_H
#define KW_PROXY_STREAM_MEANING_H

#include "base/slice.h"
#include "stream/catalog.h"
#include "stream/parse.h"

#include <stdint.h>

/* A partial joiner is told no SELECT before the first command in another database. */
#define KW_REPL_ANY_DATABASE UINT32_MAX
/* A server counts them in an int, and tells of all. The owner knows which of them it follows. */
#define KW_REPL_DATABASE_LAST INT32_MAX

enum kw_repl_effect_kind {
	KW_REPL_VALUE,     /* the key has the string `bytes`; expiry says what becomes of its TTL */
	KW_REPL_PAYLOAD,   /* … the value of the DUMP payload `bytes`, unchecked (RESTORE) */
	KW_REPL_DELETE,    /* the key is gone, if it was there */
	KW_REPL_EXPIRY,    /* only its expiry changed */
	KW_REPL_ADD,       /* `number` was added to its integer; a missing key was 0 */
	KW_REPL_APPEND,    /* `bytes` was appended to its string; a missing key was empty */
	KW_REPL_WRITE,     /* `bytes` was written at the byte `number` of its string; the same */
	KW_REPL_MOVE,      /* value and expiry are now of (to_database, to), and the key is gone */
	KW_REPL_COPY,      /* (to_database, to) has the value and the expiry of the key, too */
	KW_REPL_TOUCH,     /* anything of the key may have changed */
	KW_REPL_FLUSH,     /* the database is empty; KW_REPL_ANY_DATABASE: one is */
	KW_REPL_FLUSH_ALL, /* all databases are empty */
	KW_REPL_SWAP,      /* database and to_database changed their places */
	KW_REPL_FUNCTIONS, /* function libraries were loaded, or are gone */
	KW_REPL_FUNCTIONS_FLUSHED, /* all function libraries are gone */
	KW_REPL_DOUBT,             /* any key of the database may have changed */
};

enum kw_repl_expiry {
	KW_REPL_EXPIRES_NEVER,
	KW_REPL_EXPIRES_AT, /* expires_ms */
	KW_REPL_EXPIRES_AS_BEFORE,
};

struct kw_repl_effect {
	enum kw_repl_effect_kind kind;
	enum kw_repl_expiry expiry; /* VALUE, PAYLOAD, EXPIRY; AS_BEFORE for all others */
	/* KW_REPL_ANY_DATABASE: only of TOUCH (the key in every database), FLUSH, DOUBT (of all),
	 * and those that are of no database */
	uint32_t database;
	uint32_t to_database;
	struct kw_slice key, to, bytes; /* key: of DOUBT the name of the command */
	int64_t number;
	int64_t expires_ms;
};

typedef void (*kw_repl_effect_fn)(void *arg, const struct kw_repl_effect *effect);

/*
 * Tell the effects of a command in this database, in their order. Their texts lie in the command's
 * words. SELECT, MULTI and EXEC have none: effects.h takes them.
 */
void kw_repl_meaning(const struct kw_repl_command *command, uint32_t database,
	const struct kw_repl_catalog *catalog, kw_repl_effect_fn fn, void *arg);

/* Is the command's name this one, in any case of letters? */
bool kw_repl_is(const struct kw_repl_command *command, const char *name);

/*
 * A number as the server reads it: digits, perhaps a minus sign, no space, no leading zero, within
 * 64 bits (string2ll in util.c).
 */
bool kw_repl_number(struct kw_slice text, int64_t *number);

#endif
