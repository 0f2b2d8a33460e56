#include "feed.h"

#include "base/buffer.h"
#include "command.h"

#include <assert.h>
#include <stdio.h>

static struct kw_window_entry *at(const struct kw_feed *feed, uint64_t sequence)
{
	return kw_window_at(&feed->window, sequence);
}

void kw_feed_close(struct kw_feed *feed)
{
	kw_window_close(&feed->window);
}

void kw_feed_reset(struct kw_feed *feed, uint64_t offset)
{
	kw_window_drop(&feed->window);
	feed->offset = feed->sent_end = offset;
	feed->partial = 0;
	feed->database = -1;
	feed->awaited = feed->asked_at = feed->window.end;
	feed->flushes_out = 0;
	feed->fence = 0;
}

bool kw_feed_untouched(const struct kw_feed *feed)
{
	return feed->window.sent == feed->window.first && feed->partial == 0;
}

void kw_feed_begin(struct kw_feed *feed, uint64_t offset)
{
	assert(kw_feed_untouched(feed));
	feed->offset = feed->sent_end = offset;
}

/* ---- adding ---- */

/* The bytes of a command as an entry that stands for no change. */
static uint64_t add_bytes(struct kw_feed *feed, const void *bytes, size_t length)
{
	struct kw_window_entry *entry = kw_window_add(&feed->window, length);

	memcpy(entry->bytes, bytes, length);
	entry->kind = KW_WINDOW_CONTROL;
	return feed->window.end - 1;
}

static void select_database(struct kw_feed *feed, uint32_t database)
{
	char number[16], command[64];
	int digits, length;

	if (feed->database == (int64_t)database)
		return;
	digits = snprintf(number, sizeof number, "%u", database);
	length = snprintf(
		command, sizeof command, "*2\r\n$6\r\nSELECT\r\n$%d\r\n%s\r\n", digits, number);
	add_bytes(feed, command, (size_t)length);
	feed->database = database;
}

void kw_feed_change(struct kw_feed *feed, const struct kw_record_view *record)
{
	select_database(feed, record->database);
	kw_command_add(&feed->window, record, false);
	feed->awaited = feed->window.end;
}

void kw_feed_nothing(struct kw_feed *feed, uint32_t database)
{
	struct kw_window_entry *entry = kw_window_add(&feed->window, 0);

	entry->kind = KW_WINDOW_NOTHING;
	entry->database = database;
	feed->awaited = feed->window.end;
}

uint64_t kw_feed_command(struct kw_feed *feed, int argc, const struct kw_slice *argv)
{
	struct kw_buffer command = {0};
	uint64_t sequence;

	kw_buffer_printf(&command, "*%d\r\n", argc);
	for (int i = 0; i < argc; i++) {
		kw_buffer_printf(&command, "$%zu\r\n", argv[i].length);
		kw_buffer_append(&command, argv[i].data, argv[i].length);
		kw_buffer_append(&command, "\r\n", 2);
	}
	sequence = add_bytes(feed, kw_buffer_bytes(&command), kw_buffer_length(&command));
	kw_buffer_close(&command);
	feed->awaited = feed->window.end;
	return sequence;
}

#define PING_COMMAND "*1\r\n$4\r\nPING\r\n"
#define ASK_COMMAND "*3\r\n$8\r\nREPLCONF\r\n$6\r\nGETACK\r\n$1\r\n*\r\n"

void kw_feed_ping(struct kw_feed *feed)
{
	add_bytes(feed, PING_COMMAND, sizeof PING_COMMAND - 1);
}

void kw_feed_ask(struct kw_feed *feed)
{
	if (feed->awaited <= feed->asked_at || feed->window.first < feed->asked_at)
		return;
	feed->asked_at = add_bytes(feed, ASK_COMMAND, sizeof ASK_COMMAND - 1);
}

uint64_t kw_feed_fence(struct kw_feed *feed)
{
	feed->asked_at = add_bytes(feed, ASK_COMMAND, sizeof ASK_COMMAND - 1);
	return feed->window.end;
}

void kw_feed_move_fence(struct kw_feed *feed, uint64_t fence)
{
	assert(fence == 0 || fence > feed->fence);
	feed->fence = fence;
}

/* ---- sending ---- */

int kw_feed_gather(struct kw_feed *feed, struct iovec *vectors, int max, size_t limit)
{
	size_t skip = feed->partial, bytes = 0;
	int used = 0;

	for (uint64_t i = feed->window.sent; i < kw_feed_sendable(feed) && bytes < limit; i++) {
		const struct kw_window_entry *entry = at(feed, i);
		uint8_t *from = entry->bytes + skip;
		size_t length = entry->length - skip;
		struct iovec *last = used ? &vectors[used - 1] : NULL;

		skip = 0;
		if (length == 0)
			continue;
		bytes += length;
		if (last && (uint8_t *)last->iov_base + last->iov_len == from)
			last->iov_len += length;
		else if (used == max)
			break;
		else
			vectors[used++] = (struct iovec){from, length};
	}
	return used;
}

void kw_feed_wrote(struct kw_feed *feed, size_t bytes)
{
	struct kw_window *window = &feed->window;

	feed->partial += bytes;
	while (window->sent < kw_feed_sendable(feed) &&
		at(feed, window->sent)->length <= feed->partial) {
		const struct kw_window_entry *entry = at(feed, window->sent);

		feed->partial -= entry->length;
		feed->sent_end += entry->length;
		if (entry->kind == KW_WINDOW_FLUSH)
			feed->flushes_out++;
		kw_window_mark_sent(window);
	}
}

/* ---- acknowledgement ---- */

bool kw_feed_ack(struct kw_feed *feed, uint64_t offset, kw_feed_done_fn done, void *arg)
{
	struct kw_window *window = &feed->window;

	if (offset > feed->sent_end)
		return false;
	while (window->first < window->sent) {
		const struct kw_window_entry *entry = at(feed, window->first);
		size_t length = entry->length;

		if (feed->offset + length > offset)
			break;
		if (entry->kind == KW_WINDOW_FLUSH)
			feed->flushes_out--;
		done(arg, entry, window->first);
		feed->offset += length;
		kw_window_answer(window, true);
	}
	return true;
}

/* Does a command sent end there? */
static bool is_boundary(const struct kw_feed *feed, uint64_t offset)
{
	uint64_t at_offset = feed->offset;

	for (uint64_t i = feed->window.first; i < feed->window.sent && at_offset < offset; i++)
		at_offset += at(feed, i)->length;
	return at_offset == offset;
}

bool kw_feed_rewind(struct kw_feed *feed, uint64_t offset, kw_feed_done_fn done, void *arg)
{
	if (offset > feed->sent_end || !is_boundary(feed, offset))
		return false;
	kw_feed_ack(feed, offset, done, arg);
	kw_window_rewind(&feed->window);
	feed->partial = 0;
	feed->sent_end = feed->offset;
	feed->flushes_out = 0;
	return true;
}
