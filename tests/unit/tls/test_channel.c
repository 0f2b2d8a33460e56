/* Two ends of a channel over sockets, with a relay between them that the tests drive. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "certificates.h"
#include "tls/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define TURNS_MAX 200000

static const struct kw_tls_terms client_terms = {
	.keys = "redis.tls",
	.peer = "the server",
	.plain = "use redis://",
	.demand = "tls-auth-clients no",
	.trust = "tls-ca-cert-file",
};
static const struct kw_tls_terms server_terms = {
	.keys = "tls",
	.peer = "the agent",
	.plain = "give it tcp+tls://",
	.demand = "nothing",
	.trust = "tls.ca",
};

/* The certificates of all tests: making keys takes time. */
static struct certificate ca, stranger, server, client, expired, unborn, elsewhere;

static int make_all(void **state)
{
	ca = certificate_make(&(struct certificate_plan){.cn = "a CA", .is_ca = true});
	stranger = certificate_make(&(struct certificate_plan){.cn = "another", .is_ca = true});
	server = certificate_make(&(struct certificate_plan){
		.cn = "server", .san = "DNS:db.example,IP:127.0.0.1", .issuer = &ca});
	client = certificate_make(&(struct certificate_plan){
		.cn = "web-1", .san = "DNS:web-1.example,URI:keywake:web-1", .issuer = &ca});
	expired = certificate_make(&(struct certificate_plan){.cn = "old",
		.san = "DNS:db.example",
		.from_days = -20,
		.to_days = -10,
		.issuer = &ca});
	unborn = certificate_make(&(struct certificate_plan){.cn = "new",
		.san = "DNS:db.example",
		.from_days = 10,
		.to_days = 20,
		.issuer = &ca});
	elsewhere = certificate_make(&(struct certificate_plan){
		.cn = "x", .san = "DNS:other.example,IP:10.0.0.9", .issuer = &ca});
	return 0;
}

static int free_all(void **state)
{
	struct certificate *all[] = {
		&ca, &stranger, &server, &client, &expired, &unborn, &elsewhere};

	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		certificate_free(all[i]);
	return 0;
}

static struct kw_tls_pem pem(const char *file, const char *text)
{
	return (struct kw_tls_pem){file, text ? kw_slice_text(text) : kw_slice(NULL, 0)};
}

static struct kw_tls_options client_options(const struct certificate *shown)
{
	return (struct kw_tls_options){
		.role = KW_TLS_CLIENT,
		.ca = pem("ca.pem", ca.pem),
		.cert = pem("c.pem", shown ? shown->pem : NULL),
		.key = pem("c.key", shown ? shown->key_pem : NULL),
		.verify = true,
		.terms = &client_terms,
	};
}

static struct kw_tls_options server_options(const struct certificate *shown, bool demand)
{
	return (struct kw_tls_options){
		.role = KW_TLS_SERVER,
		.ca = pem("ca.pem", ca.pem),
		.cert = pem("s.pem", shown->pem),
		.key = pem("s.key", shown->key_pem),
		.verify = demand,
		.terms = &server_terms,
	};
}

static struct kw_tls_context *context_of(struct kw_tls_options options)
{
	struct kw_error error;
	struct kw_tls_context *context = kw_tls_context_new(&options, &error);

	if (!context)
		fail_msg("%s", error.text);
	return context;
}

/* client ── fds[0] [1] ── relay ── [2] fds[3] ── server */
struct pair {
	int fds[4];
	size_t piece; /* what the relay passes on in one step */
	struct kw_tls_channel *client, *server;
	enum kw_tls_result client_result, server_result;
	struct kw_error client_error, server_error;
};

static void open_sockets(struct pair *pair)
{
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair->fds), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair->fds + 2), 0);
	pair->client_result = pair->server_result = KW_TLS_AGAIN;
	if (pair->piece == 0)
		pair->piece = 65536;
}

static void open_client(struct pair *pair, struct kw_tls_options options, const char *host,
	const struct kw_tls_session *resume)
{
	struct kw_tls_context *context = context_of(options);

	pair->client = kw_tls_channel_new(context, pair->fds[0], host, resume, NULL);
	assert_non_null(pair->client);
	kw_tls_context_unref(context); /* the channel has its own reference */
}

static void open_server(struct pair *pair, struct kw_tls_options options)
{
	struct kw_tls_context *context = context_of(options);

	pair->server = kw_tls_channel_new(context, pair->fds[3], NULL, NULL, NULL);
	assert_non_null(pair->server);
	kw_tls_context_unref(context);
}

static void close_pair(struct pair *pair)
{
	kw_tls_channel_free(pair->client);
	kw_tls_channel_free(pair->server);
	for (int i = 0; i < 4; i++)
		if (pair->fds[i] >= 0)
			close(pair->fds[i]);
	*pair = (struct pair){0};
}

/* One piece in one direction. */
static bool pass(int from, int to, size_t piece)
{
	char bytes[65536];
	ssize_t length = recv(from, bytes, piece, MSG_PEEK);

	if (length <= 0)
		return false;
	length = send(to, bytes, (size_t)length, MSG_NOSIGNAL);
	return length > 0 && recv(from, bytes, (size_t)length, 0) == length;
}

static bool relay(struct pair *pair)
{
	bool out = pass(pair->fds[1], pair->fds[2], pair->piece);

	return pass(pair->fds[2], pair->fds[1], pair->piece) || out;
}

static void shake(struct pair *pair)
{
	for (int turn = 0; turn < TURNS_MAX; turn++) {
		if (pair->client_result == KW_TLS_AGAIN)
			pair->client_result =
				kw_tls_channel_shake(pair->client, &pair->client_error);
		if (pair->server_result == KW_TLS_AGAIN)
			pair->server_result =
				kw_tls_channel_shake(pair->server, &pair->server_error);
		if (!relay(pair) && pair->client_result != KW_TLS_AGAIN &&
			pair->server_result != KW_TLS_AGAIN)
			return;
		/* One end failed, and the other waits for it. */
		if (pair->server_result == KW_TLS_FAIL && turn > 100 &&
			pair->client_result != KW_TLS_AGAIN)
			return;
		if (pair->client_result == KW_TLS_FAIL && turn > 100)
			return;
	}
	fail_msg("the handshake does not end");
}

static void expect_open(const struct pair *pair)
{
	if (pair->client_result != KW_TLS_DONE)
		fail_msg("client: %s", pair->client_error.text);
	if (pair->server_result != KW_TLS_DONE)
		fail_msg("server: %s", pair->server_error.text);
}

static void open_pair(struct pair *pair)
{
	open_sockets(pair);
	open_client(pair, client_options(&client), "db.example", NULL);
	open_server(pair, server_options(&server, true));
	shake(pair);
	expect_open(pair);
}

static void say(struct pair *pair, struct kw_tls_channel *from, const void *bytes, size_t length)
{
	size_t put, sent = 0;

	while (sent < length) {
		enum kw_tls_result result = kw_tls_channel_write(
			from, (const char *)bytes + sent, length - sent, &put, NULL);

		assert_true(result == KW_TLS_MORE || result == KW_TLS_AGAIN);
		sent += put;
		if (result == KW_TLS_AGAIN && !relay(pair))
			break;
	}
	assert_int_equal(sent, length);
}

/* Read until so many bytes have come. */
static void hear(struct pair *pair, struct kw_tls_channel *at, void *bytes, size_t length)
{
	size_t heard = 0, got;

	for (int turn = 0; heard < length && turn < TURNS_MAX; turn++) {
		enum kw_tls_result result =
			kw_tls_channel_read(at, (char *)bytes + heard, length - heard, &got, NULL);

		assert_true(result != KW_TLS_FAIL && result != KW_TLS_END);
		heard += got;
		relay(pair);
	}
	assert_int_equal(heard, length);
}

static void expect_words(const struct kw_error *error, enum kw_code code, const char *words)
{
	if (!strstr(error->text, words))
		fail_msg("\"%s\" has not \"%s\"", error->text, words);
	assert_int_equal(error->code, code);
}

/* ---- the tests ---- */

static void both_ends_shake_hands_and_exchange_bytes(void **state)
{
	struct pair pair = {0};
	char heard[6] = "";

	open_pair(&pair);
	say(&pair, pair.client, "hello", 5);
	hear(&pair, pair.server, heard, 5);
	assert_string_equal(heard, "hello");
	say(&pair, pair.server, "there", 5);
	hear(&pair, pair.client, heard, 5);
	assert_string_equal(heard, "there");
	assert_non_null(strstr(kw_tls_channel_cipher(pair.client), "TLSv1.3"));
	close_pair(&pair);
}

static void a_handshake_in_single_bytes_succeeds(void **state)
{
	struct pair pair = {.piece = 1};
	char heard[4] = "";

	open_pair(&pair);
	say(&pair, pair.client, "abc", 3);
	hear(&pair, pair.server, heard, 3);
	assert_string_equal(heard, "abc");
	close_pair(&pair);
}

static void a_certificate_that_does_not_fit_is_told(void **state)
{
	struct certificate foreign = certificate_make(&(struct certificate_plan){
		.cn = "x", .san = "DNS:db.example", .issuer = &stranger});
	const struct {
		const struct certificate *shown;
		const char *host, *words;
	} cases[] = {
		{&foreign, "db.example", "not signed by a CA of redis.tls.ca (ca.pem)"},
		{&stranger, "db.example", "not signed by a CA of redis.tls.ca (ca.pem)"},
		{&expired, "db.example", "its certificate expired on 20"},
		{&unborn, "db.example", "is not valid before 20"},
		{&elsewhere, "db.example",
			"for other.example, 10.0.0.9, not db.example: set redis.tls.server_name"},
		{&elsewhere, "127.0.0.1", "for other.example, 10.0.0.9, not 127.0.0.1"},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct pair pair = {0};

		open_sockets(&pair);
		open_client(&pair, client_options(NULL), cases[i].host, NULL);
		open_server(&pair, server_options(cases[i].shown, false));
		shake(&pair);
		assert_int_equal(pair.client_result, KW_TLS_FAIL);
		assert_int_equal(kw_tls_channel_state(pair.client), KW_TLS_FAILED);
		expect_words(&pair.client_error, KW_E_REFUSED, cases[i].words);
		close_pair(&pair);
	}
	certificate_free(&foreign);
}

static void a_name_is_looked_for_where_it_was_dialled(void **state)
{
	const struct {
		const char *host, *server_name;
	} good[] = {{"db.example", NULL}, {"127.0.0.1", NULL}, {"10.1.1.1", "db.example"}};

	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		struct kw_tls_options options = client_options(NULL);
		struct pair pair = {0};

		options.server_name = good[i].server_name;
		open_sockets(&pair);
		open_client(&pair, options, good[i].host, NULL);
		open_server(&pair, server_options(&server, false));
		shake(&pair);
		expect_open(&pair);
		close_pair(&pair);
	}
}

static void without_a_name_nothing_is_verified_by_mistake(void **state)
{
	struct kw_tls_context *context = context_of(client_options(NULL));
	struct kw_error error;

	assert_null(kw_tls_channel_new(context, 0, "", NULL, &error));
	expect_words(&error, KW_E_ARGUMENT, "redis.tls.server_name");
	kw_tls_context_unref(context);
}

static void verification_can_be_turned_off(void **state)
{
	struct kw_tls_options options = client_options(NULL);
	struct pair pair = {0};

	options.verify = false;
	open_sockets(&pair);
	open_client(&pair, options, "wrong.example", NULL);
	open_server(&pair, server_options(&stranger, false));
	shake(&pair);
	expect_open(&pair);
	close_pair(&pair);
}

/* In TLS 1.3 our handshake is finished before the server looks at our certificate. */
static void a_client_that_is_refused_learns_it_by_a_read(void **state)
{
	struct certificate foreign =
		certificate_make(&(struct certificate_plan){.cn = "web-9", .issuer = &stranger});
	const struct {
		const struct certificate *shown;
		const char *client, *server;
	} cases[] = {
		{NULL, "demands a client certificate: set redis.tls.cert and redis.tls.key",
			"the agent showed no certificate"},
		{&foreign, "does not accept the CA of our certificate (redis.tls.cert)",
			"not signed by a CA of tls.ca"},
		{&expired, "our certificate (redis.tls.cert) expired", "expired on 20"},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct pair pair = {0};
		enum kw_tls_result result;
		char heard[16];
		size_t got;

		open_sockets(&pair);
		open_client(&pair, client_options(cases[i].shown), "db.example", NULL);
		open_server(&pair, server_options(&server, true));
		shake(&pair);
		assert_int_equal(pair.client_result, KW_TLS_DONE);
		assert_int_equal(pair.server_result, KW_TLS_FAIL);
		expect_words(&pair.server_error, KW_E_REFUSED, cases[i].server);
		result = kw_tls_channel_read(
			pair.client, heard, sizeof heard, &got, &pair.client_error);
		assert_int_equal(result, KW_TLS_FAIL);
		expect_words(&pair.client_error, KW_E_REFUSED, cases[i].client);
		/* It stays so. */
		result = kw_tls_channel_read(
			pair.client, heard, sizeof heard, &got, &pair.client_error);
		assert_int_equal(result, KW_TLS_FAIL);
		close_pair(&pair);
	}
	certificate_free(&foreign);
}

static void a_revoked_certificate_is_refused(void **state)
{
	char *list = certificate_revoke(&ca, &client);
	struct kw_tls_options options = server_options(&server, true);
	struct pair pair = {0};

	options.crl = pem("list.pem", list);
	open_sockets(&pair);
	open_client(&pair, client_options(&client), "db.example", NULL);
	open_server(&pair, options);
	shake(&pair);
	assert_int_equal(pair.server_result, KW_TLS_FAIL);
	expect_words(&pair.server_error, KW_E_REFUSED, "revoked (tls.crl)");
	close_pair(&pair);
	free(list);
}

static void plain_bytes_to_an_end_of_tls_are_told(void **state)
{
	static const char answer[] = "-ERR Protocol error: unbalanced quotes in request\r\n";
	static const char command[] = "*1\r\n$4\r\nPING\r\n";
	struct pair pair = {0};

	open_sockets(&pair);
	open_client(&pair, client_options(NULL), "db.example", NULL);
	open_server(&pair, server_options(&server, false));
	assert_int_equal(kw_tls_channel_shake(pair.client, &pair.client_error), KW_TLS_AGAIN);
	assert_true(write(pair.fds[1], answer, sizeof answer - 1) > 0);
	assert_int_equal(kw_tls_channel_shake(pair.client, &pair.client_error), KW_TLS_FAIL);
	expect_words(&pair.client_error, KW_E_IO, "the server speaks no TLS: use redis://");
	assert_true(write(pair.fds[2], command, sizeof command - 1) > 0);
	assert_int_equal(kw_tls_channel_shake(pair.server, &pair.server_error), KW_TLS_FAIL);
	expect_words(&pair.server_error, KW_E_IO, "the agent speaks no TLS: give it tcp+tls://");
	close_pair(&pair);
}

static void a_peer_that_says_nothing_is_told_from_a_slow_one(void **state)
{
	struct pair pair = {0};

	open_sockets(&pair);
	open_client(&pair, client_options(NULL), "db.example", NULL);
	open_server(&pair, server_options(&server, false));
	assert_int_equal(kw_tls_channel_shake(pair.client, NULL), KW_TLS_AGAIN);
	assert_int_equal(kw_tls_channel_read_wants(pair.client), KW_TLS_WANTS_READ);
	assert_int_equal(kw_tls_channel_late(pair.client, &pair.client_error), KW_E_TIMEOUT);
	expect_words(&pair.client_error, KW_E_TIMEOUT, "no answer to the TLS greeting");
	relay(&pair);
	kw_tls_channel_shake(pair.server, NULL);
	pair.piece = 7;
	relay(&pair);
	assert_int_equal(kw_tls_channel_shake(pair.client, NULL), KW_TLS_AGAIN);
	assert_int_equal(kw_tls_channel_late(pair.client, &pair.client_error), KW_E_TIMEOUT);
	expect_words(&pair.client_error, KW_E_TIMEOUT, "did not finish it in time");
	close_pair(&pair);
}

static void bytes_that_no_poll_shows_are_pending(void **state)
{
	struct pair pair = {0};
	char sent[1000], heard[1000];
	size_t got;

	memset(sent, 'x', sizeof sent);
	open_pair(&pair);
	say(&pair, pair.server, sent, sizeof sent);
	while (relay(&pair))
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
	close_pair(&pair);
}

/* Its rest shows in a poll. Who asks whether the peer is alive must not take it for a yes. */
static void a_part_of_a_record_is_not_pending(void **state)
{
	struct pair pair = {0};
	char sent[1000], heard[1000];
	size_t got;

	memset(sent, 'x', sizeof sent);
	open_pair(&pair);
	while (relay(&pair))
		;
	assert_int_equal(
		kw_tls_channel_read(pair.client, heard, sizeof heard, &got, NULL), KW_TLS_AGAIN);
	say(&pair, pair.server, sent, sizeof sent);
	pair.piece = 500;
	relay(&pair);
	assert_int_equal(
		kw_tls_channel_read(pair.client, heard, sizeof heard, &got, NULL), KW_TLS_AGAIN);
	assert_false(kw_tls_channel_pending(pair.client));
	while (relay(&pair))
		;
	assert_int_equal(kw_tls_channel_read(pair.client, heard, 10, &got, NULL), KW_TLS_MORE);
	assert_true(kw_tls_channel_pending(pair.client));
	close_pair(&pair);
}

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

static void what_was_read_stays_in_no_buffer(void **state)
{
	struct kw_tls_options options = client_options(&client);
	struct pair pair = {0};
	char word[] = "a masterauth of 24 bytes", heard[64];
	const size_t length = sizeof word - 1;
	size_t got;

	options.wipe = true;
	open_sockets(&pair);
	open_client(&pair, options, "db.example", NULL);
	open_server(&pair, server_options(&server, true));
	shake(&pair);
	say(&pair, pair.server, word, length);
	while (relay(&pair))
		;
	assert_int_equal(
		kw_tls_channel_read(pair.client, heard, sizeof heard, &got, NULL), KW_TLS_DONE);
	assert_memory_equal(heard, word, length);
	assert_int_equal(count_in_heap(word, length), 0);
	close_pair(&pair);
	assert_int_equal(count_in_heap(word, length), 0);
}

static void one_read_fills_its_room_from_many_records(void **state)
{
	struct pair pair = {0};
	char *sent = malloc(60000), *heard = malloc(60000);
	size_t got;

	for (int i = 0; i < 60000; i++)
		sent[i] = (char)(i * 7);
	open_pair(&pair);
	say(&pair, pair.server, sent, 60000);
	while (relay(&pair))
		;
	assert_int_equal(kw_tls_channel_read(pair.client, heard, 60000, &got, NULL), KW_TLS_MORE);
	assert_int_equal(got, 60000);
	assert_memory_equal(sent, heard, 60000);
	close_pair(&pair);
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
	open_pair(&pair);
	while (result == KW_TLS_MORE && records < 10000) {
		result = kw_tls_channel_write(pair.client, first, KW_TLS_RECORD_BYTES, &put, NULL);
		records += result == KW_TLS_MORE;
	}
	assert_int_equal(result, KW_TLS_AGAIN);
	assert_int_equal(put, 0);
	assert_int_equal(kw_tls_channel_write_wants(pair.client), KW_TLS_WANTS_WRITE);
	memset(again, 'b', KW_TLS_RECORD_BYTES);
	for (int turn = 0; result == KW_TLS_AGAIN && turn < TURNS_MAX; turn++) {
		relay(&pair);
		result = kw_tls_channel_write(pair.client, again, KW_TLS_RECORD_BYTES, &put, NULL);
	}
	assert_int_equal(put, KW_TLS_RECORD_BYTES);
	/* It was encrypted when it was given for the first time. */
	for (int i = 0; i <= records; i++) {
		hear(&pair, pair.server, heard, KW_TLS_RECORD_BYTES);
		assert_memory_equal(heard, first, KW_TLS_RECORD_BYTES);
	}
	close_pair(&pair);
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

	open_pair(&pair);
	for (int i = 0; result == KW_TLS_MORE && i < TURNS_MAX; i++)
		result = kw_tls_channel_write(pair.client, bytes, 100, &put, NULL);
	assert_int_equal(result, KW_TLS_AGAIN);
	while (relay(&pair))
		;
	result = kw_tls_channel_write(pair.client, bytes, sizeof bytes, &put, NULL);
	assert_int_equal(result, KW_TLS_MORE);
	assert_int_equal(put, 100);
	close_pair(&pair);
}

static void an_end_comes_after_the_last_bytes(void **state)
{
	for (int farewell = 0; farewell < 2; farewell++) {
		struct pair pair = {0};
		char heard[64];
		size_t got, put;

		open_pair(&pair);
		say(&pair, pair.server, "last", 4);
		if (farewell)
			kw_tls_channel_farewell(pair.server);
		while (relay(&pair))
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
		close_pair(&pair);
	}
}

static void a_reset_is_a_failure(void **state)
{
	struct pair pair = {0};
	char heard[64];
	size_t got;

	open_pair(&pair);
	/* A unix socket that is closed with bytes unread resets its peer. */
	say(&pair, pair.client, "unread", 6);
	close(pair.fds[1]);
	pair.fds[1] = -1;
	while (kw_tls_channel_read(pair.client, heard, sizeof heard, &got, &pair.client_error) ==
		KW_TLS_MORE)
		;
	assert_int_equal(kw_tls_channel_state(pair.client), KW_TLS_FAILED);
	expect_words(&pair.client_error, KW_E_IO, strerror(ECONNRESET));
	close_pair(&pair);
}

static void an_end_in_the_handshake_is_told(void **state)
{
	struct pair pair = {0};

	open_sockets(&pair);
	open_client(&pair, client_options(NULL), "db.example", NULL);
	assert_int_equal(kw_tls_channel_shake(pair.client, NULL), KW_TLS_AGAIN);
	pass(pair.fds[1], pair.fds[2], 65536);
	close(pair.fds[1]);
	pair.fds[1] = -1;
	assert_int_equal(kw_tls_channel_shake(pair.client, &pair.client_error), KW_TLS_FAIL);
	expect_words(&pair.client_error, KW_E_IO, "closed the connection in the TLS handshake");
	close_pair(&pair);
}

static void bytes_that_were_changed_on_the_way_are_a_failure(void **state)
{
	struct pair pair = {0};
	char heard[64];
	size_t got;

	open_pair(&pair);
	while (relay(&pair))
		;
	say(&pair, pair.server, "balance=1", 9);
	got = (size_t)recv(pair.fds[2], heard, sizeof heard, 0);
	heard[got - 1] ^= 1;
	assert_int_equal(write(pair.fds[1], heard, got), got);
	while (kw_tls_channel_read(pair.client, heard, sizeof heard, &got, &pair.client_error) ==
		KW_TLS_AGAIN)
		;
	assert_int_equal(got, 0);
	assert_int_equal(kw_tls_channel_state(pair.client), KW_TLS_FAILED);
	close_pair(&pair);
}

static void a_session_spares_the_next_connection_the_certificates(void **state)
{
	struct kw_tls_context *dialling = context_of(client_options(&client));
	struct kw_tls_context *listening = context_of(server_options(&server, true));
	struct kw_tls_session *session = NULL;

	for (int round = 0; round < 2; round++) {
		struct pair pair = {0};
		char heard[8], id[KW_TLS_ID_MAX + 1];

		open_sockets(&pair);
		pair.client =
			kw_tls_channel_new(dialling, pair.fds[0], "db.example", session, NULL);
		pair.server = kw_tls_channel_new(listening, pair.fds[3], NULL, NULL, NULL);
		shake(&pair);
		expect_open(&pair);
		say(&pair, pair.server, "tickets", 7);
		hear(&pair, pair.client, heard, 7);
		assert_int_equal(kw_tls_channel_resumed(pair.client), round > 0);
		assert_int_equal(kw_tls_channel_resumed(pair.server), round > 0);
		/* Whose it is stays known. */
		assert_int_equal(
			kw_tls_channel_peer_id(pair.server, KW_TLS_IDENTITY_AUTO, id, NULL), 0);
		assert_string_equal(id, "web-1");
		kw_tls_session_free(session);
		session = kw_tls_channel_take_session(pair.client);
		assert_non_null(session);
		close_pair(&pair);
	}
	kw_tls_session_free(session);
	kw_tls_context_unref(dialling);
	kw_tls_context_unref(listening);
}

/* Let the context believe in another day, so that a certificate can run out without a wait. */
static void set_day(struct kw_tls_context *context, long days)
{
	X509_VERIFY_PARAM *param = SSL_CTX_get0_param(context->ssl);

	if (days == 0)
		X509_VERIFY_PARAM_clear_flags(param, X509_V_FLAG_USE_CHECK_TIME);
	else
		X509_VERIFY_PARAM_set_time(param, time(NULL) + days * 86400);
}

static void a_session_ends_with_the_certificate(void **state)
{
	struct certificate old_ca = certificate_make(&(struct certificate_plan){
		.cn = "old", .is_ca = true, .from_days = -30, .to_days = 30});
	struct certificate shown = certificate_make(&(struct certificate_plan){
		.cn = "web-1", .from_days = -20, .to_days = -10, .issuer = &old_ca});
	struct kw_tls_options options = server_options(&server, true);
	struct kw_tls_context *dialling = context_of(client_options(&shown)), *listening;
	struct kw_tls_session *session = NULL;

	options.ca = pem("old.pem", old_ca.pem);
	listening = context_of(options);
	for (int round = 0; round < 2; round++) {
		struct pair pair = {0};
		char heard[8];

		set_day(listening, round == 0 ? -15 : 0);
		open_sockets(&pair);
		pair.client =
			kw_tls_channel_new(dialling, pair.fds[0], "db.example", session, NULL);
		pair.server = kw_tls_channel_new(listening, pair.fds[3], NULL, NULL, NULL);
		shake(&pair);
		if (round == 0) {
			expect_open(&pair);
			say(&pair, pair.server, "tickets", 7);
			hear(&pair, pair.client, heard, 7);
			session = kw_tls_channel_take_session(pair.client);
			assert_non_null(session);
		} else {
			assert_int_equal(pair.server_result, KW_TLS_FAIL);
			expect_words(&pair.server_error, KW_E_REFUSED, "expired");
		}
		close_pair(&pair);
	}
	kw_tls_session_free(session);
	kw_tls_context_unref(dialling);
	kw_tls_context_unref(listening);
	certificate_free(&shown);
	certificate_free(&old_ca);
}

/* Those between a certificate and its CA are in no ticket: so it is judged with them each time. */
static void a_chain_of_certificates_is_shown_each_time(void **state)
{
	struct certificate between = certificate_make(
		&(struct certificate_plan){.cn = "between", .is_ca = true, .issuer = &ca});
	struct certificate shown =
		certificate_make(&(struct certificate_plan){.cn = "web-1", .issuer = &between});
	struct kw_tls_options options = client_options(&shown);
	struct kw_tls_context *listening = context_of(server_options(&server, true)), *dialling;
	struct kw_tls_session *session = NULL;
	char *both = malloc(strlen(shown.pem) + strlen(between.pem) + 1);

	strcat(strcpy(both, shown.pem), between.pem);
	options.cert = pem("c.pem", both);
	dialling = context_of(options);
	for (int round = 0; round < 2; round++) {
		struct pair pair = {0};
		struct kw_tls_peer *peer;
		char heard[8];

		open_sockets(&pair);
		pair.client =
			kw_tls_channel_new(dialling, pair.fds[0], "db.example", session, NULL);
		pair.server = kw_tls_channel_new(listening, pair.fds[3], NULL, NULL, NULL);
		shake(&pair);
		expect_open(&pair);
		say(&pair, pair.server, "tickets", 7);
		hear(&pair, pair.client, heard, 7);
		peer = kw_tls_channel_peer(pair.server);
		assert_int_equal(kw_tls_peer_judge(peer, listening, NULL), 0);
		kw_tls_peer_free(peer);
		kw_tls_session_free(session);
		session = kw_tls_channel_take_session(pair.client);
		close_pair(&pair);
	}
	kw_tls_session_free(session);
	kw_tls_context_unref(dialling);
	kw_tls_context_unref(listening);
	certificate_free(&shown);
	certificate_free(&between);
	free(both);
}

static void connections_go_on_when_their_context_is_replaced(void **state)
{
	struct kw_tls_current current = {0};
	struct pair pair = {0};
	char heard[3] = "";

	kw_tls_current_put(&current, context_of(server_options(&server, true)));
	open_sockets(&pair);
	open_client(&pair, client_options(&client), "db.example", NULL);
	pair.server = kw_tls_channel_new(current.context, pair.fds[3], NULL, NULL, NULL);
	shake(&pair);
	kw_tls_current_put(&current, context_of(server_options(&expired, true)));
	say(&pair, pair.client, "on", 2);
	hear(&pair, pair.server, heard, 2);
	assert_string_equal(heard, "on");
	kw_tls_current_put(&current, NULL);
	close_pair(&pair);
}

static void a_certificate_names_its_owner(void **state)
{
	static const struct {
		const char *cn, *san;
		enum kw_tls_identity identity;
		const char *id, *refused;
	} cases[] = {
		{"cn", "URI:keywake:web-1,DNS:a.example", KW_TLS_IDENTITY_AUTO, "web-1", NULL},
		{"cn", "DNS:a.example,URI:keywake:web-1", KW_TLS_IDENTITY_SAN, "web-1", NULL},
		{"cn", "DNS:a.example,DNS:b.example", KW_TLS_IDENTITY_AUTO, "a.example", NULL},
		{"cn", "URI:https://x,DNS:b.example", KW_TLS_IDENTITY_SAN, "b.example", NULL},
		{"cn", "DNS:a.example", KW_TLS_IDENTITY_CN, "cn", NULL},
		{"cn", NULL, KW_TLS_IDENTITY_AUTO, "cn", NULL},
		{"cn", NULL, KW_TLS_IDENTITY_SAN, NULL, "names nobody"},
		{"two words", NULL, KW_TLS_IDENTITY_CN, NULL, "other characters"},
		{"cn", "URI:keywake:a/b", KW_TLS_IDENTITY_AUTO, NULL, "other characters"},
		{"cn", "DNS:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
			KW_TLS_IDENTITY_AUTO, NULL, "has 64 bytes"},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct certificate shown = certificate_make(&(struct certificate_plan){
			.cn = cases[i].cn, .san = cases[i].san, .issuer = &ca});
		struct pair pair = {0};
		struct kw_error error = {0};
		char id[KW_TLS_ID_MAX + 1];

		open_sockets(&pair);
		open_client(&pair, client_options(&shown), "db.example", NULL);
		open_server(&pair, server_options(&server, true));
		shake(&pair);
		expect_open(&pair);
		kw_tls_channel_peer_id(pair.server, cases[i].identity, id, &error);
		assert_string_equal(id, cases[i].id ? cases[i].id : "");
		if (cases[i].refused)
			expect_words(&error, KW_E_REFUSED, cases[i].refused);
		close_pair(&pair);
		certificate_free(&shown);
	}
}

/* Cut at the zero it would be the name of another. */
static void a_common_name_with_a_zero_in_it_names_nobody(void **state)
{
	static const char cn[] = "web-1\0.attacker.example";
	struct certificate shown = certificate_make(
		&(struct certificate_plan){.cn = cn, .cn_length = sizeof cn - 1, .issuer = &ca});
	struct pair pair = {0};
	struct kw_error error = {0};
	char id[KW_TLS_ID_MAX + 1];

	open_sockets(&pair);
	open_client(&pair, client_options(&shown), "db.example", NULL);
	open_server(&pair, server_options(&server, true));
	shake(&pair);
	expect_open(&pair);
	assert_int_equal(kw_tls_channel_peer_id(pair.server, KW_TLS_IDENTITY_AUTO, id, &error),
		KW_E_REFUSED);
	expect_words(&error, KW_E_REFUSED, "the CN of its certificate has other characters");
	assert_string_equal(id, "");
	close_pair(&pair);
	certificate_free(&shown);
}

static void one_who_shows_no_certificate_is_nobody(void **state)
{
	struct pair pair = {0};
	struct kw_error error;
	char id[KW_TLS_ID_MAX + 1];

	open_sockets(&pair);
	open_client(&pair, client_options(NULL), "db.example", NULL);
	open_server(&pair, server_options(&server, false));
	shake(&pair);
	expect_open(&pair);
	assert_int_equal(kw_tls_channel_peer_id(pair.server, KW_TLS_IDENTITY_AUTO, id, &error),
		KW_E_REFUSED);
	expect_words(&error, KW_E_REFUSED, "the agent showed no certificate");
	close_pair(&pair);
}

static void files_that_do_not_fit_are_refused(void **state)
{
	static const char garbage[] = "not PEM at all\n";
	static const char broken[] =
		"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
	const struct {
		const char *ca, *cert, *key, *crl, *words;
	} cases[] = {
		{garbage, NULL, NULL, NULL, "redis.tls.ca: the file ca.pem holds no certificate"},
		{broken, NULL, NULL, NULL, "redis.tls.ca: the file ca.pem is not a PEM file"},
		{ca.key_pem, NULL, NULL, NULL, "redis.tls.ca: the file ca.pem holds no cert"},
		{ca.pem, client.pem, NULL, NULL, "only one is given"},
		{ca.pem, NULL, client.key_pem, NULL, "only one is given"},
		{ca.pem, client.pem, server.key_pem, NULL, "redis.tls.key: the file c.key is not"},
		{ca.pem, garbage, client.key_pem, NULL, "redis.tls.cert: the file c.pem holds no"},
		{ca.pem, client.pem, garbage, NULL, "redis.tls.key: the file c.key holds no"},
		{ca.pem, NULL, NULL, garbage, "redis.tls.crl: the file list.pem is not"},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct kw_tls_options options = {
			.role = KW_TLS_CLIENT,
			.ca = pem("ca.pem", cases[i].ca),
			.cert = pem("c.pem", cases[i].cert),
			.key = pem("c.key", cases[i].key),
			.crl = pem("list.pem", cases[i].crl),
			.terms = &client_terms,
		};
		struct kw_error error = {0};

		assert_null(kw_tls_context_new(&options, &error));
		expect_words(&error, KW_E_CONFIG, cases[i].words);
	}
}

static void a_listener_needs_a_certificate(void **state)
{
	struct kw_tls_options options = server_options(&server, false);
	struct kw_error error;

	options.cert = options.key = pem("", NULL);
	assert_null(kw_tls_context_new(&options, &error));
	expect_words(&error, KW_E_CONFIG, "a listener of TLS must show a certificate");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_ends_shake_hands_and_exchange_bytes),
		cmocka_unit_test(a_handshake_in_single_bytes_succeeds),
		cmocka_unit_test(a_certificate_that_does_not_fit_is_told),
		cmocka_unit_test(a_name_is_looked_for_where_it_was_dialled),
		cmocka_unit_test(without_a_name_nothing_is_verified_by_mistake),
		cmocka_unit_test(verification_can_be_turned_off),
		cmocka_unit_test(a_client_that_is_refused_learns_it_by_a_read),
		cmocka_unit_test(a_revoked_certificate_is_refused),
		cmocka_unit_test(plain_bytes_to_an_end_of_tls_are_told),
		cmocka_unit_test(a_peer_that_says_nothing_is_told_from_a_slow_one),
		cmocka_unit_test(bytes_that_no_poll_shows_are_pending),
		cmocka_unit_test(a_part_of_a_record_is_not_pending),
		cmocka_unit_test(what_was_read_stays_in_no_buffer),
		cmocka_unit_test(one_read_fills_its_room_from_many_records),
		cmocka_unit_test(a_write_that_must_wait_goes_on_from_other_memory),
		cmocka_unit_test(a_write_that_goes_on_takes_what_it_began_with),
		cmocka_unit_test(an_end_comes_after_the_last_bytes),
		cmocka_unit_test(a_reset_is_a_failure),
		cmocka_unit_test(an_end_in_the_handshake_is_told),
		cmocka_unit_test(bytes_that_were_changed_on_the_way_are_a_failure),
		cmocka_unit_test(a_session_spares_the_next_connection_the_certificates),
		cmocka_unit_test(a_session_ends_with_the_certificate),
		cmocka_unit_test(a_chain_of_certificates_is_shown_each_time),
		cmocka_unit_test(connections_go_on_when_their_context_is_replaced),
		cmocka_unit_test(a_certificate_names_its_owner),
		cmocka_unit_test(a_common_name_with_a_zero_in_it_names_nobody),
		cmocka_unit_test(one_who_shows_no_certificate_is_nobody),
		cmocka_unit_test(files_that_do_not_fit_are_refused),
		cmocka_unit_test(a_listener_needs_a_certificate),
	};

	return cmocka_run_group_tests(tests, make_all, free_all);
}
