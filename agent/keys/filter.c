#include "filter.h"

#include "glob.h"

#include "base/buffer.h"
#include "base/hash.h"

#include <stdio.h>
#include <stdlib.h>

/* What each kind of entry is hashed with. The numbers lie in servers. naming.c has the next ones.
 */
enum seed { SEED_DATABASES = 0, SEED_PREFIX = 1, SEED_PATTERN = 2, SEED_EXCLUDED = 3 };

#define DATABASES_BYTES (KW_FILTER_DATABASE_WORDS * sizeof(uint64_t))

/* ---- databases ---- */

static int check_database(int64_t database, const char *path, struct kw_error *error)
{
	if (database >= 0 && database <= KW_DATABASE_MAX)
		return KW_OK;
	return kw_error_set(error, KW_E_CONFIG, "%s: %lld is no database number (0 to %d)", path,
		(long long)database, KW_DATABASE_MAX);
}

int kw_filter_add_database(struct kw_filter *filter, int64_t database, struct kw_error *error)
{
	int code = check_database(database, "filter.databases", error);

	if (code)
		return code;
	if (!filter->databases)
		filter->databases = kw_zalloc(DATABASES_BYTES);
	filter->databases[database / 64] |= UINT64_C(1) << (database % 64);
	return KW_OK;
}

static uint32_t count_databases(const struct kw_filter *filter)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < KW_FILTER_DATABASE_WORDS; i++)
		count += (uint32_t)__builtin_popcountll(filter->databases[i]);
	return count;
}

int kw_filter_exclude_database(struct kw_filter *filter, int64_t database, struct kw_error *error)
{
	int code = check_database(database, "filter.exclude_databases", error);

	if (code)
		return code;
	if (!filter->databases)
		filter->databases = memset(kw_zalloc(DATABASES_BYTES), 0xff, DATABASES_BYTES);
	filter->databases[database / 64] &= ~(UINT64_C(1) << (database % 64));
	if (count_databases(filter) > 0)
		return KW_OK;
	return kw_error_set(error, KW_E_CONFIG,
		"filter.exclude_databases: no database is left to follow: exclude fewer");
}

/* ---- keys ---- */

static bool has_text(const struct kw_filter_list *list, struct kw_slice text)
{
	for (size_t i = 0; i < list->count; i++)
		if (kw_slice_equal(list->texts[i], text))
			return true;
	return false;
}

static void add_text(struct kw_filter_list *list, const char *text)
{
	list->texts = kw_realloc(list->texts, (list->count + 1) * sizeof *list->texts);
	list->texts[list->count++] = kw_slice_text(kw_strdup(text));
}

static void close_list(struct kw_filter_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free((void *)(uintptr_t)list->texts[i].data);
	free(list->texts);
}

int kw_filter_add_prefix(struct kw_filter *filter, const char *prefix, struct kw_error *error)
{
	if (filter->prefixes.count == KW_FILTER_PREFIXES_MAX)
		return kw_error_set(error, KW_E_CONFIG,
			"filter.prefixes: more than %d prefixes; shorten the list",
			KW_FILTER_PREFIXES_MAX);
	if (!*prefix)
		return kw_error_set(error, KW_E_CONFIG,
			"filter.prefixes: an empty prefix matches every key; remove the list "
			"instead");
	/* Also a second time: the hash has always counted both. */
	add_text(&filter->prefixes, prefix);
	return KW_OK;
}

/* everything: what a pattern that matches every key would mean. */
static int add_pattern(struct kw_filter_list *list, const char *path, const char *pattern,
	const char *everything, struct kw_error *error)
{
	int code = kw_glob_check(pattern, error);

	if (code)
		return kw_error_wrap(error, "%s", path);
	if (kw_glob_is_everything(kw_slice_text(pattern)))
		return kw_error_set(error, KW_E_CONFIG, "%s: %s matches every key: %s", path,
			pattern, everything);
	if (has_text(list, kw_slice_text(pattern)))
		return KW_OK;
	if (list->count == KW_FILTER_PATTERNS_MAX)
		return kw_error_set(error, KW_E_CONFIG,
			"%s: more than %d patterns, and each is tried for each key: shorten the "
			"list",
			path, KW_FILTER_PATTERNS_MAX);
	add_text(list, pattern);
	return KW_OK;
}

int kw_filter_add_pattern(struct kw_filter *filter, const char *pattern, struct kw_error *error)
{
	return add_pattern(&filter->patterns, "filter.patterns", pattern,
		"remove the list, and filter.prefixes, instead", error);
}

int kw_filter_exclude(struct kw_filter *filter, const char *pattern, struct kw_error *error)
{
	return add_pattern(&filter->excluded, "filter.exclude", pattern,
		"none would be left to follow", error);
}

void kw_filter_close(struct kw_filter *filter)
{
	close_list(&filter->prefixes);
	close_list(&filter->patterns);
	close_list(&filter->excluded);
	kw_naming_close(&filter->names);
	free(filter->databases);
	*filter = (struct kw_filter){0};
}

static bool has_prefix(const struct kw_filter_list *prefixes, struct kw_slice key)
{
	for (size_t i = 0; i < prefixes->count; i++)
		if (kw_naming_begins_with(key, prefixes->texts[i]))
			return true;
	return false;
}

static bool matches_one(const struct kw_filter_list *patterns, struct kw_slice key)
{
	for (size_t i = 0; i < patterns->count; i++)
		if (kw_glob_matches(patterns->texts[i], key))
			return true;
	return false;
}

bool kw_filter_has_key(const struct kw_filter *filter, struct kw_slice key)
{
	bool named = (filter->prefixes.count == 0 && filter->patterns.count == 0) ||
		     has_prefix(&filter->prefixes, key) || matches_one(&filter->patterns, key);

	return named && !matches_one(&filter->excluded, key);
}

/* ---- the hash ---- */

static uint64_t hash_of_list(const struct kw_filter_list *list, enum seed seed)
{
	uint64_t hash = 0;

	for (size_t i = 0; i < list->count; i++)
		hash += kw_hash_key(seed, 0, list->texts[i].data, list->texts[i].length);
	return hash;
}

/* Sums, so that the order in which they were named does not matter. */
uint64_t kw_filter_hash(const struct kw_filter *filter)
{
	uint64_t hash = hash_of_list(&filter->prefixes, SEED_PREFIX) +
			hash_of_list(&filter->patterns, SEED_PATTERN) +
			hash_of_list(&filter->excluded, SEED_EXCLUDED) +
			kw_naming_hash(&filter->names);

	for (uint32_t i = 0; filter->databases && i < KW_FILTER_DATABASE_WORDS; i++)
		if (filter->databases[i])
			hash += kw_hash_key(
				SEED_DATABASES, i, &filter->databases[i], sizeof(uint64_t));
	return hash == 0 && !kw_filter_is_everything(filter) ? 1 : hash;
}

/* ---- the scope ---- */

/* All keys that a pattern matches begin as it does, up to its first special byte. */
static bool is_pattern_inside(struct kw_slice pattern, const struct kw_scope *scope)
{
	struct kw_buffer bytes = {0};
	bool inside;

	kw_glob_beginning(pattern, &bytes);
	inside = kw_scope_allows_prefix(
		scope, kw_slice(kw_buffer_bytes(&bytes), kw_buffer_length(&bytes)));
	kw_buffer_close(&bytes);
	return inside;
}

static bool is_inside(const struct kw_filter *filter, const struct kw_scope *scope)
{
	for (uint32_t i = 0; i <= KW_DATABASE_MAX; i++)
		if (kw_filter_has_database(filter, i) && !kw_scope_allows_database(scope, i))
			return false;
	if (filter->prefixes.count == 0 && filter->patterns.count == 0)
		return kw_scope_allows_prefix(scope, (struct kw_slice){0});
	for (size_t i = 0; i < filter->prefixes.count; i++)
		if (!kw_scope_allows_prefix(scope, filter->prefixes.texts[i]))
			return false;
	for (size_t i = 0; i < filter->patterns.count; i++)
		if (!is_pattern_inside(filter->patterns.texts[i], scope))
			return false;
	return true;
}

int kw_filter_check_scope(
	const struct kw_filter *filter, const struct kw_scope *scope, struct kw_error *error)
{
	struct kw_buffer text = {0};
	int code = KW_OK;

	if (is_inside(filter, scope))
		return KW_OK;
	kw_scope_write(scope, &text);
	code = kw_error_set(error, KW_E_REFUSED,
		"the proxy shows this key a part of the table only (%.*s%s): set filter.databases "
		"and filter.prefixes to that, or to a part of it%s",
		(int)(kw_buffer_length(&text) > 160 ? 160 : kw_buffer_length(&text)),
		(const char *)kw_buffer_bytes(&text), kw_buffer_length(&text) > 160 ? " …" : "",
		filter->patterns.count > 0 ? "; filter.patterns must begin with such a prefix"
					   : "");
	kw_buffer_close(&text);
	return code;
}

/* ---- the words ---- */

struct words {
	char *text;
	size_t size, length;
};

/* Append what fits. */
static void append(struct words *words, const char *separator, const char *word)
{
	size_t room = words->size - words->length;
	int length = snprintf(words->text + words->length, room, "%s%s", separator, word);

	words->length = (size_t)length < room ? words->length + (size_t)length : words->size - 1;
}

/* Those that are left out, if they are fewer. */
static void describe_databases(struct words *words, const struct kw_filter *filter)
{
	bool most = count_databases(filter) > (KW_DATABASE_MAX + 1) / 2;
	const char *separator = "";
	char number[16];

	append(words, "", most ? "databases all but " : "databases ");
	for (uint32_t i = 0; i <= KW_DATABASE_MAX; i++) {
		if (kw_filter_has_database(filter, i) == most)
			continue;
		snprintf(number, sizeof number, "%u", i);
		append(words, separator, number);
		separator = ", ";
	}
}

static void describe_list(
	struct words *words, const struct kw_filter_list *list, const char *heading)
{
	if (list->count > 0)
		append(words, words->length > 0 ? "; " : "", heading);
	for (size_t i = 0; i < list->count; i++)
		append(words, i > 0 ? ", " : "", list->texts[i].data);
}

static void describe_names(struct words *words, const struct kw_naming *names)
{
	char rule[32];

	for (size_t i = 0; i < names->database_count; i++) {
		snprintf(rule, sizeof rule, "database %u as %u", names->databases[i].table,
			names->databases[i].local);
		append(words, words->length > 0 ? "; " : "", rule);
	}
	for (size_t i = 0; i < names->prefix_count; i++) {
		append(words, words->length > 0 ? "; " : "", names->prefixes[i].table.data);
		append(words, "* as ", names->prefixes[i].local.data);
		append(words, "*", "");
	}
}

void kw_filter_describe(const struct kw_filter *filter, char *text, size_t size)
{
	struct words words = {text, size, 0};

	text[0] = '\0';
	if (filter->databases)
		describe_databases(&words, filter);
	describe_list(&words, &filter->prefixes, "prefixes ");
	describe_list(&words, &filter->patterns, "patterns ");
	describe_list(&words, &filter->excluded, "without ");
	describe_names(&words, &filter->names);
	if (words.length == 0)
		append(&words, "", "every key");
}
