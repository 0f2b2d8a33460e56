/* Whose server is it? Each line of the table is a server that an agent can find. */
#include "primary/ownership.h"

#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define HOST "127.0.0.1"
#define PORT 7000
#define NOW_US ((uint64_t)3600 * 1000000)

#define RUN "1111111111111111111111111111111111111111"
#define RUN_BEFORE "2222222222222222222222222222222222222222"
#define ID_OURS KW_REPLID_MARK "000000000000000000000000000000"
#define ID_OTHER "abcdefabcdefabcdefabcdefabcdefabcdefabcd"
#define ID_THIRD "0123456789012345678901234567890123456789"
#define ID_NONE "0000000000000000000000000000000000000000"

struct found {
	const char *what;
	enum kw_ownership expected;
	const char *role, *replid, *replid2;
	/* The cursor; run NULL: there is none. */
	const char *cursor_run;
	enum kw_cursor_bond bond;
	uint64_t version;
	/* A replica's primary; host NULL: this agent's address. */
	const char *host;
	uint16_t port;
	enum { DOWN, UP } link;
	enum { RDB, AOF } starts_from;
	/* What the agent remembers. */
	const char *restarted_replid, *restarted_run;
	uint64_t seen_us_ago; /* 0: not seen */
};

static const struct found cases[] = {
	/* ---- a primary ---- */
	{"an empty server", KW_OWNERSHIP_FREE, "master", ID_OTHER, ID_NONE},
	{"a server that agents fill by commands", KW_OWNERSHIP_FREE, "master", ID_OTHER, ID_NONE,
		RUN, KW_BOND_NONE, 5},
	{"the same, restarted", KW_OWNERSHIP_FREE, "master", ID_OTHER, ID_THIRD, RUN_BEFORE,
		KW_BOND_NONE, 5},
	{"the cursor says that it was promoted", KW_OWNERSHIP_PROMOTED, "master", ID_OTHER, ID_OURS,
		RUN, KW_BOND_PROMOTED, 5},
	{"the same, restarted", KW_OWNERSHIP_PROMOTED, "master", ID_OTHER, ID_OURS, RUN_BEFORE,
		KW_BOND_PROMOTED, 5},
	{"the same, of unknown position", KW_OWNERSHIP_PROMOTED, "master", ID_OTHER, ID_NONE, RUN,
		KW_BOND_PROMOTED, 0},
	{"led in this very run, and a primary now", KW_OWNERSHIP_PROMOTED, "master", ID_OTHER,
		ID_OURS, RUN, KW_BOND_LED, 5},
	{"its first load was not completed", KW_OWNERSHIP_FREE, "master", ID_OTHER, ID_OURS, RUN,
		KW_BOND_LED, 0},
	{"restarted from an agent's data", KW_OWNERSHIP_RESTARTED, "master", ID_OTHER, ID_OURS,
		RUN_BEFORE, KW_BOND_LED, 5},
	{"restarted from an AOF, which names no id", KW_OWNERSHIP_RESTARTED, "master", ID_OTHER,
		ID_NONE, RUN_BEFORE, KW_BOND_LED, 5, .starts_from = AOF},
	{"promoted, saved, and restarted", KW_OWNERSHIP_PROMOTED, "master", ID_OTHER, ID_THIRD,
		RUN_BEFORE, KW_BOND_LED, 5},
	{"the same, long after its promotion", KW_OWNERSHIP_PROMOTED, "master", ID_OTHER, ID_NONE,
		RUN_BEFORE, KW_BOND_LED, 5},

	/* ---- a primary that this agent has seen before ---- */
	{"seen restarted in this run", KW_OWNERSHIP_RESTARTED, "master", ID_OTHER, ID_THIRD,
		RUN_BEFORE, KW_BOND_LED, 5, .restarted_replid = ID_OTHER, .restarted_run = RUN},
	{"seen restarted in the run before, saved under the id of then", KW_OWNERSHIP_RESTARTED,
		"master", ID_OTHER, ID_THIRD, RUN_BEFORE, KW_BOND_LED, 5,
		.restarted_replid = ID_THIRD, .restarted_run = RUN_BEFORE},
	{"seen restarted in the run before, saved under none", KW_OWNERSHIP_RESTARTED, "master",
		ID_OTHER, ID_NONE, RUN_BEFORE, KW_BOND_LED, 5, .restarted_replid = ID_THIRD,
		.restarted_run = RUN_BEFORE},
	{"seen restarted in the run before, saved under another", KW_OWNERSHIP_PROMOTED, "master",
		ID_OTHER, ID_THIRD, RUN_BEFORE, KW_BOND_LED, 5, .restarted_replid = ID_OTHER,
		.restarted_run = RUN_BEFORE},
	{"in sight a moment ago", KW_OWNERSHIP_RESTARTED, "master", ID_OTHER, ID_THIRD, RUN_BEFORE,
		KW_BOND_LED, 5, .seen_us_ago = KW_OWNERSHIP_LATELY_US - 1},
	{"in sight too long ago", KW_OWNERSHIP_PROMOTED, "master", ID_OTHER, ID_THIRD, RUN_BEFORE,
		KW_BOND_LED, 5, .seen_us_ago = KW_OWNERSHIP_LATELY_US},
	{"in sight a moment ago, and led in this very run", KW_OWNERSHIP_PROMOTED, "master",
		ID_OTHER, ID_OURS, RUN, KW_BOND_LED, 5, .seen_us_ago = 1},

	/* ---- a replica ---- */
	{"a replica of this agent", KW_OWNERSHIP_OURS, "slave", ID_OURS, ID_NONE, RUN, KW_BOND_LED,
		5, .link = UP},
	{"the same, before its first load", KW_OWNERSHIP_OURS, "slave", ID_OTHER, ID_NONE},
	{"a replica of an agent that is gone", KW_OWNERSHIP_OURS, "slave", ID_OURS, ID_NONE, RUN,
		KW_BOND_LED, 5, HOST, PORT + 1},
	{"a replica of an agent elsewhere", KW_OWNERSHIP_OURS, "slave", ID_OURS, ID_NONE, NULL, 0,
		0, "10.0.0.7", PORT, UP},
	{"sent nowhere by an agent that died in the midst of it", KW_OWNERSHIP_OURS, "slave",
		ID_OTHER, ID_OURS, RUN, KW_BOND_LED, 5, KW_NOWHERE_HOST, 0},
	{"a replica of another primary", KW_OWNERSHIP_ELSEWHERE, "slave", ID_OTHER, ID_NONE, NULL,
		0, 0, "10.0.0.7", 6379, UP},
	{"the same on this host", KW_OWNERSHIP_ELSEWHERE, "slave", ID_OTHER, ID_NONE, NULL, 0, 0,
		HOST, 6379, UP},
	{"sent to a primary that is down, never led", KW_OWNERSHIP_FREE, "slave", ID_OTHER, ID_NONE,
		NULL, 0, 0, "10.0.0.7", 6379},
	{"an agent was killed before the first load", KW_OWNERSHIP_FREE, "slave", ID_OTHER, ID_NONE,
		RUN, KW_BOND_LED, 0, HOST, PORT + 1},
	{"led in this run, sent to a primary that is down", KW_OWNERSHIP_ELSEWHERE, "slave",
		ID_OTHER, ID_OURS, RUN, KW_BOND_LED, 5, "10.0.0.7", 6379},
	{"promoted once, sent to a primary that is down", KW_OWNERSHIP_ELSEWHERE, "slave", ID_OTHER,
		ID_OURS, RUN, KW_BOND_PROMOTED, 5, "10.0.0.7", 6379},
};

static void make_facts(const struct found *found, struct kw_local_facts *facts)
{
	memset(facts, 0, sizeof *facts);
	snprintf(facts->identity.role, sizeof facts->identity.role, "%s", found->role);
	snprintf(facts->identity.run_id, sizeof facts->identity.run_id, "%s", RUN);
	snprintf(facts->identity.replid, sizeof facts->identity.replid, "%s", found->replid);
	snprintf(facts->replid2, sizeof facts->replid2, "%s", found->replid2);
	facts->aof = found->starts_from == AOF;
	if (strcmp(found->role, "slave") == 0) {
		snprintf(facts->master_host, sizeof facts->master_host, "%s",
			found->host ? found->host : HOST);
		facts->master_port = found->host ? found->port : PORT;
		facts->master_link_up = found->link == UP;
	}
	if (!found->cursor_run)
		return;
	facts->cursor_kind = KW_CURSOR_OURS;
	facts->cursor.bond = found->bond;
	facts->cursor.version = found->version;
	snprintf(facts->cursor.run_id, sizeof facts->cursor.run_id, "%s", found->cursor_run);
}

static void make_memory(const struct found *found, struct kw_ownership_memory *memory)
{
	memset(memory, 0, sizeof *memory);
	if (found->restarted_replid)
		snprintf(memory->restarted_replid, sizeof memory->restarted_replid, "%s",
			found->restarted_replid);
	if (found->restarted_run)
		snprintf(memory->restarted_run, sizeof memory->restarted_run, "%s",
			found->restarted_run);
	if (found->seen_us_ago)
		memory->seen_us = NOW_US - found->seen_us_ago;
}

static void each_server_found_is_judged_as_the_table_says(void **state)
{
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct kw_ownership_memory memory;
		struct kw_local_facts facts;
		enum kw_ownership found;

		make_facts(&cases[i], &facts);
		make_memory(&cases[i], &memory);
		found = kw_ownership_found(&facts, &memory, HOST, PORT, NOW_US);
		if (found != cases[i].expected)
			fail_msg("%s: %s", cases[i].what, kw_ownership_name(found));
	}
}

/* A cursor of another agent's name, or what is none, tells nothing. */
static void a_cursor_that_is_not_ours_is_no_evidence(void **state)
{
	struct kw_ownership_memory memory = {0};
	struct kw_local_facts facts;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		make_facts(&cases[i], &facts);
		if (strcmp(cases[i].role, "master") != 0)
			continue;
		facts.cursor_kind = KW_CURSOR_FOREIGN;
		assert_int_equal(
			kw_ownership_found(&facts, &memory, HOST, PORT, NOW_US), KW_OWNERSHIP_FREE);
	}
}

static void a_server_that_was_led_is_ours_or_taken(void **state)
{
	static const struct {
		const char *role, *host;
		uint16_t port;
		enum kw_ownership expected;
	} led[] = {
		{"slave", HOST, PORT, KW_OWNERSHIP_OURS},
		{"slave", HOST, PORT + 1, KW_OWNERSHIP_ELSEWHERE},
		{"slave", "10.0.0.7", PORT, KW_OWNERSHIP_ELSEWHERE},
		{"slave", KW_NOWHERE_HOST, 0, KW_OWNERSHIP_OURS}, /* in the midst of a takeover */
		{"slave", "10.0.0.7", 0, KW_OWNERSHIP_ELSEWHERE},
		{"master", "", 0, KW_OWNERSHIP_PROMOTED},
		{"master", HOST, PORT, KW_OWNERSHIP_PROMOTED},
	};

	for (size_t i = 0; i < sizeof led / sizeof *led; i++) {
		struct kw_local_facts facts = {.master_port = led[i].port};

		snprintf(facts.identity.role, sizeof facts.identity.role, "%s", led[i].role);
		snprintf(facts.master_host, sizeof facts.master_host, "%s", led[i].host);
		assert_int_equal(kw_ownership_led(&facts, HOST, PORT), led[i].expected);
	}
}

/* Only what follows from these two is left alone. */
static void a_promoted_server_and_one_elsewhere_are_not_taken(void **state)
{
	assert_true(kw_ownership_may_take(KW_OWNERSHIP_FREE));
	assert_true(kw_ownership_may_take(KW_OWNERSHIP_OURS));
	assert_true(kw_ownership_may_take(KW_OWNERSHIP_RESTARTED));
	assert_false(kw_ownership_may_take(KW_OWNERSHIP_PROMOTED));
	assert_false(kw_ownership_may_take(KW_OWNERSHIP_ELSEWHERE));
}

static enum kw_ownership find(struct kw_ownership_memory *memory, const struct found *found,
	const char *run, uint64_t now_us)
{
	struct kw_local_facts facts;
	enum kw_ownership ownership;

	make_facts(found, &facts);
	snprintf(facts.identity.run_id, sizeof facts.identity.run_id, "%s", run);
	ownership = kw_ownership_found(&facts, memory, HOST, PORT, now_us);
	kw_ownership_remember(memory, &facts, ownership, now_us);
	return ownership;
}

/* It restarts from our data, saves that under its new id, and restarts again. */
static void a_second_restart_is_known_from_the_first(void **state)
{
	const struct found first = {"", 0, "master", ID_OTHER, ID_OURS, RUN_BEFORE, KW_BOND_LED, 5};
	const struct found second = {
		"", 0, "master", ID_THIRD, ID_OTHER, RUN_BEFORE, KW_BOND_LED, 5};
	struct kw_ownership_memory memory = {0};
	uint64_t later = NOW_US + 2 * (uint64_t)KW_OWNERSHIP_LATELY_US;

	assert_int_equal(find(&memory, &second, RUN, NOW_US), KW_OWNERSHIP_PROMOTED);
	memset(&memory, 0, sizeof memory);
	assert_int_equal(find(&memory, &first, RUN, NOW_US), KW_OWNERSHIP_RESTARTED);
	assert_string_equal(memory.restarted_replid, ID_OTHER);
	assert_int_equal(find(&memory, &second, "3333", later), KW_OWNERSHIP_RESTARTED);
	assert_string_equal(memory.restarted_replid, ID_THIRD);
	/* Led again, the memory does not count: now the same server was promoted meanwhile. */
	kw_ownership_forget(&memory);
	later += 2 * (uint64_t)KW_OWNERSHIP_LATELY_US;
	assert_int_equal(find(&memory, &second, "4444", later), KW_OWNERSHIP_PROMOTED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_server_found_is_judged_as_the_table_says),
		cmocka_unit_test(a_cursor_that_is_not_ours_is_no_evidence),
		cmocka_unit_test(a_server_that_was_led_is_ours_or_taken),
		cmocka_unit_test(a_promoted_server_and_one_elsewhere_are_not_taken),
		cmocka_unit_test(a_second_restart_is_known_from_the_first),
	};

	return cmocka_run_group_tests_name("agent-ownership", tests, NULL, NULL);
}
