/*
 * Commands that choose: what they say are elements of the value, different ones if that was asked
 * for, and each comes as often as any other.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "answers_server.h"

#define ELEMENTS 40
#define ROUNDS 600

/* Which elements a reply names: m0 to m39, each with its value if there is one. */
static int count_named(struct kw_buffer *reply, int named[ELEMENTS])
{
	int count = 0;

	kw_buffer_append(reply, "", 1);
	for (char *line = strtok((char *)kw_buffer_bytes(reply), "\r\n"); line;
		line = strtok(NULL, "\r\n")) {
		int element = line[0] == 'm' ? atoi(line + 1) : -1;

		if (element < 0)
			continue;
		assert_true(element < ELEMENTS);
		named[element]++;
		count++;
	}
	return count;
}

static void fill(void)
{
	answers_do_many("HSET hash m# #", ELEMENTS);
	answers_do_many("SADD set m#", ELEMENTS);
	answers_do_many("ZADD zset # m#", ELEMENTS);
}

static int ask(const char *line, uint64_t random, int named[ELEMENTS])
{
	struct kw_buffer reply = {0};
	int count;

	answers_gateway(line, KW_RESP_3, random, &reply);
	count = count_named(&reply, named);
	kw_buffer_close(&reply);
	return count;
}

/* `most`: how often one element may come in one reply. */
static void check(const char *line, int wanted, int most)
{
	int all[ELEMENTS] = {0};
	double expected = (double)ROUNDS * wanted / ELEMENTS;

	for (uint64_t random = 0; random < ROUNDS; random++) {
		int named[ELEMENTS] = {0};

		assert_int_equal(ask(line, random, named), wanted);
		for (int i = 0; i < ELEMENTS; i++) {
			assert_true(named[i] <= most);
			all[i] += named[i];
		}
	}
	/* More than six times the standard deviation, and the same in each run. */
	for (int i = 0; i < ELEMENTS; i++)
		if (all[i] < expected * 0.4 || all[i] > expected * 1.6)
			fail_msg("%s: m%d came %d times, others about %.0f", line, i, all[i],
				expected);
}

static void elements_come_as_often_as_others(void **state)
{
	for (int settings = 0; settings < ANSWERS_SETTINGS; settings++) {
		answers_set(settings);
		fill();
		check("SRANDMEMBER set 10", 10, 1);
		check("HRANDFIELD hash -20 WITHVALUES", 20, 20);
		check("ZRANDMEMBER zset 39 WITHSCORES", 39, 1);
	}
}

static void values_are_those_of_the_fields(void **state)
{
	struct kw_buffer reply = {0};
	const char *at;
	int pairs = 0;

	answers_set(0);
	fill();
	answers_gateway("HRANDFIELD hash 30 WITHVALUES", KW_RESP_2, 5, &reply);
	kw_buffer_append(&reply, "", 1);
	at = (const char *)kw_buffer_bytes(&reply);
	assert_memory_equal(at, "*60\r\n", 5);
	while ((at = strchr(at, 'm'))) {
		int field, value;

		assert_int_equal(sscanf(at, "m%d\r\n$%*d\r\n%d", &field, &value), 2);
		assert_int_equal(field, value);
		at++;
		pairs++;
	}
	assert_int_equal(pairs, 30);
	kw_buffer_close(&reply);
}

static void a_count_without_end_is_refused(void **state)
{
	struct kw_buffer reply = {0};

	answers_set(0);
	fill();
	answers_gateway("SRANDMEMBER set -1048577", KW_RESP_2, 5, &reply);
	assert_int_equal(kw_buffer_bytes(&reply)[0], '-');
	kw_buffer_close(&reply);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(elements_come_as_often_as_others),
		cmocka_unit_test(values_are_those_of_the_fields),
		cmocka_unit_test(a_count_without_end_is_refused),
	};

	return answers_run(argc, argv, tests);
}
