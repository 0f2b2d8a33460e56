/* Who may write to a server: names of connections, CLIENT LIST, and the verdict. */
#include "authority/lease.h"

#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define LENGTH(array) (sizeof(array) / sizeof *(array))

/* The agent that looks is "me"; its session is 0x11. */
static struct kw_lease_owner me;

static int set_me(void **state)
{
	kw_lease_owner_set(&me, 0x11, "me", "here");
	return 0;
}

#define LINE(id, name, idle)                                                                       \
	"id=" #id " addr=127.0.0.1:5 laddr=127.0.0.1:1 fd=8 name=" name " age=3 idle=" #idle       \
	" flags=N db=0 sub=0 cmd=client|list user=default redir=-1 resp=2\n"
#define ME(id, stage) LINE(id, "keywake-agent:" stage ":0000000000000011:me@here", 0)
#define YOU(id, stage, idle) LINE(id, "keywake-agent:" stage ":0000000000000022:you@there", idle)
#define THIRD(id, stage, idle)                                                                     \
	LINE(id, "keywake-agent:" stage ":0000000000000033:third@there", idle)
#define OLD(id, idle) LINE(id, "keywake-agent", idle)

static const struct {
	const char *name, *list;
	enum kw_lease_verdict verdict;
	uint64_t other, dead[3];
} cases[] = {
	{"alone", ME(7, "claims"), KW_LEASE_FREE},
	{"beside ordinary clients", LINE(3, "", 0) ME(7, "claims") LINE(9, "app", 0),
		KW_LEASE_FREE},
	{"another writes", YOU(3, "writes", 0) ME(7, "claims"), KW_LEASE_TAKEN, 3},
	{"another writes, and connected later", ME(7, "claims") YOU(9, "writes", 0), KW_LEASE_TAKEN,
		9},
	{"another was idle for as long as one that lives can be",
		YOU(3, "writes", 10) ME(7, "claims"), KW_LEASE_TAKEN, 3},
	{"another died with its host", YOU(3, "writes", 11) ME(7, "claims"), KW_LEASE_FREE, 0, {3}},
	{"two died", YOU(3, "writes", 11) THIRD(4, "claims", 60) ME(7, "claims"), KW_LEASE_FREE, 0,
		{3, 4}},
	{"one died, one writes", YOU(3, "writes", 11) THIRD(4, "writes", 1) ME(7, "claims"),
		KW_LEASE_TAKEN, 4, {3}},
	{"our own id twice", ME(7, "claims") ME(7, "claims"), KW_LEASE_FREE},
	{"our own id under a dead one's name", YOU(7, "writes", 60) ME(7, "claims"), KW_LEASE_FREE},
	{"another only waits", YOU(3, "waits", 0) ME(7, "claims"), KW_LEASE_FREE},
	{"another claims, and came first", YOU(3, "claims", 0) ME(7, "claims"), KW_LEASE_YIELD, 3},
	{"another claims, and came later", ME(7, "claims") YOU(9, "claims", 0), KW_LEASE_AWAIT, 9},
	{"one came first, one later", YOU(3, "claims", 0) ME(7, "claims") THIRD(9, "claims", 0),
		KW_LEASE_YIELD, 3},
	{"one claims, one writes", YOU(3, "claims", 0) ME(7, "claims") THIRD(9, "writes", 0),
		KW_LEASE_TAKEN, 9},
	{"an agent of an earlier version", OLD(3, 0) ME(7, "claims"), KW_LEASE_TAKEN, 3},
	{"an agent of an earlier version that died", OLD(3, 30) ME(7, "claims"), KW_LEASE_FREE, 0,
		{3}},
	{"a connection of my own that was lost", ME(5, "writes") ME(7, "claims"), KW_LEASE_FREE, 0,
		{5}},
	{"the same, listed later", ME(7, "claims") ME(5, "writes"), KW_LEASE_FREE, 0, {5}},
	{"the name was refused", LINE(7, "", 0), KW_LEASE_UNSEEN},
	{"the new name was refused", ME(7, "waits"), KW_LEASE_UNSEEN},
	{"the name was refused, and another writes", LINE(7, "", 0) YOU(9, "writes", 0),
		KW_LEASE_TAKEN, 9},
	{"the name was refused, and another claims", LINE(7, "", 0) YOU(9, "claims", 0),
		KW_LEASE_YIELD, 9},
	{"the new name was refused, and another claims", ME(7, "waits") YOU(9, "claims", 0),
		KW_LEASE_YIELD, 9},
	{"nothing", "", KW_LEASE_UNSEEN},
	{"no end of line", "id=7 name=keywake-agent:claims:0000000000000011:me@here idle=0",
		KW_LEASE_FREE},
	{"names that only begin like ours",
		LINE(3, "keywake-agents", 0) LINE(4, "keywake-agent:reads:0000000000000022:a@b", 0)
			LINE(5, "keywake-agent:writes:22:a@b", 0) LINE(
				6, "keywake-agent:writes:0000000000000022:a", 0) ME(7, "claims"),
		KW_LEASE_FREE},
	{"fields that only end like ours", "xid=3 yname=keywake-agent zidle=0\n" ME(7, "claims"),
		KW_LEASE_FREE},
	{"numbers that are none",
		LINE(-3, "keywake-agent", 0) LINE(3, "keywake-agent", -1)
			LINE(99999999999999999999999, "keywake-agent", 0) ME(7, "claims"),
		KW_LEASE_FREE},
};

static void whether_an_agent_may_write_follows_from_the_list_of_clients(void **state)
{
	for (size_t i = 0; i < LENGTH(cases); i++) {
		struct kw_lease_survey survey;
		size_t dead = 0;

		print_message("%s\n", cases[i].name);
		kw_lease_look(&survey, kw_slice_text(cases[i].list), &me);
		assert_int_equal(kw_lease_judge(&survey), cases[i].verdict);
		if (cases[i].other > 0)
			assert_int_equal(kw_lease_other(&survey)->id, cases[i].other);
		while (dead < LENGTH(cases[i].dead) && cases[i].dead[dead] > 0)
			dead++;
		assert_int_equal(survey.dead_count, dead);
		assert_memory_equal(survey.dead, cases[i].dead, dead * sizeof *survey.dead);
	}
}

/* Of any two agents whose names were set before each asked, at most one goes on. */
static void two_agents_never_both_find_it_free(void **state)
{
	static const char *const stages[] = {"claims", "writes"};
	struct kw_lease_owner you;

	kw_lease_owner_set(&you, 0x22, "you", "there");
	for (int i = 0; i < 8; i++) {
		struct kw_lease_survey mine, yours;
		char list[1024];

		snprintf(list, sizeof list,
			"id=%d name=keywake-agent:claims:0000000000000011:me@here idle=0\n"
			"id=%d name=keywake-agent:%s:0000000000000022:you@there idle=%d\n",
			i & 1 ? 5 : 9, 7, stages[i >> 1 & 1], i & 4 ? 10 : 0);
		kw_lease_look(&mine, kw_slice_text(list), &me);
		kw_lease_look(&yours, kw_slice_text(list), &you);
		assert_int_not_equal(kw_lease_judge(&mine), KW_LEASE_FREE);
		assert_true(kw_lease_judge(&mine) != KW_LEASE_AWAIT ||
			    kw_lease_judge(&yours) == KW_LEASE_YIELD);
	}
}

static void more_dead_connections_than_there_is_room_for_are_left(void **state)
{
	struct kw_lease_survey survey;
	char list[8192] = ME(100, "claims");

	for (int id = 1; id <= 20; id++)
		snprintf(list + strlen(list), sizeof list - strlen(list),
			"id=%d name=keywake-agent idle=99\n", id);
	kw_lease_look(&survey, kw_slice_text(list), &me);
	assert_int_equal(survey.dead_count, KW_LEASE_DEAD_MAX);
	assert_int_equal(kw_lease_judge(&survey), KW_LEASE_FREE);
}

static void a_name_is_read_back_as_it_was_written(void **state)
{
	static const struct {
		const char *agent, *host, *text;
	} names[] = {
		{"replica-1", "host.example", "00000000000000ff:replica-1@host.example"},
		{"two words", "a@b", "00000000000000ff:two_words@a_b"},
		{"quote'\\\"\n", "\xc3\xa4", "00000000000000ff:quote____@__"},
		{"", "", "00000000000000ff:_@_"},
	};

	for (size_t i = 0; i < LENGTH(names); i++) {
		struct kw_lease_owner owner, again;
		char text[KW_LEASE_OWNER_TEXT];

		kw_lease_owner_set(&owner, 0xff, names[i].agent, names[i].host);
		kw_lease_owner_text(&owner, text);
		assert_string_equal(text, names[i].text);
		assert_true(kw_lease_owner_parse(kw_slice_text(text), &again));
		assert_memory_equal(&owner, &again, sizeof owner);
	}
}

static void the_longest_names_fit(void **state)
{
	char agent[300], name[KW_LEASE_NAME];
	struct kw_lease_owner owner;
	struct kw_lease_survey survey;
	char list[512];

	memset(agent, 'x', sizeof agent);
	agent[sizeof agent - 1] = '\0';
	kw_lease_owner_set(&owner, UINT64_MAX, agent, agent);
	kw_lease_name(&owner, KW_LEASE_CLAIMS, name);
	snprintf(list, sizeof list, "id=7 name=%s idle=0\n", name);
	kw_lease_look(&survey, kw_slice_text(list), &owner);
	assert_int_equal(kw_lease_judge(&survey), KW_LEASE_FREE);
}

static void text_that_no_agent_writes_is_no_owner(void **state)
{
	static const char *const texts[] = {"", "ff:a@b", "00000000000000ff", "00000000000000ff:a",
		"00000000000000ff:a@", "00000000000000ff:@b", "00000000000000FF:a@b",
		"0000000000000000:a@b", "00000000000000ff:a@b ", "00000000000000ff:a@b'",
		" 0000000000000ff:a@b", "-0000000000000ff:a@b", "0x000000000000ff:a@b"};
	struct kw_lease_owner owner;

	for (size_t i = 0; i < LENGTH(texts); i++)
		assert_false(kw_lease_owner_parse(kw_slice_text(texts[i]), &owner));
}

static void a_lease_is_lost_to_whoever_signed_the_cursor_since(void **state)
{
	const struct kw_lease_owner nobody = {0};
	struct kw_lease_owner before, other;

	kw_lease_owner_set(&before, 0x22, "before", "there");
	kw_lease_owner_set(&other, 0x33, "other", "there");
	assert_false(kw_lease_lost(&me, &nobody, &nobody));
	assert_false(kw_lease_lost(&me, &nobody, &me));
	assert_false(kw_lease_lost(&me, &before, &before));
	assert_false(kw_lease_lost(&me, &before, &me));
	assert_true(kw_lease_lost(&me, &before, &other));
	assert_true(kw_lease_lost(&me, &nobody, &other));
	assert_true(kw_lease_lost(&me, &me, &other));
	assert_true(kw_lease_lost(&me, &before, &nobody)); /* an agent of an earlier version */
}

static void the_sentence_names_the_agent_and_the_remedy(void **state)
{
	const struct kw_lease_owner old = {0};
	char text[256];

	kw_lease_refusal(&me, text, sizeof text);
	assert_non_null(strstr(text, "agent me on here writes to this server"));
	assert_non_null(strstr(text, "redis.address"));
	kw_lease_refusal(&old, text, sizeof text);
	assert_non_null(strstr(text, "an agent of an earlier version writes to this server"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whether_an_agent_may_write_follows_from_the_list_of_clients),
		cmocka_unit_test(two_agents_never_both_find_it_free),
		cmocka_unit_test(more_dead_connections_than_there_is_room_for_are_left),
		cmocka_unit_test(a_name_is_read_back_as_it_was_written),
		cmocka_unit_test(the_longest_names_fit),
		cmocka_unit_test(text_that_no_agent_writes_is_no_owner),
		cmocka_unit_test(a_lease_is_lost_to_whoever_signed_the_cursor_since),
		cmocka_unit_test(the_sentence_names_the_agent_and_the_remedy),
	};

	return cmocka_run_group_tests(tests, set_me, NULL);
}
