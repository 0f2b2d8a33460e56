/*
 * A proxy's end and any number of agents' ends on one loop, over the carrier under test.
 */
#ifndef KW_TEST_REMOTE_FIXTURE_H
#define KW_TEST_REMOTE_FIXTURE_H

/* cmocka wants these before itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "remote/exchange.h"
#include "remote/frame.h"
#include "remote/memory.h"
#include "remote/remote.h"
#include "remote/server.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>
#include <uv.h>

#define RESERVE (UINT64_C(64) << 20)
#define EXTENT (UINT64_C(8) << 20)
#define EPOCH UINT64_C(0x1122334455667788)
#define WAIT_MS 60000 /* the machine may be busy */

extern enum kw_carrier carrier; /* under test */

/* tcp, tcp+tls: every server grants compression, and every client wishes it. */
extern bool compressed;

/* For tcp+tls, both ends: every server and client of the fixture gets them. NULL: none. */
extern struct kw_tls_context *server_tls, *client_tls;

struct fixture {
	uv_loop_t loop;
	uv_timer_t tick; /* so that waiting for a condition looks at it again */
	struct kw_memory memory;
	struct kw_server *server;
	struct kw_address address; /* to connect to */
	char folder[64];
	int joined, left, rejected, closed;
	int wishes;                     /* for tickets, that were told */
	struct kw_session_info session; /* the last that joined or left */
	char why_left[1024], why_rejected[2048];
	int told_of_listeners, placed, rotated;
	void (*when_placed)(struct fixture *fixture); /* NULL: nothing then */
	struct kw_rotation rotation;                  /* the last */
	struct kw_listener_info listener;             /* the last that was told of */
};

struct client {
	struct kw_remote *remote;
	int ready, closed;
	int awake; /* wakes that came */
	struct kw_remote_info info;
	struct kw_error why;
	bool free_when_closed;
};

/* A READ with its buffer and how it ended. */
struct
try {
	struct kw_remote_read read;
	int told;
	bool failed;
	struct kw_error error;
	uint8_t *bytes;
	int *order; /* counts up; NULL: nobody cares */
	int place;
};

uint8_t pattern(uint64_t offset); /* if compressed, half of it can be */
void fill_pattern(struct kw_memory *memory, uint64_t offset, uint64_t length);

/* Memory with one extent and its pattern, and a loop; no server yet. */
void fixture_open(struct fixture *fixture);
struct kw_server_handlers fixture_handlers(struct fixture *fixture);
void fixture_serve(struct fixture *fixture, const struct kw_server_options *options);
void fixture_stop_server(struct fixture *fixture);
void fixture_close(struct fixture *fixture);

/* Both of the above, with no secret. */
void fixture_start(struct fixture *fixture);

struct kw_remote_options plain_options(void);
int client_open(
	struct fixture *fixture, struct client *client, const struct kw_remote_options *options);
void client_connect(struct fixture *fixture, struct client *client); /* and wait for ready */
void client_close(struct fixture *fixture, struct client *client);   /* and wait, and free */

void try_init(struct try *t, uint64_t offset, uint64_t length);
void try_free(struct try *t);
void try_read(struct client *client, struct try *t);
void try_check(const struct try *t); /* told once, well, and the right bytes */

/* Run the loop until the condition holds; fails the test when it does not in WAIT_MS. */
#define WAIT(fixture, condition)                                                                   \
	do {                                                                                       \
		uint64_t end_ = kw_clock_us() + WAIT_MS * UINT64_C(1000);                          \
		while (!(condition) && kw_clock_us() < end_)                                       \
			uv_run(&(fixture)->loop, UV_RUN_ONCE);                                     \
		assert_true(condition);                                                            \
	} while (0)

/* A handshake by hand over a raw socket. Returns the socket; *code and *error tell its end. */
struct raw_options {
	struct kw_slice secret;
	const char *name;        /* NULL: "raw" */
	uint16_t layout_version; /* 0: ours */
	uint32_t depth;
	bool sleeps;
	const struct kw_channel *channel; /* NULL: the true one */
};
/* What a raw socket is connected to, as an agent says it. */
struct kw_channel raw_channel(int fd, const struct kw_address *address);
int raw_socket(const struct kw_address *address);
int raw_connect(struct fixture *fixture, const struct raw_options *options, int *code,
	struct kw_error *error);

/* A proxy in a process of its own, to be killed. Sets the address to connect to. */
pid_t spawn_server(struct fixture *fixture);
int serve_main(const char *carrier_name, const char *folder); /* in that process */

int count_fds(void);

#endif
