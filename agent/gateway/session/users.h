/*
 * The users of the gateway, and what each may do: a file in the form of the servers' aclfile.
 *
 *   user default off
 *   user reader on >secret ~cache:* %R~orders:* +@read +@connection -keys
 *   user metrics on #<SHA-256 of the password, 64 hexadecimal digits> allkeys +get +info
 *
 * A rule means what it means to the servers (acl.c):
 *
 *   on off nopass >password <password #hash !hash resetpass
 *   ~pattern %R~ %W~ %RW~ allkeys resetkeys
 *   &pattern allchannels resetchannels
 *   +command -command +command|subcommand +@category -@category allcommands nocommands reset
 *
 * Without a rule for channels a user has none, as on servers from 7.0 on. Rules for payloads are
 * accepted, and change nothing. Selectors, and all other words, refuse the whole file. A line that
 * begins with # is a comment.
 *
 * Two things are stricter than on a server. If the file has no line for `default`, each client must
 * log in. A command that writes needs both %R and %W for its keys.
 *
 * Only SHA-256 of passwords is kept. It is compared in constant time, and as often for a user that
 * does not exist.
 *
 * Immutable once made; one thread.
 */
#ifndef KW_AGENT_GATEWAY_SESSION_USERS_H
#define KW_AGENT_GATEWAY_SESSION_USERS_H

#include "base/error.h"
#include "base/slice.h"
#include "catalog.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KW_USERS_FILE_MAX ((size_t)1 << 20)
#define KW_USERS_MAX 10000
#define KW_USER_PASSWORDS_MAX 64
#define KW_USER_PATTERNS_MAX 1024
#define KW_USER_CHANNELS_MAX 1024
#define KW_USER_HASH_BYTES 32

struct kw_user_password {
	uint8_t hash[KW_USER_HASH_BYTES];
};

enum kw_key_access {
	KW_KEY_READ = 1,
	KW_KEY_WRITE = 2,
};

struct kw_user_pattern {
	char *text;
	uint8_t access; /* enum kw_key_access */
};

struct kw_user {
	char *name;
	bool enabled;
	bool any_password; /* nopass */
	bool all_keys;
	bool all_channels;
	uint64_t *commands; /* one bit a row of the catalog */
	struct kw_user_password *passwords;
	size_t password_count;
	struct kw_user_pattern *patterns;
	size_t pattern_count;
	char **channels; /* patterns */
	size_t channel_count;
};

struct kw_users;

/* Without a file: `default`, who needs no password and may do all. */
struct kw_users *kw_users_open(void);

/* NULL: the error names line, word and remedy (KW_E_CONFIG). Passwords are not quoted. */
struct kw_users *kw_users_parse(struct kw_slice text, struct kw_error *error);

/* The same of a file, which nobody else may read or change (KW_FILE_SECRET). */
struct kw_users *kw_users_load(const char *path, struct kw_error *error);

void kw_users_free(struct kw_users *users);

size_t kw_users_count(const struct kw_users *users);

/* NULL: no such user. The name counts by its case. */
const struct kw_user *kw_users_find(const struct kw_users *users, struct kw_slice name);

/* NULL: no such user, or it is off, or this is not its password. */
const struct kw_user *kw_users_login(
	const struct kw_users *users, struct kw_slice name, struct kw_slice password);

/*
 * May a client that logged in as this user, with the password of this hash, stay? Not if the user
 * is off now, or has no such password any more.
 */
bool kw_user_admits(const struct kw_user *user, const uint8_t hash[KW_USER_HASH_BYTES]);

/* SHA-256, as it is kept of a password. */
void kw_user_hash(struct kw_slice password, uint8_t hash[KW_USER_HASH_BYTES]);

/* The user of a client that has not logged in. NULL: it must log in. */
const struct kw_user *kw_users_unnamed(const struct kw_users *users);

#endif
