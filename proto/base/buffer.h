/*
 * A growable run of bytes, filled at its end and consumed at its front.
 *
 * The caller owns the struct; zeroed memory is an empty buffer. Growth doubles, so appending is
 * amortised. Running out of memory aborts the process, because no caller could do better. The
 * daemons are then restarted and carry on (promise 6). Not for several threads at once.
 */
#ifndef KW_BASE_BUFFER_H
#define KW_BASE_BUFFER_H

#include <stddef.h>
#include <stdint.h>

struct kw_buffer {
	uint8_t *data;
	size_t start; /* first byte not yet consumed */
	size_t end;   /* one after the last byte filled */
	size_t capacity;
};

void kw_buffer_close(struct kw_buffer *buffer);

/* At least `length` writable bytes after the end; add them with kw_buffer_filled. */
uint8_t *kw_buffer_reserve(struct kw_buffer *buffer, size_t length);
void kw_buffer_filled(struct kw_buffer *buffer, size_t length);

void kw_buffer_append(struct kw_buffer *buffer, const void *data, size_t length);
void kw_buffer_printf(struct kw_buffer *buffer, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

void kw_buffer_consume(struct kw_buffer *buffer, size_t length);
void kw_buffer_clear(struct kw_buffer *buffer);

/* Give memory beyond `keep` bytes back when the buffer is empty: one large value must not stay. */
void kw_buffer_trim(struct kw_buffer *buffer, size_t keep);

static inline const uint8_t *kw_buffer_bytes(const struct kw_buffer *buffer)
{
	/* In an empty buffer data is NULL, to which C lets nothing be added, not even 0. */
	return buffer->start > 0 ? buffer->data + buffer->start : buffer->data;
}

static inline size_t kw_buffer_length(const struct kw_buffer *buffer)
{
	return buffer->end - buffer->start;
}

/* malloc, calloc, realloc, strdup that never return NULL (see above). */
void *kw_alloc(size_t bytes);
void *kw_zalloc(size_t bytes);
void *kw_realloc(void *memory, size_t bytes);
char *kw_strdup(const char *text);

/* So it ends, for memory that a library could not get: the sentence, and SIGABRT. */
_Noreturn void kw_out_of_memory(size_t bytes);

#endif
