#include "pair.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

const struct kw_tls_terms pair_client_terms = {
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

struct certificate ca, stranger, server, client, expired, unborn, elsewhere;

int certificates_make(void **state)
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

int certificates_free(void **state)
{
	struct certificate *all[] = {
		&ca, &stranger, &server, &client, &expired, &unborn, &elsewhere};

	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		certificate_free(all[i]);
	return 0;
}

struct kw_tls_pem pem_of(const char *file, const char *text)
{
	return (struct kw_tls_pem){file, text ? kw_slice_text(text) : kw_slice(NULL, 0)};
}

struct kw_tls_options client_options(const struct certificate *shown)
{
	return (struct kw_tls_options){
		.role = KW_TLS_CLIENT,
		.ca = pem_of("ca.pem", ca.pem),
		.cert = pem_of("c.pem", shown ? shown->pem : NULL),
		.key = pem_of("c.key", shown ? shown->key_pem : NULL),
		.verify = true,
		.terms = &pair_client_terms,
	};
}

struct kw_tls_options server_options(const struct certificate *shown, bool demand)
{
	return (struct kw_tls_options){
		.role = KW_TLS_SERVER,
		.ca = pem_of("ca.pem", ca.pem),
		.cert = pem_of("s.pem", shown->pem),
		.key = pem_of("s.key", shown->key_pem),
		.verify = demand,
		.terms = &server_terms,
	};
}

struct kw_tls_context *context_of(struct kw_tls_options options)
{
	struct kw_error error;
	struct kw_tls_context *context = kw_tls_context_new(&options, &error);

	if (!context)
		fail_msg("%s", error.text);
	return context;
}

void pair_open_sockets(struct pair *pair)
{
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair->fds), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair->fds + 2), 0);
	pair->client_result = pair->server_result = KW_TLS_AGAIN;
	if (pair->piece == 0)
		pair->piece = 65536;
}

void pair_open_client(struct pair *pair, struct kw_tls_options options, const char *host,
	const struct kw_tls_session *resume)
{
	struct kw_tls_context *context = context_of(options);

	pair->client = kw_tls_channel_new(context, pair->fds[0], host, resume, NULL);
	assert_non_null(pair->client);
	kw_tls_context_unref(context); /* the channel has its own reference */
}

void pair_open_server(struct pair *pair, struct kw_tls_options options)
{
	struct kw_tls_context *context = context_of(options);

	pair->server = kw_tls_channel_new(context, pair->fds[3], NULL, NULL, NULL);
	assert_non_null(pair->server);
	kw_tls_context_unref(context);
}

void pair_close(struct pair *pair)
{
	kw_tls_channel_free(pair->client);
	kw_tls_channel_free(pair->server);
	for (int i = 0; i < 4; i++)
		if (pair->fds[i] >= 0)
			close(pair->fds[i]);
	*pair = (struct pair){0};
}

bool pair_pass(int from, int to, size_t piece)
{
	char bytes[65536];
	ssize_t length = recv(from, bytes, piece, MSG_PEEK);

	if (length <= 0)
		return false;
	length = send(to, bytes, (size_t)length, MSG_NOSIGNAL);
	return length > 0 && recv(from, bytes, (size_t)length, 0) == length;
}

bool pair_relay(struct pair *pair)
{
	bool out = pair_pass(pair->fds[1], pair->fds[2], pair->piece);

	return pair_pass(pair->fds[2], pair->fds[1], pair->piece) || out;
}

void pair_shake(struct pair *pair)
{
	for (int turn = 0; turn < TURNS_MAX; turn++) {
		if (pair->client_result == KW_TLS_AGAIN)
			pair->client_result =
				kw_tls_channel_shake(pair->client, &pair->client_error);
		if (pair->server_result == KW_TLS_AGAIN)
			pair->server_result =
				kw_tls_channel_shake(pair->server, &pair->server_error);
		if (!pair_relay(pair) && pair->client_result != KW_TLS_AGAIN &&
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

void pair_expect_open(const struct pair *pair)
{
	if (pair->client_result != KW_TLS_DONE)
		fail_msg("client: %s", pair->client_error.text);
	if (pair->server_result != KW_TLS_DONE)
		fail_msg("server: %s", pair->server_error.text);
}

void pair_open(struct pair *pair)
{
	pair_open_sockets(pair);
	pair_open_client(pair, client_options(&client), "db.example", NULL);
	pair_open_server(pair, server_options(&server, true));
	pair_shake(pair);
	pair_expect_open(pair);
}

void pair_say(struct pair *pair, struct kw_tls_channel *from, const void *bytes, size_t length)
{
	size_t put, sent = 0;

	while (sent < length) {
		enum kw_tls_result result = kw_tls_channel_write(
			from, (const char *)bytes + sent, length - sent, &put, NULL);

		assert_true(result == KW_TLS_MORE || result == KW_TLS_AGAIN);
		sent += put;
		if (result == KW_TLS_AGAIN && !pair_relay(pair))
			break;
	}
	assert_int_equal(sent, length);
}

void pair_hear(struct pair *pair, struct kw_tls_channel *at, void *bytes, size_t length)
{
	size_t heard = 0, got;

	for (int turn = 0; heard < length && turn < TURNS_MAX; turn++) {
		enum kw_tls_result result =
			kw_tls_channel_read(at, (char *)bytes + heard, length - heard, &got, NULL);

		assert_true(result != KW_TLS_FAIL && result != KW_TLS_END);
		heard += got;
		pair_relay(pair);
	}
	assert_int_equal(heard, length);
}

void expect_words(const struct kw_error *error, enum kw_code code, const char *words)
{
	if (!strstr(error->text, words))
		fail_msg("\"%s\" has not \"%s\"", error->text, words);
	assert_int_equal(error->code, code);
}
