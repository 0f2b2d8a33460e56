#include "table/lookup_internal.h"

#include "base/hash.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define NEIGHBOURHOODS_MAX 256 /* READs of slots for one key: no run of entries is so long */
#define CHUNK_BYTES (UINT64_C(1) << 20) /* of a record, in one READ */
#define KEEP_BYTES ((size_t)16 << 10)   /* record memory that a lookup keeps between two keys */

static bool holds(const void *owner, int state)
{
	const struct kw_lookup *lookup = owner;

	switch (state) {
	case KW_LOOKUP_FREE:
		return !lookup->fn;
	case KW_LOOKUP_DRAINING:
		return true;
	case KW_LOOKUP_RECORD:
	case KW_LOOKUP_GUESS:
		return lookup->fn && lookup->got < lookup->wanted &&
		       lookup->wanted <= lookup->record_capacity;
	default:
		return lookup->fn;
	}
}

#define OVER (KW_SM_TO(KW_LOOKUP_FREE) | KW_SM_TO(KW_LOOKUP_DRAINING))
#define SEARCH (KW_SM_TO(KW_LOOKUP_SLOTS) | KW_SM_TO(KW_LOOKUP_CONFIRM))
#define AGAIN (KW_SM_TO(KW_LOOKUP_WAITING) | KW_SM_TO(KW_LOOKUP_PARKED))
/* By a known view: a guess, the slot that a walk saw, or the index. */
#define FIRST (KW_SM_TO(KW_LOOKUP_GUESS) | KW_SM_TO(KW_LOOKUP_RECORD) | SEARCH)

static const struct kw_sm_state states[] = {
	[KW_LOOKUP_FREE] = {"free", AGAIN | FIRST, KW_SM_INITIAL},
	[KW_LOOKUP_WAITING] = {"waiting", FIRST | AGAIN | OVER},
	[KW_LOOKUP_GUESS] = {"guess", SEARCH | AGAIN | OVER},
	[KW_LOOKUP_SLOTS] = {"slots", SEARCH | KW_SM_TO(KW_LOOKUP_RECORD) | AGAIN | OVER},
	[KW_LOOKUP_RECORD] = {"record", SEARCH | AGAIN | OVER},
	[KW_LOOKUP_CONFIRM] = {"confirm", SEARCH | AGAIN | OVER},
	[KW_LOOKUP_PARKED] = {"parked", FIRST | KW_SM_TO(KW_LOOKUP_WAITING) | OVER},
	[KW_LOOKUP_DRAINING] = {"draining", KW_SM_TO(KW_LOOKUP_FREE)},
};

const struct kw_sm_conf kw_lookup_machine = {"lookup", states, KW_LOOKUP_DRAINING + 1, holds};

static void ask(struct kw_lookup *lookup, uint64_t offset, uint64_t length, void *buffer)
{
	lookup->read.offset = offset;
	lookup->read.length = length;
	lookup->read.buffer = buffer;
	kw_lookups_ask(lookup->lookups, &lookup->read);
}

static struct kw_slice key_of(const struct kw_lookup *lookup)
{
	return kw_slice(kw_buffer_bytes(&lookup->key), kw_buffer_length(&lookup->key));
}

/* ---- ends ---- */

void kw_lookup_release(struct kw_lookup *lookup)
{
	assert(kw_lookup_state(lookup) == KW_LOOKUP_FREE && !lookup->read.out);
	if (lookup->record_capacity > KEEP_BYTES) {
		free(lookup->record);
		lookup->record = NULL;
		lookup->record_capacity = 0;
	}
	kw_lookup_list_push(&lookup->lookups->free, lookup);
}

void kw_lookup_end(struct kw_lookup *lookup, const struct kw_lookup_result *result)
{
	struct kw_lookups *lookups = lookup->lookups;
	kw_lookup_fn fn = lookup->fn;

	assert(fn && lookups->active > 0 && !lookup->read.out);
	lookup->fn = NULL;
	kw_sm_move(&lookup->sm, KW_LOOKUP_FREE, "");
	lookups->active--;
	/* fn can begin the next one, or stop all. The record stays until it is on the list. */
	fn(lookup->arg, result);
	kw_lookup_release(lookup);
}

void kw_lookup_fail(struct kw_lookup *lookup, const struct kw_error *error)
{
	struct kw_lookup_result result = {.outcome = KW_LOOKUP_FAILED, .error = *error};

	kw_lookup_end(lookup, &result);
}

bool kw_lookup_try_again(struct kw_lookup *lookup, const char *why)
{
	struct kw_lookup_result result = {.outcome = KW_LOOKUP_UNCERTAIN};

	lookup->lookups->stats.retries++;
	if (++lookup->tries < lookup->lookups->options.tries)
		return true;
	kw_error_set(&result.error, KW_E_STATE, "lookup: %s, still so after %u tries", why,
		lookup->tries);
	kw_lookup_end(lookup, &result);
	return false;
}

/* Something does not fit: search by a newer view. */
static void start_over(struct kw_lookup *lookup, const char *why)
{
	if (kw_lookup_try_again(lookup, why))
		kw_lookup_await_view(lookup);
}

/* The entry was sampled while it changed; the view is not in doubt. */
static void search_again(struct kw_lookup *lookup, const char *why)
{
	if (kw_lookup_try_again(lookup, why))
		kw_lookup_search(lookup);
}

/* It goes on at the next tick. */
static void park(struct kw_lookup *lookup)
{
	struct kw_lookups *lookups = lookup->lookups;

	lookups->stats.parked++;
	kw_sm_move(&lookup->sm, KW_LOOKUP_PARKED, "");
	kw_lookup_list_push(&lookups->parked, lookup);
}

/*
 * The index names what the known directory does not list, or lists as another segment: one that was
 * opened since. A first newer view can list it. After that, only the next publication will. The
 * place is followed then, and not asked for again: a key that is written all the time would stand
 * in a newer segment each time. If neither lists it, it was cleaned meanwhile. All of this is one
 * try.
 */
static void await_publication(struct kw_lookup *lookup, uint64_t word, const char *why)
{
	if (lookup->awaited == 0 && !kw_lookup_try_again(lookup, why))
		return;
	lookup->awaited++;
	lookup->first_place = lookup->awaited <= 2 ? word : 0;
	if (lookup->awaited == 2)
		park(lookup);
	else
		kw_lookup_await_view(lookup);
}

/* ---- the record ---- */

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
static void read_record(struct kw_lookup *lookup, enum kw_lookup_state state)
{
	uint64_t length = lookup->wanted - lookup->got;

	if (length > CHUNK_BYTES)
		length = CHUNK_BYTES;
	if (!record_room(lookup, lookup->wanted)) {
		/* Not an end: this can be within kw_lookups_begin. */
		if (kw_lookup_try_again(lookup, "there is no memory for a record"))
			park(lookup);
		return;
	}
	kw_sm_move(&lookup->sm, (int)state, "");
	ask(lookup, lookup->record_offset + lookup->got, length, lookup->record + lookup->got);
}

/* Is the value of the record to be read larger than the owner wants to read? */
static bool is_too_large(const struct kw_lookup *lookup)
{
	const uint64_t most = lookup->lookups->options.max_value_bytes;
	/* The slot rounds the length up. */
	uint64_t beside = KW_RECORD_HEADER + sizeof(uint64_t) + 15;

	return most > 0 && lookup->aim == KW_AIM_RECORD &&
	       lookup->wanted > most + beside + kw_buffer_length(&lookup->key);
}

static void end_too_large(struct kw_lookup *lookup)
{
	const struct kw_lookup_result large = {.outcome = KW_LOOKUP_TOO_LARGE};

	kw_lookup_end(lookup, &large);
}

/* As the index says; never within kw_lookups_begin. */
static void read_value(struct kw_lookup *lookup)
{
	if (is_too_large(lookup))
		end_too_large(lookup);
	else
		read_record(lookup, KW_LOOKUP_RECORD);
}

/* Where a word of the index, or of the cache, leads to. False: no listed segment holds it. */
static bool point_at(struct kw_lookup *lookup, uint64_t word)
{
	const struct kw_directory *directory = &lookup->lookups->view.directory;
	uint64_t offset = (word & ((UINT64_C(1) << KW_PLACE_OFFSET_BITS) - 1)) * KW_RECORD_ALIGN;
	uint64_t units = (word & ~KW_PLACE_MARK) >> KW_PLACE_OFFSET_BITS;
	const struct kw_directory_segment *segment;

	segment =
		directory->header ? kw_runs_find(&lookup->lookups->runs, directory, offset) : NULL;
	if (!segment)
		return false;
	lookup->word = word;
	lookup->record_offset = offset;
	lookup->limit = segment->capacity - (offset - segment->offset);
	lookup->place =
		(struct kw_place){directory->header->epoch, segment->id, offset - segment->offset};
	lookup->length_known = units != KW_PLACE_LENGTH_MAX;
	lookup->wanted = lookup->length_known ? units * 16 : KW_RECORD_HEADER;
	if (lookup->wanted > lookup->limit)
		lookup->wanted = lookup->limit; /* the slot rounds the length up */
	lookup->got = 0;
	return true;
}

static void search_index(struct kw_lookup *lookup);

static void follow_slot(struct kw_lookup *lookup, uint64_t word)
{
	if (!point_at(lookup, word))
		await_publication(
			lookup, word, "the index names a segment that the directory does not");
	else if (lookup->place.segment == lookup->doubtful)
		search_index(lookup); /* the view is newer, and says the same: it was cleaned */
	else if (lookup->wanted < KW_RECORD_HEADER)
		start_over(lookup, "the index names a place too small for a record");
	else
		read_value(lookup);
}

/* ---- the index ---- */

static uint64_t scale(uint64_t hash, uint64_t slots)
{
	return (uint64_t)((unsigned __int128)hash * slots >> 64);
}

static uint64_t index_end(const struct kw_index_root *root)
{
	return root->grown_slots + root->overflow;
}

/* The root alone will mostly do. After a first try in vain, the stripes come with it. */
static void confirm_miss(struct kw_lookup *lookup)
{
	bool stripes = lookup->tries > 0 && lookup->by.stripes > 0;

	kw_sm_move(&lookup->sm, KW_LOOKUP_CONFIRM, "");
	ask(lookup, KW_INDEX_ROOT_OFFSET,
		stripes ? sizeof lookup->confirm : sizeof(struct kw_index_root), lookup->confirm);
}

/* Read the slots from lookup->position on. */
static void read_slots(struct kw_lookup *lookup)
{
	const struct kw_lookups *lookups = lookup->lookups;
	uint64_t end = index_end(&lookup->by), offset, length;

	if (lookup->position >= end) {
		confirm_miss(lookup);
		return;
	}
	if (lookup->neighbourhoods++ == NEIGHBOURHOODS_MAX) {
		start_over(lookup, "the index has no free slot within reach");
		return;
	}
	lookup->count = lookups->options.neighbourhood;
	if (end - lookup->position < lookup->count)
		lookup->count = (uint32_t)(end - lookup->position);
	lookup->at = 0;
	offset = lookup->by.offset + lookup->position * sizeof(struct kw_index_slot);
	length = lookup->count * sizeof(struct kw_index_slot);
	if (!lookups->view.directory.header ||
		!kw_directory_covers(&lookups->view.directory, offset, length)) {
		start_over(lookup, "the index lies outside the extents");
		return;
	}
	kw_sm_move(&lookup->sm, KW_LOOKUP_SLOTS, "");
	ask(lookup, offset, length, lookup->slots);
}

/* The index keeps all ones to itself: it is the boundary above every hash. */
uint64_t kw_lookup_hash(const struct kw_lookups *lookups, uint32_t database, struct kw_slice key)
{
	uint64_t hash = kw_hash_key(lookups->root.hash_seed, database, key.data, key.length);

	return hash == UINT64_MAX ? UINT64_MAX - 1 : hash;
}

static uint64_t home(const struct kw_index_root *root, uint64_t hash)
{
	return scale(hash, hash >= root->boundary ? root->grown_slots : root->slots);
}

/* By the root lookup->by. */
static void search_index(struct kw_lookup *lookup)
{
	lookup->first_place = 0;
	lookup->awaited = 0;
	lookup->doubtful = 0;
	lookup->known_version = lookup->lookups->superblock.version;
	lookup->position = home(&lookup->by, lookup->hash);
	lookup->neighbourhoods = 0;
	read_slots(lookup);
}

static bool guess(struct kw_lookup *lookup)
{
	struct kw_lookups *lookups = lookup->lookups;
	const struct kw_places_entry *entry = kw_places_find(&lookups->places, lookup->hash);

	if (!entry)
		return false;
	lookups->stats.guesses++;
	lookup->least_version = entry->version;
	if (point_at(lookup, entry->place) && lookup->length_known &&
		lookup->wanted >= KW_RECORD_HEADER) {
		read_record(lookup, KW_LOOKUP_GUESS);
		return true;
	}
	lookups->stats.misses++;
	kw_places_drop(&lookups->places, lookup->hash);
	return false;
}

/* A known place comes first; if it is out of date, the index is searched. */
static bool follow_first(struct kw_lookup *lookup)
{
	uint64_t word = lookup->first_place;

	if (!word)
		return false;
	lookup->first_place = 0;
	follow_slot(lookup, word);
	return true;
}

void kw_lookup_search(struct kw_lookup *lookup)
{
	struct kw_lookups *lookups = lookup->lookups;

	if (!lookups->view.directory.header) { /* it was forgotten meanwhile */
		kw_lookup_await_view(lookup);
		return;
	}
	lookup->look = lookups->looks;
	lookup->by = lookups->root;
	lookup->striped = false;
	if (lookup->aim != KW_AIM_SLOT)
		lookup->hash = kw_lookup_hash(lookups, lookup->database, key_of(lookup));
	if (follow_first(lookup))
		return;
	if (lookup->tries > 0 || lookup->aim != KW_AIM_RECORD ||
		kw_sight(lookups) != KW_SIGHT_KNOWN || !guess(lookup))
		search_index(lookup);
}

/* A tombstone of this key is so long. A longer record is a value, and need not be read. */
static bool is_surely_present(const struct kw_lookup *lookup, uint64_t word)
{
	uint64_t units = (word & ~KW_PLACE_MARK) >> KW_PLACE_OFFSET_BITS;
	uint64_t tombstone = kw_record_length(kw_buffer_length(&lookup->key), 0, 0);

	return lookup->aim == KW_AIM_PRESENCE && units > (tombstone + 15) / 16;
}

static void look_at_slots(struct kw_lookup *lookup)
{
	const struct kw_lookup_result present = {.outcome = KW_LOOKUP_FOUND};

	while (lookup->at < lookup->count) {
		const struct kw_index_slot *slot = &lookup->slots[lookup->at++];

		if (slot->place == 0) {
			confirm_miss(lookup);
			return;
		}
		if (slot->hash != lookup->hash)
			continue;
		lookup->sampled = true;
		if (is_surely_present(lookup, slot->place))
			kw_lookup_end(lookup, &present);
		else
			follow_slot(lookup, slot->place);
		return;
	}
	lookup->position += lookup->count;
	read_slots(lookup);
}

/* ---- answers ---- */

static void found(struct kw_lookup *lookup, const struct kw_record_view *record)
{
	const struct kw_lookup_result absent = {.outcome = KW_LOOKUP_ABSENT};
	struct kw_lookup_result result = {.outcome = KW_LOOKUP_FOUND};
	struct kw_places *places = &lookup->lookups->places;

	if (record->kind == KW_RECORD_PUT && record->superseded_by == 0 && lookup->length_known)
		kw_places_put(places, &(struct kw_places_entry){lookup->hash,
					      lookup->word & ~KW_PLACE_MARK, record->version});
	else
		kw_places_drop(places, lookup->hash);
	if (lookup->aim != KW_AIM_PRESENCE)
		result.record = *record;
	kw_lookup_end(lookup, record->kind == KW_RECORD_PUT ? &result : &absent);
}

static bool is_asked_for(const struct kw_lookup *lookup, const struct kw_record_view *record)
{
	if (lookup->aim == KW_AIM_SLOT)
		return kw_lookup_hash(lookup->lookups, record->database, record->key) ==
		       lookup->hash;
	return record->database == lookup->database && kw_slice_equal(record->key, key_of(lookup));
}

/* By a newer view the same place can be in another segment. */
static void doubt_place(struct kw_lookup *lookup, const char *why)
{
	lookup->doubtful = lookup->place.segment;
	await_publication(lookup, lookup->word, why);
}

/* Is the whole record here? Otherwise more of it is read, or the lookup starts over. */
static bool is_whole(struct kw_lookup *lookup)
{
	const struct kw_record *record = (const struct kw_record *)lookup->record;

	if (lookup->got < lookup->wanted) {
		read_record(lookup, KW_LOOKUP_RECORD);
		return false;
	}
	if (!kw_record_plausible(record, lookup->got, lookup->limit)) {
		doubt_place(lookup, "the index names a place where no record stands");
		return false;
	}
	if (record->length <= lookup->got)
		return true;
	if (lookup->length_known) {
		doubt_place(lookup, "a record is longer than the index says");
		return false;
	}
	lookup->wanted = record->length;
	read_value(lookup);
	return false;
}

/*
 * The record is superseded. A key that is written all the time is found so each time: it was the
 * newest when the slot was read. But a place of which only half was sampled after a change can name
 * a record that was replaced long ago. So the record must be the newest as seen from a superblock
 * that was known when the slot was asked for: the last one that the owner has told, or one that was
 * read since the lookup began.
 */
static bool was_newest(const struct kw_lookup *lookup, const struct kw_record_view *record)
{
	const struct kw_lookups *lookups = lookup->lookups;

	return lookup->sampled && (lookups->told || lookup->tries > 0) &&
	       record->superseded_by > lookup->known_version;
}

static void on_record(struct kw_lookup *lookup)
{
	const struct kw_record *record = (const struct kw_record *)lookup->record;
	struct kw_record_view view;

	if (!is_whole(lookup))
		return;
	if (kw_record_parse(record, &lookup->place, &view)) {
		doubt_place(lookup, "a record does not verify");
		return;
	}
	if (!is_asked_for(lookup, &view)) {
		/*
		 * Another key with this hash; or a place sampled while it changed, which can name
		 * any record.
		 */
		if (lookup->aim != KW_AIM_SLOT &&
			kw_lookup_hash(lookup->lookups, view.database, view.key) == lookup->hash)
			look_at_slots(lookup);
		else
			search_again(lookup, "an index slot was read while it changed");
		return;
	}
	if (view.superseded_by == 0 || was_newest(lookup, &view))
		found(lookup, &view);
	else if (lookup->sampled)
		start_over(lookup, "the record has just been replaced");
	else
		search_again(lookup, "the record was replaced since the walk saw it");
}

/* Whatever is wrong with a guess, the index knows better. */
static void on_guess(struct kw_lookup *lookup)
{
	const struct kw_record *record = (const struct kw_record *)lookup->record;
	struct kw_lookups *lookups = lookup->lookups;
	struct kw_record_view view;

	if (lookup->got < lookup->wanted) {
		read_record(lookup, KW_LOOKUP_GUESS);
		return;
	}
	if (kw_record_plausible(record, lookup->got, lookup->limit) &&
		record->length <= lookup->got && !kw_record_parse(record, &lookup->place, &view) &&
		is_asked_for(lookup, &view) && view.superseded_by == 0 &&
		view.version >= lookup->least_version) {
		found(lookup, &view);
		return;
	}
	lookups->stats.misses++;
	kw_places_drop(&lookups->places, lookup->hash);
	search_index(lookup);
}

static bool read_stripes(const struct kw_lookup *lookup)
{
	return lookup->read.length == sizeof lookup->confirm;
}

static uint64_t stripe_read(const struct kw_lookup *lookup)
{
	const uint64_t *stripes =
		lookup->confirm + (KW_INDEX_STRIPES_OFFSET - KW_INDEX_ROOT_OFFSET) / 8;

	return stripes[kw_index_stripe(lookup->by.stripes, lookup->hash)];
}

/* Can the two roots be of one index, whose entries are found in the same way? */
static bool is_one_index(const struct kw_index_root *a, const struct kw_index_root *b)
{
	return a->offset == b->offset && a->hash_seed == b->hash_seed && a->stripes == b->stripes;
}

/* Did no entry of this hash's stripe move since before the search? */
static bool is_still(const struct kw_lookup *lookup, const struct kw_index_root *root)
{
	return lookup->striped && read_stripes(lookup) && stripe_read(lookup) == lookup->stripe &&
	       kw_index_root_check(root, NULL) == KW_OK && is_one_index(root, &lookup->by) &&
	       home(root, lookup->hash) == home(&lookup->by, lookup->hash);
}

/* What was read to confirm a miss is what the next search goes by. */
static bool go_by(struct kw_lookup *lookup, const struct kw_index_root *root)
{
	struct kw_lookups *lookups = lookup->lookups;

	if (kw_index_root_check(root, NULL) != KW_OK || !is_one_index(root, &lookup->by) ||
		!is_one_index(root, &lookups->root))
		return false;
	lookup->by = *root;
	if (root->moves > lookups->root.moves)
		lookups->root = *root;
	lookup->striped = read_stripes(lookup) && stripe_read(lookup) % 2 == 0;
	if (lookup->striped)
		lookup->stripe = stripe_read(lookup);
	return true;
}

/* The search met a free slot. Has the index stood still since its root was read? */
static void on_confirm(struct kw_lookup *lookup)
{
	const struct kw_lookup_result absent = {.outcome = KW_LOOKUP_ABSENT};
	const char *why = "the index was being rearranged";
	const struct kw_index_root *root = (const struct kw_index_root *)lookup->confirm;
	bool same = memcmp(root, &lookup->by, sizeof *root) == 0 && root->moves % 2 == 0;

	if (same || is_still(lookup, root)) {
		kw_lookup_end(lookup, &absent);
	} else if (!go_by(lookup, root)) {
		start_over(lookup, why);
	} else if (kw_lookup_try_again(lookup, why)) {
		search_index(lookup);
	}
}

void kw_lookup_go_on(struct kw_lookup *lookup)
{
	switch (kw_lookup_state(lookup)) {
	case KW_LOOKUP_GUESS:
		lookup->got += lookup->read.length;
		on_guess(lookup);
		break;
	case KW_LOOKUP_SLOTS:
		look_at_slots(lookup);
		break;
	case KW_LOOKUP_RECORD:
		lookup->got += lookup->read.length;
		on_record(lookup);
		break;
	case KW_LOOKUP_CONFIRM:
		on_confirm(lookup);
		break;
	case KW_LOOKUP_DRAINING:
		lookup->lookups->draining--;
		kw_sm_move(&lookup->sm, KW_LOOKUP_FREE, "");
		kw_lookup_release(lookup);
		break;
	case KW_LOOKUP_FREE:
	case KW_LOOKUP_WAITING:
	case KW_LOOKUP_PARKED:
		break;
	}
}
