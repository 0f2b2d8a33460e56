/*
 * What the simulator does to writer and reader from within (table/fault.h): it leaves out one rule,
 * and drops tombstones early.
 */
#include "sim.h"

#include "base/buffer.h"
#include "table/fault.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Rule 1 is left out: a superseded record is marked one publication too late. */
struct late {
	uint64_t *word;
	uint64_t value;
	uint64_t version_database; /* of the record; another one may stand there by then */
};

static struct {
	struct late *late;
	size_t count, due, capacity; /* due: of them, told before the last publication */
	uint64_t random;
} faults;

static struct kw_record *record_of(uint64_t *word)
{
	return (struct kw_record *)(void *)((char *)word -
					    offsetof(struct kw_record, superseded_by));
}

static bool mark_later(void *arg, uint64_t *word, uint64_t value)
{
	(void)arg;
	if (!kw_fault_leaves_out(1))
		return false;
	if (faults.count == faults.capacity) {
		faults.capacity = faults.capacity ? 2 * faults.capacity : 64;
		faults.late = kw_realloc(faults.late, faults.capacity * sizeof *faults.late);
	}
	faults.late[faults.count++] = (struct late){word, value, record_of(word)->version_database};
	return true;
}

static bool drop_early(void *arg)
{
	(void)arg;
	/* xorshift64: its own dice, so that the schedule does not depend on how often it asks. */
	faults.random ^= faults.random << 13;
	faults.random ^= faults.random >> 7;
	faults.random ^= faults.random << 17;
	return faults.random % 4 == 0;
}

void sim_fault_begin(const struct sim_plan *plan)
{
	faults.count = faults.due = 0;
	faults.random = plan->drop_seed;
	kw_fault_hook = (struct kw_fault_hook){
		.rule = plan->broken_rule,
		.mark = mark_later,
		.drop = plan->drop_seed ? drop_early : NULL,
	};
}

void sim_fault_publish(void)
{
	for (size_t i = 0; i < faults.due; i++) {
		const struct late *late = &faults.late[i];

		if (record_of(late->word)->version_database == late->version_database)
			*late->word = late->value;
	}
	faults.count -= faults.due;
	if (faults.count > 0)
		memmove(faults.late, faults.late + faults.due, faults.count * sizeof *faults.late);
	faults.due = faults.count;
}

void sim_fault_end(void)
{
	free(faults.late);
	faults.late = NULL;
	faults.count = faults.due = faults.capacity = 0;
	kw_fault_hook = (struct kw_fault_hook){0};
}
