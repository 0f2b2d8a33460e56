#include "source/swap.h"

#include "base/buffer.h"
#include "rdb/payload_visit.h"
#include "source/missing.h"

#include <stdlib.h>

/* A key of one of them, copied: the table's own bytes move as it is written. */
struct copy {
	uint32_t from, to; /* databases */
	bool replaced;     /* the other one has a key of this name, too */
	size_t key_length, value_length;
	uint64_t expires_ms;
};

struct swap {
	const struct kw_store *store;
	uint32_t from, to;
	struct copy *copies;
	size_t count;
	struct kw_buffer bytes; /* of each copy its key, and then its value */
};

/* A module may save the number of its database with the value. */
static bool copy(void *arg, struct kw_slice key, struct kw_slice value, uint64_t expires_ms)
{
	struct swap *swap = arg;
	struct kw_slice theirs;
	uint64_t ignored;

	if (kw_payload_kind(value) == KW_VALUE_MODULE ||
		kw_buffer_length(&swap->bytes) + key.length + value.length > KW_SWAP_BYTES)
		return false;
	swap->copies[swap->count++] = (struct copy){
		.from = swap->from,
		.to = swap->to,
		.replaced = kw_table_get(swap->store->table, swap->to, key, &theirs, &ignored),
		.key_length = key.length,
		.value_length = value.length,
		.expires_ms = expires_ms,
	};
	kw_buffer_append(&swap->bytes, key.data, key.length);
	kw_buffer_append(&swap->bytes, value.data, value.length);
	return true;
}

static bool copy_all(struct swap *swap, const uint32_t databases[2])
{
	for (int i = 0; i < 2; i++) {
		swap->from = databases[i];
		swap->to = databases[1 - i];
		if (!kw_table_each(swap->store->table, swap->from, copy, swap))
			return false;
	}
	return true;
}

/* Changes on their way into the table, in rows. */
struct row {
	struct kw_store *store;
	struct kw_table_change changes[KW_LATEST_KEYS];
	size_t count;
};

static void store_row(struct row *row)
{
	kw_store_put(row->store, row->changes, row->count);
	for (size_t i = 0; i < row->count; i++)
		if (row->changes[i].result == KW_PUT_FULL)
			kw_dirty_add(row->store->dirty, row->changes[i].database,
				row->changes[i].key, kw_values_dirty_flags(true));
	row->count = 0;
}

static void add(struct row *row, struct kw_table_change change)
{
	row->changes[row->count++] = change;
	if (row->count == KW_LATEST_KEYS)
		store_row(row);
}

static void exchange(const struct swap *swap, struct kw_store *store, const struct kw_scope *scope)
{
	const uint8_t *at = kw_buffer_bytes(&swap->bytes);
	struct row row = {.store = store};

	for (size_t i = 0; i < swap->count; i++) {
		const struct copy *one = &swap->copies[i];
		struct kw_slice key = kw_slice(at, one->key_length);
		struct kw_slice value = kw_slice(at + one->key_length, one->value_length);

		at += one->key_length + one->value_length;
		if (kw_scope_has(scope, one->to, key))
			add(&row, (struct kw_table_change){
					  KW_RECORD_PUT, one->to, key, value, one->expires_ms});
		if (!one->replaced)
			add(&row, (struct kw_table_change){.kind = KW_RECORD_DELETE,
					  .database = one->from,
					  .key = key});
	}
	store_row(&row);
}

/* Keys that are out of scope in database 0 alone: the other one may have them now. */
static void ask_for_hidden(
	struct kw_store *store, const struct kw_scope *scope, const uint32_t databases[2])
{
	const struct kw_slice names[] = {scope->cursor_name, scope->canary_key};

	for (int i = 0; i < 2; i++)
		for (int j = 0; j < 2 && databases[i] == 0; j++)
			if (names[j].length > 0)
				kw_dirty_add(store->dirty, databases[1 - i], names[j],
					kw_values_dirty_flags(true));
}

/* Does the table say all of both, as of this place of the stream? */
static bool is_exact(struct kw_store *store, const uint32_t databases[2], uint64_t begin)
{
	struct kw_databases both = {0}, missing = {0};
	bool exact;

	kw_databases_add(&both, databases[0]);
	kw_databases_add(&both, databases[1]);
	kw_missing_databases(&store->too_large, &missing);
	kw_missing_databases(&store->unreadable->keys, &missing);
	exact = kw_order_has_passed(&store->values.order, &both, begin) &&
		!kw_dirty_owes_any(store->dirty, &both) &&
		!kw_databases_has(&missing, databases[0]) &&
		!kw_databases_has(&missing, databases[1]);
	kw_databases_close(&both);
	kw_databases_close(&missing);
	return exact;
}

/* What it costs, in places of the index: a key is read once and written twice. */
#define KEY_PLACES 20

/* … or 0: too much. */
static uint64_t cost(const struct kw_store *store, const uint32_t databases[2])
{
	struct kw_table_stats stats;
	uint64_t keys = kw_table_database_keys(store->table, databases[0]) +
			kw_table_database_keys(store->table, databases[1]);

	kw_table_stats(store->table, &stats);
	if (keys > KW_SWAP_KEYS || stats.index_slots > KW_SWAP_PLACES)
		return 0;
	return 2 * stats.index_slots + KEY_PLACES * keys + kw_dirty_total(store->dirty);
}

/* Of each copy one record is written, and perhaps one that its key is gone. */
static bool has_room(const struct swap *swap)
{
	return kw_table_has_room(swap->store->table,
		2 * (kw_buffer_length(&swap->bytes) + swap->count * KW_STORE_RECORD));
}

bool kw_swap(struct kw_store *store, const struct kw_scope *scope, const uint32_t databases[2],
	uint64_t begin)
{
	struct swap swap = {.store = store};
	uint64_t places;
	bool copied;

	kw_store_settle(store);
	places = cost(store, databases);
	if (places == 0 || !kw_store_may_walk(store))
		return false;
	kw_store_walked(store, places);
	if (!is_exact(store, databases, begin))
		return false;
	swap.copies = kw_alloc(KW_SWAP_KEYS * sizeof *swap.copies);
	copied = copy_all(&swap, databases) && has_room(&swap);
	if (copied) {
		exchange(&swap, store, scope);
		ask_for_hidden(store, scope, databases);
	}
	kw_buffer_close(&swap.bytes);
	free(swap.copies);
	return copied;
}
