/*
 * table-read ADDRESS [--passes N] [--depth N] [--chunk-bytes N]: read a proxy's table as an agent
 * does, and throw it away.
 *
 * Each pass is a new connection and a whole snapshot: every segment read by the carrier's READs,
 * every record verified. Timed from the first READ to the end of the snapshot, without connecting.
 * Prints bytes, records and the seconds of each pass as one JSON object. The reader and the carrier
 * are the agent's own; this is what profilers are to be held against.
 */
#include "peers/words.h"
#include "remote/remote.h"
#include "table/reader.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#define PASSES_MAX 64
#define DEPTH_MAX 128
#define BATCH_MAX 16
#define ROOM ((uint64_t)64 << 20)

struct wire { /* one READ on its way */
	struct kw_remote_read remote;
	struct kw_read *asked;
	struct run *run;
	struct wire *next;
};

struct run {
	uv_loop_t loop;
	struct kw_address address;
	struct kw_remote_options remote_options;
	struct kw_reader_options reader_options;
	struct kw_remote *remote;
	struct kw_reader *reader;
	struct wire *spare;
	uint64_t records, payload_bytes;
	double begun, seconds; /* seconds 0: not at the end yet */
};

static void die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
static void die(const char *format, ...)
{
	va_list args;

	fputs("table-read: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

static double now(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

static void on_read(struct kw_remote_read *read, const struct kw_error *error)
{
	struct wire *wire = read->arg;
	struct run *run = wire->run;

	wire->next = run->spare;
	run->spare = wire;
	kw_reader_complete(wire->asked, error);
}

/* The spare ones are bounded by the reader's depth. */
static struct wire *take(struct run *run, struct kw_read *asked)
{
	struct wire *wire = run->spare;

	if (wire)
		run->spare = wire->next;
	else if (!(wire = malloc(sizeof *wire)))
		die("out of memory");
	*wire = (struct wire){.asked = asked, .run = run};
	wire->remote = (struct kw_remote_read){.offset = asked->offset,
		.length = asked->length,
		.buffer = asked->buffer,
		.fenced = asked->fenced,
		.done = on_read,
		.arg = wire};
	return wire;
}

/* What was asked for together is posted together: a carrier may make one doorbell of it. */
static void on_reads(void *arg, struct kw_read *const *asked, int count)
{
	struct run *run = arg;
	struct kw_remote_read *batch[BATCH_MAX];
	int filled = 0;

	for (int i = 0; i < count; i++) {
		batch[filled++] = &take(run, asked[i])->remote;
		if (filled == BATCH_MAX || i == count - 1) {
			kw_remote_read(run->remote, batch, filled);
			filled = 0;
		}
	}
}

static void on_extents(void *arg, const struct kw_extent *extents, int count)
{
	struct run *run = arg;

	kw_remote_set_extents(run->remote, extents, count);
}

static void on_snapshot(void *arg, uint64_t epoch, uint64_t version)
{
}

static void on_record(void *arg, const struct kw_record_view *record)
{
	struct run *run = arg;

	run->records++;
	run->payload_bytes += record->key.length + record->value.length;
}

static uint64_t room(void *arg)
{
	return ROOM;
}

static void on_superblock(void *arg, const struct kw_superblock *superblock)
{
	if (!superblock->complete)
		die("the table is not complete yet");
}

static void on_pass(void *arg, const struct kw_reader_pass *pass)
{
	struct run *run = arg;

	if (run->seconds > 0)
		return;
	run->seconds = now() - run->begun;
	kw_remote_close(run->remote);
}

static void on_lapsed(void *arg, const char *why)
{
	die("%s", why);
}

static void on_failed(void *arg, const struct kw_error *error)
{
	if (((struct run *)arg)->seconds == 0)
		die("%s", error->text);
}

static void on_ready(void *arg, const struct kw_remote_info *info)
{
	struct run *run = arg;

	run->begun = now();
	kw_reader_start(run->reader, NULL);
}

static void on_closed(void *arg, const struct kw_error *why)
{
	struct run *run = arg;

	if (run->seconds == 0)
		die("%s", why->text);
	kw_remote_free(run->remote);
	run->remote = NULL;
}

static void pass(struct run *run)
{
	struct kw_reader_io io = {on_reads, on_extents, run};
	struct kw_reader_sink sink = {
		on_snapshot, on_record, room, on_superblock, on_pass, on_lapsed, on_failed, run};
	struct kw_remote_handlers handlers = {on_ready, on_closed, run};
	struct kw_error error;

	run->records = run->payload_bytes = 0;
	run->seconds = 0;
	run->reader = kw_reader_new(&run->reader_options, &io, &sink);
	if (kw_remote_open(&run->loop, &run->address, &run->remote_options, &handlers, &run->remote,
		    &error) != 0)
		die("%s", error.text);
	while (run->remote)
		uv_run(&run->loop, UV_RUN_ONCE);
}

static void drop_spares(struct run *run)
{
	while (run->spare) {
		struct wire *wire = run->spare;

		run->spare = wire->next;
		free(wire);
	}
}

int main(int argc, char **argv)
{
	int passes = (int)words_number(argc, argv, "--passes", 1);
	struct run run = {.remote_options = {.agent_name = "table-read",
				  .depth = (uint32_t)words_number(argc, argv, "--depth", 16)},
		.reader_options = {
			.chunk_bytes = (uint32_t)words_number(argc, argv, "--chunk-bytes", 0),
			.depth = (uint32_t)words_number(argc, argv, "--depth", 0)}};
	uint64_t bytes = 0;
	struct kw_error error;

	if (argc < 2 || passes < 1 || passes > PASSES_MAX || run.remote_options.depth > DEPTH_MAX)
		die("usage: table-read ADDRESS [--passes N] [--depth N] [--chunk-bytes N]");
	if (kw_address_parse(argv[1], &run.address, &error) != 0)
		die("%s", error.text);
	uv_loop_init(&run.loop);
	printf("{\"seconds\":[");
	for (int i = 0; i < passes; i++) {
		pass(&run);
		bytes = kw_reader_stats(run.reader)->bytes;
		kw_reader_free(run.reader);
		printf("%s%.6f", i ? "," : "", run.seconds);
	}
	printf("],\"records\":%" PRIu64 ",\"payload_bytes\":%" PRIu64 ",\"bytes\":%" PRIu64 "}\n",
		run.records, run.payload_bytes, bytes);
	drop_spares(&run);
	uv_run(&run.loop, UV_RUN_DEFAULT);
	uv_loop_close(&run.loop);
	return 0;
}
