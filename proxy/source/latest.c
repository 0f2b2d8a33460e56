#include "source/latest.h"

#include "base/hash.h"
#include "rdb/payload_string.h"

#include <assert.h>

#define BYTES_AT_REST ((size_t)64 << 10)
#define PLAIN_MORE 12 /* bytes of a payload at least, besides a string that is not packed */

void kw_latest_init(struct kw_latest *latest, uint64_t seed)
{
	*latest = (struct kw_latest){.seed = seed};
}

void kw_latest_close(struct kw_latest *latest)
{
	kw_buffer_close(&latest->bytes);
	kw_buffer_close(&latest->encoded);
}

bool kw_latest_has_room(const struct kw_latest *latest)
{
	return latest->count < KW_LATEST_KEYS && kw_buffer_length(&latest->bytes) < KW_LATEST_BYTES;
}

static struct kw_slice part(const struct kw_buffer *buffer, size_t at, size_t length)
{
	return length > 0 ? kw_slice(kw_buffer_bytes(buffer) + at, length) : kw_slice("", 0);
}

static struct kw_slice name_of(
	const struct kw_latest *latest, const struct kw_latest_change *change)
{
	return part(&latest->bytes, change->name_at, change->name_length);
}

static struct kw_latest_change *find_hashed(
	struct kw_latest *latest, uint64_t hash, uint32_t database, struct kw_slice name)
{
	for (uint32_t i = 0; i < latest->count; i++) {
		struct kw_latest_change *change = &latest->changes[i];

		if (change->hash == hash && change->database == database &&
			kw_slice_equal(name_of(latest, change), name))
			return change;
	}
	return NULL;
}

static uint64_t hash_of(const struct kw_latest *latest, uint32_t database, struct kw_slice name)
{
	return kw_hash_key(latest->seed, database, name.data, name.length);
}

struct kw_latest_change *kw_latest_find(
	struct kw_latest *latest, uint32_t database, struct kw_slice name)
{
	if (latest->count == 0)
		return NULL;
	return find_hashed(latest, hash_of(latest, database, name), database, name);
}

struct kw_latest_value kw_latest_value(
	const struct kw_latest *latest, const struct kw_latest_change *change)
{
	return (struct kw_latest_value){
		.form = change->form,
		.bytes = part(&latest->bytes, change->value_at, change->value_length),
		.expires_ms = change->expires_ms,
		.told = change->told,
	};
}

/* Returns where it lies. */
static size_t append(struct kw_latest *latest, struct kw_slice text)
{
	size_t at = kw_buffer_length(&latest->bytes);

	if (text.length > 0)
		kw_buffer_append(&latest->bytes, text.data, text.length);
	return at;
}

void kw_latest_set(struct kw_latest *latest, uint32_t database, struct kw_slice name,
	const struct kw_latest_value *value)
{
	uint64_t hash = hash_of(latest, database, name);
	struct kw_latest_change *change = find_hashed(latest, hash, database, name);

	if (!change) {
		assert(latest->count < KW_LATEST_KEYS);
		change = &latest->changes[latest->count++];
		*change = (struct kw_latest_change){
			.database = database,
			.hash = hash,
			.name_at = append(latest, name),
			.name_length = name.length,
		};
	}
	change->form = value->form;
	change->count++;
	change->told = value->told;
	change->value_at = append(latest, value->bytes);
	change->value_length = value->bytes.length;
	change->expires_ms = value->expires_ms;
}

void kw_latest_expire(
	struct kw_latest_change *change, uint64_t expires_ms, struct kw_order_span told)
{
	assert(change->form != KW_LATEST_GONE);
	change->expires_ms = expires_ms;
	change->count++;
	change->told = told;
}

/* Is LZF worth a try on the next string? */
static bool tries_lzf(const struct kw_latest *latest)
{
	return latest->vain < KW_LATEST_VAIN || latest->vain % KW_LATEST_TRIED == 0;
}

static void note_lzf(struct kw_latest *latest, const struct kw_latest_change *change)
{
	if (change->value_length <= KW_PAYLOAD_LZF_OVER)
		return;
	if (change->encoded_length < change->value_length + PLAIN_MORE)
		latest->vain = 0;
	else
		latest->vain++;
}

void kw_latest_encode(
	struct kw_latest *latest, struct kw_latest_change *change, uint16_t rdb_version)
{
	if (change->form != KW_LATEST_TEXT)
		return;
	assert(rdb_version > 0);
	change->encoded_at = kw_buffer_length(&latest->encoded);
	kw_payload_of_string(kw_latest_value(latest, change).bytes, rdb_version, tries_lzf(latest),
		&latest->encoded);
	change->encoded_length = kw_buffer_length(&latest->encoded) - change->encoded_at;
	note_lzf(latest, change);
}

struct kw_table_change kw_latest_change(
	const struct kw_latest *latest, const struct kw_latest_change *change)
{
	struct kw_latest_value value = kw_latest_value(latest, change);

	if (change->form == KW_LATEST_TEXT)
		value.bytes = part(&latest->encoded, change->encoded_at, change->encoded_length);
	return (struct kw_table_change){
		.kind = change->form == KW_LATEST_GONE ? KW_RECORD_DELETE : KW_RECORD_PUT,
		.database = change->database,
		.key = name_of(latest, change),
		.value = value.bytes,
		.expires_ms = value.expires_ms,
	};
}

static void forget(struct kw_buffer *buffer)
{
	kw_buffer_clear(buffer);
	kw_buffer_trim(buffer, BYTES_AT_REST);
}

void kw_latest_clear(struct kw_latest *latest)
{
	latest->count = 0;
	forget(&latest->bytes);
	forget(&latest->encoded);
}
