#include "control/config/internal.h"
#include "control/config/small_file.h"

#include "auth/keyring.h"
#include "base/secret.h"

#include <string.h>

#define SECRET_MAX 4096

static int load(const char *path, struct kw_buffer *secret, struct kw_error *error)
{
	int code = kw_small_file_read(
		path, SECRET_MAX, KW_FILE_SECRET, "the secret file", secret, error);

	while (!code && secret->end > secret->start &&
		(secret->data[secret->end - 1] == '\n' || secret->data[secret->end - 1] == '\r'))
		secret->end--;
	if (!code && kw_buffer_length(secret) == 0)
		code = kw_error_set(error, KW_E_CONFIG,
			"the secret file %s is empty: put a secret in it, for example by "
			"openssl rand -hex 32 > %s",
			path, path);
	return code;
}

static int forget(struct kw_buffer *secret, int code)
{
	if (secret->data)
		explicit_bzero(secret->data, secret->capacity);
	kw_buffer_clear(secret);
	return code;
}

int kw_secret_load(const char *path, struct kw_buffer *secret, struct kw_error *error)
{
	int code;

	kw_buffer_clear(secret);
	if (*path == '\0')
		return 0;
	code = load(path, secret, error);
	return code ? forget(secret, code) : 0;
}

static struct kw_slice slice_of(const struct kw_buffer *buffer)
{
	return kw_slice(kw_buffer_bytes(buffer), kw_buffer_length(buffer));
}

int kw_secret_reload(
	const char *path, struct kw_buffer *secret, bool *changed, struct kw_error *error)
{
	struct kw_buffer now = {0};
	int code = kw_secret_load(path, &now, error);

	*changed = !code && !kw_slice_equal(slice_of(&now), slice_of(secret));
	kw_secret_close_buffer(*changed ? secret : &now);
	if (*changed)
		*secret = now;
	return code;
}

int kw_key_file_load(const char *path, struct kw_buffer *secret, struct kw_error *error)
{
	int code;

	kw_buffer_clear(secret);
	if (*path == '\0')
		return 0;
	code = load(path, secret, error);
	if (!code && kw_buffer_length(secret) < KW_KEY_SECRET_LEAST)
		code = kw_error_set(error, KW_E_CONFIG,
			"the secret file %s has %zu bytes, and a secret has at least %d: make one "
			"by openssl rand -hex 32 > %s, the same on both sides",
			path, kw_buffer_length(secret), KW_KEY_SECRET_LEAST, path);
	return code ? forget(secret, code) : 0;
}
