#include "permission.h"

#include "gateway/answers/words.h"

#include <string.h>

#define BOTH (KW_KEY_READ | KW_KEY_WRITE)

static bool has_command(const struct kw_user *user, size_t row)
{
	return user->commands[row / 64] >> row % 64 & 1;
}

bool kw_user_may_all(const struct kw_user *user)
{
	if (!user->all_keys)
		return false;
	for (size_t i = 0; i < kw_catalog_count(); i++)
		if (!has_command(user, i))
			return false;
	return true;
}

static bool has_key(const struct kw_user *user, struct kw_slice key, uint8_t access)
{
	for (size_t i = 0; i < user->pattern_count; i++) {
		const struct kw_user_pattern *pattern = &user->patterns[i];

		if ((pattern->access & access) == access &&
			kw_word_matches(key, kw_slice_text(pattern->text)))
			return true;
	}
	return false;
}

/* An option that names further keys, which the catalog does not know. */
static bool names_more(const struct kw_slice *words, size_t count)
{
	static const char *const options[] = {"store", "storedist", "by", "get", "keys"};

	for (size_t at = 2; at < count; at++)
		for (size_t i = 0; i < sizeof options / sizeof *options; i++)
			if (kw_word_is(words[at], options[i]))
				return true;
	return false;
}

static bool has_keys(const struct kw_user *user, const struct kw_catalog_row *row,
	const struct kw_slice *words, size_t count)
{
	uint8_t access = row->flags & KW_FLAG_READ ? KW_KEY_READ : BOTH;
	struct kw_catalog_walk walk = {0};
	size_t at;

	while ((at = kw_catalog_next_key(&walk, row, words, count)) > 0)
		if (!has_key(user, words[at], access))
			return false;
	if (walk.malformed)
		return false;
	return row->search != KW_KEYS_UNSURE || !names_more(words, count);
}

/* EVAL, EVALSHA, FCALL: what they do is in the script. */
static bool runs_script(const struct kw_catalog_row *row)
{
	const uint32_t scripting = 1U << KW_CATEGORY_SCRIPTING;

	return row->search == KW_KEYS_COUNTED && row->categories & scripting;
}

/*
 * The primary does not know the client's user. So a script can do all that scripts can do, to every
 * key: who may not do all of that may not run one. A read-only script can only read.
 */
static enum kw_permission may_run_script(
	const struct kw_user *user, const struct kw_catalog_row *script)
{
	const uint32_t does =
		script->flags & KW_FLAG_READ ? KW_FLAG_READ : KW_FLAG_READ | KW_FLAG_WRITE;

	if (!user->all_keys)
		return KW_PERMITTED_NOT_KEYS;
	for (size_t i = 0; i < kw_catalog_count(); i++) {
		const struct kw_catalog_row *row = kw_catalog_at(i);

		if (row->flags & does && !(row->flags & (KW_FLAG_NOSCRIPT | KW_FLAG_ADMIN)) &&
			!has_command(user, i))
			return KW_PERMITTED_NOT_COMMAND;
	}
	return does & KW_FLAG_WRITE && !user->all_channels ? KW_PERMITTED_NOT_CHANNEL
							   : KW_PERMITTED;
}

/* Their first word after the name is a channel. */
static bool publishes(const struct kw_catalog_row *row)
{
	return strcmp(row->name, "publish") == 0 || strcmp(row->name, "spublish") == 0;
}

static bool has_channel(const struct kw_user *user, struct kw_slice channel)
{
	for (size_t i = 0; i < user->channel_count; i++)
		if (kw_word_matches(channel, kw_slice_text(user->channels[i])))
			return true;
	return user->all_channels;
}

enum kw_permission kw_user_may(const struct kw_user *user, const struct kw_catalog_row *row,
	const struct kw_slice *words, size_t count)
{
	if (row->flags & KW_FLAG_NOAUTH)
		return KW_PERMITTED;
	if (!has_command(user, kw_catalog_position(row)))
		return KW_PERMITTED_NOT_COMMAND;
	if (runs_script(row))
		return may_run_script(user, row);
	if (publishes(row)) /* a channel of SPUBLISH is no key, although it has a slot */
		return has_channel(user, words[1]) ? KW_PERMITTED : KW_PERMITTED_NOT_CHANNEL;
	if (user->all_keys || has_keys(user, row, words, count))
		return KW_PERMITTED;
	return KW_PERMITTED_NOT_KEYS;
}
