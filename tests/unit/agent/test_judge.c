/* The state of an agent, and the reason, from facts about its parts. */
#include "judge.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* An agent that is level after its first snapshot. */
#define WARM                                                                                       \
	.source = KW_SOURCE_LIVE, .table = KW_TABLE_FRESH, .phase = KW_SYNC_TAIL,                  \
	.data = KW_SYNC_DATA_CLAIMED, .equality = KW_SYNC_EQUAL, .settled = true, .snapshots = 1
/* The same before it was level for the first time. */
#define FIRST                                                                                      \
	.source = KW_SOURCE_LIVE, .table = KW_TABLE_FRESH, .phase = KW_SYNC_TAIL,                  \
	.data = KW_SYNC_DATA_CLAIMED, .equality = KW_SYNC_UNEQUAL, .snapshots = 1
/* Nothing was begun yet. */
#define START .source = KW_SOURCE_LIVE, .table = KW_TABLE_FRESH, .phase = KW_SYNC_WAIT

#define UNFIT(kind) .local = KW_LOCAL_IS_UNFIT, .unfit = KW_UNFIT_##kind

#pragma GCC diagnostic ignored "-Woverride-init"

static const struct {
	struct kw_judge_facts facts;
	enum kw_agent_state state;
	enum kw_reason reason;
} cases[] = {
	{{WARM}, KW_AGENT_WARM, KW_REASON_NONE},
	{{WARM, .unsaved = true}, KW_AGENT_WARM, KW_REASON_UNSAVED},
	{{WARM, .unsaved = true, .evicted = 1}, KW_AGENT_LAGGING, KW_REASON_EVICTED},

	/* What only a person can mend comes first, whatever else is wrong. */
	{{WARM, .proxy = KW_PROXY_REFUSES}, KW_AGENT_FAILED, KW_REASON_PROXY_REFUSES},
	{{WARM, .proxy = KW_PROXY_FOREIGN}, KW_AGENT_FAILED, KW_REASON_PROXY_FOREIGN},
	{{WARM, .proxy = KW_PROXY_MISCONFIGURED}, KW_AGENT_FAILED, KW_REASON_PROXY_MISCONFIGURED},
	{{WARM, .proxy = KW_PROXY_REFUSES, .local = KW_LOCAL_IS_UNFIT}, KW_AGENT_FAILED,
		KW_REASON_PROXY_REFUSES},
	{{WARM, .local = KW_LOCAL_IS_UNFIT, .proxy = KW_PROXY_AWAY}, KW_AGENT_FAILED,
		KW_REASON_LOCAL_REFUSES},
	{{WARM, UNFIT(TAKEN)}, KW_AGENT_FAILED, KW_REASON_LOCAL_TAKEN},
	{{WARM, UNFIT(YIELDED)}, KW_AGENT_FAILED, KW_REASON_LOCAL_YIELDED},
	/* It let the server go because of something: that is the reason. */
	{{START, UNFIT(YIELDED), .obstacle = KW_SYNC_NEEDS_LINK}, KW_AGENT_FAILED,
		KW_REASON_OTHER_DATA},
	{{START, UNFIT(YIELDED), .obstacle = KW_SYNC_WAITS}, KW_AGENT_FAILED,
		KW_REASON_LOCAL_YIELDED},
	{{START, UNFIT(TAKEN), .obstacle = KW_SYNC_NEEDS_LINK}, KW_AGENT_FAILED,
		KW_REASON_LOCAL_TAKEN},
	{{WARM, UNFIT(REPLICA)}, KW_AGENT_FAILED, KW_REASON_LOCAL_REPLICA},
	{{WARM, UNFIT(UNSUPPORTED)}, KW_AGENT_FAILED, KW_REASON_LOCAL_UNSUPPORTED},
	{{WARM, UNFIT(FORBIDDEN)}, KW_AGENT_FAILED, KW_REASON_LOCAL_FORBIDS},
	{{WARM, UNFIT(CURSOR)}, KW_AGENT_FAILED, KW_REASON_LOCAL_CURSOR},
	{{WARM, UNFIT(PASSES)}, KW_AGENT_LAGGING, KW_REASON_LOCAL_WAITS},
	{{WARM, .local = KW_LOCAL_PASSES, .damaged = true}, KW_AGENT_LAGGING,
		KW_REASON_LOCAL_WAITS},
	{{WARM, .damaged = true, .proxy = KW_PROXY_UNREADABLE}, KW_AGENT_FAILED, KW_REASON_DAMAGED},
	{{START, .obstacle = KW_SYNC_NEEDS_CONSENT}, KW_AGENT_FAILED, KW_REASON_NO_CONSENT},
	{{START, .obstacle = KW_SYNC_NEEDS_LINK}, KW_AGENT_FAILED, KW_REASON_OTHER_DATA},
	{{START, .obstacle = KW_SYNC_NEEDS_TERM}, KW_AGENT_FAILED, KW_REASON_DEPOSED},
	{{START, .obstacle = KW_SYNC_NEEDS_MANDATE}, KW_AGENT_FAILED, KW_REASON_UNFENCED},
	{{START, .obstacle = KW_SYNC_NEEDS_SERVER}, KW_AGENT_FAILED, KW_REASON_TABLE_UNFIT},
	{{START, .obstacle = KW_SYNC_NEEDS_PERMISSION}, KW_AGENT_FAILED, KW_REASON_PRUNE_FORBIDDEN},
	{{START, .obstacle = KW_SYNC_WAITS}, KW_AGENT_BOOTSTRAPPING, KW_REASON_WAITING},
	{{WARM, .writes = KW_WRITES_FAILED}, KW_AGENT_FAILED, KW_REASON_WRITES_FAILED},
	{{WARM, .writes = KW_WRITES_READONLY}, KW_AGENT_FAILED, KW_REASON_WRITES_READONLY},
	{{WARM, .writes = KW_WRITES_FORBIDDEN, .paused = true}, KW_AGENT_FAILED,
		KW_REASON_WRITES_FORBIDDEN},

	/* Then one end that is missing. */
	{{WARM, .proxy = KW_PROXY_AWAY, .paused = true}, KW_AGENT_CONNECTING, KW_REASON_PROXY_AWAY},
	{{WARM, .proxy = KW_PROXY_UNREADABLE}, KW_AGENT_CONNECTING, KW_REASON_PROXY_UNREADABLE},
	{{WARM, .local = KW_LOCAL_IS_AWAY}, KW_AGENT_CONNECTING, KW_REASON_LOCAL_AWAY},
	{{WARM, .local = KW_LOCAL_IS_AWAY, .proxy = KW_PROXY_SILENT}, KW_AGENT_CONNECTING,
		KW_REASON_LOCAL_AWAY},
	{{WARM, .local = KW_LOCAL_IS_LOST}, KW_AGENT_CONNECTING, KW_REASON_LOCAL_LOST},

	/* Then what stops the flow. */
	{{WARM, .paused = true, .proxy = KW_PROXY_SILENT}, KW_AGENT_LAGGING, KW_REASON_PAUSED},
	{{WARM, .proxy = KW_PROXY_SILENT}, KW_AGENT_STALLED, KW_REASON_PROXY_SILENT},
	{{WARM, .source = KW_SOURCE_UNCONFIRMED}, KW_AGENT_STALLED, KW_REASON_UNCONFIRMED},
	/* A later proxy can have states that this agent does not know: none of them is live. */
	{{WARM, .source = KW_SOURCE_STATES}, KW_AGENT_LAGGING, KW_REASON_TABLE_UNKNOWN},
	{{WARM, .source = 255}, KW_AGENT_LAGGING, KW_REASON_TABLE_UNKNOWN},
	{{WARM, .permission = KW_PERMISSION_UNCONFIRMED}, KW_AGENT_STALLED, KW_REASON_UNCONFIRMED},
	{{WARM, .permission = KW_PERMISSION_UNCONFIRMED, .source = KW_SOURCE_DOWN},
		KW_AGENT_STALLED, KW_REASON_UNCONFIRMED},
	{{START, .source = KW_SOURCE_UNCONFIRMED, .held = true}, KW_AGENT_STALLED,
		KW_REASON_UNCONFIRMED},
	{{WARM, .permission = KW_PERMISSION_RAISING, .owed = 1}, KW_AGENT_LAGGING,
		KW_REASON_RAISING},
	{{WARM, .source = KW_SOURCE_STALLED}, KW_AGENT_STALLED, KW_REASON_PRIMARY_SILENT},
	{{WARM, .source = KW_SOURCE_STALLED, .table = KW_TABLE_BEHIND}, KW_AGENT_STALLED,
		KW_REASON_PRIMARY_SILENT},
	{{WARM, .source = KW_SOURCE_DOWN}, KW_AGENT_STALLED, KW_REASON_PRIMARY_DOWN},
	{{START, .source = KW_SOURCE_CONNECTING}, KW_AGENT_STALLED, KW_REASON_PRIMARY_NOT_REACHED},
	{{WARM, .writes = KW_WRITES_REFUSED}, KW_AGENT_LAGGING, KW_REASON_WRITES_REFUSED},
	{{WARM, .writes = KW_WRITES_DELAYED}, KW_AGENT_LAGGING, KW_REASON_WRITES_DELAYED},
	{{FIRST, .writes = KW_WRITES_DELAYED}, KW_AGENT_BOOTSTRAPPING, KW_REASON_WRITES_DELAYED},
	{{START, .writes = KW_WRITES_DELAYED}, KW_AGENT_BOOTSTRAPPING, KW_REASON_WAITING},
	{{WARM, .owed = 1, .evicted = 1}, KW_AGENT_LAGGING, KW_REASON_OWED},

	/* Then the way to being level: the first one bootstraps, others reconcile. */
	{{START}, KW_AGENT_BOOTSTRAPPING, KW_REASON_WAITING},
	{{START, .purpose = KW_SYNC_RECONCILE}, KW_AGENT_RECONCILING, KW_REASON_WAITING},
	{{START, .snapshots = 2}, KW_AGENT_RECONCILING, KW_REASON_WAITING},
	{{START, .snapshots = 1, .data = KW_SYNC_DATA_CLAIMED}, KW_AGENT_RECONCILING,
		KW_REASON_WAITING},
	{{START, .data = KW_SYNC_DATA_OURS}, KW_AGENT_BOOTSTRAPPING, KW_REASON_WAITING},
	{{START, .phase = KW_SYNC_COUNT}, KW_AGENT_BOOTSTRAPPING, KW_REASON_WAITING},
	{{START, .phase = KW_SYNC_CLAIM}, KW_AGENT_BOOTSTRAPPING, KW_REASON_WAITING},
	{{FIRST, .phase = KW_SYNC_SNAPSHOT}, KW_AGENT_BOOTSTRAPPING, KW_REASON_SNAPSHOT},
	{{FIRST, .phase = KW_SYNC_SNAPSHOT, .snapshots = 2}, KW_AGENT_RECONCILING,
		KW_REASON_SNAPSHOT},
	{{FIRST, .phase = KW_SYNC_SETTLE, .purpose = KW_SYNC_RECONCILE}, KW_AGENT_RECONCILING,
		KW_REASON_SETTLE},
	{{FIRST, .phase = KW_SYNC_PRUNE, .purpose = KW_SYNC_RECONCILE}, KW_AGENT_RECONCILING,
		KW_REASON_PRUNE},
	{{FIRST, .table = KW_TABLE_INCOMPLETE}, KW_AGENT_BOOTSTRAPPING, KW_REASON_INCOMPLETE},
	/* A limit is the reason only while something is read. */
	{{FIRST, .phase = KW_SYNC_SNAPSHOT, .limited = true}, KW_AGENT_BOOTSTRAPPING,
		KW_REASON_LIMITED},
	{{FIRST, .phase = KW_SYNC_SNAPSHOT, .snapshots = 2, .limited = true}, KW_AGENT_RECONCILING,
		KW_REASON_LIMITED},
	{{START, .limited = true}, KW_AGENT_BOOTSTRAPPING, KW_REASON_WAITING},
	{{FIRST, .phase = KW_SYNC_SETTLE, .purpose = KW_SYNC_RECONCILE, .limited = true},
		KW_AGENT_RECONCILING, KW_REASON_SETTLE},
	/* Deletions that wait for approval: in the tail's midst, or before a load. */
	{{FIRST, .phase = KW_SYNC_HELD, .purpose = KW_SYNC_RECONCILE, .held = true}, KW_AGENT_HELD,
		KW_REASON_HELD},
	{{WARM, .phase = KW_SYNC_HELD, .purpose = KW_SYNC_RECONCILE, .held = true}, KW_AGENT_HELD,
		KW_REASON_HELD},
	{{START, .data = KW_SYNC_DATA_OURS, .held = true}, KW_AGENT_HELD, KW_REASON_HELD},
	{{START, .phase = KW_SYNC_SAMPLE, .held = true}, KW_AGENT_HELD, KW_REASON_HELD},
	{{START, .phase = KW_SYNC_SAMPLE}, KW_AGENT_BOOTSTRAPPING, KW_REASON_WAITING},
	{{FIRST, .phase = KW_SYNC_PRUNE, .held = true, .purpose = KW_SYNC_RECONCILE}, KW_AGENT_HELD,
		KW_REASON_HELD},
	{{START, .held = true, .proxy = KW_PROXY_AWAY}, KW_AGENT_CONNECTING, KW_REASON_PROXY_AWAY},
	{{START, .held = true, .paused = true}, KW_AGENT_LAGGING, KW_REASON_PAUSED},
	{{START, .held = true, .source = KW_SOURCE_DOWN}, KW_AGENT_STALLED, KW_REASON_PRIMARY_DOWN},
	/* Being equal does not help while something is still to come. */
	{{WARM, .phase = KW_SYNC_PRUNE, .purpose = KW_SYNC_RECONCILE}, KW_AGENT_RECONCILING,
		KW_REASON_PRUNE},

	/* Then what the data or the table lack. */
	{{WARM, .evicted = 1, .foreign = 1}, KW_AGENT_LAGGING, KW_REASON_EVICTED},
	{{WARM, .foreign = 1, .quarantined = 1}, KW_AGENT_LAGGING, KW_REASON_FOREIGN},
	{{WARM, .evicted = 1, .quarantined = 1}, KW_AGENT_LAGGING, KW_REASON_EVICTED},
	{{WARM, .quarantined = 1}, KW_AGENT_LAGGING, KW_REASON_QUARANTINED},
	{{WARM, .audit = KW_AUDIT_DIFFERS}, KW_AGENT_LAGGING, KW_REASON_DIFFERS},
	{{WARM, .audit = KW_AUDIT_DOUBTS}, KW_AGENT_LAGGING, KW_REASON_DOUBTED},
	{{WARM, .quarantined = 1, .audit = KW_AUDIT_DIFFERS}, KW_AGENT_LAGGING,
		KW_REASON_QUARANTINED},
	{{WARM, .source = KW_SOURCE_RECONCILING}, KW_AGENT_LAGGING, KW_REASON_TABLE_RECONCILES},
	{{WARM, .source = KW_SOURCE_SCANNING}, KW_AGENT_LAGGING, KW_REASON_TABLE_RECONCILES},
	{{WARM, .source = KW_SOURCE_FULL}, KW_AGENT_LAGGING, KW_REASON_TABLE_LACKS},
	{{WARM, .source = KW_SOURCE_HELD}, KW_AGENT_LAGGING, KW_REASON_TABLE_HELD},

	/* And at last how far behind they are. */
	{{WARM, .table = KW_TABLE_UNFRESH}, KW_AGENT_LAGGING, KW_REASON_TABLE_UNFRESH},
	{{FIRST, .table = KW_TABLE_UNFRESH}, KW_AGENT_BOOTSTRAPPING, KW_REASON_TABLE_UNFRESH},
	{{FIRST, .table = KW_TABLE_UNFRESH, .snapshots = 2}, KW_AGENT_RECONCILING,
		KW_REASON_TABLE_UNFRESH},
	{{WARM, .table = KW_TABLE_BEHIND}, KW_AGENT_LAGGING, KW_REASON_TABLE_BEHIND},
	{{FIRST, .table = KW_TABLE_BEHIND}, KW_AGENT_LAGGING, KW_REASON_TABLE_BEHIND},
	{{FIRST, .equality = KW_SYNC_UNPROVEN}, KW_AGENT_BOOTSTRAPPING, KW_REASON_UNPROVEN},
	{{FIRST}, KW_AGENT_BOOTSTRAPPING, KW_REASON_CATCHING_UP},
	{{FIRST, .snapshots = 2}, KW_AGENT_RECONCILING, KW_REASON_CATCHING_UP},
	/* A cursor was resumed from. */
	{{FIRST, .snapshots = 0, .data = KW_SYNC_DATA_OURS}, KW_AGENT_RECONCILING,
		KW_REASON_CATCHING_UP},
	{{WARM, .equality = KW_SYNC_UNEQUAL}, KW_AGENT_LAGGING, KW_REASON_BEHIND},
	{{WARM, .equality = KW_SYNC_UNEQUAL, .limited = true}, KW_AGENT_LAGGING, KW_REASON_LIMITED},
	{{FIRST, .limited = true}, KW_AGENT_BOOTSTRAPPING, KW_REASON_LIMITED},
	{{WARM, .table = KW_TABLE_BEHIND, .limited = true}, KW_AGENT_LAGGING,
		KW_REASON_TABLE_BEHIND},

	/* Function libraries come after keys, but no agent is warm without them. */
	{{WARM, .functions = KW_FUNCTIONS_LATE}, KW_AGENT_LAGGING, KW_REASON_FUNCTIONS_LATE},
	{{FIRST, .functions = KW_FUNCTIONS_LATE}, KW_AGENT_BOOTSTRAPPING, KW_REASON_CATCHING_UP},
	{{FIRST, .equality = KW_SYNC_EQUAL, .functions = KW_FUNCTIONS_LATE}, KW_AGENT_BOOTSTRAPPING,
		KW_REASON_FUNCTIONS_LATE},
	{{WARM, .functions = KW_FUNCTIONS_ARE_HELD}, KW_AGENT_LAGGING, KW_REASON_FUNCTIONS_HELD},
	{{WARM, .functions = KW_FUNCTIONS_ARE_REFUSED}, KW_AGENT_LAGGING,
		KW_REASON_FUNCTIONS_REFUSED},
	{{WARM, .quarantined = 1, .functions = KW_FUNCTIONS_ARE_REFUSED}, KW_AGENT_LAGGING,
		KW_REASON_QUARANTINED},
	{{WARM, .unsaved = true, .functions = KW_FUNCTIONS_LATE}, KW_AGENT_LAGGING,
		KW_REASON_FUNCTIONS_LATE},
};

static void each_case_has_its_state_and_reason(void **state)
{
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct kw_verdict verdict = kw_judge(&cases[i].facts, KW_AGENT_LAGGING);

		if (verdict.state != cases[i].state || verdict.reason != cases[i].reason)
			fail_msg("case %d: state %d, reason %d", (int)i, (int)verdict.state,
				(int)verdict.reason);
	}
}

static void each_reason_has_a_case(void **state)
{
	uint64_t seen = UINT64_C(1) << KW_REASON_RECOVERING;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		seen |= UINT64_C(1) << cases[i].reason;
	assert_true(seen == (UINT64_C(1) << (KW_REASON_NONE + 1)) - 1);
}

static void warm_does_not_follow_straight_on_failed(void **state)
{
	const struct kw_judge_facts facts = {WARM};
	struct kw_verdict verdict = kw_judge(&facts, KW_AGENT_FAILED);

	assert_int_equal(verdict.state, KW_AGENT_LAGGING);
	assert_int_equal(verdict.reason, KW_REASON_RECOVERING);
	assert_int_equal(kw_judge(&facts, verdict.state).state, KW_AGENT_WARM);
}

/* Programs and documents know reasons by their codes. */
static void each_reason_has_a_code_of_its_own_and_a_remedy_if_it_is_one(void **state)
{
	for (int a = 0; a <= KW_REASON_NONE; a++) {
		const struct kw_reason_row *row = kw_agent_reason_row((enum kw_reason)a);

		assert_int_equal(
			strspn(row->code, "abcdefghijklmnopqrstuvwxyz_"), strlen(row->code));
		assert_true(strlen(row->meaning) > 0 && *kw_grade_name(row->grade));
		assert_int_equal(row->grade == KW_GRADE_GOOD, row->remedy[0] == '\0');
		for (int b = 0; b < a; b++)
			assert_string_not_equal(
				row->code, kw_agent_reason_row((enum kw_reason)b)->code);
	}
	assert_string_equal(kw_agent_reason_row(KW_REASON_NONE)->code, "none");
}

static void what_a_person_must_know_is_an_error_or_a_warning(void **state)
{
	assert_int_equal(kw_agent_state_level(KW_AGENT_FAILED), KW_LOG_ERROR);
	assert_int_equal(kw_agent_state_level(KW_AGENT_HELD), KW_LOG_WARN);
	assert_int_equal(kw_agent_state_level(KW_AGENT_STALLED), KW_LOG_WARN);
	assert_int_equal(kw_agent_state_level(KW_AGENT_LAGGING), KW_LOG_INFO);
	assert_int_equal(kw_agent_state_level(KW_AGENT_WARM), KW_LOG_INFO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_case_has_its_state_and_reason),
		cmocka_unit_test(each_reason_has_a_case),
		cmocka_unit_test(each_reason_has_a_code_of_its_own_and_a_remedy_if_it_is_one),
		cmocka_unit_test(what_a_person_must_know_is_an_error_or_a_warning),
		cmocka_unit_test(warm_does_not_follow_straight_on_failed),
	};

	return cmocka_run_group_tests_name("agent-judge", tests, NULL, NULL);
}
