#include "key_counts.h"

#include <assert.h>
#include <string.h>

/* A letter for each power of two; 2^31 keys and more share the last. */
static const char letters[] = "-abcdefghijklmnopqrstuvwxyzABCDEF";
#define LETTERS ((int)sizeof letters - 1)

/* The binary digits of the number of keys; 0 for an empty database, or a letter that is none. */
static int digits_of(char letter)
{
	const char *found = letter ? strchr(letters, letter) : letters;

	return found ? (int)(found - letters) : 0;
}

void kw_key_counts_set(struct kw_key_counts *counts, const uint64_t *keys)
{
	int length = 0;

	for (int i = 0; i < KW_KEY_COUNTS_DATABASES; i++) {
		int digits = keys[i] ? 64 - __builtin_clzll(keys[i]) : 0;

		counts->text[i] = letters[digits < LETTERS ? digits : LETTERS - 1];
		if (digits > 0)
			length = i + 1;
	}
	counts->text[length] = '\0';
	assert(kw_key_counts_valid(counts));
}

int kw_key_counts_shrunk(const struct kw_key_counts *then, const struct kw_key_counts *now)
{
	size_t known = strlen(now->text);

	assert(known < KW_KEY_COUNTS_TEXT && strlen(then->text) < KW_KEY_COUNTS_TEXT);
	for (int i = 0; then->text[i]; i++) {
		int before = digits_of(then->text[i]);
		int after = (size_t)i < known ? digits_of(now->text[i]) : 0;

		/* The next lower letter can stand for one key less. */
		if (before > 0 && (after == 0 || after + 1 < before))
			return i;
	}
	return -1;
}

bool kw_key_counts_valid(const struct kw_key_counts *counts)
{
	size_t length = strlen(counts->text);

	return strspn(counts->text, letters) == length &&
	       (length == 0 || counts->text[length - 1] != '-');
}
