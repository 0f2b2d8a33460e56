#include "auth/keyring.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/hex.h"

#include <assert.h>
#include <nettle/memops.h>
#include <nettle/sha2.h>
#include <stdlib.h>
#include <string.h>

static_assert(SHA256_DIGEST_SIZE == KW_KEY_DIGEST_BYTES, "");

struct kw_keyring {
	struct kw_key *keys; /* by id; lines of one id in the order of their digests */
	size_t count;
	unsigned references;
};

/* ---- lifetime ---- */

static void close_key(struct kw_key *key)
{
	void *secret = (void *)(uintptr_t)key->secret.data;

	if (secret)
		explicit_bzero(secret, key->secret.length);
	free(secret);
	kw_scope_close(&key->rules.scope);
	*key = (struct kw_key){0};
}

struct kw_keyring *kw_keyring_hold(struct kw_keyring *ring)
{
	assert(ring->references > 0);
	ring->references++;
	return ring;
}

void kw_keyring_release(struct kw_keyring *ring)
{
	if (!ring)
		return;
	assert(ring->references > 0);
	if (--ring->references > 0)
		return;
	for (size_t i = 0; i < ring->count; i++)
		close_key(&ring->keys[i]);
	free(ring->keys);
	free(ring);
}

static struct kw_key *add_key(struct kw_keyring *ring)
{
	ring->keys = kw_realloc(ring->keys, (ring->count + 1) * sizeof *ring->keys);
	ring->keys[ring->count] = (struct kw_key){0};
	return &ring->keys[ring->count++];
}

static void set_secret(struct kw_key *key, struct kw_slice secret)
{
	void *own = kw_alloc(secret.length);

	memcpy(own, secret.data, secret.length);
	key->secret = kw_slice(own, secret.length);
}

/* ---- digests ---- */

static void digest_rules(struct kw_key *key)
{
	const struct kw_key_rules *rules = &key->rules;
	struct kw_buffer text = {0};
	struct sha256_ctx context;

	kw_buffer_printf(&text, "%u %u %u ", rules->carriers, rules->roles, rules->sessions);
	kw_scope_write(&rules->scope, &text);
	sha256_init(&context);
	sha256_update(&context, kw_buffer_length(&text), kw_buffer_bytes(&text));
	sha256_digest(&context, sizeof key->rules_digest, key->rules_digest);
	kw_buffer_close(&text);
}

/* Once id, secret and rules are known. */
static void digest(struct kw_key *key)
{
	static const char label[16] = "keywake key 1";
	struct sha256_ctx context;

	digest_rules(key);
	sha256_init(&context);
	sha256_update(&context, sizeof label, (const uint8_t *)label);
	sha256_update(&context, sizeof key->id, (const uint8_t *)key->id);
	sha256_update(&context, sizeof key->rules_digest, key->rules_digest);
	sha256_update(&context, key->secret.length, key->secret.data);
	sha256_digest(&context, sizeof key->digest, key->digest);
	explicit_bzero(&context, sizeof context);
}

/* ---- words ---- */

static int check_id(struct kw_slice id, struct kw_error *error)
{
	if (!kw_key_id_valid(id.data, id.length))
		return kw_error_set(error, KW_E_CONFIG,
			"the id of a key is 1 to %d of the characters A-Z a-z 0-9 . _ -",
			KW_KEY_ID_MAX);
	return KW_OK;
}

int kw_key_id_check(const char *id, struct kw_error *error)
{
	return *id ? check_id(kw_slice_text(id), error) : KW_OK;
}

int kw_key_secret_decode(struct kw_slice digits, uint8_t secret[KW_KEY_SECRET_MOST], size_t *length,
	struct kw_error *error)
{
	const char *text = digits.data;
	bool valid = digits.length >= 2 * KW_KEY_SECRET_LEAST &&
		     digits.length <= 2 * KW_KEY_SECRET_MOST && digits.length % 2 == 0;

	for (size_t i = 0; valid && i < digits.length; i += 2) {
		int high = kw_hex_digit(text[i]), low = kw_hex_digit(text[i + 1]);

		valid = high >= 0 && low >= 0;
		if (valid)
			secret[i / 2] = (uint8_t)(high << 4 | low);
	}
	if (!valid)
		return kw_error_set(error, KW_E_CONFIG,
			"the secret of a key is %d to %d hexadecimal digits, two a byte: make one "
			"by openssl rand -hex 32",
			2 * KW_KEY_SECRET_LEAST, 2 * KW_KEY_SECRET_MOST);
	*length = digits.length / 2;
	return KW_OK;
}

/* The next word of a line, which is taken off it. No bytes: there is none, or a comment begins. */
static struct kw_slice take_word(struct kw_slice *line)
{
	const char *at = line->data, *end = at + line->length;
	struct kw_slice word;

	while (at < end && (*at == ' ' || *at == '\t' || *at == '\r'))
		at++;
	if (at < end && *at == '#')
		end = at;
	word.data = at;
	while (at < end && *at != ' ' && *at != '\t' && *at != '\r')
		at++;
	word.length = (size_t)(at - (const char *)word.data);
	*line = kw_slice(at, (size_t)(end - at));
	return word;
}

/* ---- rules ---- */

struct name {
	const char *text;
	uint32_t bit;
};

static const struct name carrier_names[] = {{"shm", 1U << KW_CHANNEL_SHM},
	{"tcp", 1U << KW_CHANNEL_TCP}, {"rdma", 1U << KW_CHANNEL_RDMA},
	{"tcp+tls", 1U << KW_CHANNEL_TLS}, {NULL, 0}};
static const struct name roles[] = {
	{"agent", 1U << KW_ROLE_AGENT}, {"gateway", 1U << KW_ROLE_GATEWAY}, {NULL, 0}};

static uint32_t bit_of(const struct name *names, struct kw_slice text)
{
	while (names->text && !kw_slice_equal(text, kw_slice_text(names->text)))
		names++;
	return names->bit;
}

/* Names with commas between them, as bits. */
static int read_names(struct kw_slice text, const struct name *names, uint32_t *bits,
	const char *remedy, struct kw_error *error)
{
	const char *at = text.data, *end = at + text.length;

	if (*bits)
		return kw_error_set(error, KW_E_CONFIG, "it is there twice: %s", remedy);
	for (;;) {
		const char *stop = at < end ? memchr(at, ',', (size_t)(end - at)) : NULL;
		uint32_t bit = bit_of(names, kw_slice(at, (size_t)((stop ? stop : end) - at)));

		if (!bit)
			return kw_error_set(error, KW_E_CONFIG, "%s", remedy);
		*bits |= bit;
		if (!stop)
			return KW_OK;
		at = stop + 1;
	}
}

static int read_carriers(struct kw_key *key, struct kw_slice text, struct kw_error *error)
{
	return read_names(text, carrier_names, &key->rules.carriers,
		"write shm, tcp, tcp+tls or rdma, or several with commas: carriers=shm,tcp", error);
}

static int read_roles(struct kw_key *key, struct kw_slice text, struct kw_error *error)
{
	return read_names(text, roles, &key->rules.roles,
		"write agent or gateway, or both with a comma: role=agent", error);
}

static int read_sessions(struct kw_key *key, struct kw_slice text, struct kw_error *error)
{
	const char *digits = text.data;
	uint32_t number = 0;
	bool valid = text.length > 0 && text.length <= 4 && key->rules.sessions == 0;

	for (size_t i = 0; valid && i < text.length; i++) {
		valid = digits[i] >= '0' && digits[i] <= '9';
		number = number * 10 + (uint32_t)(digits[i] - '0');
	}
	if (!valid || number == 0 || number > KW_KEY_SESSIONS_MAX)
		return kw_error_set(error, KW_E_CONFIG, "write one number from 1 to %d: sessions=4",
			KW_KEY_SESSIONS_MAX);
	key->rules.sessions = number;
	return KW_OK;
}

static int read_databases(struct kw_key *key, struct kw_slice text, struct kw_error *error)
{
	return kw_scope_set_databases(&key->rules.scope, text, error);
}

static int read_prefix(struct kw_key *key, struct kw_slice text, struct kw_error *error)
{
	return kw_scope_add_prefix(&key->rules.scope, text, error);
}

static int read_expires(struct kw_key *key, struct kw_slice text, struct kw_error *error)
{
	char copy[KW_MOMENT_TEXT] = "";

	if (text.length < sizeof copy)
		memcpy(copy, text.data, text.length);
	if (key->expires_s > 0 || !kw_moment_parse(copy, &key->expires_s))
		return kw_error_set(error, KW_E_CONFIG,
			"write one day, or one moment, of UTC: expires=2027-01-31 or "
			"expires=2027-01-31T18:00:00Z");
	return KW_OK;
}

static const struct {
	const char *name;
	int (*read)(struct kw_key *key, struct kw_slice text, struct kw_error *error);
} rule_table[] = {
	{"databases", read_databases},
	{"prefix", read_prefix},
	{"carriers", read_carriers},
	{"role", read_roles},
	{"sessions", read_sessions},
	{"expires", read_expires},
};

/* A word that is no rule can be the rest of a secret with a space in it: it is not quoted. */
static int read_rule(struct kw_key *key, struct kw_slice word, struct kw_error *error)
{
	const char *equals = memchr(word.data, '=', word.length);
	size_t length = equals ? (size_t)(equals - (const char *)word.data) : word.length;

	for (size_t i = 0; equals && i < sizeof rule_table / sizeof *rule_table; i++) {
		if (!kw_slice_equal(kw_slice(word.data, length), kw_slice_text(rule_table[i].name)))
			continue;
		if (rule_table[i].read(key, kw_slice(equals + 1, word.length - length - 1), error))
			return kw_error_wrap(error, "%s=", rule_table[i].name);
		return KW_OK;
	}
	return kw_error_set(error, KW_E_CONFIG,
		"no such rule: known are databases=, prefix=, carriers=, role=, sessions= and "
		"expires=");
}

/* ---- the file ---- */

static int read_secret(struct kw_key *key, struct kw_slice word, struct kw_error *error)
{
	uint8_t secret[KW_KEY_SECRET_MOST];
	size_t length;

	if (kw_key_secret_decode(word, secret, &length, error))
		return KW_E_CONFIG;
	set_secret(key, kw_slice(secret, length));
	explicit_bzero(secret, sizeof secret);
	return KW_OK;
}

static int read_key(struct kw_keyring *ring, struct kw_slice line, struct kw_error *error)
{
	struct kw_slice id = take_word(&line), word;
	struct kw_key *key;

	if (ring->count == KW_KEYS_MAX)
		return kw_error_set(error, KW_E_CONFIG, "there are more than %d keys", KW_KEYS_MAX);
	if (id.length == 0)
		return kw_error_set(error, KW_E_CONFIG, "an id must follow the word key");
	if (check_id(id, error))
		return KW_E_CONFIG;
	key = add_key(ring);
	memcpy(key->id, id.data, id.length);
	if (read_secret(key, take_word(&line), error))
		return KW_E_CONFIG;
	for (size_t position = 4; (word = take_word(&line)).length > 0; position++)
		if (read_rule(key, word, error))
			return kw_error_wrap(error, "word %zu", position);
	digest(key);
	return KW_OK;
}

static int read_line(struct kw_keyring *ring, struct kw_slice line, struct kw_error *error)
{
	struct kw_slice word = take_word(&line);

	if (word.length == 0)
		return KW_OK;
	if (!kw_slice_equal(word, kw_slice_text("key")))
		return kw_error_set(error, KW_E_CONFIG,
			"a line begins with the word key: \"key ID SECRET databases=0 "
			"prefix=session:\"");
	return read_key(ring, line, error);
}

static int read_lines(struct kw_keyring *ring, struct kw_slice text, struct kw_error *error)
{
	const char *at = text.data, *end = at + text.length;

	if (memchr(at, '\0', text.length))
		return kw_error_set(error, KW_E_CONFIG, "a zero byte: is it the right file?");
	for (size_t number = 1; at < end; number++) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));
		struct kw_slice line = kw_slice(at, (size_t)((stop ? stop : end) - at));

		if (read_line(ring, line, error))
			return kw_error_wrap(error, "line %zu", number);
		at = stop ? stop + 1 : end;
	}
	if (ring->count == 0)
		return kw_error_set(error, KW_E_CONFIG,
			"it has no key: a line of it is \"key ID SECRET\", with a secret by "
			"openssl rand -hex 32");
	return KW_OK;
}

/* ---- the whole ---- */

static int by_id(const void *a, const void *b)
{
	const struct kw_key *left = a, *right = b;
	int order = strcmp(left->id, right->id);

	return order ? order : memcmp(left->digest, right->digest, KW_KEY_DIGEST_BYTES);
}

/*
 * What HMAC makes of a secret (RFC 2104): one longer than a block is hashed, and then it is filled
 * up with zeros. Secrets with the same block prove the same.
 */
static void hmac_block(struct kw_slice secret, uint8_t block[SHA256_BLOCK_SIZE])
{
	struct sha256_ctx hash;

	memset(block, 0, SHA256_BLOCK_SIZE);
	if (secret.length <= SHA256_BLOCK_SIZE) {
		memcpy(block, secret.data, secret.length);
		return;
	}
	sha256_init(&hash);
	sha256_update(&hash, secret.length, secret.data);
	sha256_digest(&hash, SHA256_DIGEST_SIZE, block);
}

static int compare_secrets(struct kw_slice one, struct kw_slice other)
{
	uint8_t left[SHA256_BLOCK_SIZE], right[SHA256_BLOCK_SIZE];
	int order;

	hmac_block(one, left);
	hmac_block(other, right);
	order = memcmp(left, right, sizeof left);
	explicit_bzero(left, sizeof left);
	explicit_bzero(right, sizeof right);
	return order;
}

static int by_secret(const void *a, const void *b)
{
	const struct kw_key *left = *(const struct kw_key *const *)a;
	const struct kw_key *right = *(const struct kw_key *const *)b;

	return compare_secrets(left->secret, right->secret);
}

/* Two lines of an id are an old secret and a new one of the same agent, and no more than that. */
static int check_ids(const struct kw_keyring *ring, struct kw_error *error)
{
	for (size_t i = 1; i < ring->count; i++) {
		const struct kw_key *before = &ring->keys[i - 1], *key = &ring->keys[i];

		if (strcmp(before->id, key->id) != 0)
			continue;
		if (i >= KW_KEY_LINES_MAX && strcmp(ring->keys[i - 2].id, key->id) == 0)
			return kw_error_set(error, KW_E_CONFIG,
				"there are more than %d lines for the key %s: take the oldest out",
				KW_KEY_LINES_MAX, key->id);
		if (memcmp(before->rules_digest, key->rules_digest, KW_KEY_DIGEST_BYTES) != 0)
			return kw_error_set(error, KW_E_CONFIG,
				"the two lines for the key %s have different rules: make them "
				"equal",
				key->id);
	}
	return KW_OK;
}

/* Else who holds one of them could pass for the other, also after that one was taken out. */
static int check_secrets(const struct kw_keyring *ring, struct kw_error *error)
{
	const struct kw_key **keys = kw_alloc((ring->count + 1) * sizeof *keys);
	int code = KW_OK;

	for (size_t i = 0; i < ring->count; i++)
		keys[i] = &ring->keys[i];
	qsort(keys, ring->count, sizeof *keys, by_secret);
	for (size_t i = 1; i < ring->count && !code; i++)
		if (by_secret(&keys[i - 1], &keys[i]) == 0)
			code = kw_error_set(error, KW_E_CONFIG,
				"two lines have the same secret (keys %s and %s): make another by "
				"openssl rand -hex 32",
				keys[i - 1]->id, keys[i]->id);
	free(keys);
	return code;
}

/* As bytes, or as the digits of the key's line? */
static bool is_secret_of(const struct kw_key *key, struct kw_slice text)
{
	uint8_t decoded[KW_KEY_SECRET_MOST];
	size_t length;

	return compare_secrets(key->secret, text) == 0 ||
	       (!kw_key_secret_decode(text, decoded, &length, NULL) &&
		       compare_secrets(key->secret, kw_slice(decoded, length)) == 0);
}

/* Who holds such a key could leave its id out, and with it the rules and the revocation. */
static int check_unnamed(
	const struct kw_keyring *ring, struct kw_slice unnamed, struct kw_error *error)
{
	for (size_t i = 0; i < ring->count; i++)
		if (is_secret_of(&ring->keys[i], unnamed))
			return kw_error_set(error, KW_E_CONFIG,
				"key %s has the secret of auth.secret_file, which needs no id: "
				"make "
				"another by openssl rand -hex 32",
				ring->keys[i].id);
	return KW_OK;
}

static int fill(struct kw_keyring *ring, struct kw_slice unnamed, struct kw_slice text,
	struct kw_error *error)
{
	if (text.length > 0 && (read_lines(ring, text, error) || check_secrets(ring, error)))
		return KW_E_CONFIG;
	if (unnamed.length > 0) {
		struct kw_key *key;

		if (check_unnamed(ring, unnamed, error))
			return KW_E_CONFIG;
		key = add_key(ring);
		set_secret(key, unnamed);
		digest(key);
	}
	if (ring->count > 0)
		qsort(ring->keys, ring->count, sizeof *ring->keys, by_id);
	return check_ids(ring, error);
}

struct kw_keyring *kw_keyring_new(
	struct kw_slice unnamed, struct kw_slice text, struct kw_error *error)
{
	struct kw_keyring *ring = kw_zalloc(sizeof *ring);

	ring->references = 1;
	if (fill(ring, unnamed, text, error)) {
		kw_keyring_release(ring);
		return NULL;
	}
	return ring;
}

size_t kw_keyring_count(const struct kw_keyring *ring)
{
	return ring->count;
}

/* ---- asking ---- */

/* The first key whose id is not below this one. */
static size_t first_of(const struct kw_keyring *ring, const char *id)
{
	size_t low = 0, high = ring->count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (strcmp(ring->keys[middle].id, id) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

size_t kw_keyring_find(
	const struct kw_keyring *ring, const char *id, const struct kw_key *found[KW_KEY_LINES_MAX])
{
	size_t count = 0;

	for (size_t i = first_of(ring, id); i < ring->count && count < KW_KEY_LINES_MAX; i++) {
		if (strcmp(ring->keys[i].id, id) != 0)
			break;
		if (ring->keys[i].state == KW_KEY_COUNTS)
			found[count++] = &ring->keys[i];
	}
	return count;
}

/* All lines of an id have the same rules (check_ids). */
const struct kw_key *kw_keyring_named(const struct kw_keyring *ring, const char *id)
{
	size_t i = first_of(ring, id);

	return i < ring->count && strcmp(ring->keys[i].id, id) == 0 ? &ring->keys[i] : NULL;
}

size_t kw_keyring_revoke(struct kw_keyring *ring, const char *id)
{
	size_t count = 0;

	for (size_t i = first_of(ring, id); i < ring->count; i++) {
		if (strcmp(ring->keys[i].id, id) != 0)
			break;
		ring->keys[i].state = KW_KEY_REVOKED;
		count++;
	}
	return count;
}

void kw_keyring_each_lifted(const struct kw_keyring *before, const struct kw_keyring *after,
	kw_key_id_fn tell, void *arg)
{
	const struct kw_key *found[KW_KEY_LINES_MAX];

	for (size_t i = 0; i < before->count; i++) {
		const struct kw_key *key = &before->keys[i];
		bool first = i == 0 || strcmp(key[-1].id, key->id) != 0;

		/* All lines of an id are revoked together. */
		if (first && key->state == KW_KEY_REVOKED &&
			kw_keyring_find(after, key->id, found) > 0)
			tell(arg, key->id);
	}
}

const struct kw_key *kw_keyring_proved(
	const struct kw_keyring *ring, const char *id, const uint8_t digest[KW_KEY_DIGEST_BYTES])
{
	const struct kw_key *found[KW_KEY_LINES_MAX];
	size_t count = kw_keyring_find(ring, id, found);

	for (size_t i = 0; i < count; i++)
		if (memeql_sec(found[i]->digest, digest, KW_KEY_DIGEST_BYTES))
			return found[i];
	return NULL;
}

enum kw_key_standing kw_keyring_judge(
	const struct kw_keyring *ring, const char *id, const uint8_t digest[KW_KEY_DIGEST_BYTES])
{
	const struct kw_key *found[KW_KEY_LINES_MAX];

	if (kw_keyring_proved(ring, id, digest))
		return KW_KEY_HOLDS;
	return kw_keyring_find(ring, id, found) > 0 ? KW_KEY_CHANGED : KW_KEY_GONE;
}

uint64_t kw_keyring_hash(const struct kw_keyring *ring, uint64_t seed)
{
	for (size_t i = 0; i < ring->count; i++)
		if (ring->keys[i].state == KW_KEY_COUNTS)
			seed = kw_hash_key(seed, 0, ring->keys[i].digest, KW_KEY_DIGEST_BYTES);
	return seed | 1;
}

/* Over one of these carriers, in whatever role. */
static bool counts(const struct kw_key *key, uint32_t carriers)
{
	return key->state == KW_KEY_COUNTS && !kw_scope_narrow(&key->rules.scope) &&
	       (key->rules.carriers == 0 || key->rules.carriers & carriers);
}

bool kw_keyring_counts(const struct kw_keyring *ring, const char *id, uint32_t carriers)
{
	const struct kw_key *found[KW_KEY_LINES_MAX];
	size_t count = kw_keyring_find(ring, id, found);

	/* All lines of an id have the same rules. */
	return count > 0 && counts(found[0], carriers);
}

bool kw_keyring_withdraws(
	const struct kw_keyring *before, const struct kw_keyring *after, uint32_t carriers)
{
	for (size_t i = 0; i < before->count; i++) {
		const struct kw_key *key = &before->keys[i];

		if (counts(key, carriers) && !kw_keyring_proved(after, key->id, key->digest))
			return true;
	}
	return false;
}

size_t kw_keyring_expire(struct kw_keyring *ring, int64_t now_s, uint32_t carriers, bool *withdrawn)
{
	size_t expired = 0;

	*withdrawn = false;
	for (size_t i = 0; i < ring->count; i++) {
		struct kw_key *key = &ring->keys[i];

		if (key->state != KW_KEY_COUNTS || key->expires_s == 0 || key->expires_s > now_s)
			continue;
		*withdrawn |= counts(key, carriers);
		key->state = KW_KEY_EXPIRED;
		expired++;
	}
	return expired;
}

void kw_keyring_each_expiry(const struct kw_keyring *ring, kw_key_expiry_fn tell, void *arg)
{
	for (size_t i = 0, next; i < ring->count; i = next) {
		int64_t last_s = 0;
		bool stays = false;

		for (next = i;
			next < ring->count && strcmp(ring->keys[next].id, ring->keys[i].id) == 0;
			next++) {
			const struct kw_key *key = &ring->keys[next];

			stays |= key->expires_s == 0;
			last_s = key->expires_s > last_s ? key->expires_s : last_s;
		}
		if (!stays)
			tell(arg, ring->keys[i].id, last_s);
	}
}

bool kw_key_allows(
	const struct kw_key_rules *rules, enum kw_channel_kind carrier, enum kw_role role)
{
	uint32_t as = role == KW_ROLE_INSPECTOR ? KW_ROLE_AGENT : (uint32_t)role;

	return (rules->carriers == 0 || rules->carriers & 1U << carrier) &&
	       (rules->roles == 0 || rules->roles & 1U << as);
}
