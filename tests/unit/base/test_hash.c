#include "base/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* The check values that the catalogues of CRCs give for "123456789". */
static void crc32c_is_castagnoli(void **state)
{
	assert_int_equal(kw_crc32c(0, "123456789", 9), 0xe3069283);
	assert_int_equal(kw_crc32c(0, "", 0), 0);
}

static void crc64_is_the_servers(void **state)
{
	assert_true(kw_crc64(0, "123456789", 9) == UINT64_C(0xe9c6d914c4b8d9ca));
	assert_true(kw_crc64(0, "", 0) == 0);
}

static void a_crc_continues_where_it_stopped(void **state)
{
	uint8_t bytes[1000];

	for (size_t i = 0; i < sizeof bytes; i++)
		bytes[i] = (uint8_t)(i * i + 3);
	for (size_t cut = 0; cut <= sizeof bytes; cut += 7) {
		assert_int_equal(
			kw_crc32c(kw_crc32c(0, bytes, cut), bytes + cut, sizeof bytes - cut),
			kw_crc32c(0, bytes, sizeof bytes));
		assert_true(kw_crc64(kw_crc64(0, bytes, cut), bytes + cut, sizeof bytes - cut) ==
			    kw_crc64(0, bytes, sizeof bytes));
	}
}

/* Bit by bit, as the polynomial says; short inputs and long ones take different ways. */
static uint32_t crc32c_by_bits(uint32_t seed, const uint8_t *bytes, size_t length)
{
	uint32_t crc = ~seed;

	for (size_t i = 0; i < length; i++) {
		crc ^= bytes[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0x82f63b78) : 0);
	}
	return ~crc;
}

/* Any length, from any address, continuing from anything: long enough for every way it is done. */
static void a_crc_of_any_length_is_the_polynomials(void **state)
{
	const uint32_t seeds[] = {0, 1, 0x89abcdef, UINT32_MAX};
	uint8_t bytes[1000];

	for (size_t i = 0; i < sizeof bytes; i++)
		bytes[i] = (uint8_t)(i * i + 3 * i + (i >> 3));
	for (size_t length = 0; length + 8 <= sizeof bytes; length++)
		for (size_t shift = 0; shift < 8; shift++) {
			uint32_t seed = seeds[(length + shift) % 4];

			assert_int_equal(kw_crc32c(seed, bytes + shift, length),
				crc32c_by_bits(seed, bytes + shift, length));
		}
}

/* Nothing beyond either end is looked at: the bytes are the last of their page, and the first. */
static void a_crc_reads_no_byte_too_many(void **state)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *map = mmap(NULL, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *bytes = map + page;

	assert_true(map != MAP_FAILED);
	assert_int_equal(mprotect(bytes, page, PROT_READ | PROT_WRITE), 0);
	for (size_t i = 0; i < page; i++)
		bytes[i] = (uint8_t)(i * 7);
	for (size_t length = 0; length <= 1000; length++) {
		const uint8_t *last = bytes + page - length;

		assert_int_equal(kw_crc32c(0, bytes, length), crc32c_by_bits(0, bytes, length));
		assert_int_equal(kw_crc32c(0, last, length), crc32c_by_bits(0, last, length));
	}
	munmap(map, 3 * page);
}

static void a_crc_of_words_is_that_of_their_bytes(void **state)
{
	const uint64_t words[] = {UINT64_C(0x0123456789abcdef), 7, UINT64_MAX, 0};
	uint8_t bytes[900];

	for (size_t i = 0; i < sizeof bytes; i++)
		bytes[i] = (uint8_t)(i * 13 + 1);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(kw_crc32c_word(0x1234567, words[i]),
			crc32c_by_bits(0x1234567, (const uint8_t *)&words[i], 8));
	for (size_t length = 0; length <= sizeof bytes; length++)
		assert_int_equal(
			kw_crc32c_bound(words[0], words[1], words[2], words[3], bytes, length),
			crc32c_by_bits(
				crc32c_by_bits(0, (const uint8_t *)words, 32), bytes, length));
}

/* The CRC unit takes an int: beyond 1 GiB the length is worked off in steps. */
static void a_crc_of_more_than_a_gigabyte_is_whole(void **state)
{
	const size_t length = ((size_t)1 << 30) + 4096;
	/* Only the page that is written to takes memory: the others are the kernel's page of zeros.
	 */
	uint8_t *bytes = mmap(NULL, length, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint32_t whole;

	assert_ptr_not_equal(bytes, MAP_FAILED);
	bytes[length - 1] = 1;
	whole = kw_crc32c(0, bytes, length);
	assert_int_equal(whole, kw_crc32c(kw_crc32c(0, bytes, 4096), bytes + 4096, length - 4096));
	bytes[length - 1] = 0;
	assert_int_not_equal(whole, kw_crc32c(0, bytes, length));
	munmap(bytes, length);
}

static void key_hashes_depend_on_seed_database_and_every_byte(void **state)
{
	char key[] = "user:1000";
	uint64_t hash = kw_hash_key(1, 0, key, 9);
	struct kw_hash128 wide = kw_hash128_key(0, key, 9), other;

	assert_true(hash == kw_hash_key(1, 0, key, 9));
	assert_true(hash != kw_hash_key(2, 0, key, 9));
	assert_true(hash != kw_hash_key(1, 1, key, 9));
	assert_true(hash != kw_hash_key(1, 0, key, 8));
	other = kw_hash128_key(1, key, 9);
	assert_true(wide.low != other.low || wide.high != other.high);
	for (int i = 0; i < 9; i++) {
		key[i] ^= 1;
		assert_true(hash != kw_hash_key(1, 0, key, 9));
		other = kw_hash128_key(0, key, 9);
		assert_true(wide.low != other.low || wide.high != other.high);
		key[i] ^= 1;
	}
}

/* The index takes the high bits as the slot: neighbours must not meet there. */
static void key_hashes_spread_over_the_high_bits(void **state)
{
	int slots[256] = {0};
	char key[32];

	for (int i = 0; i < 25600; i++) {
		int length = snprintf(key, sizeof key, "key:%d", i);

		slots[kw_hash_key(42, 0, key, (size_t)length) >> 56]++;
	}
	for (int i = 0; i < 256; i++)
		assert_in_range(slots[i], 40, 200);
}

static void the_empty_key_is_a_key(void **state)
{
	assert_true(kw_hash_key(1, 0, "", 0) != kw_hash_key(1, 1, "", 0));
	assert_true(kw_hash_key(1, 0, NULL, 0) == kw_hash_key(1, 0, "", 0));
}

/* As a seed the database would be xored into a short key: "k6192" of 3 would be "h6191" of 0. */
static void database_and_key_do_not_make_up_for_each_other(void **state)
{
	struct kw_hash128 a = kw_hash128_key(3, "k6192", 5), b = kw_hash128_key(0, "h6191", 5);

	assert_true(a.low != b.low || a.high != b.high);
	assert_true(kw_hash_key(7, 3, "k6192", 5) != kw_hash_key(7, 0, "h6191", 5));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(database_and_key_do_not_make_up_for_each_other),
		cmocka_unit_test(crc32c_is_castagnoli),
		cmocka_unit_test(crc64_is_the_servers),
		cmocka_unit_test(a_crc_of_any_length_is_the_polynomials),
		cmocka_unit_test(a_crc_continues_where_it_stopped),
		cmocka_unit_test(a_crc_reads_no_byte_too_many),
		cmocka_unit_test(a_crc_of_words_is_that_of_their_bytes),
		cmocka_unit_test(a_crc_of_more_than_a_gigabyte_is_whole),
		cmocka_unit_test(key_hashes_depend_on_seed_database_and_every_byte),
		cmocka_unit_test(key_hashes_spread_over_the_high_bits),
		cmocka_unit_test(the_empty_key_is_a_key),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
