#include "sim.h"

#include "base/buffer.h"

#include <stdlib.h>
#include <string.h>

#define UNLIMITED (UINT64_C(1) << 40)
#define PAUSE_STEPS_MAX 400
#define IGNORED (-2) /* the key of sim_writer_drain */

/* ---- the reader's io ---- */

static void read_done(const struct sim_request *request, const struct kw_error *error)
{
	struct sim_agent *agent = request->owner;

	if (error)
		agent->was_lost = true;
	kw_reader_complete(request->read, error);
}

static void io_read(void *arg, struct kw_read *const *reads, int count)
{
	struct sim_agent *agent = arg;

	for (int i = 0; i < count; i++)
		sim_wire_post(agent->sim->wire,
			&(struct sim_request){&agent->client, reads[i]->offset, reads[i]->length,
				reads[i]->buffer, read_done, agent, reads[i]});
}

static void io_extents(void *arg, const struct kw_extent *extents, int count)
{
	struct sim_agent *agent = arg;

	sim_client_extents(&agent->client, agent->sim, extents, count);
}

/* ---- the sink: what an agent does to its replica ---- */

/* Beyond the head that it knows an agent may only be handed the very next record. */
static void check_beyond_head(struct sim_agent *agent, const struct kw_record_view *record)
{
	const struct kw_superblock *published = (const void *)agent->sim->memory;

	if (agent->snapshot || record->version != agent->newest + 1)
		sim_violation(agent->sim,
			"agent %d: version %llu, but the head is at %llu, and the tail at %llu",
			agent->index, (unsigned long long)record->version,
			(unsigned long long)agent->head_version, (unsigned long long)agent->newest);
	agent->newest = record->version;
	agent->sim->counts.tailed++;
	agent->sim->counts.unpublished += record->version > published->version;
}

static int check_record(struct sim_agent *agent, const struct kw_record_view *record)
{
	struct sim *sim = agent->sim;
	int number;

	if (agent->client.epoch == sim->writer.epoch)
		sim_writer_check_record(sim, record, agent->lineage);
	if (record->version > agent->head_version)
		check_beyond_head(agent, record);
	if (record->database == SIM_DATABASES)
		return IGNORED;
	if (record->database > SIM_DATABASES) {
		sim_violation(
			sim, "agent %d: a record of database %u", agent->index, record->database);
		return IGNORED;
	}
	if (record->kind == KW_RECORD_FLUSH)
		return 0;
	number = sim_key_number(record->key);
	if (number < 0) {
		sim_violation(sim, "agent %d: a key that never was", agent->index);
		return IGNORED;
	}
	if (record->version < agent->applied[record->database][number])
		sim_violation(sim, "agent %d: key %d of database %u went back from %llu to %llu",
			agent->index, number, record->database,
			(unsigned long long)agent->applied[record->database][number],
			(unsigned long long)record->version);
	agent->applied[record->database][number] = record->version;
	return number;
}

static void apply_flush(struct sim_agent *agent, const struct kw_record_view *record)
{
	for (uint32_t number = 0; number < agent->sim->plan.keys; number++) {
		if (agent->applied[record->database][number] > record->version)
			sim_violation(agent->sim,
				"agent %d: flush %llu of database %u came after key %u at %llu",
				agent->index, (unsigned long long)record->version, record->database,
				number,
				(unsigned long long)agent->applied[record->database][number]);
		agent->applied[record->database][number] = record->version;
		agent->replica[record->database][number].present = false;
	}
}

/* The last READ may go beyond the room there was, and a large record may; nothing more. */
static void take_room(struct sim_agent *agent, uint64_t taken)
{
	uint64_t chunk = agent->sim->plan.reader.chunk_bytes;

	if (agent->room >= taken) {
		agent->room -= taken;
		return;
	}
	agent->overrun += taken - agent->room;
	agent->room = 0;
	if (agent->overrun > SIM_VALUE_MAX + SIM_KEY_BYTES_MAX + 64 + (chunk ? chunk : 128 << 10))
		sim_violation(agent->sim, "agent %d: %llu bytes were handed on without room",
			agent->index, (unsigned long long)agent->overrun);
}

static void apply_record(struct sim_agent *agent, const struct kw_record_view *record)
{
	uint64_t taken = kw_record_stride(record->length);
	int number = check_record(agent, record);

	agent->sim->counts.records++;
	take_room(agent, taken);
	if (agent->snapshot && record->kind != KW_RECORD_PUT)
		sim_violation(agent->sim, "agent %d: a snapshot holds puts only, not kind %d",
			agent->index, (int)record->kind);
	if (number == IGNORED)
		return;
	if (agent->snapshot) {
		if (agent->in_snapshot[record->database][number])
			sim_violation(agent->sim,
				"agent %d: key %d of database %u came twice in one snapshot",
				agent->index, number, record->database);
		agent->in_snapshot[record->database][number] = true;
	}
	switch (record->kind) {
	case KW_RECORD_PUT:
		agent->replica[record->database][number] = (struct sim_value){
			.present = true,
			.length = (uint32_t)record->value.length,
			.hash = sim_value_hash(record->value),
			.expires_ms = record->expires_ms,
			.version = record->version,
		};
		break;
	case KW_RECORD_DELETE:
		agent->replica[record->database][number].present = false;
		break;
	case KW_RECORD_FLUSH:
		apply_flush(agent, record);
		break;
	case KW_RECORD_HIDDEN:
		sim_violation(agent->sim, "agent %d: a hidden record", agent->index);
		break;
	}
}

static void sink_records(void *arg, const struct kw_record_view *records, size_t count)
{
	struct sim_agent *agent = arg;

	if (count == 0 || count > KW_READER_BATCH)
		sim_violation(agent->sim, "agent %d: a batch of %zu records", agent->index, count);
	for (size_t i = 0; i < count; i++)
		apply_record(agent, &records[i]);
}

static void sink_snapshot_begin(void *arg, uint64_t epoch, uint64_t version)
{
	struct sim_agent *agent = arg;

	if (agent->snapshot)
		sim_violation(agent->sim, "agent %d: a snapshot within a snapshot", agent->index);
	agent->snapshot = true;
	agent->sim->counts.snapshots++;
	agent->passed = version;
	/*
	 * Before the first record: from here on the replica is between two states, and what the
	 * old cursor said no longer describes it.
	 */
	agent->cursor = (struct kw_cursor){.epoch = epoch};
	memset(agent->in_snapshot, 0, sizeof agent->in_snapshot);
}

static uint64_t sink_room(void *arg)
{
	const struct sim_agent *agent = arg;

	return agent->room;
}

static void sink_superblock(void *arg, const struct kw_superblock *superblock)
{
	struct sim_agent *agent = arg;

	if (agent->client.epoch == superblock->epoch &&
		agent->publication > superblock->publication)
		sim_violation(agent->sim, "agent %d: the superblock went back", agent->index);
	if (agent->client.epoch == superblock->epoch && agent->head_version > superblock->version)
		sim_violation(agent->sim, "agent %d: the head's version went back", agent->index);
	agent->client.epoch = superblock->epoch;
	agent->publication = superblock->publication;
	agent->head_version = superblock->version;
}

/* Told before the sink is, and before any record of that superblock. */
static void driver_superblock(
	void *arg, const struct kw_superblock *superblock, const struct kw_history *history)
{
	struct sim_agent *agent = arg;

	if ((superblock->history_checksum != 0) != (history->standing == KW_HISTORY_TOLD))
		sim_violation(agent->sim, "agent %d: another history than the superblock's",
			agent->index);
	agent->lineage = strtoull(history->replid, NULL, 16);
}

static void driver_done(void *arg, bool moved)
{
}

static void driver_failed(void *arg, const struct kw_error *error)
{
}

static void prune(struct sim_agent *agent)
{
	for (uint32_t database = 0; database < SIM_DATABASES; database++)
		for (uint32_t number = 0; number < agent->sim->plan.keys; number++)
			if (!agent->in_snapshot[database][number])
				agent->replica[database][number].present = false;
}

static void sink_pass_done(void *arg, const struct kw_reader_pass *pass)
{
	struct sim_agent *agent = arg;
	struct sim *sim = agent->sim;

	if (pass->snapshot != agent->snapshot)
		sim_violation(sim, "agent %d: the end of a %s was told, but it was none",
			agent->index, pass->snapshot ? "snapshot" : "tail");
	if (pass->consistent < agent->consistent || pass->consistent > pass->version)
		sim_violation(sim, "agent %d: consistent %llu after %llu, head %llu", agent->index,
			(unsigned long long)pass->consistent, (unsigned long long)agent->consistent,
			(unsigned long long)pass->version);
	if (pass->vanished && pass->consistent != agent->consistent)
		sim_violation(sim, "agent %d: consistent advanced though a segment vanished",
			agent->index);
	if (pass->snapshot)
		prune(agent);
	agent->snapshot = false;
	if (pass->version > agent->newest)
		agent->newest = pass->version;
	sim->counts.passes++;
	sim->counts.vanished += pass->vanished;
	agent->consistent = pass->consistent;
	if (pass->consistent > agent->passed)
		agent->passed = pass->consistent;
	/* The cursor is written now and then, as an agent under load does. */
	if (sim->calm || prng_chance(&sim->prng, 600))
		agent->cursor = (struct kw_cursor){pass->epoch, pass->consistent};
	agent->settled = !pass->moved && !pass->vanished && pass->consistent == pass->version &&
			 pass->epoch == sim->writer.epoch &&
			 pass->version == sim->writer.last_version;
}

static void sink_look_done(void *arg, bool found)
{
	struct sim_agent *agent = arg;

	if (agent->snapshot)
		sim_violation(
			agent->sim, "agent %d: a look at the tail within a snapshot", agent->index);
	if (found)
		agent->settled = false;
}

static void session_over(struct sim_agent *agent)
{
	agent->snapshot = false;
	agent->settled = false;
}

static void sink_lapsed(void *arg, const char *why)
{
	struct sim_agent *agent = arg;

	if (!kw_reader_idle(agent->reader))
		sim_violation(agent->sim, "agent %d: lapsed, but not idle (%s)", agent->index, why);
	agent->sim->counts.lapses++;
	agent->want_snapshot = true;
	session_over(agent);
}

static void sink_failed(void *arg, const struct kw_error *error)
{
	struct sim_agent *agent = arg;
	bool wonder = !agent->was_lost && !agent->epoch_moved;

	if (!kw_reader_idle(agent->reader))
		sim_violation(agent->sim, "agent %d: failed, but not idle", agent->index);
	if (error->code == KW_OK || error->text[0] == '\0')
		sim_violation(agent->sim, "agent %d: failed without a reason", agent->index);
	agent->sim->counts.failures++;
	agent->sim->counts.corrupt += error->code == KW_E_CORRUPT;
	if (wonder && (agent->began_calm || error->code == KW_E_CORRUPT))
		sim_violation(agent->sim,
			"agent %d: nothing was lost, but the reader failed: %s: %s", agent->index,
			kw_code_name(error->code), error->text);
	session_over(agent);
}

/* ---- life ---- */

static void new_reader(struct sim_agent *agent)
{
	const struct kw_reader_io io = {.read = io_read, .extents = io_extents, .arg = agent};
	const struct kw_reader_sink sink = {
		.snapshot_begin = sink_snapshot_begin,
		.records = sink_records,
		.room = sink_room,
		.superblock = sink_superblock,
		.pass_done = sink_pass_done,
		.look_done = sink_look_done,
		.lapsed = sink_lapsed,
		.failed = sink_failed,
		.arg = agent,
	};

	const struct kw_reader_driver driver = {
		driver_superblock, driver_done, driver_done, driver_failed, agent};

	agent->reader = kw_reader_new(&agent->sim->plan.reader, &io, &sink);
	kw_reader_set_driver(agent->reader, &driver);
}

void sim_agent_open(struct sim *sim, int index)
{
	struct sim_agent *agent = kw_zalloc(sizeof *agent);

	agent->sim = sim;
	agent->index = agent->client.index = index;
	agent->room = UNLIMITED;
	/* Some come late, to a table that has been lived in. */
	if (prng_chance(&sim->prng, 400))
		agent->paused = (uint32_t)prng_below(&sim->prng, PAUSE_STEPS_MAX);
	new_reader(agent);
	sim->agents[index] = agent;
}

/* What it did ahead is counted when it goes: without any, a schedule tests nothing of it. */
static void free_reader(struct sim_agent *agent)
{
	const struct kw_reader_stats *stats = kw_reader_stats(agent->reader);

	agent->sim->counts.ahead += stats->ahead;
	agent->sim->counts.ahead_used += stats->ahead_used;
	agent->sim->counts.looks += stats->looks;
	kw_reader_free(agent->reader);
}

void sim_agent_close(struct sim_agent *agent)
{
	if (!agent)
		return;
	sim_wire_forget(agent->sim->wire, &agent->client);
	free_reader(agent);
	free(agent);
}

void sim_agent_kill(struct sim_agent *agent)
{
	agent->sim->counts.kills++;
	sim_wire_forget(agent->sim->wire, &agent->client);
	free_reader(agent);
	session_over(agent);
	new_reader(agent);
}

static void start(struct sim_agent *agent)
{
	struct kw_cursor cursor = agent->cursor;
	/*
	 * A cursor of version 0 says that a snapshot was under way: what it had not pruned yet is
	 * still there, so only another snapshot can tell.
	 */
	bool resume = cursor.version > 0 && !agent->want_snapshot;

	memset(agent->applied, 0, sizeof agent->applied);
	agent->sim->counts.sessions++;
	agent->want_snapshot = false;
	agent->epoch_moved = agent->was_lost = agent->settled = agent->snapshot = false;
	agent->began_calm = agent->sim->calm;
	agent->publication = agent->head_version = agent->newest = 0;
	agent->passed = agent->consistent = resume ? cursor.version : 0;
	sim_client_connect(&agent->client, agent->sim);
	kw_reader_start(agent->reader, resume ? &cursor : NULL);
}

static void fault(struct sim_agent *agent)
{
	struct prng *prng = &agent->sim->prng;

	switch (prng_below(prng, 4)) {
	case 0:
		sim_agent_kill(agent);
		return;
	case 1:
		agent->paused = (uint32_t)prng_below(prng, PAUSE_STEPS_MAX);
		break;
	case 2:
		agent->want_snapshot = true; /* the operator asks for a resync */
		break;
	default:
		break;
	}
	kw_reader_stop(agent->reader);
	session_over(agent);
	if (!kw_reader_idle(agent->reader))
		sim_violation(agent->sim, "agent %d: stopped, but not idle", agent->index);
}

static void give_room(struct sim_agent *agent)
{
	struct prng *prng = &agent->sim->prng;

	if (!agent->sim->plan.limited_room || agent->sim->calm)
		agent->room = UNLIMITED;
	else if (agent->room == 0 && prng_chance(prng, 300))
		agent->room = prng_range(prng, 1, 8 << 10);
	else
		return;
	agent->overrun = 0;
	kw_reader_resume(agent->reader);
}

void sim_agent_nudge(struct sim_agent *agent)
{
	give_room(agent);
	if (kw_reader_idle(agent->reader))
		start(agent);
	else if (kw_reader_waiting(agent->reader)) {
		/* Now and then by the owner's clock, which knows nothing of the reader's count. */
		if (prng_chance(&agent->sim->prng, 50))
			kw_reader_want_superblock(agent->reader);
		kw_reader_poll(agent->reader);
	}
}

void sim_agent_step(struct sim_agent *agent)
{
	if (agent->paused > 0) {
		agent->paused--;
		return;
	}
	if (prng_chance(&agent->sim->prng, agent->sim->plan.fault_chance)) {
		fault(agent);
		return;
	}
	sim_agent_nudge(agent);
}

void sim_agent_compare(struct sim_agent *agent)
{
	const struct sim *sim = agent->sim;

	for (uint32_t database = 0; database < sim->plan.databases; database++)
		for (uint32_t number = 0; number < sim->plan.keys; number++) {
			const struct sim_value *truth = &sim->writer.truth[database][number];
			const struct sim_value *mine = &agent->replica[database][number];
			bool same =
				truth->present == mine->present &&
				(!truth->present || (truth->length == mine->length &&
							    truth->hash == mine->hash &&
							    truth->expires_ms == mine->expires_ms));

			if (same)
				continue;
			sim_violation(agent->sim, "agent %d: key %u of database %u is %s",
				agent->index, number, database,
				!mine->present   ? "lost"
				: truth->present ? "old"
						 : "not deleted");
			return;
		}
}
