#include "own_keys.h"

#include "base/hash.h"
#include "gateway/answers/command.h"
#include "gateway/answers/words.h"
#include "gateway/session/catalog.h"

/* Two keys with one hash are one key here: no harm is done by that, so no seed is needed. */
static void add(struct kw_own_keys *keys, uint32_t database, struct kw_slice key)
{
	if (keys->count == KW_OWN_REQUEST_KEYS)
		keys->all = true;
	else
		keys->hashes[keys->count++] = kw_hash_key(0, database, key.data, key.length);
}

/* Can it write what the catalog does not call a key of it, or in another database? */
static bool writes_others(const struct kw_catalog_row *row, const struct kw_slice *words)
{
	if (row->search == KW_KEYS_UNSURE || (row->categories & 1 << KW_CATEGORY_SCRIPTING))
		return true;
	return kw_word_is(words[0], "copy") || kw_word_is(words[0], "move");
}

void kw_own_keys_written(
	const struct kw_slice *words, size_t count, uint32_t database, struct kw_own_keys *keys)
{
	const struct kw_catalog_row *row = kw_catalog_resolve(words, count);
	struct kw_catalog_walk walk = {0};
	size_t at;

	keys->count = 0;
	keys->all = !row || writes_others(row, words);
	while (!keys->all && (at = kw_catalog_next_key(&walk, row, words, count)) > 0)
		add(keys, database, words[at]);
	if (walk.malformed || keys->count == 0)
		keys->all = true;
}

void kw_own_keys_read(
	const struct kw_slice *words, size_t count, uint32_t database, struct kw_own_keys *keys)
{
	const struct kw_command *command = kw_command_find(words[0]);
	size_t wanted = command ? kw_command_keys(command, count) : 0;

	keys->count = 0;
	keys->all = wanted == 0;
	for (size_t i = 0; i < wanted && !keys->all; i++)
		add(keys, database, words[(size_t)command->first_key + i]);
}
