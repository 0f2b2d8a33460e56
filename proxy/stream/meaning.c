#include "stream/meaning.h"

#include <ctype.h>
#include <stdlib.h>
#include <strings.h>

#define NAME_BYTES 24
#define INTEGER_BYTES 20 /* "-9223372036854775808" */

/* What the functions of the table below work on. */
struct meaning {
	const struct kw_repl_command *command;
	const struct kw_repl_catalog *catalog;
	uint32_t database;
	kw_repl_effect_fn fn;
	void *arg;
};

bool kw_repl_is(const struct kw_repl_command *command, const char *name)
{
	const struct kw_slice *word = command->count > 0 ? &command->words[0].text : NULL;

	return word && word->length == strlen(name) &&
	       strncasecmp(word->data, name, word->length) == 0;
}

/* A magnitude without sign; the largest is that of INT64_MIN. */
static bool read_digits(const uint8_t *at, size_t length, uint64_t *value)
{
	const uint64_t most = (uint64_t)INT64_MAX + 1;

	if (length == 0 || length >= INTEGER_BYTES || (at[0] == '0' && length > 1))
		return false;
	for (*value = 0; length > 0; at++, length--) {
		if (*at < '0' || *at > '9')
			return false;
		/* 19 digits are less than 10^19, which 64 bits hold. */
		*value = *value * 10 + (uint64_t)(*at - '0');
	}
	return *value <= most;
}

bool kw_repl_number(struct kw_slice text, int64_t *number)
{
	const uint8_t *at = text.data;
	bool negative = text.length > 0 && at[0] == '-';
	uint64_t value;

	if (!read_digits(negative ? at + 1 : at, text.length - negative, &value))
		return false;
	if (negative ? value == 0 : value > INT64_MAX)
		return false;
	*number = negative ? (int64_t)(0 - value) : (int64_t)value;
	return true;
}

/* ---- telling ---- */

static void doubt_in(const struct meaning *meaning, uint32_t database)
{
	const struct kw_repl_command *command = meaning->command;
	const struct kw_repl_effect effect = {
		.kind = KW_REPL_DOUBT,
		.expiry = KW_REPL_EXPIRES_AS_BEFORE,
		.database = database,
		.key = command->count > 0 ? command->words[0].text : (struct kw_slice){0},
	};

	meaning->fn(meaning->arg, &effect);
}

static void doubt(const struct meaning *meaning)
{
	doubt_in(meaning, meaning->database);
}

static void touch_slice(const struct meaning *meaning, uint32_t database, struct kw_slice key)
{
	const struct kw_repl_effect effect = {
		.kind = KW_REPL_TOUCH,
		.expiry = KW_REPL_EXPIRES_AS_BEFORE,
		.database = database,
		.key = key,
	};

	meaning->fn(meaning->arg, &effect);
}

/* A key that was too long to keep cannot be named. */
static void touch(const struct meaning *meaning, uint32_t index)
{
	const struct kw_repl_word *word = &meaning->command->words[index];

	if (word->too_long)
		doubt(meaning);
	else
		touch_slice(meaning, meaning->database, word->text);
}

/* An effect of one key, or of two. Of a key in nobody knows which database only TOUCH can be said.
 */
static void tell(const struct meaning *meaning, struct kw_repl_effect effect)
{
	effect.database = meaning->database;
	if (meaning->database != KW_REPL_ANY_DATABASE) {
		meaning->fn(meaning->arg, &effect);
		return;
	}
	touch_slice(meaning, meaning->database, effect.key);
	if (effect.kind == KW_REPL_MOVE || effect.kind == KW_REPL_COPY)
		touch_slice(meaning, effect.to_database, effect.to);
}

/* ---- words ---- */

static bool has_words(const struct meaning *meaning, uint32_t least)
{
	return meaning->command->count >= least && !meaning->command->cut;
}

static struct kw_slice word(const struct meaning *meaning, uint32_t index)
{
	return meaning->command->words[index].text;
}

static bool is_kept(const struct meaning *meaning, uint32_t index)
{
	return !meaning->command->words[index].too_long;
}

static bool word_is(const struct meaning *meaning, uint32_t index, const char *text)
{
	const struct kw_slice given = word(meaning, index);

	return given.length == strlen(text) && strncasecmp(given.data, text, given.length) == 0;
}

static bool number_at(const struct meaning *meaning, uint32_t index, int64_t *number)
{
	return index < meaning->command->count && kw_repl_number(word(meaning, index), number);
}

static bool database_at(const struct meaning *meaning, uint32_t index, uint32_t *database)
{
	int64_t number;

	if (!number_at(meaning, index, &number) || number < 0 || number > KW_REPL_DATABASE_LAST)
		return false;
	*database = (uint32_t)number;
	return true;
}

/* ---- commands ----
 *
 * Each of these returns false if the command is not of the form that it understands. Then its keys
 * are told by the catalog.
 */

/* The options of SET, from `at` on. False: one that is not known. */
static bool set_options(const struct meaning *meaning, uint32_t at, struct kw_repl_effect *effect)
{
	static const char *const harmless[] = {"NX", "XX", "GET"};

	for (; at < meaning->command->count; at++) {
		bool seconds = word_is(meaning, at, "EXAT");
		bool known = false;

		for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
			known = known || word_is(meaning, at, harmless[i]);
		if (word_is(meaning, at, "KEEPTTL")) {
			effect->expiry = KW_REPL_EXPIRES_AS_BEFORE;
		} else if (seconds || word_is(meaning, at, "PXAT")) {
			if (!number_at(meaning, ++at, &effect->expires_ms) ||
				effect->expires_ms <= 0 ||
				(seconds && effect->expires_ms > INT64_MAX / 1000))
				return false;
			effect->expires_ms *= seconds ? 1000 : 1;
			effect->expiry = KW_REPL_EXPIRES_AT;
		} else if (!known) {
			return false;
		}
	}
	return true;
}

static bool mean_set(const struct meaning *meaning)
{
	struct kw_repl_effect effect = {.kind = KW_REPL_VALUE};

	if (!has_words(meaning, 3) || !is_kept(meaning, 1) || !is_kept(meaning, 2))
		return false;
	effect.key = word(meaning, 1);
	effect.bytes = word(meaning, 2);
	if (!set_options(meaning, 3, &effect))
		return false;
	tell(meaning, effect);
	return true;
}

/* GETSET, SETNX. */
static bool mean_plain_set(const struct meaning *meaning)
{
	return meaning->command->count == 3 && mean_set(meaning);
}

/* MSET, MSETNX. A pair that cannot be told whole is fetched; the others need not be. */
static bool mean_mset(const struct meaning *meaning)
{
	if (!has_words(meaning, 3) || meaning->command->count % 2 == 0)
		return false;
	for (uint32_t i = 1; i + 1 < meaning->command->count; i += 2) {
		if (is_kept(meaning, i) && is_kept(meaning, i + 1))
			tell(meaning, (struct kw_repl_effect){.kind = KW_REPL_VALUE,
					      .key = word(meaning, i),
					      .bytes = word(meaning, i + 1)});
		else
			touch(meaning, i);
	}
	return true;
}

/* DEL, UNLINK, GETDEL. Of a command that was cut the first keys are told, and a doubt. */
static bool mean_delete(const struct meaning *meaning)
{
	if (meaning->command->count < 2)
		return false;
	for (uint32_t i = 1; i < meaning->command->count; i++) {
		if (is_kept(meaning, i))
			tell(meaning, (struct kw_repl_effect){.kind = KW_REPL_DELETE,
					      .expiry = KW_REPL_EXPIRES_AS_BEFORE,
					      .key = word(meaning, i)});
		else
			touch(meaning, i);
	}
	if (meaning->command->cut)
		doubt(meaning);
	return true;
}

/* PEXPIREAT, EXPIREAT; NX, XX, GT and LT hold, or nothing would have been sent. */
static bool mean_expire_at(const struct meaning *meaning)
{
	bool seconds = kw_repl_is(meaning->command, "EXPIREAT");
	int64_t at;

	if (!has_words(meaning, 3) || !is_kept(meaning, 1) || !number_at(meaning, 2, &at) ||
		at <= 0 || (seconds && at > INT64_MAX / 1000))
		return false;
	tell(meaning, (struct kw_repl_effect){.kind = KW_REPL_EXPIRY,
			      .expiry = KW_REPL_EXPIRES_AT,
			      .key = word(meaning, 1),
			      .expires_ms = seconds ? at * 1000 : at});
	return true;
}

static bool mean_persist(const struct meaning *meaning)
{
	if (!has_words(meaning, 2) || !is_kept(meaning, 1))
		return false;
	tell(meaning, (struct kw_repl_effect){.kind = KW_REPL_EXPIRY,
			      .expiry = KW_REPL_EXPIRES_NEVER,
			      .key = word(meaning, 1)});
	return true;
}

static bool tell_sum(const struct meaning *meaning, int64_t number)
{
	tell(meaning, (struct kw_repl_effect){.kind = KW_REPL_ADD,
			      .expiry = KW_REPL_EXPIRES_AS_BEFORE,
			      .key = word(meaning, 1),
			      .number = number});
	return true;
}

/* INCR, DECR, INCRBY, DECRBY. */
static bool mean_sum(const struct meaning *meaning)
{
	bool down = kw_repl_is(meaning->command, "DECR") || kw_repl_is(meaning->command, "DECRBY");
	bool by_one = kw_repl_is(meaning->command, "INCR") || kw_repl_is(meaning->command, "DECR");
	int64_t number = 1;

	if (!has_words(meaning, by_one ? 2 : 3) || !is_kept(meaning, 1) ||
		(!by_one && !number_at(meaning, 2, &number)) || number == INT64_MIN)
		return false;
	return tell_sum(meaning, down ? -number : number);
}

static bool mean_append(const struct meaning *meaning)
{
	if (!has_words(meaning, 3) || !is_kept(meaning, 1) || !is_kept(meaning, 2))
		return false;
	tell(meaning, (struct kw_repl_effect){.kind = KW_REPL_APPEND,
			      .expiry = KW_REPL_EXPIRES_AS_BEFORE,
			      .key = word(meaning, 1),
			      .bytes = word(meaning, 2)});
	return true;
}

static bool mean_setrange(const struct meaning *meaning)
{
	int64_t at;

	if (!has_words(meaning, 4) || !is_kept(meaning, 1) || !is_kept(meaning, 3) ||
		!number_at(meaning, 2, &at) || at < 0)
		return false;
	tell(meaning, (struct kw_repl_effect){.kind = KW_REPL_WRITE,
			      .expiry = KW_REPL_EXPIRES_AS_BEFORE,
			      .key = word(meaning, 1),
			      .bytes = word(meaning, 3),
			      .number = at});
	return true;
}

/* From word 1 to a key `to`. A key moved to itself is a form that no server sends. */
static bool tell_pair(const struct meaning *meaning, enum kw_repl_effect_kind kind,
	uint32_t to_database, struct kw_slice to)
{
	const struct kw_slice key = word(meaning, 1);

	if (to_database == meaning->database && kw_slice_equal(key, to))
		return false;
	tell(meaning, (struct kw_repl_effect){.kind = kind,
			      .expiry = KW_REPL_EXPIRES_AS_BEFORE,
			      .key = key,
			      .to = to,
			      .to_database = to_database});
	return true;
}

/* RENAME, RENAMENX. */
static bool mean_rename(const struct meaning *meaning)
{
	return has_words(meaning, 3) && is_kept(meaning, 1) && is_kept(meaning, 2) &&
	       tell_pair(meaning, KW_REPL_MOVE, meaning->database, word(meaning, 2));
}

/* MOVE key database. The catalog knows one key, so what is not understood is a doubt. */
static bool mean_move(const struct meaning *meaning)
{
	uint32_t to;

	if (!has_words(meaning, 3) || !is_kept(meaning, 1) || !database_at(meaning, 2, &to) ||
		!tell_pair(meaning, KW_REPL_MOVE, to, word(meaning, 1)))
		doubt_in(meaning, KW_REPL_ANY_DATABASE);
	return true;
}

/* COPY source destination [DB n] [REPLACE]; the same. */
static bool mean_copy(const struct meaning *meaning)
{
	uint32_t to = meaning->database;
	bool known = has_words(meaning, 3) && is_kept(meaning, 1) && is_kept(meaning, 2);

	for (uint32_t i = 3; known && i < meaning->command->count; i++) {
		if (word_is(meaning, i, "DB"))
			known = database_at(meaning, ++i, &to);
		else
			known = word_is(meaning, i, "REPLACE");
	}
	if (!known || !tell_pair(meaning, KW_REPL_COPY, to, word(meaning, 2)))
		doubt_in(meaning, KW_REPL_ANY_DATABASE);
	return true;
}

/* RESTORE key ttl payload [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]. */
static bool mean_restore(const struct meaning *meaning)
{
	bool absolute = false, known = true;
	int64_t ttl;

	if (!has_words(meaning, 4) || !is_kept(meaning, 1) || !is_kept(meaning, 3) ||
		!number_at(meaning, 2, &ttl) || ttl < 0)
		return false;
	for (uint32_t i = 4; known && i < meaning->command->count; i++) {
		if (word_is(meaning, i, "ABSTTL"))
			absolute = true;
		else if (word_is(meaning, i, "IDLETIME") || word_is(meaning, i, "FREQ"))
			i++;
		else
			known = word_is(meaning, i, "REPLACE");
	}
	if (!known || (ttl > 0 && !absolute))
		return false;
	tell(meaning, (struct kw_repl_effect){.kind = KW_REPL_PAYLOAD,
			      .expiry = ttl ? KW_REPL_EXPIRES_AT : KW_REPL_EXPIRES_NEVER,
			      .key = word(meaning, 1),
			      .bytes = word(meaning, 3),
			      .expires_ms = ttl});
	return true;
}

/* How many words an option of SORT has, itself included. 0: it is none. */
static uint32_t sort_option(const struct meaning *meaning, uint32_t index)
{
	static const struct {
		const char *name;
		uint32_t words;
	} options[] = {{"ASC", 1}, {"DESC", 1}, {"ALPHA", 1}, {"LIMIT", 3}, {"BY", 2}, {"GET", 2},
		{"STORE", 2}};

	for (size_t i = 0; i < sizeof options / sizeof *options; i++)
		if (word_is(meaning, index, options[i].name))
			return options[i].words;
	return 0;
}

/* SORT key … STORE destination: its specifications do not name the destination. */
static bool mean_sort(const struct meaning *meaning)
{
	uint32_t step, destination = 0;

	if (!has_words(meaning, 4))
		return false;
	for (uint32_t i = 2; i < meaning->command->count; i += step) {
		step = sort_option(meaning, i);
		if (step == 0 || step > meaning->command->count - i)
			return false;
		if (word_is(meaning, i, "STORE"))
			destination = i + 1;
	}
	if (destination)
		touch(meaning, destination);
	return destination != 0;
}

/*
 * GEORADIUS and GEORADIUSBYMEMBER with STORE or STOREDIST. The last of these options counts, so
 * some servers (Redis 8.0.2 of Debian 13) say that their specification is incomplete. A key too
 * many is fetched in vain.
 */
static bool mean_georadius(const struct meaning *meaning)
{
	uint32_t fixed = kw_repl_is(meaning->command, "GEORADIUS") ? 6 : 5;
	bool found = false;

	if (!has_words(meaning, fixed))
		return false;
	for (uint32_t i = fixed; i + 1 < meaning->command->count; i++) {
		if (!word_is(meaning, i, "STORE") && !word_is(meaning, i, "STOREDIST"))
			continue;
		touch(meaning, ++i);
		found = true;
	}
	return found;
}

static bool mean_flush(const struct meaning *meaning)
{
	bool all = kw_repl_is(meaning->command, "FLUSHALL");

	meaning->fn(meaning->arg,
		&(struct kw_repl_effect){.kind = all ? KW_REPL_FLUSH_ALL : KW_REPL_FLUSH,
			.expiry = KW_REPL_EXPIRES_AS_BEFORE,
			.database = all ? KW_REPL_ANY_DATABASE : meaning->database});
	return true;
}

static bool mean_swap(const struct meaning *meaning)
{
	struct kw_repl_effect effect = {.kind = KW_REPL_SWAP, .expiry = KW_REPL_EXPIRES_AS_BEFORE};

	if (!has_words(meaning, 3) || !database_at(meaning, 1, &effect.database) ||
		!database_at(meaning, 2, &effect.to_database)) {
		doubt_in(meaning, KW_REPL_ANY_DATABASE);
		return true;
	}
	if (effect.database != effect.to_database)
		meaning->fn(meaning->arg, &effect);
	return true;
}

static bool mean_functions(const struct meaning *meaning)
{
	bool flushed = has_words(meaning, 2) && word_is(meaning, 1, "FLUSH");

	meaning->fn(meaning->arg,
		&(struct kw_repl_effect){
			.kind = flushed ? KW_REPL_FUNCTIONS_FLUSHED : KW_REPL_FUNCTIONS,
			.expiry = KW_REPL_EXPIRES_AS_BEFORE,
			.database = meaning->database});
	return true;
}

static bool mean_nothing(const struct meaning *meaning)
{
	return true;
}

/* A script itself, and not what it did (Redis 6.2): it can change any key of any database. */
static bool mean_script(const struct meaning *meaning)
{
	doubt_in(meaning, KW_REPL_ANY_DATABASE);
	return true;
}

/* ---- the table ---- */

struct row {
	const char *name;
	bool (*mean)(const struct meaning *meaning);
};

/* In the order of their names. */
static const struct row rows[] = {
	{"append", mean_append},
	{"copy", mean_copy},
	{"decr", mean_sum},
	{"decrby", mean_sum},
	{"del", mean_delete},
	{"eval", mean_script},
	{"evalsha", mean_script},
	{"exec", mean_nothing},
	{"expireat", mean_expire_at},
	{"fcall", mean_script},
	{"flushall", mean_flush},
	{"flushdb", mean_flush},
	{"function", mean_functions},
	{"georadius", mean_georadius},
	{"georadiusbymember", mean_georadius},
	{"getdel", mean_delete},
	{"getset", mean_plain_set},
	{"incr", mean_sum},
	{"incrby", mean_sum},
	{"move", mean_move},
	{"mset", mean_mset},
	{"msetnx", mean_mset},
	{"multi", mean_nothing},
	{"persist", mean_persist},
	{"pexpireat", mean_expire_at},
	{"ping", mean_nothing},
	{"publish", mean_nothing},
	{"rename", mean_rename},
	{"renamenx", mean_rename},
	{"replconf", mean_nothing},
	{"restore", mean_restore},
	{"restore-asking", mean_restore},
	{"script", mean_nothing},
	{"select", mean_nothing},
	{"set", mean_set},
	{"setnx", mean_plain_set},
	{"setrange", mean_setrange},
	{"sort", mean_sort},
	{"spublish", mean_nothing},
	{"swapdb", mean_swap},
	{"unlink", mean_delete},
};

static int by_name(const void *name, const void *row)
{
	return strcmp(name, ((const struct row *)row)->name);
}

static const struct row *find_row(const struct kw_repl_command *command)
{
	const struct kw_slice *text = command->count > 0 ? &command->words[0].text : NULL;
	char name[NAME_BYTES];

	if (!text || text->length == 0 || text->length >= sizeof name)
		return NULL;
	for (size_t i = 0; i < text->length; i++)
		name[i] = (char)tolower(((const uint8_t *)text->data)[i]);
	name[text->length] = '\0';
	return bsearch(name, rows, sizeof rows / sizeof *rows, sizeof *rows, by_name);
}

static void touch_index(void *arg, uint32_t index)
{
	touch(arg, index);
}

void kw_repl_meaning(const struct kw_repl_command *command, uint32_t database,
	const struct kw_repl_catalog *catalog, kw_repl_effect_fn fn, void *arg)
{
	struct meaning meaning = {command, catalog, database, fn, arg};
	const struct row *row = find_row(command);

	if (row && row->mean(&meaning))
		return;
	switch (kw_repl_catalog_keys(catalog, command, touch_index, &meaning)) {
	case KW_REPL_KEYS_TOLD:
	case KW_REPL_KEYS_NONE:
		break;
	case KW_REPL_KEYS_UNKNOWN:
		doubt(&meaning);
		break;
	case KW_REPL_KEYS_ANYWHERE:
		doubt_in(&meaning, KW_REPL_ANY_DATABASE);
		break;
	}
}
