/*
 * The simulator: one writer, a few agents, and a network that delays, tears and loses READs.
 *
 *   writer (kw_table) ──writes──▶ memory ◀──samples bytes── wire ◀──READs── agents (kw_reader)
 *       │                                                                      │
 *     truth ◀─────────────────── compared after every quiescence ──────────▶ replica
 *
 * A schedule is a list of steps drawn from one seed: the writer does something, or a piece of a
 * READ is sampled, or an agent is polled, stopped, killed. Everything runs in one thread; nothing
 * in it looks at a clock, an address or anything else that a second run would see differently.
 *
 * The first promise that does not hold ends the schedule: sim_violation keeps its sentence.
 */
#ifndef KW_SIM_SIM_H
#define KW_SIM_SIM_H

#include "base/slice.h"
#include "prng.h"
#include "table/reader.h"
#include "table/table.h"

#include <stdbool.h>
#include <stdint.h>

#define SIM_RESERVE_BYTES (UINT64_C(64) << 20)
#define SIM_KEYS_MAX 4096 /* key numbers in one database */
#define SIM_DATABASES 4
#define SIM_AGENTS_MAX 4
#define SIM_VALUE_MAX (UINT32_C(96) << 10)
#define SIM_EXTENTS_MAX 256

/* What one schedule is like; drawn from its seed. */
struct sim_plan {
	uint32_t steps;  /* per phase */
	uint32_t phases; /* each ends in a quiescence */
	uint32_t keys, databases;
	uint32_t agents;
	uint32_t value_bytes; /* typical */
	uint64_t segment_bytes, max_bytes;
	uint64_t retention_us, grace_us, step_us;
	uint64_t drop_seed;
	unsigned writer_weight, wire_weight, agent_weight; /* who makes the next step */
	unsigned delete_chance, flush_chance, publish_chance, large_chance, same_chance;
	unsigned fault_chance; /* lost READs, stops, kills */
	unsigned tear_chance, word_chance, slow_chance;
	uint32_t delay_steps;   /* a slow READ begins this late, at most */
	uint32_t between_steps; /* and a torn one rests so long between samples: others recycle */
	unsigned pages_chance;  /* sample READs in the middle of a writer's operation */
	unsigned epoch_chance, resize_chance, marks_chance, lookup_chance, lineage_chance;
	unsigned keep_chance; /* the proxy ends in good order, and the next one adopts the table */
	uint32_t lookups;     /* at once */
	uint32_t lookup_places; /* remembered; 0: none */
	bool track_passed;      /* the writer hears how far agents are */
	uint32_t held_part;     /* and keeps tombstones for them in this part of the memory */
	bool limited_room;
	struct kw_reader_options reader;
	int broken_rule;
};

/* What is true of one key; of a deleted one `present` is false. */
struct sim_value {
	bool present;
	uint32_t length;
	uint64_t hash;
	uint64_t expires_ms;
	uint64_t version; /* of the record that says so */
};

typedef struct sim_value sim_map[SIM_DATABASES][SIM_KEYS_MAX];

/* What one version of this epoch was, so that nothing made up can be handed on unnoticed. */
struct sim_version {
	enum kw_record_kind kind; /* 0: no record has this version */
	uint32_t database, number;
	uint32_t length;
	uint64_t hash;
	uint64_t expires_ms;
	uint64_t lineage; /* whose data were written then */
};

/*
 * What happened, for --verbose: a schedule in which nothing of a kind happened tests nothing of it.
 * `within` counts samples taken while the writer was in the middle of an operation.
 */
/* clang-format off */
#define SIM_COUNTS(X) \
	X(steps) X(puts) X(full) X(promised) X(deletes) X(deletes_full) X(flushes) X(walks) \
	X(epochs) X(drains) X(sessions) X(snapshots) X(lapses) X(failures) X(corrupt) X(kills) \
	X(records) X(passes) X(vanished) X(given_back) X(reads) X(lost) X(within) X(lookups) \
	X(found) X(absent) X(uncertain) X(guesses) X(guessed) X(parked) X(ahead) X(ahead_used) \
	X(looks) X(tailed) X(unpublished) X(lineages) X(kept) X(let_go)
/* clang-format on */

struct sim_counts {
#define SIM_COUNT_FIELD(name) uint64_t name;
	SIM_COUNTS(SIM_COUNT_FIELD)
#undef SIM_COUNT_FIELD
};

struct sim;

/* ---- keys and values: numbers and tags made into bytes (content.c) ---- */

#define SIM_KEY_BYTES_MAX 64

/* Key 0 is empty, the others are binary, of several lengths, and carry their number. */
struct kw_slice sim_key(uint32_t number, uint8_t buffer[SIM_KEY_BYTES_MAX]);

/* The number of a key, or -1 when these bytes are no key of ours. */
int sim_key_number(struct kw_slice key);

/* `length` bytes that only this tag has; valid until the next call. */
struct kw_slice sim_value_bytes(uint64_t tag, uint32_t length);
uint64_t sim_value_hash(struct kw_slice value);

/* Put and deleted again by sim_writer_drain, in a database that no plan uses. */
#define SIM_DRAINED_KEY kw_slice_text("drained")

/* ---- writer.c ---- */

struct sim_writer {
	struct kw_table *table;
	struct kw_table_memory memory;
	struct kw_extent extents[SIM_EXTENTS_MAX];
	int extent_count;
	sim_map truth;
	uint64_t truth_keys, truth_payload, database_keys[SIM_DATABASES];
	uint64_t epoch, now_us, max_bytes, used_ceiling;
	uint64_t last_version, last_floor, last_let_go;
	uint64_t lineage;            /* how often the history of the data has changed */
	struct sim_version *history; /* by version, of this epoch */
	uint64_t history_room;
	/* one reconcile walk at a time */
	bool walking;
	uint64_t walk_cursor;
	bool seen[SIM_DATABASES][SIM_KEYS_MAX];     /* since marks_begin */
	bool was_live[SIM_DATABASES][SIM_KEYS_MAX]; /* ever since marks_begin */
	bool handed[SIM_DATABASES][SIM_KEYS_MAX];
};

/*
 * fault.c: what is done to writer and reader from within, as the plan says. Begin with each table,
 * publish before each publication, end with the table.
 */
void sim_fault_begin(const struct sim_plan *plan);
void sim_fault_publish(void);
void sim_fault_end(void);

void sim_writer_open(struct sim *sim);
void sim_writer_close(struct sim *sim);
/* The proxy starts anew: another epoch over zeroed memory. */
void sim_writer_restart(struct sim *sim);
/* The proxy ends in good order, and another adopts its table: in the same epoch and memory. */
void sim_writer_keep(struct sim *sim);
void sim_writer_step(struct sim *sim);
void sim_writer_publish(struct sim *sim);
/* Delete everything; then a put must be possible again, however full the table was. */
void sim_writer_drain(struct sim *sim);

/* Everything that must hold of the writer; `all` keys or a few. (check.c) */
void sim_writer_check(struct sim *sim, bool all);
/*
 * Is this record one that the writer wrote in this epoch? lineage: the agent knows of that history,
 * and of those before it. (check.c)
 */
void sim_writer_check_record(
	struct sim *sim, const struct kw_record_view *record, uint64_t lineage);

/* ---- wire.c ---- */

struct sim_wire;

/* Whose READs they are, and what a carrier lets that one read. */
struct sim_client {
	int index;                                 /* for sentences */
	uint64_t epoch;                            /* of the table it believes to read; 0: none */
	struct kw_extent extents[SIM_EXTENTS_MAX]; /* what the carrier lets it read */
	int extent_count;
};

/* One READ: copied when posted; `done` ends it (NULL: well) unless the client is forgotten. */
struct sim_request {
	struct sim_client *client;
	uint64_t offset, length;
	uint8_t *buffer;
	void (*done)(const struct sim_request *request, const struct kw_error *error);
	void *owner, *read; /* the client's own */
};

struct sim_wire *sim_wire_new(struct sim *sim);
void sim_wire_free(struct sim_wire *wire);
void sim_wire_post(struct sim_wire *wire, const struct sim_request *request);
/* One sample of one READ, or its end. */
void sim_wire_step(struct sim_wire *wire);
/* One sample only, never an end: may be called while the writer is at work. */
void sim_wire_sample(struct sim_wire *wire);
/* Sample and end all that is out, and what that brings, in order and truly. */
void sim_wire_drain(struct sim_wire *wire);
/* Forget the READs of a client that is no more. */
void sim_wire_forget(struct sim_wire *wire, const struct sim_client *client);

/* A new connection may read what the handshake tells: the first extent. */
void sim_client_connect(struct sim_client *client, const struct sim *sim);
/* A directory was verified. */
void sim_client_extents(
	struct sim_client *client, struct sim *sim, const struct kw_extent *extents, int count);

/* ---- agent.c ---- */

struct sim_agent {
	struct sim *sim;
	int index;
	struct sim_client client; /* its epoch: of the session, the superblock last seen */
	struct kw_reader *reader;
	struct kw_cursor cursor; /* as the replica remembers it; epoch 0: none */
	sim_map replica;
	bool in_snapshot[SIM_DATABASES][SIM_KEYS_MAX];
	uint64_t applied[SIM_DATABASES]
			[SIM_KEYS_MAX];     /* highest version handed on in this session */
	bool snapshot;                      /* one is under way */
	uint64_t epoch;                     /* of the session: the superblock last seen */
	uint64_t publication, head_version; /* of that superblock */
	uint64_t lineage;                   /* that it names */
	uint64_t newest;                    /* the last pass's head, or what a look took beyond */
	uint64_t consistent;                /* last pass_done's, for monotony */
	uint64_t passed;                    /* what it would report to the proxy */
	uint64_t room, overrun; /* what was handed on without room, since there was none */
	uint32_t paused;        /* steps to sit out */
	bool want_snapshot;     /* lapsed: start without a cursor */
	bool epoch_moved;       /* during this session, so that odd bytes are no wonder */
	bool settled;           /* the last pass moved nothing and was consistent */
	bool was_lost;          /* the simulator made a READ fail in this session */
	bool began_calm;        /* the session saw no fault at all */
};

void sim_agent_open(struct sim *sim, int index);
void sim_agent_close(struct sim_agent *agent);
void sim_agent_step(struct sim_agent *agent);
/* Without faults: start, poll, make room. */
void sim_agent_nudge(struct sim_agent *agent);
/* SIGKILL: the reader and its READs are gone, replica and cursor stay. */
void sim_agent_kill(struct sim_agent *agent);
void sim_agent_compare(struct sim_agent *agent);

/* ---- lookup.c: single keys through the index and remembered places, by kw_lookups ---- */

struct sim_lookup;

struct sim_lookup *sim_lookup_new(struct sim *sim, int index);
void sim_lookup_free(struct sim_lookup *lookup);
/* Begin a lookup of some key, or look at the superblock, if there is room for another. */
void sim_lookup_step(struct sim_lookup *lookup);
/* The writer removed this key: a lookup of it may well say so. */
void sim_lookup_removed(struct sim_lookup *lookup, uint32_t database, uint32_t number);
/* The writer's epoch changed: what is under way may end in any way. */
void sim_lookup_epoch_moved(struct sim_lookup *lookup);
/* In a calm: look up every key, and expect the truth. */
void sim_lookup_all(struct sim_lookup *lookup);

/* ---- pages.c: stops the writer at its first store to each page ---- */

void sim_pages_arm(struct sim *sim);
void sim_pages_disarm(struct sim *sim);

/* ---- schedule.c ---- */

struct sim {
	struct prng prng;
	struct sim_plan plan;
	uint8_t *memory; /* SIM_RESERVE_BYTES, zeroed by whoever begins an epoch */
	struct sim_writer writer;
	struct sim_agent *agents[SIM_AGENTS_MAX];
	struct sim_lookup *lookup;
	struct sim_wire *wire;
	struct sim_counts counts;
	bool calm; /* quiescence: no faults, no tears */
	bool violated;
	char violation[512];
};

/* Only the first is kept. */
void sim_violation(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Run one schedule; true when every promise held. The sentence is in sim->violation otherwise. */
bool sim_run(struct sim *sim, uint64_t seed, int broken_rule);

#endif
