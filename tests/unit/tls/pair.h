/* Two ends of a channel over sockets, with a relay between them that the tests drive. */
#ifndef KW_TEST_TLS_PAIR_H
#define KW_TEST_TLS_PAIR_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "certificates.h"
#include "tls/channel.h"

#define TURNS_MAX 200000

extern const struct kw_tls_terms pair_client_terms;

/* The certificates of all tests: making keys takes time. Setup and teardown of the group. */
extern struct certificate ca, stranger, server, client, expired, unborn, elsewhere;
int certificates_make(void **state);
int certificates_free(void **state);

struct kw_tls_pem pem_of(const char *file, const char *text);
struct kw_tls_options client_options(const struct certificate *shown);
struct kw_tls_options server_options(const struct certificate *shown, bool demand);
struct kw_tls_context *context_of(struct kw_tls_options options);

/* client ── fds[0] [1] ── relay ── [2] fds[3] ── server */
struct pair {
	int fds[4];
	size_t piece; /* what the relay passes on in one step */
	struct kw_tls_channel *client, *server;
	enum kw_tls_result client_result, server_result;
	struct kw_error client_error, server_error;
};

void pair_open_sockets(struct pair *pair);
void pair_open_client(struct pair *pair, struct kw_tls_options options, const char *host,
	const struct kw_tls_session *resume);
void pair_open_server(struct pair *pair, struct kw_tls_options options);
void pair_close(struct pair *pair);

/* One piece in one direction; and in both. */
bool pair_pass(int from, int to, size_t piece);
bool pair_relay(struct pair *pair);

void pair_shake(struct pair *pair);
void pair_expect_open(const struct pair *pair);

/* Both ends with certificates, and open. */
void pair_open(struct pair *pair);

void pair_say(struct pair *pair, struct kw_tls_channel *from, const void *bytes, size_t length);
/* Read until so many bytes have come. */
void pair_hear(struct pair *pair, struct kw_tls_channel *at, void *bytes, size_t length);

void expect_words(const struct kw_error *error, enum kw_code code, const char *words);

#endif
