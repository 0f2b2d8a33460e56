/* The stream behind a snapshot: every byte counts, and what is not acknowledged can be sent again.
 */
#include "apply/feed.h"

#include "base/buffer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define ASK "*3\r\n$8\r\nREPLCONF\r\n$6\r\nGETACK\r\n$1\r\n*\r\n"
#define SELECT(n) "*2\r\n$6\r\nSELECT\r\n$1\r\n" n "\r\n"
#define UNLINK(key) "*2\r\n$6\r\nUNLINK\r\n$1\r\n" key "\r\n"
#define FLUSH "*2\r\n$7\r\nFLUSHDB\r\n$5\r\nASYNC\r\n"

struct world {
	struct kw_feed feed;
	char done[64]; /* the keys acknowledged; F a flush, - nothing, . another command */
	size_t count;
};

static void on_done(void *arg, const struct kw_window_entry *entry, uint64_t sequence)
{
	struct world *world = arg;
	char word = '.';

	if (entry->kind == KW_WINDOW_DELETE || entry->kind == KW_WINDOW_PUT)
		word = *(const char *)kw_window_key(entry).data;
	else if (entry->kind == KW_WINDOW_FLUSH)
		word = 'F';
	else if (entry->kind == KW_WINDOW_NOTHING)
		word = '-';
	world->done[world->count++] = word;
	world->done[world->count] = '\0';
}

static void remove_key(struct world *world, uint32_t database, const char *key)
{
	const struct kw_record_view record = {
		.kind = KW_RECORD_DELETE, .database = database, .key = kw_slice_text(key)};

	kw_feed_change(&world->feed, &record);
}

static void flush(struct world *world, uint32_t database)
{
	const struct kw_record_view record = {.kind = KW_RECORD_FLUSH, .database = database};

	kw_feed_change(&world->feed, &record);
}

/* Send up to `most` bytes; the text of them. */
static const char *send_some(struct world *world, size_t most)
{
	static char text[4096];
	struct iovec vectors[4];
	size_t length = 0;
	int count = kw_feed_gather(&world->feed, vectors, 4, most);

	for (int i = 0; i < count; i++) {
		size_t part =
			vectors[i].iov_len < most - length ? vectors[i].iov_len : most - length;

		memcpy(text + length, vectors[i].iov_base, part);
		length += part;
	}
	text[length] = '\0';
	kw_feed_wrote(&world->feed, length);
	return text;
}

static const char *send_all(struct world *world)
{
	return send_some(world, 4000);
}

static bool ack(struct world *world, uint64_t offset)
{
	world->count = 0;
	world->done[0] = '\0';
	return kw_feed_ack(&world->feed, offset, on_done, world);
}

static void open_world(struct world *world, uint64_t offset)
{
	memset(world, 0, sizeof *world);
	kw_feed_reset(&world->feed, offset);
}

static void test_databases_are_selected_where_they_change(void **state)
{
	struct world world;

	open_world(&world, 100);
	remove_key(&world, 3, "a");
	remove_key(&world, 3, "b");
	remove_key(&world, 0, "c");
	assert_string_equal(
		send_all(&world), SELECT("3") UNLINK("a") UNLINK("b") SELECT("0") UNLINK("c"));
	assert_int_equal(
		world.feed.sent_end, 100 + 2 * strlen(SELECT("3")) + 3 * strlen(UNLINK("a")));
	kw_feed_reset(&world.feed, 7);
	remove_key(&world, 0, "d");
	assert_string_equal(send_all(&world), SELECT("0") UNLINK("d"));
	kw_feed_close(&world.feed);
}

static void test_a_change_is_done_when_its_last_byte_is_acknowledged(void **state)
{
	const uint64_t selected = 100 + strlen(SELECT("0")), one = strlen(UNLINK("a"));
	struct world world;

	open_world(&world, 100);
	remove_key(&world, 0, "a");
	flush(&world, 0);
	remove_key(&world, 0, "b");
	send_all(&world);
	assert_int_equal(world.feed.flushes_out, 1);
	assert_true(ack(&world, selected + one - 1));
	assert_string_equal(world.done, ".");
	assert_true(ack(&world, selected + one));
	assert_string_equal(world.done, "a");
	assert_true(ack(&world, selected)); /* an old one says nothing */
	assert_string_equal(world.done, "");
	assert_true(ack(&world, selected + one + strlen(FLUSH)));
	assert_string_equal(world.done, "F");
	assert_int_equal(world.feed.flushes_out, 0);
	assert_true(ack(&world, selected + 2 * one + strlen(FLUSH)));
	assert_string_equal(world.done, "b");
	kw_feed_close(&world.feed);
}

static void test_what_was_not_sent_cannot_be_acknowledged(void **state)
{
	struct world world;

	open_world(&world, 100);
	remove_key(&world, 0, "a");
	send_some(&world, strlen(SELECT("0")) + 5);
	assert_true(ack(&world, 100 + strlen(SELECT("0"))));
	assert_false(ack(&world, 100 + strlen(SELECT("0")) + 5));
	assert_false(ack(&world, UINT64_MAX));
	assert_string_equal(world.done, "");
	assert_string_equal(send_all(&world), UNLINK("a") + 5);
	assert_true(ack(&world, world.feed.sent_end));
	assert_string_equal(world.done, "a");
	kw_feed_close(&world.feed);
}

static void test_the_same_bytes_are_sent_again(void **state)
{
	const uint64_t first = 100 + strlen(SELECT("1")) + strlen(UNLINK("a"));
	struct world world;

	open_world(&world, 100);
	remove_key(&world, 1, "a");
	remove_key(&world, 2, "b");
	remove_key(&world, 3, "c");
	send_some(&world, first - 100 + strlen(SELECT("2")) + strlen(UNLINK("b")) + 3);
	world.count = 0;
	assert_false(kw_feed_rewind(&world.feed, first - 1, on_done, &world));
	assert_false(kw_feed_rewind(&world.feed, 99, on_done, &world));
	assert_false(kw_feed_rewind(&world.feed, world.feed.sent_end + 1, on_done, &world));
	assert_int_equal(world.count, 0);
	assert_true(kw_feed_rewind(&world.feed, first, on_done, &world));
	assert_string_equal(world.done, ".a");
	assert_string_equal(send_all(&world), SELECT("2") UNLINK("b") SELECT("3") UNLINK("c"));
	assert_true(ack(&world, world.feed.sent_end));
	assert_string_equal(world.done, ".b.c");
	kw_feed_close(&world.feed);
}

static void test_a_rewound_flush_is_not_on_its_way(void **state)
{
	struct world world;

	open_world(&world, 100);
	flush(&world, 0);
	send_all(&world);
	assert_int_equal(world.feed.flushes_out, 1);
	assert_true(kw_feed_rewind(&world.feed, 100, on_done, &world));
	assert_int_equal(world.feed.flushes_out, 0);
	send_all(&world);
	assert_int_equal(world.feed.flushes_out, 1);
	kw_feed_close(&world.feed);
}

static void test_one_question_is_out_at_a_time(void **state)
{
	const uint64_t asked = 100 + strlen(SELECT("0")) + strlen(UNLINK("a"));
	struct world world;

	open_world(&world, 100);
	kw_feed_ask(&world.feed);
	assert_false(kw_feed_unsent(&world.feed));
	remove_key(&world, 0, "a");
	kw_feed_ask(&world.feed);
	assert_string_equal(send_all(&world), SELECT("0") UNLINK("a") ASK);
	remove_key(&world, 0, "b");
	kw_feed_ask(&world.feed);
	assert_string_equal(send_all(&world), UNLINK("b"));
	/* The answer leaves out the bytes of the question itself. */
	assert_true(ack(&world, asked));
	kw_feed_ask(&world.feed);
	assert_string_equal(send_all(&world), ASK);
	kw_feed_ask(&world.feed);
	assert_false(kw_feed_unsent(&world.feed));
	kw_feed_close(&world.feed);
}

static void test_what_is_given_up_counts_in_its_turn(void **state)
{
	struct world world;

	open_world(&world, 100);
	remove_key(&world, 0, "a");
	kw_feed_nothing(&world.feed, 9);
	remove_key(&world, 0, "b");
	assert_string_equal(send_all(&world), SELECT("0") UNLINK("a") UNLINK("b"));
	assert_true(ack(&world, 100 + strlen(SELECT("0")) + strlen(UNLINK("a"))));
	assert_string_equal(world.done, ".a-");
	kw_feed_close(&world.feed);
}

static void test_an_untouched_stream_may_begin_anywhere(void **state)
{
	struct world world;

	open_world(&world, 0);
	remove_key(&world, 0, "a");
	assert_true(kw_feed_untouched(&world.feed));
	kw_feed_begin(&world.feed, 5000);
	send_some(&world, 3);
	assert_false(kw_feed_untouched(&world.feed));
	send_all(&world);
	assert_true(ack(&world, 5000 + strlen(SELECT("0"))));
	assert_string_equal(world.done, ".");
	kw_feed_close(&world.feed);
}

static void test_other_commands_are_waited_for_by_number(void **state)
{
	const struct kw_slice words[] = {kw_slice_text("FUNCTION"), kw_slice_text("a\r\nb")};
	struct world world;
	uint64_t sequence;

	open_world(&world, 0);
	remove_key(&world, 0, "a");
	sequence = kw_feed_command(&world.feed, 2, words);
	assert_int_equal(sequence, 2);
	kw_feed_ask(&world.feed);
	assert_string_equal(send_all(&world),
		SELECT("0") UNLINK("a") "*2\r\n$8\r\nFUNCTION\r\n$4\r\na\r\nb\r\n" ASK);
	kw_feed_ping(&world.feed);
	assert_string_equal(send_all(&world), "*1\r\n$4\r\nPING\r\n");
	kw_feed_close(&world.feed);
}

static void add_command(struct world *world, const char *word)
{
	const struct kw_slice argv[] = {kw_slice_text(word)};

	kw_feed_command(&world->feed, 1, argv);
}

/* Between two fences a command is on its way with nothing beside it but the question. */
static void a_fence_lets_a_command_stand_alone(void **state)
{
	struct world world = {0};
	uint64_t first, end, at;

	kw_feed_reset(&world.feed, 100);
	remove_key(&world, 0, "a");
	first = kw_feed_fence(&world.feed);
	kw_feed_move_fence(&world.feed, first);
	add_command(&world, "ALONE");
	end = kw_feed_fence(&world.feed);
	remove_key(&world, 0, "b");
	assert_string_equal(send_all(&world), SELECT("0") UNLINK("a") ASK);
	assert_false(kw_feed_unsent(&world.feed));
	assert_string_equal(send_all(&world), "");
	kw_feed_ask(&world.feed); /* one question is out already */
	assert_false(kw_feed_unsent(&world.feed));

	/* The replica's answer leaves out the question's own bytes. */
	assert_false(kw_feed_reached(&world.feed, first));
	at = world.feed.sent_end - (sizeof ASK - 1);
	assert_true(ack(&world, at));
	assert_string_equal(world.done, ".a");
	assert_true(kw_feed_reached(&world.feed, first));
	assert_string_equal(send_all(&world), "");

	kw_feed_move_fence(&world.feed, end);
	assert_string_equal(send_all(&world), "*1\r\n$5\r\nALONE\r\n" ASK);
	assert_true(ack(&world, at + (sizeof ASK - 1)));
	assert_false(kw_feed_reached(&world.feed, end));
	assert_true(ack(&world, world.feed.sent_end - (sizeof ASK - 1)));
	assert_true(kw_feed_reached(&world.feed, end));
	assert_string_equal(send_all(&world), "");

	kw_feed_move_fence(&world.feed, 0);
	assert_string_equal(send_all(&world), UNLINK("b"));
	kw_feed_close(&world.feed);
}

/* The link broke meanwhile: what is sent again ends at the fence, too. */
static void a_fence_outlasts_a_broken_link(void **state)
{
	struct world world = {0};

	kw_feed_reset(&world.feed, 100);
	remove_key(&world, 0, "a");
	kw_feed_move_fence(&world.feed, kw_feed_fence(&world.feed));
	add_command(&world, "ALONE");
	send_all(&world);
	assert_true(kw_feed_rewind(&world.feed, 100, on_done, &world));
	assert_string_equal(send_all(&world), SELECT("0") UNLINK("a") ASK);
	assert_false(kw_feed_unsent(&world.feed));
	kw_feed_reset(&world.feed, 200);
	remove_key(&world, 0, "b");
	assert_string_equal(send_all(&world), SELECT("0") UNLINK("b"));
	kw_feed_close(&world.feed);
}

/* A change that was given up has no bytes, so nothing else would keep it behind the fence. */
static void what_has_no_bytes_waits_at_the_fence_too(void **state)
{
	struct world world = {0};

	kw_feed_reset(&world.feed, 100);
	kw_feed_move_fence(&world.feed, kw_feed_fence(&world.feed));
	kw_feed_nothing(&world.feed, 0);
	send_all(&world);
	assert_true(ack(&world, world.feed.sent_end));
	assert_string_equal(world.done, ".");
	kw_feed_move_fence(&world.feed, 0);
	kw_feed_wrote(&world.feed, 0);
	assert_true(ack(&world, world.feed.sent_end));
	assert_string_equal(world.done, "-");
	kw_feed_close(&world.feed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_databases_are_selected_where_they_change),
		cmocka_unit_test(test_a_change_is_done_when_its_last_byte_is_acknowledged),
		cmocka_unit_test(test_what_was_not_sent_cannot_be_acknowledged),
		cmocka_unit_test(test_the_same_bytes_are_sent_again),
		cmocka_unit_test(test_a_rewound_flush_is_not_on_its_way),
		cmocka_unit_test(test_one_question_is_out_at_a_time),
		cmocka_unit_test(test_what_is_given_up_counts_in_its_turn),
		cmocka_unit_test(test_an_untouched_stream_may_begin_anywhere),
		cmocka_unit_test(test_other_commands_are_waited_for_by_number),
		cmocka_unit_test(a_fence_lets_a_command_stand_alone),
		cmocka_unit_test(a_fence_outlasts_a_broken_link),
		cmocka_unit_test(what_has_no_bytes_waits_at_the_fence_too),
	};

	return cmocka_run_group_tests_name("agent-feed", tests, NULL, NULL);
}
