#include "stream/parse.h"

#include <assert.h>
#include <stdlib.h>

#define DIGITS_MOST 15
#define LINE_END_BYTES 2
#define KEPT_AT_REST ((size_t)64 << 10) /* memory that stays between two commands */
#define WORDS_FIRST 64

/*
 *              ┌─────────────────── the last word ───────────────────┐
 *              ▼                                                     │
 *   newline ┌─────────┐ '*' ┌───────┐ digits, CR ┌───────────┐ LF ┌──┴───┐
 *     ┌────▶│ BETWEEN │────▶│ COUNT │───────────▶│ COUNT_END │───▶│ WORD │◀─┐
 *     └─────└─────────┘     └───────┘            └───────────┘    └──────┘  │ another word
 *                                                              '$' │        │
 *                                   ┌────────┐ digits, CR ┌────────▼─┐  ┌───┴───┐
 *                                   │ LENGTH │───────────▶│LENGTH_END│─▶│ BYTES │
 *                                   └────────┘            └──────────┘  └───────┘
 *   KEPT, instead of BETWEEN: until the command was told again. No byte is taken meanwhile.
 */
enum state { BETWEEN, COUNT, COUNT_END, WORD, LENGTH, LENGTH_END, BYTES, KEPT, BROKEN };

struct kw_repl_parser {
	struct kw_repl_bounds bounds;
	kw_repl_command_fn fn;
	void *arg;
	enum state state;
	uint64_t begin; /* the last boundary between two commands */
	uint64_t taken;
	uint64_t number; /* COUNT, LENGTH; BYTES: how many are left, with the line end */
	uint32_t digits;
	uint64_t words_left;
	uint64_t word_bytes; /* of the words kept of this command */
	bool keep;           /* BYTES: this word is kept */
	bool cut;
	/*
	 * Words of this command. Those before `stashed` lie in `held`, at `places`, and their text
	 * has only its length; the others lie in the bytes that feed was given.
	 */
	struct kw_repl_word *words;
	size_t *places;
	uint32_t count, stashed, capacity;
	struct kw_buffer held;
	struct kw_buffer later; /* KEPT: bytes after the command */
	struct kw_error why;    /* BROKEN */
};

struct kw_repl_parser *kw_repl_parser_new(
	const struct kw_repl_bounds *bounds, uint64_t offset, kw_repl_command_fn fn, void *arg)
{
	struct kw_repl_parser *parser = kw_zalloc(sizeof *parser);

	assert(bounds->words > 0 && bounds->command_bytes >= bounds->word_bytes);
	parser->bounds = *bounds;
	parser->fn = fn;
	parser->arg = arg;
	kw_repl_parser_restart(parser, offset);
	return parser;
}

void kw_repl_parser_free(struct kw_repl_parser *parser)
{
	if (!parser)
		return;
	free(parser->words);
	free(parser->places);
	kw_buffer_close(&parser->held);
	kw_buffer_close(&parser->later);
	free(parser);
}

uint64_t kw_repl_parser_offset(const struct kw_repl_parser *parser)
{
	return parser->begin;
}

uint64_t kw_repl_parser_taken(const struct kw_repl_parser *parser)
{
	return parser->taken;
}

size_t kw_repl_parser_held_bytes(const struct kw_repl_parser *parser)
{
	return parser->held.capacity + parser->later.capacity +
	       parser->capacity * (sizeof *parser->words + sizeof(size_t));
}

static void forget_words(struct kw_repl_parser *parser)
{
	parser->count = parser->stashed = 0;
	parser->word_bytes = 0;
	parser->cut = false;
	kw_buffer_clear(&parser->held);
	kw_buffer_trim(&parser->held, KEPT_AT_REST);
	if (parser->capacity * sizeof *parser->words > KEPT_AT_REST) {
		free(parser->words);
		free(parser->places);
		parser->words = NULL;
		parser->places = NULL;
		parser->capacity = 0;
	}
}

void kw_repl_parser_restart(struct kw_repl_parser *parser, uint64_t offset)
{
	forget_words(parser);
	kw_buffer_close(&parser->later);
	parser->begin = parser->taken = offset;
	parser->state = BETWEEN;
}

static int broken(struct kw_repl_parser *parser, const char *what, unsigned byte)
{
	forget_words(parser);
	parser->state = BROKEN;
	return kw_error_set(&parser->why, KW_E_PROTOCOL,
		"the replication stream, byte 0x%02x at offset %llu: %s", byte,
		(unsigned long long)parser->taken + 1, what);
}

/* ---- words ---- */

static void add_word(struct kw_repl_parser *parser, bool too_long)
{
	if (parser->count == parser->capacity) {
		uint32_t capacity = parser->capacity ? parser->capacity * 2 : WORDS_FIRST;

		parser->words = kw_realloc(parser->words, capacity * sizeof *parser->words);
		parser->places = kw_realloc(parser->places, capacity * sizeof *parser->places);
		parser->capacity = capacity;
	}
	parser->words[parser->count++] = (struct kw_repl_word){.too_long = too_long};
}

/* The caller's bytes go: what lies in them is copied. */
static void stash(struct kw_repl_parser *parser)
{
	for (; parser->stashed < parser->count; parser->stashed++) {
		struct kw_slice *text = &parser->words[parser->stashed].text;

		parser->places[parser->stashed] = kw_buffer_length(&parser->held);
		if (text->length > 0)
			kw_buffer_append(&parser->held, text->data, text->length);
	}
}

/* A word of `number` bytes begins. */
static void begin_word(struct kw_repl_parser *parser)
{
	const struct kw_repl_bounds *bounds = &parser->bounds;
	uint64_t length = parser->number;
	bool too_long = length > bounds->word_bytes;

	if (parser->count == bounds->words ||
		(!too_long && length > bounds->command_bytes - parser->word_bytes))
		parser->cut = true;
	parser->keep = !parser->cut && !too_long;
	if (parser->keep)
		parser->word_bytes += length;
	if (!parser->cut)
		add_word(parser, too_long);
	parser->number += LINE_END_BYTES;
	parser->state = BYTES;
}

/* All its words are whole. */
static void tell_command(struct kw_repl_parser *parser)
{
	struct kw_repl_command command = {
		.words = parser->words,
		.count = parser->count,
		.cut = parser->cut,
		.begin = parser->begin,
		.end = parser->taken,
	};

	for (uint32_t i = 0; i < parser->stashed; i++)
		if (parser->words[i].text.length > 0)
			parser->words[i].text.data =
				kw_buffer_bytes(&parser->held) + parser->places[i];
	parser->state = BETWEEN;
	parser->fn(parser->arg, &command);
	if (parser->state == KEPT)
		return;
	parser->begin = parser->taken;
	forget_words(parser);
}

void kw_repl_parser_keep(struct kw_repl_parser *parser)
{
	assert(parser->state == BETWEEN);
	parser->state = KEPT;
}

/* ---- bytes ---- */

static int take_between(struct kw_repl_parser *parser, uint8_t byte)
{
	if (byte == '*') {
		parser->number = parser->digits = 0;
		parser->state = COUNT;
	} else if (byte == '\n' || byte == '\r') {
		parser->begin = parser->taken + 1;
	} else {
		return broken(parser, "neither a command nor a newline", byte);
	}
	parser->taken++;
	return KW_OK;
}

static int take_digit(struct kw_repl_parser *parser, uint8_t byte)
{
	if (byte >= '0' && byte <= '9' && parser->digits < DIGITS_MOST) {
		parser->number = parser->number * 10 + (uint64_t)(byte - '0');
		parser->digits++;
	} else if (byte == '\r' && parser->digits > 0) {
		parser->state = parser->state == COUNT ? COUNT_END : LENGTH_END;
	} else {
		return broken(parser, "a length was expected", byte);
	}
	parser->taken++;
	return KW_OK;
}

static int take_line_end(struct kw_repl_parser *parser, uint8_t byte)
{
	if (byte != '\n')
		return broken(parser, "the end of a line was expected", byte);
	if (parser->state == COUNT_END && parser->number == 0)
		return broken(parser, "a command without words", byte);
	parser->taken++;
	if (parser->state == LENGTH_END) {
		begin_word(parser);
		return KW_OK;
	}
	parser->words_left = parser->number;
	parser->state = WORD;
	return KW_OK;
}

static int take_mark(struct kw_repl_parser *parser, uint8_t byte)
{
	if (byte != '$')
		return broken(parser, "a string was expected", byte);
	parser->number = parser->digits = 0;
	parser->state = LENGTH;
	parser->taken++;
	return KW_OK;
}

static int take_byte(struct kw_repl_parser *parser, uint8_t byte)
{
	switch (parser->state) {
	case BETWEEN:
		return take_between(parser, byte);
	case COUNT:
	case LENGTH:
		return take_digit(parser, byte);
	case COUNT_END:
	case LENGTH_END:
		return take_line_end(parser, byte);
	case WORD:
		return take_mark(parser, byte);
	case BYTES:
	case KEPT:
	case BROKEN:
		break;
	}
	return broken(parser, "no state", byte);
}

/*
 * Of the word's own bytes, those that are there. A word that is whole in one piece is not copied;
 * of another one the pieces are collected in `held`.
 */
static size_t take_text(struct kw_repl_parser *parser, const uint8_t *bytes, size_t length)
{
	uint64_t left = parser->number - LINE_END_BYTES;
	size_t take = left < length ? (size_t)left : length;

	parser->number -= take;
	parser->taken += take;
	if (!parser->keep || take == 0)
		return take;
	if (parser->stashed < parser->count && take == left) {
		parser->words[parser->count - 1].text = kw_slice(bytes, take);
		return take;
	}
	stash(parser);
	kw_buffer_append(&parser->held, bytes, take);
	parser->words[parser->count - 1].text.length += take;
	return take;
}

/* A byte of the line end after a word. */
static int take_word_end(struct kw_repl_parser *parser, uint8_t byte)
{
	if (byte != (parser->number == LINE_END_BYTES ? '\r' : '\n'))
		return broken(parser, "a string is longer than it said", byte);
	parser->taken++;
	if (--parser->number > 0)
		return KW_OK;
	if (--parser->words_left > 0)
		parser->state = WORD;
	else
		tell_command(parser);
	return KW_OK;
}

static int take_some(
	struct kw_repl_parser *parser, const uint8_t *bytes, size_t length, size_t *used)
{
	if (parser->state != BYTES) {
		*used = 1;
		return take_byte(parser, *bytes);
	}
	if (parser->number > LINE_END_BYTES) {
		*used = take_text(parser, bytes, length);
		return KW_OK;
	}
	*used = 1;
	return take_word_end(parser, *bytes);
}

int kw_repl_parser_feed(
	struct kw_repl_parser *parser, const void *bytes, size_t length, struct kw_error *error)
{
	const uint8_t *at = bytes;
	int code = parser->state == BROKEN ? KW_E_PROTOCOL : KW_OK;

	while (!code && length > 0 && parser->state != KEPT) {
		size_t used = 0;

		code = take_some(parser, at, length, &used);
		at += used;
		length -= used;
	}
	stash(parser);
	if (code)
		return kw_error_set(error, code, "%s", parser->why.text);
	if (length > 0)
		kw_buffer_append(&parser->later, at, length);
	return KW_OK;
}

int kw_repl_parser_again(struct kw_repl_parser *parser, struct kw_error *error)
{
	struct kw_buffer later = {0};
	int code;

	assert(parser->state == KEPT);
	tell_command(parser);
	if (parser->state == KEPT)
		return KW_OK;
	later = parser->later;
	parser->later = (struct kw_buffer){0};
	code = kw_repl_parser_feed(
		parser, kw_buffer_bytes(&later), kw_buffer_length(&later), error);
	kw_buffer_close(&later);
	return code;
}
