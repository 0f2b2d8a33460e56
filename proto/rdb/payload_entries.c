/*
 * The entries of a stream. Its nodes are listpacks, each with a master id and master fields:
 *
 *   entries │ deleted │ fields n │ field × n │ 0 │ entry …
 *   entry: flags │ ms - master's │ seq - master's │ [fields n │] { [field │] value } × n │ elements
 *
 * (The servers' t_stream.c, streamAppendItem. In brackets: if the entry's fields are not the
 * master's.)
 */
#include "rdb/payload.h"
#include "rdb/payload_pack.h"
#include "rdb/payload_type.h"
#include "rdb/payload_visit.h"

#include <stdlib.h>

#define ID_BYTES 16

enum { ENTRY_DELETED = 1, ENTRY_SAME_FIELDS = 2 };

/* Not an error: the visitor has what it wants. Above all codes of enum kw_code. */
#define STOPPED 1000

struct node {
	struct kw_stream_id master;
	const uint8_t *at; /* its listpack, a string */
};

struct entry {
	struct kw_stream_id id;
	int64_t flags;
	struct kw_pack rest; /* after the id */
};

struct walk {
	const struct kw_visitor *visitor;
	const struct kw_stream_range *range;
	struct kw_payload_input input;
	struct node *nodes;
	uint64_t count;
};

static uint64_t big_endian(const uint8_t *at)
{
	uint64_t value = 0;

	for (unsigned i = 0; i < 8; i++)
		value = value << 8 | at[i];
	return value;
}

static int corrupt(const struct walk *walk, const char *what)
{
	return kw_error_set(walk->input.error, KW_E_CORRUPT, "payload: a stream's node: %s", what);
}

/* ---- one listpack ---- */

static int take_integer(const struct walk *walk, struct kw_pack *pack, int64_t *number)
{
	return kw_pack_integer(pack, number, walk->input.error);
}

static int skip(const struct walk *walk, struct kw_pack *pack, uint64_t count)
{
	struct kw_slice element;

	for (; count > 0; count--)
		if (kw_pack_next(pack, &element, walk->input.error))
			return KW_E_CORRUPT;
	return KW_OK;
}

static int take_fields(const struct walk *walk, struct kw_pack *pack, uint64_t *fields)
{
	int64_t number;

	if (take_integer(walk, pack, &number))
		return KW_E_CORRUPT;
	if (number < 0)
		return corrupt(walk, "less than no fields");
	*fields = (uint64_t)number;
	return KW_OK;
}

/* Past the master entry; its fields are kept for the entries that share them. */
static int open_node(const struct walk *walk, struct kw_slice bytes, struct kw_pack *pack,
	struct kw_pack *fields, uint64_t *count)
{
	int64_t number;

	if (kw_pack_open(pack, KW_PACK_LISTPACK, bytes, walk->input.error) || skip(walk, pack, 2) ||
		take_fields(walk, pack, count))
		return KW_E_CORRUPT;
	*fields = *pack;
	if (skip(walk, pack, *count) || take_integer(walk, pack, &number))
		return KW_E_CORRUPT;
	return number == 0 ? KW_OK : corrupt(walk, "the master entry does not end");
}

/* The next entry, and step over it. */
static int take_entry(const struct walk *walk, const struct node *node, uint64_t master_fields,
	struct kw_pack *pack, struct entry *entry)
{
	uint64_t fields = master_fields, elements;
	int64_t ms, seq, told;

	if (take_integer(walk, pack, &entry->flags) || take_integer(walk, pack, &ms) ||
		take_integer(walk, pack, &seq))
		return KW_E_CORRUPT;
	entry->id = (struct kw_stream_id){
		node->master.ms + (uint64_t)ms, node->master.seq + (uint64_t)seq};
	entry->rest = *pack;
	if (!(entry->flags & ENTRY_SAME_FIELDS) && take_fields(walk, pack, &fields))
		return KW_E_CORRUPT;
	elements = entry->flags & ENTRY_SAME_FIELDS ? fields : 2 * fields;
	if (fields > UINT32_MAX || skip(walk, pack, elements) || take_integer(walk, pack, &told))
		return corrupt(walk, "an entry is cut off");
	elements += entry->flags & ENTRY_SAME_FIELDS ? 3 : 4;
	return (uint64_t)told == elements ? KW_OK : corrupt(walk, "an entry of another length");
}

static bool is_before(struct kw_stream_id a, struct kw_stream_id b)
{
	return a.ms < b.ms || (a.ms == b.ms && a.seq < b.seq);
}

static bool is_wanted(const struct walk *walk, const struct entry *entry)
{
	return !(entry->flags & ENTRY_DELETED) && !is_before(entry->id, walk->range->first) &&
	       !is_before(walk->range->last, entry->id);
}

/* ---- telling ---- */

static int told(enum kw_visit answer)
{
	return answer == KW_VISIT_STOP ? STOPPED : KW_OK;
}

static int tell_entry(
	const struct walk *walk, const struct entry *entry, struct kw_pack names, uint64_t fields)
{
	const struct kw_visitor *visitor = walk->visitor;
	struct kw_pack values = entry->rest;
	struct kw_pack *named = entry->flags & ENTRY_SAME_FIELDS ? &names : &values;
	int code;

	if (named == &values && take_fields(walk, &values, &fields))
		return KW_E_CORRUPT;
	code = told(visitor->entry(visitor->arg, entry->id, fields));
	for (; !code && fields > 0; fields--) {
		struct kw_slice element;

		if (kw_pack_next(named, &element, walk->input.error))
			return KW_E_CORRUPT;
		code = told(visitor->name(visitor->arg, element));
		if (code)
			return code;
		if (kw_pack_next(&values, &element, walk->input.error))
			return KW_E_CORRUPT;
		code = told(visitor->value(visitor->arg, element, 0));
	}
	return code;
}

/* Backwards: the entries of a node are found from its front, and told from its end. */
struct found {
	struct entry *entries;
	size_t count, capacity;
};

static int keep(const struct walk *walk, struct found *found, const struct entry *entry)
{
	if (found->count == found->capacity) {
		size_t capacity = found->capacity ? 2 * found->capacity : 64;
		struct entry *entries = realloc(found->entries, capacity * sizeof *found->entries);

		if (!entries)
			return kw_error_set(walk->input.error, KW_E_NOMEM,
				"payload: no memory for the entries of a stream's node");
		found->entries = entries;
		found->capacity = capacity;
	}
	found->entries[found->count++] = *entry;
	return KW_OK;
}

static int visit_node(struct walk *walk, const struct node *node)
{
	struct kw_pack pack, names;
	struct found found = {0};
	struct kw_slice bytes;
	uint64_t fields = 0;
	int code;

	walk->input.at = node->at;
	code = kw_payload_string(&walk->input, &bytes);
	if (!code)
		code = open_node(walk, bytes, &pack, &names, &fields);
	while (!code && kw_pack_more(&pack)) {
		struct entry entry;

		code = take_entry(walk, node, fields, &pack, &entry);
		if (code || !is_wanted(walk, &entry))
			continue;
		code = walk->range->reversed ? keep(walk, &found, &entry)
					     : tell_entry(walk, &entry, names, fields);
	}
	while (!code && found.count > 0)
		code = tell_entry(walk, &found.entries[--found.count], names, fields);
	free(found.entries);
	return code;
}

/* ---- all nodes ---- */

static int take_node(struct walk *walk, struct node *node)
{
	struct kw_slice master;
	int code = kw_payload_string(&walk->input, &master);

	if (code)
		return code;
	if (master.length != ID_BYTES)
		return corrupt(walk, "its id has another length");
	node->master = (struct kw_stream_id){
		big_endian(master.data), big_endian((const uint8_t *)master.data + 8)};
	node->at = walk->input.at;
	return kw_payload_skip(&walk->input);
}

static int open_nodes(struct walk *walk)
{
	if (kw_payload_count(&walk->input, 2, &walk->count))
		return KW_E_CORRUPT;
	walk->nodes = calloc(walk->count ? walk->count : 1, sizeof *walk->nodes);
	if (!walk->nodes)
		return kw_error_set(walk->input.error, KW_E_NOMEM,
			"payload: no memory for the %llu nodes of a stream",
			(unsigned long long)walk->count);
	for (uint64_t i = 0; i < walk->count; i++) {
		int code = take_node(walk, &walk->nodes[i]);

		if (code)
			return code;
	}
	return KW_OK;
}

/* Can it hold an entry of the range? Its ids reach from its master's to the next one's. */
static bool can_hold(const struct walk *walk, uint64_t i)
{
	return !is_before(walk->range->last, walk->nodes[i].master) &&
	       (i + 1 == walk->count || is_before(walk->range->first, walk->nodes[i + 1].master));
}

static int visit_nodes(struct walk *walk)
{
	int code = open_nodes(walk);

	for (uint64_t i = 0; !code && i < walk->count; i++) {
		uint64_t at = walk->range->reversed ? walk->count - 1 - i : i;

		if (can_hold(walk, at))
			code = visit_node(walk, &walk->nodes[at]);
	}
	return code;
}

/* All types begin alike: what later ones say more stands after the entries. */
static int open_stream(
	struct kw_slice payload, struct kw_payload_input *input, struct kw_error *error)
{
	const uint8_t *bytes = payload.data;

	if (payload.length < KW_PAYLOAD_FOOTER + 1)
		return kw_error_set(error, KW_E_CORRUPT,
			"payload: %zu bytes are too few for a DUMP payload", payload.length);
	if (kw_payload_kind(payload) != KW_VALUE_STREAM)
		return kw_error_set(error, KW_E_ARGUMENT, "payload: a %s has no entries",
			kw_payload_type_name(payload));
	kw_payload_input_init(
		input, kw_slice(bytes + 1, payload.length - KW_PAYLOAD_FOOTER - 1), error);
	return KW_OK;
}

int kw_payload_visit_entries(struct kw_slice payload, const struct kw_stream_range *range,
	const struct kw_visitor *visitor, struct kw_error *error)
{
	struct walk walk = {.visitor = visitor, .range = range};
	int code = open_stream(payload, &walk.input, error);

	if (code)
		return code;
	code = visit_nodes(&walk);
	free(walk.nodes);
	kw_payload_input_close(&walk.input);
	return code == STOPPED ? KW_OK : code;
}

int kw_payload_entries(struct kw_slice payload, uint64_t *entries, struct kw_error *error)
{
	struct kw_payload_input input;
	uint64_t nodes;
	int code = open_stream(payload, &input, error);

	if (code)
		return code;
	code = kw_payload_count(&input, 2, &nodes);
	for (; !code && nodes > 0; nodes--) {
		code = kw_payload_skip(&input);
		if (!code)
			code = kw_payload_skip(&input);
	}
	if (!code)
		code = kw_payload_length(&input, entries);
	kw_payload_input_close(&input);
	return code;
}
