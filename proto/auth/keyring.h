/*
 * The keys that agents prove at a proxy: the file auth.keys_file, and the key of auth.secret_file,
 * whose id is empty.
 *
 *   # one line a key: its id, its secret, and what an agent with this key may do
 *   key edge-1 7c0f… databases=0,2 prefix=session: prefix=cart%20: sessions=4 role=agent
 *   key edge-1 91aa… databases=0,2 prefix=session: prefix=cart%20: sessions=4 role=agent
 * expires=2027-01-31 key cache  5b1e… carriers=shm,tcp role=gateway
 *
 * Id: 1 to 32 of [A-Za-z0-9._-]. Secret: 32 to 128 hexadecimal digits. An id may have two lines, an
 * old secret and a new one: so a secret is replaced without a gap. Both lines have the same rules.
 * Each rule can be left out, which means no limit; prefix= can be there many times. expires= is of
 * its line alone, and no rule: a day (its first second) or a moment, in UTC. A word that begins
 * with # ends the line.
 *
 * A ring does not change once it is made, but for kw_keyring_revoke and kw_keyring_expire. It is
 * counted, and the last release wipes all secrets. No sentence quotes a secret.
 *
 * A session keeps the digest of the key that it proved (struct kw_identity), not the key. After a
 * reload the new ring judges the digest. Pure; one thread.
 */
#ifndef KW_AUTH_KEYRING_H
#define KW_AUTH_KEYRING_H

#include "auth/channel.h"
#include "auth/identity.h"
#include "auth/scope.h"
#include "base/error.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KW_KEY_SECRET_LEAST 16 /* bytes */
#define KW_KEY_SECRET_MOST 64
#define KW_KEY_LINES_MAX 2 /* of one id */
#define KW_KEY_SESSIONS_MAX 4096
#define KW_KEYS_MAX 4096
#define KW_KEYS_FILE_MAX ((size_t)1 << 20)

struct kw_key_rules {
	uint32_t carriers; /* bits 1 << enum kw_channel_kind; 0: any */
	uint32_t roles;    /* bits 1 << enum kw_role; 0: any */
	uint32_t sessions; /* 0: no limit of its own */
	struct kw_scope scope;
};

enum kw_key_state {
	KW_KEY_COUNTS,
	KW_KEY_REVOKED, /* by kw_keyring_revoke; also if its time has come since */
	KW_KEY_EXPIRED,
};

struct kw_key {
	char id[KW_KEY_ID_MAX + 1]; /* "": of auth.secret_file */
	struct kw_slice secret;
	struct kw_key_rules rules;
	/* Of id, secret and rules. It tells nothing of a secret of 16 random bytes. */
	uint8_t digest[KW_KEY_DIGEST_BYTES];
	uint8_t rules_digest[KW_KEY_DIGEST_BYTES]; /* of the rules alone */
	int64_t expires_s;                         /* since 1970; 0: never */
	enum kw_key_state state;
};

struct kw_keyring;

/*
 * Made with one reference. unnamed: the secret without an id; empty: none. It is not checked for
 * its length. text: of the file; empty: none. Both are copied. NULL: KW_E_CONFIG, and the sentence
 * names the line and the remedy.
 */
struct kw_keyring *kw_keyring_new(
	struct kw_slice unnamed, struct kw_slice text, struct kw_error *error);

struct kw_keyring *kw_keyring_hold(struct kw_keyring *ring);
void kw_keyring_release(struct kw_keyring *ring); /* NULL: nothing */

/* Keys, each line for itself. 0: nothing is there to prove. */
size_t kw_keyring_count(const struct kw_keyring *ring);

/* The keys of this id that count; they live as long as the ring. Returns how many. */
size_t kw_keyring_find(const struct kw_keyring *ring, const char *id,
	const struct kw_key *found[KW_KEY_LINES_MAX]);

/*
 * A key of this id, whose rules hold for a certificate that names it. They do so also while the id
 * is revoked: no certificate may do more because of that. NULL: there is none.
 */
const struct kw_key *kw_keyring_named(const struct kw_keyring *ring, const char *id);

/* Refuse this id from now on. Returns how many keys of it there were. */
size_t kw_keyring_revoke(struct kw_keyring *ring, const char *id);

/* Each id that is revoked in `before`, and of which a key counts in `after`. */
typedef void (*kw_key_id_fn)(void *arg, const char *id);
void kw_keyring_each_lifted(const struct kw_keyring *before, const struct kw_keyring *after,
	kw_key_id_fn tell, void *arg);

/*
 * Refuse the keys whose time has come, for good: a clock that is set back brings none of them back.
 * Returns how many are new among these. *withdrawn: one of the new ones counted, as by
 * kw_keyring_counts. One pass over all keys.
 */
size_t kw_keyring_expire(
	struct kw_keyring *ring, int64_t now_s, uint32_t carriers, bool *withdrawn);

/*
 * Each id of which all keys run out, with the moment of the last one, which may have passed. An id
 * with a key that stays is not told, and an old secret beside a new one runs out in silence.
 */
typedef void (*kw_key_expiry_fn)(void *arg, const char *id, int64_t at_s);
void kw_keyring_each_expiry(const struct kw_keyring *ring, kw_key_expiry_fn tell, void *arg);

/*
 * Of the keys that count, with their rules; equal for equal keys, and never 0. It goes on
 * from `seed`.
 */
uint64_t kw_keyring_hash(const struct kw_keyring *ring, uint64_t seed);

/* The key with this digest, NULL if the id has none such that counts. Lives as long as the ring. */
const struct kw_key *kw_keyring_proved(
	const struct kw_keyring *ring, const char *id, const uint8_t digest[KW_KEY_DIGEST_BYTES]);

/*
 * Does this id have a key that counts, over one of these carriers (bits 1 << enum kw_channel_kind),
 * and opens the whole table?
 */
bool kw_keyring_counts(const struct kw_keyring *ring, const char *id, uint32_t carriers);

/* Does such a key of `before` not hold by `after`? */
bool kw_keyring_withdraws(
	const struct kw_keyring *before, const struct kw_keyring *after, uint32_t carriers);

enum kw_key_standing {
	KW_KEY_HOLDS,
	KW_KEY_CHANGED, /* the id has another secret, or other rules */
	KW_KEY_GONE,    /* there is no such id, or none of its keys counts */
};

/* What this ring says of a key that was proved under an earlier one, or under itself. */
enum kw_key_standing kw_keyring_judge(
	const struct kw_keyring *ring, const char *id, const uint8_t digest[KW_KEY_DIGEST_BYTES]);

/* May a connection of this carrier and role have the key? An inspector counts as an agent. */
bool kw_key_allows(
	const struct kw_key_rules *rules, enum kw_channel_kind carrier, enum kw_role role);

/* Can this be an id? KW_E_CONFIG with a sentence; "" can be one, of the unnamed key. */
int kw_key_id_check(const char *id, struct kw_error *error);

/* Hexadecimal digits of a line as bytes. KW_E_CONFIG: too few, too many, or another character. */
int kw_key_secret_decode(struct kw_slice digits, uint8_t secret[KW_KEY_SECRET_MOST], size_t *length,
	struct kw_error *error);

#endif
