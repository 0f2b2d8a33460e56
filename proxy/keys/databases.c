#include "keys/databases.h"

#include "base/buffer.h"

#include <stdlib.h>
#include <string.h>

void kw_databases_close(struct kw_databases *set)
{
	free(set->bits);
	*set = (struct kw_databases){0};
}

static void reserve(struct kw_databases *set, uint32_t words)
{
	if (words <= set->words)
		return;
	set->bits = kw_realloc(set->bits, words * sizeof *set->bits);
	memset(set->bits + set->words, 0, (words - set->words) * sizeof *set->bits);
	set->words = words;
}

bool kw_databases_add(struct kw_databases *set, uint64_t database)
{
	if (database >= KW_DATABASES_MOST)
		return false;
	reserve(set, (uint32_t)(database / 64) + 1);
	set->bits[database / 64] |= UINT64_C(1) << (database % 64);
	return true;
}

void kw_databases_remove(struct kw_databases *set, uint32_t database)
{
	if (database / 64 < set->words)
		set->bits[database / 64] &= ~(UINT64_C(1) << (database % 64));
}

static void put(struct kw_databases *set, uint32_t database, bool in)
{
	if (in)
		kw_databases_add(set, database);
	else
		kw_databases_remove(set, database);
}

void kw_databases_swap(struct kw_databases *set, uint32_t one, uint32_t other)
{
	bool had = kw_databases_has(set, one);

	if (set->all)
		return;
	put(set, one, kw_databases_has(set, other));
	put(set, other, had);
}

void kw_databases_add_all(struct kw_databases *set)
{
	set->all = true;
}

void kw_databases_merge(struct kw_databases *set, const struct kw_databases *other)
{
	set->all |= other->all;
	reserve(set, other->words);
	for (uint32_t i = 0; i < other->words; i++)
		set->bits[i] |= other->bits[i];
}

void kw_databases_clear(struct kw_databases *set)
{
	set->all = false;
	for (uint32_t i = 0; i < set->words; i++)
		set->bits[i] = 0;
}

bool kw_databases_empty(const struct kw_databases *set)
{
	uint32_t database = 0;

	return !set->all && !kw_databases_next(set, &database);
}

bool kw_databases_next(const struct kw_databases *set, uint32_t *database)
{
	for (uint32_t word = *database / 64; word < set->words; word++) {
		uint64_t bits = set->bits[word];

		if (word == *database / 64)
			bits &= ~UINT64_C(0) << (*database % 64);
		if (bits) {
			*database = word * 64 + (uint32_t)__builtin_ctzll(bits);
			return true;
		}
	}
	return false;
}
