#include "remote/tcp/wire_tls.h"

#include "base/buffer.h"
#include "remote/racy.h"
#include "remote/server.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#define RECORDS_MAX 16  /* sent by one call: 256 KiB */
#define LEFT_BYTES 2048 /* taken off the socket before it is closed */

struct kw_wire_tls {
	struct kw_tls_channel *channel;
	struct kw_error why; /* of EPROTO */
	bool more;           /* the last receive was ended by its room, not by the socket */
	bool kernel;         /* encrypts what is written to the socket */
	size_t staged;       /* bytes of `record` that OpenSSL has encrypted, and not sent yet */
	uint8_t record[KW_TLS_RECORD_BYTES];
};

const struct kw_tls_terms kw_remote_tls_terms = {
	.keys = "tls",
	.peer = "the proxy",
	.plain = "use tcp://, or let the proxy listen on tcp+tls:// there",
	.demand = "take tls.ca away",
	.trust = "tls.ca",
};

const struct kw_tls_terms kw_server_tls_terms = {
	.keys = "tls",
	.peer = "the agent",
	.plain = "give it tcp+tls:// as its proxy",
	.demand = "take tls.ca away",
	.trust = "tls.ca",
};

struct kw_tls_channel *kw_wire_tls_channel(const struct kw_wire *wire)
{
	return wire->tls->channel;
}

const char *kw_wire_tls_cipherer(const struct kw_wire *wire)
{
	if (!wire->tls)
		return "";
	return wire->tls->kernel ? "kernel" : "software";
}

int kw_wire_tls_bind(const struct kw_wire *wire, struct kw_channel *channel, struct kw_error *error)
{
	uint8_t exporter[KW_CHANNEL_EXPORTER_BYTES];
	int code = kw_tls_channel_export(
		wire->tls->channel, KW_CHANNEL_EXPORTER_LABEL, exporter, sizeof exporter, error);

	if (code == 0)
		*channel = kw_channel_tls(exporter);
	return code;
}

static enum kw_wire_shaken shake(struct kw_wire *wire, struct kw_error *error)
{
	struct kw_wire_tls *tls = wire->tls;

	switch (kw_tls_channel_state(tls->channel)) {
	case KW_TLS_CONNECTED:
	case KW_TLS_SHAKING:
		break;
	case KW_TLS_OPEN:
	case KW_TLS_ENDED:
		return KW_WIRE_OPEN;
	case KW_TLS_FAILED:
		kw_error_set(error, KW_E_STATE, "TLS has failed already");
		return KW_WIRE_FAILED;
	}
	switch (kw_tls_channel_shake(tls->channel, error)) {
	case KW_TLS_DONE:
		tls->kernel = kw_tls_channel_kernel_sends(tls->channel);
		return KW_WIRE_OPEN;
	case KW_TLS_AGAIN:
		return kw_tls_channel_read_wants(tls->channel) == KW_TLS_WANTS_WRITE ? KW_WIRE_WRITE
										     : KW_WIRE_READ;
	default:
		return KW_WIRE_FAILED;
	}
}

/* ---- sending ---- */

/* Up to a record's worth of the message, from a place in it on. */
static size_t stage(struct kw_wire_tls *tls, const struct msghdr *message, size_t skip)
{
	size_t length = 0;

	for (size_t i = 0; i < message->msg_iovlen && length < sizeof tls->record; i++) {
		const struct iovec *part = &message->msg_iov[i];
		size_t take = sizeof tls->record - length;

		if (skip >= part->iov_len) {
			skip -= part->iov_len;
			continue;
		}
		if (take > part->iov_len - skip)
			take = part->iov_len - skip;
		kw_racy_copy(tls->record + length, (const uint8_t *)part->iov_base + skip, take);
		length += take;
		skip = 0;
	}
	return length;
}

static ssize_t fail(struct kw_wire_tls *tls, const struct kw_error *why)
{
	tls->why = *why;
	errno = EPROTO;
	return -1;
}

static ssize_t send_tls(struct kw_wire *wire, const struct msghdr *message)
{
	struct kw_wire_tls *tls = wire->tls;
	struct kw_error error;
	size_t total = 0;

	if (tls->kernel)
		return kw_racy_sendmsg(wire->fd, message, MSG_NOSIGNAL | MSG_DONTWAIT);
	for (int i = 0; i < RECORDS_MAX; i++) {
		enum kw_tls_result result;
		size_t put;

		if (tls->staged == 0)
			tls->staged = stage(tls, message, total);
		if (tls->staged == 0)
			break;
		result = kw_tls_channel_write(tls->channel, tls->record, tls->staged, &put, &error);
		if (result == KW_TLS_FAIL)
			return total > 0 ? (ssize_t)total : fail(tls, &error);
		if (result != KW_TLS_MORE)
			break;
		/* Less, if the peer wants shorter records: the rest is staged anew. */
		tls->staged = 0;
		total += put;
	}
	if (total > 0)
		return (ssize_t)total;
	errno = EAGAIN;
	return -1;
}

/* In the middle of a record nothing else can be sent. */
static void farewell_tls(struct kw_wire *wire, const void *bytes, size_t length)
{
	struct kw_wire_tls *tls = wire->tls;

	if (tls->staged > 0)
		return;
	(void)kw_wire_send_bytes(wire, bytes, length);
	if (tls->staged == 0)
		kw_tls_channel_farewell(tls->channel);
}

/* ---- receiving ---- */

static ssize_t receive_tls(struct kw_wire *wire, struct msghdr *message)
{
	struct kw_wire_tls *tls = wire->tls;
	enum kw_tls_result result = KW_TLS_AGAIN;
	struct kw_error error;
	size_t total = 0;

	for (size_t i = 0; i < message->msg_iovlen; i++) {
		const struct iovec *part = &message->msg_iov[i];
		size_t got;

		result = kw_tls_channel_read(
			tls->channel, part->iov_base, part->iov_len, &got, &error);
		total += got;
		if (result != KW_TLS_MORE || got < part->iov_len)
			break;
	}
	/* An end behind what filled its room is told by the next receive. */
	tls->more = result == KW_TLS_MORE || (total > 0 && result >= KW_TLS_END);
	if (total > 0)
		return (ssize_t)total;
	if (result == KW_TLS_END)
		return 0;
	if (result == KW_TLS_FAIL)
		return fail(tls, &error);
	errno = EAGAIN;
	return -1;
}

static bool pending(const struct kw_wire *wire)
{
	return wire->tls->more;
}

/* ---- beginning and end ---- */

static void explain(const struct kw_wire *wire, struct kw_error *error)
{
	*error = wire->tls->why;
}

static void close_tls(struct kw_wire *wire)
{
	uint8_t left[LEFT_BYTES];

	/*
	 * What was left unread would turn the close into a reset that overtakes our last record: a
	 * farewell, or the alert that says why we refuse.
	 */
	(void)shutdown(wire->fd, SHUT_WR);
	(void)recv(wire->fd, left, sizeof left, MSG_DONTWAIT);
	kw_tls_channel_free(wire->tls->channel);
	free(wire->tls);
	wire->tls = NULL;
}

static const struct kw_wire_ops ops = {
	.send = send_tls,
	.receive = receive_tls,
	.farewell = farewell_tls,
	.shake = shake,
	.pending = pending,
	.explain = explain,
	.close = close_tls,
};

int kw_wire_tls(struct kw_wire *wire, int fd, struct kw_tls_context *context, const char *host,
	const struct kw_tls_session *resume, struct kw_error *error)
{
	struct kw_tls_channel *channel = kw_tls_channel_new(context, fd, host, resume, error);

	if (!channel)
		return (int)error->code;
	*wire = (struct kw_wire){.ops = &ops, .fd = fd, .tls = kw_zalloc(sizeof *wire->tls)};
	wire->tls->channel = channel;
	return 0;
}
