/*
 * Answers about the entries of a stream.
 *
 * Groups and consumers are not answered: XREADGROUP, XACK and XCLAIM change them without an event,
 * so the table's are of the last change of an entry. Nor is XINFO STREAM, which counts the nodes of
 * the server's own tree.
 */
#include "answers.h"
#include "words.h"

#include <string.h>

#define ID_WORD_MAX 127
#define ID_TEXT 48

/* ---- what is asked ---- */

/* The number before or after the dash. */
static bool read_part(const char *text, size_t length, uint64_t *part)
{
	return kw_answer_unsigned(kw_slice(text, length), part);
}

/* `missing`: the sequence number of an id that says only its milliseconds. */
static bool read_id(struct kw_slice word, uint64_t missing, struct kw_stream_id *id)
{
	const char *text = word.data;
	const char *dash;

	if (word.length > ID_WORD_MAX)
		return false;
	if (word.length == 1 && (text[0] == '-' || text[0] == '+')) {
		id->ms = id->seq = text[0] == '-' ? 0 : UINT64_MAX;
		return true;
	}
	dash = word.length ? memchr(text, '-', word.length) : NULL;
	id->seq = missing;
	if (!dash)
		return read_part(text, word.length, &id->ms);
	return read_part(text, (size_t)(dash - text), &id->ms) &&
	       read_part(dash + 1, word.length - (size_t)(dash - text) - 1, &id->seq);
}

/* The next id upwards or downwards; false: there is none. */
static bool step(struct kw_stream_id *id, bool upwards)
{
	uint64_t edge = upwards ? UINT64_MAX : 0;

	if (id->seq != edge) {
		id->seq += upwards ? 1 : -1;
		return true;
	}
	if (id->ms == edge)
		return false;
	id->ms += upwards ? 1 : -1;
	id->seq = upwards ? 0 : UINT64_MAX;
	return true;
}

/* One end of the range: an id, or an open end (id. */
static bool read_end(
	const struct kw_ask *ask, struct kw_slice word, bool is_first, struct kw_stream_id *id)
{
	const char *text = word.data;
	bool open = word.length > 1 && text[0] == '(';
	bool is_right;

	if (open)
		word = kw_slice(text + 1, word.length - 1);
	/* - and + cannot be open ends. */
	is_right = read_id(word, is_first ? 0 : UINT64_MAX, id) &&
		   !(open && word.length == 1 && (text[1] == '-' || text[1] == '+'));
	if (!is_right)
		kw_reply_error(
			ask->to, "ERR Invalid stream ID specified as stream command argument");
	else if (open && !step(id, is_first))
		kw_reply_error(
			ask->to, "ERR invalid %s ID for the interval", is_first ? "start" : "end");
	else
		return true;
	return false;
}

/* COUNT; negative: none was said. */
static bool read_count(const struct kw_ask *ask, int64_t *count)
{
	*count = -1;
	for (size_t at = 4; at < ask->count; at += 2) {
		if (!kw_word_is(ask->words[at], "count") || at + 1 == ask->count) {
			kw_reply_error(ask->to, "ERR syntax error");
			return false;
		}
		if (!kw_answer_number(ask->words[at + 1], count)) {
			kw_reply_error(ask->to, "ERR value is not an integer or out of range");
			return false;
		}
		if (*count < 0)
			*count = 0;
	}
	return true;
}

/* ---- the reply ---- */

/* The number of entries stands before them, so they are put aside first. */
struct saying {
	struct kw_reply_to to;
	struct kw_buffer entries;
	uint64_t count, most;
};

static char *digits_before(char *end, uint64_t number)
{
	do {
		*--end = (char)('0' + number % 10);
		number /= 10;
	} while (number);
	return end;
}

static struct kw_slice id_text(struct kw_stream_id id, char text[ID_TEXT])
{
	char *at = digits_before(text + ID_TEXT, id.seq);

	*--at = '-';
	at = digits_before(at, id.ms);
	return kw_slice(at, (size_t)(text + ID_TEXT - at));
}

static enum kw_visit say_entry(void *arg, struct kw_stream_id id, uint64_t fields)
{
	struct saying *saying = arg;
	char text[ID_TEXT];

	if (saying->count == saying->most)
		return KW_VISIT_STOP;
	saying->count++;
	kw_reply_array(&saying->to, 2);
	kw_reply_bulk(&saying->to, id_text(id, text));
	kw_reply_array(&saying->to, 2 * fields);
	return KW_VISIT_ON;
}

static enum kw_visit say_field(void *arg, struct kw_slice bytes)
{
	kw_reply_bulk(&((struct saying *)arg)->to, bytes);
	return KW_VISIT_ON;
}

static enum kw_visit say_value(void *arg, struct kw_slice bytes, uint64_t expires_ms)
{
	kw_reply_bulk(&((struct saying *)arg)->to, bytes);
	return KW_VISIT_ON;
}

static void answer_entries(
	const struct kw_ask *ask, const struct kw_stream_range *range, int64_t count)
{
	struct saying saying = {.to = *ask->to, .most = count < 0 ? UINT64_MAX : (uint64_t)count};
	const struct kw_visitor visitor = {
		.entry = say_entry, .name = say_field, .value = say_value, .arg = &saying};
	struct kw_error error;

	saying.to.out = &saying.entries;
	if (kw_payload_visit_entries(ask->payload, range, &visitor, &error)) {
		kw_answer_unreadable(ask, &error);
	} else {
		kw_reply_array(ask->to, saying.count);
		if (saying.count > 0)
			kw_buffer_append(ask->to->out, kw_buffer_bytes(&saying.entries),
				kw_buffer_length(&saying.entries));
	}
	kw_buffer_close(&saying.entries);
}

static void answer_range(const struct kw_ask *ask, bool reversed)
{
	struct kw_stream_range range = {.reversed = reversed};
	int64_t count;

	if (!read_end(ask, ask->words[reversed ? 3 : 2], true, &range.first) ||
		!read_end(ask, ask->words[reversed ? 2 : 3], false, &range.last) ||
		!read_count(ask, &count))
		return;
	if (kw_ask_is_missing(ask))
		kw_reply_array(ask->to, 0);
	else if (count == 0)
		kw_reply_nil_array(ask->to);
	else
		answer_entries(ask, &range, count);
}

void kw_answer_xrange(const struct kw_ask *ask)
{
	answer_range(ask, false);
}

void kw_answer_xrevrange(const struct kw_ask *ask)
{
	answer_range(ask, true);
}

void kw_answer_xlen(const struct kw_ask *ask)
{
	struct kw_error error;
	uint64_t entries = 0;

	if (!kw_ask_is_missing(ask) && kw_payload_entries(ask->payload, &entries, &error))
		kw_answer_unreadable(ask, &error);
	else
		kw_reply_integer(ask->to, (int64_t)entries);
}
