/* A whole agent with a list of proxies: it follows the confirmed one, and goes along when that is
 * another. */
#include "stage.h"

#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define DOMAIN 0x5e471e1
#define A "1111111111111111111111111111111111111111"
#define B "2222222222222222222222222222222222222222"

struct pair {
	struct stage stage; /* its proxy is the first of the list */
	struct test_proxy second;
};

/* What a proxy tells of its server: its data, what came before them, and its mandate. */
struct told {
	const char *replid, *replid2;
	uint64_t proxy;
	enum kw_mandate_state mandate;
	uint64_t term;
	uint64_t branch; /* where the history of `replid2` ends */
	uint64_t offset; /* the server was looked at just now, and told this */
};

static void tell(struct test_proxy *proxy, struct told told)
{
	struct kw_history history = {
		.standing = KW_HISTORY_TOLD,
		.proxy = told.proxy,
		.mandate = told.mandate,
		.term = told.term,
	};

	snprintf(history.replid, sizeof history.replid, "%s", told.replid);
	snprintf(history.replid2, sizeof history.replid2, "%s", told.replid2);
	snprintf(history.proxy_name, sizeof history.proxy_name, "proxy%d", (int)told.proxy);
	history.second_offset = told.branch;
	history.looked.version = told.offset ? kw_table_version(proxy->table) : 0;
	history.looked.offset = told.offset;
	if (told.mandate != KW_MANDATE_NONE) {
		history.term_version = kw_table_version(proxy->table);
		history.domain = DOMAIN;
		history.lease_ms = 900;
	}
	kw_table_set_history(proxy->table, &history);
	proxy->facts.source_state =
		told.mandate == KW_MANDATE_NONE || told.mandate == KW_MANDATE_CONFIRMED
			? KW_SOURCE_LIVE
			: KW_SOURCE_UNCONFIRMED;
	test_proxy_publish(proxy);
}

static void fill(struct test_proxy *proxy, const char *mark)
{
	char key[32];

	for (int i = 0; i < 1000; i++) {
		snprintf(key, sizeof key, "key:%d", i);
		test_proxy_put(proxy, 0, key, "value");
	}
	test_proxy_put(proxy, 0, mark, "1");
	test_proxy_publish(proxy);
}

static void open_pair(struct pair *pair)
{
	struct kw_error error;

	stage_open(&pair->stage, "commands");
	test_proxy_start(&pair->second, &pair->stage.loop, STAGE_EPOCH + 1, true);
	fill(&pair->stage.proxy, "first");
	fill(&pair->second, "second");
	kw_proxies_add(&pair->stage.options.proxies, pair->stage.proxy.address, &error);
	kw_proxies_add(&pair->stage.options.proxies, pair->second.address, &error);
}

static void close_pair(struct pair *pair)
{
	if (pair->stage.agent)
		stage_stop_agent(&pair->stage);
	test_proxy_stop(&pair->second);
	stage_close(&pair->stage);
}

static bool is_warm_at(struct pair *pair, size_t index, const char *mark)
{
	const struct kw_agent *agent = pair->stage.agent;
	char words[64];

	snprintf(words, sizeof words, "exists %s", mark);
	return agent->scouts.current == index && agent->sm.state == KW_AGENT_WARM &&
	       strcmp(stage_cli(&pair->stage, words), "1") == 0;
}

static bool is_warm_at_first(void *arg)
{
	return is_warm_at(arg, 0, "first");
}

static bool is_warm_at_second(void *arg)
{
	return is_warm_at(arg, 1, "second");
}

static void wait_for(struct pair *pair, bool (*holds)(void *arg), const char *what)
{
	test_run(&pair->stage.loop, holds, pair, what);
}

static bool has_lost_key(void *arg)
{
	struct pair *pair = arg;

	return strcmp(stage_cli(&pair->stage, "exists lost"), "1") == 0;
}

static bool knows_a_look(void *arg)
{
	const struct pair *pair = arg;

	return pair->stage.agent->sync.rollback.looks.count > 0;
}

static void the_confirmed_one_is_followed_wherever_it_stands_in_the_list(void **state)
{
	struct pair pair;

	open_pair(&pair);
	tell(&pair.stage.proxy, (struct told){A, "", 1, KW_MANDATE_ELSEWHERE, 6});
	tell(&pair.second, (struct told){B, A, 2, KW_MANDATE_CONFIRMED, 7});
	stage_start_agent(&pair.stage);
	wait_for(&pair, is_warm_at_second, "the agent is warm at the second");
	assert_string_equal(stage_cli(&pair.stage, "exists first"), "0");
	close_pair(&pair);
}

/* The failover of Sentinel: no person does anything, and the agent ends with the new data. */
static void a_failover_is_followed_and_back(void **state)
{
	struct pair pair;

	open_pair(&pair);
	tell(&pair.stage.proxy, (struct told){A, "", 1, KW_MANDATE_CONFIRMED, 6, .offset = 100});
	tell(&pair.second, (struct told){A, "", 2, KW_MANDATE_ELSEWHERE, 0});
	stage_start_agent(&pair.stage);
	wait_for(&pair, is_warm_at_first, "the agent is warm at the first");
	/* Only what is applied from then on can count as lost. */
	wait_for(&pair, knows_a_look, "the agent knows how far the first was");
	test_proxy_put(&pair.stage.proxy, 0, "lost", "1");
	test_proxy_publish(&pair.stage.proxy);
	wait_for(&pair, has_lost_key, "the agent has applied what will be lost");
	tell(&pair.stage.proxy, (struct told){A, "", 1, KW_MANDATE_ELSEWHERE, 6});
	tell(&pair.second, (struct told){B, A, 2, KW_MANDATE_CONFIRMED, 7, .branch = 150});
	wait_for(&pair, is_warm_at_second, "the agent is warm at the second");
	assert_string_equal(stage_cli(&pair.stage, "exists first"), "0");
	assert_int_equal(pair.stage.agent->local.term.term, 7);
	/* The key `lost`. What differs otherwise was not written after the branch. */
	assert_int_equal(pair.stage.agent->sync.rolled_back, 1);
	/* Confirmed in a lower term: that one was deposed, whoever says so. */
	tell(&pair.stage.proxy, (struct told){A, "", 1, KW_MANDATE_CONFIRMED, 6});
	test_run_ms(&pair.stage.loop, 600);
	assert_int_equal(pair.stage.agent->scouts.current, 1);
	tell(&pair.stage.proxy, (struct told){A, B, 1, KW_MANDATE_CONFIRMED, 8});
	wait_for(&pair, is_warm_at_first, "the agent is warm at the first again");
	assert_int_equal(pair.stage.agent->scouts.switches, 2);
	close_pair(&pair);
}

/* The agent missed a promotion, so no id links the two. The authority of before knows better. */
static void a_higher_term_in_the_list_needs_no_link(void **state)
{
	struct pair pair;

	open_pair(&pair);
	tell(&pair.stage.proxy, (struct told){A, "", 1, KW_MANDATE_CONFIRMED, 6});
	tell(&pair.second, (struct told){B, "", 2, KW_MANDATE_ELSEWHERE, 0});
	stage_start_agent(&pair.stage);
	wait_for(&pair, is_warm_at_first, "the agent is warm at the first");
	tell(&pair.stage.proxy, (struct told){A, "", 1, KW_MANDATE_ELSEWHERE, 6});
	tell(&pair.second, (struct told){B, "", 2, KW_MANDATE_CONFIRMED, 8});
	wait_for(&pair, is_warm_at_second, "the agent is warm at the second");
	close_pair(&pair);
}

static void without_mandates_another_data_set_is_never_chosen(void **state)
{
	struct pair pair;

	open_pair(&pair);
	tell(&pair.stage.proxy, (struct told){A, "", 1, KW_MANDATE_NONE, 0});
	tell(&pair.second, (struct told){B, "", 2, KW_MANDATE_NONE, 0});
	stage_start_agent(&pair.stage);
	wait_for(&pair, is_warm_at_first, "the agent is warm at the first");
	pair.stage.proxy.facts.source_state = KW_SOURCE_DOWN;
	test_proxy_publish(&pair.stage.proxy);
	stage_wait_state(&pair.stage, KW_AGENT_STALLED);
	test_run_ms(&pair.stage.loop, 600);
	assert_int_equal(pair.stage.agent->scouts.current, 0);
	/* The same data set by another proxy may be followed. */
	tell(&pair.second, (struct told){A, "", 2, KW_MANDATE_NONE, 0});
	wait_for(&pair, is_warm_at_second, "the agent is warm at the second");
	close_pair(&pair);
}

static bool only_the_followed_one_keeps_tombstones(void *arg)
{
	const struct pair *pair = arg;

	return pair->second.joined > 0 &&
	       kw_server_lowest_passed(pair->second.server) == UINT64_MAX &&
	       kw_server_lowest_passed(pair->stage.proxy.server) != UINT64_MAX;
}

/* A proxy must not keep its tombstones for an agent that does not read them. */
static void a_scout_holds_nothing_up(void **state)
{
	struct pair pair;

	open_pair(&pair);
	tell(&pair.stage.proxy, (struct told){A, "", 1, KW_MANDATE_CONFIRMED, 6});
	tell(&pair.second, (struct told){A, "", 2, KW_MANDATE_ELSEWHERE, 0});
	stage_start_agent(&pair.stage);
	wait_for(&pair, is_warm_at_first, "the agent is warm at the first");
	wait_for(&pair, only_the_followed_one_keeps_tombstones,
		"only the proxy that is followed keeps tombstones");
	close_pair(&pair);
}

static void one_address_has_no_scout(void **state)
{
	struct kw_error error;
	struct pair pair;

	open_pair(&pair);
	pair.stage.options.proxies.count = 1;
	stage_start_agent(&pair.stage);
	wait_for(&pair, is_warm_at_first, "the agent is warm at the first");
	assert_int_equal(pair.stage.agent->scouts.sm.state, KW_SCOUTS_SOLE);
	assert_int_equal(pair.second.joined, 0);
	/* An operator names another list: its first address is followed at once. */
	pair.stage.options.proxies.count = 0;
	kw_proxies_add(&pair.stage.options.proxies, pair.second.address, &error);
	kw_proxies_add(&pair.stage.options.proxies, pair.stage.proxy.address, &error);
	assert_int_equal(
		kw_agent_set_proxies(pair.stage.agent, &pair.stage.options.proxies, &error), KW_OK);
	assert_int_equal(pair.stage.agent->scouts.sm.state, KW_SCOUTS_HOLDING);
	assert_string_equal(pair.stage.agent->follow.proxy, pair.second.address);
	close_pair(&pair);
}

static void a_list_that_cannot_work_is_refused(void **state)
{
	struct kw_proxies proxies = {0};
	struct kw_error error;

	assert_int_equal(kw_proxies_check(&proxies, &error), KW_E_CONFIG);
	assert_int_equal(kw_proxies_add(&proxies, "tcp://127.0.0.1:7471", &error), KW_OK);
	assert_int_equal(kw_proxies_check(&proxies, &error), KW_OK);
	assert_int_equal(kw_proxies_add(&proxies, "tcp://127.0.0.1:7471", &error), KW_OK);
	assert_int_equal(kw_proxies_check(&proxies, &error), KW_E_CONFIG);
	assert_non_null(strstr(error.text, "twice"));
	while (proxies.count < KW_PROXIES_MAX)
		assert_int_equal(kw_proxies_add(&proxies, "nonsense", &error), KW_OK);
	assert_int_equal(kw_proxies_add(&proxies, "nonsense", &error), KW_E_CONFIG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_confirmed_one_is_followed_wherever_it_stands_in_the_list),
		cmocka_unit_test(a_failover_is_followed_and_back),
		cmocka_unit_test(a_higher_term_in_the_list_needs_no_link),
		cmocka_unit_test(without_mandates_another_data_set_is_never_chosen),
		cmocka_unit_test(a_scout_holds_nothing_up),
		cmocka_unit_test(one_address_has_no_scout),
		cmocka_unit_test(a_list_that_cannot_work_is_refused),
	};

	return cmocka_run_group_tests_name("agent-scouts", tests, NULL, NULL);
}
