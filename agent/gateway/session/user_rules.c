#include "user_rules.h"

#include "base/buffer.h"
#include "gateway/answers/words.h"

#include <nettle/memops.h>
#include <nettle/sha2.h>
#include <stdlib.h>
#include <string.h>

static_assert(SHA256_DIGEST_SIZE == KW_USER_HASH_BYTES, "");

static size_t bitmap_words(void)
{
	return (kw_catalog_count() + 63) / 64;
}

static char *text_of(struct kw_slice slice)
{
	char *text = kw_alloc(slice.length + 1);

	memcpy(text, slice.data, slice.length);
	text[slice.length] = '\0';
	return text;
}

/* The rest of a word after its mark. */
static struct kw_slice after(struct kw_slice word, size_t mark)
{
	return kw_slice((const char *)word.data + mark, word.length - mark);
}

void kw_user_init(struct kw_user *user, struct kw_slice name)
{
	*user = (struct kw_user){
		.name = text_of(name),
		.commands = kw_zalloc(bitmap_words() * sizeof *user->commands),
	};
}

static void forget_patterns(struct kw_user *user)
{
	for (size_t i = 0; i < user->pattern_count; i++)
		free(user->patterns[i].text);
	user->pattern_count = 0;
	user->all_keys = false;
}

static void forget_channels(struct kw_user *user)
{
	for (size_t i = 0; i < user->channel_count; i++)
		free(user->channels[i]);
	user->channel_count = 0;
	user->all_channels = false;
}

void kw_user_close(struct kw_user *user)
{
	forget_patterns(user);
	forget_channels(user);
	free(user->channels);
	free(user->patterns);
	free(user->passwords);
	free(user->commands);
	free(user->name);
	*user = (struct kw_user){0};
}

/* ---- passwords ---- */

void kw_user_hash(struct kw_slice password, uint8_t hash[KW_USER_HASH_BYTES])
{
	struct sha256_ctx context;

	sha256_init(&context);
	sha256_update(&context, password.length, password.data);
	sha256_digest(&context, KW_USER_HASH_BYTES, hash);
}

static int hex_digit(char digit)
{
	if (digit >= '0' && digit <= '9')
		return digit - '0';
	return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

static int read_hash(
	struct kw_slice digits, uint8_t hash[KW_USER_HASH_BYTES], struct kw_error *error)
{
	const char *text = digits.data;
	bool valid = digits.length == 2 * (size_t)KW_USER_HASH_BYTES;

	for (size_t i = 0; valid && i < KW_USER_HASH_BYTES; i++) {
		int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);

		valid = high >= 0 && low >= 0;
		if (valid)
			hash[i] = (uint8_t)(high << 4 | low);
	}
	if (valid)
		return 0;
	return kw_error_set(error, KW_E_CONFIG,
		"a hash is 64 lowercase hexadecimal digits: printf %%s PASSWORD | sha256sum");
}

static size_t find_password(const struct kw_user *user, const uint8_t hash[KW_USER_HASH_BYTES])
{
	size_t at = 0;

	while (at < user->password_count &&
		!memeql_sec(user->passwords[at].hash, hash, KW_USER_HASH_BYTES))
		at++;
	return at;
}

static int add_password(
	struct kw_user *user, const uint8_t hash[KW_USER_HASH_BYTES], struct kw_error *error)
{
	user->any_password = false;
	if (find_password(user, hash) < user->password_count)
		return 0;
	if (user->password_count == KW_USER_PASSWORDS_MAX)
		return kw_error_set(error, KW_E_CONFIG,
			"a user has at most %d passwords: take old ones out",
			KW_USER_PASSWORDS_MAX);
	user->passwords =
		kw_realloc(user->passwords, (user->password_count + 1) * sizeof *user->passwords);
	memcpy(user->passwords[user->password_count++].hash, hash, KW_USER_HASH_BYTES);
	return 0;
}

static int drop_password(
	struct kw_user *user, const uint8_t hash[KW_USER_HASH_BYTES], struct kw_error *error)
{
	size_t at = find_password(user, hash);

	if (at == user->password_count)
		return kw_error_set(error, KW_E_CONFIG,
			"the user does not have the password that this takes away: take the word "
			"out");
	user->passwords[at] = user->passwords[--user->password_count];
	return 0;
}

static int password_rule(struct kw_user *user, struct kw_slice word, struct kw_error *error)
{
	char mark = *(const char *)word.data;
	uint8_t hash[KW_USER_HASH_BYTES];
	int code = 0;

	if (mark == '#' || mark == '!')
		code = read_hash(after(word, 1), hash, error);
	else
		kw_user_hash(after(word, 1), hash);
	if (code)
		return code;
	return mark == '>' || mark == '#' ? add_password(user, hash, error)
					  : drop_password(user, hash, error);
}

/* ---- keys ---- */

static int add_pattern(
	struct kw_user *user, struct kw_slice pattern, uint8_t access, struct kw_error *error)
{
	if (user->all_keys)
		return kw_error_set(error, KW_E_CONFIG,
			"a pattern after allkeys or ~* has no effect: put resetkeys before it");
	if (kw_slice_equal(pattern, kw_slice("*", 1)) && access == (KW_KEY_READ | KW_KEY_WRITE)) {
		user->all_keys = true;
		return 0;
	}
	if (user->pattern_count == KW_USER_PATTERNS_MAX)
		return kw_error_set(error, KW_E_CONFIG, "a user has at most %d patterns of keys",
			KW_USER_PATTERNS_MAX);
	user->patterns =
		kw_realloc(user->patterns, (user->pattern_count + 1) * sizeof *user->patterns);
	user->patterns[user->pattern_count++] = (struct kw_user_pattern){text_of(pattern), access};
	return 0;
}

/* %R~pattern, %W~pattern, %RW~pattern. */
static int access_rule(struct kw_user *user, struct kw_slice word, struct kw_error *error)
{
	const char *text = word.data;
	uint8_t access = 0;
	size_t at = 1;

	for (; at < word.length && text[at] != '~'; at++) {
		uint8_t one = 0;

		if (text[at] == 'R' || text[at] == 'r')
			one = KW_KEY_READ;
		else if (text[at] == 'W' || text[at] == 'w')
			one = KW_KEY_WRITE;
		if (one == 0 || access & one)
			break;
		access |= one;
	}
	if (at == word.length || text[at] != '~' || access == 0)
		return kw_error_set(error, KW_E_CONFIG,
			"what may be done with keys is written %%R~PATTERN, %%W~PATTERN or "
			"%%RW~PATTERN");
	return add_pattern(user, after(word, at + 1), access, error);
}

/* ---- channels ---- */

static void rule_allchannels(struct kw_user *user)
{
	forget_channels(user);
	user->all_channels = true;
}

static int channel_rule(struct kw_user *user, struct kw_slice pattern, struct kw_error *error)
{
	if (user->all_channels)
		return kw_error_set(error, KW_E_CONFIG,
			"a pattern after allchannels or &* has no effect: put resetchannels before "
			"it");
	if (kw_slice_equal(pattern, kw_slice("*", 1))) {
		rule_allchannels(user);
		return 0;
	}
	if (user->channel_count == KW_USER_CHANNELS_MAX)
		return kw_error_set(error, KW_E_CONFIG,
			"a user has at most %d patterns of channels", KW_USER_CHANNELS_MAX);
	user->channels =
		kw_realloc(user->channels, (user->channel_count + 1) * sizeof *user->channels);
	user->channels[user->channel_count++] = text_of(pattern);
	return 0;
}

/* ---- commands ---- */

static void set_command(struct kw_user *user, size_t row, bool allowed)
{
	uint64_t bit = UINT64_C(1) << row % 64;

	if (allowed)
		user->commands[row / 64] |= bit;
	else
		user->commands[row / 64] &= ~bit;
}

static void set_category(struct kw_user *user, uint32_t categories, bool allowed)
{
	for (size_t i = 0; i < kw_catalog_count(); i++)
		if (kw_catalog_categories(kw_catalog_at(i)) & categories)
			set_command(user, i, allowed);
}

static int category_rule(
	struct kw_user *user, struct kw_slice name, bool allowed, struct kw_error *error)
{
	if (kw_word_is(name, "all")) {
		set_category(user, UINT32_MAX, allowed);
		return 0;
	}
	for (unsigned i = 0; i < KW_CATEGORY_COUNT; i++)
		if (kw_word_is(name, kw_category_names[i])) {
			set_category(user, 1U << i, allowed);
			return 0;
		}
	return kw_error_set(error, KW_E_CONFIG,
		"no such category of commands; those of ACL CAT are known, and all");
}

static int command_rule(struct kw_user *user, struct kw_slice word, struct kw_error *error)
{
	bool allowed = *(const char *)word.data == '+';
	struct kw_slice name = after(word, 1);
	const struct kw_catalog_row *row;
	size_t first;

	if (name.length > 0 && *(const char *)name.data == '@')
		return category_rule(user, after(name, 1), allowed, error);
	row = kw_catalog_find(name);
	if (!row)
		return kw_error_set(error, KW_E_CONFIG,
			"the gateway knows no such command or subcommand: take the word out");
	first = kw_catalog_position(row);
	for (size_t i = 0; i <= kw_catalog_subcommands(row); i++)
		set_command(user, first + i, allowed);
	return 0;
}

/* ---- words that stand for themselves ---- */

static void rule_on(struct kw_user *user)
{
	user->enabled = true;
}

static void rule_off(struct kw_user *user)
{
	user->enabled = false;
}

static void rule_resetpass(struct kw_user *user)
{
	user->password_count = 0;
	user->any_password = false;
}

static void rule_nopass(struct kw_user *user)
{
	rule_resetpass(user);
	user->any_password = true;
}

static void rule_allkeys(struct kw_user *user)
{
	forget_patterns(user);
	user->all_keys = true;
}

static void rule_allcommands(struct kw_user *user)
{
	set_category(user, UINT32_MAX, true);
}

static void rule_nocommands(struct kw_user *user)
{
	set_category(user, UINT32_MAX, false);
}

static void rule_reset(struct kw_user *user)
{
	rule_off(user);
	rule_resetpass(user);
	forget_patterns(user);
	forget_channels(user);
	rule_nocommands(user);
}

/* Payloads and selectors: the gateway has nothing that they could change. */
static void rule_without_effect(struct kw_user *user)
{
}

static const struct {
	const char *word;
	void (*follow)(struct kw_user *user);
} words[] = {
	{"on", rule_on},
	{"off", rule_off},
	{"nopass", rule_nopass},
	{"resetpass", rule_resetpass},
	{"allkeys", rule_allkeys},
	{"resetkeys", forget_patterns},
	{"allcommands", rule_allcommands},
	{"nocommands", rule_nocommands},
	{"reset", rule_reset},
	{"allchannels", rule_allchannels},
	{"resetchannels", forget_channels},
	{"sanitize-payload", rule_without_effect},
	{"skip-sanitize-payload", rule_without_effect},
	{"clearselectors", rule_without_effect},
};

int kw_user_rule(struct kw_user *user, struct kw_slice word, struct kw_error *error)
{
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (kw_word_is(word, words[i].word)) {
			words[i].follow(user);
			return 0;
		}
	switch (word.length > 0 ? *(const char *)word.data : '\0') {
	case '>':
	case '<':
	case '#':
	case '!':
		return password_rule(user, word, error);
	case '~':
		return add_pattern(user, after(word, 1), KW_KEY_READ | KW_KEY_WRITE, error);
	case '%':
		return access_rule(user, word, error);
	case '+':
	case '-':
		return command_rule(user, word, error);
	case '&':
		return channel_rule(user, after(word, 1), error);
	case '(':
		return kw_error_set(error, KW_E_CONFIG,
			"the gateway does not know selectors: make a user of its own for them");
	}
	return kw_error_set(error, KW_E_CONFIG,
		"no such rule; keywake-gateway(8) lists them, and a password begins with >");
}
