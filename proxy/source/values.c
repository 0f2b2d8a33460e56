#include "source/values.h"

#include "fetch/fetch.h"
#include "rdb/payload.h"
#include "rdb/payload_string.h"
#include "source/store.h"

#include <assert.h>

#define BYTES_AT_REST ((size_t)64 << 10)

void kw_values_init(struct kw_values *values, struct kw_store *store, uint64_t seed)
{
	*values = (struct kw_values){.store = store};
	kw_order_init(&values->order, seed);
}

void kw_values_close(struct kw_values *values)
{
	kw_buffer_close(&values->bytes);
}

unsigned kw_values_dirty_flags(bool expires)
{
	return KW_DIRTY_EVENT | (expires ? KW_DIRTY_TTL : 0);
}

/* ---- applying ---- */

static bool may_store(struct kw_values *values, const struct kw_table_change *change)
{
	return !kw_order_guards(&values->order, change->database, change->key) &&
	       kw_dirty_may_overtake(values->store->dirty, change->database, change->key);
}

static void make_dirty(struct kw_values *values, const struct kw_table_change *change)
{
	kw_dirty_add(values->store->dirty, change->database, change->key,
		kw_values_dirty_flags(change->expires_ms > 0));
}

static void stored(struct kw_values *values, const struct kw_table_change *change)
{
	if (change->result == KW_PUT_FULL) {
		make_dirty(values, change);
		return;
	}
	values->taken++;
	kw_dirty_overtake(values->store->dirty, change->database, change->key);
}

static struct kw_table_change change_at(const struct kw_values *values, uint32_t index)
{
	const struct kw_values_change *change = &values->changes[index];
	const uint8_t *bytes = kw_buffer_bytes(&values->bytes);

	return (struct kw_table_change){
		.kind = change->kind,
		.database = change->database,
		.key = kw_slice(bytes + change->name_at, change->name_length),
		.value = kw_slice(bytes + change->value_at, change->value_length),
		.expires_ms = change->expires_ms,
	};
}

void kw_values_apply(struct kw_values *values)
{
	struct kw_table_change changes[KW_VALUES_BATCH];
	uint32_t kept = 0;

	if (values->count == 0)
		return;
	for (uint32_t i = 0; i < values->count; i++) {
		changes[kept] = change_at(values, i);
		if (may_store(values, &changes[kept]))
			kept++;
		else
			make_dirty(values, &changes[kept]);
	}
	values->count = 0;
	if (kept > 0)
		kw_store_put(values->store, changes, kept);
	for (uint32_t i = 0; i < kept; i++)
		stored(values, &changes[i]);
	kw_buffer_clear(&values->bytes);
	kw_buffer_trim(&values->bytes, BYTES_AT_REST);
}

/* ---- adding ---- */

static struct kw_values_change *begin(
	struct kw_values *values, const struct kw_feed_value *value, enum kw_record_kind kind)
{
	struct kw_values_change *change;

	if (values->count == KW_VALUES_BATCH || kw_buffer_length(&values->bytes) >= KW_VALUES_BYTES)
		kw_store_settle(values->store);
	change = &values->changes[values->count++];
	*change = (struct kw_values_change){.kind = kind,
		.database = value->database,
		.name_at = kw_buffer_length(&values->bytes),
		.name_length = value->name.length,
		.expires_ms = value->expires_ms};
	kw_buffer_append(&values->bytes, value->name.data, value->name.length);
	change->value_at = kw_buffer_length(&values->bytes);
	return change;
}

static void end(struct kw_values *values, struct kw_values_change *change)
{
	change->value_length = kw_buffer_length(&values->bytes) - change->value_at;
}

static bool add_string(struct kw_values *values, const struct kw_feed_value *value)
{
	uint16_t rdb_version = kw_fetch_rdb_version(values->store->fetch);
	struct kw_values_change *change;

	if (rdb_version == 0 || value->bytes.length > KW_VALUES_LARGEST)
		return false; /* no payload of this server was seen yet */
	change = begin(values, value, KW_RECORD_PUT);
	kw_payload_of_string(value->bytes, rdb_version, true, &values->bytes);
	end(values, change);
	return true;
}

static bool add_payload(struct kw_values *values, const struct kw_feed_value *value)
{
	uint16_t own = kw_fetch_rdb_version(values->store->fetch), rdb_version;
	struct kw_values_change *change;
	struct kw_error error;

	if (value->bytes.length > KW_VALUES_LARGEST ||
		kw_payload_check(value->bytes, &rdb_version, &error) || rdb_version > own)
		return false;
	change = begin(values, value, KW_RECORD_PUT);
	kw_buffer_append(&values->bytes, value->bytes.data, value->bytes.length);
	end(values, change);
	return true;
}

/* The value that the table has, with another expiry. */
static bool add_expiry(struct kw_values *values, const struct kw_feed_value *value, bool exact)
{
	struct kw_store *store = values->store;
	struct kw_values_change *change;
	struct kw_slice payload;
	uint64_t expires_ms;

	kw_store_settle(store);
	if (!exact || kw_order_guards(&values->order, value->database, value->name) ||
		kw_dirty_has(store->dirty, value->database, value->name) ||
		!kw_table_get(store->table, value->database, value->name, &payload, &expires_ms) ||
		payload.length > KW_VALUES_LARGEST)
		return false;
	change = begin(values, value, KW_RECORD_PUT);
	kw_buffer_append(&values->bytes, payload.data, payload.length);
	end(values, change);
	return true;
}

bool kw_values_add(struct kw_values *values, const struct kw_feed_value *value, bool exact)
{
	switch (value->kind) {
	case KW_FEED_STRING:
		return add_string(values, value);
	case KW_FEED_PAYLOAD:
		return add_payload(values, value);
	case KW_FEED_GONE:
		end(values, begin(values, value, KW_RECORD_DELETE));
		return true;
	case KW_FEED_EXPIRY:
		return add_expiry(values, value, exact);
	}
	return false;
}
