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
	struct sim_request request;
	uint32_t delay;   /* looks at it that find it not yet begun, or resting */
	uint32_t between; /* at most so many between two samples */
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

void sim_wire_forget(struct sim_wire *wire, const struct sim_client *client)
{
	for (int i = wire->count - 1; i >= 0; i--)
		if (wire->posts[i]->request.client == client)
			free(take(wire, i));
}

/* ---- what a client may read ---- */

void sim_client_connect(struct sim_client *client, const struct sim *sim)
{
	client->epoch = 0;
	client->extents[0] = sim->writer.extents[0];
	client->extent_count = 1;
}

static bool is_of_the_writer(const struct sim_writer *writer, const struct kw_extent *extent)
{
	for (int i = 0; i < writer->extent_count; i++)
		if (extent->offset == writer->extents[i].offset &&
			extent->length == writer->extents[i].length)
			return true;
	return false;
}

void sim_client_extents(
	struct sim_client *client, struct sim *sim, const struct kw_extent *extents, int count)
{
	if (count > SIM_EXTENTS_MAX) {
		sim_violation(sim, "client %d: a directory of %d extents", client->index, count);
		return;
	}
	for (int i = 0; i < count; i++)
		if (client->epoch == sim->writer.epoch &&
			!is_of_the_writer(&sim->writer, &extents[i]))
			sim_violation(
				sim, "client %d: extent %d is not the writer's", client->index, i);
	memcpy(client->extents, extents, (size_t)count * sizeof *extents);
	client->extent_count = count;
}

/* Adjoining extents count as one. */
static bool within_extents(const struct sim_client *client, uint64_t offset, uint64_t length)
{
	uint64_t end = offset + length;

	for (int i = 0; i < client->extent_count && offset < end; i++)
		if (offset >= client->extents[i].offset &&
			offset - client->extents[i].offset < client->extents[i].length)
			offset = client->extents[i].offset + client->extents[i].length;
	return offset >= end && end >= length;
}

/* ---- one READ ---- */

/* Cut the READ at random bytes, or at words, and shuffle: no order within a READ is promised. */
static void tear(struct prng *prng, struct post *post)
{
	uint32_t length = (uint32_t)post->request.length;
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

/*
 * All but one word at first, that word at the very end: the worst a READ can do to a word that no
 * checksum covers.
 */
static void tear_out_a_word(struct prng *prng, struct post *post)
{
	uint32_t length = (uint32_t)post->request.length;
	uint32_t word = (uint32_t)prng_below(prng, (length + 7) / 8) * 8;
	uint32_t bytes = length - word < 8 ? length - word : 8;

	post->count = 0;
	if (word > 0)
		post->pieces[post->count++] = (struct piece){0, word};
	if (word + bytes < length)
		post->pieces[post->count++] = (struct piece){word + bytes, length - word - bytes};
	post->pieces[post->count++] = (struct piece){word, bytes};
}

static void draw_fate(struct sim *sim, struct post *post)
{
	const struct sim_plan *plan = &sim->plan;

	if (prng_chance(&sim->prng, plan->tear_chance)) {
		if (prng_chance(&sim->prng, plan->word_chance))
			tear_out_a_word(&sim->prng, post);
		else
			tear(&sim->prng, post);
	}
	if (prng_chance(&sim->prng, plan->slow_chance))
		post->delay = (uint32_t)prng_below(&sim->prng, plan->delay_steps);
	post->between = (uint32_t)prng_below(&sim->prng, plan->between_steps + 1);
	post->again = prng_chance(&sim->prng, 20);
	post->lost |= prng_chance(&sim->prng, plan->fault_chance);
}

void sim_wire_post(struct sim_wire *wire, const struct sim_request *request)
{
	struct sim *sim = wire->sim;
	struct sim_client *client = request->client;
	struct post *post;

	if (request->length == 0 || request->length > READ_MAX || !request->buffer ||
		wire->count == POSTS_MAX) {
		sim_violation(sim, "client %d: a READ of %llu bytes with %d others out",
			client->index, (unsigned long long)request->length, wire->count);
		return;
	}
	post = kw_zalloc(sizeof *post);
	post->request = *request;
	if (!within_extents(client, request->offset, request->length)) {
		if (client->epoch == sim->writer.epoch)
			sim_violation(sim, "client %d: READ of %llu+%llu outside the extents",
				client->index, (unsigned long long)request->offset,
				(unsigned long long)request->length);
		post->lost = true; /* a carrier refuses it */
	}
	post->count = 1;
	post->pieces[0] = (struct piece){0, (uint32_t)request->length};
	if (!sim->calm)
		draw_fate(sim, post);
	sim->counts.reads++;
	sim->counts.lost += post->lost;
	wire->posts[wire->count++] = post;
}

/* Copy a few pieces as they are now; true when none is left. */
static bool sample(struct sim_wire *wire, struct post *post, uint32_t pieces)
{
	for (; pieces > 0 && post->done < post->count; pieces--, post->done++) {
		const struct piece *piece = &post->pieces[post->done];

		memcpy(post->request.buffer + piece->offset,
			wire->sim->memory + post->request.offset + piece->offset, piece->length);
	}
	return post->done == post->count;
}

static void end(struct sim_wire *wire, int at)
{
	struct post *post = take(wire, at);
	struct kw_error error = {0};

	if (post->lost) {
		kw_error_set(&error, KW_E_TIMEOUT, "the simulator lost this READ");
		post->request.done(&post->request, &error);
	} else {
		post->request.done(&post->request, NULL);
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
	if (!sample(wire, post, draw_pieces(wire, post))) {
		post->delay = (uint32_t)prng_below(&wire->sim->prng, post->between + 1);
		return;
	}
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
				(unsigned long long)wire->posts[at]->request.offset,
				(unsigned long long)wire->posts[at]->request.length);
			return;
		}
		sample(wire, wire->posts[at], UINT32_MAX);
		end(wire, at);
	}
}
