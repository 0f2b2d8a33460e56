#include "auth/scope.h"

#include "base/hex.h"

#include <stdlib.h>
#include <string.h>

#define DATABASE_MAX 65535

void kw_scope_close(struct kw_scope *scope)
{
	for (size_t i = 0; i < scope->prefix_count; i++)
		free((void *)(uintptr_t)scope->prefixes[i].data);
	free(scope->prefixes);
	*scope = (struct kw_scope){0};
}

/* ---- databases ---- */

static int add_database(struct kw_scope *scope, struct kw_slice text, struct kw_error *error)
{
	const char *digits = text.data;
	uint32_t number = 0;
	size_t at = scope->database_count;

	if (text.length == 0 || text.length > 5)
		return kw_error_set(error, KW_E_CONFIG,
			"a database is a number up to %d: databases=0,2", DATABASE_MAX);
	for (size_t i = 0; i < text.length; i++) {
		if (digits[i] < '0' || digits[i] > '9')
			return kw_error_set(error, KW_E_CONFIG,
				"a database is a number up to %d: databases=0,2", DATABASE_MAX);
		number = number * 10 + (uint32_t)(digits[i] - '0');
	}
	if (number > DATABASE_MAX)
		return kw_error_set(
			error, KW_E_CONFIG, "there is no database above %d", DATABASE_MAX);
	if (at == KW_SCOPE_DATABASES_MAX)
		return kw_error_set(error, KW_E_CONFIG,
			"there are more than %d databases: leave the word out for all of them",
			KW_SCOPE_DATABASES_MAX);
	while (at > 0 && scope->databases[at - 1] > number)
		at--;
	if (at > 0 && scope->databases[at - 1] == number)
		return kw_error_set(error, KW_E_CONFIG, "database %u is named twice", number);
	memmove(scope->databases + at + 1, scope->databases + at,
		(scope->database_count - at) * sizeof *scope->databases);
	scope->databases[at] = (uint16_t)number;
	scope->database_count++;
	return KW_OK;
}

int kw_scope_set_databases(struct kw_scope *scope, struct kw_slice text, struct kw_error *error)
{
	const char *at = text.data, *end = at + text.length;

	if (scope->database_count > 0)
		return kw_error_set(error, KW_E_CONFIG,
			"there are databases already: name them in one word, databases=0,2");
	for (;;) {
		const char *stop = at < end ? memchr(at, ',', (size_t)(end - at)) : NULL;

		if (add_database(scope, kw_slice(at, (size_t)((stop ? stop : end) - at)), error))
			return KW_E_CONFIG;
		if (!stop)
			return KW_OK;
		at = stop + 1;
	}
}

/* ---- prefixes ---- */

/* Into `bytes`, which has room for text.length. */
static int decode(struct kw_slice text, uint8_t *bytes, size_t *length, struct kw_error *error)
{
	const char *from = text.data;

	*length = 0;
	for (size_t i = 0; i < text.length; i++) {
		int high, low;

		if (from[i] != '%') {
			bytes[(*length)++] = (uint8_t)from[i];
			continue;
		}
		high = i + 2 < text.length ? kw_hex_digit(from[i + 1]) : -1;
		low = high < 0 ? -1 : kw_hex_digit(from[i + 2]);
		if (low < 0)
			return kw_error_set(error, KW_E_CONFIG,
				"two hexadecimal digits must follow a %%: %%25 stands for a %% "
				"itself");
		bytes[(*length)++] = (uint8_t)(high << 4 | low);
		i += 2;
	}
	return KW_OK;
}

static int order(struct kw_slice a, struct kw_slice b)
{
	size_t common = a.length < b.length ? a.length : b.length;
	int by_bytes = memcmp(a.data, b.data, common);

	return by_bytes ? by_bytes : (a.length > b.length) - (a.length < b.length);
}

static int insert_prefix(struct kw_scope *scope, struct kw_slice prefix, struct kw_error *error)
{
	size_t at = scope->prefix_count;
	uint8_t *own;

	while (at > 0 && order(scope->prefixes[at - 1], prefix) > 0)
		at--;
	if (at > 0 && order(scope->prefixes[at - 1], prefix) == 0)
		return kw_error_set(error, KW_E_CONFIG, "a prefix is named twice");
	scope->prefixes =
		kw_realloc(scope->prefixes, (scope->prefix_count + 1) * sizeof *scope->prefixes);
	memmove(scope->prefixes + at + 1, scope->prefixes + at,
		(scope->prefix_count - at) * sizeof *scope->prefixes);
	own = kw_alloc(prefix.length);
	memcpy(own, prefix.data, prefix.length);
	scope->prefixes[at] = kw_slice(own, prefix.length);
	scope->prefix_count++;
	return KW_OK;
}

int kw_scope_add_prefix(struct kw_scope *scope, struct kw_slice text, struct kw_error *error)
{
	uint8_t bytes[3 * KW_SCOPE_PREFIX_MAX];
	size_t length;

	if (text.length == 0)
		return kw_error_set(error, KW_E_CONFIG,
			"every key begins with an empty prefix: leave the word out");
	if (scope->prefix_count == KW_SCOPE_PREFIXES_MAX)
		return kw_error_set(error, KW_E_CONFIG, "there are more than %d prefixes",
			KW_SCOPE_PREFIXES_MAX);
	if (text.length <= sizeof bytes && decode(text, bytes, &length, error))
		return KW_E_CONFIG;
	if (text.length > sizeof bytes || length > KW_SCOPE_PREFIX_MAX)
		return kw_error_set(
			error, KW_E_CONFIG, "a prefix has at most %d bytes", KW_SCOPE_PREFIX_MAX);
	return insert_prefix(scope, kw_slice(bytes, length), error);
}

/* ---- asking ---- */

bool kw_scope_allows_database(const struct kw_scope *scope, uint32_t database)
{
	for (size_t i = 0; i < scope->database_count; i++)
		if (scope->databases[i] == database)
			return true;
	return scope->database_count == 0;
}

bool kw_scope_allows_prefix(const struct kw_scope *scope, struct kw_slice key)
{
	for (size_t i = 0; i < scope->prefix_count; i++) {
		struct kw_slice prefix = scope->prefixes[i];

		if (key.length >= prefix.length &&
			memcmp(key.data, prefix.data, prefix.length) == 0)
			return true;
	}
	return scope->prefix_count == 0;
}

bool kw_scope_allows(const struct kw_scope *scope, uint32_t database, struct kw_slice key)
{
	return kw_scope_allows_database(scope, database) && kw_scope_allows_prefix(scope, key);
}

void kw_scope_write(const struct kw_scope *scope, struct kw_buffer *text)
{
	for (size_t i = 0; i < scope->database_count; i++)
		kw_buffer_printf(text, "%s%u", i ? "," : "databases=", scope->databases[i]);
	for (size_t i = 0; i < scope->prefix_count; i++) {
		const uint8_t *bytes = scope->prefixes[i].data;

		kw_buffer_printf(text, "%sprefix=", i || scope->database_count ? " " : "");
		for (size_t j = 0; j < scope->prefixes[i].length; j++)
			kw_buffer_printf(text,
				bytes[j] > ' ' && bytes[j] < 0x7f && bytes[j] != '%' ? "%c"
										     : "%%%02x",
				bytes[j]);
	}
}

static bool take_word(struct kw_slice *word, const char *name)
{
	size_t length = strlen(name);

	if (word->length < length || memcmp(word->data, name, length) != 0)
		return false;
	*word = kw_slice((const uint8_t *)word->data + length, word->length - length);
	return true;
}

static int read_word(struct kw_scope *scope, struct kw_slice word, struct kw_error *error)
{
	if (take_word(&word, "databases="))
		return kw_scope_set_databases(scope, word, error);
	if (take_word(&word, "prefix="))
		return kw_scope_add_prefix(scope, word, error);
	return kw_error_set(error, KW_E_CONFIG, "a rule other than databases= and prefix=");
}

int kw_scope_read(struct kw_scope *scope, struct kw_slice text, struct kw_error *error)
{
	const uint8_t *at = text.data, *end = at + text.length;

	while (at < end) {
		const uint8_t *stop = memchr(at, ' ', (size_t)(end - at));
		int code;

		if (!stop)
			stop = end;
		code = read_word(scope, kw_slice(at, (size_t)(stop - at)), error);
		if (code != 0)
			return code;
		at = stop + (stop < end);
	}
	return KW_OK;
}
