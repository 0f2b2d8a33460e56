/*
 * table-behind ADDRESS PRIMARY [--seconds N] [--interval-us N]: how far behind its primary is the
 * table at ADDRESS?
 *
 * As peer-behind, but the value is looked for in the table, by proto/table/lookup.h.
 */
#include "peers/behind.h"
#include "table/lookup.h"
#include "wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define READS_MAX 64 /* under way at once: far more than one lookup asks for */

enum look { LOOKING, OTHER, SEEN };

struct bench {
	struct wire wire;
	struct kw_lookups *lookups;
	const char *wanted;
	enum look look;
};

static void on_read(struct kw_remote_read *remote, const struct kw_error *error)
{
	struct kw_lookup_read *asked = remote->arg;

	free(remote);
	kw_lookups_complete(asked, error);
}

static void on_reads(void *arg, struct kw_lookup_read *const *asked, int count)
{
	struct bench *bench = arg;

	for (int i = 0; i < count; i++) {
		struct kw_remote_read *read = calloc(1, sizeof *read);

		if (!read)
			wire_die(&bench->wire, "out of memory");
		*read = (struct kw_remote_read){.offset = asked[i]->offset,
			.length = asked[i]->length,
			.buffer = asked[i]->buffer,
			.done = on_read,
			.arg = asked[i]};
		kw_remote_read(bench->wire.remote, &read, 1);
	}
}

static void on_extents(void *arg, const struct kw_extent *extents, int count)
{
	kw_remote_set_extents(((struct bench *)arg)->wire.remote, extents, count);
}

/* A short string: its type, its length, its bytes. */
static bool is_wanted(const struct bench *bench, struct kw_slice payload)
{
	const uint8_t *bytes = payload.data;
	size_t length = strlen(bench->wanted);

	return payload.length >= length + 2 && bytes[0] == 0 && bytes[1] == length &&
	       memcmp(bytes + 2, bench->wanted, length) == 0;
}

static void on_found(void *arg, const struct kw_lookup_result *result)
{
	struct bench *bench = arg;

	if (result->outcome == KW_LOOKUP_FAILED)
		wire_die(&bench->wire, "%s", result->error.text);
	bench->look = result->outcome == KW_LOOKUP_FOUND && is_wanted(bench, result->record.value)
			      ? SEEN
			      : OTHER;
}

static bool has(
	struct bench *bench, const struct behind *behind, const char *value, uint64_t written_us)
{
	bench->wanted = value;
	bench->look = LOOKING;
	kw_lookups_begin(bench->lookups, 0, kw_slice_text(behind->key), on_found, bench);
	while (bench->look == LOOKING) {
		if (kw_lookups_parked(bench->lookups)) {
			behind_nap(behind, written_us); /* the proxy publishes meanwhile */
			kw_lookups_tick(bench->lookups);
		}
		kw_lookups_post(bench->lookups);
		uv_run(&bench->wire.loop,
			kw_lookups_parked(bench->lookups) ? UV_RUN_NOWAIT : UV_RUN_ONCE);
	}
	return bench->look == SEEN;
}

int main(int argc, char **argv)
{
	static struct histogram histogram;
	struct bench bench = {.wire = {.name = "table-behind"}};
	const struct kw_lookups_options options = {.depth = 1};
	const struct kw_lookups_io io = {on_reads, on_extents, &bench};
	struct behind behind;
	char value[BEHIND_VALUE];
	uint64_t written_us;

	if (argc < 3)
		wire_die(&bench.wire,
			"usage: table-behind ADDRESS PRIMARY [--seconds N] [--interval-us N]");
	wire_init(&bench.wire, argv[1]);
	wire_connect(&bench.wire, READS_MAX);
	bench.lookups = kw_lookups_new(&options, &io);
	behind_begin(&behind, argv[2], argc, argv);
	while ((written_us = behind_write(&behind, value)) > 0) {
		while (!has(&bench, &behind, value, written_us))
			behind_nap(&behind, written_us);
		histogram_add(&histogram, behind_now_us() - written_us);
	}
	behind_print(&behind, &histogram);
	behind_end(&behind);
	kw_lookups_free(bench.lookups);
	wire_disconnect(&bench.wire);
	wire_free(&bench.wire);
	return 0;
}
