#include "catalog_replies.h"

#include "redis/arena.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#define ELEMENTS_MOST 512
#define WORD_BYTES 64

const char *const usual_catalog =
	"zadd write 1 1 1 | RW index 1 range 0 1 0\n"
	"sadd write 1 1 1 | RW index 1 range 0 1 0\n"
	"smove write 1 2 1 | RW index 1 range 0 1 0 | RW index 2 range 0 1 0\n"
	"set write 1 1 1 | OW index 1 range 0 1 0\n"
	"expire write 1 1 1 | RW index 1 range 0 1 0\n"
	"incrby write 1 1 1 | RW index 1 range 0 1 0\n"
	"setrange write 1 1 1 | RW index 1 range 0 1 0\n"
	"restore write 1 1 1 | OW index 1 range 0 1 0\n"
	"rename write 1 2 1 | RW index 1 range 0 1 0 | OW index 2 range 0 1 0\n"
	"mset write 1 -1 2 | OW index 1 range -1 2 0\n"
	"sort write,movablekeys 1 1 1 | RO index 1 range 0 1 0 | OW unknown unknown\n"
	"zunionstore write,movablekeys 1 1 1 | OW index 1 range 0 1 0 | RO index 2 keynum 0 1 1\n"
	"lmpop write,movablekeys 0 0 0 | RW index 1 keynum 0 1 1\n"
	"get readonly 1 1 1 | RO index 1 range 0 1 0\n"
	"pfcount readonly 1 -1 1 | RW index 1 range -1 1 0\n"
	"wait - 0 0 0 |\n"
	"odd write 0 0 0 |\n";

/* The replies, until the catalog is made of them. */
static struct kw_arena arena;

static void *take(size_t bytes)
{
	return memset(kw_arena_take(&arena, bytes), 0, bytes);
}

static struct kw_reply *elements(size_t count)
{
	return take((count + 1) * sizeof(struct kw_reply));
}

static struct kw_reply text_reply(const char *text)
{
	char *copy = take(strlen(text) + 1);

	strcpy(copy, text);
	return (struct kw_reply){.type = KW_REPLY_STRING, .text = kw_slice_text(copy)};
}

static struct kw_reply number_reply(const char *text)
{
	return (struct kw_reply){.type = KW_REPLY_INTEGER, .integer = atol(text)};
}

static struct kw_reply array_reply(struct kw_reply *items, size_t count)
{
	return (struct kw_reply){.type = KW_REPLY_ARRAY, .elements = items, .count = count};
}

static const char *take_word(const char **at, char word[WORD_BYTES])
{
	size_t length;

	*at += strspn(*at, " ");
	length = strcspn(*at, " |\n");
	assert_true(length < WORD_BYTES);
	memcpy(word, *at, length);
	word[length] = '\0';
	*at += length;
	return word;
}

static struct kw_reply flags_reply(const char *text)
{
	struct kw_reply *items = elements(8);
	size_t count = 0;
	char copy[WORD_BYTES], *saved = NULL;

	snprintf(copy, sizeof copy, "%s", text);
	for (char *flag = strtok_r(copy, ",", &saved); flag; flag = strtok_r(NULL, ",", &saved))
		if (strcmp(flag, "-") != 0)
			items[count++] = text_reply(flag);
	return array_reply(items, count);
}

/* { type: …, spec: { name: number … } } with these names; "unknown" has none. */
static struct kw_reply search_reply(const char **at)
{
	static const struct {
		const char *type, *names[4];
	} kinds[] = {
		{"index", {"index"}},
		{"keyword", {"keyword", "startfrom"}},
		{"range", {"lastkey", "keystep", "limit"}},
		{"keynum", {"keynumidx", "firstkey", "keystep"}},
		{"unknown", {NULL}},
	};
	struct kw_reply *outer = elements(4), *inner = elements(8);
	char word[WORD_BYTES];
	size_t count = 0, kind = 0;

	take_word(at, word);
	while (strcmp(kinds[kind].type, word) != 0)
		kind++;
	for (int i = 0; i < 4 && kinds[kind].names[i]; i++) {
		inner[count++] = text_reply(kinds[kind].names[i]);
		take_word(at, word);
		inner[count++] = strcmp(kinds[kind].names[i], "keyword") == 0 ? text_reply(word)
									      : number_reply(word);
	}
	outer[0] = text_reply("type");
	outer[1] = text_reply(kinds[kind].type);
	outer[2] = text_reply("spec");
	outer[3] = array_reply(inner, count);
	return array_reply(outer, 4);
}

static struct kw_reply spec_reply(const char **at)
{
	struct kw_reply *items = elements(6);
	char word[WORD_BYTES];

	items[0] = text_reply("flags");
	items[1] = flags_reply(take_word(at, word));
	items[2] = text_reply("begin_search");
	items[3] = search_reply(at);
	items[4] = text_reply("find_keys");
	items[5] = search_reply(at);
	return array_reply(items, 6);
}

/* One line; of a subcommand ("xgroup|create") the bar is written as a dot: "xgroup.create". */
static struct kw_reply entry_reply(const char **at)
{
	struct kw_reply *items = elements(10), *specs = elements(KW_REPL_SPECS_MOST + 4);
	size_t count = 0;
	char word[WORD_BYTES];
	bool described = false;

	take_word(at, word);
	if (strchr(word, '.'))
		*strchr(word, '.') = '|';
	items[0] = text_reply(word);
	items[1] = number_reply("-1");
	items[2] = flags_reply(take_word(at, word));
	for (int i = 3; i < 6; i++)
		items[i] = number_reply(take_word(at, word));
	items[6] = array_reply(elements(0), 0);
	items[7] = array_reply(elements(0), 0);
	for (*at += strspn(*at, " "); **at == '|'; *at += strspn(*at, " ")) {
		described = true;
		*at += 1;
		*at += strspn(*at, " ");
		if (**at != '\n')
			specs[count++] = spec_reply(at);
	}
	items[8] = array_reply(specs, count);
	items[9] = array_reply(elements(ELEMENTS_MOST), 0);
	return array_reply(items, described ? 10 : 7);
}

static bool belongs(const struct kw_reply *inner, const struct kw_reply *outer)
{
	const struct kw_slice name = outer->elements[0].text, whole = inner->elements[0].text;

	return whole.length > name.length && memcmp(whole.data, name.data, name.length) == 0 &&
	       ((const char *)whole.data)[name.length] == '|';
}

struct kw_repl_catalog *catalog_from(const char *text)
{
	struct kw_reply *entries = elements(ELEMENTS_MOST);
	struct kw_repl_catalog *catalog = NULL;
	struct kw_reply reply;
	struct kw_error error;
	size_t count = 0;

	for (const char *at = text; *at; at += *at == '\n') {
		struct kw_reply entry = entry_reply(&at);
		struct kw_reply *inner =
			count > 0 ? (struct kw_reply *)&entries[count - 1].elements[9] : NULL;

		if (inner && belongs(&entry, &entries[count - 1]))
			((struct kw_reply *)inner->elements)[inner->count++] = entry;
		else
			entries[count++] = entry;
	}
	reply = array_reply(entries, count);
	if (kw_repl_catalog_new(&reply, &catalog, &error))
		fail_msg("%s", error.text);
	kw_arena_close(&arena);
	return catalog;
}
