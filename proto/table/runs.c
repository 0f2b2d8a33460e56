#include "table/runs.h"

#include "base/buffer.h"

#include <assert.h>
#include <stdlib.h>

struct kw_run {
	uint64_t offset;
	uint32_t at; /* in the directory */
};

static int compare(const void *one, const void *other)
{
	uint64_t a = ((const struct kw_run *)one)->offset,
		 b = ((const struct kw_run *)other)->offset;

	return (a > b) - (a < b);
}

void kw_runs_make(struct kw_runs *runs, const struct kw_directory *directory)
{
	uint32_t segments = directory->header->segments;

	if (segments > runs->capacity) {
		free(runs->runs);
		runs->capacity = segments * 2; /* tables grow */
		runs->runs = kw_alloc(runs->capacity * sizeof *runs->runs);
	}
	runs->count = 0;
	for (uint32_t i = 0; i < segments; i++)
		if (directory->segments[i].capacity > 0)
			runs->runs[runs->count++] =
				(struct kw_run){directory->segments[i].offset, i};
	if (runs->count > 0)
		qsort(runs->runs, runs->count, sizeof *runs->runs, compare);
}

const struct kw_directory_segment *kw_runs_find(
	const struct kw_runs *runs, const struct kw_directory *directory, uint64_t offset)
{
	const struct kw_run *run = runs->runs;
	const struct kw_directory_segment *segment;

	if (runs->count == 0)
		return NULL;
	/* Which half it is in cannot be foreseen: an addition, where a branch would be
	 * mispredicted. */
	for (uint32_t left = runs->count; left > 1; left -= left / 2)
		run += run[left / 2].offset <= offset ? left / 2 : 0;
	assert(run->at < directory->header->segments);
	segment = &directory->segments[run->at];
	if (offset < segment->offset || offset - segment->offset >= segment->capacity)
		return NULL;
	return segment;
}

void kw_runs_close(struct kw_runs *runs)
{
	free(runs->runs);
	*runs = (struct kw_runs){0};
}
