/* Which keys a client's requests write and read; what is not known counts as all keys. */
#include "gateway/serve/own_keys.h"

#include "base/hash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define WORDS 80

static size_t split(const char *line, char *room, struct kw_slice words[WORDS])
{
	size_t count = 0;

	strcpy(room, line);
	for (char *word = strtok(room, " "); word; word = strtok(NULL, " "))
		words[count++] = kw_slice_text(word);
	return count;
}

struct keys_case {
	const char *request, *keys; /* NULL: all */
};

static const struct keys_case written[] = {
	{"SET a 1", "a"},
	{"mset a 1 b 2", "a b"},
	{"DEL a b c", "a b c"},
	{"RENAME a b", "a b"},
	{"SMOVE a b member", "a b"},
	{"ZUNIONSTORE to 2 a b WEIGHTS 1 2", "to a b"},
	{"SINTERSTORE to a b", "to a b"},
	{"LMPOP 2 a b LEFT", "a b"},
	{"XGROUP CREATE stream group $", "stream"},
	{"XREADGROUP GROUP g c STREAMS a b > >", "a b"},
	/* Another database. */
	{"COPY a b DB 3", NULL},
	{"MOVE a 3", NULL},
	/* Options that name keys, and scripts. */
	{"SORT a STORE b", NULL},
	{"GEORADIUS a 1 2 3 m STORE b", NULL},
	{"EVAL script 1 a", NULL},
	{"FCALL f 1 a", NULL},
	/* All of a database. */
	{"FLUSHDB", NULL},
	{"FLUSHALL ASYNC", NULL},
	/* Not in the catalog, or not whole. */
	{"VADD a VALUES 1 1 e", NULL},
	{"SET", NULL},
	{"LMPOP many a LEFT", NULL},
};

static const struct keys_case asked[] = {
	{"GET a", "a"},
	{"MGET a b", "a b"},
	{"EXISTS a b", "a b"},
	{"HGET a field", "a"},
};

static void check(const struct keys_case *test, uint32_t database, const struct kw_own_keys *keys)
{
	struct kw_slice expected[WORDS];
	char room[256];
	size_t count;

	if (keys->all != !test->keys)
		fail_msg("%s", test->request);
	if (!test->keys)
		return;
	count = split(test->keys, room, expected);
	assert_int_equal(keys->count, count);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(keys->hashes[i],
			kw_hash_key(0, database, expected[i].data, expected[i].length));
}

static void the_keys_of_writes_are_known_or_all(void **state)
{
	struct kw_slice words[WORDS];
	struct kw_own_keys keys;
	char room[256];

	for (size_t i = 0; i < sizeof written / sizeof *written; i++) {
		size_t count = split(written[i].request, room, words);

		kw_own_keys_written(words, count, 7, &keys);
		check(&written[i], 7, &keys);
	}
}

static void the_keys_of_reads_are_known(void **state)
{
	struct kw_slice words[WORDS];
	struct kw_own_keys keys;
	char room[256];

	for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
		size_t count = split(asked[i].request, room, words);

		kw_own_keys_read(words, count, 7, &keys);
		check(&asked[i], 7, &keys);
	}
}

static void more_keys_than_there_is_room_for_are_all(void **state)
{
	struct kw_slice words[WORDS];
	struct kw_own_keys keys;

	for (size_t i = 0; i < WORDS; i++)
		words[i] = kw_slice_text("a");
	words[0] = kw_slice_text("del");
	kw_own_keys_written(words, KW_OWN_REQUEST_KEYS + 1, 0, &keys);
	assert_false(keys.all);
	kw_own_keys_written(words, KW_OWN_REQUEST_KEYS + 2, 0, &keys);
	assert_true(keys.all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_keys_of_writes_are_known_or_all),
		cmocka_unit_test(the_keys_of_reads_are_known),
		cmocka_unit_test(more_keys_than_there_is_room_for_are_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
