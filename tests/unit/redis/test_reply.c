/* The reader of replies: whole whatever the pieces, and bounded whatever the server. */
#include "base/buffer.h"
#include "fixture.h"
#include "redis/reply.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <malloc.h>

static const char stream[] =
	"+OK\r\n-ERR no\r\n:-7\r\n:9223372036854775807\r\n$5\r\nhe\r\no\r\n$0\r\n\r\n$-1\r\n*-1\r\n"
	"*0\r\n*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n$-1\r\n"
	"*2\r\n:1\r\n*2\r\n*1\r\n$1\r\na\r\n*2\r\n+s\r\n-e\r\n"
	"*4\r\n$1\r\nx\r\n$-1\r\n:4\r\n$1\r\ny\r\n";

static const char wanted[] =
	"+OK -ERR no :-7 :9223372036854775807 \"he\r\no\" \"\" nil nil [ ] "
	"[ \"message\" \"__redis__:invalidate\" nil ] [ :1 [ [ \"a\" ] [ +s -e ] ] ] "
	"[ \"x\" nil :4 \"y\" ] ";

static bool note(void *arg, const struct kw_reply *reply)
{
	test_note(arg, reply);
	return true;
}

static void expect_wanted(struct kw_buffer *notes)
{
	assert_int_equal(kw_buffer_length(notes), sizeof wanted - 1);
	assert_memory_equal(kw_buffer_bytes(notes), wanted, sizeof wanted - 1);
	kw_buffer_clear(notes);
}

static void replies_are_the_same_however_the_bytes_are_cut(void **state)
{
	struct kw_buffer notes = {0};

	for (size_t piece = 1; piece <= sizeof stream; piece++) {
		struct kw_reply_reader *reader = kw_reply_reader_new(note, &notes);

		for (size_t at = 0; at < sizeof stream - 1; at += piece) {
			size_t left = sizeof stream - 1 - at;

			/* Exactly sized copies, so that a sanitizer sees a step beyond. */
			size_t length = left < piece ? left : piece;
			char *copy = malloc(length);

			memcpy(copy, stream + at, length);
			assert_int_equal(kw_reply_reader_feed(reader, copy, length, NULL), 0);
			free(copy);
		}
		expect_wanted(&notes);
		kw_reply_reader_free(reader);
	}
	kw_buffer_close(&notes);
}

static void feed_error(const char *text, size_t length, struct kw_error *error)
{
	struct kw_buffer notes = {0};
	struct kw_reply_reader *reader = kw_reply_reader_new(note, &notes);

	assert_int_equal(kw_reply_reader_feed(reader, text, length, error), KW_E_PROTOCOL);
	/* And it stays so. */
	assert_int_equal(kw_reply_reader_feed(reader, "+OK\r\n", 5, NULL), KW_E_PROTOCOL);
	assert_int_equal(kw_buffer_length(&notes), 0);
	kw_reply_reader_free(reader);
	kw_buffer_close(&notes);
}

static void bytes_that_are_not_resp_are_refused(void **state)
{
	static const char *const garbage[] = {"HTTP/1.1 400 Bad Request\r\n\r\n", "\r\n", "$x\r\n",
		"$-2\r\n", "*-2\r\n", ":\r\n", ":1x\r\n", "*1\r\n?\r\n", "\xff\xfe",
		"%1\r\n+a\r\n+b\r\n", ">2\r\n+a\r\n+b\r\n", ",1.5\r\n", "#t\r\n",
		"*1\r\n~1\r\n+a\r\n", "$99999999999999999999\r\n"};
	struct kw_error error;

	for (size_t i = 0; i < sizeof garbage / sizeof *garbage; i++) {
		feed_error(garbage[i], strlen(garbage[i]), &error);
		assert_true(strlen(error.text) > 20);
	}
}

static void a_hostile_array_length_is_refused_without_memory_for_it(void **state)
{
	struct kw_error error;

	feed_error("*2147483647\r\n", 13, &error);
	assert_non_null(strstr(error.text, "1 GiB"));
}

static void arrays_nested_without_end_are_refused(void **state)
{
	char text[4 * 64 + 1] = "";
	struct kw_error error;

	for (int i = 0; i < 64; i++)
		memcpy(text + 4 * i, "*1\r\n", 5);
	feed_error(text, strlen(text), &error);
}

static void a_line_without_end_is_refused(void **state)
{
	size_t length = 2 * KW_REPLY_LINE_MAX_BYTES;
	char *text = malloc(length);
	struct kw_error error;

	memset(text, 'a', length);
	text[0] = '+';
	feed_error(text, length, &error);
	assert_non_null(strstr(error.text, "64 KiB"));
	memset(text, '1', length);
	text[0] = '$';
	feed_error(text, length, &error);
	free(text);
}

struct count {
	int replies, limit;
	size_t last_bytes;
};

static bool count(void *arg, const struct kw_reply *reply)
{
	struct count *counted = arg;

	counted->replies++;
	counted->last_bytes = reply->text.length;
	return counted->limit == 0 || counted->replies < counted->limit;
}

static void a_sink_that_says_stop_hears_nothing_more(void **state)
{
	struct count counted = {.limit = 2};
	struct kw_reply_reader *reader = kw_reply_reader_new(count, &counted);

	assert_int_equal(kw_reply_reader_feed(reader, "+a\r\n*1\r\n:1\r\n+c\r\n", 16, NULL), 0);
	assert_int_equal(kw_reply_reader_feed(reader, "+d\r\n", 4, NULL), 0);
	assert_int_equal(counted.replies, 2);
	kw_reply_reader_free(reader);
}

static void feed_value(struct kw_reply_reader *reader, size_t length)
{
	static char piece[65536];
	char header[32];
	int bytes = snprintf(header, sizeof header, "$%zu\r\n", length);

	assert_int_equal(kw_reply_reader_feed(reader, header, (size_t)bytes, NULL), 0);
	for (size_t left = length; left > 0;) {
		size_t part = left < sizeof piece ? left : sizeof piece;

		assert_int_equal(kw_reply_reader_feed(reader, piece, part, NULL), 0);
		left -= part;
	}
	assert_int_equal(kw_reply_reader_feed(reader, "\r\n+O", 4, NULL), 0);
	assert_int_equal(kw_reply_reader_feed(reader, "K\r\n", 3, NULL), 0);
}

static void the_memory_of_a_huge_value_is_given_back(void **state)
{
	struct count counted = {0};
	struct kw_reply_reader *reader = kw_reply_reader_new(count, &counted);
	size_t before, after;

	feed_value(reader, 100);
	before = mallinfo2().hblkhd + mallinfo2().uordblks;
	feed_value(reader, 64 << 20);
	after = mallinfo2().hblkhd + mallinfo2().uordblks;
	assert_int_equal(counted.replies, 4);
	assert_true(after < before + (1 << 20));
	kw_reply_reader_free(reader);
}

static void what_stands_behind_a_huge_value_is_not_lost(void **state)
{
	struct count counted = {0};
	struct kw_reply_reader *reader = kw_reply_reader_new(count, &counted);
	size_t length = 8 << 20, at;
	char *text = calloc(1, length + 64);

	at = (size_t)sprintf(text, "$%zu\r\n", length) + length;
	at += (size_t)sprintf(text + at, "\r\n:1\r\n:2\r\n$3\r\nab");
	assert_int_equal(kw_reply_reader_feed(reader, text, at, NULL), 0);
	assert_int_equal(counted.replies, 3);
	assert_int_equal(kw_reply_reader_feed(reader, "c\r\n", 3, NULL), 0);
	assert_int_equal(counted.replies, 4);
	assert_int_equal(counted.last_bytes, 3);
	kw_reply_reader_free(reader);
	free(text);
}

/* A stream of replies of every size around the bounds of the reader, and what it must say of each.
 */
struct mixture {
	struct kw_buffer bytes;
	uint64_t seed;
	uint32_t told; /* replies that were right so far */
};

static uint32_t draw(struct mixture *mixture, uint32_t below)
{
	mixture->seed = mixture->seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(mixture->seed >> 33) % below;
}

static size_t size_of(uint32_t number)
{
	static const size_t sizes[] = {0, 1, 20, 110, 4096, 65519, 65520, 65521, 65526, 65528,
		65534, 65536, 65537, 200000};

	return sizes[number % (sizeof sizes / sizeof *sizes)];
}

static void add_bulk(struct mixture *mixture, uint32_t number)
{
	size_t length = size_of(number);

	kw_buffer_printf(&mixture->bytes, "$%zu\r\n", length);
	memset(kw_buffer_reserve(&mixture->bytes, length + 1), (int)(number % 251), length);
	kw_buffer_filled(&mixture->bytes, length);
	kw_buffer_append(&mixture->bytes, "\r\n", 2);
}

static void add_reply(struct mixture *mixture, uint32_t number)
{
	switch (number % 5) {
	case 0:
	case 1:
		add_bulk(mixture, number);
		break;
	case 2: /* a message */
		kw_buffer_printf(&mixture->bytes, "*2\r\n:%u\r\n", number);
		add_bulk(mixture, number);
		break;
	case 3: /* a step of a scan */
		kw_buffer_printf(&mixture->bytes, "*2\r\n:%u\r\n*1\r\n", number);
		add_bulk(mixture, number);
		break;
	default:
		kw_buffer_printf(&mixture->bytes, ":-%u\r\n", number);
	}
}

static void expect_bulk(const struct kw_reply *reply, uint32_t number)
{
	const uint8_t *text = reply->text.data;

	assert_int_equal(reply->type, KW_REPLY_STRING);
	assert_int_equal(reply->text.length, size_of(number));
	for (size_t i = 0; i < reply->text.length; i++)
		assert_int_equal(text[i], number % 251);
}

static bool expect_next(void *arg, const struct kw_reply *reply)
{
	struct mixture *mixture = arg;
	uint32_t number = mixture->told++;

	if (number % 5 == 4) {
		assert_int_equal(reply->integer, -(int64_t)number);
		return true;
	}
	if (number % 5 >= 2) {
		assert_int_equal(reply->count, 2);
		assert_int_equal(reply->elements[0].integer, number);
		reply = &reply->elements[1];
	}
	if (number % 5 == 3)
		reply = reply->elements;
	expect_bulk(reply, number);
	return true;
}

static void replies_of_every_size_come_whole_and_in_order(void **state)
{
	struct mixture mixture = {.seed = 42};
	uint32_t replies = 5 * 14 * 3;

	for (uint32_t number = 0; number < replies; number++)
		add_reply(&mixture, number);
	for (int round = 0; round < 20; round++) {
		struct kw_reply_reader *reader = kw_reply_reader_new(expect_next, &mixture);
		const uint8_t *at = kw_buffer_bytes(&mixture.bytes);
		size_t left = kw_buffer_length(&mixture.bytes);
		uint32_t most = round % 2 ? 65536 : 3000;

		mixture.told = 0;
		while (left > 0) {
			size_t piece = 1 + draw(&mixture, most);

			if (piece > left)
				piece = left;
			assert_int_equal(kw_reply_reader_feed(reader, at, piece, NULL), 0);
			at += piece;
			left -= piece;
		}
		assert_int_equal(mixture.told, replies);
		assert_int_equal(kw_reply_reader_held_bytes(reader), 0);
		kw_reply_reader_free(reader);
	}
	kw_buffer_close(&mixture.bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(replies_are_the_same_however_the_bytes_are_cut),
		cmocka_unit_test(bytes_that_are_not_resp_are_refused),
		cmocka_unit_test(a_hostile_array_length_is_refused_without_memory_for_it),
		cmocka_unit_test(arrays_nested_without_end_are_refused),
		cmocka_unit_test(a_line_without_end_is_refused),
		cmocka_unit_test(a_sink_that_says_stop_hears_nothing_more),
		cmocka_unit_test(the_memory_of_a_huge_value_is_given_back),
		cmocka_unit_test(what_stands_behind_a_huge_value_is_not_lost),
		cmocka_unit_test(replies_of_every_size_come_whole_and_in_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
