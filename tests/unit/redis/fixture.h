/*
 * What the tests of connections stand on: a real server of their own, a scripted one that
 * misbehaves, and a client that writes down everything it is told.
 */
#ifndef KW_TEST_REDIS_FIXTURE_H
#define KW_TEST_REDIS_FIXTURE_H

#include "base/buffer.h"
#include "ports.h"
#include "redis/redis.h"

#include <pthread.h>
#include <sys/types.h>

/* A redis-server in a temporary folder, on a unix socket (and on a port when one is given). */
struct test_server {
	char folder[32];
	char address[96];
	pid_t pid;
};

/* extra: words of its command line, ended by NULL; may be NULL. */
void test_server_start(struct test_server *server, const char *const *extra);
void test_server_stop(struct test_server *server);

/* What the scripted server does with its only connection, step by step. */
enum test_act {
	TEST_END,       /* close the connection */
	TEST_RECEIVE,   /* wait for `number` commands */
	TEST_SEND,      /* send text */
	TEST_DRIP,      /* send text byte by byte, each on its own */
	TEST_DRIP_SLOW, /* the same, `number` ms apart */
	TEST_HOLD,      /* do nothing until the client is gone */
	TEST_SULK,      /* do not even read, until the test ends */
};

struct test_step {
	enum test_act act;
	int number;
	const char *text;
};

struct test_fake {
	char folder[32];
	char address[96];
	const struct test_step *script;
	int listener;
	int release[2]; /* a pipe: its closing ends TEST_SULK */
	pthread_t thread;
};

void test_fake_start(struct test_fake *fake, const struct test_step *script);
void test_fake_stop(struct test_fake *fake);

/* The beginning of every script: the reply to CLIENT SETNAME. */
#define TEST_GREETING                                                                              \
	{TEST_RECEIVE, 1, NULL},                                                                   \
	{                                                                                          \
		TEST_SEND, 0, "+OK\r\n"                                                            \
	}

struct test_client {
	uv_loop_t loop;
	uv_timer_t tick; /* keeps uv_run from blocking for ever */
	struct kw_redis *redis;
	int ready, closed, replies, pushes, lost;
	struct kw_error why;
	struct kw_buffer heard; /* replies, one behind the other, as test_client_heard shows them */
	struct kw_buffer pushed;
};

struct kw_redis_options test_options(const char *address);
void test_client_open(struct test_client *client, const struct kw_redis_options *options);
/* Free what was opened; the connection is closed first when it is not yet. */
void test_client_stop(struct test_client *client);

/* Run the loop until *counter is at least `wanted`; the test fails after 20 s. */
void test_client_run(struct test_client *client, const int *counter, int wanted);
/* Run the loop for so long. */
void test_client_idle(struct test_client *client, unsigned ms);

/* A kw_reply_fn that writes the reply down; arg is the client. */
void test_client_note(void *client, const struct kw_reply *reply);

/* All replies so far: +status -error :integer "string" nil [elements] lost, separated by spaces. */
const char *test_client_heard(struct test_client *client);
const char *test_client_pushed(struct test_client *client);
void test_note(struct kw_buffer *notes, const struct kw_reply *reply);

#endif
