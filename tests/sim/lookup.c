#include "sim.h"

#include "base/buffer.h"
#include "table/lookup.h"

#include <stdlib.h>

/*
 * A lookup looks at the writer's present, not at the last publication, while index entries move
 * under it. So its answer must have been true at some moment between its beginning and its end:
 * a version not older than the one at the beginning, or a moment at which the key was not there.
 */
struct sim_lookup {
	struct sim *sim;
	struct sim_client client;
	struct kw_lookup *lookup;
	uint32_t database, number;
	uint64_t version_before; /* of the key when the lookup began; 0: it was not there */
	uint64_t newest_before;  /* of the whole table then */
	bool was_absent;         /* at some moment since */
	bool epoch_moved, was_lost, began_calm;
	bool ended;
};

static void read_done(const struct sim_request *request, const struct kw_error *error)
{
	struct sim_lookup *lookup = request->owner;

	if (error)
		lookup->was_lost = true;
	kw_lookup_complete(lookup->lookup, error);
}

static void io_read(
	void *arg, struct kw_lookup *inner, uint64_t offset, uint64_t length, uint8_t *buffer)
{
	struct sim_lookup *lookup = arg;

	sim_wire_post(lookup->sim->wire, &(struct sim_request){&lookup->client, offset, length,
						 buffer, read_done, lookup, inner});
}

static void io_extents(void *arg, const struct kw_extent *extents, int count)
{
	struct sim_lookup *lookup = arg;

	sim_client_extents(&lookup->client, lookup->sim, extents, count);
}

struct sim_lookup *sim_lookup_new(struct sim *sim, int index)
{
	struct sim_lookup *lookup = kw_zalloc(sizeof *lookup);
	const struct kw_lookup_io io = {.read = io_read, .extents = io_extents, .arg = lookup};

	lookup->sim = sim;
	lookup->client.index = index;
	sim_client_connect(&lookup->client, sim);
	lookup->lookup = kw_lookup_new(&(struct kw_lookup_options){0}, &io);
	return lookup;
}

void sim_lookup_free(struct sim_lookup *lookup)
{
	if (!lookup)
		return;
	sim_wire_forget(lookup->sim->wire, &lookup->client);
	kw_lookup_free(lookup->lookup);
	free(lookup);
}

static void check_found(struct sim_lookup *lookup, const struct kw_record_view *record)
{
	struct sim *sim = lookup->sim;

	sim->counts.found++;
	sim_writer_check_record(sim, record, UINT64_MAX); /* the index is ahead of the head */
	if (record->kind != KW_RECORD_PUT || record->database != lookup->database ||
		sim_key_number(record->key) != (int)lookup->number)
		sim_violation(sim, "lookup: key %u of database %u was asked for, another found",
			lookup->number, lookup->database);
	if (lookup->version_before == 0 && record->version <= lookup->newest_before)
		sim_violation(sim, "lookup: key %u was found at %llu, but was gone before",
			lookup->number, (unsigned long long)record->version);
	if (record->version < lookup->version_before)
		sim_violation(sim, "lookup: key %u was found at %llu, but was at %llu before",
			lookup->number, (unsigned long long)record->version,
			(unsigned long long)lookup->version_before);
}

static void on_result(void *arg, const struct kw_lookup_result *result)
{
	struct sim_lookup *lookup = arg;
	struct sim *sim = lookup->sim;

	lookup->ended = true;
	if (lookup->epoch_moved)
		return;
	switch (result->outcome) {
	case KW_LOOKUP_FOUND:
		check_found(lookup, &result->record);
		break;
	case KW_LOOKUP_ABSENT:
		sim->counts.absent++;
		if (!lookup->was_absent)
			sim_violation(sim, "lookup: key %u of database %u was there all the time",
				lookup->number, lookup->database);
		break;
	case KW_LOOKUP_UNCERTAIN:
		sim->counts.uncertain++;
		if (lookup->began_calm && !lookup->was_lost)
			sim_violation(sim, "lookup: uncertain of a table that stands still: %s",
				result->error.text);
		break;
	case KW_LOOKUP_FAILED:
		if (!lookup->was_lost)
			sim_violation(sim, "lookup: failed, though nothing was lost: %s",
				result->error.text);
		break;
	}
}

static void begin(struct sim_lookup *lookup, uint32_t database, uint32_t number)
{
	const struct sim_value *truth = &lookup->sim->writer.truth[database][number];
	uint8_t buffer[SIM_KEY_BYTES_MAX];

	/* After a lost READ or another epoch: a new connection. */
	if (lookup->was_lost || lookup->epoch_moved) {
		kw_lookup_stop(lookup->lookup);
		sim_client_connect(&lookup->client, lookup->sim);
	}
	lookup->was_lost = lookup->epoch_moved = lookup->ended = false;
	lookup->began_calm = lookup->sim->calm;
	lookup->client.epoch = lookup->sim->writer.epoch;
	lookup->database = database;
	lookup->number = number;
	lookup->version_before = truth->present ? truth->version : 0;
	lookup->newest_before = lookup->sim->writer.last_version;
	lookup->was_absent = !truth->present;
	lookup->sim->counts.lookups++;
	kw_lookup_begin(lookup->lookup, database, sim_key(number, buffer), on_result, lookup);
}

void sim_lookup_step(struct sim_lookup *lookup)
{
	struct sim *sim = lookup->sim;

	if (!kw_lookup_busy(lookup->lookup))
		begin(lookup, (uint32_t)prng_below(&sim->prng, sim->plan.databases),
			(uint32_t)prng_below(&sim->prng, sim->plan.keys));
}

void sim_lookup_removed(struct sim_lookup *lookup, uint32_t database, uint32_t number)
{
	if (lookup && lookup->database == database && lookup->number == number)
		lookup->was_absent = true;
}

void sim_lookup_epoch_moved(struct sim_lookup *lookup)
{
	if (lookup)
		lookup->epoch_moved = true;
}

void sim_lookup_all(struct sim_lookup *lookup)
{
	struct sim *sim = lookup->sim;

	sim_wire_drain(sim->wire);
	for (uint32_t database = 0; database < sim->plan.databases; database++)
		for (uint32_t number = 0; number < sim->plan.keys && !sim->violated; number++) {
			begin(lookup, database, number);
			sim_wire_drain(sim->wire);
			if (!lookup->ended)
				sim_violation(sim, "lookup: key %u got no answer", number);
		}
}
