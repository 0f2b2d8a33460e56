/*
 * What is queued for a server, in order: commands encoded into one buffer, and raw slices that lie
 * elsewhere and are written in place.
 *
 *   runs     | 310 encoded | raw 9000 | raw 70000 | 44 encoded |
 *   encoded  [310 bytes 44 bytes]
 *
 * A command with a password in it never gets into the buffer: it is a raw slice in memory that is
 * wiped as soon as it is written, or given up (base/secret.h).
 *
 * Pure memory; the caller owns the struct, zeroed memory is an empty queue. One thread.
 */
#ifndef KW_REDIS_OUTPUT_H
#define KW_REDIS_OUTPUT_H

#include "base/buffer.h"
#include "base/slice.h"

#include <sys/uio.h>

struct kw_output_run {
	const uint8_t *raw; /* NULL: the next `length` bytes of encoded */
	size_t length;
};

struct kw_output_secret;

struct kw_output {
	struct kw_buffer encoded;
	struct kw_output_run *runs; /* a ring; room is a power of two */
	size_t first, count, room;
	size_t bytes; /* of all runs */
	/* Commands to be wiped, the first of them first. */
	struct kw_output_secret *secrets, *last_secret;
};

void kw_output_close(struct kw_output *output);

void kw_output_command(struct kw_output *output, int argc, const struct kw_slice *argv);

/* The same for one that holds a password. */
void kw_output_secret(struct kw_output *output, int argc, const struct kw_slice *argv);

/* The bytes must stay until they were consumed (small ones are copied at once). */
void kw_output_raw(struct kw_output *output, struct kw_slice resp);

void kw_output_copy(struct kw_output *output, struct kw_slice resp);

/* The front of the queue as at most `max` vectors of at most `limit` bytes together. */
int kw_output_gather(const struct kw_output *output, struct iovec *vectors, int max, size_t limit);

void kw_output_consume(struct kw_output *output, size_t written);

#endif
