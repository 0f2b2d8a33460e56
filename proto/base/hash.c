#include "base/hash.h"

#include <isa-l/crc.h>
#include <isa-l/crc64.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

/* isa-l takes the length as an int. */
#define CRC_STEP ((size_t)1 << 30)

#if defined(__x86_64__)
/*
 * isa-l folds with wide registers. Used now and then among other work, as for a record, a call
 * costs some 60 ns before the first byte, three times a record of 100 bytes. Below this length the
 * processor's own instruction is faster.
 */
#define CRC_SHORT 256

__attribute__((target("sse4.2"))) static uint32_t crc32c_short(
	uint32_t crc, const unsigned char *at, size_t length)
{
	uint64_t wide = crc;

	for (; length >= 8; length -= 8, at += 8) {
		uint64_t word;

		memcpy(&word, at, sizeof word);
		wide = __builtin_ia32_crc32di(wide, word);
	}
	crc = (uint32_t)wide;
	for (; length > 0; length--, at++)
		crc = __builtin_ia32_crc32qi(crc, *at);
	return crc;
}
#endif

uint32_t kw_crc32c(uint32_t seed, const void *data, size_t length)
{
	unsigned char *at = (unsigned char *)(uintptr_t)data; /* isa-l's prototype lacks const */
	uint32_t crc = ~seed;

#if defined(__x86_64__)
	if (length < CRC_SHORT && __builtin_cpu_supports("sse4.2"))
		return ~crc32c_short(crc, at, length);
#endif
	while (length > CRC_STEP) {
		crc = crc32_iscsi(at, (int)CRC_STEP, crc);
		at += CRC_STEP;
		length -= CRC_STEP;
	}
	return ~crc32_iscsi(at, (int)length, crc);
}

uint64_t kw_crc64(uint64_t seed, const void *data, size_t length)
{
	/* isa-l inverts on the way in and out, the server does not. */
	return ~crc64_jones_refl(~seed, data, length);
}

/* A bijection whose output bits each depend on all input bits (multiply and shift, twice). */
static uint64_t mix(uint64_t value)
{
	value = (value ^ (value >> 32)) * UINT64_C(0x9E3779B97F4A7C15);
	value = (value ^ (value >> 29)) * UINT64_C(0xD6E8FEB86659FD93);
	return value ^ (value >> 32);
}

/*
 * The database must not go into the seed: XXH3 xors the seed of a short input with its bytes, so
 * that database and key make up for each other ("k6192" of 3 and "h6191" of 0 hash the same).
 */
uint64_t kw_hash_key(uint64_t seed, uint32_t database, const void *key, size_t length)
{
	uint64_t hash = XXH3_64bits_withSeed(key, length, seed);

	return database ? mix(hash + database) : hash;
}

struct kw_hash128 kw_hash128_key(uint32_t database, const void *key, size_t length)
{
	XXH128_hash_t hash = XXH3_128bits(key, length);

	/* Equal only where high is equal, hence the key, and then the database too. */
	return (struct kw_hash128){hash.low64 ^ mix(hash.high64 + database), hash.high64};
}
