#include "feed/flags.h"

#include <assert.h>
#include <stdio.h>

/*
 * What A abbreviates (NOTIFY_ALL in the server's server.h). m (misses) and n (new keys) are not
 * part of it, nor o and c of Redis 8.2.
 */
static const char all_classes[] = "g$lshzxetd";
#define DOLLAR 52 /* the one class that is not a letter */

static kw_flags flag(char c)
{
	if (c >= 'a' && c <= 'z')
		return (kw_flags)1 << (c - 'a');
	if (c >= 'A' && c <= 'Z')
		return (kw_flags)1 << (26 + c - 'A');
	if (c == '$')
		return (kw_flags)1 << DOLLAR;
	return 0;
}

static kw_flags flags_of(const char *letters)
{
	kw_flags flags = 0;

	for (; *letters; letters++)
		flags |= flag(*letters);
	return flags;
}

kw_flags kw_flags_parse(struct kw_slice text)
{
	kw_flags flags = 0;

	for (size_t i = 0; i < text.length; i++)
		flags |= flag(((const char *)text.data)[i]);
	if (flags & flag('A'))
		flags |= flags_of(all_classes);
	return flags;
}

bool kw_flags_sufficient(kw_flags flags)
{
	kw_flags needed = flags_of(all_classes) | flag('E');

	return (flags & needed) == needed;
}

void kw_flags_merged(kw_flags flags, char text[KW_FLAGS_TEXT])
{
	kw_flags covered = flags_of(all_classes);
	char *at = text;

	*at++ = 'A';
	*at++ = 'E';
	for (char c = 'A'; c <= 'Z'; c++)
		if (c != 'A' && c != 'E' && (flags & flag(c)))
			*at++ = c;
	for (char c = 'a'; c <= 'z'; c++)
		if ((flags & flag(c)) && !(covered & flag(c)))
			*at++ = c;
	assert(at - text < KW_FLAGS_TEXT);
	*at = '\0';
}

static const struct {
	const char *name;
	char letter;
} flag_classes[] = {
	[KW_FLAG_STRING] = {"string", '$'},
	[KW_FLAG_GENERIC] = {"generic", 'g'},
	[KW_FLAG_LIST] = {"list", 'l'},
	[KW_FLAG_SET] = {"set", 's'},
	[KW_FLAG_HASH] = {"hash", 'h'},
	[KW_FLAG_ZSET] = {"sorted set", 'z'},
	[KW_FLAG_STREAM] = {"stream", 't'},
	[KW_FLAG_EXPIRED] = {"expired", 'x'},
};

const char *kw_flag_class_name(enum kw_flag_class class)
{
	assert((unsigned)class < KW_FLAG_CLASSES);
	return flag_classes[class].name;
}

void kw_flag_classes_text(kw_flag_classes classes, char text[KW_FLAG_CLASSES_TEXT])
{
	int length = 0;

	*text = '\0';
	for (int class = 0; class < KW_FLAG_CLASSES; class ++) {
		if (!(classes & KW_FLAG_CLASS(class)))
			continue;
		length += snprintf(text + length, (size_t)(KW_FLAG_CLASSES_TEXT - length),
			"%s%s (%c)", length > 0 ? ", " : "", flag_classes[class].name,
			flag_classes[class].letter);
		assert(length < KW_FLAG_CLASSES_TEXT);
	}
}
