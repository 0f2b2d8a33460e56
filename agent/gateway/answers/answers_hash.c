/* Answers about hashes. A field that has expired is not there, although the payload has it. */
#include "answers.h"
#include "words.h"

#include <stdlib.h>
#include <string.h>

/* One visit of a hash. What an answer does not need is zero. */
struct visiting {
	const struct kw_ask *ask;
	struct kw_slice wanted; /* a field; or of several: */
	struct kw_fields *fields;
	bool is_wanted; /* the field named last */
	bool found;
	uint64_t count, said;
	struct kw_slice pattern; /* of HSCAN; no bytes: all */
	struct kw_buffer name;   /* the field named last, for answers that say it */
	bool with_names, with_values;
};

static bool is_alive(const struct visiting *visiting, uint64_t expires_ms)
{
	return expires_ms == 0 || expires_ms > visiting->ask->now_ms;
}

/* Visit the hash; of a missing key nothing is visited. False: it was answered that it cannot be. */
static bool visit(struct visiting *visiting,
	enum kw_visit (*name)(void *arg, struct kw_slice bytes),
	enum kw_visit (*value)(void *arg, struct kw_slice bytes, uint64_t expires_ms))
{
	const struct kw_visitor visitor = {.name = name, .value = value, .arg = visiting};
	struct kw_error error;

	if (kw_ask_is_missing(visiting->ask) ||
		!kw_payload_visit(visiting->ask->payload, &visitor, &error))
		return true;
	kw_answer_unreadable(visiting->ask, &error);
	return false;
}

/* ---- one field ---- */

static enum kw_visit on_name(void *arg, struct kw_slice bytes)
{
	struct visiting *visiting = arg;

	visiting->is_wanted = kw_slice_equal(bytes, visiting->wanted);
	return KW_VISIT_ON;
}

static enum kw_visit on_value(void *arg, struct kw_slice bytes, uint64_t expires_ms)
{
	struct visiting *visiting = arg;

	if (!visiting->is_wanted)
		return KW_VISIT_ON;
	visiting->found = is_alive(visiting, expires_ms);
	visiting->count = bytes.length;
	if (visiting->found && visiting->with_values)
		kw_reply_bulk(visiting->ask->to, bytes);
	return KW_VISIT_STOP;
}

void kw_answer_hget(const struct kw_ask *ask)
{
	struct visiting visiting = {.ask = ask, .wanted = ask->words[2], .with_values = true};

	if (visit(&visiting, on_name, on_value) && !visiting.found)
		kw_reply_nil(ask->to);
}

void kw_answer_hexists(const struct kw_ask *ask)
{
	struct visiting visiting = {.ask = ask, .wanted = ask->words[2]};

	if (visit(&visiting, on_name, on_value))
		kw_reply_integer(ask->to, visiting.found);
}

void kw_answer_hstrlen(const struct kw_ask *ask)
{
	struct visiting visiting = {.ask = ask, .wanted = ask->words[2]};

	if (visit(&visiting, on_name, on_value))
		kw_reply_integer(ask->to, visiting.found ? (int64_t)visiting.count : 0);
}

/* ---- several fields ---- */

/* What was found of each field that a request names: a part of `bytes`. */
struct kw_fields {
	const struct kw_slice *names;
	size_t count;
	struct kw_buffer bytes;
	struct kw_field {
		bool there;
		size_t offset, length;
		uint64_t expires_ms;
	} * found;
	size_t at; /* the one named last; count: none */
};

static enum kw_visit on_field_name(void *arg, struct kw_slice bytes)
{
	struct kw_fields *fields = ((struct visiting *)arg)->fields;

	fields->at = 0;
	while (fields->at < fields->count && !kw_slice_equal(fields->names[fields->at], bytes))
		fields->at++;
	return KW_VISIT_ON;
}

static enum kw_visit on_field_value(void *arg, struct kw_slice bytes, uint64_t expires_ms)
{
	struct visiting *visiting = arg;
	struct kw_fields *fields = visiting->fields;

	if (fields->at == fields->count || !is_alive(visiting, expires_ms))
		return KW_VISIT_ON;
	/* A request can name a field more than once. */
	for (size_t i = fields->at; i < fields->count; i++)
		if (i == fields->at || kw_slice_equal(fields->names[i], fields->names[fields->at]))
			fields->found[i] = (struct kw_field){
				true, kw_buffer_length(&fields->bytes), bytes.length, expires_ms};
	kw_buffer_append(&fields->bytes, bytes.data, bytes.length);
	return KW_VISIT_ON;
}

/* Look for the fields from this word on, and say of each what `say` says. */
static void answer_fields(const struct kw_ask *ask, size_t first, size_t count,
	void (*say)(const struct kw_ask *ask, const struct kw_fields *fields, size_t i))
{
	struct kw_fields fields = {.names = ask->words + first,
		.count = count,
		.found = kw_zalloc(count * sizeof *fields.found)};
	struct visiting visiting = {.ask = ask, .fields = &fields};

	if (visit(&visiting, on_field_name, on_field_value)) {
		kw_reply_array(ask->to, count);
		for (size_t i = 0; i < count; i++)
			say(ask, &fields, i);
	}
	kw_buffer_close(&fields.bytes);
	free(fields.found);
}

static void say_value(const struct kw_ask *ask, const struct kw_fields *fields, size_t i)
{
	const struct kw_field *field = &fields->found[i];

	if (!field->there)
		kw_reply_nil(ask->to);
	else if (field->length == 0)
		kw_reply_bulk(ask->to, kw_slice("", 0));
	else
		kw_reply_bulk(ask->to,
			kw_slice(kw_buffer_bytes(&fields->bytes) + field->offset, field->length));
}

void kw_answer_hmget(const struct kw_ask *ask)
{
	answer_fields(ask, 2, ask->count - 2, say_value);
}

/* ---- the fields' own expiry: HTTL key FIELDS n field … ---- */

static void say_time(const struct kw_ask *ask, const struct kw_field *field, bool left, bool in_ms)
{
	/* Redis rounds up, as t_hash.c does; Valkey to the nearest, as it does for a key. */
	const uint64_t round = ask->to->release.fork == KW_FORK_VALKEY ? 500 : 999;
	uint64_t time;

	if (!field->there) {
		kw_reply_integer(ask->to, -2);
		return;
	}
	if (field->expires_ms == 0) {
		kw_reply_integer(ask->to, -1);
		return;
	}
	time = left ? field->expires_ms - ask->now_ms : field->expires_ms;
	kw_reply_integer(ask->to, (int64_t)(in_ms ? time : (time + round) / 1000));
}

static void say_httl(const struct kw_ask *ask, const struct kw_fields *fields, size_t i)
{
	say_time(ask, &fields->found[i], true, false);
}

static void say_hpttl(const struct kw_ask *ask, const struct kw_fields *fields, size_t i)
{
	say_time(ask, &fields->found[i], true, true);
}

static void say_hexpiretime(const struct kw_ask *ask, const struct kw_fields *fields, size_t i)
{
	say_time(ask, &fields->found[i], false, false);
}

static void say_hpexpiretime(const struct kw_ask *ask, const struct kw_fields *fields, size_t i)
{
	say_time(ask, &fields->found[i], false, true);
}

/* What is wrong with FIELDS n field …; NULL: nothing. */
static const char *refuse_count(const struct kw_ask *ask, int64_t *count)
{
	const bool valkey = ask->to->release.fork == KW_FORK_VALKEY;
	const bool number = kw_answer_number(ask->words[3], count);

	if (!kw_word_is(ask->words[2], "fields"))
		return valkey ? "ERR syntax error"
			      : "ERR Mandatory argument FIELDS is missing or not at the right "
				"position";
	if (!number && valkey)
		return "ERR value is not an integer or out of range";
	if (!number || *count < 1)
		return valkey ? "ERR syntax error"
			      : "ERR Number of fields must be a positive integer";
	if ((uint64_t)*count != ask->count - 4)
		return valkey ? "ERR syntax error"
			      : "ERR The `numfields` parameter must match the number of arguments";
	return NULL;
}

static void answer_times(const struct kw_ask *ask,
	void (*say)(const struct kw_ask *ask, const struct kw_fields *fields, size_t i))
{
	int64_t count = 0;
	const char *why = refuse_count(ask, &count);

	if (why)
		kw_reply_error(ask->to, "%s", why);
	else
		answer_fields(ask, 4, (size_t)count, say);
}

void kw_answer_httl(const struct kw_ask *ask)
{
	answer_times(ask, say_httl);
}

void kw_answer_hpttl(const struct kw_ask *ask)
{
	answer_times(ask, say_hpttl);
}

void kw_answer_hexpiretime(const struct kw_ask *ask)
{
	answer_times(ask, say_hexpiretime);
}

void kw_answer_hpexpiretime(const struct kw_ask *ask)
{
	answer_times(ask, say_hpexpiretime);
}

/* ---- all fields ---- */

static enum kw_visit on_any_name(void *arg, struct kw_slice bytes)
{
	struct visiting *visiting = arg;

	visiting->is_wanted = !visiting->pattern.data || kw_word_matches(bytes, visiting->pattern);
	kw_buffer_clear(&visiting->name);
	if (visiting->is_wanted && visiting->with_names)
		kw_buffer_append(&visiting->name, bytes.data, bytes.length);
	return KW_VISIT_ON;
}

static enum kw_visit count_value(void *arg, struct kw_slice bytes, uint64_t expires_ms)
{
	struct visiting *visiting = arg;

	visiting->count += visiting->is_wanted && is_alive(visiting, expires_ms);
	return KW_VISIT_ON;
}

static enum kw_visit say_field(void *arg, struct kw_slice bytes, uint64_t expires_ms)
{
	struct visiting *visiting = arg;
	const struct kw_reply_to *to = visiting->ask->to;
	size_t length = kw_buffer_length(&visiting->name);

	if (!visiting->is_wanted || !is_alive(visiting, expires_ms))
		return KW_VISIT_ON;
	visiting->said++;
	if (visiting->with_names)
		kw_reply_bulk(to, length ? kw_slice(kw_buffer_bytes(&visiting->name), length)
					 : kw_slice("", 0));
	if (visiting->with_values)
		kw_reply_bulk(to, bytes);
	return KW_VISIT_ON;
}

/*
 * The number of replies comes first. The value tells it, if no field can have expired and all are
 * wanted; else it is visited twice.
 */
static bool count_all(struct visiting *visiting)
{
	struct kw_error error;

	if (visiting->pattern.data || (!kw_ask_is_missing(visiting->ask) &&
					      kw_payload_can_expire(visiting->ask->payload)))
		return visit(visiting, on_any_name, count_value);
	if (kw_ask_is_missing(visiting->ask) ||
		!kw_payload_size(visiting->ask->payload, &visiting->count, &error))
		return true;
	kw_answer_unreadable(visiting->ask, &error);
	return false;
}

void kw_answer_hlen(const struct kw_ask *ask)
{
	struct visiting visiting = {.ask = ask};

	if (count_all(&visiting))
		kw_reply_integer(ask->to, (int64_t)visiting.count);
	kw_buffer_close(&visiting.name);
}

static void answer_all(struct visiting *visiting,
	void (*head)(const struct kw_reply_to *to, size_t count), size_t replies)
{
	if (count_all(visiting)) {
		head(visiting->ask->to, visiting->count * replies);
		if (visit(visiting, on_any_name, say_field) && visiting->said != visiting->count)
			kw_answer_miscounted(visiting->ask);
	}
	kw_buffer_close(&visiting->name);
}

void kw_answer_hgetall(const struct kw_ask *ask)
{
	struct visiting visiting = {.ask = ask, .with_names = true, .with_values = true};

	answer_all(&visiting, kw_reply_map, 1);
}

void kw_answer_hkeys(const struct kw_ask *ask)
{
	struct visiting visiting = {.ask = ask, .with_names = true};

	answer_all(&visiting, kw_reply_array, 1);
}

void kw_answer_hvals(const struct kw_ask *ask)
{
	struct visiting visiting = {.ask = ask, .with_values = true};

	answer_all(&visiting, kw_reply_array, 1);
}

void kw_answer_hscan(const struct kw_ask *ask)
{
	struct visiting visiting = {.ask = ask, .with_names = true, .with_values = true};
	struct kw_scan_words scan;

	if (!kw_answer_scan(ask, &scan))
		return;
	visiting.pattern = scan.pattern;
	visiting.with_values = !scan.no_values;
	answer_all(&visiting, kw_reply_array, scan.no_values ? 1 : 2);
}
