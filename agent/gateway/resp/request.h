/*
 * Requests of Redis clients: an array of bulk strings, or a line of words (inline).
 *
 *   *2\r\n$3\r\nGET\r\n$3\r\nkey\r\n          GET key\r\n
 *
 * The bytes lie in the client's input buffer. Nothing is copied: the words of a request point into
 * it, and hold until those bytes are consumed. A request that is not whole yet is not looked at
 * again from its beginning when more bytes come.
 *
 * Limits are those of the servers (proto-max-bulk-len, 1 M words, 64 KiB a line). A request beyond
 * them, or bytes that are no request, end the connection with a sentence.
 *
 * Pure; one thread.
 */
#ifndef KW_AGENT_GATEWAY_RESP_REQUEST_H
#define KW_AGENT_GATEWAY_RESP_REQUEST_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/slice.h"

#include <stddef.h>
#include <stdint.h>

#define KW_REQUEST_WORDS_MAX (1024 * 1024)
#define KW_REQUEST_BULK_MAX (UINT64_C(512) << 20)
#define KW_REQUEST_LINE_MAX ((size_t)64 << 10)
/* Of a client that has not logged in. */
#define KW_REQUEST_STRANGER_WORDS_MAX 10
#define KW_REQUEST_STRANGER_BULK_MAX ((uint64_t)16 << 10)

enum kw_request_state {
	KW_REQUEST_PARTIAL, /* more bytes are needed */
	KW_REQUEST_WHOLE,  /* words and bytes are set; no words: an empty line, to be passed over */
	KW_REQUEST_BROKEN, /* no request: the error says why; end the connection */
};

/* A part of the input; an offset, because the input can move while it grows. */
struct kw_request_word {
	size_t offset, length;
};

/* Who sends it: the limits. */
enum kw_request_from {
	KW_REQUEST_FROM_USER,
	KW_REQUEST_FROM_STRANGER,
};

/* Zeroed before the first use. */
struct kw_request {
	enum kw_request_from from; /* set by the caller at any time */
	struct kw_request_word *parts;
	struct kw_slice *words; /* WHOLE: the words, valid until the input changes */
	size_t count, capacity;
	size_t bytes;    /* of input that the request takes, or that were looked at */
	int64_t missing; /* words of an array that have not come */
	uint8_t begun;   /* their number has come */
};

void kw_request_close(struct kw_request *request);

/*
 * Go on with the request at the front of the input. After WHOLE: consume request->bytes, then call
 * kw_request_next. error is set when BROKEN.
 */
enum kw_request_state kw_request_parse(
	struct kw_request *request, struct kw_slice input, struct kw_error *error);

/* Forget the request that was WHOLE. Memory of a very long one is given back. */
void kw_request_next(struct kw_request *request);

#endif
