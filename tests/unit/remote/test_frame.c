#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "remote/frame.h"

#include <string.h>

static void frames_come_out_as_they_went_in(void **state)
{
	struct kw_remote_progress progress = {.passed = 1,
		.applied = 2,
		.lag_us = 3,
		.state = "bootstrapping",
		.ticket = UINT16_MAX,
		.reads = 4,
		.bytes = 5};
	struct kw_frame_report report;
	struct kw_frame_sleep sleep;
	struct kw_frame_read read;
	struct kw_frame frame;
	size_t taken;

	kw_frame_encode_sleep(&sleep, UINT64_MAX - 1);
	assert_int_equal(
		kw_frame_take((const uint8_t *)&sleep, sizeof sleep, &taken, &frame, NULL), 0);
	assert_int_equal(taken, sizeof sleep);
	assert_int_equal(frame.op, KW_FRAME_SLEEP);
	assert_int_equal(frame.publication, UINT64_MAX - 1);
	kw_frame_encode_read(&read, 7, 8, 9);
	assert_int_equal(
		kw_frame_take((const uint8_t *)&read, sizeof read, &taken, &frame, NULL), 0);
	assert_int_equal(taken, sizeof read);
	assert_int_equal(frame.op, KW_FRAME_READ);
	assert_int_equal(frame.id, 7);
	assert_int_equal(frame.offset, 8);
	assert_int_equal(frame.length, 9);
	kw_frame_encode_report(&report, &progress);
	assert_int_equal(
		kw_frame_take((const uint8_t *)&report, sizeof report, &taken, &frame, NULL), 0);
	assert_int_equal(taken, sizeof report);
	assert_int_equal(frame.op, KW_FRAME_REPORT);
	assert_memory_equal(&frame.progress, &progress, sizeof progress);
}

static void half_a_frame_is_waited_for(void **state)
{
	uint8_t bytes[1 + sizeof(struct kw_frame_report)];
	struct kw_remote_progress progress = {1, 2, 3, "warm", 4, 5};
	struct kw_frame_report report;
	struct kw_frame frame;
	size_t taken;

	kw_frame_encode_report(&report, &progress);
	memcpy(bytes + 1, &report, sizeof report); /* at any alignment */
	for (size_t length = 0; length < sizeof report; length++) {
		assert_int_equal(kw_frame_take(bytes + 1, length, &taken, &frame, NULL), 0);
		assert_int_equal(taken, 0);
	}
}

static void frames_that_lie_are_refused(void **state)
{
	struct kw_frame_read read, good;
	struct kw_frame frame;
	struct kw_error error;
	size_t taken;

	kw_frame_encode_read(&good, 7, 8, 9);
	for (int i = 0; i < 8; i++) {
		read = good;
		if (i == 6)
			read.header.op = KW_FRAME_SLEEP;
		if (i == 7)
			read.header.op = 0;
		if (i == 0)
			read.header.magic++;
		if (i == 1)
			read.header.op = 9;
		if (i == 2)
			read.header.bytes--;
		if (i == 3)
			read.length = 0;
		if (i == 4)
			read.length = KW_READ_MAX + 1;
		if (i == 5)
			read.header.op = KW_FRAME_REPORT;
		assert_int_equal(
			kw_frame_take((const uint8_t *)&read, sizeof read, &taken, &frame, &error),
			KW_E_PROTOCOL);
	}
}

static void a_state_that_is_no_word_is_neither_sent_nor_taken(void **state)
{
	struct kw_remote_progress progress = {1, 2, 3, "war\033m"};
	struct kw_frame_report report;
	struct kw_frame frame;
	struct kw_error error;
	size_t taken;

	kw_frame_encode_report(&report, &progress);
	assert_int_equal(report.state[0], 0);
	memset(report.state, 'x', sizeof report.state);
	assert_int_equal(
		kw_frame_take((const uint8_t *)&report, sizeof report, &taken, &frame, &error),
		KW_E_PROTOCOL);
}

/*
 * Recorded from an agent of version 0.1. Ours says the same to a proxy that has no tickets, which
 * takes the last two bytes for more of the state.
 */
static void reports_of_version_0_1_are_taken_and_sent(void **state)
{
	/* clang-format off */
	static const uint8_t recorded[] = {
		0x4b, 0x57, 0x46, 0x31, 0x02, 0x00, 0x40, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x04, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x05, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x62, 0x6f, 0x6f, 0x74, 0x73, 0x74, 0x72, 0x61, 0x70, 0x70, 0x69, 0x6e, 0x67, 0x00, 0x00, 0x00,
	};
	/* clang-format on */
	struct kw_remote_progress progress = {.passed = 1,
		.applied = 2,
		.lag_us = 3,
		.state = "bootstrapping", /* no state has a longer name */
		.reads = 4,
		.bytes = 5};
	struct kw_frame_report report;
	struct kw_frame frame;
	size_t taken;

	assert_int_equal(kw_frame_take(recorded, sizeof recorded, &taken, &frame, NULL), 0);
	assert_int_equal(taken, sizeof recorded);
	assert_memory_equal(&frame.progress, &progress, sizeof progress);
	kw_frame_encode_report(&report, &progress);
	assert_memory_equal(&report, recorded, sizeof recorded);
}

static int check(const struct kw_frame_reply *reply, uint64_t id, uint64_t length, bool blocks)
{
	const struct kw_frame_due due = {id, length, blocks};
	struct kw_error error = {0};
	int code = kw_frame_check_reply(reply, &due, &error);

	assert_int_equal(code != 0, error.text[0] != 0);
	return code;
}

static void blocks_come_only_if_they_were_agreed_on_and_pay(void **state)
{
	struct kw_frame_reply reply;

	kw_frame_encode_reply(&reply, KW_FRAME_OK, 4, KW_BLOCKS_LEAST);
	assert_int_equal(check(&reply, 4, KW_BLOCKS_LEAST, true), 0);
	reply.encoding = KW_FRAME_BLOCKS;
	assert_int_equal(check(&reply, 4, KW_BLOCKS_LEAST, true), 0);
	assert_int_equal(check(&reply, 4, KW_BLOCKS_LEAST, false), KW_E_PROTOCOL);
	reply.encoding = KW_FRAME_ENCODINGS;
	assert_int_equal(check(&reply, 4, KW_BLOCKS_LEAST, true), KW_E_PROTOCOL);
	kw_frame_encode_reply(&reply, KW_FRAME_OK, 4, KW_BLOCKS_LEAST - 1);
	assert_int_equal(check(&reply, 4, KW_BLOCKS_LEAST - 1, true), 0);
	reply.encoding = KW_FRAME_BLOCKS;
	assert_int_equal(check(&reply, 4, KW_BLOCKS_LEAST - 1, true), KW_E_PROTOCOL);
	kw_frame_encode_reply(&reply, KW_FRAME_SHUTDOWN, 0, 0);
	reply.encoding = KW_FRAME_BLOCKS;
	assert_int_equal(check(&reply, 4, KW_BLOCKS_LEAST, true), KW_E_PROTOCOL);
}

static void a_reply_must_be_the_one_that_is_due(void **state)
{
	const struct kw_frame_due due = {4, 100, false};
	struct kw_frame_reply reply;
	struct kw_error error;

	kw_frame_encode_reply(&reply, KW_FRAME_OK, 4, 100);
	assert_int_equal(check(&reply, 4, 100, false), 0);
	assert_int_equal(check(&reply, 5, 100, false), KW_E_PROTOCOL);
	assert_int_equal(check(&reply, 4, 101, false), KW_E_PROTOCOL);
	reply.magic++;
	assert_int_equal(check(&reply, 4, 100, false), KW_E_PROTOCOL);
	for (uint16_t status = 1; status < KW_FRAME_STATUSES + 2; status++) {
		kw_frame_encode_reply(&reply, (enum kw_frame_status)status, 0, 0);
		assert_int_equal(kw_frame_check_reply(&reply, &due, &error),
			status == KW_FRAME_SHUTDOWN ? KW_E_GONE : KW_E_REFUSED);
		assert_true(kw_frame_status_text((enum kw_frame_status)status)[0] != 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frames_come_out_as_they_went_in),
		cmocka_unit_test(half_a_frame_is_waited_for),
		cmocka_unit_test(frames_that_lie_are_refused),
		cmocka_unit_test(a_state_that_is_no_word_is_neither_sent_nor_taken),
		cmocka_unit_test(reports_of_version_0_1_are_taken_and_sent),
		cmocka_unit_test(a_reply_must_be_the_one_that_is_due),
		cmocka_unit_test(blocks_come_only_if_they_were_agreed_on_and_pay),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
