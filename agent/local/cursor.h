/*
 * The cursor: how far the local server's data have come. It is written into that same server, so a
 * server that loses its data loses the cursor, too. This file knows its text; cursor_store.h moves
 * it.
 *
 *   keywake-cursor 2 epoch=<16 hex> version=<n> run_id=<hex> flushes=<n> [held=<letters>]
 *   [refused=<n>] [evicted=<n>] [filter=<16 hex>] [writes=<n>] [ended=<n>] [replid=<40 hex>]
 *   [replid2=<40 hex> second=<n>] [proxy=<16 hex> proxy_name=<name>] [agent=<name>]
 *   [lease=<16 hex>:<name>@<host>] [consented=<n>] [term=<n>@<16 hex>] quarantined=<n>
 *   (one line; a field in [] is left out if it is 0 or not said; held: key_counts.h; the term can
 *   be 0, and its domain cannot)
 *
 * Version 1 of the text has nothing from writes to consented. It is read, and written no more. An
 * agent of before takes a text of version 2 for something that is not a cursor: it writes nothing,
 * and asks for the library to be deleted. So does an agent that knows no term with a text that says
 * one.
 *
 * On servers from 7.0 the text is the answer of the one function of a function library. A library
 * is saved in RDB and AOF beside the data, but it is not in the keyspace: DBSIZE and DEBUG DIGEST
 * stay those of the primary. On older servers, or when configured so, it is a string key in
 * database 0. Pure; any thread.
 */
#ifndef KW_AGENT_LOCAL_CURSOR_H
#define KW_AGENT_LOCAL_CURSOR_H

#include "authority/lease.h"
#include "authority/term.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/slice.h"
#include "key_counts.h"
#include "table/history.h"

#include <stdbool.h>
#include <stdint.h>

#define KW_CURSOR_TEXT 1280
#define KW_CURSOR_NAME_MAX 64
#define KW_CURSOR_AGENT_MAX 64

/* What the server was to the agent that wrote the cursor (libraries only). */
enum kw_cursor_bond {
	KW_BOND_NONE,     /* a master that the agent wrote to by commands */
	KW_BOND_LED,      /* the agent's replica */
	KW_BOND_PROMOTED, /* was that, until it was promoted */
};

struct kw_local_cursor {
	uint64_t epoch;   /* of the table */
	uint64_t version; /* all up to it is applied; 0: ours, but of unknown position */
	char run_id[41];  /* of the local server when this was written */
	uint64_t flushes; /* FLUSHALL, FLUSHDB, SWAPDB calls this run of the server had executed */
	uint64_t quarantined; /* keys that are wrong locally although version says applied */
	uint64_t refused;     /* commands of its link this run had refused by then, all made good */
	uint64_t evicted;     /* keys this run had evicted by then, all brought back */
	uint64_t filter;      /* kw_filter_hash of what it speaks of; 0: of every key */
	/* Calls by which other clients wrote in this run, as the server counts them (writers.h). */
	struct {
		bool said; /* false: an agent of an earlier version wrote the cursor */
		uint64_t calls;
	} writes;
	/*
	 * The same of commands that agents use, too (writers.h): the agent had ended when this was
	 * written, and used none of them since.
	 */
	struct {
		bool said;
		uint64_t calls;
	} ended;
	struct kw_key_counts key_counts; /* keys in the databases about then; "": not said */
	/* With version 0: a person agreed that this epoch's snapshot deletes so many keys. */
	uint64_t consented;
	struct kw_term term; /* the highest that was accepted; domain 0: none was */
	enum kw_cursor_bond bond;
	struct kw_history history;           /* of the data, as the proxy told it; not AWAITED */
	char agent[KW_CURSOR_AGENT_MAX + 1]; /* who wrote it; "": not said */
	struct kw_lease_owner lease;         /* the same one; nobody: not said */
};

enum kw_cursor_kind {
	KW_CURSOR_NONE,    /* there is no cursor */
	KW_CURSOR_OURS,    /* *cursor is filled in */
	KW_CURSOR_FOREIGN, /* the name is taken by something that is not a cursor */
};

/* Letters, digits and '_', 1..KW_CURSOR_NAME_MAX: what a function library may be called. */
int kw_cursor_name_check(const char *name, struct kw_error *error);

void kw_cursor_format(const struct kw_local_cursor *cursor, char text[KW_CURSOR_TEXT]);

/* False when the text is not exactly a cursor. */
bool kw_cursor_parse(struct kw_slice text, struct kw_local_cursor *cursor);

/* The code of the function library `name` that answers with the cursor; appended to code. */
void kw_cursor_library(
	const char *name, const struct kw_local_cursor *cursor, struct kw_buffer *code);

/* Is this code, byte for byte, what kw_cursor_library writes, under any name? */
bool kw_cursor_is_library(struct kw_slice code);

/* Read the cursor back out of a library's code. */
enum kw_cursor_kind kw_cursor_from_library(struct kw_slice code, struct kw_local_cursor *cursor);

#endif
