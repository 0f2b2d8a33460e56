/* A control server in a loop of its own thread, for clients in the test's thread. */
#ifndef KW_TESTS_RPC_FIXTURE_H
#define KW_TESTS_RPC_FIXTURE_H

#include "base/buffer.h"
#include "control/rpc/rpc.h"
#include "control/rpc/waits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>

#define HELD_MAX 256
#define PATIENCE_MS 30000

struct fixture {
	pthread_t thread;
	uv_loop_t loop;
	struct kw_rpc_server *server;
	struct kw_rpc_call *held[HELD_MAX];
	int held_count, echoes;
	struct kw_rpc_waits waits;
	uv_prepare_t before_sleep; /* looks at them */
	uint64_t passed;           /* all tokens up to this one */
	char directory[64], path[96];
	bool closed;
	pthread_barrier_t started;
};

extern struct kw_error error; /* of the client's side */
extern const struct kw_rpc_method fixture_methods[];

int fixture_setup(void **state);
int fixture_teardown(void **state);
void *fixture_serve(void *fixture);
void fixture_closed(void *fixture);

struct kw_rpc_client *open_client(const struct fixture *fixture);
int call_text(struct kw_rpc_client *client, const char *method, json_t *params, json_t **result);

/* A bare socket, to send what the client would not. */
int open_raw(const struct fixture *fixture);
void send_raw(int fd, const char *text);

/* One line as JSON; NULL when the server hung up. */
json_t *receive_raw(int fd);

/* Send the line; the answer is an error of that code, with that word in its sentence. */
void expect_error(int fd, const char *line, int code, const char *word);

/* Calls of `hold` that wait for `release`. */
json_int_t held_now(struct kw_rpc_client *client);
void wait_held(struct kw_rpc_client *client, json_int_t wanted);

#endif
