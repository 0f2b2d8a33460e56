/* Secrets: wiped when they are let go, left out of core dumps, never moved. */
#include "base/secret.h"

#include "../vm_flags.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <unistd.h>

static void core_dumps_leave_it_out(void **state)
{
	void *secret = kw_secret_new(5000);

	assert_true(vm_has_flag(secret, "dd"));
	kw_secret_free(secret, 5000);
	kw_secret_free(NULL, 0);
}

static void a_copy_is_its_own_and_ends_empty(void **state)
{
	char text[] = "hunter2";
	struct kw_slice copy = kw_secret_copy(kw_slice_text(text)), none;

	memset(text, 'x', sizeof text - 1);
	assert_true(kw_slice_equal(copy, kw_slice_text("hunter2")));
	kw_secret_close(&copy);
	assert_null(copy.data);
	assert_int_equal(copy.length, 0);
	kw_secret_close(&copy); /* harmless */
	none = kw_secret_copy((struct kw_slice){0});
	assert_int_equal(none.length, 0);
	kw_secret_close(&none);
}

/* A buffer over memory of ours: it is not given to free, so what became of it can be seen. */
static void a_buffer_is_wiped_to_its_capacity(void **state)
{
	struct kw_buffer buffer = {0};
	size_t capacity;
	uint8_t *data;

	kw_buffer_append(&buffer, "hunter2", 7);
	kw_buffer_consume(&buffer, 7); /* consumed, and still there */
	data = buffer.data;
	capacity = buffer.capacity;
	assert_memory_equal(data, "hunter2", 7);
	kw_secret_close_buffer(&buffer);
	assert_null(buffer.data);
	assert_int_equal(buffer.capacity, 0);
	kw_secret_close_buffer(&buffer); /* harmless */
	/* The freed block is the next one of its size; only the allocator's links are in it. */
	buffer.data = malloc(capacity);
	if (buffer.data == data)
		for (size_t i = 0; i + 7 <= capacity; i++)
			assert_memory_not_equal(data + i, "hunter2", 7);
	free(buffer.data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(core_dumps_leave_it_out),
		cmocka_unit_test(a_copy_is_its_own_and_ends_empty),
		cmocka_unit_test(a_buffer_is_wiped_to_its_capacity),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
