#include "sim.h"

#include "base/buffer.h"
#include "table/lookup.h"
#include "table/view.h"

#include <stdlib.h>

/*
 * A lookup through the index looks at the writer's present, not at the last publication, while
 * index entries move under it. So its answer must have been true at some moment between its
 * beginning and its end: a version not older than the one at the beginning, or a moment at which
 * the key was not there.
 *
 * A guess (a remembered place) promises less: what the newest superblock covers that was seen
 * before the lookup began. With places all answers are held to that.
 *
 * Rule 6 left out: the lookups are not told of superblocks, but their answers are held to them.
 */
#define LOOKUPS_MAX 16
#define RULE_SEEN 6

struct ask {
	struct sim_lookup *lookup;
	bool active;
	uint32_t database, number;
	uint64_t version_before; /* of the key when the lookup began; 0: it was not there */
	uint64_t removed_before; /* it was not there: the version that removed it */
	uint64_t newest_before;  /* of the whole table then */
	uint64_t promised;       /* with places: the version that had been seen; else all */
	bool was_absent;         /* at some moment since */
	bool began_calm;
	uint64_t ended; /* how often */
};

struct sim_lookup {
	struct sim *sim;
	struct sim_client client;
	struct kw_lookups *lookups;
	struct ask asks[LOOKUPS_MAX];
	bool epoch_moved, was_lost;

	struct kw_superblock superblock; /* a look reads it */
	bool looking;
	uint64_t seen_version; /* the newest that was seen of this epoch */
};

static void lookup_done(const struct sim_request *request, const struct kw_error *error)
{
	struct sim_lookup *lookup = request->owner;

	if (error)
		lookup->was_lost = true;
	kw_lookups_complete(request->read, error);
	kw_lookups_post(lookup->lookups);
}

static void io_read(void *arg, struct kw_lookup_read *const *reads, int count)
{
	struct sim_lookup *lookup = arg;

	for (int i = 0; i < count; i++)
		sim_wire_post(lookup->sim->wire,
			&(struct sim_request){&lookup->client, reads[i]->offset, reads[i]->length,
				reads[i]->buffer, lookup_done, lookup, reads[i]});
}

static void io_extents(void *arg, const struct kw_extent *extents, int count)
{
	struct sim_lookup *lookup = arg;

	sim_client_extents(&lookup->client, lookup->sim, extents, count);
}

static void connect_anew(struct sim_lookup *lookup)
{
	const struct sim_plan *plan = &lookup->sim->plan;
	const struct kw_lookups_io io = {.read = io_read, .extents = io_extents, .arg = lookup};
	const struct kw_lookups_options options = {
		.depth = plan->lookups, .places = plan->lookup_places};

	sim_client_connect(&lookup->client, lookup->sim);
	lookup->lookups = kw_lookups_new(&options, &io);
}

static void disconnect(struct sim_lookup *lookup)
{
	const struct kw_lookups_stats *stats = kw_lookups_stats(lookup->lookups);

	lookup->sim->counts.guesses += stats->guesses;
	lookup->sim->counts.guessed += stats->guesses - stats->misses;
	lookup->sim->counts.parked += stats->parked;
	sim_wire_forget(lookup->sim->wire, &lookup->client);
	kw_lookups_free(lookup->lookups);
}

struct sim_lookup *sim_lookup_new(struct sim *sim, int index)
{
	struct sim_lookup *lookup = kw_zalloc(sizeof *lookup);

	lookup->sim = sim;
	lookup->client.index = index;
	connect_anew(lookup);
	return lookup;
}

void sim_lookup_free(struct sim_lookup *lookup)
{
	if (!lookup)
		return;
	disconnect(lookup);
	free(lookup);
}

/* ---- looks ---- */

static void look_done(const struct sim_request *request, const struct kw_error *error)
{
	struct sim_lookup *lookup = request->owner;
	const struct kw_superblock *superblock = &lookup->superblock;

	lookup->looking = false;
	if (error) {
		lookup->was_lost = true;
		return;
	}
	if (lookup->epoch_moved || kw_superblock_check(superblock, NULL))
		return;
	if (lookup->seen_version < superblock->version)
		lookup->seen_version = superblock->version;
	if (lookup->sim->plan.broken_rule != RULE_SEEN) {
		kw_lookups_seen(lookup->lookups, superblock);
		kw_lookups_post(lookup->lookups);
	}
}

static void look(struct sim_lookup *lookup)
{
	if (lookup->looking)
		return;
	lookup->looking = true;
	sim_wire_post(lookup->sim->wire,
		&(struct sim_request){&lookup->client, KW_SUPERBLOCK_OFFSET,
			sizeof lookup->superblock, (uint8_t *)&lookup->superblock, look_done,
			lookup, NULL});
}

/* ---- answers ---- */

static void check_found(const struct ask *ask, const struct kw_record_view *record)
{
	struct sim *sim = ask->lookup->sim;

	sim->counts.found++;
	sim_writer_check_record(sim, record, UINT64_MAX); /* the index is ahead of the head */
	if (record->kind != KW_RECORD_PUT || record->database != ask->database ||
		sim_key_number(record->key) != (int)ask->number)
		sim_violation(sim, "lookup: key %u of database %u was asked for, another found",
			ask->number, ask->database);
	if (ask->version_before == 0 && record->version <= ask->newest_before &&
		ask->removed_before <= ask->promised)
		sim_violation(sim, "lookup: key %u was found at %llu, but was gone before",
			ask->number, (unsigned long long)record->version);
	if (record->version < ask->version_before && ask->version_before <= ask->promised)
		sim_violation(sim, "lookup: key %u was found at %llu, but was at %llu before",
			ask->number, (unsigned long long)record->version,
			(unsigned long long)ask->version_before);
}

static void on_result(void *arg, const struct kw_lookup_result *result)
{
	struct ask *ask = arg;
	struct sim_lookup *lookup = ask->lookup;
	struct sim *sim = lookup->sim;

	ask->active = false;
	ask->ended++;
	if (lookup->epoch_moved)
		return;
	switch (result->outcome) {
	case KW_LOOKUP_FOUND:
		check_found(ask, &result->record);
		break;
	case KW_LOOKUP_ABSENT:
		sim->counts.absent++;
		if (!ask->was_absent)
			sim_violation(sim, "lookup: key %u of database %u was there all the time",
				ask->number, ask->database);
		break;
	case KW_LOOKUP_UNCERTAIN:
		sim->counts.uncertain++;
		if (ask->began_calm && !lookup->was_lost)
			sim_violation(sim, "lookup: uncertain of a table that stands still: %s",
				result->error.text);
		break;
	case KW_LOOKUP_TOO_LARGE: /* never: no bound is set */
	case KW_LOOKUP_FAILED:
		if (!lookup->was_lost)
			sim_violation(sim, "lookup: failed, though nothing was lost: %s",
				result->error.text);
		break;
	}
}

/* After a lost READ or another epoch: a new connection. */
static void reconnect(struct sim_lookup *lookup)
{
	disconnect(lookup);
	for (int i = 0; i < LOOKUPS_MAX; i++)
		lookup->asks[i].active = false;
	lookup->looking = lookup->was_lost = lookup->epoch_moved = false;
	lookup->seen_version = 0;
	connect_anew(lookup);
}

static void begin(struct sim_lookup *lookup, uint32_t database, uint32_t number)
{
	const struct sim_value *truth = &lookup->sim->writer.truth[database][number];
	bool places = lookup->sim->plan.lookup_places > 0;
	uint8_t buffer[SIM_KEY_BYTES_MAX];
	struct ask *ask = lookup->asks;

	while (ask->active)
		ask++;
	*ask = (struct ask){
		.lookup = lookup,
		.active = true,
		.database = database,
		.number = number,
		.version_before = truth->present ? truth->version : 0,
		.removed_before = truth->present ? 0 : truth->version,
		.newest_before = lookup->sim->writer.last_version,
		.promised = places ? lookup->seen_version : UINT64_MAX,
		.was_absent = !truth->present,
		.began_calm = lookup->sim->calm,
		.ended = ask->ended,
	};
	lookup->client.epoch = lookup->sim->writer.epoch;
	lookup->sim->counts.lookups++;
	kw_lookups_begin(lookup->lookups, database, sim_key(number, buffer), on_result, ask);
	kw_lookups_post(lookup->lookups);
}

/* Few keys are asked for often: only their places are known before they are asked for again. */
static uint64_t number_below(struct sim *sim)
{
	uint64_t few = sim->plan.keys < 16 ? sim->plan.keys : 16;

	return prng_chance(&sim->prng, 700) ? few : sim->plan.keys;
}

void sim_lookup_step(struct sim_lookup *lookup)
{
	struct sim *sim = lookup->sim;

	if (lookup->was_lost || lookup->epoch_moved) {
		reconnect(lookup);
		return;
	}
	kw_lookups_tick(lookup->lookups);
	kw_lookups_post(lookup->lookups);
	if (prng_chance(&sim->prng, 100))
		look(lookup);
	else if (kw_lookups_have_room(lookup->lookups))
		begin(lookup, (uint32_t)prng_below(&sim->prng, sim->plan.databases),
			(uint32_t)prng_below(&sim->prng, number_below(sim)));
}

void sim_lookup_removed(struct sim_lookup *lookup, uint32_t database, uint32_t number)
{
	for (int i = 0; lookup && i < LOOKUPS_MAX; i++)
		if (lookup->asks[i].database == database && lookup->asks[i].number == number)
			lookup->asks[i].was_absent = true;
}

void sim_lookup_epoch_moved(struct sim_lookup *lookup)
{
	if (lookup)
		lookup->epoch_moved = true;
}

/* What was under way when the calm began comes to its end: parked lookups need a publication. */
static void finish(struct sim_lookup *lookup)
{
	for (int tick = 0; tick < 2 * KW_LOOKUP_TRIES && kw_lookups_busy(lookup->lookups); tick++) {
		kw_lookups_tick(lookup->lookups);
		kw_lookups_post(lookup->lookups);
		sim_wire_drain(lookup->sim->wire);
	}
	if (kw_lookups_busy(lookup->lookups))
		sim_violation(lookup->sim, "lookup: not at rest, though the table stands still");
}

void sim_lookup_all(struct sim_lookup *lookup)
{
	struct sim *sim = lookup->sim;

	sim_wire_drain(sim->wire);
	if (lookup->was_lost || lookup->epoch_moved)
		reconnect(lookup);
	finish(lookup);
	look(lookup);
	sim_wire_drain(sim->wire);
	for (uint32_t database = 0; database < sim->plan.databases; database++)
		for (uint32_t number = 0; number < sim->plan.keys && !sim->violated; number++) {
			uint64_t ended = lookup->asks[0].ended;

			begin(lookup, database, number);
			sim_wire_drain(sim->wire);
			if (lookup->asks[0].ended == ended)
				sim_violation(sim, "lookup: key %u got no answer", number);
		}
}
