#include "base/hash.h"

#include <isa-l/crc64.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

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
 * The database must not go into the seed: XXH3 xors the seed of a short input with its bytes. So a
 * database and a key can cancel each other ("k6192" of 3 and "h6191" of 0 hash the same).
 */
uint64_t kw_hash_key(uint64_t seed, uint32_t database, const void *key, size_t length)
{
	uint64_t hash = XXH3_64bits_withSeed(key, length, seed);

	return database ? mix(hash + database) : hash;
}

struct kw_hash128 kw_hash128_key(uint32_t database, const void *key, size_t length)
{
	XXH128_hash_t hash = XXH3_128bits(key, length);

	/*
	 * Equal only if high is equal, so for the same key; and then the database is the same too.
	 */
	return (struct kw_hash128){hash.low64 ^ mix(hash.high64 + database), hash.high64};
}
