/*
 * A peer that keeps one end busy: records without a byte for its caller cost one turn little. What
 * a call has left stands in the socket, where a poll shows it.
 */
#include "pair.h"

#include "tls/internal.h"

#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define UPDATES 200

static int waiting_in(int fd)
{
	int bytes = 0;

	assert_int_equal(ioctl(fd, FIONREAD, &bytes), 0);
	return bytes;
}

/* New keys for what this end sends; no byte for the caller at the other end. */
static void renew_keys(struct pair *pair, SSL *ssl)
{
	assert_int_equal(SSL_key_update(ssl, SSL_KEY_UPDATE_NOT_REQUESTED), 1);
	assert_int_equal(SSL_do_handshake(ssl), 1);
	while (pair_relay(pair))
		;
}

static void expect_turns(struct pair *pair, struct kw_tls_channel *at, int fd)
{
	int before = waiting_in(fd);
	char heard[16];
	size_t got;

	for (int turns = 0; turns < UPDATES; turns++) {
		enum kw_tls_result result =
			kw_tls_channel_read(at, heard, sizeof heard, &got, NULL);

		if (result == KW_TLS_DONE) {
			assert_int_equal(got, 5);
			assert_memory_equal(heard, "hello", got);
			assert_true(turns > 0);
			return;
		}
		assert_int_equal(result, KW_TLS_AGAIN);
		assert_int_equal(kw_tls_channel_read_wants(at), KW_TLS_WANTS_READ);
		assert_true(waiting_in(fd) > 0);
		assert_true(waiting_in(fd) < before);
		before = waiting_in(fd);
	}
	fail_msg("the bytes behind the new keys do not come");
}

static void new_keys_without_end_take_one_turn_little(void **state)
{
	struct pair pair = {0};

	pair_open(&pair);
	for (int i = 0; i < UPDATES; i++)
		renew_keys(&pair, pair.client->ssl);
	pair_say(&pair, pair.client, "hello", 5);
	while (pair_relay(&pair))
		;
	expect_turns(&pair, pair.server, pair.fds[3]);
	pair_close(&pair);
}

/* One byte between them is no reason to go on for longer. */
static void bytes_between_new_keys_take_one_turn_little(void **state)
{
	char heard[UPDATES];
	struct pair pair = {0};
	size_t got;

	pair_open(&pair);
	for (int i = 0; i < UPDATES; i++) {
		renew_keys(&pair, pair.client->ssl);
		if (i % 10 == 0)
			pair_say(&pair, pair.client, "x", 1);
	}
	while (pair_relay(&pair))
		;
	assert_int_equal(
		kw_tls_channel_read(pair.server, heard, sizeof heard, &got, NULL), KW_TLS_DONE);
	assert_in_range(got, 1, UPDATES / 10 / 2);
	pair_close(&pair);
}

/* The greeting of a client, each byte in a record of its own. */
static void a_handshake_in_crumbs_takes_many_steps(void **state)
{
	struct pair pair = {0};
	uint8_t greeting[2048], crumbs[6 * sizeof greeting];
	ssize_t length, count = 0;
	int before;

	pair_open_sockets(&pair);
	pair_open_client(&pair, client_options(&client), "db.example", NULL);
	pair_open_server(&pair, server_options(&server, true));
	assert_int_equal(kw_tls_channel_shake(pair.client, NULL), KW_TLS_AGAIN);
	length = recv(pair.fds[1], greeting, sizeof greeting, 0);
	assert_true(length > 100);
	for (ssize_t i = 5; i < length; i++, count += 6)
		memcpy(crumbs + count, (uint8_t[]){22, 3, 1, 0, 1, greeting[i]}, 6);
	assert_int_equal(write(pair.fds[2], crumbs, (size_t)count), count);
	before = waiting_in(pair.fds[3]);
	assert_int_equal(kw_tls_channel_shake(pair.server, NULL), KW_TLS_AGAIN);
	assert_in_range(waiting_in(pair.fds[3]), before / 2, before - 1);
	assert_int_equal(kw_tls_channel_read_wants(pair.server), KW_TLS_WANTS_READ);
	pair_shake(&pair);
	pair_expect_open(&pair);
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(new_keys_without_end_take_one_turn_little),
		cmocka_unit_test(bytes_between_new_keys_take_one_turn_little),
		cmocka_unit_test(a_handshake_in_crumbs_takes_many_steps),
	};

	return cmocka_run_group_tests_name(
		"tls turns", tests, certificates_make, certificates_free);
}
