#include "control/config/keys.h"

#include "base/clock.h"
#include "control/config/small_file.h"
#include "control/metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define EXPIRES "key_expires_timestamp_seconds"

static int64_t now_s(void)
{
	return (int64_t)(kw_wall_us() / 1000000);
}

static void wipe(struct kw_buffer *buffer)
{
	if (buffer->data)
		explicit_bzero(buffer->data, buffer->capacity);
	kw_buffer_close(buffer);
}

static struct kw_slice slice_of(const struct kw_buffer *buffer)
{
	return kw_slice(kw_buffer_bytes(buffer), kw_buffer_length(buffer));
}

/* The bytes of auth.secret_file, none if there is no such key. On a failure none, too. */
static int load_secret(
	const struct kw_config *config, struct kw_buffer *secret, struct kw_error *error)
{
	const char *path = kw_config_text(config, "auth.secret_file");
	int code = kw_key_file_load(path, secret, error);

	if (code)
		wipe(secret);
	return code ? kw_error_wrap(error, "auth.secret_file") : KW_OK;
}

/* ---- a proxy's ---- */

static int load_text(const struct kw_config *config, struct kw_buffer *text, struct kw_error *error)
{
	const char *path = kw_config_text(config, "auth.keys_file");

	if (*path == '\0')
		return KW_OK;
	if (kw_small_file_read(
		    path, KW_KEYS_FILE_MAX, KW_FILE_SECRET, "the file of keys", text, error))
		return kw_error_wrap(error, "auth.keys_file");
	if (kw_buffer_length(text) == 0)
		return kw_error_set(error, KW_E_CONFIG,
			"auth.keys_file: the file of keys %s is empty: a line of it is \"key ID "
			"SECRET\", with a secret by openssl rand -hex 32",
			path);
	return KW_OK;
}

/* secret, text: either may be empty */
static struct kw_keyring *make_ring(const struct kw_config *config, const struct kw_buffer *secret,
	const struct kw_buffer *text, struct kw_error *error)
{
	struct kw_keyring *ring = kw_keyring_new(slice_of(secret), slice_of(text), error);

	if (!ring)
		kw_error_wrap(error, "auth.keys_file: the file of keys %s",
			kw_config_text(config, "auth.keys_file"));
	return ring;
}

struct kw_keyring *kw_keys_load(const struct kw_config *config, struct kw_error *error)
{
	struct kw_buffer secret = {0}, text = {0};
	struct kw_keyring *ring = NULL;
	bool withdrawn;

	if (!load_secret(config, &secret, error) && !load_text(config, &text, error))
		ring = make_ring(config, &secret, &text, error);
	if (ring)
		kw_keyring_expire(ring, now_s(), 0, &withdrawn);
	wipe(&secret);
	wipe(&text);
	return ring;
}

static void look_at_date(void *arg, const char *id, int64_t at_s)
{
	struct kw_error error;

	if (at_s > now_s())
		return;
	kw_error_set(&error, KW_E_CONFIG,
		"auth.keys_file: the key %s expired %" PRId64 " hours ago: give its agent a new "
		"secret, or take the line out",
		id, (now_s() - at_s) / 3600);
	kw_config_mistake(arg, &error);
}

/* Each file for itself: one that cannot be used hides nothing of the other. */
static void look_at_ring(const struct kw_config *config, struct kw_config_mistakes *files)
{
	struct kw_buffer secret = {0}, text = {0};
	struct kw_keyring *ring = NULL;
	struct kw_error error;

	if (load_secret(config, &secret, &error))
		kw_config_mistake(files, &error);
	if (load_text(config, &text, &error))
		kw_config_mistake(files, &error);
	else if (!(ring = make_ring(config, &secret, &text, &error)))
		kw_config_mistake(files, &error);
	if (ring)
		kw_keyring_each_expiry(ring, look_at_date, files);
	kw_keyring_release(ring);
	wipe(&secret);
	wipe(&text);
}

static void add_sample(void *arg, const char *id, int64_t at_s)
{
	char labels[KW_METRICS_LABELS] = "";

	kw_metrics_label(labels, "id", id);
	kw_metrics_integer(arg, EXPIRES, labels, (uint64_t)at_s);
}

void kw_keys_metrics(struct kw_buffer *text, const struct kw_keyring *ring)
{
	struct kw_metrics metrics = {text, "keywake"};

	kw_metrics_family(&metrics, EXPIRES, "gauge",
		"when the last secret of this key in auth.keys_file expires; keys that have no "
		"such "
		"time are not here");
	kw_keyring_each_expiry(ring, add_sample, &metrics);
}

/* ---- an agent's ---- */

/* The digits in the buffer become bytes, which need half of its room. */
static int decode(const struct kw_config *config, struct kw_buffer *secret, struct kw_error *error)
{
	uint8_t bytes[KW_KEY_SECRET_MOST];
	size_t length;

	if (kw_key_secret_decode(slice_of(secret), bytes, &length, error)) {
		wipe(secret);
		return kw_error_wrap(error,
			"auth.secret_file: %s must hold the digits of the key %s, as the proxy's "
			"file of keys has them",
			kw_config_text(config, "auth.secret_file"),
			kw_config_text(config, "auth.key_id"));
	}
	memcpy(secret->data + secret->start, bytes, length);
	secret->end = secret->start + length;
	explicit_bzero(bytes, sizeof bytes);
	return KW_OK;
}

int kw_own_key_load(const struct kw_config *config, struct kw_own_key *key, struct kw_error *error)
{
	const char *id = kw_config_text(config, "auth.key_id");

	*key = (struct kw_own_key){0};
	if (load_secret(config, &key->secret, error))
		return KW_E_CONFIG;
	if (*id == '\0')
		return KW_OK;
	if (kw_buffer_length(&key->secret) == 0)
		return kw_error_set(error, KW_E_CONFIG,
			"auth.key_id: %s has no secret: name the file with it in auth.secret_file",
			id);
	snprintf(key->id, sizeof key->id, "%s", id);
	if (!decode(config, &key->secret, error))
		return KW_OK;
	kw_own_key_close(key);
	return KW_E_CONFIG;
}

int kw_own_key_reload(const struct kw_config *config, struct kw_own_key *key, bool *changed,
	struct kw_error *error)
{
	struct kw_own_key now;

	if (kw_own_key_load(config, &now, error))
		return KW_E_CONFIG;
	*changed = strcmp(now.id, key->id) != 0 ||
		   !kw_slice_equal(kw_own_key_secret(&now), kw_own_key_secret(key));
	kw_own_key_close(*changed ? key : &now);
	if (*changed)
		*key = now;
	return KW_OK;
}

void kw_own_key_close(struct kw_own_key *key)
{
	wipe(&key->secret);
	*key = (struct kw_own_key){0};
}

/* ---- either's, for a check ---- */

void kw_keys_look(const struct kw_config *config, struct kw_config_mistakes *files)
{
	struct kw_own_key own = {0};
	struct kw_error error;

	if (kw_config_check_path(config, "auth.keys_file", NULL) == KW_OK) {
		look_at_ring(config, files);
	} else if (kw_config_check_path(config, "auth.key_id", NULL) == KW_OK) {
		if (kw_own_key_load(config, &own, &error))
			kw_config_mistake(files, &error);
		kw_own_key_close(&own);
	}
}
