#include "command.h"
#include "base64.h"
#include "meta.h"

#include <limits.h>
#include <string.h>

#define READ_ONLY "SERVER_ERROR this gateway only reads: send writes to the primary\r\n"
#define ANY SIZE_MAX

struct command {
	const char *name;   /* exactly so: memcached's names have one case */
	size_t least, most; /* words, the name included; otherwise: ERROR */
	enum kw_memcached_act (*run)(struct kw_memcached_request *request,
		const struct kw_memcached_line *line, const struct command *command);
	const char *says;
};

enum kw_memcached_act kw_memcached_say(
	struct kw_memcached_request *request, enum kw_memcached_act act, const char *text)
{
	request->says = kw_slice_text(text);
	return act;
}

static bool is_word(struct kw_slice word, const char *text)
{
	return kw_slice_equal(word, kw_slice_text(text));
}

bool kw_memcached_is_key(struct kw_slice word)
{
	const uint8_t *bytes = word.data;

	if (word.length > KW_MEMCACHED_KEY_MAX)
		return false;
	for (size_t i = 0; i < word.length; i++)
		if (bytes[i] < ' ' || bytes[i] == 127)
			return false;
	return true;
}

/* A decimal number of at most `most`. */
static bool is_number(struct kw_slice word, uint64_t most, uint64_t *number)
{
	const uint8_t *bytes = word.data;

	*number = 0;
	for (size_t i = 0; i < word.length; i++) {
		unsigned digit = bytes[i] - (unsigned)'0';

		if (digit > 9 || *number > (most - digit) / 10)
			return false;
		*number = *number * 10 + digit;
	}
	return word.length > 0;
}

static bool wants_no_reply(const struct kw_memcached_line *line)
{
	return line->count <= KW_MEMCACHED_WORDS_MAX &&
	       is_word(line->words[line->count - 1], "noreply");
}

static enum kw_memcached_act say(struct kw_memcached_request *request,
	const struct kw_memcached_line *line, const struct command *command)
{
	return kw_memcached_say(request, KW_MEMCACHED_SAY, command->says);
}

static enum kw_memcached_act refuse(struct kw_memcached_request *request,
	const struct kw_memcached_line *line, const struct command *command)
{
	return kw_memcached_say(request, KW_MEMCACHED_REFUSE, command->says);
}

/* A write without a data block that can ask for no reply. */
static enum kw_memcached_act refuse_write(struct kw_memcached_request *request,
	const struct kw_memcached_line *line, const struct command *command)
{
	return kw_memcached_say(
		request, KW_MEMCACHED_REFUSE, wants_no_reply(line) ? "" : command->says);
}

static enum kw_memcached_act quit(struct kw_memcached_request *request,
	const struct kw_memcached_line *line, const struct command *command)
{
	return kw_memcached_say(request, KW_MEMCACHED_CLOSE, "");
}

static enum kw_memcached_act verbosity(struct kw_memcached_request *request,
	const struct kw_memcached_line *line, const struct command *command)
{
	uint64_t level;

	if (wants_no_reply(line))
		return kw_memcached_say(request, KW_MEMCACHED_SAY, "");
	if (!is_number(line->words[1], UINT32_MAX, &level))
		return kw_memcached_say(request, KW_MEMCACHED_SAY, KW_MEMCACHED_BAD_LINE);
	return kw_memcached_say(request, KW_MEMCACHED_SAY, "OK\r\n");
}

/* ---- commands with a data block ---- */

static enum kw_memcached_act expect_data(
	struct kw_memcached_request *request, uint64_t length, const char *after)
{
	request->expects = KW_MEMCACHED_AT_DATA;
	request->data_left = length + 2;
	request->after = kw_slice_text(after);
	return KW_MEMCACHED_PARTIAL;
}

/* set <key> <flags> <exptime> <bytes> [noreply]; cas: <cas> before noreply */
static enum kw_memcached_act store(struct kw_memcached_request *request,
	const struct kw_memcached_line *line, const struct command *command)
{
	const struct kw_slice *words = line->words;
	bool silent = wants_no_reply(line), good = kw_memcached_is_key(words[1]);
	struct kw_slice until = words[3];
	uint64_t number, length;

	if (!is_number(words[4], INT_MAX - 2, &length))
		return kw_memcached_say(
			request, KW_MEMCACHED_SAY, silent ? "" : KW_MEMCACHED_BAD_LINE);
	if (until.length > 1 && *(const char *)until.data == '-')
		until = kw_slice((const char *)until.data + 1, until.length - 1);
	good = good && is_number(words[2], UINT32_MAX, &number);
	good = good && is_number(until, (uint64_t)INT_MAX + 1, &number);
	good = good && (command->least == 5 || is_number(words[5], UINT64_MAX, &number));
	return expect_data(request, length,
		silent ? ""
		: good ? command->says
		       : KW_MEMCACHED_BAD_LINE);
}

/* ms <key> <bytes> <flags>*; errors are always told */
static enum kw_memcached_act meta_set(struct kw_memcached_request *request,
	const struct kw_memcached_line *line, const struct command *command)
{
	bool good = kw_memcached_is_key(line->words[1]);
	uint64_t length;

	if (line->count < 3 || !is_number(line->words[2], INT_MAX - 2, &length))
		return kw_memcached_say(request, KW_MEMCACHED_SAY, KW_MEMCACHED_BAD_LINE);
	return expect_data(request, length, good ? command->says : KW_MEMCACHED_BAD_LINE);
}

/* ---- mg, me ---- */

/* A key in base64 is decoded where it stands: its bytes are fewer. */
static enum kw_memcached_act look_up(struct kw_memcached_request *request,
	const struct kw_memcached_line *line, const char *no_base64)
{
	struct kw_slice key = line->words[1];
	uint8_t *place = line->base + ((const uint8_t *)key.data - line->base);

	if (request->how.base64) {
		key = kw_slice(place, kw_base64_decode(key, place));
		if (key.length == 0)
			return kw_memcached_say(request, KW_MEMCACHED_SAY, no_base64);
	} else if (!kw_memcached_is_key(key)) {
		return kw_memcached_say(request, KW_MEMCACHED_SAY, KW_MEMCACHED_BAD_LINE);
	}
	request->keys[request->count++] = key;
	return KW_MEMCACHED_KEYS;
}

static enum kw_memcached_act meta_get(struct kw_memcached_request *request,
	const struct kw_memcached_line *line, const struct command *command)
{
	const char *refused;

	request->how = (struct kw_memcached_how){.verb = KW_MEMCACHED_META_GET};
	if (line->words[1].length > KW_MEMCACHED_KEY_MAX)
		return kw_memcached_say(request, KW_MEMCACHED_SAY, KW_MEMCACHED_BAD_LINE);
	refused = kw_memcached_meta_flags(
		&request->how, &request->opaque, line->words + 2, line->count - 2);
	if (refused)
		return kw_memcached_say(request, KW_MEMCACHED_SAY, refused);
	return look_up(request, line, "CLIENT_ERROR error decoding key\r\n");
}

static enum kw_memcached_act meta_debug(struct kw_memcached_request *request,
	const struct kw_memcached_line *line, const struct command *command)
{
	request->how = (struct kw_memcached_how){
		.verb = KW_MEMCACHED_META_DEBUG,
		.base64 = line->count > 2 && is_word(line->words[2], "b"),
	};
	if (line->count < 2 || line->words[1].length > KW_MEMCACHED_KEY_MAX)
		return kw_memcached_say(request, KW_MEMCACHED_SAY, KW_MEMCACHED_BAD_LINE);
	return look_up(request, line, KW_MEMCACHED_BAD_LINE);
}

/* ---- stats ---- */

/* Sections of which a gateway has nothing to tell: what memcached says when it is empty. */
static const struct {
	const char *name, *says;
} empty_sections[] = {
	{"conns", "END\r\n"},
	{"extstore", "END\r\n"},
	{"items", "END\r\n"},
	{"sizes", "STAT sizes_status disabled\r\nEND\r\n"},
	{"slabs", "STAT active_slabs 0\r\nSTAT total_malloced 0\r\nEND\r\n"},
	{"cachedump", "CLIENT_ERROR stats cachedump not allowed\r\n"},
	{"detail", "CLIENT_ERROR stats detail not allowed\r\n"},
	{"reset", "SERVER_ERROR the figures of this gateway are not reset\r\n"},
};

static enum kw_memcached_act stats(struct kw_memcached_request *request,
	const struct kw_memcached_line *line, const struct command *command)
{
	if (line->count == 1)
		return KW_MEMCACHED_STATS;
	if (is_word(line->words[1], "settings"))
		return KW_MEMCACHED_SETTINGS;
	for (size_t i = 0; i < sizeof empty_sections / sizeof *empty_sections; i++)
		if (is_word(line->words[1], empty_sections[i].name))
			return kw_memcached_say(request, KW_MEMCACHED_SAY, empty_sections[i].says);
	return kw_memcached_say(request, KW_MEMCACHED_SAY, "ERROR\r\n");
}

static const struct command commands[] = {
	{"mg", 2, ANY, meta_get, NULL},
	{"mn", 1, ANY, say, "MN\r\n"},
	{"me", 1, ANY, meta_debug, NULL},
	{"ms", 2, ANY, meta_set, READ_ONLY},
	{"md", 2, ANY, refuse, READ_ONLY},
	{"ma", 2, ANY, refuse, READ_ONLY},
	{"set", 5, 6, store, READ_ONLY},
	{"add", 5, 6, store, READ_ONLY},
	{"replace", 5, 6, store, READ_ONLY},
	{"append", 5, 6, store, READ_ONLY},
	{"prepend", 5, 6, store, READ_ONLY},
	{"cas", 6, 7, store, READ_ONLY},
	{"incr", 3, 4, refuse_write, READ_ONLY},
	{"decr", 3, 4, refuse_write, READ_ONLY},
	{"touch", 3, 4, refuse_write, READ_ONLY},
	{"delete", 2, 4, refuse_write, READ_ONLY},
	{"flush_all", 1, 3, refuse_write, "CLIENT_ERROR flush_all not allowed\r\n"},
	{"gat", 2, ANY, refuse, READ_ONLY},
	{"gats", 2, ANY, refuse, READ_ONLY},
	{"version", 1, ANY, say, "VERSION " KW_MEMCACHED_VERSION "\r\n"},
	{"verbosity", 2, 3, verbosity, NULL},
	{"stats", 1, ANY, stats, NULL},
	{"quit", 1, ANY, quit, NULL},
	{"shutdown", 1, ANY, refuse, "ERROR: shutdown not enabled\r\n"},
	{"watch", 1, ANY, refuse, "CLIENT_ERROR watch commands not allowed\r\n"},
	{"lru_crawler", 1, ANY, refuse, "CLIENT_ERROR lru crawler disabled\r\n"},
};

/* A web browser, or a request that was smuggled through one: no word is worth while. */
static bool is_http(const struct kw_memcached_line *line)
{
	struct kw_slice last;

	if (line->count > KW_MEMCACHED_WORDS_MAX)
		return false;
	last = line->words[line->count - 1];
	return last.length >= 5 && memcmp(last.data, "HTTP/", 5) == 0;
}

enum kw_memcached_act kw_memcached_command(
	struct kw_memcached_request *request, const struct kw_memcached_line *line)
{
	for (size_t i = 0; line->count > 0 && i < sizeof commands / sizeof *commands; i++) {
		const struct command *command = &commands[i];

		if (!is_word(line->words[0], command->name))
			continue;
		if (line->count < command->least || line->count > command->most)
			break;
		return command->run(request, line, command);
	}
	if (line->count > 0 && is_http(line))
		return kw_memcached_say(request, KW_MEMCACHED_CLOSE, "");
	return kw_memcached_say(request, KW_MEMCACHED_SAY, "ERROR\r\n");
}
