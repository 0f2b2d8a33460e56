/* A client reads its own writes; what is covered is proved by looks alone; barriers end. */
#include "gateway/forward/barrier.h"
#include "gateway/forward/horizon.h"
#include "gateway/forward/own.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Where a request goes. */

struct own_case {
	const char *what;
	struct kw_own own;
	struct kw_own_facts facts;
	enum kw_own_place place;
};

static const struct own_case cases[] = {
	{"a read of one who never wrote", {0}, {KW_OWN_READS_TABLE, 0, 3, 0}, KW_OWN_TABLE},
	{"a read during a write", {1, 1, 0, 0}, {KW_OWN_READS_TABLE, 0, 0, 99}, KW_OWN_PRIMARY},
	{"a read after a write that is not covered", {.wrote_us = 10},
		{KW_OWN_READS_TABLE, 0, 0, 9}, KW_OWN_PRIMARY},
	{"covered to the same moment is not enough", {.wrote_us = 10},
		{KW_OWN_READS_TABLE, 0, 0, 10}, KW_OWN_PRIMARY},
	{"a read after a write that is covered", {.wrote_us = 10}, {KW_OWN_READS_TABLE, 0, 0, 11},
		KW_OWN_TABLE},
	{"a read while a forwarded read is under way", {1, 0, 0, 0}, {KW_OWN_READS_TABLE, 0, 0, 0},
		KW_OWN_TABLE},
	{"a read on another line during a write", {1, 1, 0, 0}, {KW_OWN_READS_TABLE, 2, 0, 99},
		KW_OWN_WAIT},
	{"a write while a get is under way", {0}, {KW_OWN_WRITES, 0, 1, 0}, KW_OWN_WAIT},
	{"a write after a forwarded read", {1, 0, 0, 0}, {KW_OWN_WRITES, 0, 0, 0}, KW_OWN_PRIMARY},
	{"a write on another line", {1, 0, 0, 0}, {KW_OWN_WRITES, 1, 0, 0}, KW_OWN_WAIT},
	{"a write on another line when all is answered", {0, 0, 5, 3}, {KW_OWN_WRITES, 1, 0, 0},
		KW_OWN_PRIMARY},
	{"a forwarded read while a get is under way", {0}, {KW_OWN_READS_PRIMARY, 0, 1, 0},
		KW_OWN_PRIMARY},
	{"a forwarded read on another line", {2, 0, 1, 0}, {KW_OWN_READS_PRIMARY, 0, 0, 0},
		KW_OWN_WAIT},
	{"a barrier after requests without an answer", {1, 0, 0, 0}, {KW_OWN_BARRIER, 0, 0, 0},
		KW_OWN_WAIT},
	{"a barrier", {0}, {KW_OWN_BARRIER, 0, 1, 0}, KW_OWN_TABLE},
};

static void requests_take_effect_in_their_order(void **state)
{
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		if (kw_own_judge(&cases[i].own, &cases[i].facts) != cases[i].place)
			fail_msg("%s", cases[i].what);
	}
}

static struct kw_own_keys keys_of(uint64_t first, uint32_t count)
{
	struct kw_own_keys keys = {.count = count};

	for (uint32_t i = 0; i < count; i++)
		keys.hashes[i] = first + i;
	return keys;
}

static const struct kw_own_keys all_keys = {.all = true};

static enum kw_own_place read_of(const struct kw_own *own, uint64_t hash, uint64_t covered_us)
{
	const struct kw_own_keys keys = keys_of(hash, 1);

	return kw_own_judge(own, &(struct kw_own_facts){.want = KW_OWN_READS_TABLE,
					 .line = own->line,
					 .covered_us = covered_us,
					 .keys = &keys});
}

static void a_write_is_remembered_until_it_is_covered(void **state)
{
	struct kw_own own = {0};
	const struct kw_own_keys keys = keys_of(5, 2);
	uint64_t write = kw_own_sent(&own, 2, &keys, 0);

	assert_int_equal(kw_own_sent(&own, 2, NULL, 0), 0);
	assert_int_equal(read_of(&own, 5, 1000), KW_OWN_PRIMARY);
	kw_own_answered(&own, write, 70);
	assert_int_equal(own.forwarded, 1);
	kw_own_answered(&own, 0, 80);
	assert_int_equal(read_of(&own, 6, 70), KW_OWN_PRIMARY);
	assert_int_equal(read_of(&own, 6, 71), KW_OWN_TABLE);
	/* One that was not executed is none. */
	write = kw_own_sent(&own, 2, &keys, 71);
	kw_own_answered(&own, write, 0);
	assert_int_equal(read_of(&own, 5, 71), KW_OWN_TABLE);
	kw_own_close(&own);
}

static void only_reads_of_the_keys_that_were_written_go_to_the_primary(void **state)
{
	struct kw_own own = {0};
	const struct kw_own_keys keys = keys_of(5, 2), many = keys_of(4, 2);
	struct kw_own_facts read = {.want = KW_OWN_READS_TABLE, .keys = &many};
	uint64_t write = kw_own_sent(&own, 0, &keys, 0);

	assert_int_equal(read_of(&own, 4, 0), KW_OWN_TABLE);
	assert_int_equal(read_of(&own, 5, 0), KW_OWN_PRIMARY);
	assert_int_equal(read_of(&own, 6, 0), KW_OWN_PRIMARY);
	assert_int_equal(kw_own_judge(&own, &read), KW_OWN_PRIMARY); /* one of several */
	read.keys = &all_keys;
	assert_int_equal(kw_own_judge(&own, &read), KW_OWN_PRIMARY);
	kw_own_answered(&own, write, 70);
	assert_int_equal(read_of(&own, 4, 0), KW_OWN_TABLE);
	assert_int_equal(read_of(&own, 5, 70), KW_OWN_PRIMARY);
	kw_own_close(&own);
}

static void a_key_that_is_written_again_waits_for_its_last_write(void **state)
{
	struct kw_own own = {0};
	const struct kw_own_keys keys = keys_of(5, 1), other = keys_of(6, 1);
	uint64_t first = kw_own_sent(&own, 0, &keys, 0), second = kw_own_sent(&own, 0, &keys, 0);
	uint64_t third;

	kw_own_answered(&own, first, 70);
	assert_int_equal(read_of(&own, 5, 1000), KW_OWN_PRIMARY);
	/* The second was not executed, but the first was. */
	kw_own_answered(&own, second, 0);
	assert_int_equal(read_of(&own, 5, 70), KW_OWN_PRIMARY);
	third = kw_own_sent(&own, 0, &other, 71);
	assert_int_equal(read_of(&own, 5, 71), KW_OWN_TABLE);
	assert_int_equal(read_of(&own, 6, 71), KW_OWN_PRIMARY);
	kw_own_answered(&own, third, 90);
	kw_own_close(&own);
}

static void a_write_of_unknown_keys_is_one_of_all(void **state)
{
	struct kw_own own = {0};
	uint64_t write = kw_own_sent(&own, 0, &all_keys, 0);

	assert_int_equal(read_of(&own, 4, 1000), KW_OWN_PRIMARY);
	kw_own_answered(&own, write, 70);
	assert_int_equal(read_of(&own, 4, 70), KW_OWN_PRIMARY);
	assert_int_equal(read_of(&own, 4, 71), KW_OWN_TABLE);
	kw_own_close(&own);
}

static void more_writes_than_can_be_remembered_are_of_all_keys(void **state)
{
	struct kw_own own = {0};
	uint64_t write;

	for (uint64_t i = 1; i <= KW_OWN_MARKS + 1; i++) {
		const struct kw_own_keys keys = keys_of(i, 1);

		assert_int_equal(read_of(&own, 9999, 0), KW_OWN_TABLE);
		kw_own_answered(&own, kw_own_sent(&own, 0, &keys, 0), i);
	}
	assert_int_equal(read_of(&own, 9999, 0), KW_OWN_PRIMARY);
	/* All but the last are covered: there is room again, but one stood for all keys. */
	assert_int_equal(read_of(&own, 1, KW_OWN_MARKS + 1), KW_OWN_PRIMARY);
	assert_int_equal(read_of(&own, 9999, KW_OWN_MARKS + 2), KW_OWN_TABLE);
	for (uint64_t i = 1; i <= KW_OWN_MARKS; i++) {
		const struct kw_own_keys keys = keys_of(1000 + i, 1);

		write = kw_own_sent(&own, 0, &keys, KW_OWN_MARKS + 2);
		kw_own_answered(&own, write, 1000);
	}
	assert_int_equal(read_of(&own, 1, KW_OWN_MARKS + 2), KW_OWN_TABLE);
	assert_int_equal(read_of(&own, 1001, KW_OWN_MARKS + 2), KW_OWN_PRIMARY);
	kw_own_close(&own);
}

/* A model that remembers all: no read of a written key takes the table too early. */
static void no_read_of_a_written_key_comes_too_early(void **state)
{
	static struct kw_own_mark keys[400];
	struct kw_own own = {0};
	uint64_t sent[50][2], now = 1, covered = 0;
	uint32_t first = 0, under_way = 0;

	srand(3);
	for (int i = 0; i < 200000; i++, now++) {
		uint64_t hash = (uint64_t)(rand() % 400);
		const struct kw_own_keys written = keys_of(hash, 1);
		const struct kw_own_mark *key = &keys[hash];

		if (rand() % 300 == 0)
			covered = now - (uint64_t)(rand() % 20 + 1);
		if (rand() % 4 == 0 && under_way < 50) {
			sent[(first + under_way) % 50][0] = hash;
			sent[(first + under_way++) % 50][1] =
				kw_own_sent(&own, 0, &written, covered);
			keys[hash].last++;
		} else if (rand() % 3 == 0 && under_way > 0) {
			uint64_t at = rand() % 5 ? now : 0;

			keys[sent[first][0]].last--;
			if (at > 0)
				keys[sent[first][0]].wrote_us = at;
			kw_own_answered(&own, sent[first][1], at);
			first = (first + 1) % 50;
			under_way--;
		} else if (read_of(&own, hash, covered) == KW_OWN_TABLE) {
			assert_int_equal(key->last, 0);
			assert_true(key->wrote_us == 0 || key->wrote_us < covered);
		}
	}
	kw_own_close(&own);
}

/* What is covered. */

static void look(struct kw_horizon *horizon, uint64_t begun_us, uint64_t publication,
	uint64_t heartbeat_us, uint64_t fresh_us)
{
	struct kw_horizon_look look = {begun_us, 1, publication, heartbeat_us, fresh_us};

	kw_horizon_look(horizon, &look);
}

static void fresh_must_pass_a_time_taken_after_the_look_began(void **state)
{
	struct kw_horizon horizon = {0};

	look(&horizon, 100, 5, 9000, 8990);
	assert_int_equal(horizon.covered_us, 0);
	/* Publication 6 came after the look began, but its time may be older. */
	look(&horizon, 200, 6, 9010, 9005);
	look(&horizon, 300, 6, 9010, 9005);
	assert_int_equal(horizon.covered_us, 0);
	look(&horizon, 400, 7, 9020, 9015);
	assert_int_equal(horizon.covered_us, 0);
	look(&horizon, 500, 8, 9030, 9019);
	assert_int_equal(horizon.covered_us, 0);
	look(&horizon, 600, 9, 9040, 9020);
	assert_int_equal(horizon.covered_us, 100);
	look(&horizon, 700, 10, 9050, 9050);
	assert_int_equal(horizon.covered_us, 400);
}

static void without_publications_nothing_is_covered(void **state)
{
	struct kw_horizon horizon = {0};

	for (uint64_t t = 1; t < 1000; t++)
		look(&horizon, t, 5, 9000, 9000);
	assert_int_equal(horizon.covered_us, 0);
}

static void a_clock_that_was_set_back_proves_nothing(void **state)
{
	struct kw_horizon horizon = {0};

	look(&horizon, 100, 5, 9000, 8990);
	look(&horizon, 200, 7, 1000, 8990); /* set back: fresh_us is of the time before */
	assert_int_equal(horizon.covered_us, 0);
	look(&horizon, 300, 8, 1010, 1005);
	assert_int_equal(horizon.covered_us, 100);
}

static void another_epoch_proves_itself_anew(void **state)
{
	struct kw_horizon horizon = {0};
	struct kw_horizon_look other = {300, 2, 9, 9050, 9050};

	look(&horizon, 100, 5, 9000, 8990);
	look(&horizon, 200, 7, 9020, 9020);
	assert_int_equal(horizon.covered_us, 100);
	kw_horizon_look(&horizon, &other);
	assert_int_equal(horizon.covered_us, 0);
	other = (struct kw_horizon_look){400, 2, 11, 9060, 9060};
	kw_horizon_look(&horizon, &other);
	assert_int_equal(horizon.covered_us, 300);
}

static void looks_out_of_order_do_no_harm(void **state)
{
	struct kw_horizon horizon = {0};

	look(&horizon, 200, 7, 9020, 9000);
	look(&horizon, 100, 5, 9000, 8990);
	look(&horizon, 150, 9, 9030, 9030); /* it began before the one that is remembered */
	assert_int_equal(horizon.covered_us, 0);
	look(&horizon, 300, 9, 9040, 9040);
	assert_int_equal(horizon.covered_us, 200);
}

static void a_table_that_stays_behind_is_covered_at_last(void **state)
{
	struct kw_horizon horizon = {0};
	uint64_t publication = 1, t;

	for (t = 1; t < 10 * KW_HORIZON_MARKS; t++, publication += 2)
		look(&horizon, t, publication, 9000 + t, 8000);
	assert_int_equal(horizon.covered_us, 0);
	assert_int_equal(horizon.count, KW_HORIZON_MARKS);
	look(&horizon, t, publication, 20000, 19999);
	assert_true(horizon.covered_us > 0);
	look(&horizon, t + 1, publication + 2, 20001, 20000);
	assert_int_equal(horizon.covered_us, t - 1);
}

/* A model: a proxy that publishes, and looks at random moments. What is covered is never a lie. */
static void what_is_covered_was_asked_for_later(void **state)
{
	struct kw_horizon horizon = {0};
	uint64_t visible = 1, heartbeat = 1000000, taken, fresh = 0, asked_truth = 0,
		 fresh_truth = 0;
	uint64_t covered = 0;

	srand(7);
	for (uint64_t now = 1; now < 200000; now++) {
		/* The proxy's clock differs by a constant; a publication takes its time first. */
		switch (rand() % 8) {
		case 0: /* a barrier is asked for */
			asked_truth = now;
			break;
		case 1: /* … and passes */
			fresh_truth = asked_truth;
			fresh = asked_truth ? asked_truth + 1000000 : 0;
			break;
		case 2: /* a publication: time, then a delay, then visible */
			taken = now;
			now += (uint64_t)(rand() % 50);
			heartbeat = taken + 1000000;
			visible++;
			break;
		default: {
			uint64_t begun = now - (uint64_t)(rand() % 3);

			if (begun == 0)
				break;
			look(&horizon, begun, visible, heartbeat, fresh);
			assert_true(horizon.covered_us <= fresh_truth);
			covered = horizon.covered_us;
			break;
		}
		}
	}
	assert_true(covered > 199000);
}

/* Barriers. */

struct ended {
	struct kw_barrier barrier;
	struct kw_barriers *list;
	int passed, late;
	bool again;
};

static void on_ended(void *arg, enum kw_barrier_end end)
{
	struct ended *ended = arg;

	if (end == KW_BARRIER_PASSED)
		ended->passed++;
	else
		ended->late++;
	if (ended->again)
		kw_barrier_begin(ended->list, &ended->barrier, 100, 1);
	ended->again = false;
}

static void barriers_pass_or_are_too_late(void **state)
{
	struct kw_barriers list = {0};
	struct ended waits[3] = {0};

	for (int i = 0; i < 3; i++) {
		waits[i].list = &list;
		waits[i].barrier.ended = on_ended;
		waits[i].barrier.arg = &waits[i];
	}
	assert_int_equal(kw_barriers_next_us(&list), 0);
	kw_barrier_begin(&list, &waits[0].barrier, 10, 1);
	kw_barrier_begin(&list, &waits[1].barrier, 20, 2);
	kw_barrier_begin(&list, &waits[2].barrier, 30, 0);
	assert_int_equal(kw_barriers_next_us(&list), 30);
	kw_barriers_step(&list, 29, 10);
	assert_int_equal(list.count, 3);
	waits[0].again = true;
	kw_barriers_step(&list, 30, 11);
	assert_int_equal(waits[0].passed, 1);
	assert_int_equal(waits[2].late, 1);
	assert_int_equal(list.count, 2);
	assert_int_equal(kw_barriers_next_us(&list), 1100);
	kw_barrier_cancel(&list, &waits[1].barrier);
	kw_barrier_cancel(&list, &waits[1].barrier);
	kw_barriers_step(&list, 1100, 99);
	assert_int_equal(waits[0].late, 1);
	assert_int_equal(waits[1].passed + waits[1].late, 0);
	assert_int_equal(list.count, 0);
}

static void a_barriers_word_is_a_number_of_milliseconds(void **state)
{
	uint32_t ms = 7;

	assert_true(kw_barrier_parse(kw_slice_text("0"), &ms) && ms == 0);
	assert_true(kw_barrier_parse(kw_slice_text("60000"), &ms) && ms == 60000);
	assert_false(kw_barrier_parse(kw_slice_text("60001"), &ms));
	assert_false(kw_barrier_parse(kw_slice_text("99999999999999999999"), &ms));
	assert_false(kw_barrier_parse(kw_slice_text("-1"), &ms));
	assert_false(kw_barrier_parse(kw_slice_text("1s"), &ms));
	assert_false(kw_barrier_parse(kw_slice(NULL, 0), &ms));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_take_effect_in_their_order),
		cmocka_unit_test(a_write_is_remembered_until_it_is_covered),
		cmocka_unit_test(only_reads_of_the_keys_that_were_written_go_to_the_primary),
		cmocka_unit_test(a_key_that_is_written_again_waits_for_its_last_write),
		cmocka_unit_test(a_write_of_unknown_keys_is_one_of_all),
		cmocka_unit_test(more_writes_than_can_be_remembered_are_of_all_keys),
		cmocka_unit_test(no_read_of_a_written_key_comes_too_early),
		cmocka_unit_test(fresh_must_pass_a_time_taken_after_the_look_began),
		cmocka_unit_test(without_publications_nothing_is_covered),
		cmocka_unit_test(a_clock_that_was_set_back_proves_nothing),
		cmocka_unit_test(another_epoch_proves_itself_anew),
		cmocka_unit_test(looks_out_of_order_do_no_harm),
		cmocka_unit_test(a_table_that_stays_behind_is_covered_at_last),
		cmocka_unit_test(what_is_covered_was_asked_for_later),
		cmocka_unit_test(barriers_pass_or_are_too_late),
		cmocka_unit_test(a_barriers_word_is_a_number_of_milliseconds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
