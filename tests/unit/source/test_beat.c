/* The proxy's own key that proves the notification flags: when it is written, and what follows. */
#include "feed/notify/beat.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#define ALL KW_FLAG_CLASSES_ALL
#define BIT(class) KW_FLAG_CLASS(KW_FLAG_##class)

/* A server: which classes it raises events of, and which writes it refuses. */
struct server {
	kw_flag_classes flags, denied, failing;
};

static const struct server good = {.flags = ALL};

static void write_all(struct kw_beat *beat, const struct server *server, uint64_t now_us)
{
	for (size_t i = 0; i < KW_BEAT_WRITES; i++) {
		const struct kw_beat_write *write = kw_beat_write(i);
		kw_flag_classes class = KW_FLAG_CLASS(write->class);
		enum kw_beat_answer answer = server->denied & class    ? KW_BEAT_DENIED
					     : server->failing & class ? KW_BEAT_NOTHING
								       : KW_BEAT_DONE;

		assert_int_equal(beat->sm.state, KW_BEAT_WRITING);
		if (answer == KW_BEAT_DONE && (server->flags & class))
			kw_beat_heard(beat, kw_slice_text(write->event));
		kw_beat_answered(beat, answer, now_us);
	}
	assert_int_equal(beat->sm.state, KW_BEAT_EXPIRING);
}

/* One beat from begin to end; returns what is lacking. */
static kw_flag_classes beat_once(struct kw_beat *beat, const struct server *server, uint64_t now_us)
{
	assert_true(kw_beat_begin(beat, now_us));
	assert_false(kw_beat_begin(beat, now_us));
	write_all(beat, server, now_us);
	assert_false(kw_beat_reads(beat, now_us + KW_BEAT_EXPIRED_US - 1));
	assert_true(kw_beat_reads(beat, now_us + KW_BEAT_EXPIRED_US));
	kw_beat_read(beat, true);
	return kw_beat_passed(beat, true);
}

static void an_event_before_the_pong_proves_its_class(void **state)
{
	const uint64_t begun = 1000;
	struct kw_beat beat;

	(void)state;
	kw_beat_init(&beat);
	assert_int_equal(kw_beat_proven(&beat, begun), 0);
	assert_int_equal(beat_once(&beat, &good, begun), 0);
	assert_int_equal(kw_beat_proven(&beat, begun + KW_BEAT_EVERY_US), ALL);
	assert_false(kw_beat_begin(&beat, begun + KW_BEAT_EVERY_US - 1));
	assert_int_equal(kw_beat_proven(&beat, begun + KW_BEAT_PROVES_US), 0);
}

static void every_class_has_a_write_and_no_key_is_left(void **state)
{
	kw_flag_classes covered = 0;

	(void)state;
	for (size_t i = 0; i < KW_BEAT_WRITES; i++) {
		covered |= KW_FLAG_CLASS(kw_beat_write(i)->class);
		/* A value of any other type is deleted by the next write. */
		if (kw_beat_write(i)->class != KW_FLAG_GENERIC && i + 1 < KW_BEAT_WRITES)
			assert_int_equal(kw_beat_write(i + 1)->class, KW_FLAG_GENERIC);
	}
	assert_int_equal(covered, ALL);
	assert_int_equal(kw_beat_write(KW_BEAT_WRITES - 1)->class, KW_FLAG_EXPIRED);
}

static void two_in_a_row_without_an_event_are_a_lacking_flag(void **state)
{
	(void)state;
	for (int class = 0; class < KW_FLAG_CLASSES; class ++) {
		const struct server lacks = {.flags = ALL & ~KW_FLAG_CLASS(class)};
		uint64_t now_us = 1;
		struct kw_beat beat;

		kw_beat_init(&beat);
		for (int i = 0; i < 3; i++) { /* never two in a row */
			assert_int_equal(beat_once(&beat, &lacks, now_us += KW_BEAT_EVERY_US), 0);
			assert_int_equal(kw_beat_proven(&beat, now_us), lacks.flags);
			assert_int_equal(beat_once(&beat, &good, now_us += KW_BEAT_EVERY_US), 0);
			assert_int_equal(kw_beat_proven(&beat, now_us), ALL);
		}
		assert_int_equal(beat_once(&beat, &lacks, now_us += KW_BEAT_EVERY_US), 0);
		assert_int_equal(
			beat_once(&beat, &lacks, now_us += KW_BEAT_EVERY_US), KW_FLAG_CLASS(class));
		/* On the next connection one is enough, and it is due at once. */
		kw_beat_reset(&beat);
		assert_int_equal(kw_beat_proven(&beat, now_us), 0);
		assert_int_equal(beat_once(&beat, &lacks, now_us + 1), KW_FLAG_CLASS(class));
		kw_beat_reset(&beat);
		assert_int_equal(beat_once(&beat, &good, now_us + 2), 0);
	}
}

static void what_the_server_does_not_do_says_nothing_about_its_flags(void **state)
{
	const struct server denies = {.flags = ALL & ~BIT(LIST), .denied = BIT(LIST)};
	const struct server fails = {.flags = 0, .failing = ALL};
	uint64_t now_us = 1;
	struct kw_beat beat;

	(void)state;
	kw_beat_init(&beat);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(beat_once(&beat, &denies, now_us += KW_BEAT_EVERY_US), 0);
		assert_int_equal(beat.denied, BIT(LIST));
		assert_int_equal(kw_beat_proven(&beat, now_us), denies.flags);
		assert_int_equal(beat_once(&beat, &fails, now_us += KW_BEAT_EVERY_US), 0);
		assert_int_equal(beat.denied, 0);
		/* The PING is refused: -BUSY. */
		assert_true(kw_beat_begin(&beat, now_us += KW_BEAT_EVERY_US));
		write_all(&beat, &(const struct server){0}, now_us);
		assert_true(kw_beat_reads(&beat, now_us + KW_BEAT_EXPIRED_US));
		kw_beat_read(&beat, true);
		assert_int_equal(kw_beat_passed(&beat, false), 0);
	}
}

/* Nothing expires while writes wait (CLIENT PAUSE). */
static void a_key_that_is_still_there_raised_no_event(void **state)
{
	const struct server lacks = {.flags = ALL & ~BIT(EXPIRED)};
	uint64_t now_us = 1;
	struct kw_beat beat;

	(void)state;
	kw_beat_init(&beat);
	for (int i = 0; i < 4; i++) {
		assert_true(kw_beat_begin(&beat, now_us += KW_BEAT_EVERY_US));
		write_all(&beat, &lacks, now_us);
		assert_true(kw_beat_reads(&beat, now_us + KW_BEAT_EXPIRED_US));
		kw_beat_read(&beat, false);
		assert_int_equal(kw_beat_passed(&beat, true), 0);
	}
}

static void what_was_given_up_proves_nothing(void **state)
{
	uint64_t now_us = 1;
	struct kw_beat beat;

	(void)state;
	kw_beat_init(&beat);
	assert_true(kw_beat_begin(&beat, now_us));
	kw_beat_answered(&beat, KW_BEAT_DONE, now_us);
	kw_beat_stop(&beat);
	kw_beat_answered(&beat, KW_BEAT_DONE, now_us); /* too late */
	assert_false(kw_beat_reads(&beat, now_us + KW_BEAT_EVERY_US));
	kw_beat_read(&beat, true);
	assert_int_equal(kw_beat_passed(&beat, true), 0);
	assert_int_equal(kw_beat_proven(&beat, now_us), 0);
	assert_false(kw_beat_begin(&beat, now_us + 1));
	/* The next one begins anew. */
	assert_int_equal(beat_once(&beat, &good, now_us + KW_BEAT_EVERY_US), 0);
	assert_int_equal(kw_beat_proven(&beat, now_us + KW_BEAT_EVERY_US), ALL);
}

static void a_sentence_names_the_classes_and_their_letters(void **state)
{
	char text[KW_FLAG_CLASSES_TEXT];

	(void)state;
	kw_flag_classes_text(BIT(STRING) | BIT(ZSET) | BIT(EXPIRED), text);
	assert_string_equal(text, "string ($), sorted set (z), expired (x)");
	kw_flag_classes_text(ALL, text);
	kw_flag_classes_text(0, text);
	assert_string_equal(text, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_event_before_the_pong_proves_its_class),
		cmocka_unit_test(every_class_has_a_write_and_no_key_is_left),
		cmocka_unit_test(two_in_a_row_without_an_event_are_a_lacking_flag),
		cmocka_unit_test(what_the_server_does_not_do_says_nothing_about_its_flags),
		cmocka_unit_test(a_key_that_is_still_there_raised_no_event),
		cmocka_unit_test(what_was_given_up_proves_nothing),
		cmocka_unit_test(a_sentence_names_the_classes_and_their_letters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
