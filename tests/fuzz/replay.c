/*
 * Runs a fuzz target without a fuzzer, so that every build can:
 *
 *   replay-NAME [--mutations N] [--seed S] [FILE | FOLDER]...
 *   replay-NAME --save FOLDER         write the target's own seeds there, for libFuzzer
 *
 * First the target's own seeds and the files given, as they are; then N mutations of them (bytes
 * flipped, overwritten with telling values, cut, copied about, appended), drawn from seed S. The
 * input in work is kept in crash-NAME.bin by a signal handler, so that a failure can be run again
 * by itself.
 */
#include "fuzz.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define INPUT_MAX ((size_t)1 << 18)
#define INPUTS_MAX 1024
#define CHANGES_MAX 8

#pragma weak kw_fuzz_seed

struct input {
	uint8_t *data;
	size_t size;
};

static struct input inputs[INPUTS_MAX];
static unsigned input_count;
static uint8_t work[INPUT_MAX];
static volatile size_t work_size;
static char crash_path[256];

static uint64_t dice;

static uint64_t roll(uint64_t bound)
{
	dice ^= dice << 13;
	dice ^= dice >> 7;
	dice ^= dice << 17;
	return bound ? dice % bound : 0;
}

static void keep(const uint8_t *data, size_t size)
{
	struct input *input = &inputs[input_count];

	if (input_count == INPUTS_MAX)
		return;
	input->data = malloc(size ? size : 1);
	if (!input->data)
		abort();
	memcpy(input->data, data, size);
	input->size = size;
	input_count++;
}

static int is_shown(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

/* By name, so that the mutations are the same on every file system. */
static void load(const char *path)
{
	struct dirent **entries;
	char inner[4096];
	FILE *file;
	int count = scandir(path, &entries, is_shown, alphasort);

	if (count >= 0) {
		for (int i = 0; i < count; i++) {
			snprintf(inner, sizeof inner, "%s/%s", path, entries[i]->d_name);
			free(entries[i]);
			load(inner);
		}
		free(entries);
		return;
	}
	file = fopen(path, "rb");
	if (!file) {
		fprintf(stderr, "replay: %s cannot be read\n", path);
		exit(2);
	}
	keep(work, fread(work, 1, sizeof work, file));
	fclose(file);
}

static void on_crash(int number)
{
	int file = open(crash_path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	if (file >= 0 && write(file, work, work_size) >= 0)
		close(file);
	signal(number, SIG_DFL);
	raise(number);
}

/* Exactly as many bytes as there are, on the heap: reading beyond them is seen by ASan. */
static void run(void)
{
	uint8_t *exact = malloc(work_size ? work_size : 1);

	if (!exact)
		abort();
	memcpy(exact, work, work_size);
	if (LLVMFuzzerTestOneInput(exact, work_size) != 0)
		abort();
	free(exact);
}

static uint64_t telling_value(void)
{
	static const uint64_t values[] = {0, 1, 7, 8, 39, 40, 41, 127, 128, 255, 256, 4095, 4096,
		65535, 65536, INT32_MAX, UINT32_MAX - 15, UINT32_MAX, INT64_MAX, UINT64_MAX - 7,
		UINT64_MAX};

	return values[roll(sizeof values / sizeof *values)];
}

static void change(void)
{
	size_t at = roll(work_size), length = roll(64), to = roll(work_size);
	uint64_t value = telling_value();
	size_t width = (size_t)1 << roll(4);

	switch (roll(7)) {
	case 0:
		work[at] ^= (uint8_t)(1 << roll(8));
		return;
	case 1:
		work[at] = (uint8_t)roll(256);
		return;
	case 2:
		if (at + width <= work_size)
			memcpy(work + at, &value, width);
		return;
	case 3:
		work_size = at;
		return;
	case 4:
		if (at + length <= work_size && to + length <= work_size)
			memmove(work + to, work + at, length);
		return;
	case 5:
		if (work_size + length > sizeof work)
			return;
		for (size_t i = 0; i < length; i++)
			work[work_size + i] = (uint8_t)roll(256);
		work_size += length;
		return;
	default:
		if (at + width <= work_size) {
			memcpy(&value, work + at, width);
			value += roll(2) ? 1 : UINT64_MAX;
			memcpy(work + at, &value, width);
		}
	}
}

static void mutate(uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		const struct input *from = &inputs[roll(input_count)];

		memcpy(work, from->data, from->size);
		work_size = from->size;
		for (uint64_t changes = 1 + roll(CHANGES_MAX); changes > 0 && work_size > 0;
			changes--)
			change();
		run();
	}
}

static int save_seeds(const char *folder)
{
	char path[4096];
	size_t size;

	for (unsigned n = 0; kw_fuzz_seed && (size = kw_fuzz_seed(n, work, sizeof work)) > 0; n++) {
		FILE *file;

		snprintf(path, sizeof path, "%s/seed-%02u", folder, n);
		file = fopen(path, "wb");
		if (!file || fwrite(work, 1, size, file) != size || fclose(file)) {
			fprintf(stderr, "replay: %s cannot be written\n", path);
			return 2;
		}
	}
	return 0;
}

int main(int argc, char **argv)
{
	const char *name = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
	uint64_t mutations = 0, seed = 1;
	size_t size;

	snprintf(crash_path, sizeof crash_path, "crash-%s.bin", name);
	signal(SIGSEGV, on_crash);
	signal(SIGABRT, on_crash);
	signal(SIGFPE, on_crash);
	signal(SIGBUS, on_crash);
	if (argc == 3 && strcmp(argv[1], "--save") == 0)
		return save_seeds(argv[2]);
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--mutations") == 0 && i + 1 < argc)
			mutations = strtoull(argv[++i], NULL, 0);
		else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
			seed = strtoull(argv[++i], NULL, 0);
		else
			load(argv[i]);
	}
	for (unsigned n = 0; kw_fuzz_seed && (size = kw_fuzz_seed(n, work, sizeof work)) > 0; n++)
		keep(work, size);
	keep(work, 0);
	dice = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
	for (size_t i = 0; i < sizeof work; i++)
		work[i] = (uint8_t)roll(256);
	keep(work, 600);
	for (unsigned i = 0; i < input_count; i++) {
		memcpy(work, inputs[i].data, inputs[i].size);
		work_size = inputs[i].size;
		run();
	}
	mutate(mutations);
	printf("%s: %u inputs, %llu mutations of them from seed %llu\n", name, input_count,
		(unsigned long long)mutations, (unsigned long long)seed);
	for (unsigned i = 0; i < input_count; i++)
		free(inputs[i].data);
	return 0;
}
