/*
 * Bytes that must not stay in memory after their use: secrets, passwords, messages with one in it.
 *
 * Each lies on pages of its own, of the size that was asked for: nothing ever moves it, so no copy
 * stays behind. Core dumps leave the pages out, and freeing wipes them. Any thread.
 */
#ifndef KW_BASE_SECRET_H
#define KW_BASE_SECRET_H

#include "base/buffer.h"
#include "base/slice.h"

/*
 * `length` zeros, writable. Running out of memory ends the process, as in base/buffer.h; the caller
 * of kw_secret_try gets NULL instead.
 */
void *kw_secret_new(size_t length);
void *kw_secret_try(size_t length);

/* length: as it was given. Nothing for NULL. */
void kw_secret_free(void *bytes, size_t length);

/* A copy of its own; empty for nothing. kw_secret_close wipes it, and leaves an empty slice. */
struct kw_slice kw_secret_copy(struct kw_slice bytes);
void kw_secret_close(struct kw_slice *copy);

/*
 * kw_buffer_close for a buffer that held a secret: wiped first, to its capacity. Memory that the
 * buffer outgrew is not reached, so reserve enough at once.
 */
void kw_secret_close_buffer(struct kw_buffer *buffer);

#endif
