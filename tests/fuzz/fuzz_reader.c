/*
 * The whole reader over memory that somebody else bends at will.
 *
 * A real table is written once. The input is a list of steps over a copy of it: overwrite bytes
 * (of the control area or of the log), mend a checksum afterwards, carry out READs, lose one, poll,
 * stop, start, take the room away. The reader must never ask for more than its depth, never write
 * outside a READ's buffer (ASan watches), come to an end, and hand on only records whose key and
 * value lie in one piece of verified memory.
 */
#include "fuzz.h"

#include "base/buffer.h"
#include "table/reader.h"
#include "table/table.h"
#include "table/view.h"

#include <string.h>
#include <sys/mman.h>

#define RESERVE (UINT64_C(4) << 20)
#define KEYS 60 /* some segments full: each input reads all of them, mostly twice */
#define LOG_BYTES (UINT64_C(192) << 10) /* the image's segments lie in it */
#define DEPTH 4
#define STEPS_MAX 512
#define BENT_MAX (2 * STEPS_MAX) /* places bent: a step bends one, or mends two */
#define IMAGE_PART 65536         /* of the control area, and of the log: the table fills no more */
#define ENDS_MAX                                                                                   \
	20000 /* READs in one input: more means that the reader does not come to an end            \
	       */
#define QUEUE_MAX 64

struct world {
	uint8_t *memory; /* `shown` */
	uint64_t bytes;  /* of it, extents' end */
	struct kw_reader *reader;
	struct kw_read *queue[QUEUE_MAX];
	int queued;
	int ends;
	uint64_t room, records, passes, looks;
	uint64_t checksum; /* of what was handed on */
};

static uint8_t *image; /* a real table */
static uint64_t image_end;
static uint8_t *shown;       /* what READs see: the image, bent by the present input */
static uint64_t shown_bytes; /* no more than the table wrote; the rest reads as zero */

/* What the present input bent: put back after it, as copying the whole image takes far longer. */
static struct {
	uint64_t offset;
	size_t length;
} bent[BENT_MAX];
static size_t bent_count;
static uint64_t control_bytes, log_offset; /* superblock, root, directories; first segment */

/* ---- the table that inputs bend ---- */

static int extend(void *arg, struct kw_extent *extent, struct kw_error *error)
{
	must(extent->offset + extent->length <= RESERVE);
	if (extent->offset + extent->length > image_end)
		image_end = extent->offset + extent->length;
	return 0;
}

static void write_image(void)
{
	const struct kw_table_options options = {
		.max_bytes = 1 << 20,
		.segment_bytes = 4096,
		.epoch = 7,
		.hash_seed = 1,
	};
	struct kw_table_memory memory = {.reserve_bytes = RESERVE, .extend = extend};
	const struct kw_history history = {
		.standing = KW_HISTORY_TOLD,
		.replid = "0123456789012345678901234567890123456789",
		.proxy = 1,
		.proxy_name = "fuzz",
	};
	const struct kw_directory_header *directory;
	const struct kw_superblock *superblock;
	struct kw_table *table;
	uint8_t value[300] = {1, 2, 3};

	/* Zeroed and lazily filled: the table takes far less than its reservation. */
	image = mmap(NULL, RESERVE, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	must(image != MAP_FAILED);
	memory.base = image;
	table = kw_table_new(&options, &memory, 1, NULL);
	must(table != NULL);
	for (uint32_t i = 0; i < 2 * KEYS; i++) {
		uint32_t key = i * 7 % KEYS;

		value[0] = (uint8_t)i;
		kw_table_put(table, key % 3, kw_slice(&key, sizeof key),
			kw_slice(value, i % sizeof value), i % 5 ? 0 : 99);
		if (i % 11 == 0)
			kw_table_delete(table, (key + 1) % 3, kw_slice(&key, sizeof key));
	}
	kw_table_set_history(table, &history);
	kw_table_publish(table, 1);
	superblock = (const struct kw_superblock *)image;
	directory = (const struct kw_directory_header *)(image + superblock->directory_offset);
	log_offset = ((const struct kw_directory_segment *)(directory + 1))->offset;
	control_bytes = ((const struct kw_index_root *)(image + KW_INDEX_ROOT_OFFSET))->offset;
	must(directory->segments * options.segment_bytes < LOG_BYTES);
	kw_table_free(table);
}

/* Between the two parts lies the index, which no reader reads. */
static void show_image(void)
{
	write_image();
	must(log_offset > IMAGE_PART);
	memset(image + IMAGE_PART, 0, log_offset - IMAGE_PART);
	shown_bytes = log_offset + IMAGE_PART;
	shown = kw_zalloc(shown_bytes);
	memcpy(shown, image, IMAGE_PART);
	memcpy(shown + log_offset, image + log_offset, IMAGE_PART);
}

static void note_bent(uint64_t offset, size_t length)
{
	must(bent_count < BENT_MAX && offset + length <= shown_bytes);
	bent[bent_count].offset = offset;
	bent[bent_count++].length = length;
}

static void unbend(void)
{
	for (size_t i = 0; i < bent_count; i++)
		memcpy(shown + bent[i].offset, image + bent[i].offset, bent[i].length);
	bent_count = 0;
}

/* ---- the reader's surroundings ---- */

static void io_read(void *arg, struct kw_read *const *reads, int count)
{
	struct world *world = arg;

	for (int i = 0; i < count; i++) {
		must(world->queued < QUEUE_MAX);
		must(reads[i]->length > 0);
		world->queue[world->queued++] = reads[i];
	}
}

static void io_extents(void *arg, const struct kw_extent *extents, int count)
{
	struct world *world = arg;

	for (int i = 0; i < count; i++)
		world->checksum += extents[i].offset + extents[i].length;
}

/* A copy is checked by ASan as a whole, a loop over the bytes one by one. */
static void touch(struct world *world, struct kw_slice slice)
{
	static uint8_t copy[IMAGE_PART];

	must(slice.length <= sizeof copy);
	if (slice.length == 0)
		return;
	memcpy(copy, slice.data, slice.length);
	world->checksum += copy[slice.length - 1];
}

static void take_record(struct world *world, const struct kw_record_view *record)
{
	uint64_t taken = kw_record_stride(record->length);

	must(record->kind >= KW_RECORD_PUT && record->kind <= KW_RECORD_FLUSH);
	must(record->length == KW_RECORD_HEADER + (record->expires_ms ? 8 : 0) +
				       record->key.length + record->value.length);
	world->records++;
	touch(world, record->key);
	touch(world, record->value);
	world->room -= taken < world->room ? taken : world->room;
}

static void on_records(void *arg, const struct kw_record_view *records, size_t count)
{
	must(count > 0 && count <= KW_READER_BATCH);
	for (size_t i = 0; i < count; i++)
		take_record(arg, &records[i]);
}

static uint64_t on_room(void *arg)
{
	return ((struct world *)arg)->room;
}

static void on_snapshot(void *arg, uint64_t epoch, uint64_t version)
{
	((struct world *)arg)->checksum += epoch + version;
}

static void on_superblock(void *arg, const struct kw_superblock *superblock)
{
	must(superblock->magic == KW_SUPERBLOCK_MAGIC);
}

static void on_pass(void *arg, const struct kw_reader_pass *pass)
{
	must(pass->consistent <= pass->version);
	((struct world *)arg)->passes++;
}

static void on_look(void *arg, bool found)
{
	((struct world *)arg)->looks++;
}

static void on_lapsed(void *arg, const char *why)
{
	must(why && *why && kw_reader_idle(((struct world *)arg)->reader));
}

static void on_failed(void *arg, const struct kw_error *error)
{
	must(error->text[0] != '\0' && kw_reader_idle(((struct world *)arg)->reader));
}

/* As a carrier: what lies outside of the extents is refused, the rest copied. */
static void end_read(struct world *world, int at, bool lose)
{
	struct kw_read *read = world->queue[at];
	struct kw_error error;

	must(++world->ends < ENDS_MAX);
	world->queue[at] = world->queue[--world->queued];
	if (read->offset > world->bytes || read->length > world->bytes - read->offset) {
		kw_error_set(&error, KW_E_ARGUMENT, "outside of the extents");
		kw_reader_complete(read, &error);
	} else if (lose) {
		kw_error_set(&error, KW_E_TIMEOUT, "lost");
		kw_reader_complete(read, &error);
	} else {
		memcpy(read->buffer, world->memory + read->offset, read->length);
		kw_reader_complete(read, NULL);
	}
}

static void drain(struct world *world)
{
	while (world->queued > 0)
		end_read(world, 0, false);
}

/* ---- the steps ---- */

struct input {
	const uint8_t *data;
	size_t left;
};

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

static void overwrite(struct world *world, struct input *input, uint64_t from)
{
	uint64_t offset = from + take(input, 2);
	size_t length = take(input, 1) % 48 + 1;

	if (length > input->left)
		length = input->left;
	if (offset + length > world->bytes)
		return;
	note_bent(offset, length);
	memcpy(world->memory + offset, input->data, length);
	input->data += length;
	input->left -= length;
}

static void mend_directory(struct world *world)
{
	const struct kw_superblock *superblock = (const struct kw_superblock *)world->memory;
	struct kw_directory_header *header;
	uint64_t offset = superblock->directory_offset;

	if (offset % 8 != 0 || offset > world->bytes - sizeof *header)
		return;
	header = (struct kw_directory_header *)(world->memory + offset);
	if (header->bytes < sizeof *header || header->bytes > world->bytes - offset)
		return;
	note_bent(offset, sizeof *header);
	kw_directory_seal(header);
}

/* Make the history whole, and the one that the superblock names. */
static void mend_history(struct world *world)
{
	struct kw_superblock *superblock = (struct kw_superblock *)world->memory;
	struct kw_history_record *record =
		(struct kw_history_record *)(world->memory + KW_HISTORY_OFFSET);

	note_bent(0, sizeof *superblock);
	note_bent(KW_HISTORY_OFFSET, sizeof *record);
	kw_history_seal(record);
	superblock->history_checksum = record->checksum;
	kw_superblock_seal(superblock);
}

static void mend(struct kw_record *record, const struct kw_place *place)
{
	uint64_t by = record->superseded_by & KW_VERSION_MASK;

	record->checksum = kw_record_checksum(record, place);
	record->superseded_by = kw_superseded_word(record->checksum, by);
}

/* Make whole what stands at this place of the log, as if it had been written so. */
static void mend_record(struct world *world, uint64_t at)
{
	struct kw_place place = {7, 1, at / 8 * 8 % 4096};
	uint64_t offset = log_offset + place.offset;
	struct kw_record *record = (struct kw_record *)(world->memory + offset);

	if (!kw_record_plausible(record, 4096 - place.offset, 4096 - place.offset))
		return;
	note_bent(offset, sizeof *record);
	mend(record, &place);
}

static void start(struct world *world, uint64_t version)
{
	const struct kw_cursor cursor = {7, version};

	if (kw_reader_idle(world->reader))
		kw_reader_start(world->reader, version ? &cursor : NULL);
}

static void step(struct world *world, struct input *input)
{
	struct kw_superblock *superblock = (struct kw_superblock *)world->memory;

	switch (take(input, 1) % 13) {
	case 0:
		overwrite(world, input, 0);
		break;
	case 1:
		overwrite(world, input, superblock->directory_offset % (1 << 20));
		break;
	case 2:
		overwrite(world, input, log_offset);
		break;
	case 3:
		note_bent(0, sizeof *superblock);
		kw_superblock_seal(superblock);
		break;
	case 4:
		mend_directory(world);
		break;
	case 5:
		mend_record(world, take(input, 2));
		break;
	case 6:
		if (world->queued > 0)
			end_read(world, (int)(take(input, 1) % (unsigned)world->queued), false);
		break;
	case 7:
		if (world->queued > 0)
			end_read(world, 0, true);
		break;
	case 8:
		drain(world);
		kw_reader_poll(world->reader);
		break;
	case 9:
		kw_reader_stop(world->reader);
		break;
	case 10:
		start(world, take(input, 2));
		break;
	case 12:
		mend_history(world);
		break;
	default:
		world->room = take(input, 2);
		kw_reader_resume(world->reader);
	}
}

static struct kw_reader *new_reader(struct world *world, uint8_t choice)
{
	static const uint32_t chunks[] = {64, 256, 4096, 65536};
	const struct kw_reader_options options = {.chunk_bytes = chunks[choice % 4],
		.depth = DEPTH,
		.tries = 3,
		.ahead = (enum kw_ahead)(choice / 4 % 2)};
	const struct kw_reader_io io = {io_read, io_extents, world};
	const struct kw_reader_sink sink = {on_snapshot, on_records, on_room, on_superblock,
		on_pass, on_look, on_lapsed, on_failed, world};

	return kw_reader_new(&options, &io, &sink);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = {data, size};
	struct world world = {.room = UINT64_C(1) << 40};
	uint8_t choice;

	if (!image)
		show_image();
	world.bytes = shown_bytes;
	world.memory = shown;
	choice = (uint8_t)take(&input, 1);
	if (choice & 0x80) {
		/* No table at all: the input is the memory. */
		note_bent(0, control_bytes);
		memset(world.memory, 0, control_bytes);
		memcpy(world.memory, input.data,
			input.left < control_bytes ? input.left : control_bytes);
		input.left = 0;
	}
	world.reader = new_reader(&world, choice);
	start(&world, 0);
	for (int steps = 0; input.left > 0 && steps < STEPS_MAX; steps++)
		step(&world, &input);
	world.room = UINT64_C(1) << 40;
	kw_reader_resume(world.reader);
	drain(&world);
	start(&world, 0);
	drain(&world);
	must(kw_reader_outstanding(world.reader) == 0);
	must(kw_reader_idle(world.reader) || kw_reader_waiting(world.reader));
	/* What was not bent must be readable, or nothing was tested here at all. */
	must(size > 0 || (world.passes > 0 && world.records >= KEYS / 2));
	kw_reader_free(world.reader);
	unbend();
	return 0;
}

/* ---- seeds ---- */

size_t kw_fuzz_seed(unsigned n, uint8_t *data, size_t most)
{
	static const uint8_t polls[] = {0, 8, 8, 8};
	static const uint8_t restart[] = {1, 6, 0, 6, 0, 9, 10, 50, 0, 8, 9, 10, 0, 0, 8};
	static const uint8_t bend_log[] = {
		2, 2, 16, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8, 9, 5, 0, 0, 8, 8};
	static const uint8_t bend_super[] = {
		3, 0, 32, 0, 0, 255, 3, 8, 0, 24, 0, 3, 9, 9, 9, 9, 3, 8};
	static const uint8_t bend_directory[] = {0, 1, 40, 0, 16, 9, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0,
		0, 0, 0, 0, 0, 0, 0, 4, 9, 10, 0, 0, 8};
	static const uint8_t little_room[] = {
		1, 11, 0, 0, 8, 11, 100, 0, 6, 0, 6, 0, 11, 1, 0, 6, 0, 8};
	static const uint8_t bend_history[] = {
		3, 0, 216, 0, 3, 'a', 'b', 'c', 'd', 12, 8, 0, 200, 0, 0, 9, 12, 8, 8};
	/* What the history says of functions, whole and wrong. */
	static const uint8_t bend_functions[] = {3, 0, 168, 1, 23, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1,
		0, 0, 0, 0, 0, 255, 0, 0, 0, 1, 2, 3, 4, 12, 8, 0, 184, 1, 3, 255, 255, 255, 255,
		12, 8, 8};
	static const uint8_t raw[] = {0x80, 'S', 'K', 'W', '1', 1, 0};
	const struct {
		const uint8_t *bytes;
		size_t size;
	} seeds[] = {
		{polls, sizeof polls},
		{restart, sizeof restart},
		{bend_log, sizeof bend_log},
		{bend_super, sizeof bend_super},
		{bend_directory, sizeof bend_directory},
		{little_room, sizeof little_room},
		{bend_history, sizeof bend_history},
		{bend_functions, sizeof bend_functions},
		{raw, sizeof raw},
	};

	if (n >= sizeof seeds / sizeof *seeds || most < 256)
		return 0;
	memcpy(data, seeds[n].bytes, seeds[n].size);
	return seeds[n].size;
}
