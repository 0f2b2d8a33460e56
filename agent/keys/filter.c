#include "filter.h"

#include "base/buffer.h"
#include "base/hash.h"

#include <stdio.h>
#include <stdlib.h>

int kw_filter_add_database(struct kw_filter *filter, int64_t database, struct kw_error *error)
{
	if (database < 0 || database > KW_DATABASE_MAX)
		return kw_error_set(error, KW_E_CONFIG,
			"filter.databases: %lld is no database number (0 to %d)",
			(long long)database, KW_DATABASE_MAX);
	if (!filter->databases)
		filter->databases = kw_zalloc(KW_FILTER_DATABASE_WORDS * sizeof(uint64_t));
	filter->databases[database / 64] |= UINT64_C(1) << (database % 64);
	return KW_OK;
}

int kw_filter_add_prefix(struct kw_filter *filter, const char *prefix, struct kw_error *error)
{
	size_t count = filter->prefix_count;

	if (count == KW_FILTER_PREFIXES_MAX)
		return kw_error_set(error, KW_E_CONFIG,
			"filter.prefixes: more than %d prefixes; shorten the list",
			KW_FILTER_PREFIXES_MAX);
	if (!*prefix)
		return kw_error_set(error, KW_E_CONFIG,
			"filter.prefixes: an empty prefix matches every key; remove the list "
			"instead");
	filter->prefixes = kw_realloc(filter->prefixes, (count + 1) * sizeof *filter->prefixes);
	filter->prefixes[count] = kw_slice_text(kw_strdup(prefix));
	filter->prefix_count++;
	return KW_OK;
}

void kw_filter_close(struct kw_filter *filter)
{
	for (size_t i = 0; i < filter->prefix_count; i++)
		free((void *)(uintptr_t)filter->prefixes[i].data);
	free(filter->prefixes);
	free(filter->databases);
	*filter = (struct kw_filter){0};
}

bool kw_filter_has_key(const struct kw_filter *filter, struct kw_slice key)
{
	if (filter->prefix_count == 0)
		return true;
	for (size_t i = 0; i < filter->prefix_count; i++) {
		struct kw_slice prefix = filter->prefixes[i];

		if (key.length >= prefix.length &&
			memcmp(key.data, prefix.data, prefix.length) == 0)
			return true;
	}
	return false;
}

/* Sums, so that the order in which they were named does not matter. */
uint64_t kw_filter_hash(const struct kw_filter *filter)
{
	uint64_t hash = 0;

	for (uint32_t i = 0; filter->databases && i < KW_FILTER_DATABASE_WORDS; i++)
		if (filter->databases[i])
			hash += kw_hash_key(0, i, &filter->databases[i], sizeof(uint64_t));
	for (size_t i = 0; i < filter->prefix_count; i++)
		hash += kw_hash_key(1, 0, filter->prefixes[i].data, filter->prefixes[i].length);
	return hash == 0 && (filter->databases || filter->prefix_count > 0) ? 1 : hash;
}

static bool is_inside(const struct kw_filter *filter, const struct kw_scope *scope)
{
	for (uint32_t i = 0; i <= KW_DATABASE_MAX; i++)
		if (kw_filter_has_database(filter, i) && !kw_scope_allows_database(scope, i))
			return false;
	if (filter->prefix_count == 0)
		return kw_scope_allows_prefix(scope, (struct kw_slice){0});
	for (size_t i = 0; i < filter->prefix_count; i++)
		if (!kw_scope_allows_prefix(scope, filter->prefixes[i]))
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
		"and filter.prefixes to that, or to a part of it",
		(int)(kw_buffer_length(&text) > 160 ? 160 : kw_buffer_length(&text)),
		(const char *)kw_buffer_bytes(&text), kw_buffer_length(&text) > 160 ? " …" : "");
	kw_buffer_close(&text);
	return code;
}

/* Append to text what fits; returns the new length. */
static size_t append(char *text, size_t size, size_t at, const char *word, const char *separator)
{
	int length = snprintf(text + at, size - at, "%s%s", separator, word);

	at += (size_t)length;
	return at < size ? at : size - 1;
}

static size_t describe_databases(const struct kw_filter *filter, char *text, size_t size)
{
	const char *separator = "databases ";
	size_t at = 0;
	char number[16];

	for (uint32_t i = 0; filter->databases && i <= KW_DATABASE_MAX; i++) {
		if (!kw_filter_has_database(filter, i))
			continue;
		snprintf(number, sizeof number, "%u", i);
		at = append(text, size, at, number, separator);
		separator = ", ";
	}
	return at;
}

void kw_filter_describe(const struct kw_filter *filter, char *text, size_t size)
{
	const char *separator;
	size_t at;

	text[0] = '\0';
	at = describe_databases(filter, text, size);
	separator = at ? "; prefixes " : "prefixes ";
	for (size_t i = 0; i < filter->prefix_count; i++) {
		at = append(text, size, at, filter->prefixes[i].data, separator);
		separator = ", ";
	}
	if (at == 0)
		append(text, size, 0, "every key", "");
}
