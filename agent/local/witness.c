#include "witness.h"

#include <string.h>

/* A letter for each power of two; 2^31 keys and more share the last. */
static const char letters[] = "-abcdefghijklmnopqrstuvwxyzABCDEF";
#define LETTERS ((int)sizeof letters - 1)

static int size_of(char letter)
{
	const char *found = letter ? strchr(letters, letter) : letters;

	return found ? (int)(found - letters) : 0;
}

void kw_witness_set(struct kw_witness *witness, const uint64_t *keys)
{
	int length = 0;

	for (int i = 0; i < KW_WITNESS_DATABASES; i++) {
		int bits = keys[i] ? 64 - __builtin_clzll(keys[i]) : 0;

		witness->text[i] = letters[bits < LETTERS ? bits : LETTERS - 1];
		if (bits > 0)
			length = i + 1;
	}
	witness->text[length] = '\0';
}

int kw_witness_against(const struct kw_witness *then, const struct kw_witness *now)
{
	size_t known = strlen(now->text);

	for (int i = 0; then->text[i]; i++) {
		int before = size_of(then->text[i]);
		int after = (size_t)i < known ? size_of(now->text[i]) : 0;

		/* One letter less may be one key less. */
		if (before > 0 && (after == 0 || after + 1 < before))
			return i;
	}
	return -1;
}

bool kw_witness_valid(const struct kw_witness *witness)
{
	size_t length = strlen(witness->text);

	return strspn(witness->text, letters) == length &&
	       (length == 0 || witness->text[length - 1] != '-');
}
