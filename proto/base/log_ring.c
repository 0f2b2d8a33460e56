#include "base/log_ring.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static struct kw_log_place *place_of(struct kw_log_ring *ring, uint64_t number)
{
	return &ring->places[number % KW_LOG_RING_LINES];
}

/* Must the oldest line go, so that [offset, offset + length) and a place are free? */
static bool is_in_the_way(struct kw_log_ring *ring, size_t offset, size_t length, size_t end)
{
	const struct kw_log_place *oldest = place_of(ring, ring->last - ring->count + 1);
	bool overlaps =
		oldest->offset < offset + length && offset < oldest->offset + oldest->length;

	/* Lines behind `end` are older than those at the beginning: they go first. */
	return ring->count == KW_LOG_RING_LINES || overlaps ||
	       (offset < end && oldest->offset >= end);
}

/* As many bytes of a string, with the terminator as the last one. */
static void put(char *to, const char *text, size_t bytes)
{
	memcpy(to, text, bytes - 1);
	to[bytes - 1] = '\0';
}

void kw_log_ring_add(struct kw_log_ring *ring, uint64_t now_us, enum kw_log_level level,
	const char *where, const char *text)
{
	const struct kw_log_place *newest = place_of(ring, ring->last);
	size_t where_bytes = strnlen(where, KW_LOG_WHERE - 1) + 1;
	size_t text_bytes = strnlen(text, KW_LOG_TEXT - 1) + 1;
	size_t length = where_bytes + text_bytes;
	size_t end = ring->count ? newest->offset + newest->length : 0;
	size_t offset = end + length <= KW_LOG_RING_BYTES ? end : 0;

	assert(length <= KW_LOG_RING_BYTES);
	while (ring->count > 0 && is_in_the_way(ring, offset, length, end))
		ring->count--;
	ring->last++;
	ring->count++;
	*place_of(ring, ring->last) =
		(struct kw_log_place){now_us, level, (uint32_t)offset, (uint32_t)length};
	put(ring->bytes + offset, where, where_bytes);
	put(ring->bytes + offset + where_bytes, text, text_bytes);
	assert(ring->count <= KW_LOG_RING_LINES && ring->count <= ring->last);
}

bool kw_log_ring_get(const struct kw_log_ring *ring, uint64_t from, struct kw_log_line *line)
{
	uint64_t oldest = ring->last - ring->count + 1;
	const struct kw_log_place *place;
	const char *where;

	if (from < oldest)
		from = oldest;
	if (from > ring->last)
		return false;
	place = &ring->places[from % KW_LOG_RING_LINES];
	where = ring->bytes + place->offset;
	line->number = from;
	line->at_us = place->at_us;
	line->level = place->level;
	snprintf(line->where, sizeof line->where, "%s", where);
	snprintf(line->text, sizeof line->text, "%s", where + strlen(where) + 1);
	return true;
}
