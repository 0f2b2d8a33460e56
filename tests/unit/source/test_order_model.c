/*
 * A server, its replication stream and its answers, in random order. The stream can be far behind
 * the answers, and the answers behind the stream. What order.h says of a change is compared with
 * what is so; and at rest the table has what the server has.
 *
 * The server has two databases. A flush that is behind all that was fetched empties its database in
 * the table. After another, and now and then before a sweep, the server is asked which of them have
 * keys: the others are emptied in the table.
 *
 *   test_order_model [SEED]
 */
#include "source/order.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEPS 100000
#define KEYS_MOST 60000
#define DATABASES 2
#define AUDIT 1000      /* steps with audits, and as many without */
#define QUEUE (1 << 16) /* of each connection; a power of two */

enum kind { CHANGE, FLUSH, ROLE, FETCH, OVERTAKEN, LISTING };

/* A change or a flush in the stream, or an answer on the data connection. */
struct message {
	enum kind kind;
	uint32_t key; /* FLUSH: the database */
	bool listed[DATABASES];
	uint64_t begin, end; /* ROLE: the offset */
	uint64_t version;    /* of the key; 0: there is none */
	uint64_t number;     /* of the last change that it has, or that it is */
};

struct queue {
	struct message messages[QUEUE];
	uint32_t first, next;
};

struct model {
	struct kw_order order;
	uint64_t random;
	uint32_t keys, flushed_in;   /* a flush in so many of its turns */
	uint32_t held[DATABASES];    /* keys of the server */
	uint64_t listings, listed;   /* asked for; answered */
	uint64_t flushed[DATABASES]; /* the stream told so: this listing tells what became of it */
	uint64_t offset, number;
	uint64_t server[KEYS_MOST], table[KEYS_MOST]; /* versions */
	uint64_t has[KEYS_MOST]; /* the last change that the table has of the key */
	bool dirty[KEYS_MOST];
	struct queue stream, answers;
	uint64_t old, unsure, later, emptied, at_once; /* counted */
};

static struct model model;
static uint64_t first_seed = 1;

static uint32_t below(uint32_t limit)
{
	model.random ^= model.random << 13;
	model.random ^= model.random >> 7;
	model.random ^= model.random << 17;
	return (uint32_t)(model.random >> 32) % limit;
}

static uint32_t database_of(uint32_t key)
{
	return key % DATABASES;
}

static struct kw_slice name_of(uint32_t key)
{
	static char name[16];

	snprintf(name, sizeof name, "key:%u", key);
	return kw_slice_text(name);
}

static bool is_full(const struct queue *queue)
{
	return queue->next - queue->first == QUEUE;
}

static bool is_empty(const struct queue *queue)
{
	return queue->next == queue->first;
}

static void push(struct queue *queue, struct message message)
{
	queue->messages[queue->next++ % QUEUE] = message;
}

/* ---- the server ---- */

static uint64_t write_bytes(void)
{
	model.offset += 10 + below(100);
	return model.offset;
}

static void change(uint32_t key)
{
	uint64_t begin = model.offset, end = write_bytes();

	model.number++;
	model.held[database_of(key)] -= model.server[key] > 0;
	model.server[key] = below(10) > 0 ? model.number : 0;
	model.held[database_of(key)] += model.server[key] > 0;
	push(&model.stream, (struct message){.kind = CHANGE,
				    .key = key,
				    .begin = begin,
				    .end = end,
				    .version = model.server[key],
				    .number = model.number});
}

static void flush(uint32_t database)
{
	uint64_t begin = model.offset, end = write_bytes();

	for (uint32_t key = database; key < model.keys; key += DATABASES)
		model.server[key] = 0;
	model.held[database] = 0;
	model.number++;
	push(&model.stream, (struct message){.kind = FLUSH,
				    .key = database,
				    .begin = begin,
				    .end = end,
				    .number = model.number});
}

static void serve_fetch(uint32_t key)
{
	push(&model.answers, (struct message){.kind = FETCH,
				     .key = key,
				     .version = model.server[key],
				     .number = model.number});
}

/* INFO keyspace. */
static void serve_listing(void)
{
	struct message answer = {.kind = LISTING, .number = model.number};

	model.listings++;
	for (uint32_t db = 0; db < DATABASES; db++)
		answer.listed[db] = model.held[db] > 0;
	push(&model.answers, answer);
}

static void serve_role(void)
{
	if (!kw_order_is_due(&model.order))
		return;
	kw_order_asked(&model.order);
	push(&model.answers, (struct message){.kind = ROLE, .begin = model.offset});
}

/* ---- the proxy ---- */

static void hear_change(const struct message *message)
{
	uint64_t *has = &model.has[message->key];

	if (model.listings > model.listed) {
		model.dirty[message->key] = true; /* it could be emptied with what is older */
		return;
	}
	switch (kw_order_age(&model.order, database_of(message->key), name_of(message->key),
		(struct kw_order_span){message->begin, message->end})) {
	case KW_ORDER_OLD:
		model.old++;
		assert_true(message->number <= *has); /* nothing is lost */
		break;
	case KW_ORDER_UNSURE:
		model.unsure++;
		model.dirty[message->key] = true;
		break;
	case KW_ORDER_NEW:
		model.later++;
		assert_true(message->number > *has); /* no key goes back */
		*has = message->number;
		model.table[message->key] = message->version;
		model.dirty[message->key] = false;
		break;
	}
}

/* No key of it goes back, and what is asked for is not used. */
static void empty_at_once(const struct message *flush)
{
	for (uint32_t key = flush->key; key < model.keys; key += DATABASES) {
		assert_true(flush->number > model.has[key]);
		model.has[key] = flush->number;
		model.table[key] = 0;
		model.dirty[key] = false;
	}
	for (uint32_t at = model.answers.first; at != model.answers.next; at++) {
		struct message *message = &model.answers.messages[at % QUEUE];

		if (message->kind == FETCH && database_of(message->key) == flush->key)
			message->kind = OVERTAKEN;
	}
	model.at_once++;
}

static void hear_flush(const struct message *flush)
{
	struct kw_databases one = {0};
	bool passed;

	kw_databases_add(&one, flush->key);
	passed = kw_order_has_passed(&model.order, &one, flush->begin);
	kw_databases_close(&one);
	if (model.listings == model.listed && passed) {
		empty_at_once(flush);
		return;
	}
	serve_listing(); /* one under way can be older than the flush */
	model.flushed[flush->key] = model.listings;
}

static void hear_stream(void)
{
	struct message message;

	if (is_empty(&model.stream))
		return;
	message = model.stream.messages[model.stream.first++ % QUEUE];
	if (message.kind == CHANGE)
		hear_change(&message);
	else
		hear_flush(&message);
}

/* As of that answer. */
static void empty(uint32_t database, uint64_t number)
{
	for (uint32_t key = database; key < model.keys; key += DATABASES) {
		model.table[key] = 0;
		model.has[key] = number;
	}
	model.emptied++;
	kw_order_emptied(&model.order, database);
}

/* Keys of both sides of a flush: all of the database are read again. */
static void doubt(uint32_t database)
{
	for (uint32_t key = database; key < model.keys; key += DATABASES)
		model.dirty[key] = true;
}

static void hear_listing(const struct message *message)
{
	model.listed++;
	for (uint32_t db = 0; db < DATABASES; db++) {
		if (!message->listed[db])
			empty(db, message->number);
		else if (model.flushed[db] == model.listed)
			doubt(db);
	}
}

static void hear_answer(void)
{
	struct message message;

	if (is_empty(&model.answers))
		return;
	message = model.answers.messages[model.answers.first++ % QUEUE];
	if (message.kind == ROLE) {
		kw_order_told(&model.order, message.begin);
	} else if (message.kind == LISTING) {
		hear_listing(&message);
	} else if (message.kind == OVERTAKEN) {
		kw_order_asked_for(&model.order, database_of(message.key), name_of(message.key));
	} else {
		model.table[message.key] = message.version;
		model.has[message.key] = message.number;
		kw_order_fetched(&model.order, database_of(message.key), name_of(message.key));
	}
}

/* A dirty key from a random place on; it is dirty no more when it was asked for. */
static void fetch_dirty(void)
{
	uint32_t from = below(model.keys);

	for (uint32_t i = 0; i < model.keys; i++) {
		uint32_t key = (from + i) % model.keys;

		if (model.dirty[key]) {
			model.dirty[key] = false;
			serve_fetch(key);
			return;
		}
	}
}

/*
 * What overtakes a fetch under way is told in values.h, and is no subject here: so a key is asked
 * for only while the answers are few, and it is never NEW with its answer under way.
 */
static bool is_under_way(uint32_t key)
{
	for (uint32_t at = model.answers.first; at != model.answers.next; at++) {
		const struct message *message = &model.answers.messages[at % QUEUE];

		if (message->kind == FETCH && message->key == key)
			return true;
	}
	return false;
}

static void hear_all_answers(void)
{
	while (!is_empty(&model.answers))
		hear_answer();
}

static void hear_stream_in_order(void)
{
	const struct message *next = &model.stream.messages[model.stream.first % QUEUE];

	if (!is_empty(&model.stream) && next->kind == CHANGE && is_under_way(next->key))
		hear_all_answers();
	hear_stream();
}

static void step(uint32_t lag, bool audits)
{
	uint32_t backlog = model.stream.next - model.stream.first;

	switch (below(16)) {
	case 0:
		if (audits)
			serve_fetch(below(model.keys));
		break;
	case 1:
		fetch_dirty();
		break;
	case 2:
	case 3:
		serve_role();
		break;
	case 4:
	case 5:
	case 6:
		hear_answer();
		break;
	case 7:
		if (below(model.flushed_in) == 0) {
			flush(below(DATABASES));
			if (below(2))
				serve_listing(); /* a sweep, at the worst moment … */
		}
		if (below(model.flushed_in) == 0)
			serve_listing(); /* … or at any other */
		break;
	case 8:
	case 9:
	case 10:
	case 11:
		if (!is_full(&model.stream))
			change(below(below(4) ? model.keys : 1 + model.keys / 100));
		break;
	default:
		if (backlog > lag)
			hear_stream_in_order();
	}
}

static void come_to_rest(void)
{
	for (uint32_t round = 0; round < 3; round++) {
		while (!is_empty(&model.stream))
			hear_stream_in_order();
		for (uint32_t key = 0; key < model.keys; key++)
			if (model.dirty[key] && !is_full(&model.answers)) {
				model.dirty[key] = false;
				serve_fetch(key);
			}
		hear_all_answers();
	}
	for (uint32_t key = 0; key < model.keys; key++)
		if (model.table[key] != model.server[key])
			fail_msg("key %u: %llu, and the server has %llu", key,
				(unsigned long long)model.table[key],
				(unsigned long long)model.server[key]);
}

/* The first offset is asked for at the first change, which can be told late. */
static void pass_first_offset(void)
{
	kw_order_age(&model.order, 0, name_of(0), (struct kw_order_span){0});
	kw_order_asked(&model.order);
	kw_order_told(&model.order, 0);
}

/* How many flushes emptied a database at once? */
static uint64_t run(uint64_t seed, uint32_t keys, uint32_t lag, uint32_t flushed_in)
{
	memset(&model, 0, sizeof model);
	model.random = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
	model.keys = keys;
	model.flushed_in = flushed_in;
	kw_order_init(&model.order, seed);
	if (seed % 2)
		pass_first_offset();
	for (uint32_t i = 0; i < STEPS; i++)
		step(lag, i / AUDIT % 2);
	come_to_rest();
	kw_order_close(&model.order);
	print_message("seed %llu, %u keys, lag %u: %llu old, %llu unsure, %llu new, %llu emptied, "
		      "%llu at once\n",
		(unsigned long long)seed, keys, lag, (unsigned long long)model.old,
		(unsigned long long)model.unsure, (unsigned long long)model.later,
		(unsigned long long)model.emptied, (unsigned long long)model.at_once);
	return model.at_once;
}

static void the_table_ends_as_the_server(void **state)
{
	uint64_t at_once = 0;
	static const uint32_t keys[] = {3, 100, KEYS_MOST};
	static const uint32_t lags[] = {0, 50, 20000};

	for (uint64_t seed = first_seed; seed < first_seed + 2; seed++)
		for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
			for (size_t j = 0; j < sizeof lags / sizeof *lags; j++)
				at_once += run(seed, keys[i], lags[j], 200);
	assert_true(at_once > 0);
}

/* … and most of what it tells late is known to be old. */
static void a_late_stream_makes_few_fetches(void **state)
{
	run(first_seed | 1, 100, 20000, UINT32_MAX);
	assert_true(model.old > 0 && model.unsure * 5 < model.old);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_table_ends_as_the_server),
		cmocka_unit_test(a_late_stream_makes_few_fetches),
	};

	if (argc > 1)
		first_seed = strtoull(argv[1], NULL, 10);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
