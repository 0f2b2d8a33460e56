/*
 * PFCOUNT of one key. A string that holds a HyperLogLog (the servers' hyperloglog.c):
 *
 *   "HYLL" │ encoding u8 │ unused 3 │ cached count u64, top bit: it is stale │ registers
 *
 *   dense    16384 registers of six bits
 *   sparse   00nnnnnn: n+1 zeros; 01nnnnnn nnnnnnnn: n+1 zeros; 1vvvvvnn: n+1 times v+1
 *
 * The server writes a count that it had to compute back into the value, without an event. It comes
 * to the same count.
 */
#include "answers.h"

#include <math.h>
#include <string.h>

#define HEADER 16
#define REGISTERS 16384
#define REGISTER_BITS 6
#define DENSE_BYTES (HEADER + REGISTERS * REGISTER_BITS / 8)
#define HASH_BITS 50                  /* of which a register counts the zeros */
#define ALPHA 0.721347520444481703680 /* 0.5 / ln 2 */
#define STALE 0x80

enum { DENSE, SPARSE, ENCODINGS };

/* How many registers hold each number. */
struct histogram {
	int of[1 << REGISTER_BITS];
};

static void read_dense(const uint8_t *registers, struct histogram *histogram)
{
	/* Four registers are three bytes. */
	for (int i = 0; i < REGISTERS; i += 4, registers += 3) {
		uint32_t bits =
			registers[0] | (uint32_t)registers[1] << 8 | (uint32_t)registers[2] << 16;

		for (int j = 0; j < 4; j++, bits >>= REGISTER_BITS)
			histogram->of[bits & 0x3f]++;
	}
}

/* False: these are not as many registers as there must be. */
static bool read_sparse(const uint8_t *at, const uint8_t *end, struct histogram *histogram)
{
	int all = 0;

	while (at < end && all < REGISTERS) {
		int value = 0, run = (*at & 0x3f) + 1;

		if (*at & 0x80) {
			value = (*at >> 2 & 0x1f) + 1;
			run = (*at & 0x3) + 1;
		} else if (*at & 0x40) {
			if (++at == end)
				return false;
			run = ((at[-1] & 0x3f) << 8 | *at) + 1;
		}
		at++;
		all += run;
		histogram->of[value] += run;
	}
	return at == end && all == REGISTERS;
}

/* Ertl, "New cardinality estimation algorithms for HyperLogLog sketches", arXiv:1702.01284. */
static double sigma(double x)
{
	double y = 1, z = x, before;

	if (x == 1)
		return INFINITY;
	do {
		x *= x;
		before = z;
		z += x * y;
		y += y;
	} while (before != z);
	return z;
}

static double tau(double x)
{
	double y = 1, z = 1 - x, before;

	if (x == 0 || x == 1)
		return 0;
	do {
		x = sqrt(x);
		before = z;
		y *= 0.5;
		z -= pow(1 - x, 2) * y;
	} while (before != z);
	return z / 3;
}

static int64_t estimate(const struct histogram *histogram)
{
	double m = REGISTERS, z = m * tau((m - histogram->of[HASH_BITS + 1]) / m);

	for (int i = HASH_BITS; i >= 1; i--) {
		z += histogram->of[i];
		z *= 0.5;
	}
	z += m * sigma(histogram->of[0] / m);
	return (int64_t)llroundl(ALPHA * m * m / z);
}

static bool is_hyperloglog(struct kw_slice bytes)
{
	const uint8_t *header = bytes.data;

	return bytes.length >= HEADER && memcmp(header, "HYLL", 4) == 0 && header[4] < ENCODINGS &&
	       (header[4] != DENSE || bytes.length == DENSE_BYTES);
}

static void say_count(const struct kw_ask *ask, struct kw_slice bytes)
{
	const uint8_t *header = bytes.data;
	struct histogram histogram = {{0}};
	uint64_t cached = 0;

	if (kw_ask_is_missing(ask)) {
		kw_reply_integer(ask->to, 0);
		return;
	}
	if (!is_hyperloglog(bytes)) {
		kw_reply_error(ask->to, "WRONGTYPE Key is not a valid HyperLogLog string value.");
		return;
	}
	if (!(header[HEADER - 1] & STALE)) {
		for (int i = HEADER - 1; i >= HEADER / 2; i--)
			cached = cached << 8 | header[i];
		kw_reply_integer(ask->to, (int64_t)cached);
		return;
	}
	if (header[4] == DENSE)
		read_dense(header + HEADER, &histogram);
	else if (!read_sparse(header + HEADER, header + bytes.length, &histogram)) {
		kw_reply_error(ask->to, "INVALIDOBJ Corrupted HLL object detected");
		return;
	}
	kw_reply_integer(ask->to, estimate(&histogram));
}

void kw_answer_pfcount(const struct kw_ask *ask)
{
	kw_answer_string(ask, say_count);
}
