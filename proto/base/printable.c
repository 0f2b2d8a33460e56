#include "base/printable.h"

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define SEQUENCE_MAX 4 /* bytes of a character in UTF-8 */

/* Code points that are shown as bytes, in ascending order. */
static const struct {
	uint32_t first, last;
} hidden[] = {
	{0x0000, 0x001f},   /* C0: ESC, CR, BEL */
	{0x007f, 0x009f},   /* DEL and C1 */
	{0x00ad, 0x00ad},   /* soft hyphen */
	{0x061c, 0x061c},   /* Arabic letter mark */
	{0x180e, 0x180e},   /* Mongolian vowel separator */
	{0x200b, 0x200f},   /* zero width; marks of direction */
	{0x2028, 0x202e},   /* separators; embeddings and overrides of direction */
	{0x2060, 0x206f},   /* invisible operators; isolates of direction */
	{0xfeff, 0xfeff},   /* byte order mark */
	{0xfff9, 0xfffb},   /* annotations between lines */
	{0xe0000, 0xe0fff}, /* tags, and selectors beyond the first 16 */
};

struct character {
	size_t length; /* bytes; 1 when it is none */
	bool valid;
	uint32_t code;
};

/* Bytes of the character that begins so; 0: none does. */
static size_t sequence_length(uint8_t first)
{
	if (first < 0x80)
		return 1;
	if (first >= 0xc2 && first < 0xe0)
		return 2;
	if (first >= 0xe0 && first < 0xf0)
		return 3;
	return first >= 0xf0 && first < 0xf5 ? 4 : 0;
}

/* Overlong forms, surrogates and code points above U+10FFFF are no characters (RFC 3629). */
static struct character decode(const uint8_t *bytes, size_t left)
{
	static const uint32_t lowest[SEQUENCE_MAX + 1] = {0, 0, 0x80, 0x800, 0x10000};
	const struct character none = {.length = 1};
	size_t length = sequence_length(bytes[0]);
	uint32_t code = bytes[0];

	if (length == 0 || length > left)
		return none;
	if (length > 1)
		code &= 0xffU >> (length + 1);
	for (size_t i = 1; i < length; i++) {
		if ((bytes[i] & 0xc0) != 0x80)
			return none;
		code = code << 6 | (bytes[i] & 0x3f);
	}
	if (code < lowest[length] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
		return none;
	return (struct character){.length = length, .valid = true, .code = code};
}

static bool shows(const struct character *character, enum kw_printable_newline newline)
{
	if (!character->valid)
		return false;
	if (character->code == '\n')
		return newline == KW_NEWLINE_KEPT;
	for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++)
		if (character->code >= hidden[i].first && character->code <= hidden[i].last)
			return false;
	return true;
}

size_t kw_printable(char *out, size_t size, struct kw_slice raw, enum kw_printable_newline newline)
{
	const uint8_t *bytes = raw.data;
	size_t at = 0, taken = 0;

	assert(size > 0);
	while (taken < raw.length) {
		struct character character = decode(bytes + taken, raw.length - taken);
		bool plain = shows(&character, newline);

		if (at + character.length * (plain ? 1 : KW_PRINTABLE_ESCAPE) >= size)
			break;
		for (size_t i = 0; i < character.length; i++)
			if (plain)
				out[at++] = (char)bytes[taken + i];
			else
				at += (size_t)snprintf(
					out + at, size - at, "\\x%02x", bytes[taken + i]);
		taken += character.length;
	}
	out[at] = '\0';
	return taken;
}

size_t kw_printable_whole(const char *text, size_t length)
{
	for (size_t back = 1; back < SEQUENCE_MAX && back <= length; back++) {
		uint8_t byte = (uint8_t)text[length - back];

		if ((byte & 0xc0) != 0x80)
			return sequence_length(byte) > back ? length - back : length;
	}
	return length;
}
