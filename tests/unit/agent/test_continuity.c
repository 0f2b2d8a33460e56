/* Are these still the data that we left? What the agent remembers, and what the server says. */
#include "local/continuity.h"

#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define ZEROS "0000000000000000000000000000000000000000"

/* The memory: run "run", replication id "history", 3 flushes, a cursor of version 9 was written. */
static struct kw_continuity memory_of(enum kw_continuity_relation relation)
{
	struct kw_continuity continuity = {
		.memory = KW_MEMORY_KNOWN,
		.relation = relation,
		.run_id = "run",
		.replid = "history",
		.flushes = {.accounted = 3, .asked = 3, .counter = {.looks = 1, .last = 3}},
		.standing = KW_STANDING_WRITTEN,
		.written = {.epoch = 1, .version = 9, .run_id = "run", .flushes = 3},
	};

	return continuity;
}

/* The server says the same. */
static struct kw_local_facts facts_of(const char *run_id, const char *replid, const char *replid2)
{
	struct kw_local_facts facts = {
		.flushes = 3,
		.cursor_kind = KW_CURSOR_OURS,
		.cursor = {.epoch = 1, .version = 9, .run_id = "run", .flushes = 3},
	};

	snprintf(facts.identity.run_id, sizeof facts.identity.run_id, "%s", run_id);
	snprintf(facts.identity.replid, sizeof facts.identity.replid, "%s", replid);
	snprintf(facts.replid2, sizeof facts.replid2, "%s", replid2);
	return facts;
}

/* ---- the verdict after a lost connection ---- */

struct verdict_case {
	const char *what;
	enum kw_continuity_memory memory;
	enum kw_continuity_relation relation;
	const char *run_id, *replid, *replid2;
	uint64_t flushes, in_flight;
	uint64_t version; /* of the cursor in the server; 0: it has none */
	enum kw_continuity_verdict verdict;
};

#define OURS KW_REPLID_MARK "0123"

static const struct verdict_case verdict_cases[] = {
	{"nothing happened", KW_MEMORY_KNOWN, KW_RELATION_CLIENT, "run", "history", ZEROS, 3, 0, 9,
		KW_CONTINUITY_SAME},
	{"no server was seen before", KW_MEMORY_NONE, KW_RELATION_CLIENT, "run", "history", ZEROS,
		3, 0, 9, KW_CONTINUITY_FIRST},
	{"it was restarted", KW_MEMORY_KNOWN, KW_RELATION_CLIENT, "next", "history", ZEROS, 3, 0, 9,
		KW_CONTINUITY_OTHER_RUN},
	{"restarted while the data were in doubt", KW_MEMORY_DOUBTED, KW_RELATION_CLIENT, "next",
		"history", ZEROS, 3, 0, 9, KW_CONTINUITY_OTHER_RUN},
	{"others flushed", KW_MEMORY_KNOWN, KW_RELATION_CLIENT, "run", "history", ZEROS, 4, 0, 9,
		KW_CONTINUITY_FLUSHED},
	{"the counts began anew", KW_MEMORY_KNOWN, KW_RELATION_CLIENT, "run", "history", ZEROS, 2,
		0, 9, KW_CONTINUITY_FLUSHED},
	{"the data were in doubt", KW_MEMORY_DOUBTED, KW_RELATION_CLIENT, "run", "history", ZEROS,
		3, 0, 9, KW_CONTINUITY_FLUSHED},
	{"our own flush on the link was executed", KW_MEMORY_KNOWN, KW_RELATION_PRIMARY, "run",
		"history", ZEROS, 4, 1, 9, KW_CONTINUITY_SAME},
	{"our own flush on the link was not executed", KW_MEMORY_KNOWN, KW_RELATION_PRIMARY, "run",
		"history", ZEROS, 3, 1, 9, KW_CONTINUITY_SAME},
	{"others flushed beside our own flush", KW_MEMORY_KNOWN, KW_RELATION_PRIMARY, "run",
		"history", ZEROS, 5, 1, 9, KW_CONTINUITY_FLUSHED},
	{"its first replica came: the cursor is there", KW_MEMORY_KNOWN, KW_RELATION_CLIENT, "run",
		"other", ZEROS, 3, 0, 9, KW_CONTINUITY_SAME},
	{"another id, and another cursor", KW_MEMORY_KNOWN, KW_RELATION_CLIENT, "run", "other",
		ZEROS, 3, 0, 8, KW_CONTINUITY_REPLACED},
	{"another id, and no cursor", KW_MEMORY_KNOWN, KW_RELATION_CLIENT, "run", "other", ZEROS, 3,
		0, 0, KW_CONTINUITY_REPLACED},
	{"it was another's replica: the cursor proves nothing", KW_MEMORY_KNOWN, KW_RELATION_CLIENT,
		"run", "other", "theirs", 3, 0, 9, KW_CONTINUITY_ELSEWHERE},
	{"another's replica, and the data were in doubt", KW_MEMORY_DOUBTED, KW_RELATION_CLIENT,
		"run", "other", "theirs", 3, 0, 9, KW_CONTINUITY_ELSEWHERE},
	{"promoted from us: the cursor decides", KW_MEMORY_KNOWN, KW_RELATION_CLIENT, "run",
		"other", OURS, 3, 0, 9, KW_CONTINUITY_SAME},
	{"it follows us under a new id of ours", KW_MEMORY_KNOWN, KW_RELATION_PRIMARY, "run", OURS,
		ZEROS, 3, 0, 0, KW_CONTINUITY_SAME},
	{"an id of ours, but we are a client", KW_MEMORY_KNOWN, KW_RELATION_CLIENT, "run", OURS,
		ZEROS, 3, 0, 0, KW_CONTINUITY_REPLACED},
	{"promoted by others while we led it", KW_MEMORY_KNOWN, KW_RELATION_PRIMARY, "run", "other",
		"theirs", 3, 0, 0, KW_CONTINUITY_REPLACED},
};

static void each_case_has_its_verdict(void **state)
{
	for (size_t i = 0; i < sizeof verdict_cases / sizeof *verdict_cases; i++) {
		const struct verdict_case *c = &verdict_cases[i];
		struct kw_continuity memory = memory_of(c->relation);
		struct kw_local_facts facts = facts_of(c->run_id, c->replid, c->replid2);
		enum kw_continuity_verdict verdict;

		memory.memory = c->memory;
		facts.flushes = c->flushes;
		facts.cursor.version = c->version;
		facts.cursor_kind = c->version > 0 ? KW_CURSOR_OURS : KW_CURSOR_NONE;
		kw_flushes_sent(&memory.flushes, c->in_flight);
		verdict = kw_continuity_judge(&memory, &facts);
		if (verdict != c->verdict)
			fail_msg("%s: %s", c->what, kw_continuity_text(verdict));
	}
}

static void a_server_that_is_adopted_is_known_from_then_on(void **state)
{
	static const enum kw_continuity_verdict verdicts[] = {
		KW_CONTINUITY_OTHER_RUN,
		KW_CONTINUITY_ELSEWHERE,
		KW_CONTINUITY_FLUSHED,
		KW_CONTINUITY_REPLACED,
	};
	struct kw_local_facts facts = facts_of("next", "other", "theirs");

	for (size_t i = 0; i < sizeof verdicts / sizeof *verdicts; i++) {
		struct kw_continuity memory = memory_of(KW_RELATION_CLIENT);

		memory.memory = KW_MEMORY_DOUBTED;
		kw_continuity_adopt(&memory, &facts, verdicts[i]);
		assert_int_equal(memory.standing, verdicts[i] == KW_CONTINUITY_ELSEWHERE
							  ? KW_STANDING_SPOILED
							  : KW_STANDING_UNWRITTEN);
		assert_int_equal(kw_continuity_judge(&memory, &facts), KW_CONTINUITY_SAME);
	}
}

/* Also if it is an agent that had been there before, as `first` had. */
static void an_agent_that_wrote_meanwhile_is_noticed(void **state)
{
	enum { ME = 1, FIRST, OTHER };
	struct kw_continuity memory = memory_of(KW_RELATION_CLIENT);
	struct kw_local_facts facts = facts_of("run", "history", ZEROS);
	struct kw_local_cursor mine = facts.cursor;

	memory.session = ME;
	facts.cursor.lease.session = FIRST;
	kw_continuity_adopt(&memory, &facts, KW_CONTINUITY_SAME);
	assert_int_equal(kw_continuity_judge(&memory, &facts), KW_CONTINUITY_SAME);
	facts.cursor.lease.session = ME; /* written, and the answer was lost */
	assert_int_equal(kw_continuity_judge(&memory, &facts), KW_CONTINUITY_SAME);
	facts.cursor.lease.session = OTHER;
	assert_int_equal(kw_continuity_judge(&memory, &facts), KW_CONTINUITY_TAKEN);
	mine.lease.session = ME;
	kw_continuity_written(&memory, &mine);
	facts.cursor.lease.session = FIRST;
	assert_int_equal(kw_continuity_judge(&memory, &facts), KW_CONTINUITY_TAKEN);
	facts.cursor.lease.session = 0; /* an agent of before signs nothing */
	assert_int_equal(kw_continuity_judge(&memory, &facts), KW_CONTINUITY_TAKEN);
	kw_continuity_adopt(&memory, &facts, KW_CONTINUITY_TAKEN);
	assert_int_equal(memory.standing, KW_STANDING_UNWRITTEN);
	assert_int_equal(kw_continuity_judge(&memory, &facts), KW_CONTINUITY_SAME);
}

/* ---- each look ---- */

static const struct kw_key_counts nothing = {""};

static void a_look_finds_what_others_did(void **state)
{
	struct kw_continuity memory = memory_of(KW_RELATION_CLIENT);
	struct kw_local_facts same = facts_of("run", "history", ZEROS);
	struct kw_local_facts other = facts_of("run", "other", ZEROS);

	assert_int_equal(kw_continuity_look(&memory, &same, &nothing), KW_CONTINUITY_SAME);
	assert_int_equal(memory.standing, KW_STANDING_WRITTEN);
	assert_int_equal(kw_continuity_look(&memory, &other, &nothing), KW_CONTINUITY_REPLACED);
	assert_string_equal(memory.replid, "history");
	assert_int_equal(kw_continuity_judge(&memory, &other), KW_CONTINUITY_SAME);
	same.flushes = 4;
	assert_int_equal(kw_continuity_look(&memory, &same, &nothing), KW_CONTINUITY_FLUSHED);
	assert_int_equal(memory.standing, KW_STANDING_SPOILED);
	assert_int_equal(memory.flushes.accounted, 4);
}

static void a_flush_beside_another_id_is_not_forgotten(void **state)
{
	struct kw_continuity memory = memory_of(KW_RELATION_CLIENT);
	struct kw_local_facts other = facts_of("run", "other", ZEROS);

	other.flushes = 4;
	assert_int_equal(kw_continuity_look(&memory, &other, &nothing), KW_CONTINUITY_REPLACED);
	assert_int_equal(kw_continuity_judge(&memory, &other), KW_CONTINUITY_FLUSHED);
}

static void a_primary_expects_the_replication_id_to_change(void **state)
{
	struct kw_continuity memory = memory_of(KW_RELATION_PRIMARY);
	struct kw_local_facts other = facts_of("run", "other", ZEROS);

	assert_int_equal(kw_continuity_look(&memory, &other, &nothing), KW_CONTINUITY_SAME);
	assert_string_equal(memory.replid, "other");
}

static void a_deleted_library_is_written_again(void **state)
{
	struct kw_continuity memory = memory_of(KW_RELATION_CLIENT);
	struct kw_local_facts facts = facts_of("run", "history", ZEROS);
	struct kw_local_facts other = facts_of("run", "other", ZEROS);

	facts.functions = other.functions = 1;
	/* The cursor that is there now may be another one: it does not prove anything. */
	assert_int_equal(kw_continuity_judge(&memory, &other), KW_CONTINUITY_REPLACED);
	assert_int_equal(kw_continuity_judge(&memory, &facts), KW_CONTINUITY_SAME);
	assert_int_equal(kw_continuity_look(&memory, &facts, &nothing), KW_CONTINUITY_SAME);
	assert_int_equal(memory.standing, KW_STANDING_UNWRITTEN);
}

static void counts_that_began_anew_tell_nothing_of_before(void **state)
{
	struct kw_continuity memory = memory_of(KW_RELATION_CLIENT);
	struct kw_local_facts facts = facts_of("run", "history", ZEROS);

	facts.resets = 1;
	assert_int_equal(kw_continuity_judge(&memory, &facts), KW_CONTINUITY_FLUSHED);
	kw_continuity_adopt(&memory, &facts, KW_CONTINUITY_FLUSHED);
	assert_int_equal(kw_continuity_judge(&memory, &facts), KW_CONTINUITY_SAME);
}

/* ---- what is known of the cursor ---- */

static void a_spoiled_cursor_is_one_until_the_data_are_claimed(void **state)
{
	const struct kw_local_cursor claim = {.epoch = 1}, position = {.epoch = 1, .version = 10};
	struct kw_continuity memory = memory_of(KW_RELATION_CLIENT);

	kw_continuity_harmed(&memory);
	assert_int_equal(memory.standing, KW_STANDING_SPOILED);
	kw_continuity_unwritten(&memory);
	kw_continuity_written(&memory, &position);
	assert_int_equal(memory.standing, KW_STANDING_SPOILED);
	kw_continuity_written(&memory, &claim);
	assert_int_equal(memory.standing, KW_STANDING_WRITTEN);
	kw_continuity_harmed(&memory);
	kw_continuity_claimed(&memory);
	assert_int_equal(memory.standing, KW_STANDING_UNWRITTEN);
	kw_continuity_written(&memory, &position);
	kw_continuity_claimed(&memory);
	assert_int_equal(memory.standing, KW_STANDING_WRITTEN);
}

/* ---- what the cursor says ---- */

struct doubt_case {
	const char *what;
	const char *run_id; /* that wrote the cursor; the server's is "run" */
	enum kw_cursor_bond bond;
	uint64_t version, quarantined, filter;
	uint64_t keys;                      /* the cursor was written at 100 */
	uint64_t flushes, evicted, refused; /* by now; the cursor says 3, 5, 7 */
	const char *policy;                 /* with maxmemory; NULL: there is no limit */
	enum kw_cursor_doubt doubt;
};

#define FILTER 77

static const struct doubt_case doubt_cases[] = {
	{"nothing happened", "run", KW_BOND_NONE, 9, 0, FILTER, 100, 3, 5, 7, NULL, KW_DOUBT_NONE},
	{"no position", "run", KW_BOND_NONE, 0, 0, FILTER, 100, 3, 5, 7, NULL, KW_DOUBT_ABSENT},
	{"quarantine", "run", KW_BOND_NONE, 9, 1, FILTER, 100, 3, 5, 7, NULL, KW_DOUBT_QUARANTINED},
	{"other filters", "run", KW_BOND_NONE, 9, 0, 78, 100, 3, 5, 7, NULL, KW_DOUBT_FILTERED},
	{"no keys", "run", KW_BOND_NONE, 9, 0, FILTER, 0, 3, 5, 7, NULL, KW_DOUBT_EMPTY},
	{"a flush", "run", KW_BOND_NONE, 9, 0, FILTER, 100, 4, 5, 7, NULL, KW_DOUBT_FLUSHED},
	{"fewer flushes", "run", KW_BOND_NONE, 9, 0, FILTER, 100, 2, 5, 7, NULL, KW_DOUBT_FLUSHED},
	{"a refusal of a client", "run", KW_BOND_NONE, 9, 0, FILTER, 100, 3, 5, 8, NULL,
		KW_DOUBT_NONE},
	{"a refusal of our link", "run", KW_BOND_LED, 9, 0, FILTER, 100, 3, 5, 8, NULL,
		KW_DOUBT_REFUSED},
	{"more than half is there", "run", KW_BOND_NONE, 9, 0, FILTER, 60, 3, 5, 7, NULL,
		KW_DOUBT_NONE},
	{"much less is there", "run", KW_BOND_NONE, 9, 0, FILTER, 10, 3, 5, 7, NULL,
		KW_DOUBT_SHRUNK},
	{"evictions", "run", KW_BOND_NONE, 9, 0, FILTER, 100, 3, 6, 7, NULL, KW_DOUBT_EVICTED},
	{"may evict, and has not", "run", KW_BOND_NONE, 9, 0, FILTER, 100, 3, 5, 7, "allkeys-lru",
		KW_DOUBT_NONE},
	{"restarted", "before", KW_BOND_NONE, 9, 0, FILTER, 100, 0, 0, 0, NULL, KW_DOUBT_NONE},
	{"restarted, and flushed", "before", KW_BOND_NONE, 9, 0, FILTER, 100, 3, 0, 0, NULL,
		KW_DOUBT_FLUSHED_ANEW},
	{"restarted, and evicted", "before", KW_BOND_NONE, 9, 0, FILTER, 100, 0, 5, 0, NULL,
		KW_DOUBT_EVICTED_ANEW},
	{"restarted, and evicts", "before", KW_BOND_NONE, 9, 0, FILTER, 100, 0, 0, 0,
		"volatile-ttl", KW_DOUBT_EVICTS},
	{"restarted, and does not evict", "before", KW_BOND_NONE, 9, 0, FILTER, 100, 0, 0, 0,
		"noeviction", KW_DOUBT_NONE},
	{"restarted with less", "before", KW_BOND_LED, 9, 0, FILTER, 10, 0, 5, 0, "allkeys-lru",
		KW_DOUBT_SHRUNK},
};

static struct kw_local_facts facts_of_doubt(const struct doubt_case *c)
{
	const uint64_t then[KW_KEY_COUNTS_DATABASES] = {100};
	struct kw_local_facts facts = facts_of("run", "history", ZEROS);
	struct kw_local_cursor *cursor = &facts.cursor;

	facts.keys = facts.database_keys[0] = c->keys;
	facts.flushes = c->flushes;
	facts.evicted = c->evicted;
	facts.refused = c->refused;
	facts.maxmemory = c->policy ? 1 << 20 : 0;
	snprintf(facts.policy, sizeof facts.policy, "%s", c->policy ? c->policy : "allkeys-lru");
	snprintf(cursor->run_id, sizeof cursor->run_id, "%s", c->run_id);
	cursor->bond = c->bond;
	cursor->version = c->version;
	cursor->quarantined = c->quarantined;
	cursor->filter = c->filter;
	cursor->flushes = 3;
	cursor->evicted = 5;
	cursor->refused = 7;
	kw_key_counts_set(&cursor->key_counts, then);
	return facts;
}

static void each_case_has_its_doubt(void **state)
{
	for (size_t i = 0; i < sizeof doubt_cases / sizeof *doubt_cases; i++) {
		const struct doubt_case *c = &doubt_cases[i];
		struct kw_local_facts facts = facts_of_doubt(c);
		enum kw_cursor_doubt doubt = kw_cursor_doubt(&facts, FILTER);

		if (doubt != c->doubt)
			fail_msg("%s: \"%s\"", c->what, kw_cursor_doubt_text(doubt));
		facts.cursor_kind = KW_CURSOR_NONE;
		assert_int_equal(kw_cursor_doubt(&facts, FILTER), KW_DOUBT_ABSENT);
	}
}

static const struct {
	const char *what, *run_id;
	bool said;
	enum kw_cursor_bond bond;
	uint64_t then, foreign, shared;
	enum kw_cursor_doubt doubt;
} write_cases[] = {
	{"others wrote nothing", "run", true, KW_BOND_NONE, 5, 5, 9, KW_DOUBT_NONE},
	{"others wrote", "run", true, KW_BOND_NONE, 5, 6, 9, KW_DOUBT_WRITTEN},
	{"the counts began anew", "run", true, KW_BOND_NONE, 5, 4, 9, KW_DOUBT_WRITTEN},
	{"others wrote into a replica", "run", true, KW_BOND_LED, 5, 6, 9, KW_DOUBT_WRITTEN},
	{"an earlier version's cursor", "run", false, KW_BOND_NONE, 0, 6, 9, KW_DOUBT_NONE},
	{"restarted", "before", true, KW_BOND_NONE, 5, 0, 0, KW_DOUBT_NONE},
	{"restarted, and others wrote", "before", true, KW_BOND_NONE, 5, 5, 0,
		KW_DOUBT_WRITTEN_ANEW},
	{"restarted, and others wrote as agents do", "before", true, KW_BOND_NONE, 5, 0, 1,
		KW_DOUBT_WRITTEN_ANEW},
	{"restarted, and the link brought changes", "before", true, KW_BOND_LED, 5, 0, 1,
		KW_DOUBT_NONE},
	{"restarted, of an earlier version, and others wrote", "before", false, KW_BOND_NONE, 0, 5,
		0, KW_DOUBT_WRITTEN_ANEW},
};

static void writes_of_others_are_a_doubt(void **state)
{
	for (size_t i = 0; i < sizeof write_cases / sizeof *write_cases; i++) {
		const struct doubt_case none = {"", write_cases[i].run_id, write_cases[i].bond, 9,
			0, FILTER, 100, 3, 5, 7, NULL, KW_DOUBT_NONE};
		struct kw_local_facts facts = facts_of_doubt(&none);
		enum kw_cursor_doubt doubt;

		if (strcmp(write_cases[i].run_id, "run") != 0)
			facts.flushes = facts.evicted = facts.refused = 0;
		facts.writers.foreign = write_cases[i].foreign;
		facts.writers.shared = write_cases[i].shared;
		facts.cursor.writes.said = write_cases[i].said;
		facts.cursor.writes.calls = write_cases[i].then;
		doubt = kw_cursor_doubt(&facts, FILTER);
		if (doubt != write_cases[i].doubt)
			fail_msg("%s: \"%s\"", write_cases[i].what, kw_cursor_doubt_text(doubt));
	}
}

static void only_doubts_about_evictions_let_a_cursor_stand(void **state)
{
	assert_true(kw_cursor_doubt_is_of_eviction(KW_DOUBT_NONE));
	assert_true(kw_cursor_doubt_is_of_eviction(KW_DOUBT_EVICTED));
	assert_true(kw_cursor_doubt_is_of_eviction(KW_DOUBT_EVICTS));
	assert_false(kw_cursor_doubt_is_of_eviction(KW_DOUBT_ABSENT));
	assert_false(kw_cursor_doubt_is_of_eviction(KW_DOUBT_SHRUNK));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_case_has_its_verdict),
		cmocka_unit_test(a_server_that_is_adopted_is_known_from_then_on),
		cmocka_unit_test(an_agent_that_wrote_meanwhile_is_noticed),
		cmocka_unit_test(a_look_finds_what_others_did),
		cmocka_unit_test(a_flush_beside_another_id_is_not_forgotten),
		cmocka_unit_test(a_primary_expects_the_replication_id_to_change),
		cmocka_unit_test(a_deleted_library_is_written_again),
		cmocka_unit_test(counts_that_began_anew_tell_nothing_of_before),
		cmocka_unit_test(a_spoiled_cursor_is_one_until_the_data_are_claimed),
		cmocka_unit_test(each_case_has_its_doubt),
		cmocka_unit_test(writes_of_others_are_a_doubt),
		cmocka_unit_test(only_doubts_about_evictions_let_a_cursor_stand),
	};

	return cmocka_run_group_tests_name("agent-continuity", tests, NULL, NULL);
}
