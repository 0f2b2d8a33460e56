/*
 * Test helper: a real server of one's own on a unix socket in a temporary folder, and a blocking
 * connection to it. Failures end the test (cmocka's fail_msg).
 */
#ifndef KW_TESTS_UNIT_RDB_PAYLOAD_PEER_H
#define KW_TESTS_UNIT_RDB_PAYLOAD_PEER_H

#include "base/buffer.h"
#include "base/slice.h"

#include <sys/types.h>

struct peer {
	pid_t pid;
	int fd;
	char folder[64];
	struct kw_buffer in; /* received and not yet taken */
};

/* Start `binary`; options: pairs of configuration words, ended by NULL. */
void peer_start(struct peer *peer, const char *binary, const char *const *options);
void peer_stop(struct peer *peer);

/*
 * One command and its reply. A simple or bulk string or number is appended to reply (may be NULL),
 * of an array nothing is. Returns the reply's first byte: '+', '-', ':', '$', '*', or '_' for a
 * nil.
 */
char peer_command(
	struct peer *peer, struct kw_buffer *reply, int argc, const struct kw_slice *argv);

/* The same from words, which must not fail with an error; ended by NULL. */
char peer_words(struct peer *peer, struct kw_buffer *reply, const char *word, ...)
	__attribute__((sentinel));

#endif
