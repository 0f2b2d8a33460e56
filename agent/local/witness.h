/*
 * How much the local databases held when the cursor was written: a witness against a flush that
 * nobody saw because the server was restarted behind it. One letter a database, its keys as a power
 * of two, so that ordinary coming and going neither contradicts it nor has it written anew.
 *
 *   "d--a"   database 0 has 8 to 15 keys, database 3 one, the others none
 *
 * Pure; any thread.
 */
#ifndef KW_AGENT_LOCAL_WITNESS_H
#define KW_AGENT_LOCAL_WITNESS_H

#include <stdbool.h>
#include <stdint.h>

#define KW_WITNESS_DATABASES 64 /* those above share the last place */
#define KW_WITNESS_TEXT (KW_WITNESS_DATABASES + 1)

struct kw_witness {
	char text[KW_WITNESS_TEXT]; /* no '-' at its end; "": nothing is known, or all are empty */
};

/* keys: KW_WITNESS_DATABASES counts. */
void kw_witness_set(struct kw_witness *witness, const uint64_t *keys);

/*
 * The first database that held keys then and has none now, or less than half of them; -1: none, as
 * far as can be told.
 */
int kw_witness_against(const struct kw_witness *then, const struct kw_witness *now);

/* Nothing but letters and '-', and no '-' at the end. */
bool kw_witness_valid(const struct kw_witness *witness);

#endif
