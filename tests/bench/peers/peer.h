/*
 * The yardsticks: what a bare, hand-written, pipelined client can do. Blocking sockets, buffers of
 * 1 MiB, a parser that knows just the replies it waits for; no library between it and the kernel.
 *
 * Whatever goes wrong ends the program with a sentence: a yardstick that limps is worth nothing.
 */
#ifndef KW_BENCH_PEER_H
#define KW_BENCH_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct peer_bytes {
	char *data;
	size_t start, end, room;
};

struct peer {
	int fd;
	struct peer_bytes in, out;
};

void peer_die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
double peer_now(void); /* seconds, monotonic */

/* unix:///path or tcp://host:port */
void peer_connect(struct peer *peer, const char *address);
void peer_close(struct peer *peer);

/* At least `length` writable bytes behind bytes->end. */
char *peer_reserve(struct peer_bytes *bytes, size_t length);
void peer_append(struct peer_bytes *bytes, const void *data, size_t length);

/* One command: peer_array(p, 2); peer_bulk(p, "GET", 3); peer_bulk(p, key, length). */
void peer_array(struct peer *peer, int count);
void peer_bulk(struct peer *peer, const void *data, size_t length);
void peer_flush(struct peer *peer);

/* The next reply's type byte; number: its length, count or integer. An error reply ends the
 * program. */
char peer_header(struct peer *peer, long long *number);
/* The body of a bulk string of `length` bytes, valid until the next call. */
const char *peer_body(struct peer *peer, size_t length);

/*
 * Every key of database 0, by SCAN COUNT 1000 and pipelined DUMP (and PEXPIRETIME when with_ttl).
 * The next SCAN always travels ahead of a batch's DUMPs, so the server never waits for us.
 */
struct peer_item {
	const char *key, *payload;
	size_t key_length, payload_length;
	long long expires_ms; /* 0: never */
};
typedef void (*peer_item_fn)(void *arg, const struct peer_item *item);
void peer_walk(struct peer *peer, bool with_ttl, peer_item_fn fn, void *arg);

#endif
