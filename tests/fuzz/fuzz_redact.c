/*
 * What a reader with a scope is shown of a table that is written meanwhile.
 *
 * The input is a list of steps: write, delete, flush, publish, READ from any place to any place,
 * also with writes in the middle of the copy, and overwrite a byte of the memory. No READ may show
 * a byte of a value or a name beyond the scope, nor what stood there before. Memory that was
 * overwritten is no table any more: then it counts only that nothing is read or written outside.
 */
#include "fuzz.h"

#include "table/redact.h"
#include "table/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define RESERVE (UINT64_C(2) << 20)
#define READ_MAX 65536
#define STEPS_MAX 256
#define MARKS 8 /* so many in a row are no chance */
#define MARK 0xee
#define KEYS 16
#define CHURN 500 /* writes in the middle of a copy: all segments are used again */

struct input {
	const uint8_t *data;
	size_t left;
};

static struct world {
	uint8_t *memory;
	uint64_t end; /* of the extents */
	struct kw_table *table;
	struct kw_redact redact;
	struct kw_redact_reader reader;
	uint64_t now_us;
	unsigned race_in; /* copies until writes come between; 0: none will */
	int bent;         /* no table any more */
	uint32_t written; /* values */
} world;

static uint64_t take(struct input *input, size_t width)
{
	uint64_t value = 0;

	if (width > input->left)
		width = input->left;
	memcpy(&value, input->data, width);
	input->data += width;
	input->left -= width;
	return value;
}

/* ---- the table ---- */

static int extend(void *arg, struct kw_extent *extent, struct kw_error *error)
{
	must(extent->offset + extent->length <= RESERVE);
	if (extent->offset + extent->length > world.end)
		world.end = extent->offset + extent->length;
	/* As a device says it: no reader over tcp may be told. */
	extent->address = UINT64_C(0x0101010101010101) * MARK;
	extent->rkey = UINT32_C(0x01010101) * MARK;
	return 0;
}

static bool is_allowed(uint32_t number)
{
	return number % 3 == 0;
}

/* The names of those that are not allowed are marks, but for their front. */
static struct kw_slice key_of(uint32_t number, char name[32])
{
	snprintf(name, 32, "%s:%02u", is_allowed(number) ? "yes" : "no", number % 100);
	if (!is_allowed(number))
		memset(name + 5, MARK, MARKS);
	return kw_slice(name, is_allowed(number) ? 6 : 5 + MARKS);
}

static void put(uint32_t number, uint32_t length)
{
	static uint8_t value[8192];
	char name[32];

	memset(value, is_allowed(number) ? 'v' : MARK, sizeof value);
	/* What is equal to what is published is not written. */
	memcpy(value, &world.written, sizeof world.written);
	world.written++;
	(void)kw_table_put(world.table, number % 2, key_of(number, name),
		kw_slice(value, length % sizeof value), number % 5 == 0 ? 99 : 0);
}

static void publish(void)
{
	world.now_us += 1000000;
	kw_table_set_time(world.table, world.now_us);
	kw_table_publish(world.table, world.now_us);
}

static void churn(void)
{
	for (uint32_t i = 0; i < CHURN; i++) {
		put(i % KEYS, 2000);
		if (i % 16 == 15)
			publish();
	}
}

static void copy(void *to, const void *from, size_t length)
{
	must((const uint8_t *)from >= world.memory &&
		(const uint8_t *)from + length <= world.memory + RESERVE);
	if (world.race_in > 0 && --world.race_in == 0)
		churn();
	memcpy(to, from, length);
}

/* ---- the reader ---- */

static bool allows(void *arg, uint32_t database, struct kw_slice front)
{
	(void)arg;
	return database <= 1 && front.length >= 4 && memcmp(front.data, "yes:", 4) == 0;
}

static bool allows_flush(void *arg, uint32_t database)
{
	(void)arg;
	return database == 0;
}

static void read_one(uint64_t offset, uint64_t length)
{
	static const uint8_t marks[MARKS] = {MARK, MARK, MARK, MARK, MARK, MARK, MARK, MARK};
	uint8_t *bytes;

	offset %= world.end;
	length = length % READ_MAX + 1;
	if (length > world.end - offset)
		length = world.end - offset;
	bytes = malloc(length);
	must(bytes != NULL);
	if (!kw_redact_copy(&world.redact, &world.reader, offset, length, bytes))
		for (uint64_t i = 0; i < length; i++)
			must(bytes[i] == 0);
	must(world.bent || !memmem(bytes, length, marks, sizeof marks));
	free(bytes);
}

/* ---- the steps ---- */

static void step(struct input *input)
{
	uint32_t number = (uint32_t)take(input, 1) % KEYS;
	char name[32];

	switch (take(input, 1) % 8) {
	case 0:
	case 1:
		put(number, (uint32_t)take(input, 2));
		break;
	case 2:
		(void)kw_table_delete(world.table, number % 2, key_of(number, name));
		break;
	case 3:
		kw_table_flush(world.table, number % 2);
		break;
	case 4:
		publish();
		break;
	case 5:
		world.race_in = (unsigned)take(input, 1) % 32;
		break;
	case 6: {
		uint64_t offset = take(input, 3);

		read_one(offset * 8 + number, take(input, 2));
		break;
	}
	default: {
		uint64_t offset = take(input, 3) % world.end;

		/* From here on it is read only: a writer trusts its own table. */
		if (number != 0)
			break;
		world.memory[offset] ^= (uint8_t)(take(input, 1) | 1);
		world.bent = 1;
	}
	}
}

static void open_world(void)
{
	const struct kw_table_options options = {
		.max_bytes = 1 << 19, .segment_bytes = 4096, .epoch = 7, .hash_seed = 1};
	struct kw_table_memory memory = {.reserve_bytes = RESERVE, .extend = extend};

	memset(&world, 0, sizeof world);
	world.memory = mmap(NULL, RESERVE, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	must(world.memory != MAP_FAILED);
	memory.base = world.memory;
	world.table = kw_table_new(&options, &memory, 1, NULL);
	must(world.table != NULL);
	kw_redact_init(&world.redact, world.memory, copy);
	world.reader = (struct kw_redact_reader){.allows = allows, .allows_flush = allows_flush};
	publish();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = {data, size};
	const uint8_t *before;

	open_world();
	for (int steps = 0; input.left > 0 && steps < STEPS_MAX && !world.bent; steps++)
		step(&input);
	world.race_in = 0;
	before = input.data;
	for (int i = 0; i < 16; i++)
		read_one(i * world.end / 16, READ_MAX - 1);
	for (int steps = 0; input.left > 0 && steps < 16; steps++)
		read_one(take(&input, 3), take(&input, 2));
	must(input.data >= before);
	kw_table_free(world.table);
	kw_redact_close(&world.redact);
	munmap(world.memory, RESERVE);
	return 0;
}

size_t kw_fuzz_seed(unsigned n, uint8_t *data, size_t most)
{
	static const uint8_t some[] = {1, 0, 40, 0, 3, 0, 50, 0, 4, 0, 200, 10, 0, 4, 0, 6, 0, 0, 0,
		255, 255, 3, 2, 1, 3, 0, 4, 5, 6, 0, 64, 0, 0, 16};
	static const uint8_t race[] = {3, 0, 0, 8, 6, 0, 0, 8, 9, 0, 0, 8, 0, 4, 0, 5, 4, 0, 6, 0,
		0, 0, 255, 255, 0, 5, 6, 0, 6, 0, 64, 0, 255, 255, 0, 5, 9, 0, 6, 0, 128, 0, 255,
		255, 0, 5, 14, 0, 6, 0, 32, 0, 255, 255};
	static const uint8_t large[] = {1, 0, 255, 31, 2, 0, 255, 31, 4, 0, 255, 31, 0, 4, 1, 0, 1,
		0, 0, 4, 5, 6, 1, 0, 2, 255, 255, 2, 6, 9, 33, 1, 100, 0};
	static const uint8_t bent[] = {
		1, 0, 40, 0, 2, 0, 40, 0, 0, 4, 0, 7, 0, 1, 0, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
	const struct {
		const uint8_t *bytes;
		size_t size;
	} seeds[] = {{some, sizeof some}, {race, sizeof race}, {large, sizeof large},
		{bent, sizeof bent}};

	if (n >= sizeof seeds / sizeof *seeds || most < 256)
		return 0;
	memcpy(data, seeds[n].bytes, seeds[n].size);
	return seeds[n].size;
}
