/* Names of keys in the local server: what is no bijection is refused, and what is taken is one. */
#include "keys/filter.h"
#include "keys/rename.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Entries of a configuration, separated by a space; NULL: none. */
struct rules {
	const char *prefixes, *patterns, *exclude, *databases, *without_databases;
	const char *map, *rewrite;
};

typedef int (*add_fn)(struct kw_filter *, const char *, struct kw_error *);

static int add_database(struct kw_filter *filter, const char *text, struct kw_error *error)
{
	return kw_filter_add_database(filter, atoi(text), error);
}

static int exclude_database(struct kw_filter *filter, const char *text, struct kw_error *error)
{
	return kw_filter_exclude_database(filter, atoi(text), error);
}

static int add_all(struct kw_filter *filter, const char *list, add_fn add, struct kw_error *error)
{
	char copy[256], *at = copy, *text;
	int code = KW_OK;

	if (!list)
		return KW_OK;
	snprintf(copy, sizeof copy, "%s", list);
	while (!code && (text = strsep(&at, " ")))
		code = add(filter, text, error);
	return code;
}

static int build(struct kw_filter *filter, const struct rules *rules, struct kw_error *error)
{
	int code;

	*filter = (struct kw_filter){0};
	if ((code = add_all(filter, rules->databases, add_database, error)) ||
		(code = add_all(filter, rules->without_databases, exclude_database, error)) ||
		(code = add_all(filter, rules->prefixes, kw_filter_add_prefix, error)) ||
		(code = add_all(filter, rules->patterns, kw_filter_add_pattern, error)) ||
		(code = add_all(filter, rules->exclude, kw_filter_exclude, error)) ||
		(code = add_all(filter, rules->map, kw_filter_map_database, error)) ||
		(code = add_all(filter, rules->rewrite, kw_filter_rewrite_prefix, error)))
		return code;
	return kw_filter_check_names(filter, error);
}

static void what_is_no_bijection_is_refused(void **state)
{
	static const struct {
		struct rules rules;
		const char *says; /* NULL: it is taken */
	} cases[] = {
		{{.map = "0=3"}, "database 3 of the table has already"},
		{{.map = "0=3", .databases = "0"}, NULL},
		{{.map = "0=3", .databases = "0 1"}, NULL},
		{{.map = "0=3", .databases = "0 3"}, "filter.exclude_databases"},
		{{.map = "0=3", .without_databases = "3"}, NULL},
		{{.map = "0=3 3=0"}, NULL},
		{{.map = "0=3 3=7 7=0"}, NULL},
		{{.map = "0=3 3=7"}, "database 7 of the table has already"},
		{{.map = "0=3 1=3", .databases = "0 1"}, "both become the local database 3"},
		{{.map = "0=3 0=4", .databases = "0"}, "two rules for database 0"},
		{{.map = "5=3", .databases = "0"}, "database 5 is not followed"},
		{{.map = "3=3"}, "changes nothing"},
		{{.map = "0"}, "is no rule"},
		{{.map = "0=65536"}, "is no rule"},
		{{.map = "0=65535", .databases = "0"}, NULL},
		{{.map = "-1=2"}, "is no rule"},
		{{.map = "1=2x"}, "is no rule"},
		{{.map = "=2"}, "is no rule"},
		{{.rewrite = "old:=new:"}, "names that other keys have"},
		{{.rewrite = "old:=new:", .prefixes = "old:"}, NULL},
		{{.rewrite = "old:=new:", .prefixes = "old: user:"}, NULL},
		{{.rewrite = "old:=new:", .prefixes = "old: new:"}, "begin with \"new:\""},
		{{.rewrite = "old:=new:", .prefixes = "old: new:a:"}, "begin with \"new:a:\""},
		{{.rewrite = "old:=new:", .prefixes = "old: n"}, "begin with \"new:\""},
		{{.rewrite = "old:=new:", .prefixes = "old:a:"}, NULL},
		{{.rewrite = "old:=new:", .prefixes = "o"}, NULL},
		{{.rewrite = "old:=new:", .exclude = "new:*"}, NULL},
		{{.rewrite = "old:=new:", .exclude = "n*"}, NULL},
		{{.rewrite = "old:=new:", .exclude = "new:a*"}, "names that other keys have"},
		{{.rewrite = "old:=new:", .exclude = "ne?:*"}, "names that other keys have"},
		{{.rewrite = "old:=new:", .exclude = "new:*a"}, "names that other keys have"},
		{{.rewrite = "old:=new:", .exclude = "new:"}, "names that other keys have"},
		{{.rewrite = "old:=new:", .patterns = "old:*"}, NULL},
		{{.rewrite = "old:=new:", .patterns = "old:* *:eu"}, "names that other keys have"},
		{{.rewrite = "old:=new:", .patterns = "old:* ne?:eu"}, "begin with \"new:\""},
		{{.rewrite = "old:=new: new:=old:"}, NULL},
		{{.rewrite = "a=b b=c c=a"}, NULL},
		{{.rewrite = "a=b b=c"}, "begin with \"c\""},
		{{.rewrite = "=eu:"}, NULL},
		{{.rewrite = "eu:="}, "names that other keys have"},
		{{.rewrite = "eu:=", .prefixes = "eu:"}, NULL},
		{{.rewrite = "=eu: a=b"}, "overlap on the left"},
		{{.rewrite = "a:=x: a:b=y:"}, "overlap on the left"},
		{{.rewrite = "a:=x: b:=x:y", .prefixes = "a: b:"}, "overlap on the right"},
		{{.rewrite = "a:=x: b:=x:", .prefixes = "a: b:"}, "overlap on the right"},
		{{.rewrite = "c:=d:", .prefixes = "a:"}, "no key that begins with c: is followed"},
		{{.rewrite = "a=a"}, "changes nothing"},
		{{.rewrite = "="}, "changes nothing"},
		{{.rewrite = "a"}, "is no rule"},
		{{.rewrite = "a=b=c"}, "is no rule"},
	};
	struct kw_filter filter;
	struct kw_error error;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		int code = build(&filter, &cases[i].rules, &error);

		if (cases[i].says && (code != KW_E_CONFIG || !strstr(error.text, cases[i].says)))
			fail_msg("case %zu: %d %s", i, code, code ? error.text : "");
		if (!cases[i].says && code)
			fail_msg("case %zu: %s", i, error.text);
		kw_filter_close(&filter);
	}
}

static void rules_are_bounded(void **state)
{
	struct kw_naming naming = {0};
	struct kw_error error;
	char rule[2 * KW_NAMING_PREFIX_BYTES];

	for (int i = 0; i < KW_NAMING_DATABASES_MAX; i++) {
		snprintf(rule, sizeof rule, "%d=%d", i, i + 1000);
		assert_int_equal(kw_naming_add_database(&naming, rule, &error), KW_OK);
		snprintf(rule, sizeof rule, "%02d=x%02d", i, i);
		assert_int_equal(kw_naming_add_prefix(&naming, rule, &error), KW_OK);
	}
	assert_int_equal(kw_naming_add_database(&naming, "999=9999", &error), KW_E_CONFIG);
	assert_int_equal(kw_naming_add_prefix(&naming, "y=z", &error), KW_E_CONFIG);
	memset(rule, 'a', KW_NAMING_PREFIX_BYTES + 1);
	strcpy(rule + KW_NAMING_PREFIX_BYTES + 1, "=b");
	assert_int_equal(kw_naming_check_prefix(rule, &error), KW_E_CONFIG);
	assert_int_equal(kw_naming_check_prefix(rule + 1, &error), KW_OK);
	kw_naming_close(&naming);
}

static void names_are_exchanged_and_exchanged_back(void **state)
{
	static const struct {
		const char *table, *local;
	} keys[] = {{"old:1", "new:1"}, {"old:", "new:"}, {"user:old:1", "user:old:1"}};
	/* Of others: names that no key gets, and keys that are not followed. */
	static const char *const foreign[] = {"old:1", "old:", "new", "mine", "", "new:tmp"};
	struct kw_filter filter;
	struct kw_error error;
	struct kw_buffer room = {0};
	struct kw_slice found;
	uint32_t database;
	char text[128];

	assert_int_equal(build(&filter,
				 &(struct rules){.databases = "0 1",
					 .map = "0=3",
					 .prefixes = "old: user:",
					 .exclude = "*tmp",
					 .rewrite = "old:=new:"},
				 &error),
		KW_OK);
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		struct kw_slice table = kw_slice_text(keys[i].table);
		struct kw_slice local = kw_slice_text(keys[i].local);

		found = kw_naming_local_key(&filter.names, table, &room);
		assert_true(kw_slice_equal(found, local));
		assert_true(kw_filter_finds_key(&filter, local, &room, &found));
		assert_true(kw_slice_equal(found, table));
	}
	for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
		assert_false(
			kw_filter_finds_key(&filter, kw_slice_text(foreign[i]), &room, &found));
	assert_true(kw_filter_finds_database(&filter, 3, &database) && database == 0);
	assert_true(kw_filter_finds_database(&filter, 1, &database) && database == 1);
	assert_false(kw_filter_finds_database(&filter, 0, &database));
	assert_false(kw_filter_finds_database(&filter, 2, &database));
	assert_false(kw_filter_finds_database(&filter, 70000, &database));
	kw_filter_describe(&filter, text, sizeof text);
	assert_string_equal(text, "databases 0, 1; prefixes old:, user:; without *tmp; database 0 "
				  "as 3; old:* as new:*");
	kw_filter_close(&filter);
	kw_buffer_close(&room);
}

static void bytes_that_are_no_text_are_names_as_well(void **state)
{
	static const char table[] = "old:\0\xff=", local[] = "n\0\xff=";
	struct kw_naming naming = {0};
	struct kw_error error;
	struct kw_buffer room = {0};
	struct kw_slice found;

	assert_int_equal(kw_naming_add_prefix(&naming, "old:=n", &error), KW_OK);
	found = kw_naming_local_key(&naming, kw_slice(table, sizeof table - 1), &room);
	assert_true(kw_slice_equal(found, kw_slice(local, sizeof local - 1)));
	assert_true(kw_naming_table_key(&naming, kw_slice(local, sizeof local - 1), &room, &found));
	assert_true(kw_slice_equal(found, kw_slice(table, sizeof table - 1)));
	kw_naming_close(&naming);
	kw_buffer_close(&room);
}

/* ---- random rules, over all short words of two letters ---- */

#define LETTERS_MAX 6
#define WORDS ((2 << LETTERS_MAX) - 1)

/* The empty word, a, b, aa, ab, … */
static struct kw_slice word_of(uint32_t number, char room[LETTERS_MAX + 1])
{
	size_t length = 31 - (size_t)__builtin_clz(number + 1);

	for (size_t i = 0; i < length; i++)
		room[i] = (number + 1) >> i & 1 ? 'b' : 'a';
	room[length] = '\0';
	return kw_slice(room, length);
}

static uint32_t random_state = 7;

static uint32_t dice(uint32_t sides)
{
	random_state = random_state * 1664525 + 1013904223;
	return (random_state >> 8) % sides;
}

static void random_word(char *room, size_t letters)
{
	word_of(dice((2u << letters) - 1), room);
}

/* Short words meet often. Returns what became of the rules. */
static int random_filter(struct kw_filter *filter)
{
	char first[LETTERS_MAX + 1], second[LETTERS_MAX + 1], rule[2 * LETTERS_MAX + 2];
	int code = KW_OK;

	*filter = (struct kw_filter){0};
	for (uint32_t i = dice(4); i > 0 && !code; i--) {
		random_word(first, 3);
		code = kw_filter_add_prefix(filter, *first ? first : "a", NULL);
	}
	for (uint32_t i = 1 + dice(3); i > 0 && !code; i--) {
		random_word(first, 2);
		random_word(second, 2);
		snprintf(rule, sizeof rule, "%s=%s", first, second);
		code = kw_filter_rewrite_prefix(filter, rule, NULL);
	}
	return code;
}

static uint32_t number_of(struct kw_slice word)
{
	const char *letters = word.data;
	uint32_t number = 0;

	for (size_t i = 0; i < word.length; i++)
		number |= (uint32_t)(letters[i] == 'b') << i;
	return (number | UINT32_C(1) << word.length) - 1;
}

/* Do two words that are followed get one name? Also, is each name found to be of its word? */
static bool has_collision(const struct kw_filter *filter, bool sound)
{
	static uint32_t owners[8 * WORDS];
	struct kw_buffer room = {0}, back = {0};
	bool collides = false;

	memset(owners, 0xff, sizeof owners);
	for (uint32_t i = 0; i < WORDS; i++) {
		char letters[LETTERS_MAX + 1];
		struct kw_slice word = word_of(i, letters), name, found;

		if (!kw_filter_has_key(filter, word))
			continue;
		name = kw_naming_local_key(&filter->names, word, &room);
		if (owners[number_of(name)] != UINT32_MAX)
			collides = true;
		owners[number_of(name)] = i;
		if (sound) {
			assert_true(kw_filter_finds_key(filter, name, &back, &found));
			assert_true(kw_slice_equal(found, word));
		}
	}
	for (uint32_t i = 0; i < WORDS && sound; i++) {
		char letters[LETTERS_MAX + 1];
		struct kw_slice name = word_of(i, letters), found;
		bool ours = kw_filter_finds_key(filter, name, &room, &found);

		/* A name is ours if a word has it, and of no word otherwise. */
		assert_true(ours || owners[i] == UINT32_MAX);
		if (ours)
			assert_true(kw_slice_equal(
				kw_naming_local_key(&filter->names, found, &back), name));
	}
	kw_buffer_close(&room);
	kw_buffer_close(&back);
	return collides;
}

static void rules_that_are_taken_are_a_bijection(void **state)
{
	struct kw_filter filter;
	struct kw_error error;
	uint32_t taken = 0, refused = 0; /* of these, with a cause */

	for (int i = 0; i < 8000; i++) {
		if (random_filter(&filter)) { /* rules that meet each other */
			kw_filter_close(&filter);
			continue;
		}
		if (kw_filter_check_names(&filter, &error) == KW_OK) {
			assert_false(has_collision(&filter, true));
			taken++;
		} else {
			refused += has_collision(&filter, false);
		}
		kw_filter_close(&filter);
	}
	assert_true(taken > 200 && refused > 200);
}

/* ---- the hash ---- */

static uint64_t hash_of(const char *databases, const char *map, const char *rewrite)
{
	const struct rules rules = {.databases = databases, .map = map, .rewrite = rewrite};
	struct kw_filter filter;
	struct kw_error error;
	uint64_t hash;

	build(&filter, &rules, &error); /* sound or not */
	hash = kw_filter_hash(&filter);
	kw_filter_close(&filter);
	return hash;
}

static void the_hash_of_a_filter_knows_its_names(void **state)
{
	const uint64_t different[] = {hash_of(NULL, NULL, NULL), hash_of("0", NULL, NULL),
		hash_of("0", "0=3", NULL), hash_of("0", "0=4", NULL), hash_of("0 1", "1=3", NULL),
		hash_of(NULL, NULL, "a=bc"), hash_of(NULL, NULL, "ab=c"),
		hash_of(NULL, NULL, "c=ab"), hash_of(NULL, "0=3 3=0", "=a"),
		hash_of(NULL, NULL, "=a")};

	assert_int_equal(different[0], 0);
	for (size_t i = 0; i < sizeof different / sizeof *different; i++)
		for (size_t j = 0; j < i; j++)
			assert_int_not_equal(different[i], different[j]);
	assert_int_equal(
		hash_of("0 1", "0=3 1=4", "a=b c=d"), hash_of("1 0", "1=4 0=3", "c=d a=b"));
	/* It lies in servers: later agents must find the same. */
	assert_int_equal(hash_of("0", "0=3", "a:=b:"), UINT64_C(0x51adedf2405d2b8c));
}

/* ---- records on their way ---- */

static void records_are_renamed_in_their_order(void **state)
{
	const struct kw_record_view records[] = {
		{.database = 0, .kind = KW_RECORD_PUT, .key = kw_slice_text("old:1")},
		{.database = 1, .kind = KW_RECORD_DELETE, .key = kw_slice_text("old:2")},
		{.database = 0, .kind = KW_RECORD_FLUSH},
		{.database = 1,
			.kind = KW_RECORD_PUT,
			.key = kw_slice_text("user:1"),
			.version = 9},
	};
	struct kw_filter filter;
	struct kw_error error;
	struct kw_rename rename = {.naming = &filter.names};
	const struct kw_record_view *renamed;

	build(&filter, &(struct rules){0}, &error);
	assert_ptr_equal(kw_rename_records(&rename, records, 4), records);
	assert_int_equal(rename.names.capacity, 0);
	assert_int_equal(build(&filter,
				 &(struct rules){.databases = "0 1",
					 .map = "0=3",
					 .prefixes = "old: user:",
					 .rewrite = "old:=n:"},
				 &error),
		KW_OK);
	renamed = kw_rename_records(&rename, records, 4);
	assert_true(kw_slice_equal(renamed[0].key, kw_slice_text("n:1")));
	assert_true(kw_slice_equal(renamed[1].key, kw_slice_text("n:2")));
	assert_int_equal(renamed[2].key.length, 0);
	assert_ptr_equal(renamed[3].key.data, records[3].key.data);
	assert_int_equal(renamed[0].database, 3);
	assert_int_equal(renamed[1].database, 1);
	assert_int_equal(renamed[2].database, 3);
	assert_int_equal(renamed[3].version, 9);
	kw_filter_close(&filter);
	kw_rename_close(&rename);
}

static void a_large_batch_gives_its_memory_back(void **state)
{
	static char key[1 << 20];
	struct kw_record_view records[KW_RECORD_BATCH_MAX];
	struct kw_naming naming = {0};
	struct kw_rename rename = {.naming = &naming};
	const struct kw_record_view *renamed;

	assert_int_equal(kw_naming_add_prefix(&naming, "a=long prefix:", NULL), KW_OK);
	memset(key, 'a', sizeof key);
	for (size_t i = 0; i < KW_RECORD_BATCH_MAX; i++)
		records[i] = (struct kw_record_view){
			.kind = KW_RECORD_PUT, .key = kw_slice(key, sizeof key - i)};
	renamed = kw_rename_records(&rename, records, KW_RECORD_BATCH_MAX);
	for (size_t i = 0; i < KW_RECORD_BATCH_MAX; i++) {
		assert_int_equal(renamed[i].key.length, sizeof key - i + 11);
		assert_memory_equal(renamed[i].key.data, "long prefix:aaaa", 16);
	}
	records[0].key = kw_slice_text("a1");
	renamed = kw_rename_records(&rename, records, 1);
	assert_true(kw_slice_equal(renamed[0].key, kw_slice_text("long prefix:1")));
	assert_true(rename.names.capacity <= 2 * KW_NAMING_KEEP_BYTES);
	kw_rename_close(&rename);
	kw_naming_close(&naming);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_no_bijection_is_refused),
		cmocka_unit_test(rules_are_bounded),
		cmocka_unit_test(names_are_exchanged_and_exchanged_back),
		cmocka_unit_test(bytes_that_are_no_text_are_names_as_well),
		cmocka_unit_test(rules_that_are_taken_are_a_bijection),
		cmocka_unit_test(the_hash_of_a_filter_knows_its_names),
		cmocka_unit_test(records_are_renamed_in_their_order),
		cmocka_unit_test(a_large_batch_gives_its_memory_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
