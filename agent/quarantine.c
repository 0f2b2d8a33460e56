#include "quarantine.h"

#include "base/buffer.h"
#include "keyset.h"

#include <stdio.h>
#include <stdlib.h>

static struct kw_quarantined *find(struct kw_quarantine *quarantine, struct kw_hash128 hash)
{
	for (uint32_t i = 0; i < quarantine->listed; i++)
		if (quarantine->keys[i].hash.low == hash.low &&
			quarantine->keys[i].hash.high == hash.high)
			return &quarantine->keys[i];
	return NULL;
}

static void remove_entry(struct kw_quarantine *quarantine, struct kw_quarantined *entry)
{
	*entry = quarantine->keys[--quarantine->listed];
}

void kw_quarantine_close(struct kw_quarantine *quarantine)
{
	free(quarantine->keys);
	*quarantine = (struct kw_quarantine){0};
}

void kw_quarantine_enter(struct kw_quarantine *quarantine, uint32_t database, struct kw_slice key,
	struct kw_slice reason)
{
	struct kw_hash128 hash = kw_keyset_hash(database, key);
	struct kw_quarantined *entry = find(quarantine, hash);
	size_t shown = key.length < KW_QUARANTINE_KEY ? key.length : KW_QUARANTINE_KEY;

	quarantine->ever++;
	if (!entry && quarantine->listed == KW_QUARANTINE_NAMES) {
		quarantine->unlisted++;
		return;
	}
	if (!quarantine->keys)
		quarantine->keys = kw_alloc(KW_QUARANTINE_NAMES * sizeof *quarantine->keys);
	if (!entry)
		entry = &quarantine->keys[quarantine->listed++];
	*entry = (struct kw_quarantined){
		.hash = hash,
		.place = quarantine->entering,
		.database = database,
		.key_length = (uint32_t)key.length,
	};
	if (shown > 0)
		memcpy(entry->key, key.data, shown);
	snprintf(entry->reason, sizeof entry->reason, "%.*s", (int)reason.length,
		reason.length ? (const char *)reason.data : "");
	for (char *c = entry->reason; *c; c++)
		if (*c < 0x20 || *c > 0x7e)
			*c = '?';
}

void kw_quarantine_leave(struct kw_quarantine *quarantine, uint32_t database, struct kw_slice key)
{
	struct kw_quarantined *entry;

	if (quarantine->listed == 0)
		return;
	entry = find(quarantine, kw_keyset_hash(database, key));
	if (entry && entry->place <= quarantine->leaving)
		remove_entry(quarantine, entry);
}

void kw_quarantine_leave_database(struct kw_quarantine *quarantine, uint32_t database)
{
	for (uint32_t i = quarantine->listed; i-- > 0;)
		if (quarantine->keys[i].database == database &&
			quarantine->keys[i].place <= quarantine->leaving)
			remove_entry(quarantine, &quarantine->keys[i]);
}

void kw_quarantine_clear(struct kw_quarantine *quarantine)
{
	quarantine->listed = 0;
	quarantine->unlisted = 0;
}
