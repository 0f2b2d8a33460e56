/* Answers in blocks: what one end compresses the other gets, and nothing else is believed. */
#include "remote/tcp/compress.h"
#include "remote/tcp/decompress.h"
#include "remote/tcp/packed.h"
#include "remote/tcp/zstd_memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../vm_flags.h"

#define GUARD 16
#define MOST (3 * KW_BLOCK_BYTES)

static uint8_t random_byte(uint64_t *seed)
{
	*seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint8_t)(*seed >> 56);
}

/* What a table holds: words that come again. */
static void fill_text(uint8_t *to, size_t length)
{
	for (size_t i = 0; i < length; i++)
		to[i] = (uint8_t) "user:1234 name value "[(i + i / 97) % 21];
}

static void fill_noise(uint8_t *to, size_t length)
{
	uint64_t seed = 7;

	for (size_t i = 0; i < length; i++)
		to[i] = random_byte(&seed);
}

/* An answer as a proxy makes it. */
struct answer {
	uint8_t *bytes; /* on the wire, without the header */
	size_t length;
};

static struct answer answer_to(
	struct kw_compressor *compressor, const uint8_t *bytes, size_t length, int level)
{
	struct kw_packed *packed = kw_packed_new(compressor, level);
	struct answer answer = {malloc(length + (length / KW_BLOCK_BYTES + 1) * 4 + 4), 0};
	bool over = false;

	assert_true(kw_packed_takes(packed, length) || length < KW_BLOCKS_LEAST);
	while (!over) {
		struct kw_slice piece = kw_packed_piece(packed, length);

		if (piece.length == 0) {
			memcpy(kw_compressor_source(compressor), bytes + packed->done,
				kw_packed_wants(packed));
			kw_packed_fill(packed);
			piece = kw_packed_piece(packed, length);
		}
		memcpy(answer.bytes + answer.length, piece.data, piece.length);
		answer.length += piece.length;
		over = kw_packed_sent(packed, piece.length);
	}
	kw_packed_free(packed);
	return answer;
}

/* As an agent takes it, `step` bytes at a time. Returns the code; to[] has guards around. */
static int take(const uint8_t *wire, size_t wire_length, size_t length, size_t step, uint8_t *to,
	struct kw_error *error)
{
	struct kw_decompressor *decompressor = kw_decompressor_new();
	uint8_t *guarded = malloc(length + 2 * GUARD);
	int code = 0;

	*error = (struct kw_error){0};
	memset(guarded, 0xEE, length + 2 * GUARD);
	kw_decompressor_begin(decompressor, guarded + GUARD, length);
	while (wire_length > 0 && code == 0 && kw_decompressor_left(decompressor) > 0) {
		size_t room, part;
		uint8_t *at = kw_decompressor_room(decompressor, &room);

		part = room < step ? room : step;
		part = part < wire_length ? part : wire_length;
		memcpy(at, wire, part);
		wire += part;
		wire_length -= part;
		code = kw_decompressor_came(decompressor, part, error);
		assert_true(kw_decompressor_memory(decompressor) <= KW_DECOMPRESSOR_MEMORY);
	}
	for (size_t i = 0; i < GUARD; i++) {
		assert_int_equal(guarded[i], 0xEE);
		assert_int_equal(guarded[GUARD + length + i], 0xEE);
	}
	if (code == 0 && kw_decompressor_left(decompressor) > 0)
		code = -1; /* it waits for more */
	if (code == 0)
		assert_int_equal(wire_length, 0);
	assert_int_equal(code > 0, error->text[0] != 0);
	if (to)
		memcpy(to, guarded + GUARD, length);
	free(guarded);
	kw_decompressor_free(decompressor);
	return code;
}

static void what_goes_in_comes_out(void **state)
{
	static const size_t lengths[] = {1, 2, 1023, 1024, 4096, KW_BLOCK_BYTES - 1, KW_BLOCK_BYTES,
		KW_BLOCK_BYTES + 1, MOST};
	static const size_t steps[] = {1, 3, 1000, MOST};
	uint8_t *bytes = malloc(MOST), *back = malloc(MOST);
	struct kw_compressor *compressor = kw_compressor_new();
	struct kw_error error;

	for (int noise = 0; noise < 2; noise++)
		for (int level = 1; level <= KW_COMPRESSION_LEVEL_MAX; level++)
			for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++)
				for (size_t s = 0; s < sizeof steps / sizeof *steps; s++) {
					struct answer answer;

					(noise ? fill_noise : fill_text)(bytes, lengths[l]);
					answer = answer_to(compressor, bytes, lengths[l], level);
					assert_int_equal(
						take(answer.bytes, answer.length, lengths[l],
							steps[s], back, &error),
						0);
					assert_memory_equal(back, bytes, lengths[l]);
					free(answer.bytes);
				}
	assert_true(kw_compressor_memory(compressor) > 0);
	assert_true(kw_compressor_memory(compressor) <= KW_COMPRESSOR_MEMORY);
	kw_compressor_free(compressor);
	free(bytes);
	free(back);
}

/* A block is plain if it does not pay, and then takes four bytes more than what it holds. */
static void a_block_that_does_not_shrink_goes_as_it_is(void **state)
{
	struct kw_compressor *compressor = kw_compressor_new();
	uint8_t *bytes = malloc(2 * KW_BLOCK_BYTES);
	struct answer answer;
	uint32_t word;

	fill_text(bytes, KW_BLOCK_BYTES);
	fill_noise(bytes + KW_BLOCK_BYTES, KW_BLOCK_BYTES);
	answer = answer_to(compressor, bytes, 2 * KW_BLOCK_BYTES, 1);
	memcpy(&word, answer.bytes, sizeof word);
	assert_true(word & KW_BLOCK_ZSTD);
	assert_true((word & ~KW_BLOCK_ZSTD) < KW_BLOCK_BYTES / 8);
	memcpy(&word, answer.bytes + answer.length - KW_BLOCK_BYTES - 4, sizeof word);
	assert_int_equal(word, KW_BLOCK_BYTES);
	assert_memory_equal(answer.bytes + answer.length - KW_BLOCK_BYTES, bytes + KW_BLOCK_BYTES,
		KW_BLOCK_BYTES);
	free(answer.bytes);
	free(bytes);
	kw_compressor_free(compressor);
}

static void one_answer(struct kw_packed *packed, size_t length)
{
	do {
		if (kw_packed_piece(packed, length).length == 0)
			kw_packed_fill(packed);
	} while (!kw_packed_sent(packed, kw_packed_piece(packed, length).length));
}

/* How many READs are left plain before the next is tried. */
static uint32_t plain_until_tried(struct kw_packed *packed)
{
	uint32_t count = 0;

	while (!kw_packed_takes(packed, 4096))
		assert_true(++count <= KW_PACKED_PAUSE_MAX);
	return count;
}

/*
 * As CRIME did: whether a block shrinks must not tell what the blocks and answers before it hold.
 * The last of them are those of another agent, too: the compressor is the serving thread's.
 */
static void a_block_shrinks_by_what_is_in_it_alone(void **state)
{
	struct kw_compressor *compressor = kw_compressor_new(), *fresh = kw_compressor_new();
	uint8_t *bytes = malloc(2 * KW_BLOCK_BYTES), *guess = bytes + KW_BLOCK_BYTES;
	struct answer alone, first, both;

	fill_noise(guess, KW_BLOCK_BYTES);
	alone = answer_to(fresh, guess, KW_BLOCK_BYTES, 1);
	for (int secret = 0; secret < 2; secret++) {
		if (secret) /* the same bytes as those that are guessed */
			memcpy(bytes, guess, KW_BLOCK_BYTES);
		else
			fill_text(bytes, KW_BLOCK_BYTES);
		first = answer_to(compressor, bytes, KW_BLOCK_BYTES, 1);
		both = answer_to(compressor, bytes, 2 * KW_BLOCK_BYTES, 1);
		assert_int_equal(both.length, first.length + alone.length);
		assert_memory_equal(both.bytes + first.length, alone.bytes, alone.length);
		free(first.bytes);
		free(both.bytes);
	}
	free(alone.bytes);
	free(bytes);
	kw_compressor_free(fresh);
	kw_compressor_free(compressor);
}

static void what_does_not_shrink_is_tried_ever_less_often(void **state)
{
	static const uint32_t pauses[] = {1, 2, 4, 8, 16, 32, 32, 32};
	struct kw_compressor *compressor = kw_compressor_new();
	struct kw_packed *packed = kw_packed_new(compressor, 1);

	fill_noise(kw_compressor_source(compressor), 4096);
	assert_true(kw_packed_takes(packed, 4096));
	for (size_t i = 0; i < sizeof pauses / sizeof *pauses; i++) {
		one_answer(packed, 4096);
		assert_int_equal(plain_until_tried(packed), pauses[i]);
	}
	fill_text(kw_compressor_source(compressor), 4096);
	one_answer(packed, 4096);
	for (int i = 0; i < 100; i++)
		assert_true(kw_packed_takes(packed, 4096));
	assert_false(kw_packed_takes(packed, KW_BLOCKS_LEAST - 1)); /* a look at the table */
	kw_packed_free(packed);
	kw_compressor_free(compressor);
}

/* ---- what a peer says ---- */

/* A block of a frame that zstd made of other bytes, or with other settings. */
static size_t frame_of(
	uint8_t *to, size_t room, const void *bytes, size_t length, int window, int says_size)
{
	ZSTD_CCtx *context = ZSTD_createCCtx();
	uint32_t word;
	size_t put;

	ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, says_size);
	if (window)
		ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, window);
	put = ZSTD_compress2(context, to + sizeof word, room - sizeof word, bytes, length);
	assert_false(ZSTD_isError(put));
	ZSTD_freeCCtx(context);
	word = (uint32_t)put | KW_BLOCK_ZSTD;
	memcpy(to, &word, sizeof word);
	return sizeof word + put;
}

static void expect_refused(
	const uint8_t *wire, size_t wire_length, size_t length, const char *sentence)
{
	struct kw_error error;

	assert_int_equal(take(wire, wire_length, length, MOST, NULL, &error), KW_E_PROTOCOL);
	assert_non_null(strstr(error.text, "remote.compression=none"));
	if (!strstr(error.text, sentence))
		fail_msg("\"%s\" lacks \"%s\"", error.text, sentence);
}

/* A kilobyte on the wire that says, and would yield, a hundred megabytes. */
static void a_bomb_is_refused_before_it_is_taken_apart(void **state)
{
	const size_t length = UINT32_C(100) << 20;
	uint8_t *zeros = calloc(1, length), *wire = malloc(1 << 20);
	size_t bytes;

	bytes = frame_of(wire, 1 << 20, zeros, length, 0, 1);
	assert_true(bytes < 32768);
	expect_refused(wire, bytes, KW_BLOCK_BYTES, "another length than was asked for");
	expect_refused(wire, bytes, MOST, "another length than was asked for");
	bytes = frame_of(wire, 1 << 20, zeros, length, 0, 0);
	expect_refused(wire, bytes, MOST, "another length than was asked for");
	free(zeros);
	free(wire);
}

static void a_frame_of_another_length_is_refused(void **state)
{
	uint8_t bytes[8192], wire[8192];
	size_t length;

	fill_text(bytes, sizeof bytes);
	length = frame_of(wire, sizeof wire, bytes, 4096, 0, 1);
	expect_refused(wire, length, 4095, "another length");
	expect_refused(wire, length, 4097, "another length");
	/* It says what is due, and yields less, or more: the field of its size is changed. */
	wire[4 + 5] ^= 1;
	expect_refused(wire, length, 4097, "");
	expect_refused(wire, length, 4096 + 256, "");
	wire[4 + 5] ^= 1;
	/* It says nothing of its length. */
	length = frame_of(wire, sizeof wire, bytes, 4096, 0, 0);
	expect_refused(wire, length, 4096, "another length");
}

static void a_frame_that_is_cut_or_followed_by_more_is_refused(void **state)
{
	uint8_t bytes[4096], wire[16384];
	size_t length, second;
	uint32_t word;

	fill_text(bytes, sizeof bytes);
	length = frame_of(wire, sizeof wire, bytes, sizeof bytes, 0, 1);
	for (uint32_t cut = 1; cut < length - 4; cut++) {
		word = (uint32_t)(length - 4 - cut) | KW_BLOCK_ZSTD;
		memcpy(wire, &word, sizeof word);
		expect_refused(wire, length - cut, sizeof bytes, "");
	}
	/* A second frame behind it, of nothing; and zeros. */
	second = frame_of(wire + length - 4, sizeof wire - length, bytes, 0, 0, 1);
	(void)second;
	length = frame_of(wire, sizeof wire, bytes, sizeof bytes, 0, 1);
	memset(wire + length, 0, 16);
	word = (uint32_t)(length - 4 + 16) | KW_BLOCK_ZSTD;
	memcpy(wire, &word, sizeof word);
	expect_refused(wire, length + 16, sizeof bytes, "followed by more");
}

static void what_is_no_frame_is_refused(void **state)
{
	static const char garbage[] = "this is no frame of zstd, whatever its word says";
	static const uint8_t skippable[] = {0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4};
	static const uint8_t old[] = {0x26, 0xb5, 0x2f, 0xfd, 0, 0, 0, 0, 0}; /* version 0.6 */
	const struct {
		const void *bytes;
		uint32_t length;
	} frames[] = {{garbage, sizeof garbage}, {skippable, sizeof skippable}, {old, sizeof old},
		{garbage, 1}, {garbage, 3}};
	uint8_t wire[128];

	for (size_t i = 0; i < sizeof frames / sizeof *frames; i++) {
		uint32_t word = frames[i].length | KW_BLOCK_ZSTD;

		memcpy(wire, &word, sizeof word);
		memcpy(wire + 4, frames[i].bytes, frames[i].length);
		expect_refused(wire, 4 + frames[i].length, 4096, "no frame of zstd");
	}
}

static void a_word_that_cannot_be_is_refused(void **state)
{
	static const struct {
		uint32_t word;
		const char *sentence;
	} words[] = {
		{0, "plain block of another length"},
		{4095, "plain block of another length"},
		{4097, "plain block of another length"},
		{KW_BLOCK_ZSTD, "not smaller"},
		{KW_BLOCK_ZSTD | 4096, "not smaller"},
		{UINT32_MAX, "not smaller"},
	};

	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		expect_refused((const uint8_t *)&words[i].word, 4, 4096, words[i].sentence);
}

/* Each bit of an honest answer flipped: refused, waited for, or of the right length at least. */
static void no_flipped_bit_leads_out_of_the_buffer(void **state)
{
	struct kw_compressor *compressor = kw_compressor_new();
	uint8_t bytes[2000];
	struct answer answer;
	struct kw_error error;
	int refused = 0;

	fill_text(bytes, sizeof bytes);
	answer = answer_to(compressor, bytes, sizeof bytes, 1);
	for (size_t bit = 0; bit < answer.length * 8; bit++) {
		answer.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		refused += take(answer.bytes, answer.length, sizeof bytes, MOST, NULL, &error) > 0;
		answer.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	assert_true(refused > 0);
	free(answer.bytes);
	kw_compressor_free(compressor);
}

/* A frame may say that it needs a window of 128 MiB: none is made. */
static void a_large_window_takes_no_memory(void **state)
{
	uint8_t *bytes = malloc(KW_BLOCK_BYTES), *wire = malloc(KW_BLOCK_BYTES);
	uint8_t *back = malloc(KW_BLOCK_BYTES);
	struct kw_error error;
	size_t length;

	fill_text(bytes, KW_BLOCK_BYTES);
	length = frame_of(wire, KW_BLOCK_BYTES, bytes, KW_BLOCK_BYTES, 27, 1);
	/* Not a single segment: then the window's size is what it says by itself. */
	assert_int_equal(take(wire, length, KW_BLOCK_BYTES, MOST, back, &error), 0);
	assert_memory_equal(back, bytes, KW_BLOCK_BYTES);
	free(bytes);
	free(back);
	free(wire);
}

static void what_passes_through_is_in_no_core_file(void **state)
{
	struct kw_compressor *compressor = kw_compressor_new();
	struct kw_decompressor *decompressor = kw_decompressor_new();
	struct kw_packed *packed = kw_packed_new(compressor, 1);
	const uint32_t word = KW_BLOCK_ZSTD | 100;
	struct kw_zstd_memory memory = {.most = 1000};
	const ZSTD_customMem context = kw_zstd_memory(&memory);
	struct kw_error error;
	uint8_t to[4096];
	size_t room;
	void *bytes;

	kw_decompressor_begin(decompressor, to, sizeof to);
	memcpy(kw_decompressor_room(decompressor, &room), &word, sizeof word);
	assert_int_equal(kw_decompressor_came(decompressor, sizeof word, &error), 0);
	assert_true(vm_has_flag(kw_decompressor_room(decompressor, &room), "dd"));
	assert_int_equal(room, 100);
	assert_true(vm_has_flag(kw_compressor_source(compressor), "dd"));
	assert_true(vm_has_flag(packed->stage, "dd"));
	bytes = context.customAlloc(context.opaque, 999);
	assert_true(vm_has_flag(bytes, "dd"));
	assert_null(context.customAlloc(context.opaque, 2)); /* that is more than it may have */
	context.customFree(context.opaque, bytes);
	assert_int_equal(memory.used, 0);
	kw_packed_free(packed);
	kw_decompressor_free(decompressor);
	kw_compressor_free(compressor);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_goes_in_comes_out),
		cmocka_unit_test(a_block_that_does_not_shrink_goes_as_it_is),
		cmocka_unit_test(a_block_shrinks_by_what_is_in_it_alone),
		cmocka_unit_test(what_does_not_shrink_is_tried_ever_less_often),
		cmocka_unit_test(a_bomb_is_refused_before_it_is_taken_apart),
		cmocka_unit_test(a_frame_of_another_length_is_refused),
		cmocka_unit_test(a_frame_that_is_cut_or_followed_by_more_is_refused),
		cmocka_unit_test(what_is_no_frame_is_refused),
		cmocka_unit_test(a_word_that_cannot_be_is_refused),
		cmocka_unit_test(no_flipped_bit_leads_out_of_the_buffer),
		cmocka_unit_test(a_large_window_takes_no_memory),
		cmocka_unit_test(what_passes_through_is_in_no_core_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
