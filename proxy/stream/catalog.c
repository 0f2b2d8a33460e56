#include "stream/catalog.h"

#include <assert.h>
#include <ctype.h>
#include <stdlib.h>
#include <strings.h>

#define NAME_BYTES 64

/* Where the elements of COMMAND's entry stand. Redis 6.2 ends before the tips. */
#define AT_NAME 0
#define AT_FLAGS 2
#define AT_FIRST 3
#define AT_LAST 4
#define AT_STEP 5
#define AT_SPECS 8
#define AT_SUBCOMMANDS 9
#define ENTRY_LEAST 6

enum begin { BEGIN_INDEX, BEGIN_KEYWORD, BEGIN_UNKNOWN };
enum find { FIND_RANGE, FIND_NUMBER, FIND_UNKNOWN };

/* One key specification. Its members are named as the server names them. */
struct spec {
	enum begin begin;
	enum find find;
	bool read_only, incomplete;
	int32_t index; /* BEGIN_INDEX; BEGIN_KEYWORD: startfrom */
	char keyword[16];
	int32_t last_key, key_step, limit;   /* FIND_RANGE */
	int32_t number_index, first_key, by; /* FIND_NUMBER: keynumidx, firstkey, keystep */
};

struct command {
	char name[NAME_BYTES]; /* lower case; of a subcommand: "xgroup|create" */
	bool writes;           /* it has the flag `write` */
	bool container;        /* it has subcommands */
	bool movable;          /* the keys cannot be told from the positions alone */
	uint32_t first_spec, specs;
};

struct kw_repl_catalog {
	struct command *commands; /* in the order of their names */
	size_t count, capacity;
	struct spec *specs;
	size_t spec_count, spec_capacity;
};

/* ---- reading the reply ---- */

static bool is_text(const struct kw_reply *reply)
{
	return reply->type == KW_REPLY_STRING || reply->type == KW_REPLY_STATUS;
}

static bool says(const struct kw_reply *reply, const char *word)
{
	return is_text(reply) && reply->text.length == strlen(word) &&
	       strncasecmp(reply->text.data, word, reply->text.length) == 0;
}

static bool has_flag(const struct kw_reply *flags, const char *flag)
{
	for (size_t i = 0; flags->type == KW_REPLY_ARRAY && i < flags->count; i++)
		if (says(&flags->elements[i], flag))
			return true;
	return false;
}

/* The value of a name in an array of names and values; NULL: it is not there. */
static const struct kw_reply *member(const struct kw_reply *map, const char *name)
{
	for (size_t i = 0; map && map->type == KW_REPLY_ARRAY && i + 1 < map->count; i += 2)
		if (says(&map->elements[i], name))
			return &map->elements[i + 1];
	return NULL;
}

static bool take_number(const struct kw_reply *map, const char *name, int32_t *number)
{
	const struct kw_reply *value = member(map, name);

	if (!value || value->type != KW_REPLY_INTEGER || value->integer < INT16_MIN ||
		value->integer > INT16_MAX)
		return false;
	*number = (int32_t)value->integer;
	return true;
}

static void read_begin(const struct kw_reply *map, struct spec *spec)
{
	const struct kw_reply *type = member(map, "type"), *inner = member(map, "spec");
	const struct kw_reply *keyword = member(inner, "keyword");

	spec->begin = BEGIN_UNKNOWN;
	if (type && says(type, "index") && take_number(inner, "index", &spec->index) &&
		spec->index > 0) {
		spec->begin = BEGIN_INDEX;
	} else if (type && says(type, "keyword") && keyword && is_text(keyword) &&
		   keyword->text.length < sizeof spec->keyword &&
		   take_number(inner, "startfrom", &spec->index) && spec->index != 0) {
		memcpy(spec->keyword, keyword->text.data, keyword->text.length);
		spec->begin = BEGIN_KEYWORD;
	}
}

static void read_find(const struct kw_reply *map, struct spec *spec)
{
	const struct kw_reply *type = member(map, "type"), *inner = member(map, "spec");

	spec->find = FIND_UNKNOWN;
	if (type && says(type, "range") && take_number(inner, "lastkey", &spec->last_key) &&
		take_number(inner, "keystep", &spec->key_step) &&
		take_number(inner, "limit", &spec->limit) && spec->key_step > 0)
		spec->find = FIND_RANGE;
	else if (type && says(type, "keynum") &&
		 take_number(inner, "keynumidx", &spec->number_index) &&
		 take_number(inner, "firstkey", &spec->first_key) &&
		 take_number(inner, "keystep", &spec->by) && spec->by > 0 &&
		 spec->number_index >= 0 && spec->first_key >= 0)
		spec->find = FIND_NUMBER;
}

static void add_spec(
	struct kw_repl_catalog *catalog, struct command *command, const struct spec *spec)
{
	if (catalog->spec_count == catalog->spec_capacity) {
		catalog->spec_capacity = catalog->spec_capacity ? catalog->spec_capacity * 2 : 512;
		catalog->specs =
			kw_realloc(catalog->specs, catalog->spec_capacity * sizeof *catalog->specs);
	}
	catalog->specs[catalog->spec_count++] = *spec;
	command->specs++;
}

/* False: more than the bound. */
static bool read_specs(
	struct kw_repl_catalog *catalog, struct command *command, const struct kw_reply *specs)
{
	if (specs->count > KW_REPL_SPECS_MOST)
		return false;
	for (size_t i = 0; i < specs->count; i++) {
		const struct kw_reply *map = &specs->elements[i];
		const struct kw_reply *flags = member(map, "flags");
		struct spec spec = {0};

		spec.read_only = flags && has_flag(flags, "RO");
		spec.incomplete = !flags || has_flag(flags, "incomplete");
		read_begin(member(map, "begin_search"), &spec);
		read_find(member(map, "find_keys"), &spec);
		add_spec(catalog, command, &spec);
	}
	return true;
}

/*
 * Redis 6.2: last is counted from the end if it is below 0, and not from the first key. A command
 * without the flag `write` changes its keys, too, if it is sent: PFCOUNT keeps its result there.
 */
static bool read_positions(
	struct kw_repl_catalog *catalog, struct command *command, const struct kw_reply *entry)
{
	const struct kw_reply *at = entry->elements;
	int64_t first = at[AT_FIRST].integer, last = at[AT_LAST].integer;
	int64_t step = at[AT_STEP].integer;
	struct spec spec = {.begin = BEGIN_INDEX, .find = FIND_RANGE};

	if (at[AT_FIRST].type != KW_REPLY_INTEGER || at[AT_LAST].type != KW_REPLY_INTEGER ||
		at[AT_STEP].type != KW_REPLY_INTEGER)
		return false;
	command->movable = has_flag(&at[AT_FLAGS], "movablekeys");
	if (first == 0)
		return true;
	if (first < 0 || first > INT16_MAX || last > INT16_MAX || last < INT16_MIN || step <= 0 ||
		step > INT16_MAX)
		return false;
	spec.index = (int32_t)first;
	spec.last_key = (int32_t)(last < 0 ? last : last - first);
	spec.key_step = (int32_t)step;
	add_spec(catalog, command, &spec);
	return true;
}

static bool read_name(const struct kw_reply *name, char text[NAME_BYTES])
{
	if (!is_text(name) || name->text.length == 0 || name->text.length >= NAME_BYTES)
		return false;
	for (size_t i = 0; i < name->text.length; i++)
		text[i] = (char)tolower(((const uint8_t *)name->text.data)[i]);
	text[name->text.length] = '\0';
	return true;
}

static const struct kw_reply *array_at(const struct kw_reply *entry, size_t at)
{
	return entry->count > at && entry->elements[at].type == KW_REPLY_ARRAY
		       ? &entry->elements[at]
		       : NULL;
}

/* False: the bound is reached. */
static bool read_entry(struct kw_repl_catalog *catalog, const struct kw_reply *entry)
{
	const struct kw_reply *specs, *subcommands;
	struct command command = {.first_spec = (uint32_t)catalog->spec_count};

	if (catalog->count == KW_REPL_COMMANDS_MOST)
		return false;
	if (entry->type != KW_REPLY_ARRAY || entry->count < ENTRY_LEAST ||
		!read_name(&entry->elements[AT_NAME], command.name))
		return true;
	specs = array_at(entry, AT_SPECS);
	subcommands = array_at(entry, AT_SUBCOMMANDS);
	command.writes = has_flag(&entry->elements[AT_FLAGS], "write");
	command.container = subcommands && subcommands->count > 0;
	if (!(specs ? read_specs(catalog, &command, specs)
		    : read_positions(catalog, &command, entry))) {
		catalog->spec_count = command.first_spec;
		return true;
	}
	/* A module that names its keys by a function (getkeys-api): its specifications are a guess.
	 */
	command.movable |= has_flag(&entry->elements[AT_FLAGS], "module") &&
			   has_flag(&entry->elements[AT_FLAGS], "movablekeys");
	if (catalog->count == catalog->capacity) {
		catalog->capacity = catalog->capacity ? catalog->capacity * 2 : 512;
		catalog->commands = kw_realloc(
			catalog->commands, catalog->capacity * sizeof *catalog->commands);
	}
	catalog->commands[catalog->count++] = command;
	for (size_t i = 0; subcommands && i < subcommands->count; i++) {
		const struct kw_reply *inner = &subcommands->elements[i];

		/* Subcommands have none of their own. */
		if (array_at(inner, AT_SUBCOMMANDS) && array_at(inner, AT_SUBCOMMANDS)->count > 0)
			continue;
		if (!read_entry(catalog, inner))
			return false;
	}
	return true;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct command *)a)->name, ((const struct command *)b)->name);
}

int kw_repl_catalog_new(
	const struct kw_reply *reply, struct kw_repl_catalog **catalog, struct kw_error *error)
{
	struct kw_repl_catalog *read = kw_zalloc(sizeof *read);
	bool within = true;

	for (size_t i = 0; reply->type == KW_REPLY_ARRAY && within && i < reply->count; i++)
		within = read_entry(read, &reply->elements[i]);
	if (read->count == 0 || !within) {
		kw_repl_catalog_free(read);
		return kw_error_set(error, KW_E_PROTOCOL, "COMMAND: %s",
			within ? "the reply lists no command"
			       : "the reply lists too many commands");
	}
	qsort(read->commands, read->count, sizeof *read->commands, by_name);
	*catalog = read;
	return KW_OK;
}

void kw_repl_catalog_free(struct kw_repl_catalog *catalog)
{
	if (!catalog)
		return;
	free(catalog->commands);
	free(catalog->specs);
	free(catalog);
}

size_t kw_repl_catalog_count(const struct kw_repl_catalog *catalog)
{
	return catalog->count;
}

/* ---- looking keys up ---- */

/* What is asked: the words, and where their keys go. */
struct search {
	const struct kw_repl_command *command;
	void (*key)(void *arg, uint32_t index);
	void *arg;
};

static const struct kw_repl_word *word_at(const struct search *search, int64_t index)
{
	return index >= 0 && index < search->command->count ? &search->command->words[index] : NULL;
}

static bool word_is(const struct kw_repl_word *word, const char *text)
{
	return word && !word->too_long && word->text.length == strlen(text) &&
	       strncasecmp(word->text.data, text, word->text.length) == 0;
}

/* False: the word is not there. */
static bool tell(const struct search *search, int64_t index)
{
	if (!word_at(search, index))
		return false;
	search->key(search->arg, (uint32_t)index);
	return true;
}

/*
 * The first word of the keys. 0: the keyword does not occur, so there are none. A startfrom below 0
 * looks from there towards the front (GEORADIUS … STORE).
 */
static uint32_t find_begin(const struct search *search, const struct spec *spec)
{
	int64_t count = search->command->count;
	int64_t step = spec->index > 0 ? 1 : -1;
	int64_t at = spec->index > 0 ? spec->index : count + spec->index;

	if (spec->begin == BEGIN_INDEX)
		return (uint32_t)spec->index;
	for (; at > 0 && at < count; at += step)
		if (word_is(word_at(search, at), spec->keyword))
			return (uint32_t)at + 1;
	return 0;
}

static bool tell_range(const struct search *search, const struct spec *spec, int64_t first)
{
	int64_t count = search->command->count;
	int64_t last = first + spec->last_key;

	if (spec->last_key < 0) {
		last = count + spec->last_key;
		/* limit n: the keys are among the first 1/n of the words that are left. */
		if (spec->last_key == -1 && spec->limit >= 2)
			last = first + (count - first) / spec->limit - 1;
		if (search->command->cut)
			return false;
	}
	for (int64_t at = first; at <= last; at += spec->key_step)
		if (!tell(search, at))
			return false;
	return true;
}

static bool tell_counted(const struct search *search, const struct spec *spec, int64_t first)
{
	const struct kw_repl_word *word = word_at(search, first + spec->number_index);
	int64_t number = 0;

	if (!word || word->too_long || word->text.length == 0 || word->text.length > 9)
		return false;
	for (size_t i = 0; i < word->text.length; i++) {
		uint8_t digit = ((const uint8_t *)word->text.data)[i];

		if (digit < '0' || digit > '9')
			return false;
		number = number * 10 + (digit - '0');
	}
	for (int64_t i = 0; i < number; i++)
		if (!tell(search, first + spec->first_key + i * spec->by))
			return false;
	return true;
}

/* False: its keys are not known. */
static bool tell_spec(const struct search *search, const struct spec *spec)
{
	uint32_t first;

	if (spec->read_only)
		return true;
	if (spec->incomplete || spec->begin == BEGIN_UNKNOWN || spec->find == FIND_UNKNOWN)
		return false;
	first = find_begin(search, spec);
	if (first == 0)
		return !search->command->cut; /* the keyword may have been cut off */
	return spec->find == FIND_RANGE ? tell_range(search, spec, first)
					: tell_counted(search, spec, first);
}

/* "name", or "name|subcommand". False: no name of a catalog. */
static bool name_of(const struct kw_repl_command *command, bool inner, char text[NAME_BYTES])
{
	size_t at = 0;

	for (uint32_t i = 0; i < (inner ? 2U : 1U); i++) {
		const struct kw_slice *word = i < command->count ? &command->words[i].text : NULL;

		if (!word || word->length == 0 || word->length >= NAME_BYTES - at - 1)
			return false;
		if (i == 1)
			text[at++] = '|';
		for (size_t n = 0; n < word->length; n++)
			text[at++] = (char)tolower(((const uint8_t *)word->data)[n]);
	}
	text[at] = '\0';
	return true;
}

static const struct command *find_command(
	const struct kw_repl_catalog *catalog, const struct kw_repl_command *command)
{
	struct command wanted;
	const struct command *found = NULL;

	for (int inner = 0; inner < 2; inner++) {
		if (!catalog || !name_of(command, inner, wanted.name))
			return NULL;
		found = bsearch(&wanted, catalog->commands, catalog->count, sizeof wanted, by_name);
		if (!found || !found->container)
			return found;
	}
	return NULL;
}

enum kw_repl_keys kw_repl_catalog_keys(const struct kw_repl_catalog *catalog,
	const struct kw_repl_command *command, void (*key)(void *arg, uint32_t index), void *arg)
{
	const struct command *found = find_command(catalog, command);
	const struct search search = {command, key, arg};
	bool known = true;

	if (!found)
		return KW_REPL_KEYS_ANYWHERE;
	if (!found->writes && found->specs == 0)
		return found->movable ? KW_REPL_KEYS_UNKNOWN : KW_REPL_KEYS_NONE;
	for (uint32_t i = 0; i < found->specs; i++)
		known = tell_spec(&search, &catalog->specs[found->first_spec + i]) && known;
	if (!known || found->movable || found->specs == 0)
		return KW_REPL_KEYS_UNKNOWN;
	return KW_REPL_KEYS_TOLD;
}
