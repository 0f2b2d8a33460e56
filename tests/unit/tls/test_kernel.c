/*
 * What is written while the kernel encrypts. No kernel has to: OpenSSL is told that this one does,
 * by a BIO between it and the socket. So the bytes come out as they were written.
 */
#include "pair.h"

#include "tls/internal.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#define STREAM_BYTES ((size_t)8 << 20)

static int socket_of(BIO *bio)
{
	return *(int *)BIO_get_data(bio);
}

static int put_out(BIO *bio, const char *bytes, int length)
{
	ssize_t sent = send(socket_of(bio), bytes, (size_t)length, MSG_DONTWAIT | MSG_NOSIGNAL);

	BIO_clear_retry_flags(bio);
	if (sent < 0 && errno == EAGAIN)
		BIO_set_retry_write(bio);
	return (int)sent;
}

static long control(BIO *bio, int command, long number, void *pointer)
{
	return command == BIO_CTRL_GET_KTLS_SEND || command == BIO_CTRL_FLUSH;
}

/* From now on OpenSSL takes the kernel for the one that encrypts what this end writes. */
static BIO_METHOD *let_kernel_encrypt(struct kw_tls_channel *channel, int *fd)
{
	BIO_METHOD *method =
		BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "a kernel with kTLS");
	BIO *bio;

	BIO_meth_set_write(method, put_out);
	BIO_meth_set_ctrl(method, control);
	bio = BIO_new(method);
	BIO_set_data(bio, fd);
	BIO_set_init(bio, 1);
	SSL_set0_wbio(channel->ssl, bio);
	assert_true(kw_tls_channel_kernel_sends(channel));
	return method;
}

static char byte_at(size_t place)
{
	return (char)(place % 251 + place / 65536);
}

/* What has come so far, which is the stream in its order. */
static void hear_all(int fd, size_t *heard)
{
	char bytes[4096];
	ssize_t got;

	while ((got = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT)) > 0)
		for (ssize_t i = 0; i < got; i++, (*heard)++)
			if (bytes[i] != byte_at(*heard))
				fail_msg("byte %zu is %d, not %d", *heard, bytes[i],
					byte_at(*heard));
}

/*
 * OpenSSL would keep the address of what must wait, and send whatever stands there later: bytes of
 * another peer, if it is memory of a pool (openssl issue 21202).
 */
static void what_waits_is_sent_from_where_it_lies_now(void **state)
{
	static char places[2][KW_TLS_RECORD_BYTES];
	size_t taken = 0, heard = 0, put;
	struct pair pair = {0};
	BIO_METHOD *method;
	int waits = 0;

	pair_open(&pair);
	while (pair_relay(&pair))
		;
	method = let_kernel_encrypt(pair.server, &pair.fds[3]);
	for (int turn = 0; taken < STREAM_BYTES; turn++) {
		char *now = places[turn % 2];

		memset(places[(turn + 1) % 2], 'X', KW_TLS_RECORD_BYTES);
		for (size_t i = 0; i < KW_TLS_RECORD_BYTES; i++)
			now[i] = byte_at(taken + i);
		switch (kw_tls_channel_write(pair.server, now, KW_TLS_RECORD_BYTES, &put, NULL)) {
		case KW_TLS_MORE:
			assert_true(put > 0);
			taken += put;
			break;
		case KW_TLS_AGAIN:
			assert_int_equal(
				kw_tls_channel_write_wants(pair.server), KW_TLS_WANTS_WRITE);
			waits++;
			hear_all(pair.fds[2], &heard);
			break;
		default:
			fail_msg("a write has failed");
		}
	}
	hear_all(pair.fds[2], &heard);
	assert_int_equal(heard, taken);
	assert_true(waits > 0);
	pair_close(&pair);
	BIO_meth_free(method);
}

static void a_peer_that_is_gone_is_a_failure(void **state)
{
	struct kw_error error = {0};
	struct pair pair = {0};
	BIO_METHOD *method;
	size_t put;

	pair_open(&pair);
	method = let_kernel_encrypt(pair.server, &pair.fds[3]);
	shutdown(pair.fds[3], SHUT_WR);
	assert_int_equal(kw_tls_channel_write(pair.server, "x", 1, &put, &error), KW_TLS_FAIL);
	assert_int_equal(put, 0);
	expect_words(&error, KW_E_IO, "write: Broken pipe");
	/* The reason can still be in what the peer sent. */
	assert_int_equal(kw_tls_channel_state(pair.server), KW_TLS_OPEN);
	pair_close(&pair);
	BIO_meth_free(method);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_waits_is_sent_from_where_it_lies_now),
		cmocka_unit_test(a_peer_that_is_gone_is_a_failure),
	};

	return cmocka_run_group_tests_name(
		"tls kernel", tests, certificates_make, certificates_free);
}
