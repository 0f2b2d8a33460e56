#include "sim.h"

#include "base/buffer.h"
#include "table/keep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define START_US UINT64_C(1000000000)
#define WALL_US UINT64_C(1790000000000000) /* the wall clock runs this much ahead of the other */
#define DRAIN_TRIES 400

static int extend(void *arg, struct kw_extent *extent, struct kw_error *error)
{
	struct sim *sim = arg;
	struct sim_writer *writer = &sim->writer;

	if (extent->length == 0 || extent->offset + extent->length > SIM_RESERVE_BYTES ||
		extent->offset + extent->length < extent->offset)
		sim_violation(sim, "writer: extent %llu+%llu lies outside the reservation",
			(unsigned long long)extent->offset, (unsigned long long)extent->length);
	for (int i = 0; i < writer->extent_count; i++)
		if (extent->offset < writer->extents[i].offset + writer->extents[i].length &&
			writer->extents[i].offset < extent->offset + extent->length)
			sim_violation(sim, "writer: extent %llu overlaps one made before",
				(unsigned long long)extent->offset);
	if (writer->extent_count == SIM_EXTENTS_MAX)
		return kw_error_set(
			error, KW_E_FULL, "the simulator keeps %d extents", SIM_EXTENTS_MAX);
	extent->address = 0;
	extent->rkey = 0;
	writer->extents[writer->extent_count++] = *extent;
	return 0;
}

/* What is given back may hold anything afterwards: readers that still look there must not care. */
static bool give_back(void *arg, uint64_t offset, uint64_t length)
{
	struct sim *sim = arg;
	uint8_t filling = prng_chance(&sim->prng, 500) ? 0 : (uint8_t)prng_next(&sim->prng);

	if (prng_chance(&sim->prng, 5))
		return false; /* never asked again */
	for (int i = 0; i < sim->writer.extent_count; i++)
		if (offset >= sim->writer.extents[i].offset &&
			offset - sim->writer.extents[i].offset < sim->writer.extents[i].length) {
			memset(sim->memory + offset, filling, length);
			sim->counts.given_back += length;
			return true;
		}
	sim_violation(sim, "writer: memory at %llu was given back that no extent holds",
		(unsigned long long)offset);
	return false;
}

static struct kw_table_options options_of(const struct sim *sim)
{
	return (struct kw_table_options){
		.max_bytes = sim->writer.max_bytes,
		.segment_bytes = sim->plan.segment_bytes,
		.retention_us = sim->plan.retention_us,
		.grace_us = sim->plan.grace_us,
		.held_part = sim->plan.held_part,
	};
}

static void open_table(struct sim *sim)
{
	struct sim_writer *writer = &sim->writer;
	const struct sim_plan *plan = &sim->plan;
	struct kw_table_options options = options_of(sim);
	struct kw_error error = {0};

	options.epoch = prng_next(&sim->prng) | 1;
	options.hash_seed = prng_next(&sim->prng);

	writer->epoch = options.epoch;
	writer->extent_count = 0;
	writer->last_version = writer->last_floor = writer->lineage = 0;
	writer->walking = false;
	writer->used_ceiling = writer->max_bytes;
	sim_fault_begin(plan);
	writer->table = kw_table_new(&options, &writer->memory, writer->now_us, &error);
	if (!writer->table)
		sim_violation(sim, "writer: no table of %llu bytes: %s",
			(unsigned long long)writer->max_bytes, error.text);
}

void sim_writer_open(struct sim *sim)
{
	sim->writer.now_us = START_US;
	sim->writer.max_bytes = sim->plan.max_bytes;
	sim->writer.memory = (struct kw_table_memory){
		.base = sim->memory,
		.reserve_bytes = SIM_RESERVE_BYTES,
		.extend = extend,
		.give_back = give_back,
		.arg = sim,
	};
	open_table(sim);
}

void sim_writer_close(struct sim *sim)
{
	kw_table_free(sim->writer.table);
	sim->writer.table = NULL;
	sim_fault_end();
	free(sim->writer.history);
	sim->writer.history = NULL;
	sim->writer.history_room = 0;
}

static void forget_truth(struct sim *sim)
{
	struct sim_writer *writer = &sim->writer;

	for (int database = 0; database < SIM_DATABASES; database++) {
		memset(writer->truth[database], 0, sizeof writer->truth[database]);
		writer->database_keys[database] = 0;
	}
	writer->truth_keys = writer->truth_payload = 0;
}

void sim_writer_restart(struct sim *sim)
{
	sim_writer_close(sim);
	/* Private anonymous memory reads as zero after this: a new memory file. */
	madvise(sim->memory, SIM_RESERVE_BYTES, MADV_DONTNEED);
	forget_truth(sim);
	sim->counts.epochs++;
	for (uint32_t i = 0; i < sim->plan.agents; i++)
		sim->agents[i]->epoch_moved = true;
	sim_lookup_epoch_moved(sim->lookup);
	open_table(sim);
}

/* Readers and lookups go on over it: they must not notice, whatever they were in the middle of. */
void sim_writer_keep(struct sim *sim)
{
	static const struct kw_keep_terms terms = {1, 2};
	struct sim_writer *writer = &sim->writer;
	const struct kw_table_options options = options_of(sim);
	struct kw_error error = {0};
	struct kw_table_stats stats;

	kw_table_seal(writer->table, &terms, writer->now_us + WALL_US);
	kw_table_free(writer->table);
	writer->extent_count = 0;
	writer->walking = false;
	sim->counts.kept++;
	writer->table = kw_table_adopt(&options, &writer->memory, &terms, &error);
	if (!writer->table) {
		sim_violation(sim, "writer: its own table was not adopted: %s", error.text);
		open_table(sim);
		return;
	}
	kw_table_set_time(writer->table, writer->now_us);
	kw_table_publish(writer->table, writer->now_us + WALL_US);
	/* Memory that could not be given back counts as used again. */
	kw_table_stats(writer->table, &stats);
	if (writer->used_ceiling < stats.used_bytes)
		writer->used_ceiling = stats.used_bytes;
	if (kw_table_epoch(writer->table) != writer->epoch || stats.version != writer->last_version)
		sim_violation(sim, "writer: the adopted table is of another epoch or version");
}

/* ---- one operation each ---- */

/* Note what the newest version is; called after each record written. */
static void remember(struct sim *sim, const struct sim_version *version)
{
	struct sim_writer *writer = &sim->writer;
	struct kw_table_stats stats;

	kw_table_stats(writer->table, &stats);
	if (stats.version <= writer->last_version) {
		sim_violation(sim, "writer: a record was written, but the version did not grow");
		return;
	}
	if (stats.version >= writer->history_room) {
		uint64_t room = stats.version * 2 + 64;

		writer->history = kw_realloc(writer->history, room * sizeof *writer->history);
		memset(writer->history + writer->history_room, 0,
			(room - writer->history_room) * sizeof *writer->history);
		writer->history_room = room;
	}
	writer->history[stats.version] = *version;
	writer->history[stats.version].lineage = writer->lineage;
	writer->last_version = stats.version;
	if (version->kind == KW_RECORD_PUT)
		writer->truth[version->database][version->number].version = stats.version;
}

static struct sim_value *pick(struct sim *sim, uint32_t *database, uint32_t *number)
{
	*database = (uint32_t)prng_below(&sim->prng, sim->plan.databases);
	*number = (uint32_t)prng_below(&sim->prng, sim->plan.keys);
	return &sim->writer.truth[*database][*number];
}

static void truth_forget(struct sim *sim, uint32_t database, uint32_t number)
{
	struct sim_writer *writer = &sim->writer;
	struct sim_value *value = &writer->truth[database][number];
	uint8_t buffer[SIM_KEY_BYTES_MAX];

	if (!value->present)
		return;
	writer->truth_keys--;
	writer->database_keys[database]--;
	writer->truth_payload -= sim_key(number, buffer).length + value->length;
	value->present = false;
	writer->was_live[database][number] = false;
}

static void truth_remove(struct sim *sim, uint32_t database, uint32_t number)
{
	if (sim->writer.truth[database][number].present)
		sim->writer.truth[database][number].version = sim->writer.last_version;
	truth_forget(sim, database, number);
	sim_lookup_removed(sim->lookup, database, number);
}

static void truth_store(
	struct sim *sim, uint32_t database, uint32_t number, const struct sim_value *to)
{
	struct sim_writer *writer = &sim->writer;
	uint8_t buffer[SIM_KEY_BYTES_MAX];

	truth_forget(sim, database, number);
	writer->truth[database][number] = *to;
	writer->truth_keys++;
	writer->database_keys[database]++;
	writer->truth_payload += sim_key(number, buffer).length + to->length;
}

static uint32_t draw_length(struct sim *sim)
{
	const struct sim_plan *plan = &sim->plan;

	if (prng_chance(&sim->prng, plan->large_chance))
		return (uint32_t)prng_below(&sim->prng, plan->segment_bytes * 3 < SIM_VALUE_MAX
								? plan->segment_bytes * 3
								: SIM_VALUE_MAX);
	return (uint32_t)prng_below(&sim->prng, 2 * plan->value_bytes + 1);
}

static void put(struct sim *sim)
{
	struct sim_writer *writer = &sim->writer;
	uint32_t database, number, length = draw_length(sim);
	struct sim_value *old = pick(sim, &database, &number);
	/* A value drawn from few tags comes again now and then: then nothing may be written. */
	uint64_t tag =
		prng_chance(&sim->prng, sim->plan.same_chance) ? number : prng_next(&sim->prng);
	struct sim_value value = {.present = true, .length = length};
	uint8_t buffer[SIM_KEY_BYTES_MAX];
	struct kw_slice key = sim_key(number, buffer), bytes;
	bool room, equal;

	if (tag == number)
		value.length = number % 200;
	value.expires_ms = prng_chance(&sim->prng, 200) ? prng_range(&sim->prng, 1, 3) : 0;
	bytes = sim_value_bytes(tag, value.length);
	value.hash = sim_value_hash(bytes);
	equal = old->present && old->hash == value.hash && old->length == value.length &&
		old->expires_ms == value.expires_ms;
	room = prng_chance(&sim->prng, 100) &&
	       kw_table_has_room(
		       writer->table, kw_record_length(key.length, bytes.length, value.expires_ms));
	sim->counts.puts++;
	switch (kw_table_put(writer->table, database, key, bytes, value.expires_ms)) {
	case KW_PUT_STORED:
		if (equal)
			sim_violation(sim, "writer: an equal value was published again");
		truth_store(sim, database, number, &value);
		remember(sim, &(struct sim_version){KW_RECORD_PUT, database, number, value.length,
				      value.hash, value.expires_ms});
		writer->seen[database][number] = true;
		break;
	case KW_PUT_UNCHANGED:
		if (!equal)
			sim_violation(
				sim, "writer: a new value of key %u was taken for the old", number);
		writer->seen[database][number] = true;
		break;
	case KW_PUT_FULL:
		sim->counts.full++;
		/* Whether a refused put counts as seen is not promised. */
		writer->was_live[database][number] = false;
		/* Fragmentation can make the promise of room come false; nothing is lost by it. */
		sim->counts.promised += room;
		break;
	case KW_PUT_TOO_LARGE:
		if (room)
			sim_violation(sim, "writer: room was promised, then it was too large");
		break;
	}
}

static void delete_key(struct sim *sim, uint32_t database, uint32_t number)
{
	struct sim_writer *writer = &sim->writer;
	uint8_t buffer[SIM_KEY_BYTES_MAX];
	bool present = writer->truth[database][number].present;
	enum kw_put_result result;

	sim->counts.deletes++;
	result = kw_table_delete(writer->table, database, sim_key(number, buffer));
	if (result == KW_PUT_FULL && present) {
		sim->counts.deletes_full++;
		return;
	}
	if (result != (present ? KW_PUT_STORED : KW_PUT_UNCHANGED))
		sim_violation(sim, "writer: delete of a %s key answered %d",
			present ? "live" : "missing", (int)result);
	if (present)
		remember(sim, &(struct sim_version){KW_RECORD_DELETE, database, number, 0, 0, 0});
	truth_remove(sim, database, number);
	writer->seen[database][number] = true;
}

static void flush(struct sim *sim)
{
	struct sim_writer *writer = &sim->writer;
	uint32_t database = (uint32_t)prng_below(&sim->prng, sim->plan.databases);
	enum kw_put_result result = kw_table_flush(writer->table, database);

	if (result == KW_PUT_FULL) {
		sim->counts.deletes_full++;
		return;
	}
	if (result == KW_PUT_TOO_LARGE)
		sim_violation(sim, "writer: a flush was too large");
	if (result == KW_PUT_STORED)
		remember(sim, &(struct sim_version){KW_RECORD_FLUSH, database, 0, 0, 0, 0});
	else if (writer->database_keys[database] > 0)
		sim_violation(sim, "writer: a flush of a database with keys wrote nothing");
	sim->counts.flushes++;
	for (uint32_t number = 0; number < sim->plan.keys; number++)
		truth_remove(sim, database, number);
}

static void resize(struct sim *sim)
{
	struct sim_writer *writer = &sim->writer;
	uint64_t to = prng_range(&sim->prng, sim->plan.max_bytes / 2, sim->plan.max_bytes * 3);
	struct kw_table_stats stats;
	struct kw_error error = {0};

	if (to > SIM_RESERVE_BYTES)
		to = SIM_RESERVE_BYTES;
	kw_table_stats(writer->table, &stats);
	if (kw_table_set_max(writer->table, to, &error)) {
		sim_violation(
			sim, "writer: %llu bytes refused: %s", (unsigned long long)to, error.text);
		return;
	}
	writer->max_bytes = to;
	writer->used_ceiling = to > stats.used_bytes ? to : stats.used_bytes;
	if (!kw_table_set_max(writer->table, SIM_RESERVE_BYTES + 1, &error))
		sim_violation(sim, "writer: a size beyond the reservation was accepted");
}

/* ---- reconcile walks ---- */

static void begin_walk(struct sim *sim)
{
	struct sim_writer *writer = &sim->writer;

	kw_table_marks_begin(writer->table);
	memset(writer->seen, 0, sizeof writer->seen);
	memset(writer->handed, 0, sizeof writer->handed);
	for (uint32_t database = 0; database < sim->plan.databases; database++)
		for (uint32_t number = 0; number < sim->plan.keys; number++)
			writer->was_live[database][number] =
				writer->truth[database][number].present;
	writer->walk_cursor = 0;
	writer->walking = true;
	sim->counts.walks++;
}

static void handed_out(void *arg, uint32_t database, struct kw_slice key)
{
	struct sim *sim = arg;
	struct sim_writer *writer = &sim->writer;
	int number = sim_key_number(key);

	if (number < 0 || database >= sim->plan.databases) {
		sim_violation(sim, "writer: the walk handed out a key that never was");
		return;
	}
	if (!writer->truth[database][number].present || writer->seen[database][number])
		sim_violation(sim, "writer: the walk handed out key %d, %s", number,
			writer->seen[database][number] ? "seen already" : "not live");
	writer->handed[database][number] = true;
}

static void mark_some(struct sim *sim)
{
	struct sim_writer *writer = &sim->writer;
	uint32_t database, number;
	uint8_t buffer[SIM_KEY_BYTES_MAX];

	for (int i = 0; i < 8; i++) {
		pick(sim, &database, &number);
		kw_table_mark(writer->table, database, sim_key(number, buffer));
		writer->seen[database][number] = true;
	}
}

static void step_walk(struct sim *sim)
{
	struct sim_writer *writer = &sim->writer;
	uint32_t budget = (uint32_t)prng_range(&sim->prng, 1, 40);

	if (kw_table_unseen(writer->table, &writer->walk_cursor, budget, handed_out, sim))
		return;
	writer->walking = false;
	for (uint32_t database = 0; database < sim->plan.databases; database++)
		for (uint32_t number = 0; number < sim->plan.keys; number++)
			if (writer->was_live[database][number] && !writer->seen[database][number] &&
				!writer->handed[database][number])
				sim_violation(sim,
					"writer: the walk left out key %u of database %u", number,
					database);
}

static void walk(struct sim *sim)
{
	if (!sim->writer.walking)
		begin_walk(sim);
	else if (prng_chance(&sim->prng, 500))
		mark_some(sim);
	else
		step_walk(sim);
}

/* ---- publishing ---- */

static uint64_t lowest_passed(const struct sim *sim)
{
	uint64_t lowest = UINT64_MAX;

	for (uint32_t i = 0; i < sim->plan.agents; i++) {
		const struct sim_agent *agent = sim->agents[i];

		/* Another epoch's version says nothing here; one that sits out is disconnected. */
		if (agent->paused || agent->client.epoch != sim->writer.epoch)
			continue;
		if (agent->passed < lowest)
			lowest = agent->passed;
	}
	return lowest;
}

void sim_writer_publish(struct sim *sim)
{
	struct sim_writer *writer = &sim->writer;
	struct kw_table_facts facts = {
		.source_state = KW_SOURCE_LIVE,
		.complete = true,
		.rdb_version = 10,
	};

	if (sim->plan.track_passed)
		kw_table_set_passed(writer->table, lowest_passed(sim));
	if (prng_chance(&sim->prng, 300)) {
		facts.fresh_us = writer->now_us + WALL_US;
		kw_table_set_facts(writer->table, &facts);
	}
	if (prng_chance(&sim->prng, 100))
		kw_table_tidy(writer->table);
	sim_fault_publish();
	kw_table_publish(writer->table, writer->now_us + WALL_US);
	if (kw_table_unpublished(writer->table))
		sim_violation(sim, "writer: something is unpublished right after a publish");
}

/* The server went over to another history: its number is the id. */
static void change_lineage(struct sim *sim)
{
	struct sim_writer *writer = &sim->writer;
	struct kw_history history = {
		.standing = KW_HISTORY_TOLD,
		.proxy = 1,
		.proxy_name = "sim",
	};

	snprintf(history.replid, sizeof history.replid, "%040llx",
		(unsigned long long)++writer->lineage);
	kw_table_set_history(writer->table, &history);
	sim->counts.lineages++;
}

void sim_writer_step(struct sim *sim)
{
	const struct sim_plan *plan = &sim->plan;
	struct sim_writer *writer = &sim->writer;
	uint32_t database, number;

	writer->now_us += prng_below(&sim->prng, 2 * plan->step_us + 1);
	kw_table_set_time(writer->table, writer->now_us);
	if (prng_chance(&sim->prng, plan->publish_chance)) {
		sim_writer_publish(sim);
	} else if (plan->lineage_chance && prng_chance(&sim->prng, plan->lineage_chance)) {
		change_lineage(sim);
	} else if (prng_chance(&sim->prng, plan->delete_chance)) {
		pick(sim, &database, &number);
		delete_key(sim, database, number);
	} else if (prng_chance(&sim->prng, plan->flush_chance)) {
		flush(sim);
	} else if (prng_chance(&sim->prng, plan->marks_chance)) {
		walk(sim);
	} else if (prng_chance(&sim->prng, plan->resize_chance)) {
		resize(sim);
	} else {
		put(sim);
	}
}

void sim_writer_drain(struct sim *sim)
{
	struct sim_writer *writer = &sim->writer;
	struct kw_slice value = sim_value_bytes(sim->counts.steps, 64), key = SIM_DRAINED_KEY;
	int tries = 0;

	sim->counts.drains++;
	for (uint32_t database = 0; database < sim->plan.databases; database++)
		for (uint32_t number = 0; number < sim->plan.keys; number++)
			delete_key(sim, database, number);
	while (kw_table_put(writer->table, SIM_DATABASES, key, value, 0) != KW_PUT_STORED) {
		if (++tries == DRAIN_TRIES) {
			sim_violation(sim, "writer: all keys were deleted, and still it is full");
			return;
		}
		writer->now_us += sim->plan.retention_us + sim->plan.grace_us + 1;
		kw_table_set_time(writer->table, writer->now_us);
		for (uint32_t number = 0; number < sim->plan.keys; number++)
			delete_key(sim, (uint32_t)tries % sim->plan.databases, number);
		sim_writer_publish(sim);
	}
	if (kw_table_delete(writer->table, SIM_DATABASES, key) != KW_PUT_STORED)
		sim_violation(sim, "writer: a key just put could not be deleted");
}
