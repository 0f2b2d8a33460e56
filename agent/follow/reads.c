#include "reads.h"

#include "base/buffer.h"

#include <assert.h>
#include <stdlib.h>

/* READs handed to the carrier by one call: all that a reader has out at once. */
#define BATCH_MAX KW_READER_DEPTH_MAX

struct kw_reads_item {
	struct kw_remote_read read;
	struct kw_read *asked;         /* by a reader, or by */
	struct kw_lookup_read *looked; /* a lookup, or by */
	struct kw_walk *walk;          /* a walk: one of the three */
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

static void tell_lookups(struct kw_lookup_read *looked, const struct kw_error *error)
{
	struct kw_lookups *lookups = looked->lookups;

	kw_lookups_complete(looked, error);
	kw_lookups_post(lookups); /* the carrier collects what a batch of ends asks for */
}

static void tell(struct kw_reads_item *item, const struct kw_error *error)
{
	struct kw_reads *reads = item->reads;
	struct kw_lookup_read *looked = item->looked;
	struct kw_read *asked = item->asked;
	struct kw_walk *walk = item->walk;

	assert(!!looked + !!asked + !!walk == 1);
	assert(reads->outstanding > 0);
	item->next = reads->spare;
	reads->spare = item;
	reads->outstanding--;
	if (error && reads->lost)
		reads->lost(reads->arg, error);
	if (looked)
		tell_lookups(looked, error);
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

/* READs of one posting, on their way to the carrier. */
struct posting {
	struct kw_reads *reads;
	struct kw_remote *remote; /* NULL: there is none */
	struct kw_remote_read *batch[BATCH_MAX];
	int filled;
};

static void flush(struct posting *posting)
{
	if (posting->filled > 0)
		kw_remote_read(posting->remote, posting->batch, posting->filled);
	posting->filled = 0;
}

static void add(struct posting *posting, struct kw_reads_item *item)
{
	if (!posting->remote) {
		refuse(posting->reads, item);
		return;
	}
	posting->batch[posting->filled++] = &item->read;
	if (posting->filled == BATCH_MAX)
		flush(posting);
}

static void reader_reads(void *arg, struct kw_read *const *asked, int count)
{
	struct kw_reads *reads = arg;
	struct posting posting = {.reads = reads, .remote = reads->remote(reads->arg)};

	for (int i = 0; i < count; i++) {
		struct kw_reads_item *item =
			take(reads, asked[i]->offset, asked[i]->length, asked[i]->buffer);

		item->asked = asked[i];
		add(&posting, item);
	}
	flush(&posting);
}

static void lookups_read(void *arg, struct kw_lookup_read *const *looked, int count)
{
	struct kw_reads *reads = arg;
	struct posting posting = {.reads = reads, .remote = reads->remote(reads->arg)};

	for (int i = 0; i < count; i++) {
		struct kw_reads_item *item =
			take(reads, looked[i]->offset, looked[i]->length, looked[i]->buffer);

		item->looked = looked[i];
		add(&posting, item);
	}
	flush(&posting);
}

static void walk_reads(
	void *arg, struct kw_walk *walk, uint64_t offset, uint64_t length, uint8_t *buffer)
{
	struct kw_reads *reads = arg;
	struct posting posting = {.reads = reads, .remote = reads->remote(reads->arg)};
	struct kw_reads_item *item = take(reads, offset, length, buffer);

	item->walk = walk;
	add(&posting, item);
	flush(&posting);
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

struct kw_lookups_io kw_reads_lookups_io(struct kw_reads *reads)
{
	return (struct kw_lookups_io){lookups_read, extents, reads};
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
