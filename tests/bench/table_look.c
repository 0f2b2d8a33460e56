/*
 * table-look ADDRESS [--looks N] [--seconds S]: how long does a small change take to be
 * seen?
 *
 * Another program writes now and then. Readers on one connection look in turn, each in its own way:
 * at the next bytes of the log (free), or at the log only once the superblock says that it grew
 * (plain). A look that finds something is timed from asking to the first record handed
 * on. What they are held against takes its turn as they do: a bare READ of the superblock, timed to
 * its end, and counted if it brings another version than the one before. So all are measured within
 * the same milliseconds, over the same connection, when writer and proxy have just done the same.
 *
 * Then the free one alone, back to back, as an agent polls while data flows: what counts is the age
 * of a change when it is handed on, by the published_us of the superblock that it is the newest of
 * (0: it was seen before), and how long looks in vain take, which is the poll interval. Only on the
 * proxy's host: both read one clock.
 *
 * Prints the quartiles of each in microseconds as one JSON object.
 */
#include "base/clock.h"
#include "peers/words.h"
#include "table/view.h"
#include "wire.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define LOOKS_MAX 100000
#define ROOM ((uint64_t)64 << 20)
#define SAMPLES_MAX LOOKS_MAX
#define PAUSE_US 1000 /* before each, so that who wrote and published has come to rest */

struct samples {
	double us[SAMPLES_MAX];
	int count;
};

static void add(struct samples *samples, double us)
{
	if (samples->count < SAMPLES_MAX)
		samples->us[samples->count++] = us;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void print(const char *name, struct samples *samples, const char *end)
{
	qsort(samples->us, (size_t)samples->count, sizeof *samples->us, by_size);
	printf("\"%s\":{\"count\":%d", name, samples->count);
	for (int quarter = 1; quarter < 4 && samples->count > 0; quarter++)
		printf(",\"p%d\":%.2f", quarter * 25, samples->us[samples->count * quarter / 4]);
	printf("}%s", end);
}

static double now_us(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return (double)at.tv_sec * 1e6 + (double)at.tv_nsec / 1e3;
}

struct look {
	struct wire *wire;
	struct kw_reader *reader;
	struct kw_superblock superblock; /* the last one seen */
	struct kw_cursor cursor;
	bool failed;      /* torn too often: the writer was stopped in the midst of a superblock */
	double first_us;  /* when the first record of this look was handed on; 0: none was */
	uint64_t seen_us; /* the same by the wall clock, */
	uint64_t version; /* and which; 0: its age is known, or will not be */
	struct samples *ages;
	bool done;
};

static void on_snapshot(void *arg, uint64_t epoch, uint64_t version)
{
}

/* The superblock tells when its newest version was published; of others it does not. */
static void learn_age(struct look *look)
{
	uint64_t published_us = look->superblock.published_us;

	if (look->version == 0 || look->superblock.version < look->version)
		return;
	if (look->ages && look->superblock.version == look->version)
		add(look->ages,
			look->seen_us > published_us ? (double)(look->seen_us - published_us) : 0);
	look->version = 0;
}

static void on_records(void *arg, const struct kw_record_view *records, size_t count)
{
	struct look *look = arg;

	(void)count;
	if (look->first_us > 0)
		return;
	look->first_us = now_us();
	look->seen_us = kw_wall_us();
	look->version = records[0].version;
	learn_age(look);
}

static uint64_t room(void *arg)
{
	return ROOM;
}

static void on_superblock(void *arg, const struct kw_superblock *superblock)
{
	struct look *look = arg;

	look->superblock = *superblock;
	learn_age(look);
}

static void on_pass(void *arg, const struct kw_reader_pass *pass)
{
	struct look *look = arg;

	look->cursor = (struct kw_cursor){pass->epoch, pass->consistent};
	look->done = true;
}

static void on_look(void *arg, bool found)
{
	((struct look *)arg)->done = true;
}

static void on_lapsed(void *arg, const char *why)
{
	wire_die(((struct look *)arg)->wire, "%s", why);
}

static void on_failed(void *arg, const struct kw_error *error)
{
	struct look *look = arg;

	if (error->code != KW_E_CORRUPT || look->cursor.epoch == 0)
		wire_die(look->wire, "%s", error->text);
	look->failed = true;
}

static void wait_for(struct look *look)
{
	while (!look->done) {
		if (look->failed)
			kw_reader_start(look->reader, &look->cursor);
		look->failed = false;
		uv_run(&look->wire->loop, UV_RUN_ONCE);
	}
}

static void pause_a_little(void)
{
	nanosleep(&(struct timespec){.tv_nsec = PAUSE_US * 1000}, NULL);
}

static void look_open(struct look *look, struct wire *wire, enum kw_ahead ahead)
{
	const struct kw_reader_sink sink = {on_snapshot, on_records, room, on_superblock, on_pass,
		on_look, on_lapsed, on_failed, look};
	const struct kw_reader_options options = {.ahead = ahead};
	const struct kw_reader_io io = wire_io(wire);

	*look = (struct look){.wire = wire};
	look->reader = kw_reader_new(&options, &io, &sink);
	kw_reader_start(look->reader, NULL);
	wait_for(look);
}

/* Microseconds to the first record, in *found; or to the end of a look that found none, in *vain.
 */
static void look_once(struct look *look, struct samples *found, struct samples *vain)
{
	double begun = now_us();

	look->done = false;
	look->first_us = 0;
	kw_reader_poll(look->reader);
	wait_for(look);
	if (look->first_us > 0)
		add(found, look->first_us - begun);
	else if (vain)
		add(vain, now_us() - begun);
	/* What was read ahead in vain may still be out: the next look is not to meet it. */
	while (kw_reader_outstanding(look->reader) > 0)
		uv_run(&look->wire->loop, UV_RUN_ONCE);
}

static void on_bare(struct kw_remote_read *read, const struct kw_error *error)
{
	*(bool *)read->arg = true;
}

/* *version: of the superblock that the bare READ before this one brought. */
static void bare_once(struct wire *wire, uint64_t *version, struct samples *samples)
{
	struct kw_error error;
	double ended;
	struct kw_superblock sink;
	bool done = false;
	struct kw_remote_read read = {.offset = KW_SUPERBLOCK_OFFSET,
		.length = sizeof sink,
		.buffer = (uint8_t *)&sink,
		.done = on_bare,
		.arg = &done};
	struct kw_remote_read *one = &read;
	double begun = now_us();

	kw_remote_read(wire->remote, &one, 1);
	while (!done)
		uv_run(&wire->loop, UV_RUN_ONCE);
	ended = now_us();
	if (kw_superblock_check(&sink, &error) != KW_OK || sink.version == *version)
		return;
	if (*version > 0)
		add(samples, ended - begun);
	*version = sink.version;
}

enum { FREE, PLAIN, WAYS };

int main(int argc, char **argv)
{
	static const enum kw_ahead ways[] = {KW_AHEAD_FREE, KW_AHEAD_OFF};
	static struct samples bare, found[WAYS], ages, alone, vain;
	int looks = (int)words_number(argc, argv, "--looks", 300);
	double seconds = words_number(argc, argv, "--seconds", 60), until;
	struct wire wire = {.name = "table-look"};
	struct look look[WAYS];
	uint64_t version = 0;

	if (argc < 2 || looks < 1 || looks > LOOKS_MAX)
		wire_die(&wire, "usage: table-look ADDRESS [--looks N] [--seconds S]");
	wire_init(&wire, argv[1]);
	wire_connect(&wire, 16);
	for (int i = 0; i < WAYS; i++)
		look_open(&look[i], &wire, ways[i]);
	until = now_us() + seconds * 1e6;
	for (int round = 0; found[PLAIN].count < looks && now_us() < until; round++)
		for (int i = 0; i <= WAYS; i++) {
			int way = (round + i) % (WAYS + 1);

			pause_a_little();
			if (way == WAYS)
				bare_once(&wire, &version, &bare);
			else
				look_once(&look[way], &found[way], NULL);
		}
	until = now_us() + seconds * 1e6;
	look[FREE].ages = &ages;
	while (alone.count < looks && now_us() < until)
		look_once(&look[FREE], &alone, &vain);
	printf("{");
	print("bare", &bare, ",");
	print("free", &found[FREE], ",");
	print("plain", &found[PLAIN], ",");
	print("age", &ages, ",");
	print("vain", &vain, "}\n");
	for (int i = 0; i < WAYS; i++)
		kw_reader_free(look[i].reader);
	wire_disconnect(&wire);
	wire_free(&wire);
	return 0;
}
