#include "sim.h"

#define FEW_KEYS 4

static void check_key(struct sim *sim, uint32_t database, uint32_t number)
{
	const struct sim_writer *writer = &sim->writer;
	const struct sim_value *truth = &writer->truth[database][number];
	uint8_t buffer[SIM_KEY_BYTES_MAX];
	struct kw_slice value = {0};
	uint64_t expires_ms = 0;
	bool found =
		kw_table_get(writer->table, database, sim_key(number, buffer), &value, &expires_ms);

	if (found != truth->present) {
		sim_violation(sim, "writer: key %u of database %u is %s, but the table says %s",
			number, database, truth->present ? "live" : "gone",
			found ? "live" : "gone");
		return;
	}
	if (found && (value.length != truth->length || sim_value_hash(value) != truth->hash ||
			     expires_ms != truth->expires_ms))
		sim_violation(sim, "writer: key %u of database %u has another value in the table",
			number, database);
}

static void check_stats(struct sim *sim)
{
	struct sim_writer *writer = &sim->writer;
	struct kw_table_stats stats;
	uint64_t slack;

	kw_table_stats(writer->table, &stats);
	if (stats.keys != writer->truth_keys)
		sim_violation(sim, "writer: stats count %llu keys, there are %llu",
			(unsigned long long)stats.keys, (unsigned long long)writer->truth_keys);
	if (stats.payload_bytes != writer->truth_payload)
		sim_violation(sim, "writer: stats count %llu bytes of payload, there are %llu",
			(unsigned long long)stats.payload_bytes,
			(unsigned long long)writer->truth_payload);
	/*
	 * Two directories grow with the segments, after memory was given out; and where nothing but
	 * fragments is left the cleaner borrows a segment.
	 */
	slack = 2 * stats.segments * sizeof(struct kw_directory_segment) +
		2 * sim->plan.segment_bytes;
	if (stats.used_bytes > writer->used_ceiling + slack)
		sim_violation(sim, "writer: %llu bytes in use, %llu allowed",
			(unsigned long long)stats.used_bytes,
			(unsigned long long)writer->used_ceiling);
	if (stats.live_bytes > stats.used_bytes || stats.live_bytes < stats.payload_bytes)
		sim_violation(sim, "writer: %llu live bytes of %llu used, %llu payload",
			(unsigned long long)stats.live_bytes, (unsigned long long)stats.used_bytes,
			(unsigned long long)stats.payload_bytes);
	if (stats.capacity_bytes != writer->max_bytes)
		sim_violation(sim, "writer: stats say %llu bytes of capacity",
			(unsigned long long)stats.capacity_bytes);
	if (stats.version < writer->last_version || stats.tombstone_floor < writer->last_floor)
		sim_violation(sim, "writer: version or tombstone floor went back");
	if (stats.tombstone_floor > stats.version)
		sim_violation(sim, "writer: the tombstone floor is above every version");
	/* Once below the limit, it may not climb over it again. */
	if (stats.used_bytes <= writer->max_bytes)
		writer->used_ceiling = writer->max_bytes;
	if (stats.let_go_version != writer->last_let_go)
		sim->counts.let_go++;
	writer->last_let_go = stats.let_go_version;
	writer->last_version = stats.version;
	writer->last_floor = stats.tombstone_floor;
}

void sim_writer_check(struct sim *sim, bool all)
{
	const struct sim_plan *plan = &sim->plan;

	check_stats(sim);
	for (uint32_t database = 0; database < plan->databases; database++) {
		if (kw_table_database_keys(sim->writer.table, database) !=
			sim->writer.database_keys[database])
			sim_violation(sim, "writer: database %u counts wrongly", database);
		if (!all)
			continue;
		for (uint32_t number = 0; number < plan->keys; number++)
			check_key(sim, database, number);
	}
	for (int i = 0; i < FEW_KEYS && !all; i++)
		check_key(sim, (uint32_t)prng_below(&sim->prng, plan->databases),
			(uint32_t)prng_below(&sim->prng, plan->keys));
}

void sim_writer_check_record(struct sim *sim, const struct kw_record_view *record, uint64_t lineage)
{
	const struct sim_writer *writer = &sim->writer;
	const struct sim_version *was;

	if (record->database == SIM_DATABASES && kw_slice_equal(record->key, SIM_DRAINED_KEY))
		return;
	if (record->version >= writer->history_room || writer->history[record->version].kind == 0) {
		sim_violation(sim, "agent: version %llu was handed on, but never written",
			(unsigned long long)record->version);
		return;
	}
	was = &writer->history[record->version];
	if (was->kind != record->kind || was->database != record->database ||
		(record->kind != KW_RECORD_FLUSH &&
			sim_key_number(record->key) != (int)was->number))
		sim_violation(sim, "agent: version %llu was handed on as something else",
			(unsigned long long)record->version);
	else if (record->kind == KW_RECORD_PUT &&
		 (record->value.length != was->length ||
			 sim_value_hash(record->value) != was->hash ||
			 record->expires_ms != was->expires_ms))
		sim_violation(sim, "agent: version %llu was handed on with another value",
			(unsigned long long)record->version);
	if (was->lineage > lineage)
		sim_violation(sim, "agent: version %llu came before its history %llu, after %llu",
			(unsigned long long)record->version, (unsigned long long)was->lineage,
			(unsigned long long)lineage);
}
