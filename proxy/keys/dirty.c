#include "keys/dirty.h"

#include "base/buffer.h"

#include <assert.h>
#include <stdlib.h>

#define FEWEST_HEAP 64

#define RECENT 4096 /* a power of two */

#define BLOCK 16 /* keys of a batch that are loaded at a time: about what a core can have open */

struct list {
	struct kw_dirty_entry *first, *last;
	uint64_t count;
};

/* A key that waits. named: since another one asked for its place. */
struct recent {
	uint64_t hash;
	struct kw_dirty_entry *entry; /* NULL: a free place */
	bool named;
};

struct kw_dirty {
	struct kw_key_table keys;
	struct list lists[KW_DIRTY_STATES]; /* of the delayed only the count */
	struct kw_dirty_entry **heap;       /* the delayed, the first due at the top */
	uint32_t heap_capacity;
	uint64_t sequence;
	uint64_t scanned, released; /* keys with the flag SCAN, with ROOM */
	uint64_t mark;              /* sequence of the mark */
	uint64_t owing;             /* keys with an unanswered add at or before it */
	struct watch {
		struct kw_dirty_entry *entry; /* NULL: none */
		uint64_t since;               /* sequence when that began */
		enum kw_dirty_sight ended;    /* entry is NULL: how the last watch ended */
	} watches[KW_DIRTY_WATCHES];
	struct recent recent[RECENT];
};

struct kw_dirty *kw_dirty_new(uint64_t seed)
{
	struct kw_dirty *dirty = kw_zalloc(sizeof *dirty);

	kw_key_table_init(&dirty->keys, sizeof(struct kw_dirty_entry), seed);
	return dirty;
}

void kw_dirty_free(struct kw_dirty *dirty)
{
	if (!dirty)
		return;
	kw_key_table_close(&dirty->keys);
	free(dirty->heap);
	free(dirty);
}

static void list_append(struct list *list, struct kw_dirty_entry *entry)
{
	entry->next = NULL;
	entry->prev = list->last;
	if (list->last)
		list->last->next = entry;
	else
		list->first = entry;
	list->last = entry;
}

static void list_remove(struct list *list, struct kw_dirty_entry *entry)
{
	if (entry->prev)
		entry->prev->next = entry->next;
	else
		list->first = entry->next;
	if (entry->next)
		entry->next->prev = entry->prev;
	else
		list->last = entry->prev;
}

static void heap_put(struct kw_dirty *dirty, uint32_t place, struct kw_dirty_entry *entry)
{
	dirty->heap[place] = entry;
	entry->place = place;
}

static void heap_up(struct kw_dirty *dirty, uint32_t place, struct kw_dirty_entry *entry)
{
	while (place > 0) {
		uint32_t parent = (place - 1) / 2;

		if (dirty->heap[parent]->until_us <= entry->until_us)
			break;
		heap_put(dirty, place, dirty->heap[parent]);
		place = parent;
	}
	heap_put(dirty, place, entry);
}

static void heap_add(struct kw_dirty *dirty, struct kw_dirty_entry *entry)
{
	uint32_t count = (uint32_t)dirty->lists[KW_DIRTY_DELAYED].count;

	if (count == dirty->heap_capacity) {
		dirty->heap_capacity = count ? 2 * count : FEWEST_HEAP;
		dirty->heap = kw_realloc(dirty->heap, dirty->heap_capacity * sizeof *dirty->heap);
	}
	heap_up(dirty, count, entry);
}

/* Take the top out of a heap of `count`. */
static void heap_pop(struct kw_dirty *dirty, uint32_t count)
{
	struct kw_dirty_entry *last = dirty->heap[count - 1];
	uint32_t place = 0, child;

	for (count--; (child = 2 * place + 1) < count; place = child) {
		if (child + 1 < count &&
			dirty->heap[child + 1]->until_us < dirty->heap[child]->until_us)
			child++;
		if (last->until_us <= dirty->heap[child]->until_us)
			break;
		heap_put(dirty, place, dirty->heap[child]);
	}
	if (count > 0)
		heap_put(dirty, place, last);
	if (count == 0) {
		free(dirty->heap);
		dirty->heap = NULL;
		dirty->heap_capacity = 0;
	}
}

/* State is membership of a list, and this is the only place that changes it. */
static void enter(struct kw_dirty *dirty, struct kw_dirty_entry *entry, enum kw_dirty_state state)
{
	entry->state = (uint8_t)state;
	if (state == KW_DIRTY_DELAYED)
		heap_add(dirty, entry);
	else
		list_append(&dirty->lists[state], entry);
	dirty->lists[state].count++;
}

static struct recent *recent_place(struct kw_dirty *dirty, uint64_t hash)
{
	return &dirty->recent[(hash >> 32) & (RECENT - 1)];
}

/* The entry waits and was named. A key that is named again and again keeps its place. */
static void remember(struct kw_dirty *dirty, struct kw_dirty_entry *entry)
{
	struct recent *place = recent_place(dirty, entry->key.hash);

	if (place->entry && place->entry != entry && place->named)
		place->named = false;
	else
		*place = (struct recent){entry->key.hash, entry, false};
}

/* The entry no longer waits: an event that comes now must not be absorbed. */
static void forget(struct kw_dirty *dirty, const struct kw_dirty_entry *entry)
{
	struct recent *place = recent_place(dirty, entry->key.hash);

	if (place->entry == entry)
		*place = (struct recent){0};
}

static void leave(struct kw_dirty *dirty, struct kw_dirty_entry *entry)
{
	struct list *list = &dirty->lists[entry->state];

	assert(list->count > 0);
	if (entry->state == KW_DIRTY_WAITING)
		forget(dirty, entry);
	if (entry->state == KW_DIRTY_DELAYED) {
		assert(entry->place == 0); /* only the first due ever leaves */
		heap_pop(dirty, (uint32_t)list->count);
	} else {
		list_remove(list, entry);
	}
	list->count--;
}

static void set_flags(struct kw_dirty *dirty, struct kw_dirty_entry *entry, unsigned flags)
{
	dirty->scanned += (flags & KW_DIRTY_SCAN) != 0;
	dirty->scanned -= (entry->flags & KW_DIRTY_SCAN) != 0;
	dirty->released += (flags & KW_DIRTY_ROOM) != 0;
	dirty->released -= (entry->flags & KW_DIRTY_ROOM) != 0;
	entry->flags = (uint8_t)flags;
}

/* What the key owed up to now is answered, or not owed any more; it owes since `since` instead. */
static void settle(struct kw_dirty *dirty, struct kw_dirty_entry *entry, uint64_t since)
{
	if (entry->since <= dirty->mark && since > dirty->mark) {
		assert(dirty->owing > 0);
		dirty->owing--;
	}
	entry->since = since;
}

static bool absorbs(struct kw_dirty *dirty, const struct kw_dirty_key *key, uint64_t hash)
{
	struct recent *place = recent_place(dirty, hash);
	const struct kw_dirty_entry *entry = place->entry;

	if (!entry || place->hash != hash || (key->flags & ~(unsigned)entry->flags) ||
		(entry->flags & KW_DIRTY_STALE) || entry->key.database != key->database ||
		!kw_slice_equal(kw_dirty_name(dirty, entry), key->name))
		return false;
	place->named = true;
	return true;
}

bool kw_dirty_absorbs(struct kw_dirty *dirty, const struct kw_dirty_key *key)
{
	return absorbs(dirty, key, kw_key_table_hash(&dirty->keys, key->database, key->name));
}

static void add_hashed(struct kw_dirty *dirty, uint64_t hash, uint32_t database,
	struct kw_slice key, unsigned flags)
{
	struct kw_dirty_entry *entry =
		(struct kw_dirty_entry *)kw_key_table_find(&dirty->keys, hash, database, key);

	dirty->sequence++;
	if (!entry) {
		entry = (struct kw_dirty_entry *)kw_key_table_add(
			&dirty->keys, hash, database, key);
		entry->since = dirty->sequence;
		set_flags(dirty, entry, flags);
		enter(dirty, entry, KW_DIRTY_WAITING);
		remember(dirty, entry);
		return;
	}
	if (entry->state == KW_DIRTY_FLYING) {
		if (!entry->again)
			entry->again = dirty->sequence;
		entry->again_flags |= (uint8_t)flags;
		return;
	}
	set_flags(dirty, entry, (entry->flags | flags) & ~KW_DIRTY_STALE);
	if (entry->state == KW_DIRTY_PARKED) {
		/* It might be gone by now, or smaller; until that is known it waits for room. */
		set_flags(dirty, entry, entry->flags | KW_DIRTY_ROOM);
		leave(dirty, entry);
		enter(dirty, entry, KW_DIRTY_WAITING);
	}
	if (entry->state == KW_DIRTY_WAITING)
		remember(dirty, entry);
}

void kw_dirty_add(struct kw_dirty *dirty, uint32_t database, struct kw_slice key, unsigned flags)
{
	add_hashed(dirty, kw_key_table_hash(&dirty->keys, database, key), database, key, flags);
}

/* A key of a batch that is not absorbed. */
struct pending {
	uint64_t hash;
	const struct kw_dirty_key *key;
};

/* Hash the keys, leave out those that wait already, and begin to load the buckets of the others. */
static size_t begin_block(struct kw_dirty *dirty, const struct kw_dirty_key *keys, size_t count,
	struct pending *pending)
{
	size_t kept = 0;

	for (const struct kw_dirty_key *key = keys; key < keys + count; key++) {
		uint64_t hash = kw_key_table_hash(&dirty->keys, key->database, key->name);

		if (absorbs(dirty, key, hash))
			continue;
		kw_key_table_load(&dirty->keys, hash);
		pending[kept++] = (struct pending){hash, key};
	}
	return kept;
}

void kw_dirty_add_all(struct kw_dirty *dirty, const struct kw_dirty_key *keys, size_t count)
{
	struct pending pending[BLOCK];

	while (count > 0) {
		size_t block = count < BLOCK ? count : BLOCK;
		size_t kept = begin_block(dirty, keys, block, pending);

		for (size_t i = 0; i < kept; i++)
			kw_key_table_load_first(&dirty->keys, pending[i].hash);
		for (size_t i = 0; i < kept; i++)
			add_hashed(dirty, pending[i].hash, pending[i].key->database,
				pending[i].key->name, pending[i].key->flags);
		keys += block;
		count -= block;
	}
}

static void make_stale(void *arg, struct kw_key *key)
{
	const struct kw_databases *databases = arg; /* NULL: all */
	struct kw_dirty_entry *entry = (struct kw_dirty_entry *)key;

	if (databases && !kw_databases_has(databases, key->database))
		return;
	entry->flags &= (uint8_t) ~(KW_DIRTY_EVENT | KW_DIRTY_COUNTED);
	entry->flags |= KW_DIRTY_STALE;
}

void kw_dirty_stale(struct kw_dirty *dirty, const struct kw_databases *databases)
{
	kw_key_table_each(&dirty->keys, make_stale, (void *)databases);
}

struct kw_dirty_entry *kw_dirty_take(struct kw_dirty *dirty, uint64_t now_us)
{
	struct kw_dirty_entry *entry;

	if (kw_dirty_due_us(dirty) <= now_us)
		entry = dirty->heap[0];
	else
		entry = dirty->lists[KW_DIRTY_WAITING].first;
	if (!entry)
		return NULL;
	assert(entry->state == KW_DIRTY_WAITING || entry->state == KW_DIRTY_DELAYED);
	leave(dirty, entry);
	enter(dirty, entry, KW_DIRTY_FLYING);
	/* The next to be taken, very likely. */
	__builtin_prefetch(dirty->lists[KW_DIRTY_WAITING].first, 1);
	return entry;
}

/* Fold the adds of the flight into the entry. */
static void fold(struct kw_dirty *dirty, struct kw_dirty_entry *entry)
{
	unsigned flags = entry->flags | entry->again_flags;

	set_flags(dirty, entry, entry->again ? flags & ~KW_DIRTY_STALE : flags);
	entry->again = 0;
	entry->again_flags = 0;
	entry->overtaken = false;
}

/* Answered, yet it got dirty meanwhile: what it owes begins with the first add of the flight. */
static void begin_again(struct kw_dirty *dirty, struct kw_dirty_entry *entry)
{
	settle(dirty, entry, entry->again);
	set_flags(dirty, entry, 0);
	fold(dirty, entry);
	leave(dirty, entry);
	enter(dirty, entry, KW_DIRTY_WAITING);
}

/* Can the answer to this flight be older than what is watched? */
static bool is_too_old(const struct watch *watch)
{
	return watch->entry->again > 0 && watch->entry->again <= watch->since;
}

static void end_watch(struct watch *watch, enum kw_dirty_sight how)
{
	if (watch->entry)
		watch->entry->watched = false;
	watch->entry = NULL;
	watch->ended = how;
}

static struct watch *watch_of(struct kw_dirty *dirty, const struct kw_dirty_entry *entry)
{
	uint32_t number = 0;

	while (dirty->watches[number].entry != entry) {
		number++;
		assert(number < KW_DIRTY_WATCHES);
	}
	return &dirty->watches[number];
}

bool kw_dirty_watch(struct kw_dirty *dirty, uint32_t number, uint32_t database, struct kw_slice key)
{
	uint64_t hash = kw_key_table_hash(&dirty->keys, database, key);
	struct kw_dirty_entry *entry =
		(struct kw_dirty_entry *)kw_key_table_find(&dirty->keys, hash, database, key);
	struct watch *watch = &dirty->watches[number];

	assert(number < KW_DIRTY_WATCHES);
	end_watch(watch, KW_DIRTY_UNSEEN);
	if (!entry || entry->watched)
		return false;
	entry->watched = true;
	*watch = (struct watch){.entry = entry, .since = dirty->sequence};
	return true;
}

enum kw_dirty_sight kw_dirty_watched(const struct kw_dirty *dirty, uint32_t number)
{
	const struct watch *watch = &dirty->watches[number];

	assert(number < KW_DIRTY_WATCHES);
	if (!watch->entry)
		return watch->ended;
	if (watch->entry->state == KW_DIRTY_FLYING && !is_too_old(watch))
		return KW_DIRTY_FLIES;
	return KW_DIRTY_WAITS;
}

static void watched_answered(struct kw_dirty *dirty, const struct kw_dirty_entry *entry)
{
	struct watch *watch = watch_of(dirty, entry);

	if (!is_too_old(watch))
		end_watch(watch, KW_DIRTY_ANSWERED);
}

void kw_dirty_done(struct kw_dirty *dirty, struct kw_dirty_entry *entry)
{
	assert(entry->state == KW_DIRTY_FLYING);
	if (entry->watched)
		watched_answered(dirty, entry);
	if (entry->again) {
		begin_again(dirty, entry);
		return;
	}
	settle(dirty, entry, UINT64_MAX);
	set_flags(dirty, entry, 0);
	leave(dirty, entry);
	kw_key_table_remove(&dirty->keys, &entry->key);
}

static struct kw_dirty_entry *find(
	const struct kw_dirty *dirty, uint32_t database, struct kw_slice key)
{
	if (dirty->keys.count == 0)
		return NULL;
	return (struct kw_dirty_entry *)kw_key_table_find(
		&dirty->keys, kw_key_table_hash(&dirty->keys, database, key), database, key);
}

static bool owes(const struct kw_dirty_entry *entry)
{
	return !(entry->state == KW_DIRTY_FLYING && entry->overtaken && !entry->again);
}

bool kw_dirty_owes(const struct kw_dirty *dirty, uint32_t database, struct kw_slice key)
{
	const struct kw_dirty_entry *entry = find(dirty, database, key);

	return entry && owes(entry);
}

struct owing {
	const struct kw_databases *databases;
	bool any;
};

static void look_at_one(void *arg, struct kw_key *key)
{
	struct owing *owing = arg;

	owing->any |= kw_databases_has(owing->databases, key->database) &&
		      owes((const struct kw_dirty_entry *)key);
}

bool kw_dirty_owes_any(struct kw_dirty *dirty, const struct kw_databases *databases)
{
	struct owing owing = {databases, false};

	kw_key_table_each(&dirty->keys, look_at_one, &owing);
	return owing.any;
}

static bool may_overtake(const struct kw_dirty_entry *entry)
{
	return entry->state == KW_DIRTY_WAITING || entry->state == KW_DIRTY_FLYING;
}

bool kw_dirty_may_overtake(const struct kw_dirty *dirty, uint32_t database, struct kw_slice key)
{
	const struct kw_dirty_entry *entry = find(dirty, database, key);

	return !entry || may_overtake(entry);
}

static void overtake(struct kw_dirty *dirty, struct kw_dirty_entry *entry)
{
	if (entry->state == KW_DIRTY_FLYING) {
		entry->again = 0;
		entry->again_flags = 0;
		entry->overtaken = true;
		return;
	}
	if (entry->watched)
		end_watch(watch_of(dirty, entry), KW_DIRTY_ANSWERED);
	settle(dirty, entry, UINT64_MAX);
	set_flags(dirty, entry, 0);
	leave(dirty, entry);
	kw_key_table_remove(&dirty->keys, &entry->key);
}

void kw_dirty_overtake(struct kw_dirty *dirty, uint32_t database, struct kw_slice key)
{
	struct kw_dirty_entry *entry = find(dirty, database, key);

	if (!entry)
		return;
	assert(may_overtake(entry));
	overtake(dirty, entry);
}

struct overtaking {
	struct kw_dirty *dirty;
	const struct kw_databases *databases;
};

static void overtake_one(void *arg, struct kw_key *key)
{
	const struct overtaking *overtaking = arg;
	struct kw_dirty_entry *entry = (struct kw_dirty_entry *)key;

	if (!kw_databases_has(overtaking->databases, key->database) || !may_overtake(entry))
		return;
	if ((entry->flags & (KW_DIRTY_SCAN | KW_DIRTY_EVENT)) != KW_DIRTY_SCAN) {
		overtake(overtaking->dirty, entry);
	} else if (entry->state == KW_DIRTY_FLYING) {
		entry->overtaken = true;
		if (!entry->again)
			entry->again = ++overtaking->dirty->sequence;
		entry->again_flags |= entry->flags;
	}
}

void kw_dirty_overtake_databases(struct kw_dirty *dirty, const struct kw_databases *databases)
{
	struct overtaking overtaking = {dirty, databases};

	kw_key_table_each(&dirty->keys, overtake_one, &overtaking);
}

void kw_dirty_done_all(struct kw_dirty *dirty, struct kw_dirty_entry *const *entries, size_t count)
{
	for (size_t i = 0; i < count; i++)
		kw_key_table_load(&dirty->keys, entries[i]->key.hash);
	for (size_t i = 0; i < count; i++)
		kw_dirty_done(dirty, entries[i]);
}

void kw_dirty_retry(struct kw_dirty *dirty, struct kw_dirty_entry *entry, unsigned flags)
{
	assert(entry->state == KW_DIRTY_FLYING);
	entry->again_flags |= (uint8_t)flags;
	fold(dirty, entry);
	leave(dirty, entry);
	enter(dirty, entry, KW_DIRTY_WAITING);
}

void kw_dirty_delay(struct kw_dirty *dirty, struct kw_dirty_entry *entry, uint64_t until_us)
{
	assert(entry->state == KW_DIRTY_FLYING);
	fold(dirty, entry);
	leave(dirty, entry);
	entry->until_us = until_us;
	enter(dirty, entry, KW_DIRTY_DELAYED);
}

void kw_dirty_park(struct kw_dirty *dirty, struct kw_dirty_entry *entry, uint64_t bytes)
{
	assert(entry->state == KW_DIRTY_FLYING);
	if (entry->watched)
		end_watch(watch_of(dirty, entry), KW_DIRTY_UNSEEN);
	if (entry->again) {
		/* Not stored, so it owes as before, its expiry too. */
		set_flags(dirty, entry, KW_DIRTY_ROOM | KW_DIRTY_TTL);
		fold(dirty, entry);
		leave(dirty, entry);
		enter(dirty, entry, KW_DIRTY_WAITING);
		return;
	}
	/* Its expiry must be read when there is room: it can have changed by then. */
	set_flags(dirty, entry, KW_DIRTY_TTL);
	leave(dirty, entry);
	entry->bytes = bytes;
	enter(dirty, entry, KW_DIRTY_PARKED);
}

uint32_t kw_dirty_unpark(
	struct kw_dirty *dirty, uint32_t most, bool (*room)(void *arg, uint64_t bytes), void *arg)
{
	uint32_t released = 0;

	if (most > dirty->lists[KW_DIRTY_PARKED].count)
		most = (uint32_t)dirty->lists[KW_DIRTY_PARKED].count;
	for (; most > 0; most--) {
		struct kw_dirty_entry *entry = dirty->lists[KW_DIRTY_PARKED].first;
		bool fits = room(arg, entry->bytes);

		leave(dirty, entry);
		enter(dirty, entry, fits ? KW_DIRTY_WAITING : KW_DIRTY_PARKED);
		if (fits)
			set_flags(dirty, entry, entry->flags | KW_DIRTY_ROOM);
		released += fits;
	}
	return released;
}

uint64_t kw_dirty_due_us(const struct kw_dirty *dirty)
{
	return dirty->lists[KW_DIRTY_DELAYED].count ? dirty->heap[0]->until_us : UINT64_MAX;
}

uint64_t kw_dirty_count(const struct kw_dirty *dirty, enum kw_dirty_state state)
{
	return dirty->lists[state].count;
}

uint64_t kw_dirty_total(const struct kw_dirty *dirty)
{
	return dirty->keys.count;
}

uint64_t kw_dirty_scanned(const struct kw_dirty *dirty)
{
	return dirty->scanned;
}

uint64_t kw_dirty_released(const struct kw_dirty *dirty)
{
	return dirty->released;
}

void kw_dirty_mark(struct kw_dirty *dirty)
{
	dirty->mark = dirty->sequence;
	dirty->owing = dirty->keys.count;
}

bool kw_dirty_passed(const struct kw_dirty *dirty)
{
	return dirty->owing == 0;
}

struct kw_slice kw_dirty_name(const struct kw_dirty *dirty, const struct kw_dirty_entry *entry)
{
	return kw_key_table_name(&dirty->keys, &entry->key);
}

size_t kw_dirty_bytes(const struct kw_dirty *dirty)
{
	return kw_key_table_bytes(&dirty->keys) + dirty->heap_capacity * sizeof *dirty->heap +
	       sizeof dirty->recent;
}
