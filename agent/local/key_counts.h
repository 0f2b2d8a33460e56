/*
 * How many keys each local database held when the cursor was written. A restarted server does not
 * remember its count of flushes. If a database has lost more than half of its keys meanwhile, the
 * data might have been flushed, and the cursor is not believed.
 *
 * One letter a database stands for its number of keys, rounded down to a power of two. So ordinary
 * writes rarely change the text, and the cursor need not be written again for them.
 *
 *   "d--a"   database 0 has 8 to 15 keys, database 3 has one, the others have none
 *
 * Pure; any thread.
 */
#ifndef KW_AGENT_LOCAL_KEY_COUNTS_H
#define KW_AGENT_LOCAL_KEY_COUNTS_H

#include <stdbool.h>
#include <stdint.h>

#define KW_KEY_COUNTS_DATABASES 64 /* databases above share the last place */
#define KW_KEY_COUNTS_TEXT (KW_KEY_COUNTS_DATABASES + 1)

struct kw_key_counts {
	char text[KW_KEY_COUNTS_TEXT]; /* no '-' at its end; "": nothing is known, or all are empty
					*/
};

/* keys: KW_KEY_COUNTS_DATABASES counts. */
void kw_key_counts_set(struct kw_key_counts *counts, const uint64_t *keys);

/*
 * The first database that had keys then and has less than half of them now. -1: there is none, as
 * far as the letters tell.
 */
int kw_key_counts_shrunk(const struct kw_key_counts *then, const struct kw_key_counts *now);

/* Does the text have only letters and '-', and no '-' at its end? */
bool kw_key_counts_valid(const struct kw_key_counts *counts);

#endif
