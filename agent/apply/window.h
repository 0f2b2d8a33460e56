/*
 * Commands encoded for the local server and kept until it acknowledged them: go-back-N.
 *
 *     first          answered         sent                end
 *       ├── failed, ───┼── in flight ───┼── not yet sent ───┤
 *       │   draining   │                │
 *     (first == answered unless a command failed)
 *
 * Sequence numbers only grow; `first` is therefore the count of all commands acknowledged. If one
 * fails in a way that another try can mend, nothing more is sent, and the owed answers drain. Then
 * sending starts again at the failed command. So order per key is kept, and an old value never
 * wins.
 *
 * Bytes lie in blocks of KW_WINDOW_BLOCK, written once and sent in place. A larger command has a
 * block of its own, freed as soon as it is acknowledged. No allocation per command once blocks and
 * ring have grown to the window's size. Pure; one thread.
 */
#ifndef KW_AGENT_APPLY_WINDOW_H
#define KW_AGENT_APPLY_WINDOW_H

#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

#define KW_WINDOW_BLOCK ((size_t)256 << 10)

enum kw_window_kind {
	KW_WINDOW_PUT,
	KW_WINDOW_DELETE,
	KW_WINDOW_FLUSH,   /* FLUSHDB */
	KW_WINDOW_SWEEP,   /* a flush carried out by SCAN and UNLINK: has no bytes */
	KW_WINDOW_CONTROL, /* no change: SELECT, PING and the like on a replication link */
	KW_WINDOW_NOTHING, /* a change given up in its place on a replication link: has no bytes */
};

struct kw_window_block;

struct kw_window_entry {
	uint8_t *bytes; /* RESP of exactly one command */
	size_t length;
	struct kw_window_block *block;
	uint32_t database;
	uint32_t key_length;
	uint32_t key_offset; /* in bytes */
	uint8_t kind;        /* enum kw_window_kind */
};

struct kw_window {
	struct kw_window_entry *entries; /* ring; capacity is a power of two */
	uint32_t capacity;
	uint64_t first, answered, sent, end;
	bool failed;    /* the command `first` failed; its followers' answers are draining */
	uint64_t bytes; /* of all entries kept */
	struct kw_window_block *filling;
	struct kw_window_block *spare;
	uint32_t spares;
};

/* Zeroed memory is an empty window. */
void kw_window_close(struct kw_window *window);

/* A new entry at the end, its `length` bytes to be filled in by the caller at once. */
struct kw_window_entry *kw_window_add(struct kw_window *window, size_t length);

/* The entry to send next; NULL when there is none, or none may be sent before draining ended. */
struct kw_window_entry *kw_window_unsent(struct kw_window *window);
void kw_window_mark_sent(struct kw_window *window);

/* The entry whose answer comes next. */
struct kw_window_entry *kw_window_awaited(struct kw_window *window);

/*
 * Its answer came. ok: the entry is done with (whether applied or given up). Not ok: it must be
 * sent again. Answers while draining are counted and otherwise ignored. Returns true when this
 * answer ended the draining: sending may begin again at `first`.
 */
bool kw_window_answer(struct kw_window *window, bool ok);

/* The connection is gone: commands not acknowledged are unsent again. */
void kw_window_rewind(struct kw_window *window);

/* Forget all entries (none may be in flight). Counts them as done. */
void kw_window_drop(struct kw_window *window);

/* The entry with this sequence number, first <= sequence < end. */
static inline struct kw_window_entry *kw_window_at(
	const struct kw_window *window, uint64_t sequence)
{
	return &window->entries[sequence & (window->capacity - 1)];
}

static inline struct kw_slice kw_window_key(const struct kw_window_entry *entry)
{
	return kw_slice(entry->bytes + entry->key_offset, entry->key_length);
}

#endif
