/* One connection: SSL on a socket, as a machine with few states. */
#include "tls/channel.h"

#include "base/buffer.h"
#include "tls/internal.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* Where OpenSSL puts the alerts of the peer among its reasons (SSL_AD_REASON_OFFSET). */
#define ALERT_REASONS 1000

#define RECORD_READS 2 /* of the socket, for a record: its header, then the rest */

static bool holds(const void *owner, int state)
{
	const struct kw_tls_channel *channel = owner;

	return channel->ssl && (state == KW_TLS_FAILED) == (channel->why.code != KW_OK);
}

static const struct kw_sm_state states[] = {
	[KW_TLS_CONNECTED] = {"connected", KW_SM_TO(KW_TLS_SHAKING), KW_SM_INITIAL},
	[KW_TLS_SHAKING] = {"shaking", KW_SM_TO(KW_TLS_OPEN) | KW_SM_TO(KW_TLS_FAILED)},
	[KW_TLS_OPEN] = {"open", KW_SM_TO(KW_TLS_ENDED) | KW_SM_TO(KW_TLS_FAILED)},
	[KW_TLS_ENDED] = {"ended", 0, KW_SM_FINAL},
	[KW_TLS_FAILED] = {"failed", 0, KW_SM_FINAL | KW_SM_FAILURE},
};

static const struct kw_sm_conf machine = {"tls", states, KW_TLS_FAILED + 1, holds};

static bool is_number(const char *host)
{
	struct in6_addr number;

	return inet_pton(AF_INET, host, &number) == 1 || inet_pton(AF_INET6, host, &number) == 1;
}

/* The certificate must have this name. */
static int expect_name(struct kw_tls_channel *channel, struct kw_error *error)
{
	X509_VERIFY_PARAM *param = SSL_get0_param(channel->ssl);
	const char *host = channel->host;

	if (*host && !is_number(host))
		SSL_set_tlsext_host_name(channel->ssl, host);
	if (!channel->context->verify)
		return KW_OK;
	if (!*host)
		return kw_error_set(error, KW_E_ARGUMENT,
			"no name to look for in the certificate: set %s.server_name",
			channel->context->terms->keys);
	if (is_number(host) ? X509_VERIFY_PARAM_set1_ip_asc(param, host)
			    : SSL_set1_host(channel->ssl, host))
		return KW_OK;
	ERR_clear_error();
	return kw_error_set(
		error, KW_E_ARGUMENT, "\"%s\" is no name that a certificate can have", host);
}

static int dial(struct kw_tls_channel *channel, const char *host,
	const struct kw_tls_session *resume, struct kw_error *error)
{
	const char *name = channel->context->server_name;

	snprintf(channel->host, sizeof channel->host, "%s", *name ? name : host);
	if (resume && kw_tls_session_in_date((const SSL_SESSION *)resume))
		SSL_set_session(channel->ssl, (SSL_SESSION *)resume);
	SSL_set_connect_state(channel->ssl);
	return expect_name(channel, error);
}

/*
 * What OpenSSL reads of the socket. Records without a byte for the caller make it go on by itself
 * for as long as they come: new keys in TLS 1.3, greetings in 1.2, a handshake in records of one
 * byte. A peer could keep our thread in one call. So one call reads the socket so many times in
 * vain, and then says that it waits: the poll tells what is left.
 */
static long on_bio(BIO *bio, int operation, const char *bytes, size_t length, int number,
	long argument, int result, size_t *processed)
{
	struct kw_tls_channel *channel = (void *)BIO_get_callback_arg(bio);

	if (operation != BIO_CB_READ)
		return result;
	if (channel->vain++ < channel->context->vain_max)
		return 1;
	BIO_clear_retry_flags(bio);
	BIO_set_retry_read(bio);
	return -1;
}

static void watch_reads(struct kw_tls_channel *channel)
{
	BIO *bio = SSL_get_rbio(channel->ssl);

	BIO_set_callback_arg(bio, (char *)channel);
	BIO_set_callback_ex(bio, on_bio);
}

struct kw_tls_channel *kw_tls_channel_new(struct kw_tls_context *context, int fd, const char *host,
	const struct kw_tls_session *resume, struct kw_error *error)
{
	struct kw_tls_channel *channel = kw_zalloc(sizeof *channel);

	assert(fd >= 0 && (context->role == KW_TLS_CLIENT) == (host != NULL));
	channel->context = kw_tls_context_ref(context);
	channel->ssl = SSL_new(context->ssl);
	if (!channel->ssl || !SSL_set_fd(channel->ssl, fd)) {
		ERR_clear_error();
		kw_error_set(error, KW_E_NOMEM, "no memory for a connection of TLS");
		kw_tls_channel_free(channel);
		return NULL;
	}
	SSL_set_app_data(channel->ssl, channel);
	watch_reads(channel);
	if (context->role == KW_TLS_SERVER) {
		SSL_set_accept_state(channel->ssl);
	} else if (dial(channel, host, resume, error)) {
		kw_tls_channel_free(channel);
		return NULL;
	}
	kw_sm_init(&channel->sm, &machine, channel, KW_TLS_CONNECTED);
	return channel;
}

void kw_tls_channel_free(struct kw_tls_channel *channel)
{
	if (!channel)
		return;
	SSL_SESSION_free(channel->session);
	/* Else SSL_free takes a connection without a farewell for broken, and spoils its session.
	 */
	if (channel->ssl && channel->sm.state != KW_TLS_FAILED)
		SSL_set_shutdown(channel->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
	SSL_free(channel->ssl);
	kw_tls_context_unref(channel->context);
	free(channel);
}

/* What a call that did not succeed waits for; WANTS_NOTHING: it failed. */
static enum kw_tls_wants wants_of(int ssl_error)
{
	if (ssl_error == SSL_ERROR_WANT_READ)
		return KW_TLS_WANTS_READ;
	return ssl_error == SSL_ERROR_WANT_WRITE ? KW_TLS_WANTS_WRITE : KW_TLS_WANTS_NOTHING;
}

static void fill_facts(const struct kw_tls_channel *channel, struct kw_tls_facts *facts)
{
	*facts = (struct kw_tls_facts){
		.ca = channel->context->ca,
		.host = channel->host,
		.names = channel->names,
		.date = channel->date,
		.detail = "",
		.shown = channel->context->shown,
	};
}

static enum kw_tls_trouble trouble_of(
	const struct kw_tls_channel *channel, unsigned long last, struct kw_tls_facts *facts)
{
	int reason = ERR_GET_REASON(last);
	const char *detail = ERR_reason_error_string(last);

	facts->detail = detail ? detail : "";
	if (ERR_GET_LIB(last) != ERR_LIB_SSL)
		return KW_TLS_OTHER;
	if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED) {
		facts->detail = X509_verify_cert_error_string(channel->verify_error);
		return kw_tls_trouble_of_verify(channel->verify_error);
	}
	if (reason > ALERT_REASONS)
		return kw_tls_trouble_of_alert(reason - ALERT_REASONS, facts->shown);
	return kw_tls_trouble_of_reason(reason);
}

/* A call failed: *error says why, from OpenSSL's queue or errno. */
static int explain(const struct kw_tls_channel *channel, const char *what, int ssl_error,
	int errnum, struct kw_error *error)
{
	unsigned long last = ERR_peek_error();
	struct kw_tls_facts facts;
	enum kw_tls_trouble trouble;

	fill_facts(channel, &facts);
	if (ssl_error == SSL_ERROR_SYSCALL && !last && errnum)
		return kw_error_errno(error, errnum, "%s", what);
	trouble = last ? trouble_of(channel, last, &facts) : KW_TLS_CLOSED;
	ERR_clear_error();
	return kw_tls_say(trouble, channel->context->terms, &facts, error);
}

/* Did the peer's bytes end, with or without its farewell? */
static bool is_end(int ssl_error, int errnum)
{
	unsigned long last = ERR_peek_error();

	if (ssl_error == SSL_ERROR_ZERO_RETURN)
		return true;
	if (ssl_error == SSL_ERROR_SYSCALL)
		return !last && errnum == 0;
	return ssl_error == SSL_ERROR_SSL && ERR_GET_LIB(last) == ERR_LIB_SSL &&
	       ERR_GET_REASON(last) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
}

static void fail(struct kw_tls_channel *channel, const char *what, int ssl_error, int errnum)
{
	explain(channel, what, ssl_error, errnum, &channel->why);
	kw_sm_move(&channel->sm, KW_TLS_FAILED, channel->why.text);
}

static enum kw_tls_result tell_failure(const struct kw_tls_channel *channel, struct kw_error *error)
{
	if (error)
		*error = channel->why;
	return KW_TLS_FAIL;
}

enum kw_tls_result kw_tls_channel_shake(struct kw_tls_channel *channel, struct kw_error *error)
{
	int result, ssl_error, errnum;

	if (channel->sm.state == KW_TLS_CONNECTED)
		kw_sm_move(&channel->sm, KW_TLS_SHAKING, "");
	assert(channel->sm.state == KW_TLS_SHAKING);
	ERR_clear_error();
	errno = 0;
	channel->vain = 0;
	result = SSL_do_handshake(channel->ssl);
	errnum = errno;
	if (result == 1) {
		channel->read_wants = channel->write_wants = KW_TLS_WANTS_NOTHING;
		kw_sm_move(&channel->sm, KW_TLS_OPEN, SSL_get_version(channel->ssl));
		return KW_TLS_DONE;
	}
	ssl_error = SSL_get_error(channel->ssl, result);
	channel->read_wants = wants_of(ssl_error);
	if (channel->read_wants != KW_TLS_WANTS_NOTHING)
		return KW_TLS_AGAIN;
	fail(channel, "TLS handshake", ssl_error, errnum);
	return tell_failure(channel, error);
}

/* A read found nothing (more). The state follows. */
static void read_stopped(struct kw_tls_channel *channel, int ssl_error, int errnum)
{
	channel->read_wants = wants_of(ssl_error);
	if (channel->read_wants != KW_TLS_WANTS_NOTHING)
		return;
	if (is_end(ssl_error, errnum))
		kw_sm_move(&channel->sm, KW_TLS_ENDED, "");
	else
		fail(channel, "read", ssl_error, errnum);
	ERR_clear_error();
}

enum kw_tls_result kw_tls_channel_read(
	struct kw_tls_channel *channel, void *to, size_t room, size_t *got, struct kw_error *error)
{
	size_t length;

	*got = 0;
	channel->vain = 0;
	/* A record holds 16 KiB at most, and a caller wants its room filled. */
	while (channel->sm.state == KW_TLS_OPEN && *got < room) {
		int errnum, result;

		ERR_clear_error();
		errno = 0;
		result = SSL_read_ex(channel->ssl, (char *)to + *got, room - *got, &length);
		errnum = errno;
		if (result != 1) {
			read_stopped(channel, SSL_get_error(channel->ssl, result), errnum);
			break;
		}
		channel->read_wants = KW_TLS_WANTS_NOTHING;
		channel->vain -= channel->vain < RECORD_READS ? channel->vain : RECORD_READS;
		*got += length;
	}
	if (*got > 0)
		return channel->sm.state == KW_TLS_OPEN && *got < room ? KW_TLS_DONE : KW_TLS_MORE;
	switch ((enum kw_tls_state)channel->sm.state) {
	case KW_TLS_OPEN:
		return KW_TLS_AGAIN;
	case KW_TLS_ENDED:
		return KW_TLS_END;
	default:
		assert(channel->sm.state == KW_TLS_FAILED);
		return tell_failure(channel, error);
	}
}

/*
 * The kernel makes a record of what is written to the socket. OpenSSL would do the same, but keeps
 * the address of bytes that must wait, and sends what stands there later: even of memory that was
 * freed meanwhile (its issue 21202). Here nothing is kept.
 */
static enum kw_tls_result write_by_kernel(struct kw_tls_channel *channel, const void *from,
	size_t length, size_t *put, struct kw_error *error)
{
	ssize_t sent = send(SSL_get_fd(channel->ssl), from, length, MSG_NOSIGNAL | MSG_DONTWAIT);

	channel->write_wants = KW_TLS_WANTS_NOTHING;
	if (sent >= 0) {
		*put = (size_t)sent;
		return KW_TLS_MORE;
	}
	if (errno == EAGAIN || errno == EINTR) {
		channel->write_wants = KW_TLS_WANTS_WRITE;
		return KW_TLS_AGAIN;
	}
	kw_error_errno(error, errno, "write");
	return KW_TLS_FAIL;
}

enum kw_tls_result kw_tls_channel_write(struct kw_tls_channel *channel, const void *from,
	size_t length, size_t *put, struct kw_error *error)
{
	int result, ssl_error, errnum;

	*put = 0;
	if (channel->sm.state == KW_TLS_FAILED)
		return tell_failure(channel, error);
	if (channel->sm.state == KW_TLS_ENDED) {
		kw_error_set(error, KW_E_IO, "write: the peer has ended the connection");
		return KW_TLS_FAIL;
	}
	assert(channel->sm.state == KW_TLS_OPEN && length > 0);
	assert(length >= channel->begun);
	if (length > KW_TLS_RECORD_BYTES)
		length = KW_TLS_RECORD_BYTES;
	if (kw_tls_channel_kernel_sends(channel))
		return write_by_kernel(channel, from, length, put, error);
	/* More would be a second record. If that had to wait, too, the first would not be told. */
	if (channel->begun > 0)
		length = channel->begun;
	ERR_clear_error();
	errno = 0;
	result = SSL_write_ex(channel->ssl, from, length, put);
	errnum = errno;
	channel->write_wants = KW_TLS_WANTS_NOTHING;
	channel->begun = 0;
	if (result == 1)
		return KW_TLS_MORE;
	ssl_error = SSL_get_error(channel->ssl, result);
	channel->write_wants = wants_of(ssl_error);
	*put = 0;
	if (channel->write_wants != KW_TLS_WANTS_NOTHING) {
		channel->begun = length;
		return KW_TLS_AGAIN;
	}
	explain(channel, "write", ssl_error, errnum, error);
	return KW_TLS_FAIL;
}

struct kw_tls_context *kw_tls_channel_context(const struct kw_tls_channel *channel)
{
	return channel->context;
}

bool kw_tls_channel_pending(const struct kw_tls_channel *channel)
{
	/* The end of a connection is told by a read, too. */
	if (channel->sm.state == KW_TLS_ENDED || channel->sm.state == KW_TLS_FAILED)
		return true;
	/* A read that waits for the socket has left a part of a record at most. */
	return channel->read_wants == KW_TLS_WANTS_NOTHING && SSL_has_pending(channel->ssl);
}

enum kw_tls_wants kw_tls_channel_read_wants(const struct kw_tls_channel *channel)
{
	return channel->read_wants;
}

enum kw_tls_wants kw_tls_channel_write_wants(const struct kw_tls_channel *channel)
{
	return channel->write_wants;
}

void kw_tls_channel_farewell(struct kw_tls_channel *channel)
{
	if (channel->sm.state != KW_TLS_OPEN)
		return;
	ERR_clear_error();
	SSL_shutdown(channel->ssl);
	ERR_clear_error();
}

enum kw_tls_state kw_tls_channel_state(const struct kw_tls_channel *channel)
{
	return (enum kw_tls_state)channel->sm.state;
}

int kw_tls_channel_late(const struct kw_tls_channel *channel, struct kw_error *error)
{
	bool silent = BIO_number_read(SSL_get_rbio(channel->ssl)) == 0;
	struct kw_tls_facts facts;

	assert(channel->sm.state <= KW_TLS_SHAKING);
	fill_facts(channel, &facts);
	return kw_tls_say(
		silent ? KW_TLS_SILENT : KW_TLS_SLOW, channel->context->terms, &facts, error);
}

const char *kw_tls_channel_cipher(struct kw_tls_channel *channel)
{
	snprintf(channel->cipher, sizeof channel->cipher, "%s %s", SSL_get_version(channel->ssl),
		SSL_get_cipher_name(channel->ssl));
	return channel->cipher;
}

bool kw_tls_channel_resumed(const struct kw_tls_channel *channel)
{
	return SSL_session_reused(channel->ssl);
}

bool kw_tls_channel_kernel_sends(const struct kw_tls_channel *channel)
{
	return BIO_get_ktls_send(SSL_get_wbio(channel->ssl)) > 0;
}

int kw_tls_channel_export(struct kw_tls_channel *channel, const char *label, void *bytes,
	size_t length, struct kw_error *error)
{
	assert(channel->sm.state == KW_TLS_OPEN);
	/* Without it two sessions could have the same secret (the triple handshake). */
	if (SSL_version(channel->ssl) < TLS1_3_VERSION && SSL_get_extms_support(channel->ssl) != 1)
		return kw_error_set(error, KW_E_REFUSED,
			"%s speaks TLS 1.2 without extended master secrets: upgrade OpenSSL there",
			channel->context->terms->peer);
	if (SSL_export_keying_material(
		    channel->ssl, bytes, length, label, strlen(label), NULL, 0, 0) == 1)
		return KW_OK;
	ERR_clear_error();
	return kw_error_set(error, KW_E_NOMEM, "TLS: no keying material for the channel");
}

/* Sessions. */

int kw_tls_on_session(SSL *ssl, SSL_SESSION *session)
{
	struct kw_tls_channel *channel = SSL_get_app_data(ssl);

	SSL_SESSION_free(channel->session);
	channel->session = session;
	return 1; /* it is ours now */
}

struct kw_tls_session *kw_tls_channel_take_session(struct kw_tls_channel *channel)
{
	SSL_SESSION *session = channel->session;

	channel->session = NULL;
	return (struct kw_tls_session *)session;
}

void kw_tls_session_free(struct kw_tls_session *session)
{
	SSL_SESSION_free((SSL_SESSION *)session);
}
