#include "table/lookup_internal.h"

#include <assert.h>
#include <stdlib.h>

void kw_lookup_list_push(struct kw_lookup_list *list, struct kw_lookup *lookup)
{
	lookup->next = NULL;
	if (list->last)
		list->last->next = lookup;
	else
		list->first = lookup;
	list->last = lookup;
	list->count++;
}

struct kw_lookup *kw_lookup_list_pop(struct kw_lookup_list *list)
{
	struct kw_lookup *lookup = list->first;

	if (!lookup)
		return NULL;
	assert(list->count > 0);
	list->first = lookup->next;
	if (!list->first)
		list->last = NULL;
	list->count--;
	return lookup;
}

/* So many lookups there can be. */
static uint32_t most(const struct kw_lookups *lookups)
{
	return 2 * lookups->options.depth + 1;
}

struct kw_lookups *kw_lookups_new(
	const struct kw_lookups_options *options, const struct kw_lookups_io *io)
{
	struct kw_lookups *lookups = kw_zalloc(sizeof *lookups);

	lookups->options = *options;
	if (lookups->options.depth == 0)
		lookups->options.depth = 1;
	if (lookups->options.tries == 0)
		lookups->options.tries = KW_LOOKUP_TRIES;
	if (lookups->options.neighbourhood == 0)
		lookups->options.neighbourhood = KW_LOOKUP_NEIGHBOURHOOD;
	assert(lookups->options.depth <= KW_LOOKUPS_DEPTH_MAX && lookups->options.tries > 1);
	assert(lookups->options.neighbourhood <= KW_LOOKUP_NEIGHBOURHOOD_MAX);
	lookups->io = *io;
	lookups->read.lookups = lookups;
	lookups->all = kw_zalloc(most(lookups) * sizeof *lookups->all);
	lookups->posting = kw_zalloc((most(lookups) + 1) * sizeof *lookups->posting);
	kw_places_init(&lookups->places, lookups->options.places);
	kw_sm_init(&lookups->sight, &kw_sight_machine, lookups, KW_SIGHT_BLANK);
	return lookups;
}

void kw_lookups_free(struct kw_lookups *lookups)
{
	if (!lookups)
		return;
	for (uint32_t i = 0; i < lookups->made; i++) {
		kw_buffer_close(&lookups->all[i]->key);
		free(lookups->all[i]->record);
		free(lookups->all[i]);
	}
	free(lookups->all);
	free(lookups->posting);
	kw_places_close(&lookups->places);
	kw_view_close(&lookups->view);
	kw_runs_close(&lookups->runs);
	free(lookups);
}

static struct kw_lookup *make(struct kw_lookups *lookups)
{
	struct kw_lookup *lookup = kw_zalloc(sizeof *lookup);

	assert(lookups->made < most(lookups));
	lookup->lookups = lookups;
	lookup->read.lookups = lookups;
	lookup->read.internal = lookup;
	kw_sm_init(&lookup->sm, &kw_lookup_machine, lookup, KW_LOOKUP_FREE);
	lookups->all[lookups->made++] = lookup;
	return lookup;
}

/* Room that there is once stays until another lookup takes it, or all are stopped. */
bool kw_lookups_have_room(const struct kw_lookups *lookups)
{
	uint32_t depth = lookups->options.depth;

	return lookups->active < depth && lookups->draining <= depth;
}

static struct kw_lookup *begin(
	struct kw_lookups *lookups, enum kw_lookup_aim aim, kw_lookup_fn fn, void *arg)
{
	struct kw_lookup *lookup;

	assert(kw_lookups_have_room(lookups));
	lookup = kw_lookup_list_pop(&lookups->free);
	if (!lookup)
		lookup = make(lookups);
	lookup->aim = aim;
	lookup->fn = fn;
	lookup->arg = arg;
	lookup->tries = 0;
	lookup->look = 0;
	lookup->first_place = lookup->doubtful = 0;
	lookup->awaited = 0;
	lookup->sampled = lookup->striped = false;
	lookups->active++;
	lookups->stats.lookups++;
	return lookup;
}

static void begin_key(struct kw_lookup *lookup, uint32_t database, struct kw_slice key)
{
	lookup->database = database;
	kw_buffer_clear(&lookup->key);
	kw_buffer_reserve(&lookup->key, key.length + 1); /* never NULL, for the empty key too */
	kw_buffer_append(&lookup->key, key.data, key.length);
	kw_lookup_await_view(lookup);
}

void kw_lookups_approach(const struct kw_lookups *lookups, uint32_t database, struct kw_slice key)
{
	if (kw_sight(lookups) == KW_SIGHT_KNOWN)
		kw_places_approach(&lookups->places, kw_lookup_hash(lookups, database, key));
}

void kw_lookups_begin(struct kw_lookups *lookups, uint32_t database, struct kw_slice key,
	kw_lookup_fn fn, void *arg)
{
	begin_key(begin(lookups, KW_AIM_RECORD, fn, arg), database, key);
}

void kw_lookups_begin_presence(struct kw_lookups *lookups, uint32_t database, struct kw_slice key,
	kw_lookup_fn fn, void *arg)
{
	begin_key(begin(lookups, KW_AIM_PRESENCE, fn, arg), database, key);
}

void kw_lookups_begin_slot(
	struct kw_lookups *lookups, const struct kw_index_slot *slot, kw_lookup_fn fn, void *arg)
{
	struct kw_lookup *lookup = begin(lookups, KW_AIM_SLOT, fn, arg);

	lookup->hash = slot->hash;
	lookup->first_place = slot->place;
	kw_lookup_await_view(lookup);
}

void kw_lookups_ask(struct kw_lookups *lookups, struct kw_lookup_read *read)
{
	assert(!read->out);
	assert(lookups->collected <= most(lookups));
	lookups->stats.reads++;
	lookups->stats.bytes += read->length;
	lookups->posting[lookups->collected++] = read;
}

void kw_lookups_post(struct kw_lookups *lookups)
{
	uint32_t count = lookups->collected;

	if (count == 0)
		return;
	lookups->collected = 0;
	lookups->outstanding += count;
	for (uint32_t i = 0; i < count; i++)
		lookups->posting[i]->out = true;
	lookups->io.read(lookups->io.arg, lookups->posting, (int)count);
}

void kw_lookups_complete(struct kw_lookup_read *read, const struct kw_error *error)
{
	struct kw_lookups *lookups = read->lookups;
	struct kw_lookup *lookup = read->internal;

	assert(read->out && lookups->outstanding > 0);
	read->out = false;
	lookups->outstanding--;
	if (!lookup) {
		kw_lookups_view_read(lookups, error);
	} else if (error && kw_lookup_state(lookup) != KW_LOOKUP_DRAINING) {
		kw_lookups_forget(lookups);
		kw_lookup_fail(lookup, error);
	} else {
		kw_lookup_go_on(lookup);
	}
}

void kw_lookups_tick(struct kw_lookups *lookups)
{
	uint32_t parked = lookups->parked.count;
	struct kw_lookup *lookup;

	while (parked-- > 0 && (lookup = kw_lookup_list_pop(&lookups->parked)))
		kw_lookup_await_view(lookup);
}

bool kw_lookups_parked(const struct kw_lookups *lookups)
{
	return lookups->parked.first;
}

void kw_lookups_stop(struct kw_lookups *lookups)
{
	/* What was collected and not posted was never asked for. */
	lookups->collected = 0;
	if (!lookups->read.out)
		lookups->reading = false;
	lookups->waiting = lookups->parked = (struct kw_lookup_list){0};
	lookups->active = 0;
	for (uint32_t i = 0; i < lookups->made; i++) {
		struct kw_lookup *lookup = lookups->all[i];

		if (!lookup->fn) /* free, or draining already */
			continue;
		lookup->fn = NULL;
		if (lookup->read.out) {
			kw_sm_move(&lookup->sm, KW_LOOKUP_DRAINING, "");
			lookups->draining++;
		} else {
			kw_sm_move(&lookup->sm, KW_LOOKUP_FREE, "");
			kw_lookup_release(lookup);
		}
	}
	kw_lookups_forget(lookups);
}

bool kw_lookups_busy(const struct kw_lookups *lookups)
{
	return lookups->active > 0 || lookups->outstanding > 0;
}

const struct kw_lookups_stats *kw_lookups_stats(const struct kw_lookups *lookups)
{
	return &lookups->stats;
}
