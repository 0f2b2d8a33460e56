/* The proxy's own key that proves the notification flags: when it is written, and what follows. */
#include "feed/notify/beat.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

/* One write that the server takes; heard: its event comes before the pong. */
static bool beat_once(struct kw_beat *beat, uint64_t now_us, bool heard)
{
	assert_true(kw_beat_is_due(beat, now_us));
	assert_false(kw_beat_is_due(beat, now_us));
	assert_true(kw_beat_written(beat, true));
	if (heard)
		kw_beat_heard(beat);
	return kw_beat_answered(beat, true);
}

static void an_event_before_the_pong_proves_the_flags(void **state)
{
	struct kw_beat beat = {0};
	const uint64_t begun = 1000;

	(void)state;
	assert_false(kw_beat_proves(&beat, begun));
	assert_false(beat_once(&beat, begun, true));
	assert_true(kw_beat_proves(&beat, begun + KW_BEAT_EVERY_US));
	assert_false(kw_beat_is_due(&beat, begun + KW_BEAT_EVERY_US - 1));
	assert_false(kw_beat_proves(&beat, begun + KW_BEAT_PROVES_US));
}

static void two_in_a_row_without_an_event_are_a_doubt(void **state)
{
	struct kw_beat beat = {0};
	uint64_t now_us = 1;
	int doubts = 0;

	(void)state;
	for (int i = 0; i < 5; i++) { /* never two in a row */
		assert_false(beat_once(&beat, now_us += KW_BEAT_EVERY_US, false));
		assert_false(kw_beat_proves(&beat, now_us));
		assert_false(beat_once(&beat, now_us += KW_BEAT_EVERY_US, true));
	}
	assert_false(beat_once(&beat, now_us += KW_BEAT_EVERY_US, false));
	assert_true(beat_once(&beat, now_us += KW_BEAT_EVERY_US, false));
	for (int i = 0; i < 2 * KW_BEAT_MISSED_AGAIN; i++)
		doubts += beat_once(&beat, now_us += KW_BEAT_EVERY_US, false);
	assert_int_equal(doubts, 2); /* a scan a minute, not one a beat */
}

static void what_the_server_refuses_says_nothing_about_the_flags(void **state)
{
	struct kw_beat beat = {0};
	uint64_t now_us = 1;

	(void)state;
	for (int i = 0; i < 5; i++) {
		now_us += KW_BEAT_EVERY_US;
		assert_true(kw_beat_is_due(&beat, now_us));
		if (i % 2) { /* the write, or the PING: -BUSY */
			assert_false(kw_beat_written(&beat, false));
		} else {
			assert_true(kw_beat_written(&beat, true));
			assert_false(kw_beat_answered(&beat, false));
		}
	}
	assert_false(kw_beat_proves(&beat, now_us));
}

static void an_answer_of_a_connection_that_is_gone_is_not_used(void **state)
{
	struct kw_beat beat = {0};

	(void)state;
	assert_true(kw_beat_is_due(&beat, 1));
	kw_beat_stop(&beat);
	assert_false(kw_beat_written(&beat, true));
	assert_false(kw_beat_answered(&beat, true));
	assert_true(kw_beat_is_due(&beat, 2));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_event_before_the_pong_proves_the_flags),
		cmocka_unit_test(two_in_a_row_without_an_event_are_a_doubt),
		cmocka_unit_test(what_the_server_refuses_says_nothing_about_the_flags),
		cmocka_unit_test(an_answer_of_a_connection_that_is_gone_is_not_used),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
