/* Which commands go to the primary: none that waits, changes the connection, or administers. */
#include "gateway/forward/commands.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define WORDS_MAX 16

struct example {
	const char *line;
	enum kw_forward_class class;
	const char *says; /* in the sentence */
};

static const struct example examples[] = {
	{"get k", KW_FORWARD_READS, NULL},
	{"GET k", KW_FORWARD_READS, NULL},
	{"keys *", KW_FORWARD_READS, NULL},
	{"scan 0", KW_FORWARD_READS, NULL},
	{"dbsize", KW_FORWARD_READS, NULL},
	{"zunion 2 a b", KW_FORWARD_READS, NULL},
	{"eval_ro x 0", KW_FORWARD_READS, NULL},
	{"publish c m", KW_FORWARD_READS, NULL},
	{"bitcount k", KW_FORWARD_READS, NULL},
	{"set k v", KW_FORWARD_WRITES, NULL},
	{"append k v", KW_FORWARD_WRITES, NULL},
	{"zunionstore d 1 k", KW_FORWARD_WRITES, NULL},
	{"getex k ex 1", KW_FORWARD_WRITES, NULL},
	{"sort k", KW_FORWARD_WRITES, NULL},
	{"eval x 0", KW_FORWARD_WRITES, NULL},
	{"FCALL f 0", KW_FORWARD_WRITES, NULL},
	{"flushall", KW_FORWARD_WRITES, NULL},
	/* They wait. */
	{"blpop k 0", KW_FORWARD_REFUSED, "wait"},
	{"BZMPOP 0 1 k MIN", KW_FORWARD_REFUSED, "wait"},
	{"wait 1 0", KW_FORWARD_REFUSED, "wait"},
	{"waitaof 1 0 0", KW_FORWARD_REFUSED, "wait"},
	{"xread streams s 0", KW_FORWARD_READS, NULL},
	{"xread count 1 streams s 0", KW_FORWARD_READS, NULL},
	{"xread block 0 streams s $", KW_FORWARD_REFUSED, "wait"},
	{"XREAD COUNT 1 BLOCK 5 STREAMS s $", KW_FORWARD_REFUSED, "wait"},
	{"xread streams block 0", KW_FORWARD_READS, NULL},
	{"xreadgroup group g c streams s >", KW_FORWARD_WRITES, NULL},
	{"xreadgroup group block streams streams s >", KW_FORWARD_WRITES, NULL},
	{"xreadgroup group g streams block 1 streams s >", KW_FORWARD_REFUSED, "wait"},
	{"xreadgroup noack group g c block 1 streams s >", KW_FORWARD_REFUSED, "wait"},
	{"xreadgroup group g", KW_FORWARD_WRITES, NULL},
	/* They change the connection. */
	{"multi", KW_FORWARD_REFUSED, "state of a connection"},
	{"exec", KW_FORWARD_REFUSED, "state of a connection"},
	{"watch k", KW_FORWARD_REFUSED, "state of a connection"},
	{"select 1", KW_FORWARD_REFUSED, "state of a connection"},
	{"client tracking on", KW_FORWARD_REFUSED, "state of a connection"},
	{"client reply off", KW_FORWARD_REFUSED, "state of a connection"},
	{"hello 3", KW_FORWARD_REFUSED, "state of a connection"},
	{"reset", KW_FORWARD_REFUSED, "state of a connection"},
	{"subscribe c", KW_FORWARD_REFUSED, "messages"},
	{"ssubscribe c", KW_FORWARD_REFUSED, "messages"},
	{"monitor", KW_FORWARD_REFUSED, "messages"},
	/* They administer. */
	{"config set maxmemory 1", KW_FORWARD_REFUSED, "administers"},
	{"shutdown", KW_FORWARD_REFUSED, "administers"},
	{"debug sleep 1", KW_FORWARD_REFUSED, "administers"},
	{"replicaof no one", KW_FORWARD_REFUSED, "administers"},
	{"psync ? -1", KW_FORWARD_REFUSED, "administers"},
	{"sync", KW_FORWARD_REFUSED, "administers"},
	{"acl whoami", KW_FORWARD_REFUSED, "administers"},
	{"script load x", KW_FORWARD_READS, NULL},
	{"script kill", KW_FORWARD_REFUSED, "administers"},
	{"script flush", KW_FORWARD_REFUSED, "administers"},
	{"function list", KW_FORWARD_READS, NULL},
	{"function load x", KW_FORWARD_REFUSED, "administers"},
	{"memory usage k", KW_FORWARD_READS, NULL},
	{"memory purge", KW_FORWARD_REFUSED, "administers"},
	{"OBJECT encoding k", KW_FORWARD_READS, NULL},
	{"object", KW_FORWARD_READS, NULL},
	{"xgroup create s g $", KW_FORWARD_WRITES, NULL},
	{"xinfo stream s", KW_FORWARD_READS, NULL},
	/* No event tells of it. */
	{"swapdb 0 1", KW_FORWARD_REFUSED, "no event"},
	/* Not in the tables. */
	{"bf.add k v", KW_FORWARD_UNKNOWN, "does not know"},
	{"frobnicate", KW_FORWARD_UNKNOWN, "does not know"},
	{"aaa", KW_FORWARD_UNKNOWN, "does not know"},
	{"zzz", KW_FORWARD_UNKNOWN, "does not know"},
	{"a-name-that-is-longer-than-any-that-a-command-has", KW_FORWARD_UNKNOWN, "does not know"},
};

static size_t split(char *line, struct kw_slice words[WORDS_MAX])
{
	size_t count = 0;

	for (char *word = strtok(line, " "); word; word = strtok(NULL, " "))
		words[count++] = kw_slice_text(word);
	return count;
}

static void each_command_goes_where_it_can_do_no_harm(void **state)
{
	for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
		struct kw_slice words[WORDS_MAX];
		struct kw_forward_verdict verdict;
		char line[128];

		strcpy(line, examples[i].line);
		verdict = kw_forward_may(words, split(line, words));
		if (verdict.class != examples[i].class)
			fail_msg("\"%s\" is judged as %d", examples[i].line, verdict.class);
		assert_int_equal(verdict.why != NULL, examples[i].says != NULL);
		if (verdict.why && !strstr(verdict.why, examples[i].says))
			fail_msg("\"%s\": %s", examples[i].line, verdict.why);
		if (verdict.why)
			assert_non_null(strstr(verdict.why, "send it to the primary itself"));
	}
}

static void names_with_any_bytes_are_unknown(void **state)
{
	struct kw_slice words[] = {kw_slice("get\0x", 5), kw_slice(NULL, 0)};

	assert_int_equal(kw_forward_may(words, 1).class, KW_FORWARD_UNKNOWN);
	assert_int_equal(kw_forward_may(words + 1, 1).class, KW_FORWARD_UNKNOWN);
	words[0] = kw_slice_text("object");
	assert_int_equal(kw_forward_may(words, 2).class, KW_FORWARD_REFUSED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_command_goes_where_it_can_do_no_harm),
		cmocka_unit_test(names_with_any_bytes_are_unknown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
