#include "stream/effects.h"

#include "redis/arena.h"

#include <assert.h>
#include <stdlib.h>
#include <strings.h>

#define EFFECTS_FIRST 16
#define EFFECTS_AT_REST 4096 /* room that stays between two batches */
#define TRANSACTION_BYTES_MOST ((size_t)512 << 20)

enum state { PLAIN, TRANSACTION };

struct kw_repl_effects {
	struct kw_repl_effects_options options;
	const struct kw_repl_catalog *catalog;
	enum state state;
	uint32_t database;
	uint32_t weight; /* of an effect on a key whose database is not known */
	struct {
		uint64_t begin; /* of the command that is taken in parts */
		uint64_t taken; /* of its effects; 0: no command is */
		uint64_t seen;  /* … in the call under way */
	} part;
	uint64_t begin;  /* of the batch */
	uint64_t offset; /* handed on */
	struct kw_repl_effect *list;
	size_t count, capacity;
	struct kw_arena arena; /* TRANSACTION: the texts of `list` */
	size_t text_bytes;     /* … and how long they are */
};

struct kw_repl_effects *kw_repl_effects_new(const struct kw_repl_effects_options *options)
{
	struct kw_repl_effects *effects = kw_zalloc(sizeof *effects);

	assert(options->transaction_effects > 0 && options->command_effects > 0 &&
		options->transaction_bytes <= TRANSACTION_BYTES_MOST);
	effects->options = *options;
	effects->weight = 1;
	kw_repl_effects_reset(effects, options->offset);
	return effects;
}

void kw_repl_effects_free(struct kw_repl_effects *effects)
{
	if (!effects)
		return;
	free(effects->list);
	kw_arena_close(&effects->arena);
	free(effects);
}

void kw_repl_effects_catalog(struct kw_repl_effects *effects, const struct kw_repl_catalog *catalog)
{
	effects->catalog = catalog;
	effects->part.taken = 0; /* the same command can have other effects now */
}

uint64_t kw_repl_effects_offset(const struct kw_repl_effects *effects)
{
	return effects->offset;
}

bool kw_repl_effects_in_transaction(const struct kw_repl_effects *effects)
{
	return effects->state == TRANSACTION;
}

bool kw_repl_effects_has_database(const struct kw_repl_effects *effects)
{
	return effects->database != KW_REPL_ANY_DATABASE;
}

void kw_repl_effects_set_database(struct kw_repl_effects *effects, uint32_t database)
{
	assert(database <= KW_REPL_DATABASE_LAST);
	effects->database = database;
}

void kw_repl_effects_set_weight(struct kw_repl_effects *effects, uint32_t databases)
{
	effects->weight = databases > 0 ? databases : 1;
	effects->part.taken = 0; /* counted otherwise */
}

static void clear(struct kw_repl_effects *effects)
{
	effects->count = effects->text_bytes = 0;
	kw_arena_reset(&effects->arena);
	if (effects->capacity > EFFECTS_AT_REST) {
		free(effects->list);
		effects->list = NULL;
		effects->capacity = 0;
	}
}

void kw_repl_effects_reset(struct kw_repl_effects *effects, uint64_t offset)
{
	clear(effects);
	effects->state = PLAIN;
	effects->part.taken = 0;
	effects->database = KW_REPL_ANY_DATABASE;
	effects->begin = effects->offset = offset;
}

/* ---- handing on ---- */

static void hand_on(struct kw_repl_effects *effects, const struct kw_repl_effect *list,
	size_t count, uint64_t end)
{
	const struct kw_repl_batch batch = {
		.effects = list, .count = count, .begin = effects->begin, .end = end};

	if (count > 0)
		effects->options.batch(effects->options.arg, &batch);
}

/* What is collected, although more follows: the offset stands still. */
static void hand_on_piece(struct kw_repl_effects *effects)
{
	hand_on(effects, effects->list, effects->count, effects->begin);
	clear(effects);
}

static void hand_on_all(struct kw_repl_effects *effects, uint64_t end)
{
	effects->offset = end;
	hand_on(effects, effects->list, effects->count, end);
	clear(effects);
	effects->begin = end;
}

/* ---- collecting ---- */

static void add(struct kw_repl_effects *effects, const struct kw_repl_effect *effect)
{
	if (effects->count == effects->capacity) {
		effects->capacity = effects->capacity ? effects->capacity * 2 : EFFECTS_FIRST;
		effects->list =
			kw_realloc(effects->list, effects->capacity * sizeof *effects->list);
	}
	effects->list[effects->count++] = *effect;
}

/* False: no room. */
static bool keep_text(struct kw_repl_effects *effects, struct kw_slice *text)
{
	void *copy;

	if (text->length == 0)
		return true;
	if (text->length > effects->options.transaction_bytes ||
		effects->text_bytes > effects->options.transaction_bytes - text->length)
		return false;
	copy = kw_arena_take(&effects->arena, text->length);
	if (!copy)
		return false;
	memcpy(copy, text->data, text->length);
	text->data = copy;
	effects->text_bytes += text->length;
	return true;
}

static bool keep(struct kw_repl_effects *effects, const struct kw_repl_effect *effect)
{
	struct kw_repl_effect kept = *effect;

	if (effects->count == effects->options.transaction_effects ||
		!keep_text(effects, &kept.key) || !keep_text(effects, &kept.to) ||
		!keep_text(effects, &kept.bytes))
		return false;
	add(effects, &kept);
	return true;
}

/* Of a command in one call; 0: any number. The same in each call for one command. */
static uint64_t take_most(const struct kw_repl_effects *effects)
{
	uint64_t most = effects->options.take_effects;

	if (most == 0 || kw_repl_effects_has_database(effects))
		return most;
	return most > effects->weight ? most / effects->weight : 1;
}

/* False: it was taken before, or comes later. */
static bool is_due(struct kw_repl_effects *effects)
{
	uint64_t index = effects->part.seen++, most = take_most(effects);

	return index >= effects->part.taken && (most == 0 || index < effects->part.taken + most);
}

/* An effect of a transaction: its texts are gone after the call. */
static void collect(void *arg, const struct kw_repl_effect *effect)
{
	struct kw_repl_effects *effects = arg;

	if (!is_due(effects) || keep(effects, effect))
		return;
	hand_on_piece(effects);
	if (!keep(effects, effect)) {
		clear(effects); /* a part of its texts */
		hand_on(effects, effect, 1, effects->begin);
	}
}

/* An effect of a command by itself: its texts stay until the batch is handed on. */
static void collect_plain(void *arg, const struct kw_repl_effect *effect)
{
	struct kw_repl_effects *effects = arg;

	if (!is_due(effects))
		return;
	if (effects->count == effects->options.command_effects)
		hand_on_piece(effects);
	add(effects, effect);
}

/* ---- commands ---- */

static int begin_transaction(struct kw_repl_effects *effects, const struct kw_repl_command *command,
	struct kw_error *error)
{
	if (effects->state != PLAIN)
		return kw_error_set(error, KW_E_PROTOCOL,
			"the replication stream has MULTI within MULTI at offset %llu",
			(unsigned long long)command->begin);
	effects->state = TRANSACTION;
	effects->begin = command->begin;
	return KW_OK;
}

static int end_transaction(struct kw_repl_effects *effects, const struct kw_repl_command *command,
	struct kw_error *error)
{
	if (effects->state == PLAIN)
		return kw_error_set(error, KW_E_PROTOCOL,
			"the replication stream has EXEC without MULTI at offset %llu",
			(unsigned long long)command->begin);
	effects->state = PLAIN;
	hand_on_all(effects, command->end);
	return KW_OK;
}

static int select_database(struct kw_repl_effects *effects, const struct kw_repl_command *command,
	struct kw_error *error)
{
	int64_t database = -1;

	if (command->count != 2 || !kw_repl_number(command->words[1].text, &database) ||
		database < 0 || database > KW_REPL_DATABASE_LAST)
		return kw_error_set(error, KW_E_PROTOCOL,
			"the replication stream selects no database at offset %llu",
			(unsigned long long)command->begin);
	effects->database = (uint32_t)database;
	return KW_OK;
}

static bool asks_for_ack(const struct kw_repl_command *command)
{
	const struct kw_slice *word = command->count > 1 ? &command->words[1].text : NULL;

	return word && word->length == strlen("GETACK") &&
	       strncasecmp(word->data, "GETACK", word->length) == 0;
}

/* After kw_repl_meaning: `taken` counts what was handed on or collected before the call. */
static bool end_part(struct kw_repl_effects *effects)
{
	uint64_t most = take_most(effects), taken = effects->part.taken;

	effects->part.taken = most > 0 && effects->part.seen > taken + most ? taken + most : 0;
	return effects->part.taken == 0;
}

bool kw_repl_effects_has_more(const struct kw_repl_effects *effects)
{
	return effects->part.taken > 0;
}

/* A command that is none of those of the stream itself. False: more of it is left. */
static bool take_other(struct kw_repl_effects *effects, const struct kw_repl_command *command)
{
	bool plain = effects->state == PLAIN;

	if (plain)
		effects->begin = command->begin;
	if (effects->part.begin != command->begin)
		effects->part.taken = 0;
	effects->part.begin = command->begin;
	effects->part.seen = 0;
	kw_repl_meaning(command, effects->database, effects->catalog,
		plain ? collect_plain : collect, effects);
	if (end_part(effects))
		return true;
	if (plain)
		hand_on_piece(effects);
	return false;
}

int kw_repl_effects_take(struct kw_repl_effects *effects, const struct kw_repl_command *command,
	struct kw_error *error)
{
	int code = KW_OK;

	if (kw_repl_is(command, "MULTI"))
		code = begin_transaction(effects, command, error);
	else if (kw_repl_is(command, "EXEC"))
		return end_transaction(effects, command, error);
	else if (kw_repl_is(command, "SELECT"))
		code = select_database(effects, command, error);
	else if (kw_repl_is(command, "REPLCONF") && asks_for_ack(command))
		effects->options.ack_wanted(effects->options.arg);
	else if (!take_other(effects, command))
		return KW_OK;
	if (!code && effects->state == PLAIN)
		hand_on_all(effects, command->end);
	return code;
}
