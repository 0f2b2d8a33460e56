#include "source/values.h"

#include "base/clock.h"
#include "fetch/fetch.h"
#include "rdb/payload.h"
#include "rdb/payload_visit.h"
#include "source/missing.h"
#include "source/store.h"
#include "stream/amend.h"

#define BYTES_AT_REST ((size_t)64 << 10)

void kw_values_init(struct kw_values *values, struct kw_store *store, uint64_t seed)
{
	*values = (struct kw_values){.store = store};
	kw_order_init(&values->order, seed);
	kw_latest_init(&values->latest, seed);
	kw_bucket_init(&values->derived, KW_VALUES_AMENDED, kw_clock_us());
}

void kw_values_close(struct kw_values *values)
{
	kw_order_close(&values->order);
	kw_latest_close(&values->latest);
	kw_buffer_close(&values->before);
	kw_buffer_close(&values->after);
}

unsigned kw_values_dirty_flags(bool expires)
{
	return KW_DIRTY_EVENT | (expires ? KW_DIRTY_TTL : 0);
}

/* ---- applying ---- */

/*
 * A fetch has what is old, but for an expiry: it was asked for only if the table or an event knew
 * of one (fetch.h).
 */
static enum kw_order_age age_of(struct kw_values *values, uint32_t database, struct kw_slice key,
	struct kw_order_span told, bool expires)
{
	enum kw_order_age age = kw_order_age(&values->order, database, key, told);

	return age == KW_ORDER_OLD && expires ? KW_ORDER_UNSURE : age;
}

static bool may_overtake(struct kw_values *values, const struct kw_table_change *change)
{
	return kw_dirty_may_overtake(values->store->dirty, change->database, change->key);
}

static void make_dirty(struct kw_values *values, const struct kw_table_change *change)
{
	kw_dirty_add(values->store->dirty, change->database, change->key,
		kw_values_dirty_flags(change->expires_ms > 0));
}

static void stored(struct kw_values *values, const struct kw_table_change *change, uint32_t told)
{
	if (change->result == KW_PUT_FULL) {
		make_dirty(values, change);
		return;
	}
	values->taken += told;
	kw_dirty_overtake(values->store->dirty, change->database, change->key);
}

/* Those that may be stored, encoded; of the others those are dirty that no fetch has. How many? */
static uint32_t encode(struct kw_values *values, struct kw_latest_change *kept[KW_LATEST_KEYS])
{
	uint16_t rdb_version = kw_fetch_rdb_version(values->store->fetch);
	struct kw_latest *latest = &values->latest;
	uint32_t count = 0;

	for (uint32_t i = 0; i < latest->count; i++) {
		struct kw_latest_change *one = &latest->changes[i];
		const struct kw_table_change change = kw_latest_change(latest, one);
		enum kw_order_age age = age_of(
			values, change.database, change.key, one->told, change.expires_ms > 0);

		if (age == KW_ORDER_OLD) {
			values->taken += one->count;
		} else if (age == KW_ORDER_NEW && may_overtake(values, &change)) {
			kw_latest_encode(latest, one, rdb_version);
			kept[count++] = one;
		} else {
			make_dirty(values, &change);
		}
	}
	return count;
}

static void rest(struct kw_buffer *buffer)
{
	kw_buffer_clear(buffer);
	kw_buffer_trim(buffer, BYTES_AT_REST);
}

bool kw_values_wait(const struct kw_values *values)
{
	return values->latest.count > 0;
}

void kw_values_apply(struct kw_values *values)
{
	struct kw_table_change changes[KW_LATEST_KEYS];
	struct kw_latest_change *kept[KW_LATEST_KEYS];
	uint32_t count;

	if (!kw_values_wait(values))
		return;
	count = encode(values, kept);
	for (uint32_t i = 0; i < count; i++)
		changes[i] = kw_latest_change(&values->latest, kept[i]);
	if (count > 0)
		kw_store_put(values->store, changes, count);
	for (uint32_t i = 0; i < count; i++)
		stored(values, &changes[i], kept[i]->count);
	kw_latest_clear(&values->latest);
	rest(&values->before);
	rest(&values->after);
}

/* ---- what is known ---- */

enum knowledge { UNKNOWN, LACKS, HAS };

struct known {
	enum knowledge knowledge;
	struct kw_latest_value value;    /* LACKS: nothing, which never expires */
	struct kw_latest_change *change; /* it waits there; NULL: the table has it */
};

/* The table lacks a key that it cannot hold, and one that cannot be read. These exist. */
static bool is_missing(const struct kw_store *store, uint32_t database, struct kw_slice name)
{
	return kw_missing_find(&store->too_large, database, name) ||
	       kw_missing_find(&store->unreadable->keys, database, name);
}

static struct kw_order_span told_at(const struct kw_feed_value *value)
{
	return (struct kw_order_span){value->begin, value->end};
}

/*
 * Is its time over, or nearly? A server removes such a key before a command changes it, and its
 * stream has that. But DEBUG RELOAD leaves it out and tells nobody. So nothing follows from it.
 */
static bool may_be_over(const struct kw_store *store, const struct kw_latest_value *value)
{
	return value->expires_ms > 0 &&
	       value->expires_ms < store->primary_ms(store->source) + KW_VALUES_CLOCKS_DIFFER_MS;
}

/* What the key has or lacks by what was told or fetched last. */
static struct known look_up_last(struct kw_values *values, uint32_t database, struct kw_slice name,
	struct kw_order_span now, enum kw_values_exact exact)
{
	struct kw_store *store = values->store;
	struct known known = {.change = kw_latest_find(&values->latest, database, name)};

	if (known.change) {
		known.value = kw_latest_value(&values->latest, known.change);
		known.knowledge = known.value.form == KW_LATEST_GONE ? LACKS : HAS;
		return known;
	}
	if (exact == KW_VALUES_INEXACT)
		return known;
	kw_fetch_settle(store->fetch);
	if (kw_order_age(&values->order, database, name, now) != KW_ORDER_NEW ||
		kw_dirty_owes(store->dirty, database, name))
		return known;
	known.value.form = KW_LATEST_PAYLOAD;
	if (kw_table_get(store->table, database, name, &known.value.bytes, &known.value.expires_ms))
		known.knowledge = HAS;
	else if (exact == KW_VALUES_EXACT && !is_missing(store, database, name))
		known.knowledge = LACKS;
	return known;
}

/* What the key has at this moment of the stream, if that is exact. Valid until the next change. */
static struct known look_up(struct kw_values *values, uint32_t database, struct kw_slice name,
	struct kw_order_span now, enum kw_values_exact exact)
{
	struct known known = look_up_last(values, database, name, now, exact);

	if (known.knowledge == HAS && may_be_over(values->store, &known.value))
		known.knowledge = UNKNOWN;
	return known;
}

/* May more bytes be made that the stream did not carry? */
static bool may_derive(struct kw_values *values)
{
	return kw_bucket_allows(&values->derived, kw_clock_us());
}

/* ---- adding ---- */

static void set(struct kw_values *values, const struct kw_feed_value *value,
	enum kw_latest_form form, struct kw_slice bytes, uint64_t expires_ms)
{
	kw_latest_set(&values->latest, value->database, value->name,
		&(struct kw_latest_value){form, bytes, expires_ms, told_at(value)});
}

/* No payload of this server was seen yet: nobody knows the version of its payloads. */
static bool can_encode(const struct kw_values *values, size_t length)
{
	return kw_fetch_rdb_version(values->store->fetch) > 0 && length <= KW_VALUES_LARGEST;
}

static bool add_string(struct kw_values *values, const struct kw_feed_value *value)
{
	if (!can_encode(values, value->bytes.length))
		return false;
	set(values, value, KW_LATEST_TEXT, value->bytes, value->expires_ms);
	return true;
}

static bool add_keepttl(
	struct kw_values *values, const struct kw_feed_value *value, enum kw_values_exact exact)
{
	const struct known known =
		look_up(values, value->database, value->name, told_at(value), exact);

	if (known.knowledge == UNKNOWN || !can_encode(values, value->bytes.length))
		return false;
	set(values, value, KW_LATEST_TEXT, value->bytes, known.value.expires_ms);
	return true;
}

static bool add_payload(struct kw_values *values, const struct kw_feed_value *value)
{
	uint16_t own = kw_fetch_rdb_version(values->store->fetch), rdb_version;
	struct kw_error error;

	if (value->bytes.length > KW_VALUES_LARGEST ||
		kw_payload_check(value->bytes, &rdb_version, &error) || rdb_version > own)
		return false;
	set(values, value, KW_LATEST_PAYLOAD, value->bytes, value->expires_ms);
	return true;
}

static bool add_gone(struct kw_values *values, const struct kw_feed_value *value)
{
	set(values, value, KW_LATEST_GONE, kw_slice("", 0), 0);
	return true;
}

/* This key has what that one has. */
static bool set_known(struct kw_values *values, const struct kw_feed_value *value,
	const struct known *known, uint64_t expires_ms)
{
	struct kw_slice bytes = known->value.bytes;

	if (bytes.length > KW_VALUES_LARGEST || !may_derive(values))
		return false;
	kw_bucket_spend(&values->derived, bytes.length / KW_VALUES_COPIED);
	if (known->change && bytes.length > 0) {
		/* It lies where it is copied to, and that moves as it grows. */
		kw_buffer_clear(&values->before);
		kw_buffer_append(&values->before, bytes.data, bytes.length);
		bytes.data = kw_buffer_bytes(&values->before);
	}
	set(values, value, known->value.form, bytes, expires_ms);
	return true;
}

/* The value stays, with another expiry. */
static bool add_expiry(
	struct kw_values *values, const struct kw_feed_value *value, enum kw_values_exact exact)
{
	const struct known known =
		look_up(values, value->database, value->name, told_at(value), exact);

	if (known.knowledge != HAS)
		return false;
	if (!known.change)
		return set_known(values, value, &known, value->expires_ms);
	kw_latest_expire(known.change, value->expires_ms, told_at(value));
	return true;
}

/*
 * Is the value the same under another name, and all of it in the table? A module's payload may hold
 * the name. A stream's consumers are seen by commands that change nothing else, of which the
 * replication stream does not tell.
 */
static bool can_copy(const struct kw_latest_value *value)
{
	if (value->form == KW_LATEST_TEXT)
		return true;
	switch (kw_payload_kind(value->bytes)) {
	case KW_VALUE_STRING:
	case KW_VALUE_LIST:
	case KW_VALUE_SET:
	case KW_VALUE_HASH:
	case KW_VALUE_ZSET:
		return true;
	default:
		return false;
	}
}

/* The key has the value and the expiry of another one. */
static bool add_copy(
	struct kw_values *values, const struct kw_feed_value *value, enum kw_values_exact exact)
{
	const struct known known =
		look_up(values, value->from_database, value->from, told_at(value), exact);

	return known.knowledge == HAS && can_copy(&known.value) &&
	       set_known(values, value, &known, known.value.expires_ms);
}

static struct kw_repl_effect effect_of(const struct kw_feed_value *value)
{
	static const enum kw_repl_effect_kind kinds[] = {
		[KW_FEED_ADD] = KW_REPL_ADD,
		[KW_FEED_APPEND] = KW_REPL_APPEND,
		[KW_FEED_WRITE] = KW_REPL_WRITE,
	};

	return (struct kw_repl_effect){
		.kind = kinds[value->kind],
		.bytes = value->bytes,
		.number = value->number,
	};
}

/* The string of a key that has one. False: it has none, or it is too long. */
static bool text_of(
	struct kw_values *values, const struct kw_latest_value *value, struct kw_slice *text)
{
	struct kw_error error;

	*text = value->bytes;
	if (value->form == KW_LATEST_TEXT)
		return true;
	kw_buffer_clear(&values->before);
	if (kw_payload_text(value->bytes, KW_VALUES_LARGEST, &values->before, &error))
		return false;
	*text = kw_slice(kw_buffer_bytes(&values->before), kw_buffer_length(&values->before));
	return true;
}

/* The string after INCRBY, APPEND or SETRANGE; exists: there is one. False: it is not known. */
static bool amend(struct kw_values *values, const struct kw_feed_value *value,
	const struct known *known, bool *exists)
{
	const struct kw_repl_effect effect = effect_of(value);
	bool had = known->knowledge == HAS;
	struct kw_slice before;
	struct kw_error error;

	/* An integer is no longer than the command, and a long string before INCRBY is refused. */
	if (value->kind != KW_FEED_ADD && !may_derive(values))
		return false;
	if (had && !text_of(values, &known->value, &before))
		return false;
	if (kw_repl_amend(&effect, had ? &before : NULL, KW_VALUES_LARGEST, &values->after, exists,
		    &error))
		return false;
	kw_bucket_spend(&values->derived, kw_buffer_length(&values->after));
	return true;
}

static bool add_amended(
	struct kw_values *values, const struct kw_feed_value *value, enum kw_values_exact exact)
{
	const struct known known =
		look_up(values, value->database, value->name, told_at(value), exact);
	bool exists;

	if (known.knowledge == UNKNOWN || !can_encode(values, 0) ||
		!amend(values, value, &known, &exists))
		return false;
	if (exists)
		set(values, value, KW_LATEST_TEXT,
			kw_slice(kw_buffer_bytes(&values->after), kw_buffer_length(&values->after)),
			known.value.expires_ms);
	return true;
}

/*
 * … and no change of its key waits in the batch, upon which a later one would build: then it is
 * followed there, and encode() looks at the age of the last.
 */
static bool is_passed_over(struct kw_values *values, const struct kw_feed_value *value)
{
	return age_of(values, value->database, value->name, told_at(value),
		       kw_feed_value_expires(value)) == KW_ORDER_OLD &&
	       !kw_latest_find(&values->latest, value->database, value->name);
}

bool kw_values_add(
	struct kw_values *values, const struct kw_feed_value *value, enum kw_values_exact exact)
{
	if (is_passed_over(values, value)) {
		values->taken++;
		return true;
	}
	if (!kw_latest_has_room(&values->latest))
		kw_store_settle(values->store);
	switch (value->kind) {
	case KW_FEED_STRING:
		return add_string(values, value);
	case KW_FEED_KEEPTTL:
		return add_keepttl(values, value, exact);
	case KW_FEED_PAYLOAD:
		return add_payload(values, value);
	case KW_FEED_GONE:
		return add_gone(values, value);
	case KW_FEED_EXPIRY:
		return add_expiry(values, value, exact);
	case KW_FEED_ADD:
	case KW_FEED_APPEND:
	case KW_FEED_WRITE:
		return add_amended(values, value, exact);
	case KW_FEED_COPY:
		return add_copy(values, value, exact);
	}
	return false;
}
