#include "sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define ROUNDS_MAX (64 + 4 * KW_READER_LOOKS) /* polls until everybody must be at rest */
#define CHECK_ALL_EVERY 256                   /* steps */
#define LOOK_UP_ALL_MAX 150                   /* keys */

void sim_violation(struct sim *sim, const char *format, ...)
{
	va_list args;

	if (sim->violated)
		return;
	sim->violated = true;
	va_start(args, format);
	vsnprintf(sim->violation, sizeof sim->violation, format, args);
	va_end(args);
}

static uint64_t one_of(struct prng *prng, const uint64_t *choices, size_t count)
{
	return choices[prng_below(prng, count)];
}

#define ONE_OF(prng, ...)                                                                          \
	one_of(prng, (const uint64_t[]){__VA_ARGS__},                                              \
		sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

static void draw_sizes(struct prng *prng, struct sim_plan *plan)
{
	plan->keys = (uint32_t)ONE_OF(prng, 3, 8, 30, 120, 400);
	plan->databases = (uint32_t)prng_range(prng, 1, SIM_DATABASES);
	plan->agents = (uint32_t)prng_range(prng, 2, SIM_AGENTS_MAX);
	plan->value_bytes = (uint32_t)ONE_OF(prng, 10, 60, 200, 700);
	plan->segment_bytes = ONE_OF(prng, 4096, 4096, 4096, 8192, 16384);
	plan->max_bytes = plan->segment_bytes * ONE_OF(prng, 40, 64, 100, 200, 600);
	plan->steps = (uint32_t)ONE_OF(prng, 200, 600, 1500, 3000);
	plan->phases = (uint32_t)prng_range(prng, 1, 3);
	if (prng_chance(prng, 30)) {
		/* Now and then a table that its index must grow for. */
		plan->keys = SIM_KEYS_MAX;
		plan->max_bytes *= 16;
		if (plan->max_bytes > SIM_RESERVE_BYTES / 2)
			plan->max_bytes = SIM_RESERVE_BYTES / 2;
		plan->steps = 12000;
		plan->phases = 1;
	}
}

static void draw_time(struct prng *prng, struct sim_plan *plan)
{
	plan->step_us = ONE_OF(prng, 1, 100, 5000);
	plan->retention_us = ONE_OF(prng, 0, 1000, 100000, 10000000);
	plan->grace_us = ONE_OF(prng, 0, 0, 500, 20000);
	plan->drop_seed = prng_chance(prng, 500) ? prng_next(prng) | 1 : 0;
	plan->track_passed = prng_chance(prng, 500);
}

/*
 * Little memory, reused at once, under READs that take for ever and come apart at one word: what
 * stands in the way of a recycled segment's bytes is the checksum alone, and nothing but the
 * protocol guards what no checksum covers.
 */
static void draw_storm(struct prng *prng, struct sim_plan *plan)
{
	plan->keys = (uint32_t)ONE_OF(prng, 8, 30);
	plan->value_bytes = (uint32_t)ONE_OF(prng, 10, 60);
	plan->segment_bytes = 4096;
	plan->max_bytes = plan->segment_bytes * 40;
	plan->grace_us = 0;
	plan->large_chance = 0;
	plan->writer_weight = 20;
	plan->wire_weight = (unsigned)ONE_OF(prng, 10, 20, 40);
	plan->publish_chance = 300;
	plan->tear_chance = 700;
	plan->word_chance = 900;
	plan->slow_chance = 500;
	plan->between_steps = (uint32_t)ONE_OF(prng, 20, 100);
	plan->steps = 3000;
}

static void draw_plan(struct prng *prng, struct sim_plan *plan, int broken_rule)
{
	memset(plan, 0, sizeof *plan);
	draw_sizes(prng, plan);
	draw_time(prng, plan);
	plan->writer_weight = (unsigned)prng_range(prng, 1, 20);
	plan->wire_weight = (unsigned)prng_range(prng, 5, 40);
	plan->agent_weight = (unsigned)prng_range(prng, 2, 10);
	plan->delete_chance = (unsigned)ONE_OF(prng, 20, 200, 450);
	plan->flush_chance = (unsigned)ONE_OF(prng, 0, 2, 20);
	plan->publish_chance = (unsigned)ONE_OF(prng, 30, 200, 500);
	plan->large_chance = (unsigned)ONE_OF(prng, 0, 5, 60);
	plan->same_chance = (unsigned)ONE_OF(prng, 0, 100, 400);
	plan->fault_chance = (unsigned)ONE_OF(prng, 0, 2, 15);
	plan->tear_chance = (unsigned)ONE_OF(prng, 0, 300, 600);
	plan->word_chance = (unsigned)ONE_OF(prng, 0, 500);
	plan->slow_chance = (unsigned)ONE_OF(prng, 0, 100, 400);
	plan->delay_steps = (uint32_t)ONE_OF(prng, 40, 40, 300);
	plan->between_steps = (uint32_t)ONE_OF(prng, 0, 0, 10, 60);
	plan->pages_chance = (unsigned)ONE_OF(prng, 0, 100);
	plan->epoch_chance = prng_chance(prng, 200) ? 1 : 0;
	plan->resize_chance = (unsigned)ONE_OF(prng, 0, 0, 10);
	plan->lookup_chance = (unsigned)ONE_OF(prng, 0, 300, 900);
	plan->lookups = (uint32_t)ONE_OF(prng, 1, 4, 16);
	plan->lookup_places = (uint32_t)ONE_OF(prng, 0, 8, 4096);
	plan->marks_chance = (unsigned)ONE_OF(prng, 0, 100);
	plan->limited_room = prng_chance(prng, 300);
	if (prng_chance(prng, 80))
		draw_storm(prng, plan);
	plan->reader.chunk_bytes = (uint32_t)ONE_OF(prng, 256, 1024, 4096, 0);
	plan->reader.depth = (uint32_t)prng_range(prng, 1, 8);
	plan->reader.tries = 24;
	plan->reader.ahead = (enum kw_ahead)ONE_OF(
		prng, KW_AHEAD_FREE, KW_AHEAD_FREE, KW_AHEAD_FREE, KW_AHEAD_OFF);
	plan->broken_rule = broken_rule;
}

static void writer_turn(struct sim *sim)
{
	bool pages = prng_chance(&sim->prng, sim->plan.pages_chance);

	if (prng_chance(&sim->prng, sim->plan.epoch_chance) && prng_chance(&sim->prng, 500)) {
		sim_writer_restart(sim);
		return;
	}
	if (sim->plan.keep_chance > 0 && prng_chance(&sim->prng, sim->plan.keep_chance)) {
		sim_writer_keep(sim);
		sim_writer_check(sim, true);
		return;
	}
	if (pages)
		sim_pages_arm(sim);
	sim_writer_step(sim);
	if (pages)
		sim_pages_disarm(sim);
	sim_writer_check(sim, sim->counts.steps % CHECK_ALL_EVERY == 0);
}

static void run_step(struct sim *sim)
{
	const struct sim_plan *plan = &sim->plan;
	uint64_t turn = prng_below(
		&sim->prng, plan->writer_weight + plan->wire_weight + plan->agent_weight);

	sim->counts.steps++;
	if (turn < plan->writer_weight)
		writer_turn(sim);
	else if (turn < plan->writer_weight + plan->wire_weight)
		sim_wire_step(sim->wire);
	else if (prng_chance(&sim->prng, plan->lookup_chance))
		sim_lookup_step(sim->lookup);
	else
		sim_agent_step(sim->agents[prng_below(&sim->prng, plan->agents)]);
}

/* Writes stop; every READ is carried out, truly: all must come to rest, equal to the writer. */
static void quiesce(struct sim *sim)
{
	bool settled = false;
	int round;

	sim->calm = true;
	sim_writer_publish(sim);
	sim_writer_check(sim, true);
	for (uint32_t i = 0; i < sim->plan.agents; i++) {
		sim->agents[i]->paused = 0;
		sim->agents[i]->settled = false;
	}
	sim_wire_drain(sim->wire);
	for (round = 0; round < ROUNDS_MAX && !settled && !sim->violated; round++) {
		settled = true;
		for (uint32_t i = 0; i < sim->plan.agents; i++) {
			if (sim->agents[i]->settled)
				continue;
			settled = false;
			sim_agent_nudge(sim->agents[i]);
		}
		sim_wire_drain(sim->wire);
	}
	for (uint32_t i = 0; i < sim->plan.agents && !settled; i++)
		if (!sim->agents[i]->settled)
			sim_violation(sim, "agent %u: not at rest after %d polls", i, round);
	for (uint32_t i = 0; i < sim->plan.agents && !sim->violated; i++)
		sim_agent_compare(sim->agents[i]);
	/* Thousands of keys are too many to look up each; some schedules have few. */
	if (!sim->violated && sim->plan.lookup_chance > 0 && sim->plan.keys <= LOOK_UP_ALL_MAX)
		sim_lookup_all(sim->lookup);
	sim->calm = false;
}

static void run_phase(struct sim *sim)
{
	for (uint32_t i = 0; i < sim->plan.steps && !sim->violated; i++)
		run_step(sim);
	if (sim->violated)
		return;
	sim_writer_check(sim, true);
	if (prng_chance(&sim->prng, 100))
		sim_writer_drain(sim);
	if (sim->violated)
		return;
	quiesce(sim);
	/* What the cursors say must do as well: everybody killed, everybody back. */
	if (!sim->violated && prng_chance(&sim->prng, 300)) {
		for (uint32_t i = 0; i < sim->plan.agents; i++)
			sim_agent_kill(sim->agents[i]);
		quiesce(sim);
	}
}

bool sim_run(struct sim *sim, uint64_t seed, int broken_rule)
{
	uint8_t *memory = sim->memory;

	memset(sim, 0, sizeof *sim);
	sim->memory = memory;
	madvise(memory, SIM_RESERVE_BYTES, MADV_DONTNEED);
	sim->prng.state = seed * UINT64_C(0xd1342543de82ef95) + 1;
	draw_plan(&sim->prng, &sim->plan, broken_rule);
	/* Only of even seeds: schedules of odd ones were kept for what they found. */
	sim->plan.lineage_chance = seed % 2 == 0 ? (unsigned)(seed / 2 % 3) * 10 : 0;
	/* As it is with these. What a broken rule left undone is no table that can be adopted. */
	sim->plan.keep_chance = broken_rule == 0 && seed % 5 < 2 ? (unsigned)(seed % 5 + 1) * 2 : 0;
	/* So little room that slow agents lose tombstones which they need. */
	sim->plan.held_part = seed % 7 < 3 ? 1000 : 0;
	sim->wire = sim_wire_new(sim);
	sim_writer_open(sim);
	for (uint32_t i = 0; i < sim->plan.agents && !sim->violated; i++)
		sim_agent_open(sim, (int)i);
	if (!sim->violated)
		sim->lookup = sim_lookup_new(sim, SIM_AGENTS_MAX);
	for (uint32_t phase = 0; phase < sim->plan.phases && !sim->violated; phase++)
		run_phase(sim);
	for (uint32_t i = 0; i < sim->plan.agents; i++)
		sim_agent_close(sim->agents[i]);
	sim_lookup_free(sim->lookup);
	sim_writer_close(sim);
	sim_wire_free(sim->wire);
	sim->wire = NULL;
	return !sim->violated;
}
