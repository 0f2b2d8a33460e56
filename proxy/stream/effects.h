/*
 * The replication stream as effects on keys: which database, and what belongs together.
 *
 *          SELECT n: the database of what follows
 *          ┌──┐
 *   ┌──────▼──┴┐  MULTI  ┌─────────────┐──┐ beyond the bounds: a piece of it,
 *   │  PLAIN   │────────▶│ TRANSACTION │  │ as a batch
 *   └──────────┘◀────────└─────────────┘◀─┘
 *    each command   EXEC: all of it as one batch, or the last piece
 *    is a batch
 *
 * Effects are handed on in batches. Whoever publishes one batch whole shows no state that the
 * primary never had. A transaction keeps its texts until EXEC, within bounds. Its commands can be
 * in several databases. A transaction beyond the bounds is handed on in pieces: nothing of it is
 * lost, but a reader can see a part of it. So is a command with many keys.
 *
 * A command of a million keys would keep the owner busy for seconds. So a bounded number of effects
 * is taken at a time, and the owner takes the same command again until no more are left. An effect
 * on a key whose database is not known is work for each database, so it counts as that many.
 *
 * Pure. One thread.
 */
#ifndef KW_PROXY_STREAM_EFFECTS_H
#define KW_PROXY_STREAM_EFFECTS_H

#include "base/error.h"
#include "stream/meaning.h"

#include <stdbool.h>
#include <stdint.h>

/* Valid during the call, with all of its texts. */
struct kw_repl_batch {
	const struct kw_repl_effect *effects;
	size_t count; /* not 0 */
	/* Offsets, as in struct kw_repl_command. Of a piece that others follow `end` is `begin`. */
	uint64_t begin, end;
};

struct kw_repl_effects_options {
	size_t transaction_bytes;     /* of the texts of a transaction; at most 512 MiB */
	uint32_t transaction_effects; /* not 0 */
	uint32_t command_effects;     /* of a command by itself; not 0 */
	uint32_t take_effects;        /* of one kw_repl_effects_take; 0: any number */
	uint64_t offset;
	void (*batch)(void *arg, const struct kw_repl_batch *batch);
	void (*ack_wanted)(void *arg); /* REPLCONF GETACK: the primary asks for REPLCONF ACK */
	void *arg;
};

struct kw_repl_effects;

struct kw_repl_effects *kw_repl_effects_new(const struct kw_repl_effects_options *options);
void kw_repl_effects_free(struct kw_repl_effects *effects);

/* What the server says of its commands; outlives effects. NULL until the first call. */
void kw_repl_effects_catalog(
	struct kw_repl_effects *effects, const struct kw_repl_catalog *catalog);

/*
 * The next command. KW_E_PROTOCOL: EXEC without MULTI, MULTI in MULTI, SELECT of no database. The
 * stream cannot be followed then: reset, and reconcile.
 */
int kw_repl_effects_take(struct kw_repl_effects *effects, const struct kw_repl_command *command,
	struct kw_error *error);

/*
 * More effects of the command that was taken last are left: take it again. Each catalog has all of
 * it taken again, because it can have other effects then. The stream feed asks for one at each
 * start, so a command that a broken connection interrupts is told from its beginning. That is
 * harmless: nothing after it was told.
 */
bool kw_repl_effects_has_more(const struct kw_repl_effects *effects);

/*
 * Is the database known in which the next command works? A partial joiner learns it by the first
 * SELECT, or otherwise: then it sets it.
 */
bool kw_repl_effects_has_database(const struct kw_repl_effects *effects);
void kw_repl_effects_set_database(struct kw_repl_effects *effects, uint32_t database);

/* While it is not known, an effect counts so often for take_effects; 1 at first. */
void kw_repl_effects_set_weight(struct kw_repl_effects *effects, uint32_t databases);

/* Has MULTI come, and not its EXEC? */
bool kw_repl_effects_in_transaction(const struct kw_repl_effects *effects);

/* All effects up to this offset have been handed on. It stands still during a transaction. */
uint64_t kw_repl_effects_offset(const struct kw_repl_effects *effects);

/*
 * Another stream begins after `offset`, and the database is not known. A transaction that has begun
 * is forgotten. Not for a connection that goes on where the last one ended.
 */
void kw_repl_effects_reset(struct kw_repl_effects *effects, uint64_t offset);

#endif
