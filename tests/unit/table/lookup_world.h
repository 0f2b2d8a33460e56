/*
 * Test helper: a real table, lookups on it, and READs that are carried out when the test says so.
 * Between any two READs, and in the middle of one, the writer can go on. One world a test.
 */
#ifndef KW_TESTS_UNIT_TABLE_LOOKUP_WORLD_H
#define KW_TESTS_UNIT_TABLE_LOOKUP_WORLD_H

#include "base/buffer.h"
#include "table/lookup.h"
#include "table/table.h"

#include <stdbool.h>
#include <stdint.h>

#define RESERVE (UINT64_C(1) << 30)
#define READS_MAX 128

struct world {
	uint8_t *base;
	struct kw_table *table;
	struct kw_lookups *lookups;
	struct kw_lookup_read *reads[READS_MAX]; /* each is executed when the test says so */
	int count;
	int postings;
	uint64_t readable; /* highest end of an extent that was announced */
	struct kw_lookup_result result;
	struct kw_buffer value;
	bool done;
	uint64_t random, now_us;
};

/* A table of nothing, and lookups one at a time. */
void world_open(struct world *world, uint64_t max_bytes, uint64_t segment_bytes);
void world_close(struct world *world);

/* Another table in the same memory; other lookups on it. */
void open_table(struct world *world, uint64_t epoch, uint64_t max_bytes, uint64_t segment_bytes);
void connect_lookups(struct world *world, const struct kw_lookups_options *options);

uint64_t dice(struct world *world, uint64_t sides);
void put(struct world *world, uint32_t database, const char *key, const char *value);
/* Time passes, and there is a publication. */
void tick(struct world *world);
/* Keys "key-0" to "key-N", each its own value, published. */
void fill(struct world *world, int keys);

/*
 * 400 keys are never deleted, their values only change; around them keys come and go, so that the
 * index grows and closes gaps, and the cleaner moves records. A value begins with its key.
 */
#define STEADY 400
#define OTHERS 3000
void write_some(struct world *world);

/* The next READ that is out; and it is carried out, and ends well. */
struct kw_lookup_read *take_read(struct world *world);
void answer(struct world *world);

void begin(struct world *world, uint32_t database, const char *key);
void on_done(void *arg, const struct kw_lookup_result *result);
/* Until the lookup is done. If it waits for a publication, there is one. */
void finish(struct world *world);
enum kw_lookup_outcome look_up(struct world *world, uint32_t database, const char *key);

#endif
