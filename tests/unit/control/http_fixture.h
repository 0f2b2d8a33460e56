/* An HTTP server on a loop, at a unix socket, whose source tells what the test says. */
#ifndef KW_TESTS_HTTP_FIXTURE_H
#define KW_TESTS_HTTP_FIXTURE_H

#include "control/http/internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define SECRET "a secret of sixteen and more"
#define PATIENCE_US UINT64_C(20000000)

struct fixture {
	uv_loop_t loop;
	struct kw_config *config;
	struct kw_http_server *server;
	struct kw_transitions transitions;
	char directory[64], path[96], secret[96];
	struct kw_http_readiness now; /* what the source tells */
	int asked;
};

extern struct fixture *fixture;
extern struct kw_http_source source;

int setup(void **state);
int teardown(void **state);
void set(const char *key, const char *value);
void write_secret(const char *secret);
void start(void);

/* A client that does not block. */
int dial(void);
void send_text(int fd, const char *text);

/* Let the loop run until the server has ended the connection: all that it sent. */
const char *read_all(int fd);

/* line: "GET /path"; header: "" or with its end of line. */
const char *ask_with(const char *line, const char *header);
const char *ask(const char *path);

void assert_status(const char *answer, const char *status);
void assert_has(const char *answer, const char *words);
void assert_lacks(const char *answer, const char *words);

#endif
