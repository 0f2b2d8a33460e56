/*
 * Test helper: commands from words, and effects as text, so that tables of cases can be read.
 *
 *   VALUE k=v   VALUE k=v at 5   VALUE k=v kept   PAYLOAD k=v   EXPIRY k at 5   EXPIRY k never
 *   DELETE k    ADD k+3          APPEND k=v       WRITE k[2]=v  MOVE k>1:to     COPY k>to
 *   TOUCH k     FLUSH            FLUSHALL         SWAP 1        FUNCTIONS  FLUSHED  DOUBT
 *
 * Each begins with its database and a colon, unless that is 0: "3:DELETE k"; "*:" is any database.
 * Each ends with a semicolon.
 */
#ifndef KW_TESTS_UNIT_STREAM_TOLD_H
#define KW_TESTS_UNIT_STREAM_TOLD_H

#include "stream/meaning.h"

#include <inttypes.h>
#include <string.h>

#define TOLD_WORDS 64

/* A command made of words between spaces; "~" is a word too long to keep, "''" an empty one. */
struct told_command {
	struct kw_repl_word words[TOLD_WORDS];
	struct kw_repl_command command;
};

static inline const struct kw_repl_command *told_command(
	struct told_command *made, const char *text)
{
	*made = (struct told_command){.command = {.begin = 10, .end = 20}};
	for (const char *at = text; *at && made->command.count < TOLD_WORDS;) {
		size_t length = strcspn(at, " ");
		struct kw_repl_word *word = &made->words[made->command.count++];

		if (length == 1 && *at == '~')
			word->too_long = true;
		else if (length != 2 || memcmp(at, "''", 2) != 0)
			word->text = kw_slice(at, length);
		at += length + (at[length] == ' ');
	}
	made->command.words = made->words;
	return &made->command;
}

static inline void told_database(struct kw_buffer *out, uint32_t database)
{
	if (database == KW_REPL_ANY_DATABASE)
		kw_buffer_printf(out, "*:");
	else if (database != 0)
		kw_buffer_printf(out, "%" PRIu32 ":", database);
}

static inline void told_slice(struct kw_buffer *out, struct kw_slice text)
{
	if (text.length > 0)
		kw_buffer_append(out, text.data, text.length);
}

static inline void told_expiry(struct kw_buffer *out, const struct kw_repl_effect *effect)
{
	if (effect->expiry == KW_REPL_EXPIRES_AT)
		kw_buffer_printf(out, " at %" PRId64, effect->expires_ms);
	else if (effect->kind == KW_REPL_EXPIRY)
		kw_buffer_printf(out, " never");
	else if (effect->expiry == KW_REPL_EXPIRES_AS_BEFORE)
		kw_buffer_printf(out, " kept");
}

static inline void told_effect(struct kw_buffer *out, const struct kw_repl_effect *effect)
{
	static const char *const names[] = {"VALUE", "PAYLOAD", "DELETE", "EXPIRY", "ADD", "APPEND",
		"WRITE", "MOVE", "COPY", "TOUCH", "FLUSH", "FLUSHALL", "SWAP", "FUNCTIONS",
		"FLUSHED", "DOUBT"};

	told_database(out, effect->database);
	kw_buffer_printf(out, "%s%s", names[effect->kind], effect->kind < KW_REPL_FLUSH ? " " : "");
	if (effect->kind != KW_REPL_DOUBT)
		told_slice(out, effect->key);
	switch (effect->kind) {
	case KW_REPL_VALUE:
	case KW_REPL_PAYLOAD:
		kw_buffer_printf(out, "=");
		told_slice(out, effect->bytes);
		told_expiry(out, effect);
		break;
	case KW_REPL_EXPIRY:
		told_expiry(out, effect);
		break;
	case KW_REPL_ADD:
		kw_buffer_printf(out, "%+" PRId64, effect->number);
		break;
	case KW_REPL_APPEND:
		kw_buffer_printf(out, "=");
		told_slice(out, effect->bytes);
		break;
	case KW_REPL_WRITE:
		kw_buffer_printf(out, "[%" PRId64 "]=", effect->number);
		told_slice(out, effect->bytes);
		break;
	case KW_REPL_MOVE:
	case KW_REPL_COPY:
		kw_buffer_printf(out, ">");
		told_database(out, effect->to_database);
		told_slice(out, effect->to);
		break;
	case KW_REPL_SWAP:
		kw_buffer_printf(out, " %" PRIu32, effect->to_database);
		break;
	case KW_REPL_DELETE:
	case KW_REPL_TOUCH:
	case KW_REPL_FLUSH:
	case KW_REPL_FLUSH_ALL:
	case KW_REPL_FUNCTIONS:
	case KW_REPL_FUNCTIONS_FLUSHED:
	case KW_REPL_DOUBT:
		break;
	}
	kw_buffer_printf(out, ";");
}

/* The buffer as a C string. */
static inline const char *told_text(struct kw_buffer *out)
{
	kw_buffer_append(out, "", 1);
	out->end--;
	return (const char *)kw_buffer_bytes(out);
}

#endif
