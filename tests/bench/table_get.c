/*
 * table-get ADDRESS: what does it take to look a key up in the table, beside two bare READs?
 *
 *   --gets N     of each way, in ROUNDS turns (200000)
 *   --depth N    under way at once (1)
 *   --keys N     key:<12 digits>, those of peer-fill (1000000), uniformly drawn
 *   --places N   entries of the cache of places, of the third way (65536)
 *
 * Three ways take turns over one connection. `lookup` is proto/table/lookup.h. `bare` does the
 * READs that a lookup did, one after the other, and does not look at what they bring. `places` is a
 * lookup that remembers where keys were. It draws from as many keys as it has entries.
 *
 * Prints for each way gets, seconds, CPU seconds, READs and bytes, and how long a get took, as one
 * JSON object.
 */
#include "peers/draw.h"
#include "peers/histogram.h"
#include "peers/words.h"
#include "table/lookup.h"
#include "wire.h"

#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

#define ROUNDS 10
#define DEPTH_MAX 256
#define READS_MAX (DEPTH_MAX * 4)
#define RECORDED_MAX 65536
#define BATCH 64 /* READs of one posting */

enum way { BARE, LOOKUP, PLACES, WAYS };
static const char *const way_names[WAYS] = {"bare", "lookup", "places"};

struct options {
	uint32_t gets, depth, keys, places;
};

/* Two READs of one lookup, to be done again. */
struct pair {
	uint64_t offset[2], length[2];
	int count;
};

struct get; /* one under way */

struct read {
	struct kw_remote_read remote;
	struct kw_lookup_read *asked; /* NULL: a bare one, of */
	struct get *get;
	struct read *next; /* spare */
	struct bench *bench;
};

struct get {
	struct bench *bench;
	double begun_us;
	const struct pair *pair; /* bare */
	int done;                /* READs of it */
	uint8_t *buffer;
};

struct figures {
	uint64_t gets, reads, bytes;
	double seconds, cpu_s;
	struct histogram histogram;
};

struct bench {
	struct options options;
	struct wire wire;
	struct kw_lookups *lookups[WAYS];
	enum way way;
	struct draw draw;
	struct read reads[READS_MAX];
	struct read *spare;
	struct get gets[DEPTH_MAX];
	uint32_t under_way, left;
	struct pair *recorded;
	uint32_t recorded_count, replayed;
	struct pair *recording; /* the lookup under way is recorded */
	struct figures figures[WAYS];
};

static double now_us(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return (double)at.tv_sec * 1e6 + (double)at.tv_nsec / 1e3;
}

static double cpu_seconds(void)
{
	struct rusage used;

	getrusage(RUSAGE_SELF, &used);
	return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
	       (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

static void ended(struct get *get)
{
	struct bench *bench = get->bench;

	histogram_add(&bench->figures[bench->way].histogram, (uint64_t)(now_us() - get->begun_us));
	bench->figures[bench->way].gets++;
	bench->under_way--;
	get->begun_us = 0;
}

/* ---- READs ---- */

static void post_bare(struct get *get);

static void on_read(struct kw_remote_read *remote, const struct kw_error *error)
{
	struct read *read = remote->arg;
	struct bench *bench = read->bench;
	struct kw_lookup_read *asked = read->asked;
	struct get *get = read->get;

	if (error && error->code != KW_OK)
		wire_die(&bench->wire, "%s", error->text);
	read->next = bench->spare;
	bench->spare = read;
	if (asked)
		kw_lookups_complete(asked, error);
	else if (++get->done < get->pair->count)
		post_bare(get);
	else
		ended(get);
}

static struct kw_remote_read *prepare(
	struct bench *bench, uint64_t offset, uint64_t length, uint8_t *buffer)
{
	struct read *read = bench->spare;

	if (!read)
		wire_die(&bench->wire, "more READs under way than %d", READS_MAX);
	bench->spare = read->next;
	read->bench = bench;
	read->asked = NULL;
	read->remote = (struct kw_remote_read){
		.offset = offset, .length = length, .buffer = buffer, .done = on_read, .arg = read};
	bench->figures[bench->way].reads++;
	bench->figures[bench->way].bytes += length;
	return &read->remote;
}

static void post_bare(struct get *get)
{
	struct bench *bench = get->bench;
	struct kw_remote_read *remote = prepare(
		bench, get->pair->offset[get->done], get->pair->length[get->done], get->buffer);

	((struct read *)remote->arg)->get = get;
	kw_remote_read(bench->wire.remote, &remote, 1);
}

static void keep(struct pair *pair, const struct kw_lookup_read *asked)
{
	if (!pair || pair->count >= 2)
		return;
	pair->offset[pair->count] = asked->offset;
	pair->length[pair->count++] = asked->length;
}

static void on_reads(void *arg, struct kw_lookup_read *const *asked, int count)
{
	struct bench *bench = arg;
	struct kw_remote_read *batch[BATCH];
	int filled = 0;

	for (int i = 0; i < count; i++) {
		batch[filled] =
			prepare(bench, asked[i]->offset, asked[i]->length, asked[i]->buffer);
		((struct read *)batch[filled]->arg)->asked = asked[i];
		keep(bench->recording, asked[i]);
		if (++filled == BATCH || i + 1 == count) {
			kw_remote_read(bench->wire.remote, batch, filled);
			filled = 0;
		}
	}
}

static void on_extents(void *arg, const struct kw_extent *extents, int count)
{
	kw_remote_set_extents(((struct bench *)arg)->wire.remote, extents, count);
}

/* ---- gets ---- */

static void on_found(void *arg, const struct kw_lookup_result *result)
{
	struct get *get = arg;
	struct bench *bench = get->bench;

	if (result->outcome != KW_LOOKUP_FOUND)
		wire_die(&bench->wire, "a key of peer-fill was not found: %s", result->error.text);
	ended(get);
}

static struct get *free_get(struct bench *bench)
{
	for (uint32_t i = 0; i < bench->options.depth; i++)
		if (bench->gets[i].begun_us == 0)
			return &bench->gets[i];
	wire_die(&bench->wire, "no get is free");
}

static void begin(struct bench *bench)
{
	struct get *get = free_get(bench);
	uint32_t key = draw_next(&bench->draw);
	char name[32];
	int length;

	if (bench->way == PLACES)
		key %= bench->options.places;
	length = snprintf(name, sizeof name, "key:%012u", key);
	get->begun_us = now_us();
	bench->under_way++;
	bench->left--;
	if (bench->way == BARE) {
		get->pair = &bench->recorded[bench->replayed++ % bench->recorded_count];
		get->done = 0;
		post_bare(get);
	} else {
		kw_lookups_begin(bench->lookups[bench->way], 0, kw_slice(name, (size_t)length),
			on_found, get);
	}
}

static void run_way(struct bench *bench, enum way way, uint32_t gets)
{
	struct kw_lookups *lookups = bench->lookups[way];
	struct figures *figures = &bench->figures[way];
	double begun_us = now_us(), cpu_s = cpu_seconds();

	bench->way = way;
	bench->left = gets;
	while (bench->left > 0 || bench->under_way > 0) {
		while (bench->left > 0 && bench->under_way < bench->options.depth)
			begin(bench);
		if (lookups) {
			if (kw_lookups_parked(lookups))
				kw_lookups_tick(lookups);
			kw_lookups_post(lookups);
		}
		if (bench->under_way > 0)
			uv_run(&bench->wire.loop, lookups && kw_lookups_parked(lookups)
							  ? UV_RUN_NOWAIT
							  : UV_RUN_ONCE);
	}
	figures->seconds += (now_us() - begun_us) / 1e6;
	figures->cpu_s += cpu_seconds() - cpu_s;
}

/* Look keys up one by one, and keep what each read; the view is known by then. */
static void record(struct bench *bench)
{
	uint32_t depth = bench->options.depth;

	bench->options.depth = 1;
	run_way(bench, LOOKUP, 100);
	while (bench->recorded_count < RECORDED_MAX &&
		bench->recorded_count < bench->options.gets) {
		bench->recording = &bench->recorded[bench->recorded_count];
		bench->recording->count = 0;
		run_way(bench, LOOKUP, 1);
		bench->recorded_count += bench->recording->count == 2;
	}
	bench->recording = NULL;
	bench->options.depth = depth;
	run_way(bench, PLACES, bench->options.places * 4); /* they are remembered from now on */
	memset(bench->figures, 0, sizeof bench->figures);
}

/* ---- the run ---- */

static void *zeroed(struct bench *bench, size_t count, size_t size)
{
	void *memory = calloc(count, size);

	if (!memory)
		wire_die(&bench->wire, "out of memory");
	return memory;
}

static void open_bench(struct bench *bench, const char *address)
{
	const struct kw_lookups_io io = {on_reads, on_extents, bench};

	wire_init(&bench->wire, address);
	wire_connect(&bench->wire, READS_MAX);
	draw_open(&bench->draw, bench->options.keys, false, 7);
	for (int i = 0; i < READS_MAX; i++) {
		bench->reads[i].next = bench->spare;
		bench->spare = &bench->reads[i];
	}
	for (uint32_t i = 0; i < bench->options.depth; i++) {
		bench->gets[i].bench = bench;
		bench->gets[i].buffer = zeroed(bench, 1, 1 << 20);
	}
	for (int way = LOOKUP; way < WAYS; way++) {
		const struct kw_lookups_options options = {.depth = bench->options.depth,
			.places = way == PLACES ? bench->options.places * 2 : 0};

		bench->lookups[way] = kw_lookups_new(&options, &io);
		if (!bench->lookups[way])
			wire_die(&bench->wire, "out of memory");
	}
	bench->recorded = zeroed(bench, RECORDED_MAX, sizeof *bench->recorded);
}

static void close_bench(struct bench *bench)
{
	for (int way = LOOKUP; way < WAYS; way++)
		kw_lookups_free(bench->lookups[way]);
	for (uint32_t i = 0; i < bench->options.depth; i++)
		free(bench->gets[i].buffer);
	free(bench->recorded);
	draw_close(&bench->draw);
	wire_disconnect(&bench->wire);
	wire_free(&bench->wire);
	free(bench);
}

static void print(const struct bench *bench)
{
	for (int way = 0; way < WAYS; way++) {
		const struct figures *f = &bench->figures[way];

		printf("%s\"%s\":{\"gets\":%llu,\"seconds\":%.6f,\"cpu_s\":%.6f,\"reads\":%llu,"
		       "\"bytes\":%llu,",
			way ? "," : "{", way_names[way], (unsigned long long)f->gets, f->seconds,
			f->cpu_s, (unsigned long long)f->reads, (unsigned long long)f->bytes);
		histogram_print(&f->histogram);
		printf("}");
	}
	printf("}\n");
}

int main(int argc, char **argv)
{
	struct bench *bench = calloc(1, sizeof *bench);

	if (!bench)
		return 1;
	bench->wire.name = "table-get";
	bench->options = (struct options){
		.gets = (uint32_t)words_number(argc, argv, "--gets", 200000),
		.depth = (uint32_t)words_number(argc, argv, "--depth", 1),
		.keys = (uint32_t)words_number(argc, argv, "--keys", 1000000),
		.places = (uint32_t)words_number(argc, argv, "--places", 65536),
	};
	if (argc < 2 || bench->options.gets < ROUNDS || bench->options.depth < 1 ||
		bench->options.depth > DEPTH_MAX || bench->options.keys < 1 ||
		bench->options.places < 1 || bench->options.places > bench->options.keys)
		wire_die(&bench->wire,
			"usage: table-get ADDRESS [--gets N] [--depth 1..%d] [--keys N] [--places "
			"N]",
			DEPTH_MAX);
	open_bench(bench, argv[1]);
	record(bench);
	for (uint32_t round = 0; round < ROUNDS; round++)
		for (int way = 0; way < WAYS; way++)
			run_way(bench, (enum way)((way + round) % WAYS),
				bench->options.gets / ROUNDS);
	print(bench);
	close_bench(bench);
	return 0;
}
