/*
 * table-churn [--keys N] [--seconds S] [--rate N] [--utilisation U] [--huge-pages 0|1]: what does
 * it cost to keep a table's memory small while its keys are overwritten?
 *
 * The proxy's table with the load of churn.py and no server, so that a change of the cleaner can be
 * looked at in seconds: a table is filled, then overwritten in four phases of S seconds each, keys
 * drawn by a Zipf law or uniformly, a value of another length in each. The table's clock goes by
 * the rate and does not wait. For each phase, as one JSON object a line:
 *
 *   moved      bytes the cleaner copied for each byte written
 *   move_ns    CPU time it took for each record it moved
 *   put_ns     and what all the rest took for each put
 *   live, used, resident   at the end, MB: records, the table's own account, memory it really has
 *   peak       the highest resident so far
 *   of_allowed peak against 1.25 x the highest payload so far + 48 bytes a key
 */
#include "base/clock.h"
#include "peers/noise.h"
#include "peers/words.h"
#include "remote/memory.h"
#include "table/table.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PUBLISHED_US 500  /* a batch of puts */
#define TIDIED_US 100000  /* the proxy's heartbeat */
#define BATCH 32          /* puts, as the proxy takes answers */
#define PAYLOAD_BESIDE 13 /* what DUMP puts around a string of 64 bytes or more */
#define VALUE_MOST 4096
#define ZIPF_EXPONENT 0.99

static const struct phase {
	const char *name;
	unsigned value_bytes;
	bool zipf;
} phases[] = {{"uniform 100", 100, false}, {"zipf 140", 140, true}, {"uniform 60", 60, false},
	{"zipf 100", 100, true}};

struct churn {
	unsigned keys;
	uint64_t seconds, rate;
	struct kw_memory memory;
	struct kw_table *table;
	struct kw_table_stats before; /* when the phase began */
	double *sums;                 /* of the Zipf law */
	uint64_t noise, now_us, puts, cpu_ns;
	unsigned *numbers;          /* of a phase's keys */
	double base, peak, allowed; /* MB */
};

static int extend(void *arg, struct kw_extent *extent, struct kw_error *error)
{
	return kw_memory_extend(arg, extent, error);
}

static bool give_back(void *arg, uint64_t offset, uint64_t length)
{
	return kw_memory_give_back(arg, offset, length);
}

static void die(const char *why)
{
	fprintf(stderr, "table-churn: %s\n", why);
	exit(1);
}

static void open_table(struct churn *churn, double utilisation, bool huge)
{
	struct kw_error error = {0};
	const struct kw_table_options options = {.max_bytes = UINT64_C(16) << 30,
		.segment_bytes = 8 << 20,
		.utilisation = utilisation,
		.retention_us = 60000000,
		.grace_us = 100000,
		.epoch = 1,
		.hash_seed = 1,
		.cpu_ns = kw_cpu_ns};
	struct kw_table_memory memory = {.extend = extend, .give_back = give_back};

	if (huge ? kw_memory_init_huge(&churn->memory, UINT64_C(64) << 30, &error)
		 : kw_memory_init(&churn->memory, UINT64_C(64) << 30, &error))
		die(error.text);
	memory.base = churn->memory.base;
	memory.reserve_bytes = churn->memory.reserve_bytes;
	memory.arg = &churn->memory;
	churn->table = kw_table_new(&options, &memory, 0, &error);
	if (!churn->table)
		die(error.text);
}

static double resident_mb(void)
{
	unsigned long size, resident = 0;
	FILE *stream = fopen("/proc/self/statm", "r");

	if (!stream || fscanf(stream, "%lu %lu", &size, &resident) != 2)
		die("/proc/self/statm cannot be read");
	fclose(stream);
	return (double)resident * (double)sysconf(_SC_PAGESIZE) / 1e6;
}

static void look(struct churn *churn)
{
	struct kw_table_stats stats;
	double resident = resident_mb() - churn->base, allowed;

	kw_table_stats(churn->table, &stats);
	allowed = (1.25 * (double)stats.payload_bytes + 48.0 * (double)stats.keys) / 1e6;
	if (resident > churn->peak)
		churn->peak = resident;
	if (allowed > churn->allowed)
		churn->allowed = allowed;
}

static unsigned draw(struct churn *churn, bool zipf)
{
	uint64_t number = noise_next(&churn->noise);
	unsigned low = 0, high = churn->keys - 1;
	double at = (double)(number >> 11) / (double)(UINT64_C(1) << 53);

	if (!zipf)
		return (unsigned)(number % churn->keys);
	at *= churn->sums[churn->keys - 1];
	while (low < high) {
		unsigned middle = low + (high - low) / 2;

		if (churn->sums[middle] < at)
			low = middle + 1;
		else
			high = middle;
	}
	number = low;
	return (unsigned)(noise_next(&number) % churn->keys); /* hot keys are not neighbours */
}

/* Time passes for one put: publications and housekeeping are due. */
static void pass(struct churn *churn, uint64_t from_us, uint64_t to_us)
{
	if (from_us / PUBLISHED_US != to_us / PUBLISHED_US)
		kw_table_publish(churn->table, to_us);
	if (from_us / TIDIED_US != to_us / TIDIED_US) {
		kw_table_set_time(churn->table, to_us);
		kw_table_tidy(churn->table);
		kw_table_publish(churn->table, to_us);
		look(churn);
	}
	kw_table_set_time(churn->table, to_us);
	churn->now_us = to_us;
}

static struct kw_slice key_of(char room[32], unsigned number)
{
	return kw_slice(room, (size_t)snprintf(room, 32, "key:%012u", number));
}

static void put(struct churn *churn, const unsigned *numbers, uint64_t count, unsigned value_bytes)
{
	static char values[BATCH][VALUE_MOST], keys[BATCH][32];
	struct kw_table_change changes[BATCH];
	uint64_t salt = churn->noise, start_us = churn->now_us;

	for (size_t i = 0; i < BATCH; i++) {
		salt = churn->noise;
		noise_fill(&salt, values[i], VALUE_MOST);
	}
	for (uint64_t begun = 0, n; begun < count; begun += n) {
		n = count - begun < BATCH ? count - begun : BATCH;
		for (uint64_t i = 0; i < n; i++) {
			churn->puts++;
			memcpy(values[i], &churn->puts, sizeof churn->puts);
			changes[i] = (struct kw_table_change){.kind = KW_RECORD_PUT,
				.key = key_of(keys[i], numbers[begun + i]),
				.value = kw_slice(values[i], value_bytes + PAYLOAD_BESIDE)};
		}
		kw_table_change_all(churn->table, changes, n);
		pass(churn, churn->now_us, start_us + (begun + n) * 1000000 / churn->rate);
	}
}

static void report(struct churn *churn, const struct phase *phase, uint64_t count)
{
	const struct kw_table_stats *before = &churn->before;
	struct kw_table_stats after;
	double cleaner_ns, moved_records, per;

	kw_table_stats(churn->table, &after);
	cleaner_ns = (double)(after.cleaner_us - before->cleaner_us) * 1e3;
	per = (double)after.live_bytes / (double)(after.keys + after.tombstones);
	moved_records = (double)(after.cleaned_bytes - before->cleaned_bytes) / per;
	printf("{\"phase\":\"%s\",\"moved\":%.2f,\"move_ns\":%.0f,\"put_ns\":%.0f,"
	       "\"cleaner_ms\":%.0f,\"live\":%.1f,\"used\":%.1f,\"index\":%.1f,"
	       "\"resident\":%.1f,\"peak\":%.1f,\"of_allowed\":%.3f}\n",
		phase->name,
		(double)(after.cleaned_bytes - before->cleaned_bytes) /
			(double)(after.written_bytes - before->written_bytes),
		moved_records > 0 ? cleaner_ns / moved_records : 0,
		((double)churn->cpu_ns - cleaner_ns) / (double)count, cleaner_ns / 1e6,
		(double)after.live_bytes / 1e6, (double)after.used_bytes / 1e6,
		(double)after.index_slots * 16e-6, resident_mb() - churn->base, churn->peak,
		churn->peak / churn->allowed);
	fflush(stdout);
}

static void run_phase(struct churn *churn, const struct phase *phase)
{
	uint64_t count = churn->seconds * churn->rate;

	for (uint64_t i = 0; i < count; i++)
		churn->numbers[i] = draw(churn, phase->zipf);
	kw_table_stats(churn->table, &churn->before);
	churn->cpu_ns = kw_cpu_ns();
	put(churn, churn->numbers, count, phase->value_bytes);
	churn->cpu_ns = kw_cpu_ns() - churn->cpu_ns;
	report(churn, phase, count);
}

static void fill(struct churn *churn)
{
	const struct phase phase = {"fill 100", 100, false};
	uint64_t rate = churn->rate;

	for (unsigned i = 0; i < churn->keys; i++)
		churn->numbers[i] = i;
	churn->rate = 1000000;
	churn->cpu_ns = kw_cpu_ns();
	put(churn, churn->numbers, churn->keys, phase.value_bytes);
	churn->cpu_ns = kw_cpu_ns() - churn->cpu_ns;
	churn->rate = rate;
	report(churn, &phase, churn->keys);
}

/* The program's own memory first, so that what comes on top is the table's. */
static void make_room(struct churn *churn)
{
	uint64_t most = churn->seconds * churn->rate;

	if (most < churn->keys)
		most = churn->keys;
	churn->sums = malloc(churn->keys * sizeof *churn->sums);
	churn->numbers = malloc(most * sizeof *churn->numbers);
	if (!churn->sums || !churn->numbers)
		die("out of memory");
	memset(churn->numbers, 1, most * sizeof *churn->numbers);
	for (unsigned i = 0; i < churn->keys; i++)
		churn->sums[i] = (i ? churn->sums[i - 1] : 0) + pow(i + 1, -ZIPF_EXPONENT);
	churn->base = resident_mb();
}

int main(int argc, char **argv)
{
	struct churn churn = {.noise = 7, .now_us = 0};
	churn.keys = (unsigned)words_number(argc, argv, "--keys", 1000000);
	churn.seconds = (uint64_t)words_number(argc, argv, "--seconds", 12);
	churn.rate = (uint64_t)words_number(argc, argv, "--rate", 50000);
	make_room(&churn);
	open_table(&churn, words_number(argc, argv, "--utilisation", 0),
		words_number(argc, argv, "--huge-pages", 0) > 0);
	fill(&churn);
	for (size_t i = 0; i < sizeof phases / sizeof *phases; i++)
		run_phase(&churn, &phases[i]);
	kw_table_free(churn.table);
	kw_memory_close(&churn.memory);
	free(churn.sums);
	free(churn.numbers);
	return 0;
}
