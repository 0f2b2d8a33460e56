/*
 * Arbitrary bytes as what a memcached client sends to the gateway: the replies are the same whether
 * the bytes come at once or in pieces, keys are keys, and an error is one line.
 *
 * The first byte chooses the pieces. What is found for a key follows from the key.
 */
#include "fuzz.h"

#include "base/buffer.h"
#include "gateway/memcached/request.h"
#include "gateway/memcached/stats.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const struct kw_fuzz_bytes seeds[] = {
	KW_FUZZ_BYTES("\x01get a b  c\r\ngets key\r\nget\r\n"),
	KW_FUZZ_BYTES("\x03mg key v t f s k c Oabc q\r\nmg a2V5 b k v\r\nmg key N30 v\r\nmn\r\n"),
	KW_FUZZ_BYTES(
		"\x02set a 0 0 3\r\nabc\r\nms a 3 q\r\nabc\r\ncas a 0 -1 0 7 noreply\r\n\r\n"),
	KW_FUZZ_BYTES("\x05stats\r\nstats settings\r\nstats items\r\nversion\r\nverbosity 1\r\n"),
	KW_FUZZ_BYTES("\x04incr a 1 noreply\r\ndelete a\r\nflush_all\r\nme a\r\nquit\r\nget a\r\n"),
	KW_FUZZ_BYTES("\x07\x80\x00\x00\x01\0\0\0\0\0\0\0\x01\1\2\3\4\0\0\0\0\0\0\0\0k"),
	KW_FUZZ_BYTES("\x00set a 0 0 2147483645\r\nabc"),
	KW_FUZZ_BYTES("\x06GET / HTTP/1.1\r\n\r\n"),
};

struct client {
	struct kw_memcached_request request;
	struct kw_buffer out;
	size_t consumed;
	unsigned refused;
	bool closed, failed;
};

static void check_key(
	const struct kw_memcached_request *request, struct kw_slice key, struct kw_slice input)
{
	const uint8_t *at = key.data, *from = input.data;

	must(key.length > 0 && key.length <= KW_MEMCACHED_KEY_MAX);
	must(at >= from && at + key.length <= from + request->bytes);
	for (size_t i = 0; i < key.length && !request->how.base64; i++)
		must(at[i] > ' ' && at[i] != 127);
}

/* By its first byte: a string, an integer, a list, a torn value, no table, or nothing. */
static struct kw_memcached_found find(struct kw_slice key)
{
	static const struct kw_fuzz_bytes payloads[] = {
		KW_FUZZ_BYTES("\0\3abc\0\0\0\0\0\0\0\0\0\0"),
		KW_FUZZ_BYTES("\0\xc0\x11\0\0\0\0\0\0\0\0\0\0"),
		KW_FUZZ_BYTES("\1\1\1x\0\0\0\0\0\0\0\0\0\0"),
		KW_FUZZ_BYTES("\0\x3fx\0\0\0\0\0\0\0\0\0\0"),
	};
	unsigned kind = *(const uint8_t *)key.data % 8U;
	struct kw_memcached_found found = {.key = key, .version = kind, .now_ms = 5000};

	if (kind < 4) {
		found.payload = kw_slice(payloads[kind].bytes, payloads[kind].length);
		found.kind = kw_payload_kind(found.payload);
		found.expires_ms = kind * UINT64_C(3000);
	}
	return found;
}

static bool answer_key(
	struct client *client, struct kw_memcached_how how, const struct kw_memcached_found *found)
{
	size_t before = kw_buffer_length(&client->out);
	struct kw_error error = {.text = "no\r\ntable"};
	int code = found->version == 4 ? KW_E_STATE : KW_OK;

	if (!code)
		code = kw_memcached_answer(&how, found, &client->out, &error);
	if (!code)
		return true;
	must(kw_buffer_length(&client->out) == before);
	kw_memcached_append_error(&client->out, error.text);
	/* It is one line. */
	must(memchr(kw_buffer_bytes(&client->out) + before, '\n',
		     kw_buffer_length(&client->out) - before) ==
		kw_buffer_bytes(&client->out) + kw_buffer_length(&client->out) - 1);
	return false;
}

static void answer(struct client *client, struct kw_slice input)
{
	const struct kw_memcached_request *request = &client->request;

	if (request->part == KW_MEMCACHED_WHOLE || request->part == KW_MEMCACHED_FRONT)
		client->failed = false;
	must(request->count > 0 && request->opaque.length <= 31);
	for (size_t i = 0; i < request->count && !client->failed; i++) {
		struct kw_memcached_found found = find(request->keys[i]);
		struct kw_memcached_how how = request->how;

		check_key(request, request->keys[i], input);
		found.opaque = request->opaque;
		how.ends = how.ends && i + 1 == request->count;
		client->failed = !answer_key(client, how, &found);
	}
}

static void act(struct client *client, enum kw_memcached_act act, struct kw_slice input)
{
	static const struct kw_memcached_figures figures = {.pid = 1};
	const struct kw_memcached_request *request = &client->request;

	must(request->bytes <= input.length);
	switch (act) {
	case KW_MEMCACHED_PARTIAL:
		break;
	case KW_MEMCACHED_KEYS:
		answer(client, input);
		break;
	case KW_MEMCACHED_STATS:
		kw_memcached_stats(&figures, &client->out);
		break;
	case KW_MEMCACHED_SETTINGS:
		kw_memcached_settings(&figures, &client->out);
		break;
	case KW_MEMCACHED_REFUSE:
		client->refused++;
		/* fallthrough */
	case KW_MEMCACHED_SAY:
	case KW_MEMCACHED_CLOSE:
		kw_buffer_append(&client->out, request->says.data, request->says.length);
		client->closed |= act == KW_MEMCACHED_CLOSE;
	}
	client->consumed += request->bytes;
}

/* All that can be said after the first `seen` bytes. */
static void parse(struct client *client, const uint8_t *data, size_t seen)
{
	enum kw_memcached_act came = KW_MEMCACHED_SAY;

	while (came != KW_MEMCACHED_PARTIAL && !client->closed) {
		size_t left = seen - client->consumed;
		/* A copy of just these bytes: what is read beyond them is found. */
		uint8_t *exact = malloc(left + 1);

		must(exact != NULL);
		memcpy(exact, data + client->consumed, left);
		came = kw_memcached_parse(&client->request, exact, left);
		must(came == KW_MEMCACHED_PARTIAL || client->request.bytes > 0);
		act(client, came, kw_slice(exact, left));
		free(exact);
	}
	/* What is kept of a line that has not ended is bounded, and of a data block nearly nothing.
	 */
	must(client->closed || seen - client->consumed < KW_MEMCACHED_LINE_MAX);
}

static struct client feed(const uint8_t *data, size_t size, size_t piece)
{
	struct client client = {.closed = false};

	for (size_t seen = 0; seen < size && !client.closed;) {
		seen = seen + piece < size ? seen + piece : size;
		parse(&client, data, seen);
	}
	kw_memcached_request_close(&client.request);
	return client;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct client whole, pieces;

	if (size < 2 || size > 32768)
		return 0;
	whole = feed(data + 1, size - 1, size);
	pieces = feed(data + 1, size - 1, 1 + data[0] % 64U);
	must(kw_buffer_length(&whole.out) == kw_buffer_length(&pieces.out));
	must(kw_buffer_length(&whole.out) == 0 ||
		memcmp(kw_buffer_bytes(&whole.out), kw_buffer_bytes(&pieces.out),
			kw_buffer_length(&whole.out)) == 0);
	must(whole.refused == pieces.refused && whole.closed == pieces.closed);
	kw_buffer_close(&whole.out);
	kw_buffer_close(&pieces.out);
	return 0;
}

KW_FUZZ_SEEDS(seeds)
