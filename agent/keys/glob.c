#include "glob.h"

#include <stddef.h>
#include <stdint.h>

/* One byte of the text against one element of the pattern; stars are not elements. */
struct element {
	size_t end; /* in the pattern: where the next one begins */
	bool matches;
};

static uint8_t byte_at(struct kw_slice bytes, size_t at)
{
	assert(at < bytes.length);
	return ((const uint8_t *)bytes.data)[at];
}

static bool is_star(struct kw_slice pattern, size_t at)
{
	return at < pattern.length && byte_at(pattern, at) == '*';
}

static bool is_between(uint8_t byte, uint8_t one, uint8_t other)
{
	return one <= other ? one <= byte && byte <= other : other <= byte && byte <= one;
}

/* One entry of a list; sets *at to its last byte. */
static bool entry_has(struct kw_slice pattern, size_t *at, uint8_t byte)
{
	size_t left = pattern.length - *at;

	if (byte_at(pattern, *at) == '\\' && left >= 2)
		return byte_at(pattern, ++*at) == byte;
	if (left >= 3 && byte_at(pattern, *at + 1) == '-') {
		*at += 2;
		return is_between(byte, byte_at(pattern, *at - 2), byte_at(pattern, *at));
	}
	return byte_at(pattern, *at) == byte;
}

/* at: after the bracket that opens the list. */
static struct element match_list(struct kw_slice pattern, size_t at, uint8_t byte)
{
	bool negated = at < pattern.length && byte_at(pattern, at) == '^';
	bool found = false;

	for (at += negated; at < pattern.length && byte_at(pattern, at) != ']'; at++)
		found |= entry_has(pattern, &at, byte);
	return (struct element){at < pattern.length ? at + 1 : at, found != negated};
}

static struct element match_element(struct kw_slice pattern, size_t at, uint8_t byte)
{
	switch (byte_at(pattern, at)) {
	case '?':
		return (struct element){at + 1, true};
	case '[':
		return match_list(pattern, at + 1, byte);
	case '\\':
		at += at + 1 < pattern.length;
		break;
	}
	return (struct element){at + 1, byte_at(pattern, at) == byte};
}

bool kw_glob_matches(struct kw_slice pattern, struct kw_slice text)
{
	size_t at = 0, i = 0;
	size_t star = SIZE_MAX, from = 0; /* after the last star; the text from there on */

	/* `from` only grows, and between two steps of it `at` does. */
	while (i < text.length) {
		struct element element = {0};

		if (is_star(pattern, at)) {
			star = ++at;
			from = i;
			if (star == pattern.length)
				return true;
			continue;
		}
		if (at < pattern.length)
			element = match_element(pattern, at, byte_at(text, i));
		if (element.matches) {
			at = element.end;
			i++;
		} else if (star != SIZE_MAX) {
			at = star;
			i = ++from;
		} else {
			return false;
		}
	}
	while (is_star(pattern, at))
		at++;
	return at == pattern.length;
}

bool kw_glob_is_everything(struct kw_slice pattern)
{
	size_t at = 0;

	while (is_star(pattern, at))
		at++;
	return at > 0 && at == pattern.length;
}

void kw_glob_beginning(struct kw_slice pattern, struct kw_buffer *bytes)
{
	for (size_t at = 0; at < pattern.length; at++) {
		uint8_t byte = byte_at(pattern, at);

		if (byte == '*' || byte == '?' || byte == '[')
			return;
		if (byte == '\\' && at + 1 < pattern.length)
			byte = byte_at(pattern, ++at);
		kw_buffer_append(bytes, &byte, 1);
	}
}

/* The end of the list that was opened before `at`; SIZE_MAX: there is none. */
static size_t end_of_list(struct kw_slice pattern, size_t at)
{
	at += at < pattern.length && byte_at(pattern, at) == '^';
	for (; at < pattern.length && byte_at(pattern, at) != ']'; at++)
		entry_has(pattern, &at, 0);
	return at < pattern.length ? at : SIZE_MAX;
}

int kw_glob_check(const char *pattern, struct kw_error *error)
{
	struct kw_slice text = kw_slice_text(pattern);

	if (text.length == 0)
		return kw_error_set(error, KW_E_CONFIG,
			"an empty pattern matches the empty key alone: remove it");
	if (text.length > KW_GLOB_MAX)
		return kw_error_set(error, KW_E_CONFIG, "a pattern of %zu bytes: %d are allowed",
			text.length, KW_GLOB_MAX);
	for (size_t at = 0; at < text.length; at++) {
		uint8_t byte = byte_at(text, at);

		if (byte == '\\' && ++at == text.length)
			return kw_error_set(error, KW_E_CONFIG,
				"%s ends with a backslash: \\\\ is the backslash itself", pattern);
		if (byte == '[' && (at = end_of_list(text, at + 1)) == SIZE_MAX)
			return kw_error_set(error, KW_E_CONFIG,
				"%s has a [ that no ] closes: \\[ is the bracket itself", pattern);
	}
	return KW_OK;
}
