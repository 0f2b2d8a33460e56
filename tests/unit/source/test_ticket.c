/* Tickets: numbered barriers, as the proxy counts them and as readers draw them. */
#include "source/ticket.h"
#include "table/layout.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void run(struct kw_ticket *ticket, uint16_t wanted)
{
	assert_true(kw_ticket_announce(ticket, wanted));
	assert_true(kw_ticket_examine(ticket));
	kw_ticket_told(ticket, 0);
	kw_ticket_examined(ticket);
	kw_ticket_asked(ticket);
	assert_true(kw_ticket_passed(ticket));
}

static void a_ticket_drawn_at_rest_passes_with_the_next_one(void **state)
{
	struct kw_ticket ticket;
	uint16_t drawn;

	kw_ticket_init(&ticket);
	drawn = kw_ticket_drawn(ticket.number);
	assert_false(kw_ticket_reached(ticket.number, drawn));
	run(&ticket, drawn);
	assert_true(kw_ticket_reached(ticket.number, drawn));
	assert_false(kw_ticket_announce(&ticket, drawn)); /* no second one for it */
}

static void a_ticket_drawn_while_one_is_under_way_needs_the_one_after_it(void **state)
{
	struct kw_ticket ticket;
	uint16_t first, second;

	kw_ticket_init(&ticket);
	first = kw_ticket_drawn(ticket.number);
	assert_true(kw_ticket_announce(&ticket, first));
	second = kw_ticket_drawn(ticket.number);
	assert_false(kw_ticket_announce(&ticket, second)); /* one at a time */
	assert_true(kw_ticket_examine(&ticket));
	kw_ticket_told(&ticket, 0);
	kw_ticket_examined(&ticket);
	kw_ticket_asked(&ticket);
	assert_true(kw_ticket_passed(&ticket));
	assert_true(kw_ticket_reached(ticket.number, first));
	assert_false(kw_ticket_reached(ticket.number, second));
	run(&ticket, second);
	assert_true(kw_ticket_reached(ticket.number, second));
}

/* A number that began at 2 again would have passed what nobody has looked at. */
static void a_ticket_drawn_from_the_process_before_passes_in_the_next_one(void **state)
{
	struct kw_ticket before, ticket;
	uint16_t drawn;

	kw_ticket_init(&before);
	for (int i = 0; i < 5; i++)
		run(&before, kw_ticket_drawn(before.number));
	assert_true(kw_ticket_announce(&before, kw_ticket_drawn(before.number)));
	drawn = kw_ticket_drawn(before.number);
	kw_ticket_init(&ticket);
	kw_ticket_resume(&ticket, 0); /* a table without tickets */
	assert_int_equal(ticket.number, 2);
	kw_ticket_resume(&ticket, before.number);
	assert_false(kw_ticket_reached(ticket.number, drawn));
	run(&ticket, drawn); /* the one that was under way begins anew … */
	assert_false(kw_ticket_reached(ticket.number, drawn));
	run(&ticket, drawn);
	assert_true(kw_ticket_reached(ticket.number, drawn));
}

static void the_numbers_wrap_without_a_wrong_answer(void **state)
{
	struct kw_ticket ticket;

	kw_ticket_init(&ticket);
	for (int i = 0; i < 100000; i++) {
		uint16_t at_rest = kw_ticket_drawn(ticket.number), under_way;

		assert_true(ticket.number >= 2 && at_rest >= 2);
		assert_true(kw_ticket_announce(&ticket, at_rest));
		assert_int_equal(ticket.number % 2, 1);
		assert_false(kw_ticket_reached(ticket.number, at_rest));
		under_way = kw_ticket_drawn(ticket.number);
		assert_true(kw_ticket_examine(&ticket));
		kw_ticket_told(&ticket, 0);
		kw_ticket_examined(&ticket);
		kw_ticket_asked(&ticket);
		assert_true(kw_ticket_passed(&ticket));
		assert_true(kw_ticket_reached(ticket.number, at_rest));
		assert_false(kw_ticket_reached(ticket.number, under_way));
	}
}

static void barriers_asked_for_before_the_examination_ended_prove_nothing(void **state)
{
	struct kw_ticket ticket;

	kw_ticket_init(&ticket);
	assert_true(kw_ticket_announce(&ticket, kw_ticket_drawn(ticket.number)));
	kw_ticket_asked(&ticket);
	assert_false(kw_ticket_passed(&ticket));
	assert_true(kw_ticket_examine(&ticket));
	kw_ticket_asked(&ticket);
	kw_ticket_told(&ticket, 0);
	kw_ticket_examined(&ticket);
	assert_false(kw_ticket_passed(&ticket));
	kw_ticket_asked(&ticket);
	kw_ticket_spoil(&ticket); /* doubt */
	assert_false(kw_ticket_passed(&ticket));
	kw_ticket_asked(&ticket);
	assert_true(kw_ticket_passed(&ticket));
}

static void a_feed_that_stops_leaves_the_ticket_to_be_begun_anew(void **state)
{
	struct kw_ticket ticket;
	uint16_t drawn, later;

	kw_ticket_init(&ticket);
	drawn = kw_ticket_drawn(ticket.number);
	assert_true(kw_ticket_announce(&ticket, drawn));
	kw_ticket_reset(&ticket);
	assert_false(kw_ticket_examine(&ticket));
	later = kw_ticket_drawn(ticket.number); /* it might be under way, for all a reader knows */
	run(&ticket, later);
	assert_true(kw_ticket_reached(ticket.number, drawn));
	assert_false(kw_ticket_reached(ticket.number, later));
	run(&ticket, later);
	assert_true(kw_ticket_reached(ticket.number, later));
}

static void numbers_that_no_reader_can_have_drawn_cost_nothing(void **state)
{
	struct kw_ticket ticket;
	uint32_t announced = 0;

	kw_ticket_init(&ticket);
	for (uint32_t wanted = 0; wanted <= UINT16_MAX; wanted++) {
		if (!kw_ticket_announce(&ticket, (uint16_t)wanted))
			continue;
		announced++;
		kw_ticket_init(&ticket);
	}
	assert_int_equal(announced, 2); /* the next number, under way, and the one after it */
}

/* A token is older than half of all numbers, or it is a mistake: nobody may wait for it. */
static void a_number_is_reached_or_awaited_or_of_no_use(void **state)
{
	for (uint32_t number = 2; number <= UINT16_MAX; number++) {
		uint16_t drawn = kw_ticket_drawn((uint16_t)number), at = (uint16_t)number;
		uint32_t awaited = 0;

		assert_true(kw_ticket_awaited((uint16_t)number, drawn));
		assert_false(kw_ticket_awaited((uint16_t)number, (uint16_t)number));
		for (int i = 0; i < 6; i++) {
			at = kw_ticket_next(at);
			awaited += kw_ticket_awaited((uint16_t)number, at);
			assert_false(kw_ticket_reached((uint16_t)number, at));
		}
		assert_int_equal(awaited, number % 2 ? 3 : 2); /* up to the one that is drawn */
		assert_false(kw_ticket_awaited((uint16_t)number, (uint16_t)(number + 20000)));
		assert_false(kw_ticket_awaited((uint16_t)number, (uint16_t)(number - 20000)));
	}
}

/* ---- when ---- */

#define SECOND_US UINT64_C(1000000)

static bool may_begin(const struct kw_ticket_budget *budget, uint64_t now_us)
{
	return kw_ticket_due_us(budget, &kw_ticket_look, now_us) <= now_us;
}

/* A wish each 5 ms for so long: how many begin at once? */
static int begin_for(struct kw_ticket_budget *budget, uint64_t *now_us, uint64_t long_us)
{
	uint64_t end_us = *now_us + long_us;
	int count = 0;

	for (; *now_us < end_us; *now_us += 5000) {
		if (!may_begin(budget, *now_us))
			continue;
		kw_ticket_spend(budget, &kw_ticket_look, *now_us);
		count++;
	}
	return count;
}

static void some_wishes_begin_at_once_and_then_two_a_second(void **state)
{
	struct kw_ticket_budget budget = {0};
	uint64_t now_us = 3600 * SECOND_US;

	assert_int_equal(begin_for(&budget, &now_us, KW_TICKETS_SAVED * KW_TICKET_APART_US),
		KW_TICKETS_SAVED);
	assert_in_range(begin_for(&budget, &now_us, 60 * SECOND_US), 119, 120);
	/* After a rest it has saved again, but not more than before. */
	now_us += 3600 * SECOND_US;
	assert_int_equal(begin_for(&budget, &now_us, KW_TICKETS_SAVED * KW_TICKET_APART_US),
		KW_TICKETS_SAVED);
	now_us += 2 * KW_TICKET_EACH_US;
	assert_int_equal(begin_for(&budget, &now_us, 100000), 2);
}

static void two_are_never_begun_within_a_tickets_time(void **state)
{
	struct kw_ticket_budget budget = {0};
	uint64_t now_us = 3600 * SECOND_US;

	kw_ticket_spend(&budget, &kw_ticket_look, now_us);
	assert_false(may_begin(&budget, now_us));
	assert_false(may_begin(&budget, now_us + KW_TICKET_APART_US - 1));
	assert_true(may_begin(&budget, now_us + KW_TICKET_APART_US));
}

static void a_clock_that_has_just_begun_is_no_matter(void **state)
{
	struct kw_ticket_budget budget = {0};

	assert_false(may_begin(&budget, 0));
	assert_true(may_begin(&budget, KW_TICKET_EACH_US));
}

static void it_is_told_when_one_may_begin(void **state)
{
	struct kw_ticket_budget budget = {0};
	uint64_t now_us = 3600 * SECOND_US;

	kw_ticket_spend(&budget, &kw_ticket_look, now_us);
	assert_int_equal(
		kw_ticket_due_us(&budget, &kw_ticket_look, now_us), now_us + KW_TICKET_APART_US);
	begin_for(&budget, &now_us, SECOND_US);
	assert_in_range(kw_ticket_due_us(&budget, &kw_ticket_look, now_us), now_us,
		now_us + KW_TICKET_EACH_US);
}

/* A look that found nothing to begin costs nothing, but is not repeated at once. */
static void a_look_for_wishes_spends_nothing(void **state)
{
	struct kw_ticket_budget budget = {0};
	uint64_t now_us = 3600 * SECOND_US;

	for (int i = 0; i < 100; i++, now_us += KW_TICKET_APART_US) {
		assert_true(may_begin(&budget, now_us));
		kw_ticket_looked(&budget, now_us);
		assert_false(may_begin(&budget, now_us));
	}
}

/* … of the stream, so that waits in a row do not wait for the heartbeat. */
static void a_hundred_tickets_in_a_row_begin_at_once(void **state)
{
	struct kw_ticket_budget budget = {0};
	uint64_t now_us = 3600 * SECOND_US, begun_us = now_us;

	for (int i = 0; i < 100; i++) {
		now_us = kw_ticket_due_us(&budget, &kw_ticket_role, now_us);
		if (now_us < begun_us)
			now_us = begun_us;
		kw_ticket_spend(&budget, &kw_ticket_role, now_us);
	}
	assert_true(now_us - begun_us <= 100 * UINT64_C(2000));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_ticket_drawn_at_rest_passes_with_the_next_one),
		cmocka_unit_test(a_ticket_drawn_while_one_is_under_way_needs_the_one_after_it),
		cmocka_unit_test(a_ticket_drawn_from_the_process_before_passes_in_the_next_one),
		cmocka_unit_test(the_numbers_wrap_without_a_wrong_answer),
		cmocka_unit_test(some_wishes_begin_at_once_and_then_two_a_second),
		cmocka_unit_test(two_are_never_begun_within_a_tickets_time),
		cmocka_unit_test(a_clock_that_has_just_begun_is_no_matter),
		cmocka_unit_test(it_is_told_when_one_may_begin),
		cmocka_unit_test(a_look_for_wishes_spends_nothing),
		cmocka_unit_test(a_hundred_tickets_in_a_row_begin_at_once),
		cmocka_unit_test(barriers_asked_for_before_the_examination_ended_prove_nothing),
		cmocka_unit_test(a_feed_that_stops_leaves_the_ticket_to_be_begun_anew),
		cmocka_unit_test(numbers_that_no_reader_can_have_drawn_cost_nothing),
		cmocka_unit_test(a_number_is_reached_or_awaited_or_of_no_use),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
