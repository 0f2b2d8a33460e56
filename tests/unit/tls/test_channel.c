/* Bytes of an open channel, in and out, and its end. */
#include "pair.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* How often the text stands in the heap, where the buffers are. */
static int count_in_heap(const char *text, size_t length)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	const char *from = NULL, *to = NULL, *at;
	char line[512];
	int found = 0;

	assert_non_null(maps);
	while (fgets(line, sizeof line, maps))
		if (strstr(line, "[heap]"))
			sscanf(line, "%p-%p", (void **)&from, (void **)&to);
	fclose(maps);
	for (at = from; at && (at = memmem(at, (size_t)(to - at), text, length)); at++)
		found++;
	return found;
}

static void both_ends_shake_hands_and_exchange_bytes(void **state)
{
	struct pair pair = {0};
	char heard[6] = "";

	pair_open(&pair);
	pair_say(&pair, pair.client, "hello", 5);
	pair_hear(&pair, pair.server, heard, 5);
	assert_string_equal(heard, "hello");
	pair_say(&pair, pair.server, "there", 5);
	pair_hear(&pair, pair.client, heard, 5);
	assert_string_equal(heard, "there");
	assert_non_null(strstr(kw_tls_channel_cipher(pair.client), "TLSv1.3"));
	pair_close(&pair);
}

static void bytes_that_no_poll_shows_are_pending(void **state)
{
	struct pair pair = {0};
	char sent[1000], heard[1000];
	size_t got;

	memset(sent, 'x', sizeof sent);
	pair_open(&pair);
	pair_say(&pair, pair.server, sent, sizeof sent);
	while (pair_relay(&pair))
		;
	assert_int_equal(kw_tls_channel_read(pair.client, heard, 10, &got, NULL), KW_TLS_MORE);
	assert_int_equal(got, 10);
	assert_true(kw_tls_channel_pending(pair.client));
	assert_int_equal(
		kw_tls_channel_read(pair.client, heard, sizeof heard, &got, NULL), KW_TLS_DONE);
	assert_int_equal(got, 990);
	assert_false(kw_tls_channel_pending(pair.client));
	assert_int_equal(
		kw_tls_channel_read(pair.client, heard, sizeof heard, &got, NULL), KW_TLS_AGAIN);
	pair_close(&pair);
}

/* Its rest shows in a poll. Who asks whether the peer is alive must not take it for a yes. */
static void a_part_of_a_record_is_not_pending(void **state)
{
	struct pair pair = {0};
	char sent[1000], heard[1000];
	size_t got;

	memset(sent, 'x', sizeof sent);
	pair_open(&pair);
	while (pair_relay(&pair))
		;
	assert_int_equal(
		kw_tls_channel_read(pair.client, heard, sizeof heard, &got, NULL), KW_TLS_AGAIN);
	pair_say(&pair, pair.server, sent, sizeof sent);
	pair.piece = 500;
	pair_relay(&pair);
	assert_int_equal(
		kw_tls_channel_read(pair.client, heard, sizeof heard, &got, NULL), KW_TLS_AGAIN);
	assert_false(kw_tls_channel_pending(pair.client));
	while (pair_relay(&pair))
		;
	assert_int_equal(kw_tls_channel_read(pair.client, heard, 10, &got, NULL), KW_TLS_MORE);
	assert_true(kw_tls_channel_pending(pair.client));
	pair_close(&pair);
}

static void what_was_read_stays_in_no_buffer(void **state)
{
	struct kw_tls_options options = client_options(&client);
	struct pair pair = {0};
	char word[] = "a masterauth of 24 bytes", heard[64];
	const size_t length = sizeof word - 1;
	size_t got;

	options.wipe = true;
	pair_open_sockets(&pair);
	pair_open_client(&pair, options, "db.example", NULL);
	pair_open_server(&pair, server_options(&server, true));
	pair_shake(&pair);
	pair_say(&pair, pair.server, word, length);
	while (pair_relay(&pair))
		;
	assert_int_equal(
		kw_tls_channel_read(pair.client, heard, sizeof heard, &got, NULL), KW_TLS_DONE);
	assert_memory_equal(heard, word, length);
	assert_int_equal(count_in_heap(word, length), 0);
	pair_close(&pair);
	assert_int_equal(count_in_heap(word, length), 0);
}

static void one_read_fills_its_room_from_many_records(void **state)
{
	struct pair pair = {0};
	char *sent = malloc(60000), *heard = malloc(60000);
	size_t got;

	for (int i = 0; i < 60000; i++)
		sent[i] = (char)(i * 7);
	pair_open(&pair);
	pair_say(&pair, pair.server, sent, 60000);
	while (pair_relay(&pair))
		;
	assert_int_equal(kw_tls_channel_read(pair.client, heard, 60000, &got, NULL), KW_TLS_MORE);
	assert_int_equal(got, 60000);
	assert_memory_equal(sent, heard, 60000);
	pair_close(&pair);
	free(sent);
	free(heard);
}

/* The peer reads nothing until the socket is full; what is written again lies elsewhere. */
static void a_write_that_must_wait_goes_on_from_other_memory(void **state)
{
	struct pair pair = {0};
	char *first = malloc(KW_TLS_RECORD_BYTES), *again = malloc(KW_TLS_RECORD_BYTES);
	char *heard = malloc(KW_TLS_RECORD_BYTES);
	enum kw_tls_result result = KW_TLS_MORE;
	size_t put;
	int records = 0;

	memset(first, 'a', KW_TLS_RECORD_BYTES);
	pair_open(&pair);
	while (result == KW_TLS_MORE && records < 10000) {
		result = kw_tls_channel_write(pair.client, first, KW_TLS_RECORD_BYTES, &put, NULL);
		records += result == KW_TLS_MORE;
	}
	assert_int_equal(result, KW_TLS_AGAIN);
	assert_int_equal(put, 0);
	assert_int_equal(kw_tls_channel_write_wants(pair.client), KW_TLS_WANTS_WRITE);
	memset(again, 'b', KW_TLS_RECORD_BYTES);
	for (int turn = 0; result == KW_TLS_AGAIN && turn < TURNS_MAX; turn++) {
		pair_relay(&pair);
		result = kw_tls_channel_write(pair.client, again, KW_TLS_RECORD_BYTES, &put, NULL);
	}
	assert_int_equal(put, KW_TLS_RECORD_BYTES);
	/* It was encrypted when it was given for the first time. */
	for (int i = 0; i <= records; i++) {
		pair_hear(&pair, pair.server, heard, KW_TLS_RECORD_BYTES);
		assert_memory_equal(heard, first, KW_TLS_RECORD_BYTES);
	}
	pair_close(&pair);
	free(first);
	free(again);
	free(heard);
}

/* Else those of its record could be sent, and be told as not sent. */
static void a_write_that_goes_on_takes_what_it_began_with(void **state)
{
	enum kw_tls_result result = KW_TLS_MORE;
	struct pair pair = {0};
	char bytes[5000] = "";
	size_t put;

	pair_open(&pair);
	for (int i = 0; result == KW_TLS_MORE && i < TURNS_MAX; i++)
		result = kw_tls_channel_write(pair.client, bytes, 100, &put, NULL);
	assert_int_equal(result, KW_TLS_AGAIN);
	while (pair_relay(&pair))
		;
	result = kw_tls_channel_write(pair.client, bytes, sizeof bytes, &put, NULL);
	assert_int_equal(result, KW_TLS_MORE);
	assert_int_equal(put, 100);
	pair_close(&pair);
}

static void an_end_comes_after_the_last_bytes(void **state)
{
	for (int farewell = 0; farewell < 2; farewell++) {
		struct pair pair = {0};
		char heard[64];
		size_t got, put;

		pair_open(&pair);
		pair_say(&pair, pair.server, "last", 4);
		if (farewell)
			kw_tls_channel_farewell(pair.server);
		while (pair_relay(&pair))
			;
		close(pair.fds[1]);
		pair.fds[1] = -1;
		assert_int_equal(kw_tls_channel_read(pair.client, heard, sizeof heard, &got, NULL),
			KW_TLS_MORE);
		assert_int_equal(got, 4);
		assert_true(kw_tls_channel_pending(pair.client));
		assert_int_equal(kw_tls_channel_read(pair.client, heard, sizeof heard, &got, NULL),
			KW_TLS_END);
		assert_int_equal(kw_tls_channel_state(pair.client), KW_TLS_ENDED);
		assert_int_equal(
			kw_tls_channel_write(pair.client, "x", 1, &put, &pair.client_error),
			KW_TLS_FAIL);
		pair_close(&pair);
	}
}

static void a_reset_is_a_failure(void **state)
{
	struct pair pair = {0};
	char heard[64];
	size_t got;

	pair_open(&pair);
	/* A unix socket that is closed with bytes unread resets its peer. */
	pair_say(&pair, pair.client, "unread", 6);
	close(pair.fds[1]);
	pair.fds[1] = -1;
	while (kw_tls_channel_read(pair.client, heard, sizeof heard, &got, &pair.client_error) ==
		KW_TLS_MORE)
		;
	assert_int_equal(kw_tls_channel_state(pair.client), KW_TLS_FAILED);
	expect_words(&pair.client_error, KW_E_IO, strerror(ECONNRESET));
	pair_close(&pair);
}

static void bytes_that_were_changed_on_the_way_are_a_failure(void **state)
{
	struct pair pair = {0};
	char heard[64];
	size_t got;

	pair_open(&pair);
	while (pair_relay(&pair))
		;
	pair_say(&pair, pair.server, "balance=1", 9);
	got = (size_t)recv(pair.fds[2], heard, sizeof heard, 0);
	heard[got - 1] ^= 1;
	assert_int_equal(write(pair.fds[1], heard, got), got);
	while (kw_tls_channel_read(pair.client, heard, sizeof heard, &got, &pair.client_error) ==
		KW_TLS_AGAIN)
		;
	assert_int_equal(got, 0);
	assert_int_equal(kw_tls_channel_state(pair.client), KW_TLS_FAILED);
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_ends_shake_hands_and_exchange_bytes),
		cmocka_unit_test(bytes_that_no_poll_shows_are_pending),
		cmocka_unit_test(a_part_of_a_record_is_not_pending),
		cmocka_unit_test(what_was_read_stays_in_no_buffer),
		cmocka_unit_test(one_read_fills_its_room_from_many_records),
		cmocka_unit_test(a_write_that_must_wait_goes_on_from_other_memory),
		cmocka_unit_test(a_write_that_goes_on_takes_what_it_began_with),
		cmocka_unit_test(an_end_comes_after_the_last_bytes),
		cmocka_unit_test(a_reset_is_a_failure),
		cmocka_unit_test(bytes_that_were_changed_on_the_way_are_a_failure),
	};

	return cmocka_run_group_tests_name(
		"tls channel", tests, certificates_make, certificates_free);
}
