/* Stands between an agent and a proxy over tcp or tcp+tls; the test drives it. */
#ifndef KW_TEST_REMOTE_RELAY_H
#define KW_TEST_REMOTE_RELAY_H

#include "fixture.h"

struct relay {
	struct fixture *fixture;
	int listen_fd, agent, proxy; /* -1: none */
	struct kw_address address;   /* where agents dial it */
	size_t piece;                /* bytes that it passes on at a time */
	uint64_t passed;
	int flip_from; /* that socket's next piece is passed on with its last bit changed; -1: none
			*/
};

struct relay relay_open(struct fixture *fixture, size_t piece);
/* Take what an agent and the proxy have said, and pass it on. */
void relay_turn(struct relay *relay);
void relay_pass(struct relay *relay, int from, int to);
/* Pass on that the proxy has closed. */
void relay_end(struct relay *relay);
void relay_close(struct relay *relay);

#endif
