#include "stream/attach.h"

#include "redis/server.h"
#include "stream/meaning.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#define ACK_FIRST_US 20000
#define ACK_LAST_US 1000000

#define ACK "*3\r\n$8\r\nREPLCONF\r\n$3\r\nACK\r\n$1\r\n0\r\n"

static bool holds(const void *owner, int state)
{
	const struct kw_repl_attach *attach = owner;

	if (state == KW_ATTACH_FOLLOWING)
		return strlen(attach->id) == KW_REPL_ID_LENGTH;
	return state != KW_ATTACH_PAYLOAD || attach->filtered;
}

#define OR_FAILED KW_SM_TO(KW_ATTACH_FAILED)

static const struct kw_sm_state states[] = {
	[KW_ATTACH_GREETING] = {"greeting", KW_SM_TO(KW_ATTACH_ABLE) | OR_FAILED, KW_SM_INITIAL},
	[KW_ATTACH_ABLE] = {"able", KW_SM_TO(KW_ATTACH_FILTERING) | OR_FAILED},
	[KW_ATTACH_FILTERING] = {"filtering", KW_SM_TO(KW_ATTACH_ASKING) | OR_FAILED},
	[KW_ATTACH_ASKING] = {"asking",
		KW_SM_TO(KW_ATTACH_ANNOUNCING) | KW_SM_TO(KW_ATTACH_FOLLOWING) | OR_FAILED},
	[KW_ATTACH_ANNOUNCING] = {"announcing", KW_SM_TO(KW_ATTACH_PAYLOAD) | OR_FAILED},
	[KW_ATTACH_PAYLOAD] = {"payload", KW_SM_TO(KW_ATTACH_FOLLOWING) | OR_FAILED},
	[KW_ATTACH_FOLLOWING] = {"following", 0, KW_SM_FINAL},
	[KW_ATTACH_FAILED] = {"failed", 0, KW_SM_FINAL | KW_SM_FAILURE},
};

static const struct kw_sm_conf machine = {"attach", states, KW_ATTACH_FAILED + 1, holds};

void kw_repl_attach_init(
	struct kw_repl_attach *attach, const struct kw_repl_attach_options *options)
{
	*attach = (struct kw_repl_attach){.options = *options};
	kw_sm_init(&attach->sm, &machine, attach, KW_ATTACH_GREETING);
	kw_buffer_printf(&attach->output, "*1\r\n$4\r\nPING\r\n");
}

void kw_repl_attach_close(struct kw_repl_attach *attach)
{
	kw_buffer_close(&attach->output);
	kw_buffer_close(&attach->payload);
	kw_buffer_close(&attach->line);
}

/* ---- answers ---- */

static bool begins(struct kw_slice line, const char *text)
{
	return line.length >= strlen(text) && memcmp(line.data, text, strlen(text)) == 0;
}

static int fail(struct kw_repl_attach *attach, int code)
{
	kw_sm_move(&attach->sm, KW_ATTACH_FAILED, "");
	return code;
}

/* How much of an answer a sentence shows. */
static int shown(struct kw_slice line)
{
	return (int)(line.length < 200 ? line.length : 200);
}

/* A disk that is full, a fork that failed, a primary that is looked for: it can be mended soon. */
static bool passes(enum kw_server_error kind, struct kw_slice said)
{
	return kw_server_error_passes(kind) || kind == KW_SERVER_E_MISCONF ||
	       begins(said, "NOMASTERLINK") || begins(said, "ERR BGSAVE failed");
}

/* An error, or an answer of another command. */
static int refused(const struct kw_repl_attach *attach, const char *command, struct kw_slice line,
	struct kw_error *error)
{
	const char *text = line.data;
	struct kw_slice said = line;
	enum kw_server_error kind;

	if (!begins(line, "-"))
		return kw_error_set(error, KW_E_PROTOCOL,
			"%s: an answer that no server gives: %.*s", command, shown(line), text);
	said = kw_slice(text + 1, line.length - 1);
	kind = kw_server_error(said);
	if (passes(kind, said))
		return kw_error_set(error, KW_E_STATE, "%s: not now: %.*s", command, shown(said),
			(const char *)said.data);
	if (kind == KW_SERVER_E_PERMISSION)
		return kw_error_set(error, KW_E_REFUSED,
			"%s: %.*s; grant the user +psync +replconf +ping, or set source.feed to "
			"notifications",
			command, shown(said), (const char *)said.data);
	return kw_error_set(error, KW_E_REFUSED, "%s: %.*s; source.feed=notifications does without",
		command, shown(said), (const char *)said.data);
}

static int greeted(struct kw_repl_attach *attach, struct kw_slice line, struct kw_error *error)
{
	if (!begins(line, "+PONG"))
		return refused(attach, "PING", line, error);
	kw_buffer_printf(&attach->output, "*5\r\n$8\r\nREPLCONF\r\n$4\r\ncapa\r\n$3\r\neof\r\n$"
					  "4\r\ncapa\r\n$6\r\npsync2\r\n");
	kw_sm_move(&attach->sm, KW_ATTACH_ABLE, "");
	return KW_OK;
}

static int able(struct kw_repl_attach *attach, struct kw_slice line, struct kw_error *error)
{
	const char *what = attach->options.functions ? "functions" : "";

	if (!begins(line, "+OK"))
		return refused(attach, "REPLCONF capa", line, error);
	kw_buffer_printf(&attach->output,
		"*3\r\n$8\r\nREPLCONF\r\n$15\r\nrdb-filter-only\r\n$%zu\r\n%s\r\n", strlen(what),
		what);
	kw_sm_move(&attach->sm, KW_ATTACH_FILTERING, "");
	return KW_OK;
}

static int filtering(struct kw_repl_attach *attach, struct kw_slice line, struct kw_error *error)
{
	char offset[24] = "-1";
	const char *id = "?";

	if (!begins(line, "+OK") && !begins(line, "-"))
		return refused(attach, "REPLCONF rdb-filter-only", line, error);
	attach->filtered = begins(line, "+OK");
	if (attach->options.id[0]) {
		id = attach->options.id;
		snprintf(offset, sizeof offset, "%" PRIu64, attach->options.offset + 1);
	} else if (!attach->filtered) {
		return kw_error_set(error, KW_E_REFUSED,
			"this server has no REPLCONF rdb-filter-only: a full synchronisation would "
			"send all of its data; set source.feed to notifications");
	}
	kw_buffer_printf(&attach->output, "*3\r\n$5\r\nPSYNC\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n",
		strlen(id), id, strlen(offset), offset);
	kw_sm_move(&attach->sm, KW_ATTACH_ASKING, "");
	return KW_OK;
}

/* 40 hexadecimal digits at the front of text. */
static bool take_id(struct kw_slice *text, char id[KW_REPL_ID_LENGTH + 1])
{
	const char *bytes = text->data;

	if (text->length < KW_REPL_ID_LENGTH)
		return false;
	for (int i = 0; i < KW_REPL_ID_LENGTH; i++)
		if (!((bytes[i] >= '0' && bytes[i] <= '9') || (bytes[i] >= 'a' && bytes[i] <= 'f')))
			return false;
	memcpy(id, bytes, KW_REPL_ID_LENGTH);
	id[KW_REPL_ID_LENGTH] = '\0';
	*text = kw_slice(bytes + KW_REPL_ID_LENGTH, text->length - KW_REPL_ID_LENGTH);
	return true;
}

static struct kw_slice after(struct kw_slice line, const char *text)
{
	return kw_slice((const char *)line.data + strlen(text), line.length - strlen(text));
}

/* The same after a space. */
static bool take_named_id(struct kw_slice *text, char id[KW_REPL_ID_LENGTH + 1])
{
	if (!begins(*text, " "))
		return false;
	*text = after(*text, " ");
	return take_id(text, id);
}

static int mistaken(const char *what, struct kw_slice line, struct kw_error *error)
{
	return kw_error_set(
		error, KW_E_PROTOCOL, "%s: %.*s", what, shown(line), (const char *)line.data);
}

/* "+CONTINUE", or "+CONTINUE <id>" by a server that was promoted meanwhile. */
static int continued(struct kw_repl_attach *attach, struct kw_slice line, struct kw_error *error)
{
	struct kw_slice rest = after(line, "+CONTINUE");

	if (!attach->options.id[0])
		return mistaken("PSYNC: it goes on although nothing went before", line, error);
	memcpy(attach->id, attach->options.id, sizeof attach->id);
	if (rest.length > 0 && (!take_named_id(&rest, attach->id) || rest.length > 0))
		return mistaken("PSYNC: no replication id", line, error);
	attach->offset = attach->options.offset;
	attach->ack_us = UINT64_MAX;
	kw_sm_move(&attach->sm, KW_ATTACH_FOLLOWING, "");
	return KW_OK;
}

static int began_anew(struct kw_repl_attach *attach, struct kw_slice line, struct kw_error *error)
{
	struct kw_slice rest = after(line, "+FULLRESYNC ");
	int64_t offset;

	if (!attach->filtered)
		return kw_error_set(error, KW_E_REFUSED,
			"PSYNC: the primary cannot go on at offset %" PRIu64
			", and would send all of its data: it has no REPLCONF rdb-filter-only. Set "
			"source.feed to notifications, or repl-backlog-size of the primary higher",
			attach->options.offset);
	if (!take_id(&rest, attach->id) || !begins(rest, " ") ||
		!kw_repl_number(after(rest, " "), &offset) || offset < 0)
		return mistaken("PSYNC: no replication id and offset", line, error);
	attach->offset = (uint64_t)offset;
	attach->full = true;
	kw_sm_move(&attach->sm, KW_ATTACH_ANNOUNCING, "");
	return KW_OK;
}

static int asked(struct kw_repl_attach *attach, struct kw_slice line, struct kw_error *error)
{
	if (begins(line, "+CONTINUE"))
		return continued(attach, line, error);
	if (begins(line, "+FULLRESYNC "))
		return began_anew(attach, line, error);
	return refused(attach, "PSYNC", line, error);
}

/* "$EOF:" and a mark that ends the payload, or "$" and its length. */
static int announced(struct kw_repl_attach *attach, struct kw_slice line, struct kw_error *error)
{
	struct kw_slice rest;
	int64_t bytes;

	if (begins(line, "-"))
		return refused(attach, "PSYNC", line, error);
	if (begins(line, "$EOF:")) {
		rest = after(line, "$EOF:");
		if (rest.length != KW_REPL_MARK_BYTES)
			return mistaken("PSYNC: no mark that ends the payload", line, error);
		memcpy(attach->mark, rest.data, KW_REPL_MARK_BYTES);
		attach->marked = true;
	} else {
		if (!begins(line, "$") || !kw_repl_number(after(line, "$"), &bytes) || bytes <= 0)
			return mistaken("PSYNC: no length of a payload", line, error);
		attach->left = (uint64_t)bytes;
		if (attach->left > attach->options.payload_most)
			return kw_error_set(error, KW_E_FULL,
				"PSYNC: the primary sends an RDB of %" PRIu64
				" bytes, although it was told to leave the keys out",
				attach->left);
	}
	kw_sm_move(&attach->sm, KW_ATTACH_PAYLOAD, "");
	return KW_OK;
}

static int answered(struct kw_repl_attach *attach, struct kw_slice line, struct kw_error *error)
{
	switch (kw_repl_attach_state(attach)) {
	case KW_ATTACH_GREETING:
		return greeted(attach, line, error);
	case KW_ATTACH_ABLE:
		return able(attach, line, error);
	case KW_ATTACH_FILTERING:
		return filtering(attach, line, error);
	case KW_ATTACH_ASKING:
		return asked(attach, line, error);
	case KW_ATTACH_ANNOUNCING:
		return announced(attach, line, error);
	case KW_ATTACH_PAYLOAD:
	case KW_ATTACH_FOLLOWING:
	case KW_ATTACH_FAILED:
		break;
	}
	return kw_error_set(error, KW_E_STATE, "no answer was expected");
}

/* ---- bytes ---- */

/*
 * Take bytes up to the end of a line. *whole: there is one. A server that prepares its payload
 * sends bare newlines, so that the connection stays.
 */
static int take_line(struct kw_repl_attach *attach, struct kw_slice bytes, size_t *used,
	bool *whole, struct kw_error *error)
{
	const uint8_t *at = bytes.data, *end = memchr(at, '\n', bytes.length);
	size_t take = end ? (size_t)(end - at) + 1 : bytes.length;

	if (take > KW_REPL_LINE_BYTES - kw_buffer_length(&attach->line))
		return kw_error_set(error, KW_E_PROTOCOL,
			"the primary answers with a line of more than %d bytes",
			KW_REPL_LINE_BYTES);
	kw_buffer_append(&attach->line, at, take);
	*used = take;
	*whole = end != NULL;
	return KW_OK;
}

static int take_answer(
	struct kw_repl_attach *attach, struct kw_slice bytes, size_t *used, struct kw_error *error)
{
	struct kw_slice line;
	bool whole = false;
	int code = take_line(attach, bytes, used, &whole, error);

	if (code || !whole)
		return code;
	line = kw_slice(kw_buffer_bytes(&attach->line), kw_buffer_length(&attach->line) - 1);
	if (line.length > 0 && ((const char *)line.data)[line.length - 1] == '\r')
		line.length--;
	if (line.length > 0)
		code = answered(attach, line, error);
	kw_buffer_clear(&attach->line);
	return code;
}

static void payload_ended(struct kw_repl_attach *attach)
{
	attach->ack_us = 0;
	attach->ack_wait_us = ACK_FIRST_US;
	kw_sm_move(&attach->sm, KW_ATTACH_FOLLOWING, "");
}

/* A payload that ends with a mark: what was before it is searched again, as the mark may be cut. */
static int take_marked(
	struct kw_repl_attach *attach, struct kw_slice bytes, size_t *used, struct kw_error *error)
{
	struct kw_buffer *payload = &attach->payload;
	size_t before = kw_buffer_length(payload), from, length;
	const uint8_t *found;

	from = before < KW_REPL_MARK_BYTES ? 0 : before - KW_REPL_MARK_BYTES + 1;
	length = attach->options.payload_most + KW_REPL_MARK_BYTES - before;
	*used = bytes.length < length ? bytes.length : length;
	kw_buffer_append(payload, bytes.data, *used);
	found = memmem(kw_buffer_bytes(payload) + from, kw_buffer_length(payload) - from,
		attach->mark, KW_REPL_MARK_BYTES);
	if (found) {
		length = (size_t)(found - kw_buffer_bytes(payload));
		*used = length + KW_REPL_MARK_BYTES - before;
		payload->end = payload->start + length;
		payload_ended(attach);
		return KW_OK;
	}
	if (kw_buffer_length(payload) == attach->options.payload_most + KW_REPL_MARK_BYTES)
		return kw_error_set(error, KW_E_FULL,
			"PSYNC: the primary sends an RDB of more than %zu bytes, although it was "
			"told to leave the keys out",
			attach->options.payload_most);
	return KW_OK;
}

static int take_payload(
	struct kw_repl_attach *attach, struct kw_slice bytes, size_t *used, struct kw_error *error)
{
	if (attach->marked)
		return take_marked(attach, bytes, used, error);
	*used = attach->left < bytes.length ? (size_t)attach->left : bytes.length;
	if (*used > 0)
		kw_buffer_append(&attach->payload, bytes.data, *used);
	attach->left -= *used;
	if (attach->left == 0)
		payload_ended(attach);
	return KW_OK;
}

int kw_repl_attach_feed(struct kw_repl_attach *attach, const void *bytes, size_t length,
	size_t *used, struct kw_error *error)
{
	const uint8_t *at = bytes;

	*used = 0;
	if (kw_repl_attach_state(attach) == KW_ATTACH_FAILED)
		return kw_error_set(error, KW_E_STATE, "the handshake has failed before");
	while (*used < length && kw_repl_attach_state(attach) != KW_ATTACH_FOLLOWING) {
		const struct kw_slice rest = kw_slice(at + *used, length - *used);
		size_t took = 0;
		int code = kw_repl_attach_state(attach) == KW_ATTACH_PAYLOAD
				   ? take_payload(attach, rest, &took, error)
				   : take_answer(attach, rest, &took, error);

		if (code)
			return fail(attach, code);
		*used += took;
	}
	return KW_OK;
}

/* ---- ACKs ---- */

void kw_repl_attach_ack(struct kw_repl_attach *attach)
{
	kw_buffer_append(&attach->output, ACK, sizeof ACK - 1);
}

void kw_repl_attach_heard(struct kw_repl_attach *attach)
{
	assert(kw_repl_attach_state(attach) == KW_ATTACH_FOLLOWING);
	attach->heard = true;
}

uint64_t kw_repl_attach_due_us(const struct kw_repl_attach *attach)
{
	if (kw_repl_attach_state(attach) != KW_ATTACH_FOLLOWING || attach->heard)
		return UINT64_MAX;
	return attach->ack_us;
}

void kw_repl_attach_turn(struct kw_repl_attach *attach, uint64_t now_us)
{
	if (now_us < kw_repl_attach_due_us(attach))
		return;
	kw_repl_attach_ack(attach);
	attach->ack_us = now_us + attach->ack_wait_us;
	attach->ack_wait_us *= 2;
	if (attach->ack_wait_us > ACK_LAST_US)
		attach->ack_wait_us = ACK_LAST_US;
}
