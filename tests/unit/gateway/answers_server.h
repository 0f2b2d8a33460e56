/*
 * Test helper: the gateway's answers against a real server. The same request must get the same
 * reply, byte for byte, in RESP 2 and in RESP 3.
 *
 *   test_answers… [server]     (a program, or the name of one of build/servers)
 *
 * A difference does not end the test at once: all of them are shown, then answers_none_differs
 * fails.
 */
#ifndef KW_TESTS_UNIT_GATEWAY_ANSWERS_SERVER_H
#define KW_TESTS_UNIT_GATEWAY_ANSWERS_SERVER_H

#include "base/buffer.h"
#include "gateway/answers/command.h"

#define ANSWERS_WORDS_MAX 64

struct CMUnitTest;

/* Run a group of tests with a server of its own. Exit code 77: that server is not there. */
#define answers_run(argc, argv, tests)                                                             \
	(answers_choose((argc), (argv))                                                            \
			? cmocka_run_group_tests(tests, answers_start, answers_stop)               \
			: 77)
int answers_choose(int argc, char **argv);
int answers_start(void **state);
int answers_stop(void **state);

/* The release of the server. */
struct kw_release answers_release(void);

/*
 * How the server keeps what is written from now on: 0 as it comes, 1 nothing compact and nothing
 * compressed, 2 small nodes.
 */
#define ANSWERS_SETTINGS 3
void answers_set(int settings);

/* The words of a line; "" is the empty word; \xHH a byte (overwritten in line). */
size_t answers_split(char *line, struct kw_slice words[ANSWERS_WORDS_MAX]);

/* Run a line on the server; it must not fail. In _many a number stands in place of each #. */
void answers_do(const char *line);
void answers_do_many(const char *pattern, int count);
/* Run a line if the server knows it. Else nothing happens. */
void answers_try(const char *line);

/* Both replies to each line; NULL ends them. */
void answers_same(const char *const *lines);
/* The same, but elements can come in any order (SCAN and its kind of large values). */
void answers_same_set(const char *const *lines);
void answers_none_differs(void);

/* The gateway's reply alone, which chooses with this number. */
void answers_gateway(
	const char *line, enum kw_resp_version version, uint64_t random, struct kw_buffer *reply);

#endif
