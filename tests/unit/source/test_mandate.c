/* Who is the primary, case by case, and what the mandate makes of it. */
#include "mandate/mandate.h"
#include "mandate/sentinel_reply.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define NOW UINT64_C(1000000000)
#define VOTERS 3

/*
 * Sentinels as words. The first letter is the id ('?': not told yet); then the server that it names
 * ('-': it names none yet, '!': it never answered) and the epoch. Behind that '~': the answer is
 * older than the lease; '^': older than the memory; '*': its address is not configured; '#': it
 * tells of so many voters (after the sign).
 */
static void make_view(struct kw_sentinel_view *view, const char *words, uint32_t voters)
{
	int count = 0;

	*view = (struct kw_sentinel_view){0};
	for (const char *word = words; *word; count++) {
		struct kw_sentinel *s = &view->sentinels[count];

		s->present = s->configured = true;
		if (word[0] != '?')
			memset(s->id, tolower(word[0]), KW_SENTINEL_ID);
		if (word[1] != '!') {
			s->asked_us = NOW - 1000;
			s->epoch = strtoull(word + 2, NULL, 10);
			s->voters = voters;
			s->voters_us = NOW;
			s->primary.port = (uint16_t)(6000 + word[1]);
			snprintf(s->primary.host, sizeof s->primary.host, "10.0.0.1");
			if (word[1] != '-')
				memset(s->primary.run_id, word[1], KW_SENTINEL_ID);
		}
		for (; *word && *word != ' '; word++)
			if (*word == '~')
				s->asked_us = NOW - KW_SENTINEL_LEASE_US - 1;
			else if (*word == '^')
				s->asked_us = NOW - KW_SENTINEL_MEMORY_US - 1;
			else if (*word == '*')
				s->configured = false;
			else if (*word == '#')
				s->voters = (uint32_t)strtoul(word + 1, NULL, 10);
		word += *word == ' ';
	}
}

static const char *run(char letter)
{
	static char id[KW_SENTINEL_ID + 1];

	memset(id, letter, KW_SENTINEL_ID);
	return letter == '-' ? "" : id;
}

/* What is found for the server M. */
static const struct {
	const char *what, *sentinels;
	enum kw_sentinel_finding finding;
	uint64_t epoch;
	uint32_t voters;
} views[] = {
	{"all three name it", "AM7 BM7 CM7", KW_SENTINEL_OURS, 7, 3},
	{"two of three name it, one is not reached", "AM7 BM7 C!", KW_SENTINEL_OURS, 7, 3},
	{"two name it, the answer of one is old", "AM7 BM7 CM7~", KW_SENTINEL_OURS, 7, 3},
	{"one of three answered", "AM7 B! C!", KW_SENTINEL_SILENT, 0, 3},
	{"one of three answered in time", "AM7 BM7~ CM7~", KW_SENTINEL_SILENT, 0, 3},
	{"nobody answered", "A! B! C!", KW_SENTINEL_SILENT, 0, 3},
	{"nobody is configured", "", KW_SENTINEL_SILENT, 0, 0},
	{"half is no majority", "AM7 BM7 C! D!", KW_SENTINEL_SILENT, 0, 4},
	{"half of those that answered in time", "AM7 BM7 CR6 DR6", KW_SENTINEL_DIVIDED, 0, 4},
	{"all name another one", "AR8 BR8 CR8", KW_SENTINEL_ANOTHER, 8, 3},
	{"a majority names another one", "AM7 BR8 CR8", KW_SENTINEL_ANOTHER, 8, 3},
	{"one sentinel knows a newer epoch of another one", "AM7 BM7 CR8", KW_SENTINEL_ANOTHER, 8,
		3},
	{"... and was not heard of since", "AM7 BM7 CR8~", KW_SENTINEL_ANOTHER, 8, 3},
	{"... for longer than is remembered", "AM7 BM7 CR8^", KW_SENTINEL_OURS, 7, 3},
	{"... and does not know its run_id yet", "AM7 BM7 C-8", KW_SENTINEL_ANOTHER, 8, 3},
	{"an older epoch of another one does not count", "AM7 BM7 CR6", KW_SENTINEL_OURS, 7, 3},
	{"the same epoch names two: the majority counts", "AM7 BM7 CR7", KW_SENTINEL_OURS, 7, 3},
	{"the same epoch names two: it is not the majority", "AM7 BR7 CR7", KW_SENTINEL_ANOTHER, 7,
		3},
	{"one has not heard of the newer epoch of ours", "AM8 BM8 CM7", KW_SENTINEL_OURS, 8, 3},
	{"one leads a failover, and names the old primary yet", "AM7 BM7 CM8", KW_SENTINEL_DIVIDED,
		7, 3},
	{"... and was stopped in it", "AM7 BM7 CM8~", KW_SENTINEL_OURS, 7, 3},
	{"no majority has one epoch of ours", "AM8 BM7 C!", KW_SENTINEL_DIVIDED, 0, 3},
	{"run_ids were cleared, and are not told yet", "A-7 B-7 C-7", KW_SENTINEL_DIVIDED, 0, 3},
	{"one was cleared", "AM7 BM7 C-7", KW_SENTINEL_OURS, 7, 3},
	{"two were cleared", "AM7 B-7 C-7", KW_SENTINEL_DIVIDED, 0, 3},
	{"epoch 0, before the first failover", "AM0 BM0 CM0", KW_SENTINEL_OURS, 0, 3},
	{"one sentinel under two names counts once", "AM7 AM7 B! C!", KW_SENTINEL_SILENT, 0, 3},
	{"... also if it is the majority of the addresses", "AM7 AM7 B!", KW_SENTINEL_SILENT, 0, 3},
	{"... and its newest answer counts", "AR8 AM7~ BM7 CM7", KW_SENTINEL_ANOTHER, 8, 3},
	{"one that told no id does not count", "AM7 ?M7 C!", KW_SENTINEL_SILENT, 0, 3},
	{"more addresses than a sentinel tells of", "AM7 BM7 C! D! E!", KW_SENTINEL_SILENT, 0, 5},
	{"... all of them answer", "AM7 BM7 CM7 DM7 EM7", KW_SENTINEL_OURS, 7, 5},
	{"found ones make a majority with a configured one", "AM7 BM7* C!*", KW_SENTINEL_OURS, 7,
		3},
	{"... and with two", "AM7 B! CM7*", KW_SENTINEL_OURS, 7, 3},
	/* One that lies in a list of three: */
	{"invented ones do not name another server", "AR9 BM7 CM7 DR9* ER9* FR9*",
		KW_SENTINEL_ANOTHER, 9, 3},
	{"... nor, at no newer epoch, a majority", "AM7 BR7 CR7 DM7* EM7* FM7*",
		KW_SENTINEL_ANOTHER, 7, 3},
	{"... nor confirm the server that one names", "AM7 B-6 C-6 DM7* EM7* FM7*",
		KW_SENTINEL_DIVIDED, 0, 3},
	{"an invented one has a newer epoch", "AM7 BM7 CM7 DR9*", KW_SENTINEL_OURS, 7, 3},
	{"it tells of many voters", "AM7#1000 BM7 CM7", KW_SENTINEL_OURS, 7, 3},
	{"it tells of too few voters", "AM7#1 BM7#5 CM7#5 D! E!", KW_SENTINEL_OURS, 7, 5},
	{"... and one of the others is silent", "AM7#1 BM7#5 C!", KW_SENTINEL_SILENT, 0, 5},
	{"invented ones tell of many voters", "AM7 BM7 CM7 DM7*#1000 EM7*#1000 FM7*#1000 GM7*#1000",
		KW_SENTINEL_OURS, 7, 3},
	{"all of five must be named, not three", "AM7#5 BM7#5 C!", KW_SENTINEL_SILENT, 0, 5},
};

static void the_view_is_judged_case_by_case(void **state)
{
	struct kw_sentinel_view view;

	for (size_t i = 0; i < sizeof views / sizeof *views; i++) {
		struct kw_sentinel_verdict verdict;

		make_view(&view, views[i].sentinels, VOTERS);
		verdict = kw_sentinel_view_judge(&view, run('M'), NOW);
		if (verdict.finding != views[i].finding || verdict.epoch != views[i].epoch ||
			verdict.voters != views[i].voters)
			fail_msg("%s: finding %d, epoch %d, voters %d", views[i].what,
				(int)verdict.finding, (int)verdict.epoch, (int)verdict.voters);
	}
}

/* SENTINEL RESET: a sentinel that forgot its peers says that it is alone. */
static void a_sentinel_that_forgot_the_others_is_no_majority(void **state)
{
	struct kw_sentinel_view view;
	struct kw_sentinel *one = &view.sentinels[0];

	make_view(&view, "AM7", 0);
	kw_sentinel_told(one, 2, NOW - 2000);
	kw_sentinel_told(one, 0, NOW - 1000);
	assert_int_equal(one->voters, 3);
	assert_int_equal(kw_sentinel_view_judge(&view, run('M'), NOW).finding, KW_SENTINEL_SILENT);
	/* After a minute it is believed; others may have been removed for good. */
	kw_sentinel_told(one, 0, NOW - 2000 + KW_SENTINEL_MEMORY_US);
	assert_int_equal(one->voters, 1);
}

/* The proxy starts while one sentinel is reached, and just then that one is alone. */
static void configured_addresses_are_voters_before_they_answer(void **state)
{
	struct kw_sentinel_view view;

	make_view(&view, "AM7 B! C!", 0);
	kw_sentinel_told(&view.sentinels[0], 0, NOW - 1000);
	assert_int_equal(kw_sentinel_view_judge(&view, run('M'), NOW).finding, KW_SENTINEL_SILENT);
	assert_int_equal(kw_sentinel_view_judge(&view, run('M'), NOW).voters, 3);
}

static void what_a_sentinel_tells_is_bounded(void **state)
{
	struct kw_sentinel_view view;

	make_view(&view, "AM7", 0);
	kw_sentinel_told(&view.sentinels[0], UINT64_MAX, NOW);
	assert_int_equal(view.sentinels[0].voters, UINT32_MAX);
	assert_int_equal(kw_sentinel_view_judge(&view, run('M'), NOW).finding, KW_SENTINEL_SILENT);
}

/* ---- the mandate ---- */

static enum kw_mandate_state judge(struct kw_mandate *mandate, const char *sentinels, char self)
{
	const struct kw_mandate_self us = {run(self), true};

	make_view(&mandate->view, sentinels, VOTERS);
	kw_mandate_judge(mandate, &us, NOW);
	assert_int_equal(kw_mandate_state(mandate) == KW_MANDATE_CONFIRMED, !mandate->why[0]);
	return kw_mandate_state(mandate);
}

static const struct {
	const char *sentinels;
	char self;
	enum kw_mandate_state state;
	uint64_t term;
} story[] = {
	{"A! B! C!", '-', KW_MANDATE_AWAITED, 0}, {"AM7 B! C!", 'M', KW_MANDATE_AWAITED, 0},
	{"AR8 BR8 CR8", 'M', KW_MANDATE_ELSEWHERE, 0}, {"A! B! C!", 'M', KW_MANDATE_AWAITED, 0},
	{"AM7 BM7 C!", 'M', KW_MANDATE_CONFIRMED, 7}, {"AM7 BM7 CM7", 'M', KW_MANDATE_CONFIRMED, 7},
	{"AM7 BM7~ CM7~", 'M', KW_MANDATE_LOST, 7}, {"AM7 BM7 CM7~", 'M', KW_MANDATE_CONFIRMED, 7},
	{"AM7 BR8 CM7", 'M', KW_MANDATE_ELSEWHERE, 7}, {"AM7~ BR8^ CM7~", 'M', KW_MANDATE_LOST, 7},
	{"AR8 BR8 CR8", 'M', KW_MANDATE_ELSEWHERE, 7},
	{"AR8 BR8 CR8", 'R', KW_MANDATE_CONFIRMED, 8},
	{"AR9 BR9 CR9", 'R', KW_MANDATE_CONFIRMED, 9},
	{"AR0 BR0 CR0", 'R', KW_MANDATE_CONFIRMED, 0}, /* SENTINEL REMOVE, and MONITOR anew */
};

static void the_mandate_follows_the_sentinels(void **state)
{
	struct kw_mandate mandate;

	kw_mandate_init(&mandate, KW_MANDATE_BY_SENTINEL, "kw", NOW);
	for (size_t i = 0; i < sizeof story / sizeof *story; i++) {
		assert_int_equal(
			judge(&mandate, story[i].sentinels, story[i].self), story[i].state);
		assert_int_equal(mandate.term, story[i].term);
	}
	assert_int_equal(mandate.confirmations, 3);
	assert_int_equal(mandate.losses, 2);
}

/* Its answers count from when they were asked for, so it ends without a timer. */
static void a_mandate_ends_by_itself(void **state)
{
	const struct kw_mandate_self us = {run('M'), true};
	struct kw_mandate mandate;

	kw_mandate_init(&mandate, KW_MANDATE_BY_SENTINEL, "kw", NOW);
	assert_int_equal(judge(&mandate, "AM7 BM7 CM7", 'M'), KW_MANDATE_CONFIRMED);
	assert_false(kw_mandate_judge(&mandate, &us, NOW - 1000 + KW_SENTINEL_LEASE_US));
	assert_int_equal(kw_mandate_state(&mandate), KW_MANDATE_CONFIRMED);
	/* Also for who cannot wait for the next judgement, and without one. */
	assert_true(kw_mandate_would_hold(&mandate, &us, NOW - 1000 + KW_SENTINEL_LEASE_US));
	assert_false(kw_mandate_would_hold(&mandate, &us, NOW - 999 + KW_SENTINEL_LEASE_US));
	assert_int_equal(kw_mandate_state(&mandate), KW_MANDATE_CONFIRMED);
	assert_true(kw_mandate_judge(&mandate, &us, NOW - 999 + KW_SENTINEL_LEASE_US));
	assert_int_equal(kw_mandate_state(&mandate), KW_MANDATE_LOST);
}

/* A term must not begin before the proxy has looked at the history of the promoted server. */
static void a_server_that_says_it_is_a_replica_is_not_confirmed(void **state)
{
	const struct kw_mandate_self replica = {run('M'), false};
	struct kw_mandate mandate;

	kw_mandate_init(&mandate, KW_MANDATE_BY_SENTINEL, "kw", NOW);
	make_view(&mandate.view, "AM7 BM7 CM7", VOTERS);
	kw_mandate_judge(&mandate, &replica, NOW);
	assert_int_equal(kw_mandate_state(&mandate), KW_MANDATE_AWAITED);
	assert_non_null(strstr(mandate.why, "says that it is a replica"));
}

static void an_operator_gives_a_term(void **state)
{
	const struct kw_mandate_self primary = {run('M'), true}, replica = {run('M'), false};
	const struct kw_mandate_self nobody = {"", false};
	struct kw_mandate mandate;

	kw_mandate_init(&mandate, KW_MANDATE_BY_OPERATOR, "", NOW);
	mandate.operator_term = 3;
	assert_true(kw_mandate_judge(&mandate, &nobody, NOW));
	assert_int_equal(kw_mandate_state(&mandate), KW_MANDATE_AWAITED);
	assert_non_null(strstr(mandate.why, "no server is reached yet"));
	mandate.operator_term = 0;
	assert_true(kw_mandate_judge(&mandate, &primary, NOW));
	assert_int_equal(kw_mandate_state(&mandate), KW_MANDATE_AWAITED);
	assert_non_null(strstr(mandate.why, "authority.term"));
	mandate.operator_term = 3;
	assert_true(kw_mandate_judge(&mandate, &replica, NOW));
	assert_int_equal(kw_mandate_state(&mandate), KW_MANDATE_AWAITED);
	assert_true(kw_mandate_judge(&mandate, &primary, NOW));
	assert_int_equal(kw_mandate_state(&mandate), KW_MANDATE_CONFIRMED);
	assert_int_equal(mandate.term, 3);
	mandate.operator_term = 0;
	assert_true(kw_mandate_judge(&mandate, &primary, NOW));
	assert_int_equal(kw_mandate_state(&mandate), KW_MANDATE_LOST);
	assert_int_equal(mandate.term, 3);
}

static void a_replica_stands_by_while_another_server_is_the_primary(void **state)
{
	const struct kw_mandate_self primary = {run('M'), true}, replica = {run('M'), false};
	const struct kw_mandate_self nobody = {"", false};
	struct kw_mandate mandate;

	kw_mandate_init(&mandate, KW_MANDATE_BY_SENTINEL, "kw", NOW);
	assert_false(kw_mandate_stands_by(&mandate, &replica));
	judge(&mandate, "AR8 BR8 CR8", 'M');
	assert_true(kw_mandate_stands_by(&mandate, &replica));
	assert_false(kw_mandate_stands_by(&mandate, &nobody));
	/* Deposed, and clients can still write there. */
	assert_false(kw_mandate_stands_by(&mandate, &primary));
	judge(&mandate, "A! B! C!", 'M');
	assert_false(kw_mandate_stands_by(&mandate, &replica));

	kw_mandate_init(&mandate, KW_MANDATE_BY_OPERATOR, "", NOW);
	kw_mandate_judge(&mandate, &replica, NOW);
	assert_true(kw_mandate_stands_by(&mandate, &replica));
	assert_false(kw_mandate_stands_by(&mandate, &primary));
	mandate.operator_term = 3; /* but the server says that it is a replica */
	kw_mandate_judge(&mandate, &replica, NOW);
	assert_false(kw_mandate_stands_by(&mandate, &replica));
}

static void nobody_is_asked_by_default(void **state)
{
	const struct kw_mandate_self us = {"", false};
	struct kw_history history = {.standing = KW_HISTORY_AWAITED};
	struct kw_mandate mandate;

	kw_mandate_init(&mandate, KW_MANDATE_BY_NONE, "", NOW);
	assert_false(kw_mandate_judge(&mandate, &us, NOW));
	assert_true(kw_mandate_holds(kw_mandate_state(&mandate)));
	kw_mandate_tell(&mandate, &history, 5);
	assert_int_equal(history.mandate, KW_MANDATE_NONE);
	assert_int_equal(history.domain, 0);
}

/* ---- what is told ---- */

static void a_term_begins_at_a_version(void **state)
{
	struct kw_history history = {.standing = KW_HISTORY_TOLD};
	struct kw_mandate mandate;

	kw_mandate_init(&mandate, KW_MANDATE_BY_SENTINEL, "kw", NOW);
	kw_mandate_tell(&mandate, &history, 10);
	assert_int_equal(history.mandate, KW_MANDATE_AWAITED);
	assert_int_equal(history.lease_ms, 900);
	assert_true(history.domain == kw_mandate_domain("sentinel", "kw"));
	judge(&mandate, "AM7 BM7 CM7", 'M');
	kw_mandate_tell(&mandate, &history, 20);
	assert_int_equal(history.term, 7);
	assert_int_equal(history.term_version, 20);
	kw_mandate_tell(&mandate, &history, 30);
	assert_int_equal(history.term_version, 20);
	judge(&mandate, "A! B! C!", 'M');
	kw_mandate_tell(&mandate, &history, 40);
	assert_int_equal(history.mandate, KW_MANDATE_LOST);
	assert_int_equal(history.term_version, 20);
	judge(&mandate, "AM8 BM8 CM8", 'M');
	kw_mandate_tell(&mandate, &history, 50);
	assert_int_equal(history.term, 8);
	assert_int_equal(history.term_version, 50);
}

/* What the process before published last. */
static struct kw_history left_behind(const char *kind, const char *name)
{
	return (struct kw_history){.standing = KW_HISTORY_TOLD,
		.mandate = KW_MANDATE_CONFIRMED,
		.domain = kw_mandate_domain(kind, name),
		.term = 7,
		.term_version = 20};
}

static void the_term_of_a_kept_table_has_begun_already(void **state)
{
	const struct kw_history before = left_behind("sentinel", "kw");
	struct kw_history history = {.standing = KW_HISTORY_TOLD};
	struct kw_mandate mandate;

	kw_mandate_init(&mandate, KW_MANDATE_BY_SENTINEL, "kw", NOW);
	kw_mandate_keep(&mandate, &before);
	kw_mandate_tell(&mandate, &history, 30);
	assert_int_equal(history.mandate, KW_MANDATE_AWAITED);
	judge(&mandate, "AM7 BM7 CM7", 'M');
	kw_mandate_tell(&mandate, &history, 40);
	assert_int_equal(history.term, 7);
	assert_int_equal(history.term_version, 20);
	judge(&mandate, "AM8 BM8 CM8", 'M');
	kw_mandate_tell(&mandate, &history, 50);
	assert_int_equal(history.term_version, 50);
	/* What was kept is over. */
	judge(&mandate, "AM7 BM7 CM7", 'M');
	kw_mandate_tell(&mandate, &history, 60);
	assert_int_equal(history.term_version, 60);
}

static void a_term_higher_than_that_of_a_kept_table_begins_now(void **state)
{
	const struct kw_history before = left_behind("sentinel", "kw");
	const struct kw_history other = left_behind("sentinel", "other");
	struct kw_history history = {.standing = KW_HISTORY_TOLD};
	struct kw_mandate mandate;

	kw_mandate_init(&mandate, KW_MANDATE_BY_SENTINEL, "kw", NOW);
	kw_mandate_keep(&mandate, &other); /* says nothing of this domain */
	assert_int_equal(mandate.term, 0);
	kw_mandate_keep(&mandate, &before);
	kw_mandate_tell(&mandate, &history, 30);
	judge(&mandate, "AM8 BM8 CM8", 'M');
	kw_mandate_tell(&mandate, &history, 40);
	assert_int_equal(history.term_version, 40);
}

static void a_term_that_a_restart_lowered_is_not_believed(void **state)
{
	const struct kw_mandate_self primary = {run('M'), true};
	const struct kw_history before = left_behind("operator", "");
	struct kw_mandate mandate;

	kw_mandate_init(&mandate, KW_MANDATE_BY_OPERATOR, "", NOW);
	mandate.operator_term = 6;
	kw_mandate_keep(&mandate, &before);
	kw_mandate_judge(&mandate, &primary, NOW);
	assert_int_equal(kw_mandate_state(&mandate), KW_MANDATE_AWAITED);
	assert_false(kw_mandate_would_hold(&mandate, &primary, NOW));
	assert_non_null(strstr(mandate.why, "authority.term is 6"));
	assert_non_null(strstr(mandate.why, "set authority.term to 7 or higher"));
	/* A deposed one has none: it is told of what it had. */
	mandate.operator_term = 0;
	kw_mandate_judge(&mandate, &primary, NOW);
	assert_non_null(strstr(mandate.why, "no term is given to this server (term 7 was"));
	mandate.operator_term = 7;
	kw_mandate_judge(&mandate, &primary, NOW);
	assert_int_equal(kw_mandate_state(&mandate), KW_MANDATE_CONFIRMED);
}

/* A person can begin the terms anew. */
static void a_lower_term_counts_if_it_is_given_while_the_proxy_runs(void **state)
{
	const struct kw_mandate_self primary = {run('M'), true};
	const struct kw_history before = left_behind("operator", "");
	struct kw_mandate mandate;

	kw_mandate_init(&mandate, KW_MANDATE_BY_OPERATOR, "", NOW);
	kw_mandate_keep(&mandate, &before);
	kw_mandate_give_term(&mandate, 1);
	kw_mandate_judge(&mandate, &primary, NOW);
	assert_int_equal(kw_mandate_state(&mandate), KW_MANDATE_CONFIRMED);
	assert_int_equal(mandate.term, 1);
	kw_mandate_give_term(&mandate, 0);
	kw_mandate_judge(&mandate, &primary, NOW);
	assert_non_null(strstr(mandate.why, "no term is given"));
}

static void the_primary_has_an_address(void **state)
{
	struct kw_mandate mandate;
	char address[300];

	kw_mandate_init(&mandate, KW_MANDATE_BY_SENTINEL, "kw", NOW);
	assert_false(kw_mandate_primary(&mandate, "", "tcp://", address, sizeof address));
	judge(&mandate, "AR8 BR8 C!", '-');
	assert_true(kw_mandate_primary(&mandate, "", "tcp://", address, sizeof address));
	assert_string_equal(address, "tcp://10.0.0.1:6082");
	/* One sentinel alone leads nowhere. */
	judge(&mandate, "AM7 BM7 CR8", 'M');
	assert_false(kw_mandate_primary(&mandate, "", "tcp://", address, sizeof address));
	snprintf(mandate.verdict.primary.host, sizeof mandate.verdict.primary.host, "fd00::9");
	mandate.verdict.named = true;
	assert_true(kw_mandate_primary(&mandate, "", "tcp://", address, sizeof address));
	assert_string_equal(address, "tcp://[fd00::9]:6082");
}

static void silence_is_told_also_before_a_server_is_followed(void **state)
{
	struct kw_mandate mandate;

	kw_mandate_init(&mandate, KW_MANDATE_BY_SENTINEL, "kw", NOW);
	judge(&mandate, "A! B! C!", '-');
	assert_non_null(strstr(mandate.why, "only 0 of 3 sentinels answered"));
	judge(&mandate, "AM7 BM7 CM7", '-');
	assert_non_null(strstr(mandate.why, "no server is followed yet"));
}

static void a_list_with_too_few_of_the_sentinels_says_so(void **state)
{
	struct kw_mandate mandate;

	kw_mandate_init(&mandate, KW_MANDATE_BY_SENTINEL, "kw", NOW);
	judge(&mandate, "AM7#7 BM7#7 CM7#7", 'M');
	assert_non_null(strstr(mandate.why, "only 3 of 7 sentinels answered"));
	assert_non_null(strstr(mandate.why, "sentinel.addresses has 3 of them"));
}

/* One sentinel tells the name of the server, and another one its number. */
static void the_primary_that_is_reached_is_not_left_for_another_address_of_it(void **state)
{
	struct kw_mandate mandate;
	char address[300];

	kw_mandate_init(&mandate, KW_MANDATE_BY_SENTINEL, "kw", NOW);
	judge(&mandate, "AM7 BM7 CM7", 'M');
	assert_false(kw_mandate_primary(&mandate, run('M'), "tcp://", address, sizeof address));
	assert_true(kw_mandate_primary(&mandate, run('R'), "tcp://", address, sizeof address));
	/* It is not reached (any more): the address can have changed. */
	assert_true(kw_mandate_primary(&mandate, "", "tcp://", address, sizeof address));
}

/* As a chart for Kubernetes names its pods: longer than a label of DNS, which has 63 characters. */
static void a_long_host_name_is_taken(void **state)
{
	static const char host[] = "keywake-redis-node-0.keywake-redis-headless.databases-of-"
				   "production.svc.cluster.local";
	const char *const words[] = {"name", "kw", "ip", host, "port", "6379", "runid",
		"0123456789abcdef0123456789abcdef01234567", "config-epoch", "7",
		"num-other-sentinels", "2"};
	struct kw_reply elements[sizeof words / sizeof *words] = {0};
	const struct kw_reply reply = {.type = KW_REPLY_ARRAY,
		.elements = elements,
		.count = sizeof words / sizeof *words};
	struct kw_sentinel_master master;
	struct kw_sentinel_peer peer;
	struct kw_error error;

	for (size_t i = 0; i < reply.count; i++) {
		elements[i].type = KW_REPLY_STRING;
		elements[i].text = kw_slice_text(words[i]);
	}
	assert_int_equal(kw_sentinel_reply_master(&reply, "kw", &master, &error), KW_OK);
	assert_string_equal(master.primary.host, host);
	assert_true(kw_sentinel_reply_peer(&reply, &peer));
	assert_string_equal(peer.host, host);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_view_is_judged_case_by_case),
		cmocka_unit_test(a_sentinel_that_forgot_the_others_is_no_majority),
		cmocka_unit_test(configured_addresses_are_voters_before_they_answer),
		cmocka_unit_test(what_a_sentinel_tells_is_bounded),
		cmocka_unit_test(the_mandate_follows_the_sentinels),
		cmocka_unit_test(a_mandate_ends_by_itself),
		cmocka_unit_test(a_server_that_says_it_is_a_replica_is_not_confirmed),
		cmocka_unit_test(an_operator_gives_a_term),
		cmocka_unit_test(a_replica_stands_by_while_another_server_is_the_primary),
		cmocka_unit_test(nobody_is_asked_by_default),
		cmocka_unit_test(a_term_begins_at_a_version),
		cmocka_unit_test(the_term_of_a_kept_table_has_begun_already),
		cmocka_unit_test(a_term_higher_than_that_of_a_kept_table_begins_now),
		cmocka_unit_test(a_term_that_a_restart_lowered_is_not_believed),
		cmocka_unit_test(a_lower_term_counts_if_it_is_given_while_the_proxy_runs),
		cmocka_unit_test(the_primary_has_an_address),
		cmocka_unit_test(the_primary_that_is_reached_is_not_left_for_another_address_of_it),
		cmocka_unit_test(silence_is_told_also_before_a_server_is_followed),
		cmocka_unit_test(a_list_with_too_few_of_the_sentinels_says_so),
		cmocka_unit_test(a_long_host_name_is_taken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
