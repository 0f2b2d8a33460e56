#include "base/buffer.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SMALLEST_BUFFER 256
#define PRINTF_GUESS 128

void kw_out_of_memory(size_t bytes)
{
	fprintf(stderr, "out of memory: %zu bytes\n", bytes);
	abort();
}

static void *must(void *memory, size_t bytes)
{
	if (!memory && bytes > 0)
		kw_out_of_memory(bytes);
	return memory;
}

void *kw_alloc(size_t bytes)
{
	return must(malloc(bytes), bytes);
}

void *kw_zalloc(size_t bytes)
{
	return must(calloc(1, bytes), bytes);
}

void *kw_realloc(void *memory, size_t bytes)
{
	return must(realloc(memory, bytes), bytes);
}

char *kw_strdup(const char *text)
{
	return must(strdup(text), strlen(text) + 1);
}

void kw_buffer_close(struct kw_buffer *buffer)
{
	free(buffer->data);
	*buffer = (struct kw_buffer){0};
}

uint8_t *kw_buffer_reserve(struct kw_buffer *buffer, size_t length)
{
	size_t used = kw_buffer_length(buffer);
	size_t wanted = used + length;

	assert(buffer->start <= buffer->end && buffer->end <= buffer->capacity);
	assert(wanted >= used);
	if (buffer->end + length <= buffer->capacity)
		return buffer->data + buffer->end;
	/* Sliding pays only when half of the memory is free afterwards: otherwise a queue that
	 * stays near the capacity would be moved whole at every append. */
	if (wanted > buffer->capacity / 2) {
		size_t capacity = buffer->capacity ? buffer->capacity : SMALLEST_BUFFER;

		while (capacity / 2 < wanted)
			capacity *= 2;
		buffer->data = kw_realloc(buffer->data, capacity);
		buffer->capacity = capacity;
	}
	if (buffer->start > 0) {
		memmove(buffer->data, buffer->data + buffer->start, used);
		buffer->start = 0;
		buffer->end = used;
	}
	assert(buffer->end + length <= buffer->capacity);
	return buffer->data + buffer->end;
}

void kw_buffer_filled(struct kw_buffer *buffer, size_t length)
{
	assert(length <= buffer->capacity - buffer->end);
	buffer->end += length;
}

void kw_buffer_append(struct kw_buffer *buffer, const void *data, size_t length)
{
	if (length == 0)
		return;
	memcpy(kw_buffer_reserve(buffer, length), data, length);
	buffer->end += length;
}

void kw_buffer_printf(struct kw_buffer *buffer, const char *format, ...)
{
	size_t room = PRINTF_GUESS;
	va_list args;
	int length;

	/* The second time at the latest there is room for all of it and the terminator. */
	for (int tries = 0; tries < 2; tries++) {
		char *at = (char *)kw_buffer_reserve(buffer, room);

		va_start(args, format);
		length = vsnprintf(at, room, format, args);
		va_end(args);
		assert(length >= 0);
		if ((size_t)length < room)
			break;
		room = (size_t)length + 1;
	}
	buffer->end += (size_t)length;
	assert(buffer->end < buffer->capacity); /* the terminator is there, too */
}

void kw_buffer_consume(struct kw_buffer *buffer, size_t length)
{
	assert(length <= kw_buffer_length(buffer));
	buffer->start += length;
	if (buffer->start == buffer->end)
		buffer->start = buffer->end = 0;
}

void kw_buffer_clear(struct kw_buffer *buffer)
{
	buffer->start = buffer->end = 0;
}

void kw_buffer_trim(struct kw_buffer *buffer, size_t keep)
{
	if (kw_buffer_length(buffer) > 0 || buffer->capacity <= keep)
		return;
	kw_buffer_close(buffer);
}
