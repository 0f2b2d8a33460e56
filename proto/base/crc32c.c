/*
 * CRC32C, as kw_crc32c in hash.h promises it. isa-l does long runs; records are short.
 *
 * isa-l folds with wide registers: some 60 GB/s, but used now and then among other work a call
 * costs 30 ns before the first byte. The processor's own instruction takes 8 bytes a cycle without
 * any set-up. But each one waits three cycles for the one before. So the bytes are cut into two
 * lanes that do not wait for each other, and the first is carried past the second at the end.
 */
#include "base/hash.h"

#include <isa-l/crc.h>
#include <stdbool.h>
#include <string.h>

/* isa-l takes the length as an int. */
#define STEP ((size_t)1 << 30)

static uint32_t long_run(uint32_t crc, const void *data, size_t length)
{
	unsigned char *at = (unsigned char *)(uintptr_t)data; /* isa-l's prototype lacks const */

	while (length > STEP) {
		crc = crc32_iscsi(at, (int)STEP, crc);
		at += STEP;
		length -= STEP;
	}
	return crc32_iscsi(at, (int)length, crc);
}

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("sse4.2,pclmul")))

/* From here on isa-l is faster. */
#define SHORT 768
/* Below, joining the lanes costs more than it gains. */
#define TWO_LANES 64

/*
 * carry[n - 1] is x^(64 n - 33) modulo the polynomial, bits reflected: the factor that moves a CRC
 * before n further words. 33, because the multiplication of reflected bits shifts by one, and the
 * instruction that reduces the product multiplies by x^32 itself.
 */
static const uint32_t carry[SHORT / 16] = {
	/* clang-format off */
	0x00000001, 0x493c7d27, 0xf20c0dfe, 0xba4fc28e, 0x3da6d0cb, 0xddc0152b, 0x1c291d04, 0x9e4addf8,
	0x740eef02, 0x39d3b296, 0x083a6eec, 0x0715ce53, 0xc49f4f67, 0x47db8317, 0x2ad91c30, 0x0d3b6092,
	0x6992cea2, 0xc96cfdc0, 0x7e908048, 0x878a92a7, 0x1b3d8f29, 0xdaece73e, 0xf1d0f55e, 0xab7aff2a,
	0xa87ab8a8, 0x2162d385, 0x8462d800, 0x83348832, 0x71d111a8, 0x299847d5, 0xffd852c6, 0xb9e02b86,
	0xdcb17aa4, 0x18b33a4e, 0xf37c5aee, 0xb6dd949b, 0x6051d5a2, 0x78d9ccb7, 0x18b0d4ff, 0xbac2fd7b,
	0x21f3d99c, 0xa60ce07b, 0x8f158014, 0xce7f39f4, 0xa00457f7, 0x61d82e56, 0x8d6d2c43, 0xd270f1a2,
	/* clang-format on */
};

static inline bool has_instruction(void)
{
	return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
}

static inline uint64_t word_at(const uint8_t *at)
{
	uint64_t word;

	memcpy(&word, at, sizeof word);
	return word;
}

/* Two lanes of `words` each. */
TARGET static inline uint32_t two_lanes(uint32_t crc, const uint8_t *at, size_t words)
{
	const uint8_t *behind = at + 8 * words;
	uint64_t first = crc, second = 0;
	__m128i product;

	for (size_t i = 0; i < words; i++) {
		first = _mm_crc32_u64(first, word_at(at + 8 * i));
		second = _mm_crc32_u64(second, word_at(behind + 8 * i));
	}
	product = _mm_clmulepi64_si128(
		_mm_cvtsi64_si128((int64_t)first), _mm_cvtsi64_si128(carry[words - 1]), 0);
	return (uint32_t)(_mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(product)) ^ second);
}

/*
 * The last 1 to 7 bytes, which are the upper ones of `word`, in one step. (Byte by byte it would be
 * up to seven steps, each with a branch that no processor can predict.) Leading zeros change
 * nothing while the CRC is 0. So the CRC so far goes into the bytes themselves, and the rest of it
 * is added after them.
 */
TARGET static inline uint32_t tail(uint32_t crc, uint64_t word, size_t bytes)
{
	unsigned before = 64 - 8 * (unsigned)bytes;
	uint64_t alone = word >> before << before;

	return (uint32_t)(_mm_crc32_u64(0, alone ^ (uint64_t)crc << before) ^
			  (uint64_t)crc >> 8 * bytes);
}

TARGET static inline uint32_t short_run(uint32_t crc, const uint8_t *at, size_t length)
{
	const uint8_t *end = at + length;
	uint64_t wide;

	if (length < 8) {
		for (; at < end; at++)
			crc = _mm_crc32_u8(crc, *at);
		return crc;
	}
	if (length >= TWO_LANES) {
		crc = two_lanes(crc, at, length / 16);
		at += length / 16 * 16;
	}
	for (wide = crc; end - at >= 8; at += 8)
		wide = _mm_crc32_u64(wide, word_at(at));
	crc = (uint32_t)wide;
	return at < end ? tail(crc, word_at(end - 8), (size_t)(end - at)) : crc;
}

TARGET static inline uint32_t run(uint32_t crc, const void *data, size_t length)
{
	return length < SHORT ? short_run(crc, data, length) : long_run(crc, data, length);
}

/* The three of hash.h. Nothing remains to be done after them: their caller jumps there. */
TARGET static uint32_t crc32c(uint32_t seed, const void *data, size_t length)
{
	return ~run(~seed, data, length);
}

TARGET static uint32_t crc32c_word(uint32_t seed, uint64_t word)
{
	return ~(uint32_t)_mm_crc32_u64(~seed, word);
}

TARGET static uint32_t crc32c_bound(uint64_t first, uint64_t second, uint64_t third,
	uint64_t fourth, const void *data, size_t length)
{
	uint64_t crc = _mm_crc32_u64(_mm_crc32_u64(UINT32_MAX, first), second);

	crc = _mm_crc32_u64(_mm_crc32_u64(crc, third), fourth);
	return ~run((uint32_t)crc, data, length);
}
#endif

/*
 * ---- for any processor ----
 *
 * Not inlined: their words need a place on the stack, and the fast path must not pay for that.
 */

__attribute__((noinline)) static uint32_t any_word(uint32_t seed, uint64_t word)
{
	return ~long_run(~seed, &word, sizeof word);
}

__attribute__((noinline)) static uint32_t any_bound(uint64_t first, uint64_t second, uint64_t third,
	uint64_t fourth, const void *data, size_t length)
{
	const uint64_t words[] = {first, second, third, fourth};

	return ~long_run(long_run(UINT32_MAX, words, sizeof words), data, length);
}

uint32_t kw_crc32c(uint32_t seed, const void *data, size_t length)
{
#if defined(__x86_64__)
	if (has_instruction())
		return crc32c(seed, data, length);
#endif
	return ~long_run(~seed, data, length);
}

uint32_t kw_crc32c_word(uint32_t seed, uint64_t word)
{
#if defined(__x86_64__)
	if (has_instruction())
		return crc32c_word(seed, word);
#endif
	return any_word(seed, word);
}

uint32_t kw_crc32c_bound(uint64_t first, uint64_t second, uint64_t third, uint64_t fourth,
	const void *data, size_t length)
{
#if defined(__x86_64__)
	if (has_instruction())
		return crc32c_bound(first, second, third, fourth, data, length);
#endif
	return any_bound(first, second, third, fourth, data, length);
}
