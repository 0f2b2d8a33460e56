#include "replconf.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#define NUMBER_DIGITS 20

struct words {
	struct kw_slice word[KW_REPLCONF_WORDS];
	size_t count;
};

enum parsed { PARSED_MORE, PARSED_COMMAND, PARSED_GARBAGE };

void kw_replconf_init(struct kw_replconf *replconf, const struct kw_link_login *login,
	const struct kw_replconf_handlers *handlers)
{
	*replconf = (struct kw_replconf){.handlers = *handlers, .login = login};
}

void kw_replconf_close(struct kw_replconf *replconf)
{
	kw_buffer_close(&replconf->input);
	kw_buffer_close(&replconf->output);
}

/* ---- taking commands apart ---- */

/* "<mark><number>\r\n" at *at, which moves past it. */
static enum parsed take_header(
	struct kw_slice text, size_t *at, char mark, uint64_t most, uint64_t *number)
{
	const char *bytes = text.data;
	size_t i = *at;
	uint64_t value = 0;

	if (i == text.length)
		return PARSED_MORE;
	if (bytes[i++] != mark)
		return PARSED_GARBAGE;
	for (; i < text.length && bytes[i] >= '0' && bytes[i] <= '9'; i++) {
		value = value * 10 + (uint64_t)(bytes[i] - '0');
		if (value > most)
			return PARSED_GARBAGE;
	}
	if (i == text.length)
		return PARSED_MORE;
	if (i == *at + 1 || bytes[i] != '\r')
		return PARSED_GARBAGE;
	if (i + 1 == text.length)
		return PARSED_MORE;
	if (bytes[i + 1] != '\n')
		return PARSED_GARBAGE;
	*at = i + 2;
	*number = value;
	return PARSED_COMMAND;
}

static enum parsed take_word(struct kw_slice text, size_t *at, struct kw_slice *word)
{
	const char *bytes = text.data;
	uint64_t length;
	enum parsed parsed = take_header(text, at, '$', KW_REPLCONF_BYTES, &length);

	if (parsed != PARSED_COMMAND)
		return parsed;
	if (text.length - *at < length + 2)
		return PARSED_MORE;
	if (bytes[*at + length] != '\r' || bytes[*at + length + 1] != '\n')
		return PARSED_GARBAGE;
	*word = kw_slice(bytes + *at, length);
	*at += length + 2;
	return PARSED_COMMAND;
}

/* One command at the front of text; *used bytes of it. */
static enum parsed take_command(struct kw_slice text, struct words *words, size_t *used)
{
	uint64_t count;
	size_t at = 0;
	enum parsed parsed = take_header(text, &at, '*', KW_REPLCONF_WORDS, &count);

	if (parsed != PARSED_COMMAND)
		return parsed;
	if (count == 0)
		return PARSED_GARBAGE;
	for (words->count = 0; words->count < count; words->count++) {
		parsed = take_word(text, &at, &words->word[words->count]);
		if (parsed != PARSED_COMMAND)
			return parsed;
	}
	*used = at;
	return PARSED_COMMAND;
}

static bool is_word(const struct words *words, size_t index, const char *word)
{
	return index < words->count && words->word[index].length == strlen(word) &&
	       strncasecmp(words->word[index].data, word, strlen(word)) == 0;
}

/* A decimal number with perhaps a minus sign, and nothing else. */
static bool read_number(const struct words *words, size_t index, int64_t *number)
{
	char text[NUMBER_DIGITS + 1], *end;

	if (index >= words->count || words->word[index].length == 0 ||
		words->word[index].length > NUMBER_DIGITS)
		return false;
	memcpy(text, words->word[index].data, words->word[index].length);
	text[words->word[index].length] = '\0';
	if (text[0] != '-' && (text[0] < '0' || text[0] > '9'))
		return false;
	*number = strtoll(text, &end, 10);
	return *end == '\0' && *number != LLONG_MAX && *number != LLONG_MIN;
}

static bool read_replid(const struct words *words, char replid[KW_REPLID_LENGTH + 1])
{
	struct kw_slice word = words->count == 3 ? words->word[1] : (struct kw_slice){0};
	const char *bytes = word.data;

	if (word.length == 1 && *bytes == '?') {
		memcpy(replid, "?", 2);
		return true;
	}
	if (word.length != KW_REPLID_LENGTH)
		return false;
	for (size_t i = 0; i < word.length; i++)
		if (!((bytes[i] >= '0' && bytes[i] <= '9') || (bytes[i] >= 'a' && bytes[i] <= 'f')))
			return false;
	memcpy(replid, bytes, word.length);
	replid[word.length] = '\0';
	return true;
}

/* ---- answering them ---- */

/* Takes as long for a wrong password as for the right one. */
static bool same_secret(struct kw_slice given, const char *wanted)
{
	size_t length = strlen(wanted);
	const uint8_t *bytes = given.data;
	unsigned differs = given.length != length;

	for (size_t i = 0; i < given.length && length > 0; i++)
		differs |= (unsigned)(bytes[i] ^ (uint8_t)wanted[i % length]);
	return !differs;
}

static int authenticate(
	struct kw_replconf *replconf, const struct words *words, struct kw_error *error)
{
	const struct kw_link_login *login = replconf->login;
	bool named = words->count == 3;
	const char *user = login->user[0] ? login->user : "default";

	if ((words->count == 2 || named) && (!named || same_secret(words->word[1], user)) &&
		(named || !login->user[0]) && login->password[0] &&
		same_secret(words->word[words->count - 1], login->password)) {
		replconf->authenticated = true;
		kw_buffer_printf(&replconf->output, "+OK\r\n");
		return KW_OK;
	}
	kw_buffer_printf(&replconf->output, "-WRONGPASS this is not the server that was asked\r\n");
	return kw_error_set(error, KW_E_REFUSED, "it does not know the password set by this agent");
}

static int answer_psync(
	struct kw_replconf *replconf, const struct words *words, struct kw_error *error)
{
	char replid[KW_REPLID_LENGTH + 1];
	int64_t offset;

	if (!read_replid(words, replid) || !read_number(words, 2, &offset))
		return kw_error_set(error, KW_E_PROTOCOL, "PSYNC with words that are none of its");
	if (!replconf->eof) {
		kw_buffer_printf(&replconf->output, "-ERR capa eof is needed\r\n");
		return kw_error_set(error, KW_E_REFUSED,
			"it cannot load an RDB of unknown length (no capa eof)");
	}
	replconf->synced = true;
	replconf->handlers.psync(replconf->handlers.arg, replid, offset);
	return KW_OK;
}

static int refuse_stranger(struct kw_replconf *replconf, struct kw_error *error)
{
	kw_buffer_printf(&replconf->output, "-NOAUTH Authentication required.\r\n");
	return kw_error_set(error, KW_E_REFUSED, "it did not log in");
}

static int answer(struct kw_replconf *replconf, const struct words *words, struct kw_error *error)
{
	if (is_word(words, 0, "PING")) {
		kw_buffer_printf(&replconf->output, "+PONG\r\n");
		return KW_OK;
	}
	if (is_word(words, 0, "AUTH"))
		return authenticate(replconf, words, error);
	if (!replconf->authenticated)
		return refuse_stranger(replconf, error);
	if (is_word(words, 0, "REPLCONF")) {
		for (size_t i = 1; i + 1 < words->count; i += 2)
			if (is_word(words, i, "capa") && is_word(words, i + 1, "eof"))
				replconf->eof = true;
		if (!is_word(words, 1, "ACK"))
			kw_buffer_printf(&replconf->output, "+OK\r\n");
		return KW_OK;
	}
	if (is_word(words, 0, "PSYNC"))
		return answer_psync(replconf, words, error);
	kw_buffer_printf(&replconf->output, "-ERR this is a replication port\r\n");
	return kw_error_set(error, KW_E_PROTOCOL, "a command that replicas do not send: %.*s",
		(int)(words->word[0].length < 40 ? words->word[0].length : 40),
		(const char *)words->word[0].data);
}

/* The link is a stream of commands now: an answer would be taken for one of them. */
static int listen_on(
	struct kw_replconf *replconf, const struct words *words, struct kw_error *error)
{
	int64_t offset;

	if (!is_word(words, 0, "REPLCONF"))
		return kw_error_set(
			error, KW_E_PROTOCOL, "another command than REPLCONF behind PSYNC");
	if (!is_word(words, 1, "ACK"))
		return KW_OK;
	if (!read_number(words, 2, &offset) || offset < 0)
		return kw_error_set(error, KW_E_PROTOCOL, "REPLCONF ACK without an offset");
	replconf->handlers.ack(replconf->handlers.arg, (uint64_t)offset);
	return KW_OK;
}

/* Bare newlines mean only that the server is alive. */
static void skip_newlines(struct kw_buffer *input)
{
	while (kw_buffer_length(input) > 0 &&
		(*kw_buffer_bytes(input) == '\n' || *kw_buffer_bytes(input) == '\r'))
		kw_buffer_consume(input, 1);
}

int kw_replconf_feed(
	struct kw_replconf *replconf, const void *bytes, size_t length, struct kw_error *error)
{
	struct kw_buffer *input = &replconf->input;

	kw_buffer_append(input, bytes, length);
	for (;;) {
		struct words words;
		size_t used = 0;
		int code;

		skip_newlines(input);
		if (kw_buffer_length(input) == 0)
			return KW_OK;
		switch (take_command(
			kw_slice(kw_buffer_bytes(input), kw_buffer_length(input)), &words, &used)) {
		case PARSED_MORE:
			if (kw_buffer_length(input) < KW_REPLCONF_BYTES)
				return KW_OK;
			return kw_error_set(error, KW_E_PROTOCOL, "a command of more than %d bytes",
				KW_REPLCONF_BYTES);
		case PARSED_GARBAGE:
			return kw_error_set(
				error, KW_E_PROTOCOL, "bytes that are no command of a replica");
		case PARSED_COMMAND:
			break;
		}
		code = replconf->synced ? listen_on(replconf, &words, error)
					: answer(replconf, &words, error);
		if (code)
			return code;
		kw_buffer_consume(input, used);
	}
}
