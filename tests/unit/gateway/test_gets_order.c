/*
 * READs that end in any order: of one key, no answer is older than one before it.
 *
 * The bytes of a READ are those of the moment at which it is posted. Its end is held back until the
 * test lets it come. So a lookup can be as slow as the test likes.
 */
#include "gets_world.h"

#include "base/clock.h"
#include "remote/remote.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define HELD_MAX 256
#define QUESTIONS 64
#define KEYS 3
#define STEPS 4000
#define ATTEMPTS 3000

struct held {
	struct kw_remote_read *read;
	void (*done)(struct kw_remote_read *read, const struct kw_error *error);
	bool ended; /* the carrier has told it */
};

static struct held held[HELD_MAX];
static int held_count;
static bool holding;
static const void *probe; /* not NULL: only superblocks that do not go there are held back */

static void on_ended(struct kw_remote_read *read, const struct kw_error *error)
{
	assert_null(error);
	for (int i = 0; i < held_count; i++)
		if (held[i].read == read)
			held[i].ended = true;
}

void __real_kw_remote_read(
	struct kw_remote *remote, struct kw_remote_read *const *reads, int count);
void __wrap_kw_remote_read(
	struct kw_remote *remote, struct kw_remote_read *const *reads, int count);

/* Looks at the superblock, and what is read of the view, are not held back; or they alone are. */
static bool is_held(const struct kw_remote_read *read)
{
	if (probe)
		return read->offset == KW_SUPERBLOCK_OFFSET && read->buffer != probe;
	return holding && read->offset >= KW_DIRECTORY_OFFSET;
}

void __wrap_kw_remote_read(struct kw_remote *remote, struct kw_remote_read *const *reads, int count)
{
	for (int i = 0; i < count; i++) {
		if (!is_held(reads[i]))
			continue;
		assert_true(held_count < HELD_MAX);
		held[held_count++] = (struct held){reads[i], reads[i]->done, false};
		reads[i]->done = on_ended;
	}
	__real_kw_remote_read(remote, reads, count);
}

static void let_end(int which)
{
	struct held one = held[which];

	held[which] = held[--held_count];
	one.read->done = one.done;
	one.done(one.read, NULL);
}

struct asked {
	struct kw_question question;
	char key[8];
	int number;       /* of the key */
	uint64_t version; /* told */
	bool out;
};

struct world {
	struct gets_world table;
	struct asked asked[QUESTIONS];
	uint64_t versions[KEYS]; /* the newest told */
	uint64_t told, values;
};

static struct world world;

static void on_got(void *arg, const struct kw_got *got)
{
	struct asked *asked = arg;

	assert_true(asked->out);
	asked->out = false;
	world.told++;
	if (got->outcome != KW_GOT_VALUE)
		return;
	world.values++;
	asked->version = got->version;
	if (got->version < world.versions[asked->number])
		fail_msg("version %llu of key %d after %llu", (unsigned long long)got->version,
			asked->number, (unsigned long long)world.versions[asked->number]);
	world.versions[asked->number] = got->version;
}

static struct asked *ask(int number)
{
	for (int i = 0; i < QUESTIONS; i++) {
		struct asked *asked = &world.asked[i];

		if (asked->out)
			continue;
		snprintf(asked->key, sizeof asked->key, "key-%d", number);
		asked->number = number;
		asked->out = true;
		asked->question = (struct kw_question){
			.key = kw_slice_text(asked->key), .fn = on_got, .arg = asked};
		kw_gets_ask(world.table.gets, &asked->question);
		return asked;
	}
	return NULL;
}

static void write_key(int number, int value)
{
	char key[8], text[GETS_VALUE];

	snprintf(key, sizeof key, "key-%d", number);
	snprintf(text, sizeof text, "%d", value);
	gets_put(&world.table, key, text, 0);
	gets_publish(&world.table, true, kw_wall_us());
}

/* A turn of the loop, in which the gateway asks what it wants to ask. */
static void turn(void)
{
	kw_gets_post(world.table.gets);
	uv_run(&world.table.loop, UV_RUN_NOWAIT);
}

static void run_until_held(int count)
{
	uint64_t ends_us = kw_clock_us() + 30000000;

	while (held_count < count) {
		assert_true(kw_clock_us() < ends_us);
		turn();
	}
}

static void run_until_told(const struct asked *asked)
{
	uint64_t ends_us = kw_clock_us() + 30000000;

	while (asked->out) {
		assert_true(kw_clock_us() < ends_us);
		turn();
	}
}

static void open_world(uint64_t places, uint64_t cache_bytes)
{
	const struct kw_gets_options options = {.depth = 16,
		.places = places,
		.max_staleness_ms = 60000,
		.cache_bytes = cache_bytes,
		.coherence_ms = 10};

	world = (struct world){0};
	held_count = 0;
	holding = false;
	probe = NULL;
	gets_world_open(&world.table, &options);
	gets_publish(&world.table, true, kw_wall_us());
	gets_run_until_state(&world.table, KW_GATEWAY_SERVING);
}

static void close_world(void)
{
	holding = false;
	probe = NULL;
	while (held_count > 0) {
		turn();
		for (int i = held_count - 1; i >= 0; i--)
			if (held[i].ended)
				let_end(i);
	}
	gets_world_close(&world.table);
}

static void a_slow_lookup_is_not_told_after_a_newer_one(void **state)
{
	struct asked *slow, *quick;

	open_world(0, 0);
	write_key(0, 1);
	run_until_told(ask(0)); /* the view is known */
	holding = true;
	slow = ask(0);
	run_until_held(1); /* slots … */
	assert_true(held[0].ended);
	let_end(0);
	run_until_held(1); /* … and the record: it has the old value */
	holding = false;
	write_key(0, 2);
	usleep(2 * KW_GETS_LOOK_US);
	quick = ask(0); /* must count on a look that the first one does not know */
	for (int i = 0; i < 50 && quick->out; i++) {
		turn();
		usleep(1000);
	}
	let_end(0);
	run_until_told(slow);
	run_until_told(quick);
	close_world();
}

/* A pass of the reader's began before a look, and ends after it: what it read is of before. */
static void a_superblock_that_comes_late_changes_nothing(void **state)
{
	struct kw_gets_sight before, after;

	open_world(0, 1 << 20);
	write_key(0, 1);
	run_until_told(ask(0));
	probe = &kw_gets_follow(world.table.gets)->probe_superblock;
	write_key(0, 2); /* the pass finds this one */
	run_until_held(1);
	usleep(100000);
	write_key(0, 3);
	usleep(2 * KW_GETS_LOOK_US);
	run_until_told(ask(0));
	kw_gets_sight(world.table.gets, &before);
	assert_true(held[0].ended);
	let_end(0);
	kw_gets_sight(world.table.gets, &after);
	assert_int_equal(after.state, KW_GATEWAY_SERVING);
	assert_int_equal(after.fresh_us, before.fresh_us);
	assert_int_equal(after.version, before.version);
	assert_true(after.now_us >= before.now_us); /* the proxy's clock is not set back */
	close_world();
}

/* False: it took so long that there were more looks, or that one came too late to join. */
static bool they_share_a_lookup(void)
{
	struct kw_gets_stats before, after;
	uint64_t values = world.values;

	kw_gets_stats(world.table.gets, &before);
	for (int i = 0; i < QUESTIONS; i++)
		assert_non_null(ask(0));
	for (int i = 0; i < QUESTIONS; i++)
		run_until_told(&world.asked[i]);
	kw_gets_stats(world.table.gets, &after);
	assert_int_equal(world.values - values, QUESTIONS);
	assert_true(after.reads > before.reads);
	return after.shared - before.shared == QUESTIONS - 1 &&
	       after.reads - before.reads <= 6; /* looks included */
}

static void questions_of_one_key_share_a_lookup(void **state)
{
	bool shared = false;

	open_world(1 << 12, 0);
	write_key(0, 1);
	run_until_told(ask(0));
	for (int i = 0; i < ATTEMPTS && !shared; i++)
		shared = they_share_a_lookup();
	assert_true(shared);
	close_world();
}

static uint64_t newest_look_us(void)
{
	return kw_gets_follow(world.table.gets)->superblock_begun_us;
}

/*
 * A lookup has read the old record. A newer look shows that the table has the write: reads of
 * written keys, and barriers, count on that. False: it took too long for the question to join.
 */
static bool ask_after_a_look(int value)
{
	struct asked *slow, *quick, *other;
	uint64_t looked_us, least;
	bool in_time;

	write_key(0, value);
	usleep(2 * KW_GETS_LOOK_US);
	kw_gets_post(world.table.gets); /* another turn: what is asked from now on is of now */
	holding = true;
	slow = ask(0);
	run_until_held(1); /* slots … */
	let_end(0);
	run_until_held(1); /* … and the record: it has the old value */
	looked_us = newest_look_us();
	holding = false;
	write_key(0, value + 1);
	while (kw_clock_us() <= looked_us + KW_GETS_LOOK_US / 2)
		;
	kw_gets_post(world.table.gets);
	other = ask(1); /* makes the gateway look */
	turn();
	kw_gets_post(world.table.gets);
	in_time = newest_look_us() > looked_us && kw_clock_us() < looked_us + KW_GETS_LOOK_US;
	least = kw_gets_follow(world.table.gets)->superblock.version;
	quick = ask(0);
	turn();
	let_end(0);
	run_until_told(slow);
	run_until_told(quick);
	run_until_told(other);
	assert_true(quick->version >= least);
	return in_time && slow->version < least; /* it was not too late for the old record */
}

static void a_question_is_not_told_less_than_the_newest_look_has(void **state)
{
	int in_time = 0;

	open_world(0, 0);
	for (int i = 0; i < ATTEMPTS && in_time < 3; i++)
		in_time += ask_after_a_look(2 * i);
	assert_true(in_time > 0);
	close_world();
}

/* Whatever the order of ends; seeds are told, so that a failure can be repeated. */
static void storm(uint64_t places, uint64_t cache_bytes, unsigned seed)
{
	print_message("seed %u\n", seed);
	srand(seed);
	open_world(places, cache_bytes);
	holding = true;
	for (int step = 0; step < STEPS; step++) {
		switch (rand() % 8) {
		case 0:
			write_key(rand() % KEYS, step);
			break;
		case 1:
			usleep((useconds_t)(rand() % 1500));
			break;
		case 2:
		case 3:
			ask(rand() % KEYS);
			break;
		case 4:
		case 5:
			turn();
			break;
		default:
			if (held_count > 0) {
				int which = rand() % held_count;

				if (held[which].ended)
					let_end(which);
			}
		}
	}
	assert_true(world.values > STEPS / 100);
	close_world();
}

static void in_any_order_of_ends_versions_never_go_back(void **state)
{
	const unsigned seed = (unsigned)kw_clock_us();

	for (unsigned i = 0; i < 3; i++) {
		storm(0, 0, seed + 10 * i);
		storm(1 << 12, 0, seed + 10 * i + 1);
		storm(1 << 12, 1 << 20, seed + 10 * i + 2);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_slow_lookup_is_not_told_after_a_newer_one),
		cmocka_unit_test(a_superblock_that_comes_late_changes_nothing),
		cmocka_unit_test(questions_of_one_key_share_a_lookup),
		cmocka_unit_test(a_question_is_not_told_less_than_the_newest_look_has),
		cmocka_unit_test(in_any_order_of_ends_versions_never_go_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
