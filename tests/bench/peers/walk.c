#include "peer.h"

#include <stdlib.h>
#include <string.h>

#define SCAN_COUNT "1000"

/* The keys whose DUMPs are on their way: lengths in front of bytes. */
struct batch {
	struct peer_bytes keys;
	size_t count;
};

static void send_scan(struct peer *peer, const char *cursor, size_t length)
{
	peer_array(peer, 4);
	peer_bulk(peer, "SCAN", 4);
	peer_bulk(peer, cursor, length);
	peer_bulk(peer, "COUNT", 5);
	peer_bulk(peer, SCAN_COUNT, strlen(SCAN_COUNT));
}

static void send_fetch(struct peer *peer, bool with_ttl, const char *key, size_t length)
{
	peer_array(peer, 2);
	peer_bulk(peer, "DUMP", 4);
	peer_bulk(peer, key, length);
	if (!with_ttl)
		return;
	peer_array(peer, 2);
	peer_bulk(peer, "PEXPIRETIME", 11);
	peer_bulk(peer, key, length);
}

static size_t expect(struct peer *peer, char type)
{
	long long number;
	char found = peer_header(peer, &number);

	if (found != type || number < 0)
		peer_die("a reply of type '%c' where '%c' was due", found, type);
	return (size_t)number;
}

/* Take a SCAN's reply; queue the next SCAN and then the fetches of its keys. False: it was the
 * last. */
static bool take_scan(struct peer *peer, bool with_ttl, struct batch *batch)
{
	size_t length;
	const char *body;
	bool more;

	expect(peer, '*');
	length = expect(peer, '$');
	body = peer_body(peer, length);
	more = length != 1 || body[0] != '0';
	if (more)
		send_scan(peer, body, length);
	batch->count = expect(peer, '*');
	batch->keys.start = batch->keys.end = 0;
	for (size_t i = 0; i < batch->count; i++) {
		length = expect(peer, '$');
		body = peer_body(peer, length);
		send_fetch(peer, with_ttl, body, length);
		peer_append(&batch->keys, &length, sizeof length);
		peer_append(&batch->keys, body, length);
	}
	return more;
}

static void take_batch(struct peer *peer, bool with_ttl, const struct batch *batch,
	struct peer_bytes *payload, peer_item_fn fn, void *arg)
{
	const char *at = batch->keys.data;

	for (size_t i = 0; i < batch->count; i++) {
		struct peer_item item = {0};
		long long length, expires = 0;

		memcpy(&item.key_length, at, sizeof item.key_length);
		item.key = at + sizeof item.key_length;
		at = item.key + item.key_length;
		if (peer_header(peer, &length) != '$')
			peer_die("DUMP was not answered by a string");
		if (length >= 0) {
			item.payload_length = (size_t)length;
			item.payload = peer_body(peer, item.payload_length);
		}
		if (with_ttl) {
			/* Reading on may move the payload. */
			payload->start = payload->end = 0;
			if (item.payload)
				peer_append(payload, item.payload, item.payload_length);
			item.payload = item.payload ? payload->data : NULL;
			if (peer_header(peer, &expires) != ':')
				peer_die("PEXPIRETIME was not answered by a number");
		}
		item.expires_ms = expires > 0 ? expires : 0;
		if (item.payload)
			fn(arg, &item);
	}
}

void peer_walk(struct peer *peer, bool with_ttl, peer_item_fn fn, void *arg)
{
	struct batch batches[2] = {0};
	struct peer_bytes payload = {0};
	int now = 0;
	bool more = true;

	send_scan(peer, "0", 1);
	peer_flush(peer);
	while (more) {
		/* The reply to the SCAN that travelled ahead; behind it, the fetches of its elder.
		 */
		more = take_scan(peer, with_ttl, &batches[now]);
		peer_flush(peer);
		now = 1 - now;
		take_batch(peer, with_ttl, &batches[now], &payload, fn, arg);
	}
	take_batch(peer, with_ttl, &batches[1 - now], &payload, fn, arg);
	free(batches[0].keys.data);
	free(batches[1].keys.data);
	free(payload.data);
}
