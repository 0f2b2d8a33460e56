#include "catalog.h"

#include "catalog_rows.h"
#include "gateway/answers/answers.h"
#include "gateway/answers/words.h"

#include <ctype.h>
#include <string.h>

const char *const kw_flag_names[KW_FLAG_COUNT] = {"write", "readonly", "pubsub", "denyoom",
	"asking", "admin", "module", "noscript", "blocking", "loading", "stale", "skip_monitor",
	"no_async_loading", "skip_slowlog", "no_mandatory_keys", "fast", "movablekeys", "no_auth",
	"no_multi", "allow_busy"};

const char *const kw_category_names[KW_CATEGORY_COUNT] = {"keyspace", "read", "write", "set",
	"sortedset", "list", "hash", "string", "bitmap", "hyperloglog", "geo", "stream", "pubsub",
	"admin", "fast", "slow", "blocking", "dangerous", "connection", "transaction", "scripting"};

size_t kw_catalog_count(void)
{
	return kw_catalog_row_count;
}

const struct kw_catalog_row *kw_catalog_at(size_t position)
{
	assert(position < kw_catalog_row_count);
	return &kw_catalog_rows[position];
}

size_t kw_catalog_position(const struct kw_catalog_row *row)
{
	return (size_t)(row - kw_catalog_rows);
}

/* The bar comes before any letter, so that subcommands stand next to their command. */
static int rank(char letter)
{
	return letter == '|' ? 1 : tolower((unsigned char)letter);
}

static int compare_name(struct kw_slice name, const char *other)
{
	const char *text = name.data;

	for (size_t i = 0; i < name.length; i++) {
		int difference = rank(text[i]) - rank(other[i]);

		if (difference)
			return difference;
	}
	return -(other[name.length] != '\0');
}

const struct kw_catalog_row *kw_catalog_find(struct kw_slice name)
{
	size_t low = 0, high = kw_catalog_row_count;

	/* A zero byte would be taken for the end of the other name. */
	if (name.length == 0 || memchr(name.data, '\0', name.length))
		return NULL;
	while (low < high) {
		size_t middle = (low + high) / 2;
		int order = compare_name(name, kw_catalog_rows[middle].name);

		if (order == 0)
			return &kw_catalog_rows[middle];
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}

bool kw_catalog_is_subcommand(const struct kw_catalog_row *row)
{
	return strchr(row->name, '|') != NULL;
}

static bool is_below(const struct kw_catalog_row *row, const char *name, size_t length)
{
	return strncmp(row->name, name, length) == 0 && row->name[length] == '|';
}

size_t kw_catalog_subcommands(const struct kw_catalog_row *row)
{
	size_t first = kw_catalog_position(row) + 1, at = first, length = strlen(row->name);

	while (at < kw_catalog_row_count && is_below(&kw_catalog_rows[at], row->name, length))
		at++;
	return at - first;
}

const struct kw_catalog_row *kw_catalog_resolve(const struct kw_slice *words, size_t count)
{
	const struct kw_catalog_row *row = kw_catalog_find(words[0]);
	size_t subcommands;

	if (!row || count < 2 || kw_catalog_is_subcommand(row))
		return row && kw_catalog_is_subcommand(row) ? NULL : row;
	subcommands = kw_catalog_subcommands(row);
	for (size_t i = 1; i <= subcommands; i++)
		if (kw_word_is(words[1], strchr(row[i].name, '|') + 1))
			return &row[i];
	return subcommands ? NULL : row;
}

bool kw_catalog_fits(const struct kw_catalog_row *row, size_t count)
{
	if (row->arity > 0)
		return count == (size_t)row->arity;
	return count >= (size_t)-row->arity;
}

/* The servers' own rule (server.c, setImplicitACLCategories). */
uint32_t kw_catalog_categories(const struct kw_catalog_row *row)
{
	uint32_t all = row->categories;

	if (row->flags & KW_FLAG_WRITE)
		all |= 1 << KW_CATEGORY_WRITE;
	if ((row->flags & KW_FLAG_READ) && !(all & 1 << KW_CATEGORY_SCRIPTING))
		all |= 1 << KW_CATEGORY_READ;
	if (row->flags & KW_FLAG_ADMIN)
		all |= 1 << KW_CATEGORY_ADMIN | 1 << KW_CATEGORY_DANGEROUS;
	if (row->flags & KW_FLAG_PUBSUB)
		all |= 1 << KW_CATEGORY_PUBSUB;
	if (row->flags & KW_FLAG_BLOCKING)
		all |= 1 << KW_CATEGORY_BLOCKING;
	all |= row->flags & KW_FLAG_FAST ? 1 << KW_CATEGORY_FAST : 1 << KW_CATEGORY_SLOW;
	return all;
}

/* ---- keys ---- */

static void walk_range(struct kw_catalog_walk *walk, const struct kw_catalog_row *row, size_t count)
{
	int64_t last = row->last < 0 ? (int64_t)count + row->last : row->last;

	walk->step = row->step;
	walk->at = row->first;
	if (row->first == 0)
		return;
	if (last >= (int64_t)count)
		walk->malformed = true;
	else
		walk->left = last < row->first ? 0 : (last - row->first) / row->step + 1;
}

static void walk_counted(struct kw_catalog_walk *walk, const struct kw_catalog_row *row,
	const struct kw_slice *words, size_t count)
{
	int64_t keys = 0;

	walk->step = row->search == KW_KEYS_COUNTED_PAIRS ? 2 : 1;
	walk->at = row->count_at + 1;
	if (walk->at > (int64_t)count || !kw_answer_number(words[row->count_at], &keys) ||
		keys < 0 || keys > ((int64_t)count - walk->at) / walk->step)
		walk->malformed = true;
	else
		walk->left = keys;
}

/* How many words an option of XREAD or XREADGROUP takes with what follows it; 0: no option. */
static size_t stream_option(struct kw_slice word)
{
	static const struct {
		const char *name;
		size_t words;
	} options[] = {{"block", 2}, {"count", 2}, {"group", 3}, {"noack", 1}, {"claim", 2}};

	for (size_t i = 0; i < sizeof options / sizeof *options; i++)
		if (kw_word_is(word, options[i].name))
			return options[i].words;
	return 0;
}

/* The server's xreadGetKeys: a group can be called STREAMS, so options are passed over as such. */
static void walk_streams(struct kw_catalog_walk *walk, const struct kw_slice *words, size_t count)
{
	size_t at = 1, keys;

	walk->step = 1;
	walk->malformed = true;
	while (at < count && !kw_word_is(words[at], "streams")) {
		size_t taken = stream_option(words[at]);

		if (taken == 0)
			return;
		at += taken;
	}
	if (at >= count)
		return;
	keys = count - at - 1;
	walk->at = (int64_t)at + 1;
	walk->left = (int64_t)keys / 2;
	walk->malformed = keys % 2 == 1 || keys == 0;
}

/* Two stages: the range, and what is counted or named. */
static bool begin_stage(struct kw_catalog_walk *walk, const struct kw_catalog_row *row,
	const struct kw_slice *words, size_t count)
{
	if (walk->malformed || walk->stage == 2)
		return false;
	walk->left = 0;
	if (walk->stage++ == 0)
		walk_range(walk, row, count);
	else if (row->search == KW_KEYS_COUNTED || row->search == KW_KEYS_COUNTED_PAIRS)
		walk_counted(walk, row, words, count);
	else if (row->search == KW_KEYS_STREAMS)
		walk_streams(walk, words, count);
	return !walk->malformed;
}

size_t kw_catalog_next_key(struct kw_catalog_walk *walk, const struct kw_catalog_row *row,
	const struct kw_slice *words, size_t count)
{
	int64_t at;

	while (walk->left == 0)
		if (!begin_stage(walk, row, words, count))
			return 0;
	at = walk->at;
	walk->at += walk->step;
	walk->left--;
	return (size_t)at;
}
