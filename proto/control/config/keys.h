/*
 * The files behind auth.*: read at the start, and again at each reload. What a proxy asks for is a
 * ring of keys; what an agent or a gateway proves is one key. Any thread.
 */
#ifndef KW_CONTROL_CONFIG_KEYS_H
#define KW_CONTROL_CONFIG_KEYS_H

#include "auth/keyring.h"
#include "control/config/config.h"

#include <stdbool.h>

/*
 * A proxy's: auth.secret_file and auth.keys_file, either or both. Neither: a ring without keys.
 * Keys whose time has come are refused already. NULL: KW_E_CONFIG, and the sentence names key,
 * file, line and remedy.
 */
struct kw_keyring *kw_keys_load(const struct kw_config *config, struct kw_error *error);

/* keywake_key_expires_timestamp_seconds, with a sample for each id that kw_keyring_each_expiry
 * tells. */
void kw_keys_metrics(struct kw_buffer *text, const struct kw_keyring *ring);

/* Zeroed memory is no key. */
struct kw_own_key {
	char id[KW_KEY_ID_MAX + 1];
	struct kw_buffer secret; /* empty: nothing is proved */
};

/*
 * An agent's: auth.key_id and auth.secret_file. With an id the file holds the hexadecimal digits as
 * they stand in the proxy's line; without one, any bytes. KW_E_CONFIG: *key is empty then.
 */
int kw_own_key_load(const struct kw_config *config, struct kw_own_key *key, struct kw_error *error);

/*
 * Load it again. *changed: id or secret are others than before, and so is the memory of the secret.
 * KW_E_CONFIG: *key is as it was.
 */
int kw_own_key_reload(const struct kw_config *config, struct kw_own_key *key, bool *changed,
	struct kw_error *error);

static inline struct kw_slice kw_own_key_secret(const struct kw_own_key *key)
{
	return kw_slice(kw_buffer_bytes(&key->secret), kw_buffer_length(&key->secret));
}

/* Wipes the secret. */
void kw_own_key_close(struct kw_own_key *key);

/*
 * For --check-config: what is wrong with these files, each for itself, whichever of the two
 * configurations this is. One without keys of auth.* has none.
 */
void kw_keys_look(const struct kw_config *config, struct kw_config_mistakes *files);

#endif
