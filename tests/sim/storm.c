/*
 * kw-storm [--lookups N] [--seed N] [--places N] [--read-us N] [--write-us N] [--depth N]
 *
 * Lookups of a table under full write load. None may end uncertain, and each answer must have been
 * true.
 *
 * kw-sim proves the rules in small schedules. This is the long run: one table of tiny segments, as
 * many writes as a proxy takes, hot keys, keys that come and go, flushes, and the cleaner all the
 * time. Beside them so many lookups are under way, each READ of which takes --read-us. Time is
 * virtual. A READ is sampled while it is under way, in two parts, and the writer goes on between
 * them. A seed is one run, exactly.
 *
 * By default a write takes 4 us: 250 000 a second, more than a proxy fetches. Tiny segments make a
 * new directory with each publication, and a directory stays for one more. So a link whose READ
 * takes longer than a publication does cannot follow: slow READs need slower writes here.
 *
 * Prints one JSON object. Exit 0: no lookup was uncertain, and no answer was wrong.
 */
#include "prng.h"
#include "table/lookup.h"
#include "table/table.h"
#include "table/view.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define RESERVE (UINT64_C(64) << 20)
#define MAX_BYTES (UINT64_C(16) << 20)
#define SEGMENT_BYTES 4096
#define DATABASES 2
#define KEYS 2048
#define HOT 8
#define VALUE_MAX 600
#define TURN_WRITES 64
#define TICK_NS 1000000 /* of the lookups' owner, and its look */
#define TIDY_NS 100000000
#define DEPTH_MAX 256
#define READS_MAX (2 * DEPTH_MAX + 2)

struct key {
	uint64_t writes; /* deletions and flushes, too; each value tells its own number */
	uint64_t seen;   /* … of what the newest superblock that was seen covers */
	uint64_t absent; /* the write after which it was last known absent; 0: never */
	bool present;
};

struct flight {
	struct kw_lookup_read *read;
	uint64_t due_ns;
};

struct ask {
	struct storm *storm;
	uint32_t database, number;
	uint64_t promised; /* writes of the key that must be visible */
	uint64_t began;    /* the storm's count of writes */
	uint64_t began_ns;
	bool active;
};

struct storm {
	struct prng prng;
	uint64_t places, read_ns, write_ns, depth, seed, wanted;
	uint8_t *base;
	struct kw_table *table;
	struct kw_lookups *lookups;
	struct key keys[DATABASES][KEYS];
	uint64_t writes, begun, ended;
	uint64_t now_ns, written_ns, ticked_ns, tidied_ns;
	struct kw_superblock superblock;
	struct flight flights[READS_MAX]; /* a ring, in the order of their ends */
	uint32_t first, count;
	struct ask asks[DEPTH_MAX];
	uint64_t found, absent, uncertain, flushes, full, slowest_ns;
	char why[KW_ERROR_TEXT];
};

static void die(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	fputs("kw-storm: ", stderr);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
	va_end(arguments);
	exit(1);
}

/* ---- the writer ---- */

static struct kw_slice key_of(uint32_t number, char *text)
{
	return kw_slice(text, (size_t)snprintf(text, 16, "key:%u", number));
}

static void removed(struct storm *storm, struct key *key)
{
	if (!key->present)
		return;
	key->present = false;
	key->writes++;
	key->absent = storm->writes;
}

static void flush(struct storm *storm, uint32_t database)
{
	if (kw_table_flush(storm->table, database) != KW_PUT_STORED)
		return;
	storm->flushes++;
	for (int i = 0; i < KEYS; i++)
		removed(storm, &storm->keys[database][i]);
}

static void put(struct storm *storm, uint32_t database, uint32_t number)
{
	struct key *key = &storm->keys[database][number];
	char name[16], value[VALUE_MAX] = {0};
	size_t length = sizeof key->writes + prng_below(&storm->prng, VALUE_MAX - 8);
	uint64_t writes = key->writes + 1;

	memcpy(value, &writes, sizeof writes);
	if (!key->present)
		key->absent = storm->writes;
	switch (kw_table_put(
		storm->table, database, key_of(number, name), kw_slice(value, length), 0)) {
	case KW_PUT_STORED:
		key->writes = writes;
		key->present = true;
		break;
	case KW_PUT_FULL:
		storm->full++;
		break;
	default:
		die("a put was refused");
	}
}

/* Half of the writes are of few keys; one in three of the others is a deletion. */
static void write_one(struct storm *storm)
{
	uint32_t database = (uint32_t)prng_below(&storm->prng, DATABASES);
	uint32_t number;
	char name[16];

	storm->writes++;
	if (prng_below(&storm->prng, 20000) == 0) {
		flush(storm, database);
		return;
	}
	number = (uint32_t)prng_below(&storm->prng, prng_chance(&storm->prng, 500) ? HOT : KEYS);
	if (number >= HOT && prng_chance(&storm->prng, 333)) {
		if (kw_table_delete(storm->table, database, key_of(number, name)) == KW_PUT_STORED)
			removed(storm, &storm->keys[database][number]);
		return;
	}
	put(storm, database, number);
}

/* The writer goes on up to this moment; it publishes at the end of each of its turns. */
static void write_until(struct storm *storm, uint64_t until_ns)
{
	while (storm->written_ns + storm->write_ns <= until_ns) {
		storm->written_ns += storm->write_ns;
		write_one(storm);
		if (storm->writes % TURN_WRITES != 0)
			continue;
		kw_table_set_time(storm->table, storm->written_ns / 1000);
		if (storm->written_ns - storm->tidied_ns >= TIDY_NS) {
			kw_table_tidy(storm->table);
			storm->tidied_ns = storm->written_ns;
		}
		kw_table_publish(storm->table, storm->written_ns / 1000);
	}
}

static int extend(void *arg, struct kw_extent *extent, struct kw_error *error)
{
	extent->address = extent->rkey = 0;
	return 0;
}

static void open_table(struct storm *storm)
{
	const struct kw_table_options options = {.max_bytes = MAX_BYTES,
		.segment_bytes = SEGMENT_BYTES,
		.retention_us = 50000,
		.grace_us = 0,
		.epoch = 1 + storm->seed,
		.hash_seed = storm->seed * 77 + 1};
	struct kw_table_memory memory = {.reserve_bytes = RESERVE, .extend = extend};
	struct kw_error error = {0};

	storm->base = mmap(NULL, RESERVE, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (storm->base == MAP_FAILED)
		die("no memory");
	memory.base = storm->base;
	storm->table = kw_table_new(&options, &memory, 0, &error);
	if (!storm->table)
		die("%s", error.text);
	kw_table_set_passed(storm->table, UINT64_MAX);
	for (uint32_t i = 0; i < DATABASES * KEYS; i++)
		put(storm, i % DATABASES, i / DATABASES);
	kw_table_publish(storm->table, 1);
}

/* ---- the lookups ---- */

static void on_read(void *arg, struct kw_lookup_read *const *reads, int count)
{
	struct storm *storm = arg;

	for (int i = 0; i < count; i++) {
		if (storm->count == READS_MAX)
			die("more READs than lookups");
		storm->flights[(storm->first + storm->count++) % READS_MAX] =
			(struct flight){reads[i], storm->now_ns + storm->read_ns};
	}
}

static void on_extents(void *arg, const struct kw_extent *extents, int count)
{
}

/*
 * The next READ comes to its end. READs share the link: 16 of them take no longer than one. It is
 * sampled in two parts, at some moment while it is under way.
 */
static void end_read(struct storm *storm)
{
	struct flight *flight = &storm->flights[storm->first];
	struct kw_lookup_read *read = flight->read;
	uint64_t gap_ns = storm->read_ns / 16 + 1, end_ns = storm->now_ns + gap_ns;
	uint64_t part = prng_below(&storm->prng, read->length + 1) & ~UINT64_C(7);

	if (end_ns < flight->due_ns)
		end_ns = flight->due_ns;
	write_until(storm, end_ns - gap_ns + prng_below(&storm->prng, gap_ns));
	memcpy(read->buffer, storm->base + read->offset, part);
	write_until(storm, end_ns);
	memcpy(read->buffer + part, storm->base + read->offset + part, read->length - part);
	storm->now_ns = end_ns;
	storm->first = (storm->first + 1) % READS_MAX;
	storm->count--;
	kw_lookups_complete(read, NULL);
}

static void look(struct storm *storm)
{
	memcpy(&storm->superblock, storm->base, sizeof storm->superblock);
	if (kw_superblock_check(&storm->superblock, NULL))
		return;
	for (int database = 0; database < DATABASES; database++)
		for (int i = 0; i < KEYS; i++)
			storm->keys[database][i].seen = storm->keys[database][i].writes;
	kw_lookups_seen(storm->lookups, &storm->superblock);
}

/* A look is taken when all is published: what it covers is known exactly then. */
static void tick(struct storm *storm)
{
	storm->ticked_ns = storm->now_ns;
	if (!kw_table_unpublished(storm->table))
		look(storm);
	kw_lookups_tick(storm->lookups);
}

static void check_found(const struct ask *ask, const struct kw_lookup_result *result)
{
	uint64_t writes;

	if (result->record.value.length < sizeof writes)
		die("key %u: a value of %zu bytes", ask->number, result->record.value.length);
	memcpy(&writes, result->record.value.data, sizeof writes);
	if (writes < ask->promised)
		die("key %u of database %u: write %" PRIu64 " was found, %" PRIu64 " was promised",
			ask->number, ask->database, writes, ask->promised);
}

static void on_done(void *arg, const struct kw_lookup_result *result)
{
	struct ask *ask = arg;
	struct storm *storm = ask->storm;
	const struct key *key = &storm->keys[ask->database][ask->number];

	ask->active = false;
	storm->ended++;
	if (storm->now_ns - ask->began_ns > storm->slowest_ns)
		storm->slowest_ns = storm->now_ns - ask->began_ns;
	switch (result->outcome) {
	case KW_LOOKUP_FOUND:
		storm->found++;
		check_found(ask, result);
		break;
	case KW_LOOKUP_ABSENT:
		storm->absent++;
		if (key->present && key->absent < ask->began)
			die("key %u of database %u: was there all the time", ask->number,
				ask->database);
		break;
	case KW_LOOKUP_UNCERTAIN:
		storm->uncertain++;
		memcpy(storm->why, result->error.text, sizeof storm->why);
		break;
	case KW_LOOKUP_TOO_LARGE: /* never: no bound is set */
	case KW_LOOKUP_FAILED:
		die("%s", result->error.text);
	}
}

static void begin(struct storm *storm)
{
	struct ask *ask = storm->asks;
	const struct key *key;
	char name[16];

	while (ask->active)
		ask++;
	ask->storm = storm;
	ask->active = true;
	ask->database = (uint32_t)prng_below(&storm->prng, DATABASES);
	ask->number =
		(uint32_t)prng_below(&storm->prng, prng_chance(&storm->prng, 300) ? HOT : KEYS);
	key = &storm->keys[ask->database][ask->number];
	ask->promised = storm->places ? key->seen : key->writes;
	ask->began = storm->writes;
	ask->began_ns = storm->now_ns;
	storm->begun++;
	kw_lookups_begin(storm->lookups, ask->database, key_of(ask->number, name), on_done, ask);
}

static void run(struct storm *storm)
{
	const struct kw_lookups_options options = {
		.depth = (uint32_t)storm->depth, .places = storm->places};
	const struct kw_lookups_io io = {on_read, on_extents, storm};

	storm->lookups = kw_lookups_new(&options, &io);
	while (storm->ended < storm->wanted) {
		while (storm->begun < storm->wanted && kw_lookups_have_room(storm->lookups))
			begin(storm);
		kw_lookups_post(storm->lookups);
		if (storm->count > 0)
			end_read(storm);
		else
			storm->now_ns = storm->ticked_ns + TICK_NS;
		write_until(storm, storm->now_ns);
		if (storm->now_ns - storm->ticked_ns >= TICK_NS)
			tick(storm);
	}
}

static void print(const struct storm *storm)
{
	const struct kw_lookups_stats *stats = kw_lookups_stats(storm->lookups);
	struct kw_table_stats table;

	kw_table_stats(storm->table, &table);
	printf("{\"lookups\":%" PRIu64 ",\"found\":%" PRIu64 ",\"absent\":%" PRIu64
	       ",\"uncertain\":%" PRIu64 ",\"retries\":%" PRIu64 ",\"parked\":%" PRIu64
	       ",\"reads_a_get\":%.3f,\"guesses\":%" PRIu64 ",\"misses\":%" PRIu64
	       ",\"slowest_us\":%" PRIu64 ",\"writes\":%" PRIu64 ",\"flushes\":%" PRIu64
	       ",\"full\":%" PRIu64 ",\"cleaned_segments\":%" PRIu64 ",\"keys\":%" PRIu64 "}\n",
		storm->ended, storm->found, storm->absent, storm->uncertain, stats->retries,
		stats->parked, (double)stats->reads / (double)storm->ended, stats->guesses,
		stats->misses, storm->slowest_ns / 1000, storm->writes, storm->flushes, storm->full,
		table.cleaned_segments, table.keys);
	if (storm->uncertain > 0)
		printf("kw-storm: uncertain: %s\n", storm->why);
}

int main(int argc, char **argv)
{
	static const struct option names[] = {{"lookups", required_argument, NULL, 'n'},
		{"seed", required_argument, NULL, 's'}, {"places", required_argument, NULL, 'p'},
		{"read-us", required_argument, NULL, 'r'}, {"depth", required_argument, NULL, 'd'},
		{"write-us", required_argument, NULL, 'w'}, {0}};
	static struct storm storm = {
		.wanted = 1000000, .seed = 1, .depth = 64, .read_ns = 20000, .write_ns = 4000};
	int option;

	while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
		uint64_t number = optarg ? strtoull(optarg, NULL, 10) : 0;

		switch (option) {
		case 'n':
			storm.wanted = number;
			break;
		case 's':
			storm.seed = number;
			break;
		case 'p':
			storm.places = number;
			break;
		case 'r':
			storm.read_ns = number * 1000;
			break;
		case 'd':
			storm.depth = number;
			break;
		case 'w':
			storm.write_ns = number * 1000;
			break;
		default:
			die("usage: kw-storm [--lookups N] [--seed N] [--places N] [--read-us N] "
			    "[--write-us N] [--depth 1..%d]",
				DEPTH_MAX);
		}
	}
	if (storm.write_ns == 0)
		die("--write-us is at least 1");
	if (storm.depth < 1 || storm.depth > DEPTH_MAX)
		die("--depth is 1 to %d", DEPTH_MAX);
	storm.prng.state = storm.seed;
	open_table(&storm);
	run(&storm);
	print(&storm);
	kw_lookups_free(storm.lookups);
	kw_table_free(storm.table);
	return storm.uncertain > 0;
}
