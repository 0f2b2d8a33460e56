/* Tokens of `keywakectl wait warm`: from issued to passed, by tickets of the proxy. */
#include "sync/token.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define EPOCH 77

static struct kw_superblock superblock(uint16_t ticket)
{
	return (struct kw_superblock){.epoch = EPOCH, .ticket = ticket};
}

static void a_token_passes_when_a_ticket_begun_after_it_is_applied(void **state)
{
	struct kw_superblock now = superblock(10);
	struct kw_tokens tokens;
	uint64_t token;

	kw_tokens_init(&tokens, 12345);
	token = kw_token_issue(&tokens, 1000);
	assert_true(kw_token_known(&tokens, token));
	assert_false(kw_token_draw(&tokens, &now, 999)); /* it was asked for before the token */
	assert_true(kw_token_draw(&tokens, &now, 1000));
	assert_int_equal(tokens.ticket, 12);
	kw_token_applied(&tokens, EPOCH, 11);
	assert_false(kw_token_passed(&tokens, token));
	kw_token_applied(&tokens, EPOCH + 1, 12);
	assert_false(kw_token_passed(&tokens, token));
	kw_token_applied(&tokens, EPOCH, 12);
	assert_true(kw_token_passed(&tokens, token));
	assert_int_equal(tokens.ticket, 0);
}

static void a_ticket_under_way_does_not_count(void **state)
{
	struct kw_superblock now = superblock(11);
	struct kw_tokens tokens;
	uint64_t token;

	kw_tokens_init(&tokens, 0);
	token = kw_token_issue(&tokens, 5);
	assert_true(kw_token_draw(&tokens, &now, 5));
	kw_token_applied(&tokens, EPOCH, 12);
	assert_false(kw_token_passed(&tokens, token));
	kw_token_applied(&tokens, EPOCH, 14);
	assert_true(kw_token_passed(&tokens, token));
}

static void tokens_issued_meanwhile_share_the_next_ticket(void **state)
{
	struct kw_superblock now = superblock(10);
	struct kw_tokens tokens;
	uint64_t first, second, third;

	kw_tokens_init(&tokens, UINT64_MAX);
	first = kw_token_issue(&tokens, 5);
	assert_true(kw_token_draw(&tokens, &now, 6));
	second = kw_token_issue(&tokens, 7);
	third = kw_token_issue(&tokens, 8);
	assert_false(kw_token_draw(&tokens, &now, 9)); /* one at a time */
	now = superblock(12);
	kw_token_applied(&tokens, EPOCH, 12);
	assert_true(kw_token_passed(&tokens, first));
	assert_false(kw_token_passed(&tokens, second));
	assert_true(kw_token_draw(&tokens, &now, 9));
	kw_token_applied(&tokens, EPOCH, 14);
	assert_true(kw_token_passed(&tokens, second) && kw_token_passed(&tokens, third));
}

/* Otherwise clients that come all the time would keep the first one waiting. */
static void later_tokens_do_not_hold_up_earlier_ones(void **state)
{
	struct kw_superblock now = superblock(10);
	struct kw_tokens tokens;
	uint64_t first, last = 0;

	kw_tokens_init(&tokens, 1);
	first = kw_token_issue(&tokens, 100);
	for (uint64_t us = 101; us < 200; us++)
		last = kw_token_issue(&tokens, us);
	assert_true(kw_token_draw(&tokens, &now, 150));
	kw_token_applied(&tokens, EPOCH, 12);
	assert_true(kw_token_passed(&tokens, first));
	assert_false(kw_token_passed(&tokens, last));
}

static void another_table_or_a_number_far_away_is_drawn_from_anew(void **state)
{
	struct kw_superblock now = superblock(10);
	struct kw_tokens tokens;
	uint64_t token;

	kw_tokens_init(&tokens, 1);
	token = kw_token_issue(&tokens, 1);
	assert_true(kw_token_draw(&tokens, &now, 2));
	now.ticket = 9; /* of before: 12 can still be drawn from it */
	assert_false(kw_token_draw(&tokens, &now, 3));
	now = (struct kw_superblock){.epoch = EPOCH + 1, .ticket = 40};
	assert_true(kw_token_draw(&tokens, &now, 4));
	assert_int_equal(tokens.ticket, 42);
	now.ticket = 40000; /* others passed so many while this agent was away */
	assert_true(kw_token_draw(&tokens, &now, 5));
	kw_token_applied(&tokens, EPOCH + 1, 40002);
	assert_true(kw_token_passed(&tokens, token));
}

static void a_proxy_without_tickets_passes_no_token(void **state)
{
	struct kw_superblock now = superblock(0);
	struct kw_tokens tokens;
	uint64_t token;

	kw_tokens_init(&tokens, 1);
	token = kw_token_issue(&tokens, 1);
	assert_false(kw_token_draw(&tokens, &now, 2));
	kw_token_applied(&tokens, EPOCH, 0);
	assert_false(kw_token_passed(&tokens, token));
}

static void a_token_of_another_run_is_not_known(void **state)
{
	struct kw_tokens tokens, before;
	uint64_t token;

	kw_tokens_init(&before, UINT64_C(0x123456789abc));
	token = kw_token_issue(&before, 1);
	kw_tokens_init(&tokens, UINT64_C(0x023456789abc));
	assert_false(kw_token_known(&tokens, token));
	assert_false(kw_token_known(&tokens, 0));
	kw_tokens_init(&tokens, UINT64_C(0x723456789abc));
	assert_false(kw_token_known(&tokens, token));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_token_passes_when_a_ticket_begun_after_it_is_applied),
		cmocka_unit_test(a_ticket_under_way_does_not_count),
		cmocka_unit_test(tokens_issued_meanwhile_share_the_next_ticket),
		cmocka_unit_test(later_tokens_do_not_hold_up_earlier_ones),
		cmocka_unit_test(another_table_or_a_number_far_away_is_drawn_from_anew),
		cmocka_unit_test(a_proxy_without_tickets_passes_no_token),
		cmocka_unit_test(a_token_of_another_run_is_not_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
