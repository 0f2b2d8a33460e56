#include "table/lookup.h"

#include "base/buffer.h"
#include "base/hash.h"
#include "table/view.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_TRIES 16
#define NEIGHBOURHOOD 64      /* slots of one READ */
#define NEIGHBOURHOODS_MAX 64 /* READs of slots for one key: no run of entries is so long */
#define CHUNK_BYTES (UINT64_C(1) << 20) /* of a record, in one READ */
#define KEEP_BYTES ((size_t)1 << 20)    /* record memory kept between lookups */

enum phase {
	PHASE_IDLE,
	PHASE_ROOT, /* superblock and index root, in one READ */
	PHASE_DIRECTORY,
	PHASE_SLOTS,
	PHASE_RECORD,
	PHASE_CONFIRM, /* the root again, to see whether a miss counts */
};

/* What is known of the key, and what is wanted. */
enum aim {
	AIM_RECORD,   /* the record of this key */
	AIM_PRESENCE, /* only whether the key is there */
	AIM_SLOT,     /* the record of the key with this hash */
};

/* Superblock and index root adjoin (layout.h). */
struct front {
	struct kw_superblock superblock;
	struct kw_index_root root;
};

static_assert(sizeof(struct front) == KW_INDEX_ROOT_OFFSET + sizeof(struct kw_index_root), "");

struct kw_lookup {
	struct kw_lookup_options options;
	struct kw_lookup_io io;
	struct kw_lookup_stats stats;
	enum phase phase;
	bool reading;    /* a READ is out */
	uint64_t length; /* of it */
	bool stopped;    /* and its bytes are not wanted any more */

	/* what is asked */
	enum aim aim;
	uint32_t database; /* and key: not for AIM_SLOT */
	struct kw_buffer key;
	uint64_t hash;
	kw_lookup_fn fn;
	void *arg;
	uint32_t tries;

	/* what is known of the table */
	struct front front;
	struct kw_index_root root;
	struct kw_view view;
	bool known; /* root and directory are valid */

	/* where the search is */
	struct kw_index_slot slots[NEIGHBOURHOOD];
	uint64_t position; /* of slots[0] in the index */
	uint32_t count;    /* slots read */
	uint32_t next;     /* slot to look at next */
	uint32_t neighbourhoods;

	/* the record being read */
	uint8_t *record;
	uint64_t record_capacity;
	uint64_t record_offset; /* in the memory file */
	uint64_t wanted, got;
	uint64_t limit; /* bytes from the record to the end of its segment */
	struct kw_place place;
	bool length_known; /* from the slot; otherwise from the header */
};

struct kw_lookup *kw_lookup_new(
	const struct kw_lookup_options *options, const struct kw_lookup_io *io)
{
	struct kw_lookup *lookup = kw_zalloc(sizeof *lookup);

	lookup->options = *options;
	if (lookup->options.tries == 0)
		lookup->options.tries = DEFAULT_TRIES;
	lookup->io = *io;
	return lookup;
}

void kw_lookup_free(struct kw_lookup *lookup)
{
	if (!lookup)
		return;
	kw_buffer_close(&lookup->key);
	kw_view_close(&lookup->view);
	free(lookup->record);
	free(lookup);
}

bool kw_lookup_busy(const struct kw_lookup *lookup)
{
	return lookup->reading || lookup->phase != PHASE_IDLE;
}

const struct kw_lookup_stats *kw_lookup_stats(const struct kw_lookup *lookup)
{
	return &lookup->stats;
}

/* What is known might be of another connection; its owner must hear of the extents again. */
static void forget(struct kw_lookup *lookup)
{
	lookup->known = false;
	kw_view_forget(&lookup->view);
}

void kw_lookup_stop(struct kw_lookup *lookup)
{
	lookup->phase = PHASE_IDLE;
	lookup->stopped = lookup->reading;
	forget(lookup);
}

static void post(
	struct kw_lookup *lookup, enum phase phase, uint64_t offset, uint64_t length, void *buffer)
{
	lookup->phase = phase;
	lookup->reading = true;
	lookup->length = length;
	lookup->stats.reads++;
	lookup->stats.bytes += length;
	lookup->io.read(lookup->io.arg, lookup, offset, length, buffer);
}

static void finish(struct kw_lookup *lookup, const struct kw_lookup_result *result)
{
	lookup->phase = PHASE_IDLE;
	lookup->fn(lookup->arg, result);
	if (lookup->phase == PHASE_IDLE && lookup->record_capacity > KEEP_BYTES) {
		free(lookup->record);
		lookup->record = NULL;
		lookup->record_capacity = 0;
	}
}

static void fail(struct kw_lookup *lookup, const struct kw_error *error)
{
	struct kw_lookup_result result = {.outcome = KW_LOOKUP_FAILED, .error = *error};

	forget(lookup);
	finish(lookup, &result);
}

static void read_front(struct kw_lookup *lookup)
{
	lookup->known = false;
	post(lookup, PHASE_ROOT, KW_SUPERBLOCK_OFFSET, sizeof lookup->front, &lookup->front);
}

/* May it be tried once more? Ends the lookup otherwise. */
static bool try_again(struct kw_lookup *lookup, const char *why)
{
	struct kw_lookup_result result = {.outcome = KW_LOOKUP_UNCERTAIN};

	lookup->stats.retries++;
	if (++lookup->tries < lookup->options.tries)
		return true;
	kw_error_set(&result.error, KW_E_STATE, "lookup: %s, still so after %u tries", why,
		lookup->tries);
	lookup->known = false;
	finish(lookup, &result);
	return false;
}

/* Something does not fit: read root, directory and all again. */
static void start_over(struct kw_lookup *lookup, const char *why)
{
	if (try_again(lookup, why))
		read_front(lookup);
}

static uint64_t scale(uint64_t hash, uint64_t slots)
{
	return (uint64_t)((unsigned __int128)hash * slots >> 64);
}

static uint64_t index_end(const struct kw_index_root *root)
{
	return root->grown_slots + root->overflow;
}

static void confirm_miss(struct kw_lookup *lookup)
{
	post(lookup, PHASE_CONFIRM, KW_INDEX_ROOT_OFFSET, sizeof lookup->front.root,
		&lookup->front.root);
}

/* Read the slots from lookup->position on. */
static void read_slots(struct kw_lookup *lookup)
{
	const struct kw_index_root *root = &lookup->root;
	uint64_t end = index_end(root), offset, length;

	if (lookup->position >= end) {
		confirm_miss(lookup);
		return;
	}
	if (lookup->neighbourhoods++ == NEIGHBOURHOODS_MAX) {
		start_over(lookup, "the index has no free slot within reach");
		return;
	}
	lookup->count = NEIGHBOURHOOD;
	if (end - lookup->position < NEIGHBOURHOOD)
		lookup->count = (uint32_t)(end - lookup->position);
	lookup->next = 0;
	offset = root->offset + lookup->position * sizeof(struct kw_index_slot);
	length = lookup->count * sizeof(struct kw_index_slot);
	if (!kw_directory_covers(&lookup->view.directory, offset, length)) {
		start_over(lookup, "the index lies outside the extents");
		return;
	}
	post(lookup, PHASE_SLOTS, offset, length, lookup->slots);
}

/* The index keeps all ones to itself: it is the boundary above every hash. */
static uint64_t hash_of(const struct kw_lookup *lookup, uint32_t database, struct kw_slice key)
{
	uint64_t hash = kw_hash_key(lookup->root.hash_seed, database, key.data, key.length);

	return hash == UINT64_MAX ? UINT64_MAX - 1 : hash;
}

static struct kw_slice asked_key(const struct kw_lookup *lookup)
{
	return kw_slice(kw_buffer_bytes(&lookup->key), kw_buffer_length(&lookup->key));
}

static void search(struct kw_lookup *lookup)
{
	const struct kw_index_root *root = &lookup->root;

	if (lookup->aim != AIM_SLOT)
		lookup->hash = hash_of(lookup, lookup->database, asked_key(lookup));
	lookup->position = scale(
		lookup->hash, lookup->hash >= root->boundary ? root->grown_slots : root->slots);
	lookup->neighbourhoods = 0;
	read_slots(lookup);
}

static bool record_room(struct kw_lookup *lookup, uint64_t bytes)
{
	uint8_t *memory;

	if (bytes <= lookup->record_capacity)
		return true;
	memory = realloc(lookup->record, bytes);
	if (!memory)
		return false;
	lookup->record = memory;
	lookup->record_capacity = bytes;
	return true;
}

/* Read on until `wanted` bytes of the record are there. */
static void read_record(struct kw_lookup *lookup)
{
	uint64_t length = lookup->wanted - lookup->got;
	struct kw_error error;

	if (length > CHUNK_BYTES)
		length = CHUNK_BYTES;
	if (!record_room(lookup, lookup->wanted)) {
		kw_error_set(&error, KW_E_NOMEM, "lookup: no memory for a record of %llu bytes",
			(unsigned long long)lookup->wanted);
		fail(lookup, &error);
		return;
	}
	post(lookup, PHASE_RECORD, lookup->record_offset + lookup->got, length,
		lookup->record + lookup->got);
}

static void follow_slot(struct kw_lookup *lookup, uint64_t place)
{
	uint64_t offset = (place & ((UINT64_C(1) << KW_PLACE_OFFSET_BITS) - 1)) * KW_RECORD_ALIGN;
	uint64_t units = (place & ~KW_PLACE_MARK) >> KW_PLACE_OFFSET_BITS;
	const struct kw_directory_segment *segment =
		kw_directory_at(&lookup->view.directory, offset);

	if (!segment) {
		start_over(lookup, "the index names a segment that the directory does not");
		return;
	}
	lookup->record_offset = offset;
	lookup->limit = segment->capacity - (offset - segment->offset);
	lookup->place = (struct kw_place){
		lookup->view.directory.header->epoch, segment->id, offset - segment->offset};
	lookup->length_known = units != KW_PLACE_LENGTH_MAX;
	lookup->wanted = lookup->length_known ? units * 16 : KW_RECORD_HEADER;
	if (lookup->wanted > lookup->limit)
		lookup->wanted = lookup->limit; /* the slot rounds the length up */
	lookup->got = 0;
	if (lookup->wanted < KW_RECORD_HEADER)
		start_over(lookup, "the index names a place too small for a record");
	else
		read_record(lookup);
}

/* A tombstone of this key is so long. A longer record is a value, and need not be read. */
static bool is_surely_present(const struct kw_lookup *lookup, uint64_t place)
{
	uint64_t units = (place & ~KW_PLACE_MARK) >> KW_PLACE_OFFSET_BITS;
	uint64_t tombstone = kw_record_length(kw_buffer_length(&lookup->key), 0, 0);

	return lookup->aim == AIM_PRESENCE && units > (tombstone + 15) / 16;
}

static void look_at_slots(struct kw_lookup *lookup)
{
	struct kw_lookup_result present = {.outcome = KW_LOOKUP_FOUND};

	while (lookup->next < lookup->count) {
		const struct kw_index_slot *slot = &lookup->slots[lookup->next++];

		if (slot->place == 0) {
			confirm_miss(lookup);
			return;
		}
		if (slot->hash != lookup->hash)
			continue;
		if (is_surely_present(lookup, slot->place))
			finish(lookup, &present);
		else
			follow_slot(lookup, slot->place);
		return;
	}
	lookup->position += lookup->count;
	read_slots(lookup);
}

/*
 * A verified record of another key: that key has the same hash; or the slot's place was sampled
 * while it changed, which can name any record.
 */
static void pass_over(struct kw_lookup *lookup, const struct kw_record_view *record)
{
	if (lookup->aim != AIM_SLOT &&
		hash_of(lookup, record->database, record->key) == lookup->hash)
		look_at_slots(lookup);
	else
		start_over(lookup, "an index slot was read while it changed");
}

static bool is_asked_for(const struct kw_lookup *lookup, const struct kw_record_view *record)
{
	if (lookup->aim == AIM_SLOT)
		return hash_of(lookup, record->database, record->key) == lookup->hash;
	return record->database == lookup->database &&
	       kw_slice_equal(record->key, asked_key(lookup));
}

static void on_record(struct kw_lookup *lookup)
{
	struct kw_lookup_result result = {.outcome = KW_LOOKUP_FOUND};
	const struct kw_record *record = (const struct kw_record *)lookup->record;

	lookup->got += lookup->length;
	if (lookup->got < lookup->wanted) {
		read_record(lookup);
		return;
	}
	if (!kw_record_plausible(record, lookup->got, lookup->limit)) {
		start_over(lookup, "the index names a place where no record stands");
		return;
	}
	if (record->length > lookup->got) {
		if (lookup->length_known) {
			start_over(lookup, "a record is longer than the index says");
			return;
		}
		lookup->wanted = record->length;
		read_record(lookup);
		return;
	}
	if (kw_record_parse(record, &lookup->place, &result.record)) {
		start_over(lookup, "a record does not verify");
		return;
	}
	if (!is_asked_for(lookup, &result.record)) {
		pass_over(lookup, &result.record);
		return;
	}
	if (result.record.superseded_by != 0) {
		/* The slot's place was sampled while it changed: it names the previous record. */
		start_over(lookup, "the record has just been replaced");
		return;
	}
	if (result.record.kind != KW_RECORD_PUT)
		result = (struct kw_lookup_result){.outcome = KW_LOOKUP_ABSENT};
	else if (lookup->aim == AIM_PRESENCE)
		result.record = (struct kw_record_view){0};
	finish(lookup, &result);
}

/* The search met a free slot. Has the index stood still since its root was read? */
static void on_confirm(struct kw_lookup *lookup)
{
	struct kw_lookup_result result = {.outcome = KW_LOOKUP_ABSENT};
	bool same = memcmp(&lookup->front.root, &lookup->root, sizeof lookup->root) == 0;

	if (same && lookup->root.moves % 2 == 0)
		finish(lookup, &result);
	else
		start_over(lookup, "the index was being rearranged");
}

static void read_directory(struct kw_lookup *lookup)
{
	const struct kw_superblock *superblock = &lookup->front.superblock;

	post(lookup, PHASE_DIRECTORY, superblock->directory_offset, superblock->directory_bytes,
		kw_view_sink(&lookup->view, superblock));
}

/* Superblock, root and directory belong together: they hold for this lookup and the next ones. */
static void view_known(struct kw_lookup *lookup)
{
	lookup->known = true;
	search(lookup);
}

static void on_front(struct kw_lookup *lookup)
{
	const struct kw_superblock *superblock = &lookup->front.superblock;
	struct kw_error error;
	int code = kw_superblock_check(superblock, &error);

	if (code == KW_E_CORRUPT) {
		start_over(lookup, "the superblock does not verify");
		return;
	}
	if (code) {
		fail(lookup, &error);
		return;
	}
	if (kw_index_root_check(&lookup->front.root, NULL)) {
		start_over(lookup, "the index root does not verify");
		return;
	}
	lookup->root = lookup->front.root;
	code = kw_directory_match(&lookup->view.directory, superblock, NULL);
	if (code == KW_OK)
		view_known(lookup);
	else if (code == KW_E_GONE)
		read_directory(lookup);
	else
		start_over(lookup, "the directory does not verify");
}

static void on_directory(struct kw_lookup *lookup)
{
	const struct kw_directory *directory = &lookup->view.directory;

	if (kw_view_take(&lookup->view, &lookup->front.superblock, NULL)) {
		start_over(lookup, "the directory does not verify");
		return;
	}
	lookup->io.extents(lookup->io.arg, directory->extents, (int)directory->header->extents);
	view_known(lookup);
}

static void begin(struct kw_lookup *lookup, enum aim aim, kw_lookup_fn fn, void *arg)
{
	assert(!kw_lookup_busy(lookup));
	lookup->aim = aim;
	lookup->fn = fn;
	lookup->arg = arg;
	lookup->tries = 0;
	lookup->stats.lookups++;
}

static void begin_key(struct kw_lookup *lookup, uint32_t database, struct kw_slice key)
{
	lookup->database = database;
	kw_buffer_clear(&lookup->key);
	kw_buffer_reserve(&lookup->key, key.length + 1); /* never NULL, for the empty key too */
	kw_buffer_append(&lookup->key, key.data, key.length);
	if (lookup->known)
		search(lookup);
	else
		read_front(lookup);
}

void kw_lookup_begin(struct kw_lookup *lookup, uint32_t database, struct kw_slice key,
	kw_lookup_fn fn, void *arg)
{
	begin(lookup, AIM_RECORD, fn, arg);
	begin_key(lookup, database, key);
}

void kw_lookup_begin_presence(struct kw_lookup *lookup, uint32_t database, struct kw_slice key,
	kw_lookup_fn fn, void *arg)
{
	begin(lookup, AIM_PRESENCE, fn, arg);
	begin_key(lookup, database, key);
}

void kw_lookup_begin_slot(
	struct kw_lookup *lookup, const struct kw_index_slot *slot, kw_lookup_fn fn, void *arg)
{
	begin(lookup, AIM_SLOT, fn, arg);
	lookup->hash = slot->hash;
	if (lookup->known)
		follow_slot(lookup, slot->place);
	else
		read_front(lookup);
}

void kw_lookup_complete(struct kw_lookup *lookup, const struct kw_error *error)
{
	assert(lookup->reading);
	lookup->reading = false;
	if (lookup->stopped) {
		lookup->stopped = false;
		return;
	}
	if (error) {
		fail(lookup, error);
		return;
	}
	switch (lookup->phase) {
	case PHASE_ROOT:
		on_front(lookup);
		break;
	case PHASE_DIRECTORY:
		on_directory(lookup);
		break;
	case PHASE_SLOTS:
		look_at_slots(lookup);
		break;
	case PHASE_RECORD:
		on_record(lookup);
		break;
	case PHASE_CONFIRM:
		on_confirm(lookup);
		break;
	case PHASE_IDLE:
		break;
	}
}
