/* Encoding and queueing: what will be written is what was asked for, in order. */
#include "base/buffer.h"
#include "base/secret.h"
#include "redis/address.h"
#include "redis/output.h"
#include "redis/pending.h"
#include "redis/redis.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static void a_command_is_encoded_as_an_array_of_bulk_strings(void **state)
{
	static const char wanted[] = "*3\r\n$3\r\nSET\r\n$4\r\na\0\r\n\r\n$0\r\n\r\n";
	struct kw_slice argv[] = {kw_slice_text("SET"), kw_slice("a\0\r\n", 4), {NULL, 0}};
	struct kw_buffer buffer = {0};

	kw_resp_command(&buffer, 3, argv);
	assert_int_equal(kw_buffer_length(&buffer), sizeof wanted - 1);
	assert_memory_equal(kw_buffer_bytes(&buffer), wanted, sizeof wanted - 1);
	kw_buffer_close(&buffer);
}

static void lengths_of_many_digits_are_written_whole(void **state)
{
	size_t length = 1234567;
	char *value = calloc(1, length);
	struct kw_slice argv[] = {kw_slice(value, length)};
	struct kw_buffer buffer = {0};

	kw_resp_command(&buffer, 1, argv);
	assert_memory_equal(kw_buffer_bytes(&buffer), "*1\r\n$1234567\r\n", 14);
	assert_int_equal(kw_buffer_length(&buffer), 14 + length + 2);
	kw_buffer_close(&buffer);
	free(value);
}

/* Take everything out in writes of at most `step` bytes and `vectors` vectors. */
static void take_all(struct kw_output *output, struct kw_buffer *wire, size_t step, int vectors)
{
	struct iovec iov[8];

	while (output->bytes > 0) {
		int count = kw_output_gather(output, iov, vectors, step);
		size_t taken = 0;

		assert_in_range(count, 1, vectors);
		for (int i = 0; i < count; i++) {
			kw_buffer_append(wire, iov[i].iov_base, iov[i].iov_len);
			taken += iov[i].iov_len;
		}
		assert_in_range(taken, 1, step);
		kw_output_consume(output, taken);
	}
	assert_int_equal(output->count, 0);
}

static void commands_and_raw_slices_keep_their_order_under_partial_writes(void **state)
{
	static const size_t steps[] = {1, 7, 600, 4096, 1 << 20};
	char big[3000], small[20];
	struct kw_slice ping = kw_slice_text("PING");

	memset(big, 'b', sizeof big);
	memset(small, 's', sizeof small);
	for (size_t s = 0; s < sizeof steps / sizeof *steps; s++) {
		struct kw_output output = {0};
		struct kw_buffer wire = {0}, wanted = {0};

		for (int i = 0; i < 200; i++) {
			kw_output_command(&output, 1, &ping);
			kw_resp_command(&wanted, 1, &ping);
			kw_output_raw(&output, kw_slice(big, sizeof big - (size_t)i));
			kw_buffer_append(&wanted, big, sizeof big - (size_t)i);
			kw_output_raw(&output, kw_slice(small, sizeof small));
			kw_buffer_append(&wanted, small, sizeof small);
		}
		assert_int_equal(output.bytes, kw_buffer_length(&wanted));
		take_all(&output, &wire, steps[s], 1 + (int)s);
		assert_int_equal(kw_buffer_length(&wire), kw_buffer_length(&wanted));
		assert_memory_equal(kw_buffer_bytes(&wire), kw_buffer_bytes(&wanted),
			kw_buffer_length(&wanted));
		kw_output_close(&output);
		kw_buffer_close(&wire);
		kw_buffer_close(&wanted);
	}
}

static void neighbouring_raw_slices_become_one_vector(void **state)
{
	char data[4096] = {0};
	struct kw_output output = {0};
	struct iovec iov[8];

	kw_output_raw(&output, kw_slice(data, 1024));
	kw_output_raw(&output, kw_slice(data + 1024, 3072));
	assert_int_equal(kw_output_gather(&output, iov, 8, SIZE_MAX), 1);
	assert_ptr_equal(iov[0].iov_base, data);
	assert_int_equal(iov[0].iov_len, 4096);
	kw_output_close(&output);
}

/* A command with a password is wiped when its last byte is written, and no earlier. */
static void a_secret_keeps_its_place_and_goes_when_it_is_written(void **state)
{
	static const size_t steps[] = {1, 7, 1 << 20};
	struct kw_slice ping = kw_slice_text("PING");
	struct kw_slice auth[] = {kw_slice_text("AUTH"), kw_slice_text("hunter2")};

	for (size_t s = 0; s < sizeof steps / sizeof *steps; s++) {
		struct kw_output output = {0};
		struct kw_buffer wire = {0}, wanted = {0};

		for (int i = 0; i < 3; i++) {
			kw_output_command(&output, 1, &ping);
			kw_output_secret(&output, 2, auth);
			kw_resp_command(&wanted, 1, &ping);
			kw_resp_command(&wanted, 2, auth);
		}
		assert_non_null(output.secrets);
		take_all(&output, &wire, steps[s], 1 + (int)s);
		assert_null(output.secrets);
		assert_int_equal(kw_buffer_length(&wire), kw_buffer_length(&wanted));
		assert_memory_equal(kw_buffer_bytes(&wire), kw_buffer_bytes(&wanted),
			kw_buffer_length(&wanted));
		/* It was never in the buffer that the others share. */
		assert_null(memmem(output.encoded.data, output.encoded.capacity, "hunter2", 7));
		kw_output_secret(&output, 2, auth);
		kw_output_close(&output);      /* given up: wiped, too */
		kw_secret_close_buffer(&wire); /* the next round would find them */
		kw_secret_close_buffer(&wanted);
	}
}

static void pending_replies_come_out_in_order_while_the_queue_grows(void **state)
{
	struct kw_pending_queue ring = {0};
	uintptr_t in = 0, out = 0;

	for (int round = 0; round < 1000; round++) {
		for (int i = 0; i < 1 + round % 7; i++)
			kw_pending_push(&ring, (struct kw_pending){.arg = (void *)in++});
		for (int i = 0; i < round % 5; i++)
			assert_int_equal((uintptr_t)kw_pending_pop(&ring).arg, out++);
	}
	while (ring.count > 0)
		assert_int_equal((uintptr_t)kw_pending_pop(&ring).arg, out++);
	assert_int_equal(in, out);
	kw_pending_close(&ring);
}

static void addresses_of_every_form_are_understood(void **state)
{
	struct kw_redis_address address;

	assert_int_equal(kw_redis_address_parse("unix:///run/r.sock", &address, NULL), 0);
	assert_int_equal(address.scheme, KW_REDIS_UNIX);
	assert_string_equal(address.path, "/run/r.sock");
	assert_int_equal(kw_redis_address_parse("tcp://db.example:6379", &address, NULL), 0);
	assert_int_equal(address.scheme, KW_REDIS_TCP);
	assert_string_equal(address.host, "db.example");
	assert_string_equal(address.port, "6379");
	assert_int_equal(kw_redis_address_parse("redis://db.example:6379", &address, NULL), 0);
	assert_int_equal(address.scheme, KW_REDIS_TCP);
	assert_int_equal(kw_redis_address_parse("rediss://[fd00::9]:6380", &address, NULL), 0);
	assert_int_equal(address.scheme, KW_REDIS_TLS);
	assert_string_equal(address.host, "fd00::9");
	assert_string_equal(address.port, "6380");
	assert_int_equal(kw_redis_address_parse("tcp://[::1]:1", &address, NULL), 0);
	assert_string_equal(address.host, "::1");
	assert_string_equal(address.port, "1");
}

static void what_is_on_this_host_is_near(void **state)
{
	static const struct {
		const char *text;
		bool near;
	} known[] = {{"unix:///run/r.sock", true}, {"tcp://127.0.0.1:6379", true},
		{"rediss://127.0.0.1:6379", true}, {"rediss://10.0.0.1:6379", false},
		{"tcp://[::1]:6379", true}, {"tcp://localhost:6379", true},
		{"tcp://10.0.0.1:6379", false}, {"tcp://db.example:6379", false},
		{"tcp://127.8.9.10:6379", true}, {"tcp://[0:0::1]:6379", true},
		{"tcp://[::ffff:127.0.0.1]:6379", true}, {"tcp://[::ffff:10.0.0.1]:6379", false},
		{"tcp://127.x.example:6379", false}, {"tcp://127.0.0.1.example:6379", false},
		{"tcp://127.0.0.x:6379", false}, {"tcp://0.0.0.0:6379", false},
		{"tcp://[::]:6379", false}};

	for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
		struct kw_redis_address address;

		assert_int_equal(kw_redis_address_parse(known[i].text, &address, NULL), 0);
		assert_int_equal(kw_redis_address_near(&address), known[i].near);
	}
}

static void addresses_that_are_none_are_refused_with_all_forms_shown(void **state)
{
	static const char *const wrong[] = {"", "localhost:6379", "unix://", "unix://relative",
		"tcp://", "tcp://host", "tcp://host:", "tcp://:6379", "tcp://host:0",
		"tcp://host:65536", "tcp://host:63x", "tcp://::1:6379", "tcp://[::1]",
		"tcp://[::1]6379", "tcp://host:999999999999", "rdma://host:1", "rediss://host",
		"rediss:/host:1", "redisss://host:1"};
	char path[200] = "unix:///";

	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		struct kw_redis_address address;
		struct kw_error error;

		assert_int_equal(kw_redis_address_parse(wrong[i], &address, &error), KW_E_CONFIG);
		assert_non_null(strstr(error.text, "unix:///path"));
		assert_non_null(strstr(error.text, "tcp://host:port"));
		assert_non_null(strstr(error.text, "rediss://host:port"));
	}
	memset(path + 8, 'p', sizeof path - 9);
	assert_int_equal(
		kw_redis_address_parse(path, &(struct kw_redis_address){0}, NULL), KW_E_CONFIG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_on_this_host_is_near),
		cmocka_unit_test(a_command_is_encoded_as_an_array_of_bulk_strings),
		cmocka_unit_test(lengths_of_many_digits_are_written_whole),
		cmocka_unit_test(commands_and_raw_slices_keep_their_order_under_partial_writes),
		cmocka_unit_test(a_secret_keeps_its_place_and_goes_when_it_is_written),
		cmocka_unit_test(neighbouring_raw_slices_become_one_vector),
		cmocka_unit_test(pending_replies_come_out_in_order_while_the_queue_grows),
		cmocka_unit_test(addresses_of_every_form_are_understood),
		cmocka_unit_test(addresses_that_are_none_are_refused_with_all_forms_shown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
