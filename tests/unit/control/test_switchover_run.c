/*
 * The steps of a switch-over against a world of one primary, whose clients write whenever the fence
 * is open. Whatever happens to the fence: a new primary that is confirmed has all that was written,
 * and a switch-over that is undone leaves no writer waiting.
 */
#include "base/clock.h"
#include "ctl/switchover/lock.h"
#include "ctl/switchover/run.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define MS UINT64_C(1000)
#define S UINT64_C(1000000)
#define NEVER UINT64_MAX

enum moment { NONE, IN_COMPARE, IN_VERIFY, AT_TERM, AFTER_TERM };
enum trouble { CALM, UNPAUSED, RESTARTED, STOPPED, REFUSED, OUTRUN };
enum call { VERIFY, COMPARE };

static struct world {
	uint64_t now_us, paused_until_us, answered_us, gone_us;
	/* Writes at the old primary, those that the table has, and those that the agent has. */
	uint64_t written, told, applied;
	bool silent; /* no event tells of a write */
	double saved_s;
	uint64_t saved; /* writes, by then */
	bool saves;     /* a save ends in verify */
	uint64_t terms[2];
	uint64_t verify_us, compare_us, ending_us;
	enum call call;  /* the long one that is under way */
	uint64_t lag_us; /* from a question to the primary until it takes it */
	char run_id[8];
	enum moment moment;
	enum trouble trouble;
	bool refuses; /* the old proxy has lost its primary */
	bool outrun;  /* another program has taken the locks */
	double late_events, late_losses, since_last;
} world;

static struct kw_switchover run;

uint64_t __wrap_kw_clock_us(void);
int __wrap_nanosleep(const struct timespec *wanted, struct timespec *left);

static void pass(uint64_t us)
{
	uint64_t writes;

	world.now_us += us;
	writes = world.now_us > world.paused_until_us;
	world.written += writes;
	if (!world.silent)
		world.told += writes;
}

uint64_t __wrap_kw_clock_us(void)
{
	return world.now_us;
}

int __wrap_nanosleep(const struct timespec *wanted, struct timespec *left)
{
	(void)left;
	pass((uint64_t)wanted->tv_nsec / 1000);
	return 0;
}

static void come_to(enum moment moment)
{
	if (world.moment != moment)
		return;
	world.moment = NONE;
	switch (world.trouble) {
	case CALM:
		break;
	case RESTARTED:
		strcpy(world.run_id, "second");
		/* fall through */
	case UNPAUSED:
		world.paused_until_us = 0;
		break;
	case STOPPED: /* this program is, and the proxy hangs when it goes on */
		pass(27 * S);
		world.lag_us = 5 * S;
		break;
	case REFUSED:
		world.refuses = true;
		break;
	case OUTRUN: /* this program is stopped, and another one does it all */
		world.outrun = true;
		world.paused_until_us = NEVER;
		world.terms[0] = 0;
		world.terms[1] = 5;
		world.applied = world.written;
		break;
	}
	pass(MS);
}

/* ---- what the steps ask ---- */

int kw_switchover_lock_keep(struct kw_switchover *switchover, struct kw_error *error)
{
	return world.outrun ? kw_error_set(error, KW_E_STATE, "the lock is lost") : 0;
}

int kw_switchover_lock_again(struct kw_switchover *switchover, struct kw_error *error)
{
	return 0; /* the other one has ended */
}

static int ask_fence(const json_t *params, struct kw_error *error)
{
	double seconds = json_number_value(json_object_get(params, "seconds"));
	uint64_t until_us;

	if (world.refuses || world.outrun) {
		world.refuses = false;
		return kw_error_set(error, KW_E_REFUSED, "the connection was lost");
	}
	pass(world.lag_us);
	world.lag_us = 0;
	until_us = world.now_us + (uint64_t)(seconds * 1e6);
	world.paused_until_us = seconds == 0                       ? 0
				: until_us > world.paused_until_us ? until_us
								   : world.paused_until_us;
	return 0;
}

int kw_site_call(struct kw_site *site, const char *method, json_t *params, json_t **result,
	struct kw_error *error)
{
	int code = 0;

	pass(MS);
	if (strcmp(method, "fence") == 0)
		code = ask_fence(params, error);
	else if (strcmp(method, "barrier") == 0)
		world.applied = world.told;
	else if (strcmp(method, "shutdown") == 0)
		world.gone_us = world.now_us + world.ending_us;
	else if (strcmp(method, "version") == 0 && world.now_us >= world.gone_us)
		code = kw_error_set(error, KW_E_IO, "nobody answers");
	json_decref(params);
	if (!code && result)
		*result = json_pack("{s:i,s:b,s:s,s:I,s:f}", "token", 1, "passed", 1, "run_id",
			world.run_id, "changes", (json_int_t)(world.written - world.saved),
			"saved_s", world.saved_s);
	if (!code && result)
		json_object_set_new(*result, "since_last", json_real(world.since_last));
	return code;
}

int kw_site_look(struct kw_site *site, struct kw_error *error)
{
	pass(MS);
	return 0;
}

const char *kw_site_text(const struct kw_site *site, const char *path)
{
	if (strcmp(path, "state") == 0)
		return "warm";
	if (strcmp(path, "flags") == 0)
		return world.silent ? "trusted, unproven" : "checked";
	if (strcmp(path, "mandate.role") == 0)
		return "master";
	if (strcmp(path, "mandate.run_id") == 0)
		return world.run_id;
	return strcmp(path, "mandate.state") == 0 ? "confirmed" : "";
}

double kw_site_number(const struct kw_site *site, const char *path)
{
	if (strcmp(path, "mandate.late_events") == 0)
		return world.late_events;
	if (strcmp(path, "mandate.late_losses") == 0)
		return world.late_losses;
	return strcmp(path, "events") == 0 ? (double)world.told : 0;
}

uint64_t kw_site_term(struct kw_site *proxy)
{
	return world.terms[proxy == &run.sites.to];
}

int kw_site_set_term(struct kw_site *proxy, json_int_t lock, uint64_t term, struct kw_error *error)
{
	bool old = proxy == &run.sites.from, deposes = old && term == 0;

	if (deposes)
		come_to(AT_TERM);
	pass(MS);
	if (world.outrun)
		return kw_error_set(error, KW_E_REFUSED, "the lock is lost");
	world.terms[!old] = term;
	if (deposes)
		come_to(AFTER_TERM);
	return 0;
}

int kw_rpc_client_open(const char *path, struct kw_rpc_client **client, struct kw_error *error)
{
	*client = NULL;
	return 0;
}

int kw_rpc_client_begin(struct kw_rpc_client *client, const char *method, json_t *params, int fd,
	struct kw_error *error)
{
	world.call = strcmp(method, "reconcile") == 0 ? COMPARE : VERIFY;
	world.answered_us =
		world.now_us + (world.call == COMPARE ? world.compare_us : world.verify_us);
	json_decref(params);
	return 0;
}

int kw_rpc_client_await(
	struct kw_rpc_client *client, int timeout_ms, json_t **result, struct kw_error *error)
{
	come_to(world.call == COMPARE ? IN_COMPARE : IN_VERIFY);
	if (world.saves && world.call == VERIFY) {
		world.saved_s = 1;
		world.saved = world.written;
	}
	pass((uint64_t)timeout_ms * MS);
	if (world.now_us < world.answered_us)
		return kw_error_set(error, KW_E_TIMEOUT, "not yet");
	*result = json_pack("{s:i,s:i,s:i,s:I,s:f}", "checked", 9, "unsettled", 0, "keys", 9,
		"changed", (json_int_t)(world.written - world.told), "seconds", 1.0);
	if (world.call == COMPARE)
		world.told = world.written; /* all keys were read again */
	return 0;
}

void kw_rpc_client_close(struct kw_rpc_client *client)
{
}

int ctl_check_alive(const struct ctl *ctl, struct kw_error *error)
{
	return 0;
}

bool ctl_found_differences(const json_t *answer)
{
	return false;
}

/* ---- a run ---- */

static void set_up(enum moment moment, enum trouble trouble)
{
	world = (struct world){.now_us = S,
		.gone_us = NEVER,
		.verify_us = 40 * S,
		.compare_us = 20 * S,
		.ending_us = S,
		.terms = {4, 0},
		.run_id = "first",
		.moment = moment,
		.trouble = trouble};
	run = (struct kw_switchover){
		.options = {.audit_age = -1, .hold_s = 600, .timeout_s = 1000},
		.facts = {.from = {.term = 4}},
		.start = {.state = KW_SWITCHOVER_PREFLIGHT, .from = 4, .to = 5},
	};
}

/* The state that it ends in: CONFIRMED, UNDONE or STOPPED. */
static struct kw_error last_error;

static enum kw_switchover_state go(void)
{

	for (int state = (int)run.start.state + 1; state <= KW_SWITCHOVER_CONFIRMED; state++) {
		enum kw_switchover_state next = (enum kw_switchover_state)state, end;

		if (!kw_switchover_do(&run, next, &last_error))
			continue;
		end = kw_switchover_failed((enum kw_switchover_state)(state - 1));
		if (end == KW_SWITCHOVER_UNDONE)
			kw_switchover_undo(&run, next);
		return end;
	}
	return KW_SWITCHOVER_CONFIRMED;
}

static void check(enum kw_switchover_state end, const char *name)
{
	if (world.terms[0] > 0 && world.terms[1] > 0)
		fail_msg("%s: two primaries", name);
	if (world.terms[1] > 0 && world.written != world.applied)
		fail_msg("%s: %d writes are lost", name, (int)(world.written - world.applied));
	if (end == KW_SWITCHOVER_UNDONE && world.paused_until_us > world.now_us)
		fail_msg("%s: writers wait after it was undone", name);
	if (end == KW_SWITCHOVER_UNDONE && world.terms[0] != 4)
		fail_msg("%s: the old primary has term %d", name, (int)world.terms[0]);
}

static void test_whatever_happens_to_the_fence_no_write_is_lost(void **state)
{
	static const struct {
		const char *name;
		enum moment moment;
		enum trouble trouble;
		enum kw_switchover_state end;
	} cases[] = {
		{"calm", NONE, CALM, KW_SWITCHOVER_CONFIRMED},
		{"unpaused in the comparison", IN_COMPARE, UNPAUSED, KW_SWITCHOVER_UNDONE},
		{"unpaused in verify", IN_VERIFY, UNPAUSED, KW_SWITCHOVER_UNDONE},
		{"restarted in verify", IN_VERIFY, RESTARTED, KW_SWITCHOVER_UNDONE},
		/* Renewed, but too late. */
		{"stopped in verify", IN_VERIFY, STOPPED, KW_SWITCHOVER_UNDONE},
		{"refused in verify", IN_VERIFY, REFUSED, KW_SWITCHOVER_UNDONE},
		{"unpaused at the term", AT_TERM, UNPAUSED, KW_SWITCHOVER_UNDONE},
		{"restarted at the term", AT_TERM, RESTARTED, KW_SWITCHOVER_UNDONE},
		/* Nothing is written yet, but the next fence comes too late. */
		{"stopped at the term", AT_TERM, STOPPED, KW_SWITCHOVER_UNDONE},
		{"unpaused after the term", AFTER_TERM, UNPAUSED, KW_SWITCHOVER_UNDONE},
	};

	(void)state;
	for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
		const bool silent = i % 2;
		enum kw_switchover_state end;

		set_up(cases[i / 2].moment, cases[i / 2].trouble);
		world.silent = silent; /* nor if no event tells of a write */
		end = go();
		check(end, cases[i / 2].name);
		if (end != cases[i / 2].end)
			fail_msg("%s%s: %s", cases[i / 2].name, silent ? ", silent" : "",
				kw_switchover_name(end));
	}
}

/* What was acknowledged before the fence, and no event told. */
static void test_the_comparison_finds_what_no_event_told(void **state)
{
	(void)state;
	set_up(NONE, CALM);
	world.written = 7;
	assert_int_equal(go(), KW_SWITCHOVER_CONFIRMED);
	check(KW_SWITCHOVER_CONFIRMED, "untold");
	/* It has --timeout, and is undone with a sentence. */
	set_up(NONE, CALM);
	run.options.timeout_s = 10;
	assert_int_equal(go(), KW_SWITCHOVER_UNDONE);
	check(KW_SWITCHOVER_UNDONE, "too slow");
	assert_non_null(strstr(last_error.text, "within 10 s"));
	assert_non_null(strstr(last_error.text, "--timeout"));
}

/* The server begins its count of changes anew: what events tell must do. */
static void test_a_save_behind_the_fence_is_no_change(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		const bool written = i % 2, silent = i / 2;
		enum kw_switchover_state end =
			written || silent ? KW_SWITCHOVER_UNDONE : KW_SWITCHOVER_CONFIRMED;

		set_up(IN_VERIFY, written ? UNPAUSED : CALM);
		world.saves = true;
		world.silent = silent;
		assert_int_equal(go(), end);
		check(end, "saved");
	}
}

/* It was stopped for so long that another program has had the locks, and has done all of it. */
static void test_one_that_was_outrun_undoes_nothing(void **state)
{
	static const enum moment moments[] = {IN_COMPARE, IN_VERIFY, AT_TERM, AFTER_TERM};

	(void)state;
	for (size_t i = 0; i < sizeof moments / sizeof *moments; i++) {
		set_up(moments[i], OUTRUN);
		assert_int_equal(go(), KW_SWITCHOVER_UNDONE);
		assert_int_equal(world.terms[0], 0);
		assert_int_equal(world.terms[1], 5);
		assert_true(world.paused_until_us == NEVER);
		assert_non_null(strstr(run.detail, "nothing was undone"));
	}
}

/* --hold says how long it stands beyond that. */
static void test_the_fence_stands_until_the_new_primary_is_confirmed(void **state)
{
	static const double holds[] = {0, 5, 30, 45, 600};

	(void)state;
	for (size_t i = 0; i < sizeof holds / sizeof *holds; i++) {
		set_up(NONE, CALM);
		run.options.hold_s = holds[i];
		world.ending_us = 100 * S; /* so long the agent takes to end */
		assert_int_equal(go(), KW_SWITCHOVER_CONFIRMED);
		check(KW_SWITCHOVER_CONFIRMED, "hold");
		assert_true(world.paused_until_us > world.now_us);
	}
}

static void test_an_undone_run_gives_back_the_term_that_there_was(void **state)
{
	(void)state;
	set_up(AFTER_TERM, UNPAUSED);
	/* Another agent knows a higher one. */
	run.start.from = 7;
	run.start.to = 8;
	assert_int_equal(go(), KW_SWITCHOVER_UNDONE);
	check(KW_SWITCHOVER_UNDONE, "term");
}

/* A run before was killed there: what clients wrote since then is in the old primary alone. */
static void test_a_run_goes_on_only_if_nothing_was_written_meanwhile(void **state)
{
	static const struct {
		double events, losses, since_last;
		bool silent;
		enum kw_switchover_state end;
	} cases[] = {
		{0, 0, 0, false, KW_SWITCHOVER_CONFIRMED},
		{1, 0, 0, false, KW_SWITCHOVER_STOPPED},
		{0, 1, 0, false, KW_SWITCHOVER_STOPPED},
		/* As the server counts, and events do not tell. */
		{0, 0, 0, true, KW_SWITCHOVER_CONFIRMED},
		{0, 0, 1, true, KW_SWITCHOVER_STOPPED},
		/* A save began that count anew: then events must be proven. */
		{0, 0, -1, false, KW_SWITCHOVER_CONFIRMED},
		{0, 0, -1, true, KW_SWITCHOVER_STOPPED},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		set_up(NONE, CALM);
		world.terms[0] = 0;
		run.start.state = KW_SWITCHOVER_PROMOTED;
		world.late_events = cases[i].events;
		world.late_losses = cases[i].losses;
		world.since_last = cases[i].since_last;
		world.silent = cases[i].silent;
		assert_int_equal(go(), cases[i].end);
		assert_int_equal(world.terms[1], cases[i].end == KW_SWITCHOVER_CONFIRMED ? 5 : 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whatever_happens_to_the_fence_no_write_is_lost),
		cmocka_unit_test(test_the_comparison_finds_what_no_event_told),
		cmocka_unit_test(test_a_save_behind_the_fence_is_no_change),
		cmocka_unit_test(test_one_that_was_outrun_undoes_nothing),
		cmocka_unit_test(test_the_fence_stands_until_the_new_primary_is_confirmed),
		cmocka_unit_test(test_an_undone_run_gives_back_the_term_that_there_was),
		cmocka_unit_test(test_a_run_goes_on_only_if_nothing_was_written_meanwhile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
