/* COMMAND: what the gateway serves, in the form in which clients ask for it. */
#include "calls.h"

#include "gateway/answers/command.h"
#include "gateway/answers/words.h"

#include <string.h>

static bool is_listed(const struct kw_call *call, const struct kw_catalog_row *row)
{
	return !kw_catalog_is_subcommand(row) && kw_session_serves(call->host, row);
}

static size_t count_listed(const struct kw_call *call)
{
	size_t listed = 0;

	for (size_t i = 0; i < kw_catalog_count(); i++)
		listed += is_listed(call, kw_catalog_at(i));
	return listed;
}

void kw_call_command_count(struct kw_call *call)
{
	kw_reply_integer(call->to, (int64_t)count_listed(call));
}

/* ---- COMMAND INFO ---- */

static void put_names(
	const struct kw_call *call, const char *const *names, uint32_t bits, const char *mark)
{
	kw_reply_set(call->to, (size_t)__builtin_popcount(bits));
	for (unsigned i = 0; bits >> i; i++) {
		char text[40];

		if (!(bits >> i & 1))
			continue;
		strcpy(text, mark);
		strncat(text, names[i], sizeof text - 2);
		kw_reply_simple(call->to, text);
	}
}

/* Tips and the specifications of keys are left out: clients do without. */
static void put_info(const struct kw_call *call, const struct kw_catalog_row *row)
{
	size_t subcommands = kw_catalog_subcommands(row), served = 0;

	for (size_t i = 1; i <= subcommands; i++)
		served += kw_session_serves(call->host, row + i);
	kw_reply_array(call->to, 10);
	kw_reply_bulk(call->to, kw_slice_text(row->name));
	kw_reply_integer(call->to, row->arity);
	put_names(call, kw_flag_names, row->flags, "");
	kw_reply_integer(call->to, row->first);
	kw_reply_integer(call->to, row->last);
	kw_reply_integer(call->to, row->step);
	put_names(call, kw_category_names, kw_catalog_categories(row), "@");
	kw_reply_set(call->to, 0);
	kw_reply_set(call->to, 0);
	kw_reply_set(call->to, served);
	for (size_t i = 1; i <= subcommands; i++)
		if (kw_session_serves(call->host, row + i))
			put_info(call, row + i);
}

/* A command or subcommand that is served; NULL: none. */
static const struct kw_catalog_row *find_served(const struct kw_call *call, struct kw_slice name)
{
	const struct kw_catalog_row *row = kw_catalog_find(name);

	return row && kw_session_serves(call->host, row) ? row : NULL;
}

static void put_all(const struct kw_call *call,
	void (*put)(const struct kw_call *call, const struct kw_catalog_row *row))
{
	for (size_t i = 0; i < kw_catalog_count(); i++)
		if (is_listed(call, kw_catalog_at(i)))
			put(call, kw_catalog_at(i));
}

void kw_call_command(struct kw_call *call)
{
	kw_reply_array(call->to, count_listed(call));
	put_all(call, put_info);
}

void kw_call_command_info(struct kw_call *call)
{
	if (call->count == 2) {
		kw_call_command(call);
		return;
	}
	kw_reply_array(call->to, call->count - 2);
	for (size_t i = 2; i < call->count; i++) {
		const struct kw_catalog_row *row = find_served(call, call->words[i]);

		if (row)
			put_info(call, row);
		else
			kw_reply_nil_array(call->to);
	}
}

/* ---- COMMAND DOCS ---- */

static const char *group_of(const struct kw_catalog_row *row)
{
	static const struct {
		enum kw_catalog_category category;
		const char *group;
	} groups[] = {{KW_CATEGORY_STRING, "string"}, {KW_CATEGORY_HASH, "hash"},
		{KW_CATEGORY_LIST, "list"}, {KW_CATEGORY_GEO, "geo"}, {KW_CATEGORY_SET, "set"},
		{KW_CATEGORY_SORTEDSET, "sorted-set"}, {KW_CATEGORY_BITMAP, "bitmap"},
		{KW_CATEGORY_HYPERLOGLOG, "hyperloglog"}, {KW_CATEGORY_STREAM, "stream"},
		{KW_CATEGORY_KEYSPACE, "generic"}, {KW_CATEGORY_CONNECTION, "connection"},
		{KW_CATEGORY_SCRIPTING, "scripting"}, {KW_CATEGORY_TRANSACTION, "transactions"}};
	uint32_t categories = kw_catalog_categories(row);

	for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
		if (categories & 1U << groups[i].category)
			return groups[i].group;
	return "server";
}

static const char *summary_of(const struct kw_catalog_row *row)
{
	if (kw_command_find(kw_slice_text(row->name)))
		return "Answered by keywake-gateway from the table.";
	return row->flags & (KW_FLAG_WRITE | KW_FLAG_READ)
		       ? "Forwarded to the primary by keywake-gateway."
		       : "Answered by keywake-gateway.";
}

static void put_pair(const struct kw_call *call, const char *name, const char *value)
{
	kw_reply_bulk(call->to, kw_slice_text(name));
	kw_reply_bulk(call->to, kw_slice_text(value));
}

/* redis-cli reads each of these, even where it is empty. */
static void put_docs(const struct kw_call *call, const struct kw_catalog_row *row)
{
	kw_reply_bulk(call->to, kw_slice_text(row->name));
	kw_reply_map(call->to, 3);
	put_pair(call, "summary", summary_of(row));
	put_pair(call, "since", "");
	put_pair(call, "group", group_of(row));
}

void kw_call_command_docs(struct kw_call *call)
{
	size_t found = 0;

	if (call->count == 2) {
		kw_reply_map(call->to, count_listed(call));
		put_all(call, put_docs);
		return;
	}
	for (size_t i = 2; i < call->count; i++)
		found += find_served(call, call->words[i]) != NULL;
	kw_reply_map(call->to, found);
	for (size_t i = 2; i < call->count; i++) {
		const struct kw_catalog_row *row = find_served(call, call->words[i]);

		if (row)
			put_docs(call, row);
	}
}

/* ---- COMMAND LIST [FILTERBY MODULE name | ACLCAT category | PATTERN pattern] ---- */

static bool matches(const struct kw_call *call, const struct kw_catalog_row *row)
{
	struct kw_slice wanted;
	uint32_t categories = kw_catalog_categories(row);

	if (call->count == 2)
		return true;
	wanted = call->words[4];
	if (kw_word_is(call->words[3], "pattern"))
		return kw_word_matches(kw_slice_text(row->name), wanted);
	for (unsigned i = 0; kw_word_is(call->words[3], "aclcat") && i < KW_CATEGORY_COUNT; i++)
		if (categories >> i & 1 && kw_word_is(wanted, kw_category_names[i]))
			return true;
	return false;
}

static bool is_wanted(const struct kw_call *call, const struct kw_catalog_row *row)
{
	return is_listed(call, row) && matches(call, row);
}

void kw_call_command_list(struct kw_call *call)
{
	size_t wanted = 0;

	if (call->count != 2 && (call->count != 5 || !kw_word_is(call->words[2], "filterby"))) {
		kw_reply_error(call->to, "ERR syntax error");
		return;
	}
	for (size_t i = 0; i < kw_catalog_count(); i++)
		wanted += is_wanted(call, kw_catalog_at(i));
	kw_reply_array(call->to, wanted);
	for (size_t i = 0; i < kw_catalog_count(); i++)
		if (is_wanted(call, kw_catalog_at(i)))
			kw_reply_bulk(call->to, kw_slice_text(kw_catalog_at(i)->name));
}

/* ---- COMMAND GETKEYS ---- */

static size_t count_keys(const struct kw_catalog_row *row, const struct kw_slice *words,
	size_t count, bool *malformed)
{
	struct kw_catalog_walk walk = {0};
	size_t keys = 0;

	while (kw_catalog_next_key(&walk, row, words, count) > 0)
		keys++;
	*malformed = walk.malformed;
	return keys;
}

void kw_call_command_getkeys(struct kw_call *call)
{
	const struct kw_slice *words = call->words + 2;
	size_t count = call->count - 2, at, keys;
	const struct kw_catalog_row *row = kw_catalog_resolve(words, count);
	struct kw_catalog_walk walk = {0};
	bool malformed = false;

	if (!row) {
		kw_reply_error(call->to, "ERR Invalid command specified");
		return;
	}
	if (row->first == 0 && row->search == KW_KEYS_RANGE) {
		kw_reply_error(call->to, "ERR The command has no key arguments");
		return;
	}
	if (!kw_catalog_fits(row, count)) {
		kw_reply_error(call->to, "ERR Invalid number of arguments specified for command");
		return;
	}
	keys = count_keys(row, words, count, &malformed);
	if (keys == 0 || malformed) {
		kw_reply_error(call->to, "ERR Invalid arguments specified for command");
		return;
	}
	kw_reply_array(call->to, keys);
	while ((at = kw_catalog_next_key(&walk, row, words, count)) > 0)
		kw_reply_bulk(call->to, words[at]);
}
