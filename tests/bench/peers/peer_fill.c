/*
 * peer-fill ADDRESS --keys N --value-bytes N [--mix] [--seed N]: put N keys key:<12 digits> into
 * database 0, pipelined, with values of random bytes that no compression shrinks.
 *
 * --mix: one of eight kinds by the key's number instead: strings short and of --value-bytes,
 * integers, hashes, lists, sets, sorted sets of twenty elements, and strings with a TTL.
 */
#include "noise.h"
#include "peer.h"
#include "words.h"

#include <stdio.h>

#define BATCH_BYTES ((size_t)4 * 1024 * 1024)
#define ELEMENTS 20
#define SHORT_BYTES 12

struct fill {
	struct peer peer;
	uint64_t noise;
	char *value;
	size_t value_bytes;
	unsigned pending; /* commands without a reply yet */
};

static void word(struct fill *fill, const char *text)
{
	peer_bulk(&fill->peer, text, strlen(text));
}

static void put_key(struct fill *fill, unsigned key)
{
	char name[24];

	peer_bulk(&fill->peer, name, (size_t)snprintf(name, sizeof name, "key:%012u", key));
}

static void begin(struct fill *fill, int count, const char *command, unsigned key)
{
	peer_array(&fill->peer, count);
	word(fill, command);
	put_key(fill, key);
	fill->pending++;
}

static void put_noise(struct fill *fill, size_t length)
{
	noise_fill(&fill->noise, fill->value, length);
	peer_bulk(&fill->peer, fill->value, length);
}

static void put_number(struct fill *fill)
{
	char digits[24];

	peer_bulk(&fill->peer, digits,
		(size_t)snprintf(digits, sizeof digits, "%u",
			(unsigned)(noise_next(&fill->noise) % 1000000000)));
}

static void put_string(struct fill *fill, unsigned key, size_t length)
{
	begin(fill, 3, "SET", key);
	put_noise(fill, length);
}

/* A collection of ELEMENTS; pairs: each is (field or score, member). */
static void put_collection(struct fill *fill, const char *command, unsigned key, bool scored)
{
	bool pairs = scored || strcmp(command, "HSET") == 0;

	begin(fill, 2 + ELEMENTS * (pairs ? 2 : 1), command, key);
	for (int i = 0; i < ELEMENTS; i++) {
		if (scored)
			put_number(fill);
		else if (pairs)
			put_noise(fill, 8);
		put_noise(fill, SHORT_BYTES);
	}
}

static void put_mixed(struct fill *fill, unsigned key)
{
	switch (key % 8) {
	case 0:
		put_string(fill, key, SHORT_BYTES);
		break;
	case 1:
		put_string(fill, key, fill->value_bytes);
		break;
	case 2:
		begin(fill, 3, "SET", key);
		put_number(fill);
		break;
	case 3:
		put_collection(fill, "HSET", key, false);
		break;
	case 4:
		put_collection(fill, "RPUSH", key, false);
		break;
	case 5:
		put_collection(fill, "SADD", key, false);
		break;
	case 6:
		put_collection(fill, "ZADD", key, true);
		break;
	default:
		begin(fill, 5, "SET", key);
		put_noise(fill, SHORT_BYTES);
		word(fill, "EX");
		word(fill, "86400");
	}
}

static void settle(struct fill *fill)
{
	long long number;

	peer_flush(&fill->peer);
	for (; fill->pending > 0; fill->pending--)
		peer_header(&fill->peer, &number);
}

int main(int argc, char **argv)
{
	unsigned keys = (unsigned)words_number(argc, argv, "--keys", 0);
	bool mix = words_have(argc, argv, "--mix");
	struct fill fill = {
		.noise = (uint64_t)words_number(argc, argv, "--seed", 1),
		.value_bytes = (size_t)words_number(argc, argv, "--value-bytes", 100),
	};
	double start;

	if (argc < 4 || keys == 0)
		peer_die("usage: peer-fill ADDRESS --keys N [--value-bytes N] [--mix] [--seed N]");
	fill.value = malloc(fill.value_bytes + SHORT_BYTES);
	if (!fill.value)
		peer_die("out of memory");
	peer_connect(&fill.peer, argv[1]);
	start = peer_now();
	for (unsigned key = 0; key < keys; key++) {
		if (mix)
			put_mixed(&fill, key);
		else
			put_string(&fill, key, fill.value_bytes);
		if (fill.peer.out.end - fill.peer.out.start >= BATCH_BYTES)
			settle(&fill);
	}
	settle(&fill);
	printf("{\"keys\":%u,\"seconds\":%.6f}\n", keys, peer_now() - start);
	peer_close(&fill.peer);
	free(fill.value);
	return 0;
}
