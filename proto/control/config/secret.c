#include "control/config/internal.h"
#include "control/config/small_file.h"

#include <string.h>

#define SECRET_MAX 4096

int kw_secret_load(const char *path, struct kw_buffer *secret, struct kw_error *error)
{
	int code;

	kw_buffer_clear(secret);
	if (*path == '\0')
		return 0;
	code = kw_small_file_read(
		path, SECRET_MAX, KW_FILE_PRIVATE, "the secret file", secret, error);
	while (!code && secret->end > secret->start &&
		(secret->data[secret->end - 1] == '\n' || secret->data[secret->end - 1] == '\r'))
		secret->end--;
	if (!code && kw_buffer_length(secret) == 0)
		code = kw_error_set(error, KW_E_CONFIG,
			"the secret file %s is empty: put a secret in it, for example by "
			"openssl rand -hex 32 > %s",
			path, path);
	if (code && secret->data)
		explicit_bzero(secret->data, secret->capacity);
	if (code)
		kw_buffer_clear(secret);
	return code;
}
