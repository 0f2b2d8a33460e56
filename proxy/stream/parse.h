/*
 * The replication stream, taken apart into commands: what a primary sends after +CONTINUE, or after
 * the payload of a full synchronisation.
 *
 *   *3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n    a command: an array of strings
 *   \n or \r\n                                a newline between two commands: passed over
 *
 * Bytes come in pieces of any length, and the commands are the same for all ways to cut them. Every
 * byte counts for the offset, newlines too: so the server counts (replication.c, networking.c).
 *
 * Memory is bounded, whatever the server sends. A word longer than a bound is read past, and only
 * marked. A command of more words or bytes than its bounds is *cut*: its first words are told, and
 * that there were more. Its end is found all the same, so the stream goes on.
 *
 * One who is told a command may keep it (kw_repl_parser_keep): it is told again when asked, with
 * all its words, and nothing after it is told before. So a large command can be taken in pieces.
 *
 * Anything else is refused: another type than arrays of strings, an empty array, a length without
 * digits or beyond 15 of them, inline commands. Pure. One thread.
 */
#ifndef KW_PROXY_STREAM_PARSE_H
#define KW_PROXY_STREAM_PARSE_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

struct kw_repl_word {
	struct kw_slice text;
	bool too_long; /* text is empty: the word was longer than its bound */
};

/* One command; valid during the call that tells it. */
struct kw_repl_command {
	const struct kw_repl_word *words; /* one at least, the name, if it was not cut before it */
	uint32_t count;
	bool cut;            /* there were more words */
	uint64_t begin, end; /* offsets: bytes of the stream before it, and with it */
};

struct kw_repl_bounds {
	size_t word_bytes;    /* of one word */
	size_t command_bytes; /* of all words kept of one command; not less than word_bytes */
	uint32_t words;       /* of one command; not 0 */
};

typedef void (*kw_repl_command_fn)(void *arg, const struct kw_repl_command *command);

struct kw_repl_parser;

/*
 * The first byte has the offset `offset` + 1. fn is called from within feed; it must not free the
 * parser.
 */
struct kw_repl_parser *kw_repl_parser_new(
	const struct kw_repl_bounds *bounds, uint64_t offset, kw_repl_command_fn fn, void *arg);
void kw_repl_parser_free(struct kw_repl_parser *parser);

/*
 * Take bytes, tell the commands that they complete. KW_E_PROTOCOL: no server sends this; the
 * sentence has the offset. Every later call fails the same way, until a restart.
 */
int kw_repl_parser_feed(
	struct kw_repl_parser *parser, const void *bytes, size_t length, struct kw_error *error);

/*
 * From within fn: this command is told again by kw_repl_parser_again. Bytes that are fed before
 * that are kept as they are, so the owner should feed no more.
 */
void kw_repl_parser_keep(struct kw_repl_parser *parser);

/* Tell the kept command again. If it is not kept once more, go on with the bytes after it. */
int kw_repl_parser_again(struct kw_repl_parser *parser, struct kw_error *error);

/* The end of the last whole command (and of the newlines after it) that is not kept: here a stream
 * may go on. */
uint64_t kw_repl_parser_offset(const struct kw_repl_parser *parser);

/* Bytes taken, those of a command that is not whole included. */
uint64_t kw_repl_parser_taken(const struct kw_repl_parser *parser);

/*
 * Another connection: forget the command that is not whole. The next byte has the offset
 * `offset` + 1. To go on without a gap, that is kw_repl_parser_offset.
 */
void kw_repl_parser_restart(struct kw_repl_parser *parser, uint64_t offset);

/* Memory held for a command that is not whole. */
size_t kw_repl_parser_held_bytes(const struct kw_repl_parser *parser);

#endif
