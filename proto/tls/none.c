/* A build without TLS: no context is ever made, and so no channel either. */
#include "tls/channel.h"

#include <assert.h>
#include <stdlib.h>

bool kw_tls_is_built(void)
{
	return false;
}

struct kw_tls_context *kw_tls_context_new(
	const struct kw_tls_options *options, struct kw_error *error)
{
	kw_error_set(error, KW_E_CONFIG,
		"%s: this build has no TLS: use a package that has it, or build with "
		"-Dtls=enabled",
		options->terms->keys);
	return NULL;
}

struct kw_tls_context *kw_tls_context_ref(struct kw_tls_context *context)
{
	abort();
}

void kw_tls_context_unref(struct kw_tls_context *context)
{
	assert(!context);
}

enum kw_tls_role kw_tls_context_role(const struct kw_tls_context *context)
{
	abort();
}

bool kw_tls_context_verifies(const struct kw_tls_context *context)
{
	abort();
}

const char *kw_tls_context_keys(const struct kw_tls_context *context)
{
	abort();
}

const struct kw_tls_expiry *kw_tls_context_expiry(const struct kw_tls_context *context)
{
	abort();
}

void kw_tls_current_put(struct kw_tls_current *current, struct kw_tls_context *context)
{
	assert(!current->context && !context);
}

struct kw_tls_channel *kw_tls_channel_new(struct kw_tls_context *context, int fd, const char *host,
	const struct kw_tls_session *resume, struct kw_error *error)
{
	abort();
}

void kw_tls_channel_free(struct kw_tls_channel *channel)
{
	assert(!channel);
}

enum kw_tls_result kw_tls_channel_shake(struct kw_tls_channel *channel, struct kw_error *error)
{
	abort();
}

enum kw_tls_result kw_tls_channel_read(
	struct kw_tls_channel *channel, void *to, size_t room, size_t *got, struct kw_error *error)
{
	abort();
}

enum kw_tls_result kw_tls_channel_write(struct kw_tls_channel *channel, const void *from,
	size_t length, size_t *put, struct kw_error *error)
{
	abort();
}

struct kw_tls_context *kw_tls_channel_context(const struct kw_tls_channel *channel)
{
	abort();
}

bool kw_tls_channel_pending(const struct kw_tls_channel *channel)
{
	abort();
}

enum kw_tls_wants kw_tls_channel_read_wants(const struct kw_tls_channel *channel)
{
	abort();
}

enum kw_tls_wants kw_tls_channel_write_wants(const struct kw_tls_channel *channel)
{
	abort();
}

void kw_tls_channel_farewell(struct kw_tls_channel *channel)
{
	abort();
}

enum kw_tls_state kw_tls_channel_state(const struct kw_tls_channel *channel)
{
	abort();
}

int kw_tls_channel_late(const struct kw_tls_channel *channel, struct kw_error *error)
{
	abort();
}

const char *kw_tls_channel_cipher(struct kw_tls_channel *channel)
{
	abort();
}

bool kw_tls_channel_resumed(const struct kw_tls_channel *channel)
{
	abort();
}

bool kw_tls_channel_kernel_sends(const struct kw_tls_channel *channel)
{
	abort();
}

int kw_tls_channel_peer_id(const struct kw_tls_channel *channel, enum kw_tls_identity identity,
	char id[KW_TLS_ID_MAX + 1], struct kw_error *error)
{
	abort();
}

struct kw_tls_session *kw_tls_channel_take_session(struct kw_tls_channel *channel)
{
	abort();
}

void kw_tls_session_free(struct kw_tls_session *session)
{
	assert(!session);
}

int kw_tls_channel_export(struct kw_tls_channel *channel, const char *label, void *bytes,
	size_t length, struct kw_error *error)
{
	abort();
}

struct kw_tls_peer *kw_tls_channel_peer(const struct kw_tls_channel *channel)
{
	abort();
}

void kw_tls_peer_free(struct kw_tls_peer *peer)
{
	assert(!peer);
}

int kw_tls_peer_judge(const struct kw_tls_peer *peer, const struct kw_tls_context *context,
	struct kw_error *error)
{
	abort();
}
