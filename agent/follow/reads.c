#include "reads.h"

#include "base/buffer.h"

#include <assert.h>
#include <stdlib.h>

/* READs handed to the carrier by one call: all that a reader has out at once. */
#define BATCH_MAX KW_READER_DEPTH_MAX

struct kw_reads_item {
	struct kw_remote_read read;
	struct kw_read *asked;    /* by a reader, or by */
	struct kw_lookup *lookup; /* a lookup, or by */
	struct kw_walk *walk;     /* a walk: one of the three */
	struct kw_reads *reads;
	struct kw_reads_item *next;
};

void kw_reads_init(struct kw_reads *reads, kw_reads_remote_fn remote, void *arg)
{
	*reads = (struct kw_reads){.remote = remote, .arg = arg};
}

void kw_reads_close(struct kw_reads *reads)
{
	assert(reads->outstanding == 0);
	while (reads->spare) {
		struct kw_reads_item *item = reads->spare;

		reads->spare = item->next;
		free(item);
	}
}

static void tell(struct kw_reads_item *item, const struct kw_error *error)
{
	struct kw_reads *reads = item->reads;
	struct kw_lookup *lookup = item->lookup;
	struct kw_read *asked = item->asked;
	struct kw_walk *walk = item->walk;

	assert(!!lookup + !!asked + !!walk == 1);
	assert(reads->outstanding > 0);
	item->next = reads->spare;
	reads->spare = item;
	reads->outstanding--;
	if (error && reads->lost)
		reads->lost(reads->arg, error);
	if (lookup)
		kw_lookup_complete(lookup, error);
	else if (walk)
		kw_walk_complete(walk, error);
	else
		kw_reader_complete(asked, error);
}

static void on_read(struct kw_remote_read *read, const struct kw_error *error)
{
	tell(read->arg, error);
}

/* Each reader and lookup bounds its READs in flight, and so the pool. */
static struct kw_reads_item *take(
	struct kw_reads *reads, uint64_t offset, uint64_t length, uint8_t *buffer)
{
	struct kw_reads_item *item = reads->spare;

	if (item)
		reads->spare = item->next;
	else
		item = kw_alloc(sizeof *item);
	*item = (struct kw_reads_item){
		.read = {.offset = offset,
			.length = length,
			.buffer = buffer,
			.done = on_read,
			.arg = item},
		.reads = reads,
	};
	reads->outstanding++;
	return item;
}

static void refuse(struct kw_reads *reads, struct kw_reads_item *item)
{
	item->next = reads->refused;
	reads->refused = item;
}

static void reader_reads(void *arg, struct kw_read *const *asked, int count)
{
	struct kw_reads *reads = arg;
	struct kw_remote *remote = reads->remote(reads->arg);
	struct kw_remote_read *batch[BATCH_MAX];
	int filled = 0;

	for (int i = 0; i < count; i++) {
		struct kw_reads_item *item =
			take(reads, asked[i]->offset, asked[i]->length, asked[i]->buffer);

		item->asked = asked[i];
		if (!remote) {
			refuse(reads, item);
			continue;
		}
		batch[filled++] = &item->read;
		if (filled == BATCH_MAX || i == count - 1) {
			kw_remote_read(remote, batch, filled);
			filled = 0;
		}
	}
}

static void read_one(struct kw_reads *reads, struct kw_reads_item *item)
{
	struct kw_remote *remote = reads->remote(reads->arg);
	struct kw_remote_read *read = &item->read;

	if (remote)
		kw_remote_read(remote, &read, 1);
	else
		refuse(reads, item);
}

static void lookup_reads(
	void *arg, struct kw_lookup *lookup, uint64_t offset, uint64_t length, uint8_t *buffer)
{
	struct kw_reads *reads = arg;
	struct kw_reads_item *item = take(reads, offset, length, buffer);

	item->lookup = lookup;
	read_one(reads, item);
}

static void walk_reads(
	void *arg, struct kw_walk *walk, uint64_t offset, uint64_t length, uint8_t *buffer)
{
	struct kw_reads *reads = arg;
	struct kw_reads_item *item = take(reads, offset, length, buffer);

	item->walk = walk;
	read_one(reads, item);
}

static void extents(void *arg, const struct kw_extent *all, int count)
{
	struct kw_reads *reads = arg;
	struct kw_remote *remote = reads->remote(reads->arg);

	/* Never older than what the agent's own reader told: READs of a connection end in order. */
	if (remote)
		kw_remote_set_extents(remote, all, count);
}

struct kw_reader_io kw_reads_reader_io(struct kw_reads *reads)
{
	return (struct kw_reader_io){reader_reads, extents, reads};
}

struct kw_lookup_io kw_reads_lookup_io(struct kw_reads *reads)
{
	return (struct kw_lookup_io){lookup_reads, extents, reads};
}

struct kw_walk_io kw_reads_walk_io(struct kw_reads *reads)
{
	return (struct kw_walk_io){walk_reads, reads};
}

void kw_reads_tick(struct kw_reads *reads)
{
	struct kw_reads_item *item = reads->refused;
	struct kw_error error;

	/* READs refused while these are told back wait for the next tick. */
	reads->refused = NULL;
	kw_error_set(&error, KW_E_IO, "there is no connection to the proxy at the moment");
	while (item) {
		struct kw_reads_item *next = item->next;

		tell(item, &error);
		item = next;
	}
}
