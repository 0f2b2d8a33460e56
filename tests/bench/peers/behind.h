/*
 * What peer-behind and table-behind share: a key that is written at intervals, and the wait until
 * the value is seen elsewhere.
 */
#ifndef KW_BENCH_BEHIND_H
#define KW_BENCH_BEHIND_H

#include "histogram.h"
#include "peer.h"

#include <stdbool.h>
#include <stdint.h>

#define BEHIND_VALUE 32

struct behind {
	char key[32]; /* of this process alone */
	struct peer primary;
	uint64_t interval_us, due_us, end_us;
	uint64_t number; /* of the last value */
	bool realtime;
};

uint64_t behind_now_us(void);

/* Connects, and takes --seconds and --interval-us from the command line. */
void behind_begin(struct behind *behind, const char *primary, int argc, char **argv);
void behind_end(struct behind *behind);

/*
 * When the next one is due, SET a value that was never there, and say it: text that no server takes
 * for an integer. Returns when the reply came; 0: the time is over.
 */
uint64_t behind_write(struct behind *behind, char value[BEHIND_VALUE]);

/* Between two looks. Ends the program if the value is not there after half a minute. */
void behind_nap(const struct behind *behind, uint64_t written_us);

/* One JSON object. */
void behind_print(const struct behind *behind, const struct histogram *histogram);

#endif
