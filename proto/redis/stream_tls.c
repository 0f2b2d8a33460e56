/* The bytes of a connection over TLS: what stream.h asks for, from a channel. */
#include "redis/stream.h"

#include <assert.h>
#include <poll.h>
#include <string.h>

/* Both name the same outcomes; a table keeps them apart from each other's numbers. */
static const enum kw_redis_stream_result results[] = {
	[KW_TLS_MORE] = KW_REDIS_STREAM_MORE,
	[KW_TLS_DONE] = KW_REDIS_STREAM_DONE,
	[KW_TLS_AGAIN] = KW_REDIS_STREAM_AGAIN,
	[KW_TLS_END] = KW_REDIS_STREAM_ENDED,
	[KW_TLS_FAIL] = KW_REDIS_STREAM_FAILED,
};

int kw_redis_stream_secure(struct kw_redis_stream *stream, struct kw_tls_context *context,
	const char *host, struct kw_error *error)
{
	struct kw_tls_channel *channel;

	assert(stream->ops == &kw_redis_stream_plain);
	channel = kw_tls_channel_new(context, stream->fd, host, NULL, error);
	if (!channel)
		return error ? (int)error->code : KW_E_NOMEM;
	stream->tls = channel;
	stream->ops = &kw_redis_stream_tls;
	return KW_OK;
}

static enum kw_redis_stream_result tls_establish(
	struct kw_redis_stream *stream, struct kw_error *error)
{
	if (kw_tls_channel_state(stream->tls) == KW_TLS_CONNECTED &&
		kw_redis_stream_connected(stream, error) == KW_REDIS_STREAM_FAILED)
		return KW_REDIS_STREAM_FAILED;
	return results[kw_tls_channel_shake(stream->tls, error)];
}

static enum kw_redis_stream_result tls_read(
	struct kw_redis_stream *stream, void *to, size_t room, size_t *got, struct kw_error *error)
{
	return results[kw_tls_channel_read(stream->tls, to, room, got, error)];
}

/*
 * One record a call. Short vectors are put together, because each record costs a system call and
 * some work at the other end. The bytes of a record that must wait are given again by the caller.
 */
static enum kw_redis_stream_result tls_write(struct kw_redis_stream *stream, struct iovec *vectors,
	int count, size_t *put, struct kw_error *error)
{
	char together[KW_TLS_RECORD_BYTES];
	enum kw_tls_result result;
	size_t length = 0;

	if (vectors[0].iov_len >= sizeof together)
		return results[kw_tls_channel_write(
			stream->tls, vectors[0].iov_base, sizeof together, put, error)];
	for (int i = 0; i < count && length < sizeof together; i++) {
		size_t part = vectors[i].iov_len;

		if (part > sizeof together - length)
			part = sizeof together - length;
		memcpy(together + length, vectors[i].iov_base, part);
		length += part;
	}
	result = kw_tls_channel_write(stream->tls, together, length, put, error);
	/* A password can have been in it. */
	explicit_bzero(together, length);
	return results[result];
}

static short tls_wants(const struct kw_redis_stream *stream, enum kw_redis_stream_work work)
{
	enum kw_tls_wants wants = work == KW_REDIS_STREAM_WRITE
					  ? kw_tls_channel_write_wants(stream->tls)
					  : kw_tls_channel_read_wants(stream->tls);

	if (wants == KW_TLS_WANTS_NOTHING)
		return work == KW_REDIS_STREAM_READ ? POLLIN : POLLOUT;
	return wants == KW_TLS_WANTS_READ ? POLLIN : POLLOUT;
}

static bool tls_pending(const struct kw_redis_stream *stream)
{
	return kw_tls_channel_state(stream->tls) >= KW_TLS_OPEN &&
	       kw_tls_channel_pending(stream->tls);
}

static void tls_close(struct kw_redis_stream *stream)
{
	kw_tls_channel_farewell(stream->tls);
	kw_tls_channel_free(stream->tls);
	stream->tls = NULL;
}

const struct kw_redis_stream_ops kw_redis_stream_tls = {
	.establish = tls_establish,
	.read = tls_read,
	.write = tls_write,
	.wants = tls_wants,
	.pending = tls_pending,
	.close = tls_close,
};
