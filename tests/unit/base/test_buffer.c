#include "base/buffer.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void a_zeroed_buffer_is_empty(void **state)
{
	struct kw_buffer buffer = {0};

	assert_int_equal(kw_buffer_length(&buffer), 0);
	kw_buffer_append(&buffer, NULL, 0);
	kw_buffer_clear(&buffer);
	kw_buffer_trim(&buffer, 0);
	kw_buffer_close(&buffer);
	kw_buffer_close(&buffer);
}

static void what_is_filled_is_consumed_in_order(void **state)
{
	struct kw_buffer buffer = {0};
	uint32_t in = 0, out = 0;
	uint32_t lot = 1;

	/* Filling runs ahead of consuming by ever changing amounts, over many growths and slides.
	 */
	while (in < 200000) {
		for (uint32_t i = 0; i < lot; i++, in++)
			kw_buffer_append(&buffer, &in, sizeof in);
		for (uint32_t i = 0; i < lot * 3 / 4 + 1 && out < in; i++, out++) {
			uint32_t got;

			assert_true(kw_buffer_length(&buffer) >= sizeof got);
			memcpy(&got, kw_buffer_bytes(&buffer), sizeof got);
			assert_int_equal(got, out);
			kw_buffer_consume(&buffer, sizeof got);
		}
		lot = (lot * 7 + 1) % 997 + 1;
		assert_int_equal(kw_buffer_length(&buffer), (in - out) * sizeof in);
		assert_true(buffer.end <= buffer.capacity);
	}
	kw_buffer_close(&buffer);
}

static void reserve_gives_room_and_filled_takes_it(void **state)
{
	struct kw_buffer buffer = {0};
	uint8_t *room = kw_buffer_reserve(&buffer, 10000);

	memset(room, 'x', 10000);
	assert_int_equal(kw_buffer_length(&buffer), 0);
	kw_buffer_filled(&buffer, 9000);
	assert_int_equal(kw_buffer_length(&buffer), 9000);
	kw_buffer_append(&buffer, "end", 3);
	assert_memory_equal(kw_buffer_bytes(&buffer) + 8999, "xend", 4);
	kw_buffer_close(&buffer);
}

/* A queue that is always a little full must not slide its whole content for each byte. */
static void a_standing_queue_does_not_grow_without_bound(void **state)
{
	struct kw_buffer buffer = {0};
	uint8_t block[1000] = {1};

	for (int i = 0; i < 100; i++)
		kw_buffer_append(&buffer, block, sizeof block);
	for (int i = 0; i < 100000; i++) {
		kw_buffer_append(&buffer, block, sizeof block);
		kw_buffer_consume(&buffer, sizeof block);
	}
	assert_int_equal(kw_buffer_length(&buffer), 100 * sizeof block);
	assert_true(buffer.capacity <= 4 * 100 * sizeof block);
	kw_buffer_close(&buffer);
}

static void printf_appends_whole_texts_of_any_length(void **state)
{
	struct kw_buffer buffer = {0};
	char large[5000];

	memset(large, 'a', sizeof large - 1);
	large[sizeof large - 1] = '\0';
	kw_buffer_printf(&buffer, "%d-%s-", 7, "x");
	kw_buffer_printf(&buffer, "%s", large);
	assert_int_equal(kw_buffer_length(&buffer), 4 + sizeof large - 1);
	assert_memory_equal(kw_buffer_bytes(&buffer), "7-x-aaaa", 8);
	kw_buffer_close(&buffer);
}

static void trim_gives_back_only_what_is_empty_and_large(void **state)
{
	struct kw_buffer buffer = {0};

	kw_buffer_reserve(&buffer, 1 << 20);
	kw_buffer_filled(&buffer, 1 << 20);
	kw_buffer_trim(&buffer, 4096);
	assert_int_equal(kw_buffer_length(&buffer), 1 << 20);
	kw_buffer_consume(&buffer, 1 << 20);
	kw_buffer_trim(&buffer, 2 << 20);
	assert_true(buffer.capacity >= 1 << 20);
	kw_buffer_trim(&buffer, 4096);
	assert_true(buffer.capacity <= 4096);
	kw_buffer_append(&buffer, "again", 5);
	assert_memory_equal(kw_buffer_bytes(&buffer), "again", 5);
	kw_buffer_close(&buffer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_zeroed_buffer_is_empty),
		cmocka_unit_test(what_is_filled_is_consumed_in_order),
		cmocka_unit_test(reserve_gives_room_and_filled_takes_it),
		cmocka_unit_test(a_standing_queue_does_not_grow_without_bound),
		cmocka_unit_test(printf_appends_whole_texts_of_any_length),
		cmocka_unit_test(trim_gives_back_only_what_is_empty_and_large),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
