#include "table/redact.h"

#include "table/history.h"
#include "table/record.h"

#include <string.h>

#define TRIES 16

/* What is asked for: bytes of the memory file, and where they go. */
struct window {
	uint64_t offset, length;
	uint8_t *out;
};

void kw_redact_close(struct kw_redact *redact)
{
	kw_view_close(&redact->view);
}

/* ---- what the table says of itself ---- */

static bool sample_superblock(const struct kw_redact *redact, struct kw_superblock *superblock)
{
	for (int i = 0; i < TRIES; i++) {
		redact->copy(superblock, redact->base + KW_SUPERBLOCK_OFFSET, sizeof *superblock);
		if (kw_superblock_check(superblock, NULL) == KW_OK)
			return true;
	}
	return false;
}

/* In our copy of it: a reader over tcp has no use for address and rkey of an extent. */
static void hide_places(struct kw_view *view)
{
	struct kw_directory_header *header = (void *)view->known;
	struct kw_extent *extents =
		(void *)(view->known + ((const uint8_t *)view->directory.extents - view->known));

	for (uint32_t i = 0; i < header->extents; i++) {
		extents[i].address = 0;
		extents[i].rkey = 0;
	}
	kw_directory_seal(header);
}

static bool sample(struct kw_redact *redact)
{
	const struct kw_superblock *superblock = &redact->superblock;

	for (int i = 0; i < TRIES; i++) {
		if (!sample_superblock(redact, &redact->superblock))
			return false;
		if (kw_directory_match(&redact->view.directory, superblock, NULL) == KW_OK)
			return true;
		redact->copy(kw_view_sink(&redact->view, superblock),
			redact->base + superblock->directory_offset, superblock->directory_bytes);
		if (kw_view_take(&redact->view, superblock, NULL) == KW_OK) {
			hide_places(&redact->view);
			return true;
		}
	}
	return false;
}

/* Is the directory still the one that counts? Then no segment of it has been recycled. */
static bool unchanged(const struct kw_redact *redact)
{
	const struct kw_superblock *before = &redact->superblock;
	struct kw_superblock now;

	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return sample_superblock(redact, &now) && now.epoch == before->epoch &&
	       now.directory_publication == before->directory_publication;
}

/* ---- pieces ---- */

/* The part of [offset, offset + length) that is asked for, as it is. */
static void show(const struct kw_redact *redact, const struct window *window, uint64_t offset,
	uint64_t length)
{
	uint64_t from = offset > window->offset ? offset : window->offset;
	uint64_t end = offset + length, last = window->offset + window->length;

	if (end > last)
		end = last;
	if (from < end)
		redact->copy(window->out + (from - window->offset), redact->base + from,
			(size_t)(end - from));
}

/* The same of bytes that do not stand in the memory. */
static void put(const struct window *window, uint64_t offset, const void *bytes, uint64_t length)
{
	uint64_t from = offset > window->offset ? offset : window->offset;
	uint64_t end = offset + length, last = window->offset + window->length;

	if (end > last)
		end = last;
	if (from < end)
		memcpy(window->out + (from - window->offset),
			(const uint8_t *)bytes + (from - offset), (size_t)(end - from));
}

static bool is_allowed(const struct kw_redact *redact, const struct kw_redact_reader *reader,
	const struct kw_record *front, uint64_t offset)
{
	uint8_t key[KW_REDACT_KEY_FRONT];
	size_t length = front->what & KW_RECORD_KEY_MAX;

	if (kw_record_kind(front) == KW_RECORD_FLUSH)
		return reader->allows_flush(reader->arg, kw_record_database(front));
	if (length > sizeof key)
		length = sizeof key;
	redact->copy(key, redact->base + offset + KW_RECORD_HEADER + kw_record_expiry_bytes(front),
		length);
	return reader->allows(reader->arg, kw_record_database(front), kw_slice(key, length));
}

/*
 * What follows a record up to the next one is left over from an earlier life of the memory, and
 * stays zero.
 */
static void give(const struct kw_redact *redact, const struct kw_redact_reader *reader,
	const struct window *window, const struct kw_record *front,
	const struct kw_redact_border *border, uint64_t offset)
{
	const struct kw_place place = {border->epoch, border->segment, border->offset};
	struct kw_record hidden;

	if (is_allowed(redact, reader, front, offset)) {
		show(redact, window, offset, front->length);
		return;
	}
	kw_record_hide(&hidden, front, &place);
	put(window, offset, &hidden, KW_RECORD_HEADER);
}

/* The last border known that is not beyond `from`. */
static struct kw_redact_border start_at(
	const struct kw_redact_reader *reader, uint64_t epoch, uint64_t segment, uint64_t from)
{
	const struct kw_redact_border *known[] = {&reader->last, &reader->before};

	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (known[i]->epoch == epoch && known[i]->segment == segment &&
			known[i]->offset <= from)
			return *known[i];
	return (struct kw_redact_border){epoch, segment, 0};
}

static void give_segment(const struct kw_redact *redact, struct kw_redact_reader *reader,
	const struct window *window, const struct kw_directory_segment *segment)
{
	const struct kw_superblock *superblock = &redact->superblock;
	const uint64_t committed = segment->id == superblock->head_segment ? superblock->head_bytes
									   : segment->committed;
	const uint64_t last = window->offset + window->length;
	struct kw_redact_border border;
	uint64_t from, to;
	bool first = true;

	if (last <= segment->offset || window->offset >= segment->offset + committed)
		return;
	from = window->offset > segment->offset ? window->offset - segment->offset : 0;
	to = last - segment->offset < committed ? last - segment->offset : committed;
	border = start_at(reader, superblock->epoch, segment->id, from);
	while (border.offset < to) {
		const uint64_t offset = segment->offset + border.offset;
		const uint64_t left = committed - border.offset;
		struct kw_record front;
		uint64_t stride;

		redact->copy(&front, redact->base + offset, KW_RECORD_HEADER);
		if (!kw_record_plausible(&front, KW_RECORD_HEADER, left))
			break;
		stride = kw_record_stride(front.length);
		if (stride > left)
			break;
		if (border.offset + stride > from) {
			give(redact, reader, window, &front, &border, offset);
			if (first)
				reader->before = border;
			first = false;
		}
		if (border.offset + stride > to)
			break;
		border.offset += stride;
	}
	reader->last = border;
}

static void give_window(const struct kw_redact *redact, struct kw_redact_reader *reader,
	const struct window *window)
{
	const struct kw_directory *directory = &redact->view.directory;

	memset(window->out, 0, (size_t)window->length);
	show(redact, window, KW_SUPERBLOCK_OFFSET, sizeof redact->superblock);
	show(redact, window, KW_HISTORY_OFFSET, sizeof(struct kw_history_record));
	put(window, redact->superblock.directory_offset, redact->view.known,
		redact->superblock.directory_bytes);
	if (window->offset + window->length <= KW_DIRECTORY_OFFSET)
		return; /* no segment lies there */
	for (uint32_t i = 0; i < directory->header->segments; i++)
		give_segment(redact, reader, window, &directory->segments[i]);
}

bool kw_redact_copy(struct kw_redact *redact, struct kw_redact_reader *reader, uint64_t offset,
	uint64_t length, uint8_t *out)
{
	const struct window window = {offset, length, out};

	for (int i = 0; i < TRIES && sample(redact); i++) {
		give_window(redact, reader, &window);
		if (unchanged(redact))
			return true;
		reader->before = reader->last = (struct kw_redact_border){0};
	}
	memset(out, 0, (size_t)length);
	return false;
}
