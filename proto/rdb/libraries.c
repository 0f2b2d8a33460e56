#include "rdb/libraries.h"

#include "rdb/payload.h"
#include "rdb/payload_input.h"
#include "rdb/rdb.h"

#include <assert.h>
#include <stdlib.h>
#include <strings.h>

#define NAME_WORD "name="

/* agent/local/cursor.c writes these. A cursor is a line of some hundred bytes; more is none. */
#define CURSOR_HEAD "#!lua name="
#define CURSOR_BODY "callback=function() return 'keywake-cursor "
#define CURSOR_MOST 4096

/* ---- one library ---- */

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

static bool is_quote(char c)
{
	return c == '"' || c == '\'';
}

static bool is_name(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_';
}

/* The letters of a name at `at`; what follows them is the end of the word. */
static bool take_name(const char *at, const char *end, struct kw_slice *name)
{
	const char *from;

	while (at < end && is_quote(*at))
		at++;
	from = at;
	while (at < end && is_name(*at))
		at++;
	*name = kw_slice(from, (size_t)(at - from));
	while (at < end && is_quote(*at))
		at++;
	return at == end && name->length > 0;
}

/* The servers split the line like a command line (functionExtractLibMetaData in functions.c). */
bool kw_library_name(struct kw_slice code, struct kw_slice *name)
{
	const size_t prefix = sizeof NAME_WORD - 1;
	const char *at = code.data, *end;

	if (code.length == 0)
		return false;
	end = memchr(at, '\n', code.length);
	if (!end)
		end = at + code.length;
	while (at < end) {
		const char *word = at;

		while (at < end && !is_space(*at))
			at++;
		while (word < at && is_quote(*word))
			word++;
		if ((size_t)(at - word) > prefix && strncasecmp(word, NAME_WORD, prefix) == 0)
			return take_name(word + prefix, at, name);
		while (at < end && is_space(*at))
			at++;
	}
	return false;
}

bool kw_library_is_cursor(struct kw_slice code)
{
	const size_t head = sizeof CURSOR_HEAD - 1;

	return code.length > head && code.length <= CURSOR_MOST &&
	       memcmp(code.data, CURSOR_HEAD, head) == 0 &&
	       memmem(code.data, code.length, CURSOR_BODY, sizeof CURSOR_BODY - 1);
}

/* ---- reading a set ---- */

bool kw_libraries_is_empty(struct kw_slice dump)
{
	const uint8_t *bytes = dump.data;

	return dump.length == KW_PAYLOAD_FOOTER &&
	       kw_crc64(0, bytes, 2) == kw_little_endian(bytes + 2, 8);
}

int kw_libraries_next(struct kw_payload_input *input, struct kw_slice *code)
{
	const uint8_t *opcode;
	int failed = kw_payload_take(input, 1, &opcode);

	if (failed)
		return failed;
	if (*opcode != KW_LIBRARY_OPCODE)
		return kw_error_set(input->error, KW_E_CORRUPT,
			"functions: %u where a library should begin", *opcode);
	return kw_payload_string(input, code);
}

/* While the text grows it can move: until it is whole, a library is known by its length alone. */
static int take_code(struct kw_payload_input *input, struct kw_libraries *libraries, size_t most)
{
	struct kw_slice code;
	int failed = kw_libraries_next(input, &code);

	if (failed)
		return failed;
	if (libraries->count == KW_LIBRARIES_MAX ||
		code.length > most - kw_buffer_length(&libraries->text))
		return kw_error_set(input->error, KW_E_FULL,
			"functions: more than %d libraries, or than %zu bytes of code",
			KW_LIBRARIES_MAX, most);
	kw_buffer_append(&libraries->text, code.data, code.length);
	libraries->all =
		kw_realloc(libraries->all, (libraries->count + 1) * sizeof *libraries->all);
	libraries->all[libraries->count++].code.length = code.length;
	return KW_OK;
}

static int order(const void *one, const void *other)
{
	const struct kw_slice a = ((const struct kw_library *)one)->name;
	const struct kw_slice b = ((const struct kw_library *)other)->name;
	int first = memcmp(a.data, b.data, a.length < b.length ? a.length : b.length);

	return first ? first : (a.length > b.length) - (a.length < b.length);
}

/* The text is whole: names, and the cursors to a list of their own. */
static int sort_out(struct kw_libraries *libraries, struct kw_error *error)
{
	const uint8_t *at = kw_buffer_bytes(&libraries->text);
	size_t found = libraries->count;

	libraries->cursors = kw_alloc((found + 1) * sizeof *libraries->cursors);
	libraries->count = 0;
	for (size_t i = 0; i < found; i++) {
		struct kw_library library = {.code = kw_slice(at, libraries->all[i].code.length)};

		at += library.code.length;
		if (!kw_library_name(library.code, &library.name))
			return kw_error_set(error, KW_E_CORRUPT,
				"functions: the first line of a library gives it no name");
		if (kw_library_is_cursor(library.code))
			libraries->cursors[libraries->cursor_count++] = library;
		else
			libraries->all[libraries->count++] = library;
	}
	if (libraries->count > 0)
		qsort(libraries->all, libraries->count, sizeof *libraries->all, order);
	for (size_t i = 1; i < libraries->count; i++)
		if (kw_slice_equal(libraries->all[i - 1].name, libraries->all[i].name))
			return kw_error_set(
				error, KW_E_CORRUPT, "functions: two libraries have one name");
	return KW_OK;
}

int kw_libraries_read(
	struct kw_libraries *libraries, struct kw_slice dump, size_t most, struct kw_error *error)
{
	struct kw_payload_input input;
	int code;

	assert(!libraries->all && !libraries->cursors);
	if (kw_libraries_is_empty(dump))
		return KW_OK;
	code = kw_payload_check(dump, NULL, error);
	if (code)
		return code;
	kw_payload_input_init(&input, kw_slice(dump.data, dump.length - KW_PAYLOAD_FOOTER), error);
	while (!code && kw_payload_left(&input) > 0)
		code = take_code(&input, libraries, most);
	kw_payload_input_close(&input);
	if (!code)
		code = sort_out(libraries, error);
	if (code)
		kw_libraries_close(libraries);
	return code;
}

void kw_libraries_close(struct kw_libraries *libraries)
{
	free(libraries->all);
	free(libraries->cursors);
	kw_buffer_close(&libraries->text);
	*libraries = (struct kw_libraries){0};
}

/* ---- a set ---- */

const struct kw_library *kw_libraries_find(
	const struct kw_libraries *libraries, struct kw_slice name)
{
	const struct kw_library wanted = {.name = name};

	if (libraries->count == 0 || name.length == 0)
		return NULL;
	return bsearch(&wanted, libraries->all, libraries->count, sizeof *libraries->all, order);
}

bool kw_libraries_has_cursor(const struct kw_libraries *libraries, struct kw_slice name)
{
	for (size_t i = 0; i < libraries->cursor_count; i++)
		if (kw_slice_equal(libraries->cursors[i].name, name))
			return true;
	return false;
}

void kw_libraries_put(struct kw_slice code, struct kw_buffer *out)
{
	struct kw_rdb rdb = {.version = KW_RDB_VERSION_MAX, .database = -1};

	kw_rdb_function(&rdb, code, out);
}

void kw_libraries_end(uint16_t rdb_version, size_t begun_at, struct kw_buffer *out)
{
	uint8_t footer[KW_PAYLOAD_FOOTER] = {(uint8_t)rdb_version, (uint8_t)(rdb_version >> 8)};
	uint64_t crc;

	assert(begun_at <= kw_buffer_length(out));
	kw_buffer_append(out, footer, 2);
	crc = kw_crc64(0, kw_buffer_bytes(out) + begun_at, kw_buffer_length(out) - begun_at);
	for (unsigned i = 0; i < 8; i++)
		footer[2 + i] = (uint8_t)(crc >> (8 * i));
	kw_buffer_append(out, footer + 2, 8);
}

void kw_libraries_write(
	const struct kw_libraries *libraries, uint16_t rdb_version, struct kw_buffer *out)
{
	size_t begun_at = kw_buffer_length(out);

	for (size_t i = 0; i < libraries->count; i++)
		kw_libraries_put(libraries->all[i].code, out);
	kw_libraries_end(rdb_version, begun_at, out);
}

struct kw_hash128 kw_libraries_digest(const struct kw_libraries *libraries)
{
	struct kw_buffer bytes = {0};
	struct kw_hash128 digest;

	kw_libraries_write(libraries, 0, &bytes);
	digest = kw_hash128_key(0, kw_buffer_bytes(&bytes), kw_buffer_length(&bytes));
	kw_buffer_close(&bytes);
	return digest;
}
