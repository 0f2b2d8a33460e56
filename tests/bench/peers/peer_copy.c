/*
 * peer-copy FROM TO [--seconds N]: the naive program of the original experiments. For each key of
 * database 0 a GET from FROM and a SET into TO, one round trip each, nothing pipelined; strings
 * only. It stops after N seconds (0: never) and says how many of how many keys it got to.
 */
#include "peer.h"
#include "words.h"

#include <stdio.h>

#define SCAN_COUNT "1000"
#define CURSOR_BYTES 24

struct copy {
	struct peer from, to;
	struct peer_bytes keys; /* of one SCAN: lengths in front of names */
	size_t batch;
	char cursor[CURSOR_BYTES];
	size_t copied;
	double deadline; /* 0: none */
};

static size_t expect(struct peer *peer, char type)
{
	long long number;

	if (peer_header(peer, &number) != type || number < 0)
		peer_die("a reply of another type where '%c' was due", type);
	return (size_t)number;
}

static size_t count_keys(struct peer *peer)
{
	peer_array(peer, 1);
	peer_bulk(peer, "DBSIZE", 6);
	peer_flush(peer);
	return expect(peer, ':');
}

/* The next names; they are kept, because reading replies moves the buffer they came in. */
static void scan(struct copy *copy)
{
	struct peer *from = &copy->from;
	size_t length;

	peer_array(from, 4);
	peer_bulk(from, "SCAN", 4);
	peer_bulk(from, copy->cursor, strlen(copy->cursor));
	peer_bulk(from, "COUNT", 5);
	peer_bulk(from, SCAN_COUNT, strlen(SCAN_COUNT));
	peer_flush(from);
	expect(from, '*');
	length = expect(from, '$');
	if (length >= CURSOR_BYTES)
		peer_die("a cursor of %zu bytes", length);
	memcpy(copy->cursor, peer_body(from, length), length);
	copy->cursor[length] = '\0';
	copy->batch = expect(from, '*');
	copy->keys.start = copy->keys.end = 0;
	for (size_t i = 0; i < copy->batch; i++) {
		length = expect(from, '$');
		peer_append(&copy->keys, &length, sizeof length);
		peer_append(&copy->keys, peer_body(from, length), length);
	}
}

static void copy_key(struct copy *copy, const char *key, size_t key_length)
{
	long long length;

	peer_array(&copy->from, 2);
	peer_bulk(&copy->from, "GET", 3);
	peer_bulk(&copy->from, key, key_length);
	peer_flush(&copy->from);
	if (peer_header(&copy->from, &length) != '$')
		peer_die("GET was not answered by a string");
	if (length < 0)
		return; /* gone since the SCAN */
	peer_array(&copy->to, 3);
	peer_bulk(&copy->to, "SET", 3);
	peer_bulk(&copy->to, key, key_length);
	peer_bulk(&copy->to, peer_body(&copy->from, (size_t)length), (size_t)length);
	peer_flush(&copy->to);
	peer_header(&copy->to, &length);
	copy->copied++;
}

/* False: out of time. */
static bool copy_batch(struct copy *copy)
{
	const char *at = copy->keys.data;

	for (size_t i = 0; i < copy->batch; i++) {
		size_t length;

		if (copy->deadline > 0 && peer_now() >= copy->deadline)
			return false;
		memcpy(&length, at, sizeof length);
		at += sizeof length;
		copy_key(copy, at, length);
		at += length;
	}
	return true;
}

int main(int argc, char **argv)
{
	double limit = words_number(argc, argv, "--seconds", 0), begin;
	struct copy copy = {.cursor = "0"};
	size_t keys;

	if (argc < 3)
		peer_die("usage: peer-copy FROM TO [--seconds N]");
	peer_connect(&copy.from, argv[1]);
	peer_connect(&copy.to, argv[2]);
	keys = count_keys(&copy.from);
	begin = peer_now();
	copy.deadline = limit > 0 ? begin + limit : 0;
	do
		scan(&copy);
	while (copy_batch(&copy) && strcmp(copy.cursor, "0") != 0);
	printf("{\"keys\":%zu,\"copied\":%zu,\"seconds\":%.6f}\n", keys, copy.copied,
		peer_now() - begin);
	peer_close(&copy.from);
	peer_close(&copy.to);
	free(copy.keys.data);
	return 0;
}
