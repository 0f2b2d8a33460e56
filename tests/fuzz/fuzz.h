/*
 * A fuzz target: LLVMFuzzerTestOneInput, which must return 0 and must not crash, read or write
 * outside of what it was given, or run for ever; it aborts when a promise does not hold.
 *
 * Linked with libFuzzer it is fuzzed; linked with replay.c it replays its own seeds, files it is
 * given, and seeded random mutations of both. One thread.
 */
#ifndef KW_TESTS_FUZZ_H
#define KW_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A promise: a run in which it does not hold is a finding. */
static inline void must(int holds)
{
	if (!holds)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/*
 * A target may know good inputs to begin from: write the n-th to data and return its length, 0 when
 * there are no more. Optional (weak in replay.c).
 */
size_t kw_fuzz_seed(unsigned n, uint8_t *data, size_t most);

/* A seed as it stands in a target's list: zero bytes count, but not the text's own end. */
struct kw_fuzz_bytes {
	const char *bytes;
	size_t length;
};
#define KW_FUZZ_BYTES(text)                                                                        \
	{                                                                                          \
		text, sizeof text - 1                                                              \
	}

static inline size_t kw_fuzz_copy_seed(
	const struct kw_fuzz_bytes *seeds, size_t count, unsigned n, uint8_t *data, size_t most)
{
	if (n >= count || seeds[n].length > most)
		return 0;
	memcpy(data, seeds[n].bytes, seeds[n].length);
	return seeds[n].length;
}

/* kw_fuzz_seed of a target whose good inputs are a list. */
#define KW_FUZZ_SEEDS(list)                                                                        \
	size_t kw_fuzz_seed(unsigned n, uint8_t *data, size_t most)                                \
	{                                                                                          \
		return kw_fuzz_copy_seed(list, sizeof(list) / sizeof *(list), n, data, most);      \
	}

#endif
