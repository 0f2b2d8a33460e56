#include "redis/output.h"

#include "base/secret.h"
#include "redis/redis.h"

#include <assert.h>
#include <stdlib.h>

#define FIRST_ROOM 64

/* Below this a copy costs less than a vector of its own (measured: some 20 ns for either). */
#define COPY_BELOW 512

/* What an emptied queue keeps of its buffer. */
#define KEEP_BYTES (1024 * 1024)

/* The longest header of an element: a type byte, a number, CR LF twice. */
#define ELEMENT_BYTES 32

/* One command that is wiped; the whole struct is a secret. */
struct kw_output_secret {
	struct kw_output_secret *next;
	size_t room, length;
	uint8_t bytes[];
};

static void drop_secret(struct kw_output *output)
{
	struct kw_output_secret *secret = output->secrets;

	output->secrets = secret->next;
	kw_secret_free(secret, sizeof *secret + secret->room);
}

void kw_output_close(struct kw_output *output)
{
	while (output->secrets)
		drop_secret(output);
	kw_buffer_close(&output->encoded);
	free(output->runs);
	*output = (struct kw_output){0};
}

static struct kw_output_run *run_at(const struct kw_output *output, size_t index)
{
	return &output->runs[(output->first + index) & (output->room - 1)];
}

static void grow(struct kw_output *output)
{
	size_t room = output->room ? output->room * 2 : FIRST_ROOM;
	struct kw_output_run *runs = kw_alloc(room * sizeof *runs);

	for (size_t i = 0; i < output->count; i++)
		runs[i] = *run_at(output, i);
	free(output->runs);
	output->runs = runs;
	output->room = room;
	output->first = 0;
}

static void push(struct kw_output *output, const uint8_t *raw, size_t length)
{
	struct kw_output_run *last = NULL;

	output->bytes += length;
	if (output->count > 0)
		last = run_at(output, output->count - 1);
	/* Neighbours in memory are neighbours on the wire: one run for both. */
	if (last && (raw ? last->raw && last->raw + last->length == raw : !last->raw)) {
		last->length += length;
		return;
	}
	if (output->count == output->room)
		grow(output);
	output->count++;
	assert(length > 0 && output->count <= output->room);
	*run_at(output, output->count - 1) = (struct kw_output_run){raw, length};
}

void kw_output_command(struct kw_output *output, int argc, const struct kw_slice *argv)
{
	size_t before = kw_buffer_length(&output->encoded);

	kw_resp_command(&output->encoded, argc, argv);
	push(output, NULL, kw_buffer_length(&output->encoded) - before);
}

void kw_output_secret(struct kw_output *output, int argc, const struct kw_slice *argv)
{
	size_t room = ELEMENT_BYTES;
	struct kw_output_secret *secret;
	struct kw_buffer encoded;

	for (int i = 0; i < argc; i++)
		room += ELEMENT_BYTES + argv[i].length;
	secret = kw_secret_new(sizeof *secret + room);
	encoded = (struct kw_buffer){.data = secret->bytes, .capacity = room};
	kw_resp_command(&encoded, argc, argv);
	assert(encoded.data == secret->bytes); /* there was room: it did not move */
	secret->room = room;
	secret->length = kw_buffer_length(&encoded);
	if (output->secrets)
		output->last_secret->next = secret;
	else
		output->secrets = secret;
	output->last_secret = secret;
	push(output, secret->bytes, secret->length);
}

/* Was that the end of a command to be wiped? Runs go out in their order, and so do these. */
static void secret_written(struct kw_output *output, const uint8_t *end)
{
	const struct kw_output_secret *secret = output->secrets;

	if (secret && end == secret->bytes + secret->length)
		drop_secret(output);
}

void kw_output_raw(struct kw_output *output, struct kw_slice resp)
{
	if (resp.length == 0)
		return;
	if (resp.length >= COPY_BELOW) {
		push(output, resp.data, resp.length);
		return;
	}
	kw_output_copy(output, resp);
}

void kw_output_copy(struct kw_output *output, struct kw_slice resp)
{
	if (resp.length == 0)
		return;
	kw_buffer_append(&output->encoded, resp.data, resp.length);
	push(output, NULL, resp.length);
}

int kw_output_gather(const struct kw_output *output, struct iovec *vectors, int max, size_t limit)
{
	const uint8_t *encoded = kw_buffer_bytes(&output->encoded);
	int used = 0;

	for (size_t i = 0; i < output->count && used < max && limit > 0; i++) {
		const struct kw_output_run *run = run_at(output, i);
		size_t length = run->length < limit ? run->length : limit;
		const uint8_t *data = run->raw ? run->raw : encoded;

		vectors[used++] = (struct iovec){(void *)(uintptr_t)data, length};
		limit -= length;
		if (!run->raw)
			encoded += run->length;
	}
	return used;
}

void kw_output_consume(struct kw_output *output, size_t written)
{
	assert(written <= output->bytes);
	output->bytes -= written;
	while (written > 0) {
		struct kw_output_run *run = run_at(output, 0);
		size_t length = run->length < written ? run->length : written;

		if (run->raw)
			run->raw += length;
		else
			kw_buffer_consume(&output->encoded, length);
		run->length -= length;
		written -= length;
		if (run->length == 0) {
			if (run->raw)
				secret_written(output, run->raw);
			output->first = (output->first + 1) & (output->room - 1);
			output->count--;
		}
	}
	/* No run is empty: no run is made for no bytes. */
	assert((output->bytes == 0) == (output->count == 0));
	if (output->bytes == 0)
		kw_buffer_trim(&output->encoded, KEEP_BYTES);
}
