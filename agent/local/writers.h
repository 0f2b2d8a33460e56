/*
 * Did other clients write to the local server? The server counts the calls of each command (INFO
 * commandstats), whoever makes them: in scripts and functions, in MULTI, over a link. So there are
 *
 *   foreign   calls of commands that change keys and that no agent ever uses: others made them
 *   shared    calls of commands that change keys and that agents use, too: RESTORE and UNLINK
 *
 * Not in either: FLUSHALL, FLUSHDB and SWAPDB (flushes.h), functions (facts.h), and what merely
 * carries the server's mark of a write: SORT, GEORADIUS and GETEX mostly read. (SORT … STORE and
 * GETEX … EX are not seen.) What a server does by itself, such as expiry, is no call. The replay of
 * an AOF and the load of an RDB are not counted by the servers. A call that changed nothing, such
 * as DEL of a key that is not there, is counted.
 *
 * A table has the commands of the servers that change no key. Any other name but SET is looked up
 * at the server, once (COMMAND INFO); until it answers, its calls are not counted. A server that
 * does not answer, or does not know the name, leaves it a command that writes.
 *
 * Pure; any thread.
 */
#ifndef KW_AGENT_LOCAL_WRITERS_H
#define KW_AGENT_LOCAL_WRITERS_H

#include "base/slice.h"
#include "redis/reply.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Names that are told apart; those beyond count as commands that write. */
#define KW_WRITERS_NAMES 160
#define KW_WRITERS_NAME 48

enum kw_writers_class {
	KW_WRITERS_UNKNOWN, /* the server has not said yet */
	KW_WRITERS_READS,
	KW_WRITERS_WRITES,
};

struct kw_writers_name {
	char text[KW_WRITERS_NAME];
	enum kw_writers_class class;
	uint64_t calls;
};

/* Zeroed: nothing is known. It remembers names from one count to the next. */
struct kw_writers {
	struct kw_writers_name names[KW_WRITERS_NAMES];
	size_t count;
	uint64_t nameless; /* calls of names for which there was no room */
	uint64_t foreign, shared;
	char last[KW_WRITERS_NAME]; /* of the foreign commands, one whose calls grew last; "" */
};

/* One answer to INFO (commandstats). */
void kw_writers_count(struct kw_writers *writers, struct kw_slice info);

/* The names that the server is to be asked about, at most `room`. Returns how many. */
size_t kw_writers_unknown(const struct kw_writers *writers, const char **names, size_t room);

/*
 * What COMMAND INFO says of one command: name, arity, flags, … A server that does not know the name
 * answers nil. Anything but a list of flags without "write" counts as a command that writes.
 */
bool kw_writers_does_write(const struct kw_reply *command);

/* What it said. A name that is not known is left out. */
void kw_writers_answer(struct kw_writers *writers, const char *name, bool writes);

#endif
