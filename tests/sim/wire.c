#include "sim.h"

#include "base/buffer.h"

#include <stdlib.h>
#include <string.h>

#define POSTS_MAX (SIM_AGENTS_MAX * 256)
#define PIECES_MAX 160
#define ENDS_MAX 200000 /* in one drain: more means that somebody reads for ever */
#define READ_MAX (UINT64_C(1) << 22)

/* A run of bytes that is sampled in one moment. */
struct piece {
	uint32_t offset, length;
};

struct post {
	struct sim_agent *agent;
	struct kw_read *read;
	uint32_t delay; /* looks at it that find it not yet begun */
	bool lost;
	bool again; /* a retransmitted READ is executed once more, over what was read before */
	uint32_t done, count;
	struct piece pieces[PIECES_MAX];
};

struct sim_wire {
	struct sim *sim;
	struct post *posts[POSTS_MAX];
	int count;
};

struct sim_wire *sim_wire_new(struct sim *sim)
{
	struct sim_wire *wire = kw_zalloc(sizeof *wire);

	wire->sim = sim;
	return wire;
}

static struct post *take(struct sim_wire *wire, int at)
{
	struct post *post = wire->posts[at];

	/* Order is kept: which READ a random number picks must not depend on anything else. */
	memmove(&wire->posts[at], &wire->posts[at + 1],
		(size_t)(wire->count - at - 1) * sizeof *wire->posts);
	wire->count--;
	return post;
}

void sim_wire_free(struct sim_wire *wire)
{
	if (!wire)
		return;
	while (wire->count > 0)
		free(take(wire, wire->count - 1));
	free(wire);
}

void sim_wire_forget(struct sim_wire *wire, struct sim_agent *agent)
{
	for (int i = wire->count - 1; i >= 0; i--)
		if (wire->posts[i]->agent == agent)
			free(take(wire, i));
}

bool sim_wire_idle(const struct sim_wire *wire)
{
	return wire->count == 0;
}

/*
 * What a carrier lets this agent read: at first the extent that the handshake tells, then what the
 * directory it verified last lists. Adjoining extents count as one.
 */
static bool within_extents(const struct sim_agent *agent, uint64_t offset, uint64_t length)
{
	uint64_t end = offset + length;

	for (int i = 0; i < agent->extent_count && offset < end; i++)
		if (offset >= agent->extents[i].offset &&
			offset - agent->extents[i].offset < agent->extents[i].length)
			offset = agent->extents[i].offset + agent->extents[i].length;
	return offset >= end && end >= length;
}

/* Cut the READ at random bytes, or at words, and shuffle: no order within a READ is promised. */
static void tear(struct prng *prng, struct post *post)
{
	uint32_t length = (uint32_t)post->read->length;
	uint32_t unit = prng_chance(prng, 500) ? 8 : 1;
	uint32_t wanted = (uint32_t)prng_range(prng, 2, PIECES_MAX), step, at = 0;

	if (wanted > length)
		wanted = length ? length : 1;
	step = length / wanted + 1;
	post->count = 0;
	while (at < length && post->count < PIECES_MAX - 1) {
		uint32_t piece = (uint32_t)prng_range(prng, 1, 2 * step);

		piece = (piece + unit - 1) / unit * unit;
		if (piece > length - at)
			piece = length - at;
		post->pieces[post->count++] = (struct piece){at, piece};
		at += piece;
	}
	if (at < length)
		post->pieces[post->count++] = (struct piece){at, length - at};
	for (uint32_t i = post->count - 1; i > 0; i--) {
		uint32_t other = (uint32_t)prng_below(prng, i + 1);
		struct piece swap = post->pieces[i];

		post->pieces[i] = post->pieces[other];
		post->pieces[other] = swap;
	}
}

void sim_wire_post(struct sim_wire *wire, struct sim_agent *agent, struct kw_read *read)
{
	struct sim *sim = wire->sim;
	const struct sim_plan *plan = &sim->plan;
	struct post *post;

	if (read->length == 0 || read->length > READ_MAX || !read->buffer ||
		wire->count == POSTS_MAX) {
		sim_violation(sim, "agent %d: a READ of %llu bytes with %d others out",
			agent->index, (unsigned long long)read->length, wire->count);
		return;
	}
	post = kw_zalloc(sizeof *post);
	post->agent = agent;
	post->read = read;
	if (!within_extents(agent, read->offset, read->length)) {
		if (agent->epoch == sim->writer.epoch)
			sim_violation(sim, "agent %d: READ of %llu+%llu outside the extents",
				agent->index, (unsigned long long)read->offset,
				(unsigned long long)read->length);
		post->lost = true; /* a carrier refuses it */
	}
	post->count = 1;
	post->pieces[0] = (struct piece){0, (uint32_t)read->length};
	if (!sim->calm) {
		if (prng_chance(&sim->prng, plan->tear_chance))
			tear(&sim->prng, post);
		if (prng_chance(&sim->prng, plan->slow_chance))
			post->delay = (uint32_t)prng_below(&sim->prng, 40);
		post->again = prng_chance(&sim->prng, 20);
		post->lost |= prng_chance(&sim->prng, plan->fault_chance);
	}
	sim->counts.reads++;
	sim->counts.lost += post->lost;
	wire->posts[wire->count++] = post;
}

/* Copy a few pieces as they are now; true when none is left. */
static bool sample(struct sim_wire *wire, struct post *post, uint32_t pieces)
{
	for (; pieces > 0 && post->done < post->count; pieces--, post->done++) {
		const struct piece *piece = &post->pieces[post->done];

		memcpy(post->read->buffer + piece->offset,
			wire->sim->memory + post->read->offset + piece->offset, piece->length);
	}
	return post->done == post->count;
}

static void end(struct sim_wire *wire, int at)
{
	struct post *post = take(wire, at);
	struct kw_error error = {0};

	if (post->lost) {
		post->agent->was_lost = true;
		kw_error_set(&error, KW_E_TIMEOUT, "the simulator lost this READ");
		kw_reader_complete(post->read, &error);
	} else {
		kw_reader_complete(post->read, NULL);
	}
	free(post);
}

static uint32_t draw_pieces(struct sim_wire *wire, const struct post *post)
{
	/* Half of the time all of the rest, so that torn READs come to an end too. */
	if (prng_chance(&wire->sim->prng, 500))
		return post->count;
	return (uint32_t)prng_range(&wire->sim->prng, 1, 1 + post->count / 3);
}

void sim_wire_step(struct sim_wire *wire)
{
	struct post *post;
	int at;

	if (wire->count == 0)
		return;
	at = (int)prng_below(&wire->sim->prng, (uint64_t)wire->count);
	post = wire->posts[at];
	if (post->delay > 0) {
		post->delay--;
		return;
	}
	if (!sample(wire, post, draw_pieces(wire, post)))
		return;
	if (post->again) {
		post->again = false;
		post->done = 0;
		return;
	}
	end(wire, at);
}

void sim_wire_sample(struct sim_wire *wire)
{
	struct post *post;

	if (wire->count == 0)
		return;
	post = wire->posts[prng_below(&wire->sim->prng, (uint64_t)wire->count)];
	if (post->delay == 0)
		sample(wire, post, draw_pieces(wire, post));
}

void sim_wire_drain(struct sim_wire *wire)
{
	for (int ends = 0; wire->count > 0 && !wire->sim->violated; ends++) {
		int at = (int)prng_below(&wire->sim->prng, (uint64_t)wire->count);

		if (ends == ENDS_MAX) {
			sim_violation(wire->sim, "an agent reads for ever: READ of %llu+%llu",
				(unsigned long long)wire->posts[at]->read->offset,
				(unsigned long long)wire->posts[at]->read->length);
			return;
		}
		sample(wire, wire->posts[at], UINT32_MAX);
		end(wire, at);
	}
}
