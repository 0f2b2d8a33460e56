/*
 * One conformance suite, run over every carrier: what remote.h and server.h promise must not depend
 * on what carries it. Where carriers differ by nature the test says so.
 */
#include "carriers.h"

static int run_over(enum kw_carrier which)
{
	static const struct CMUnitTest tests[] = {
		CARRIER_READ_TESTS,
		CARRIER_END_TESTS,
		CARRIER_SESSION_TESTS,
		CARRIER_LIE_TESTS,
	};

	carrier = which;
	printf("==== carrier %s\n", kw_carrier_name(which));
	return _cmocka_run_group_tests(
		kw_carrier_name(which), tests, sizeof tests / sizeof *tests, NULL, NULL);
}

/* All that holds over tcp holds if answers are compressed; what speaks by hand does not ask for it.
 */
static int run_compressed(void)
{
	static const struct CMUnitTest tests[] = {
		CARRIER_COMPRESS_TESTS,
		CARRIER_READ_TESTS,
		cmocka_unit_test(closing_tells_back_the_reads_that_are_out),
		cmocka_unit_test(closing_amid_large_reads_lets_go_of_their_memory),
		cmocka_unit_test(a_proxy_that_shuts_down_says_so),
		cmocka_unit_test(many_connections_leave_nothing_behind),
		cmocka_unit_test(sixty_four_agents_read_at_once),
		cmocka_unit_test(disconnect_revokes_at_once),
		cmocka_unit_test(progress_arrives_and_holds_tombstones),
		cmocka_unit_test(an_agent_that_does_not_read_costs_the_others_nothing),
	};
	/* Over TLS, what the wire could make a difference to. */
	const size_t count = carrier == KW_CARRIER_TLS ? 5 : sizeof tests / sizeof *tests;
	int failed;

	if (!kw_compression_built()) {
		printf("==== compression: not in this build\n");
		return 0;
	}
	compressed = true;
	printf("==== carrier %s, compressed\n", kw_carrier_name(carrier));
	failed = _cmocka_run_group_tests("compressed", tests, count, NULL, NULL);
	compressed = false;
	return failed;
}

#ifdef KW_HAVE_RDMA
#include "fake_verbs.h"

/*
 * rdma over the fake of its libraries. Both ends live in this process, so what needs a process to
 * kill, or a raw socket to lie through, has its like in test_rdma.c.
 */
static int run_over_rdma(void)
{
	static const struct CMUnitTest tests[] = {
		CARRIER_READ_TESTS,
		cmocka_unit_test(closing_tells_back_the_reads_that_are_out),
		cmocka_unit_test(closing_amid_large_reads_lets_go_of_their_memory),
		cmocka_unit_test(closing_while_connecting_is_told_once),
		cmocka_unit_test(nobody_listening_is_a_sentence_and_not_a_crash),
		cmocka_unit_test(a_proxy_that_shuts_down_says_so),
		cmocka_unit_test(many_connections_leave_nothing_behind),
		cmocka_unit_test(the_right_secret_is_let_in),
		cmocka_unit_test(a_wrong_secret_is_refused_on_both_sides),
		cmocka_unit_test(a_missing_secret_is_refused_on_both_sides),
		cmocka_unit_test(an_agent_with_a_secret_does_not_trust_a_proxy_without),
		cmocka_unit_test(sixty_four_agents_read_at_once),
		cmocka_unit_test(one_session_too_many_is_refused_with_the_limit),
		cmocka_unit_test(one_name_or_peer_does_not_take_all_sessions),
		cmocka_unit_test(a_silent_session_gives_way_to_its_name),
		cmocka_unit_test(disconnect_revokes_at_once),
		cmocka_unit_test(progress_arrives_and_holds_tombstones),
	};
	int failed;

	carrier = KW_CARRIER_RDMA;
	fake_verbs_reset();
	printf("==== carrier rdma, over a fake of its libraries\n");
	failed = _cmocka_run_group_tests("rdma", tests, sizeof tests / sizeof *tests, NULL, NULL);
	if (fake_verbs_left() != 0) {
		printf("%d objects of the libraries were left behind\n", fake_verbs_left());
		failed++;
	}
	return failed;
}
#else
static int run_over_rdma(void)
{
	printf("==== carrier rdma: not in this build\n");
	return 0;
}
#endif

#ifdef KW_HAVE_TLS
#include "tls_kit.h"

/*
 * What needs a process to kill, or a raw socket to speak through, is tried over tcp: the code is
 * the same. What TLS adds has tests of its own (test_wire_tls.c).
 */
static int run_over_tls(void)
{
	static const struct CMUnitTest tests[] = {
		CARRIER_READ_TESTS,
		cmocka_unit_test(closing_tells_back_the_reads_that_are_out),
		cmocka_unit_test(closing_amid_large_reads_lets_go_of_their_memory),
		cmocka_unit_test(closing_while_connecting_is_told_once),
		cmocka_unit_test(nobody_listening_is_a_sentence_and_not_a_crash),
		cmocka_unit_test(a_proxy_that_shuts_down_says_so),
		cmocka_unit_test(many_connections_leave_nothing_behind),
		cmocka_unit_test(the_right_secret_is_let_in),
		cmocka_unit_test(a_wrong_secret_is_refused_on_both_sides),
		cmocka_unit_test(an_agent_with_a_secret_does_not_trust_a_proxy_without),
		cmocka_unit_test(sixty_four_agents_read_at_once),
		cmocka_unit_test(one_session_too_many_is_refused_with_the_limit),
		cmocka_unit_test(one_name_or_peer_does_not_take_all_sessions),
		cmocka_unit_test(disconnect_revokes_at_once),
		cmocka_unit_test(progress_arrives_and_holds_tombstones),
		cmocka_unit_test(a_peer_that_says_nothing_is_let_go),
	};
	int failed;

	carrier = KW_CARRIER_TLS;
	kit_make();
	server_tls = kit_server(&kit.ca, NULL);
	client_tls = kit_client(&kit.ca, &kit.edge);
	printf("==== carrier tcp+tls\n");
	failed =
		_cmocka_run_group_tests("tcp+tls", tests, sizeof tests / sizeof *tests, NULL, NULL);
	failed += run_compressed();
	kw_tls_context_unref(server_tls);
	kw_tls_context_unref(client_tls);
	server_tls = client_tls = NULL;
	kit_free();
	return failed;
}
#else
static int run_over_tls(void)
{
	printf("==== carrier tcp+tls: not in this build\n");
	return 0;
}
#endif

int main(int argc, char **argv)
{
	int failed;

	if (argc == 4 && strcmp(argv[1], "--serve") == 0)
		return serve_main(argv[2], argv[3]);
	failed = run_over(KW_CARRIER_SHM);
	failed += run_over(KW_CARRIER_TCP);
	failed += run_compressed();
	failed += run_over_tls();
	failed += run_over_rdma();
	return failed;
}
