/*
 * table-read ADDRESS [--passes N] [--depth N] [--chunk-bytes N]: read a proxy's table as an agent
 * does, and throw it away.
 *
 * Each pass is a new connection and a whole snapshot: every segment read by the carrier's READs,
 * every record verified. Timed from the first READ to the end of the snapshot, without connecting.
 * Prints bytes, records and the seconds of each pass as one JSON object. The reader and the carrier
 * are the agent's own; this is what profilers are to be held against.
 */
#include "base/clock.h"
#include "peers/words.h"
#include "wire.h"

#include <inttypes.h>
#include <stdio.h>

#define PASSES_MAX 64
#define ROOM ((uint64_t)64 << 20)

struct run {
	struct wire wire;
	struct kw_reader *reader;
	uint64_t records, payload_bytes;
	bool done;
};

static void on_snapshot(void *arg, uint64_t epoch, uint64_t version)
{
}

static void on_records(void *arg, const struct kw_record_view *records, size_t count)
{
	struct run *run = arg;

	run->records += count;
	for (size_t i = 0; i < count; i++)
		run->payload_bytes += records[i].key.length + records[i].value.length;
}

static uint64_t room(void *arg)
{
	return ROOM;
}

static void on_superblock(void *arg, const struct kw_superblock *superblock)
{
	struct run *run = arg;

	if (!superblock->complete)
		wire_die(&run->wire, "the table is not complete yet");
}

static void on_pass(void *arg, const struct kw_reader_pass *pass)
{
	((struct run *)arg)->done = true;
}

static void on_lapsed(void *arg, const char *why)
{
	wire_die(&((struct run *)arg)->wire, "%s", why);
}

static void on_failed(void *arg, const struct kw_error *error)
{
	wire_die(&((struct run *)arg)->wire, "%s", error->text);
}

/* Returns the seconds it took. */
static double pass(struct run *run, const struct kw_reader_options *options, uint32_t depth)
{
	const struct kw_reader_sink sink = {on_snapshot, on_records, room, on_superblock, on_pass,
		NULL, on_lapsed, on_failed, run};
	const struct kw_reader_io io = wire_io(&run->wire);
	uint64_t begun_us, ended_us;

	run->records = run->payload_bytes = 0;
	run->done = false;
	run->reader = kw_reader_new(options, &io, &sink);
	wire_connect(&run->wire, depth);
	begun_us = kw_clock_us();
	kw_reader_start(run->reader, NULL);
	while (!run->done)
		uv_run(&run->wire.loop, UV_RUN_ONCE);
	ended_us = kw_clock_us();
	wire_disconnect(&run->wire);
	return (double)(ended_us - begun_us) / 1e6;
}

int main(int argc, char **argv)
{
	int passes = (int)words_number(argc, argv, "--passes", 1);
	uint32_t depth = (uint32_t)words_number(argc, argv, "--depth", 16);
	const struct kw_reader_options options = {.ahead = KW_AHEAD_OFF,
		.chunk_bytes = (uint32_t)words_number(argc, argv, "--chunk-bytes", 0),
		.depth = (uint32_t)words_number(argc, argv, "--depth", 0)};
	struct run run = {.wire.name = "table-read"};
	uint64_t bytes = 0;

	if (argc < 2 || passes < 1 || passes > PASSES_MAX || depth > KW_READER_DEPTH_MAX)
		wire_die(&run.wire,
			"usage: table-read ADDRESS [--passes N] [--depth N] [--chunk-bytes N]");
	wire_init(&run.wire, argv[1]);
	printf("{\"seconds\":[");
	for (int i = 0; i < passes; i++) {
		double seconds = pass(&run, &options, depth);

		bytes = kw_reader_stats(run.reader)->bytes;
		kw_reader_free(run.reader);
		printf("%s%.6f", i ? "," : "", seconds);
	}
	printf("],\"records\":%" PRIu64 ",\"payload_bytes\":%" PRIu64 ",\"bytes\":%" PRIu64 "}\n",
		run.records, run.payload_bytes, bytes);
	wire_free(&run.wire);
	return 0;
}
