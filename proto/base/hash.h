/*
 * Checksums and hashes, from libraries: CRC32C and the server's CRC64 by isa-l, XXH3 by xxhash.
 * All are pure functions of their arguments. Any thread.
 */
#ifndef KW_BASE_HASH_H
#define KW_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* CRC32C (Castagnoli), continuing from seed: crc(crc(s, a), b) == crc(s, ab). */
uint32_t kw_crc32c(uint32_t seed, const void *data, size_t length);

/* The same of one word: kw_crc32c(seed, &word, sizeof word). */
uint32_t kw_crc32c_word(uint32_t seed, uint64_t word);

/* The same of four words and the bytes after them, from 0: this binds bytes to a place. */
uint32_t kw_crc32c_bound(uint64_t first, uint64_t second, uint64_t third, uint64_t fourth,
	const void *data, size_t length);

/* The CRC64 (Jones) that ends a DUMP payload; kw_crc64(0, payload less its last 8 bytes). */
uint64_t kw_crc64(uint64_t seed, const void *data, size_t length);

/* 64 well mixed bits of (database, key): index and dirty set. seed makes them unpredictable. */
uint64_t kw_hash_key(uint64_t seed, uint32_t database, const void *key, size_t length);

/* 128 bits of (database, key): sets of keys that do not keep the keys. */
struct kw_hash128 {
	uint64_t low, high;
};
struct kw_hash128 kw_hash128_key(uint32_t database, const void *key, size_t length);

#endif
