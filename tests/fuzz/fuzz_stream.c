/*
 * Arbitrary bytes as the replication stream: the same is told whether they come at once or in
 * pieces, and however large a command says it is, the bounds hold. A command with many effects is
 * kept and taken again, sooner or later.
 *
 * The first byte chooses the pieces, the second the bounds.
 */
#include "fuzz.h"

#include "base/hash.h"
#include "stream/effects.h"

#include <stdlib.h>
#include <string.h>

#define SELECT "*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n"
#define SET "*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$5\r\nvalue\r\n"
#define DEL "*6\r\n$3\r\nDEL\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n$1\r\nd\r\n$1\r\ne\r\n"
#define MULTI "*1\r\n$5\r\nMULTI\r\n"
#define EXEC "*1\r\n$4\r\nEXEC\r\n"

static const struct kw_fuzz_bytes seeds[] = {
	KW_FUZZ_BYTES("\x05\xff" SELECT SET "*1\r\n$4\r\nPING\r\n\n*2\r\n$3\r\nDEL\r\n$1\r\nk\r\n"),
	KW_FUZZ_BYTES("\x03\xff" SELECT MULTI SET "*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n" EXEC),
	KW_FUZZ_BYTES("\x01\x04" MULTI SET SET SELECT SET EXEC SET),
	KW_FUZZ_BYTES(
		"\x09\xff*5\r\n$3\r\nset\r\n$1\r\nk\r\n$1\r\nv\r\n$4\r\nPXAT\r\n$2\r\n99\r\n"),
	KW_FUZZ_BYTES("\x11\xff*4\r\n$7\r\nRESTORE\r\n$1\r\nk\r\n$1\r\n0\r\n$1\r\np\r\n"),
	KW_FUZZ_BYTES("\x02\xff*5\r\n$4\r\nCOPY\r\n$1\r\na\r\n$1\r\nb\r\n$2\r\nDB\r\n$1\r\n2\r\n"),
	KW_FUZZ_BYTES(
		"\x07\xff*3\r\n$6\r\nSWAPDB\r\n$1\r\n0\r\n$1\r\n1\r\n*1\r\n$8\r\nFLUSHALL\r\n"),
	KW_FUZZ_BYTES("\x02\x08*4\r\n$4\r\nSORT\r\n$1\r\na\r\n$5\r\nSTORE\r\n$1\r\nb\r\n"),
	KW_FUZZ_BYTES("\x02\xff" SELECT DEL SET MULTI DEL EXEC SET),
	KW_FUZZ_BYTES("\x01\xff*900000000000000\r\n$900000000000000\r\nx"),
};

struct heard {
	struct kw_repl_effects *effects;
	uint64_t hash, end;
	size_t word_most;
	uint32_t words_most;
	struct kw_repl_parser *parser;
	bool kept; /* the last command is told again */
	int code;
};

static void mix(struct heard *heard, const void *data, size_t length)
{
	heard->hash = kw_hash_key(heard->hash, 1, length ? data : "", length);
}

static void on_batch(void *arg, const struct kw_repl_batch *batch)
{
	struct heard *heard = arg;

	must(batch->count > 0 && batch->begin <= batch->end && batch->begin >= heard->end);
	heard->end = batch->end;
	mix(heard, &batch->begin, sizeof batch->begin);
	mix(heard, &batch->end, sizeof batch->end);
	for (size_t i = 0; i < batch->count; i++) {
		const struct kw_repl_effect *one = &batch->effects[i];
		const uint64_t numbers[] = {one->kind, one->expiry, one->database, one->to_database,
			(uint64_t)one->number, (uint64_t)one->expires_ms};

		must(one->kind <= KW_REPL_DOUBT && one->expiry <= KW_REPL_EXPIRES_AS_BEFORE);
		must(one->key.length <= heard->word_most && one->to.length <= heard->word_most &&
			one->bytes.length <= heard->word_most);
		must(one->database != KW_REPL_ANY_DATABASE || one->kind >= KW_REPL_TOUCH);
		mix(heard, numbers, sizeof numbers);
		mix(heard, one->key.data, one->key.length);
		mix(heard, one->to.data, one->to.length);
		mix(heard, one->bytes.data, one->bytes.length);
	}
}

static void on_ack(void *arg)
{
	mix(arg, "ack", 3);
}

static void on_command(void *arg, const struct kw_repl_command *command)
{
	struct heard *heard = arg;
	struct kw_error error = {0};

	must(command->begin < command->end && command->count <= heard->words_most);
	if (heard->code)
		return;
	heard->code = kw_repl_effects_take(heard->effects, command, &error);
	must(heard->code == 0 || error.text[0] != '\0');
	heard->kept = !heard->code && kw_repl_effects_has_more(heard->effects);
	if (heard->kept)
		kw_repl_parser_keep(heard->parser);
}

/* All that is left of kept commands. */
static int tell_kept(struct heard *heard, struct kw_error *error)
{
	int code = 0;

	while (heard->kept && !code) {
		heard->kept = false;
		code = kw_repl_parser_again(heard->parser, error);
	}
	return code;
}

static int feed(const uint8_t *data, size_t size, size_t piece, uint8_t choice, struct heard *heard)
{
	const struct kw_repl_bounds bounds = {choice == 0xff ? 1 << 16 : choice,
		choice == 0xff ? 1 << 17 : choice * 2, choice == 0xff ? 1 << 10 : 1 + choice % 8U};
	const struct kw_repl_effects_options options = {.transaction_bytes = bounds.command_bytes,
		.transaction_effects = 1 + choice % 16U,
		.command_effects = 1 + choice % 16U,
		.take_effects = 1 + choice % 3U,
		.batch = on_batch,
		.ack_wanted = on_ack,
		.arg = heard};
	struct kw_repl_parser *parser = kw_repl_parser_new(&bounds, 0, on_command, heard);
	struct kw_error error = {0};
	int code = 0;

	heard->parser = parser;
	heard->effects = kw_repl_effects_new(&options);
	heard->word_most = bounds.word_bytes;
	heard->words_most = bounds.words;
	for (size_t at = 0; at < size && !code; at += piece) {
		size_t take = piece > size - at ? size - at : piece;
		/* A copy of just these bytes: what is read beyond them, or later, is found. */
		uint8_t *exact = malloc(take);

		must(exact != NULL);
		memcpy(exact, data + at, take);
		code = kw_repl_parser_feed(parser, exact, take, &error);
		free(exact);
		if (!code && (at / piece) % 3 == 0)
			code = tell_kept(heard, &error);
		must(code == 0 || error.text[0] != '\0');
		must(kw_repl_parser_offset(parser) <= kw_repl_parser_taken(parser));
		must(kw_repl_parser_taken(parser) <= size);
	}
	if (!code)
		code = tell_kept(heard, &error);
	must(code || kw_repl_parser_taken(parser) == size);
	must(kw_repl_effects_offset(heard->effects) <= kw_repl_parser_offset(parser));
	heard->end = kw_repl_parser_offset(parser);
	kw_repl_parser_free(parser);
	kw_repl_effects_free(heard->effects);
	return code;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct heard whole = {0}, pieces = {0};
	size_t piece;
	int code;

	if (size < 3)
		return 0;
	piece = data[0] < 128 ? data[0] % 16U + 1 : (data[0] - 127U) * 40;
	code = feed(data + 2, size - 2, size, data[1], &whole);
	must(feed(data + 2, size - 2, piece, data[1], &pieces) == code);
	must(whole.hash == pieces.hash && whole.end == pieces.end && whole.code == pieces.code);
	return 0;
}

KW_FUZZ_SEEDS(seeds)
