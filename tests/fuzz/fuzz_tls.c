/*
 * Arbitrary bytes at either end of TLS before anybody is known: the handshake ends, with a sentence
 * that a log can bear, whatever names a certificate has in it.
 *
 * The first byte chooses the end (bit 0: we dialled) and the pieces in which the rest comes (the
 * other bits; 0: at once). What a server of TLS 1.2 sends first is plain, its certificate too.
 */
#include "fuzz.h"

#include "../unit/tls/certificates.h"
#include "tls/channel.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const struct kw_tls_terms terms = {
	.keys = "tls",
	.peer = "the peer",
	.plain = "use tcp://",
	.demand = "take tls.ca away",
	.trust = "tls.ca",
};

/* It signed itself, names strange hosts, and is what a seed shows: so its names get into a
 * sentence. */
static const char odd[] = "-----BEGIN CERTIFICATE-----\n"
			  "MIICZTCCAgqgAwIBAgIUK44vC422tsEUT3QVvmxB9EYTapwwCgYIKoZIzj0EAwIw\n"
			  "DjEMMAoGA1UEAwwDb2RkMCAXDTI2MTEyMzAzNDY1M1oYDzIxMjYxMDMwMDM0NjUz\n"
			  "WjAOMQwwCgYDVQQDDANvZGQwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAATPT8yU\n"
			  "aoiHM+/MxBXdbiuyOFwc9onY/ET815AY8T2B1n6DgZgZBm+mEnP0xf63mRC58qzJ\n"
			  "Z0n5frrPOcQiDi++o4IBQjCCAT4wHQYDVR0OBBYEFFukucWtk5+8E3JI5w0Jinf2\n"
			  "MydiMB8GA1UdIwQYMBaAFFukucWtk5+8E3JI5w0Jinf2MydiMA8GA1UdEwEB/wQF\n"
			  "MAMBAf8wgeoGA1UdEQSB4jCB34IIYQobWzMxbWKCgch4eHh4eHh4eHh4eHh4eHh4\n"
			  "eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4\n"
			  "eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4\n"
			  "eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4\n"
			  "eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eIIDfwB6hwMB\n"
			  "AgMwCgYIKoZIzj0EAwIDSQAwRgIhAJ4laMjEKjbh1YZnHjXSO7Kf4l283rEH59o7\n"
			  "zpDQDkbeAiEA5q7un8n4bBRdYPs16267ouLsnFEV8Q9/DGygWjF9jPM=\n"
			  "-----END CERTIFICATE-----\n";

static struct kw_tls_context *contexts[2];

static struct kw_tls_pem pem(const char *text)
{
	return (struct kw_tls_pem){"a file", kw_slice_text(text)};
}

static void make_contexts(void)
{
	struct certificate ca =
		certificate_make(&(struct certificate_plan){.cn = "a CA", .is_ca = true});
	struct certificate shown = certificate_make(
		&(struct certificate_plan){.cn = "proxy", .san = "DNS:db.example", .issuer = &ca});

	for (int role = 0; role < 2; role++) {
		struct kw_tls_options options = {
			.role = role == 0 ? KW_TLS_SERVER : KW_TLS_CLIENT,
			.ca = pem(role == 0 ? ca.pem : odd),
			.cert = pem(shown.pem),
			.key = pem(shown.key_pem),
			.verify = true,
			.terms = &terms,
		};

		contexts[role] = kw_tls_context_new(&options, NULL);
		must(contexts[role] != NULL);
	}
	certificate_free(&shown);
	certificate_free(&ca);
}

/* No name of a stranger's choice breaks a line or moves a cursor. */
static void check_sentence(const struct kw_error *error)
{
	size_t length = strnlen(error->text, sizeof error->text);

	must(length > 0 && length < sizeof error->text);
	for (size_t i = 0; i < length; i++)
		must((unsigned char)error->text[i] >= ' ' && error->text[i] != 0x7f);
}

/* What our end says is heard, and forgotten. */
static void hear(int fd)
{
	char bytes[4096];

	while (recv(fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
		;
}

static void read_all(struct kw_tls_channel *channel)
{
	struct kw_error error = {0};
	char bytes[512];
	size_t got;
	enum kw_tls_result result;

	do
		result = kw_tls_channel_read(channel, bytes, sizeof bytes, &got, &error);
	while (result == KW_TLS_MORE || result == KW_TLS_DONE);
	if (result == KW_TLS_FAIL)
		check_sentence(&error);
	kw_tls_channel_farewell(channel);
}

static void drive(
	struct kw_tls_channel *channel, int fd, const uint8_t *data, size_t size, size_t piece)
{
	enum kw_tls_result result = KW_TLS_AGAIN;
	struct kw_error error = {0};

	while (result == KW_TLS_AGAIN && size > 0) {
		size_t length = piece < size ? piece : size;

		result = kw_tls_channel_shake(channel, &error);
		if (result == KW_TLS_AGAIN && send(fd, data, length, MSG_NOSIGNAL) < 0)
			break;
		data += length;
		size -= length;
		hear(fd);
	}
	shutdown(fd, SHUT_WR);
	if (result == KW_TLS_AGAIN)
		result = kw_tls_channel_shake(channel, &error);
	must(result == KW_TLS_DONE || result == KW_TLS_FAIL);
	if (result == KW_TLS_FAIL)
		check_sentence(&error);
	read_all(channel);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kw_tls_channel *channel;
	int role, fds[2];

	if (size < 2 || size > 65536)
		return 0;
	if (!contexts[0])
		make_contexts();
	role = data[0] & 1;
	must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
	channel = kw_tls_channel_new(
		contexts[role], fds[0], role == 0 ? NULL : "other.example", NULL, NULL);
	must(channel != NULL);
	drive(channel, fds[1], data + 1, size - 1, data[0] > 1 ? data[0] / 2 : size);
	kw_tls_channel_free(channel);
	close(fds[0]);
	close(fds[1]);
	return 0;
}
