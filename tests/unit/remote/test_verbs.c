/*
 * The conformance suite, and what a hostile agent gets, over real verbs: the libraries themselves
 * and a device of this machine. Not among the unit tests, for a machine need not have one:
 * tests/rdma runs it in a guest.
 *
 *   test_verbs HOST      the address of the device
 */
#include "carriers.h"
#include "rdma_raw.h"

static int over_rdma(void **state)
{
	(void)state;
	carrier = KW_CARRIER_RDMA;
	return 0;
}

int main(int argc, char **argv)
{
#define T(test) cmocka_unit_test(test)
	static const struct CMUnitTest tests[] = {
		CARRIER_READ_TESTS,
		T(a_killed_proxy_ends_every_read_once_and_the_connection_once),
		T(a_stopped_proxy_is_a_passed_deadline_where_it_serves),
		T(closing_tells_back_the_reads_that_are_out),
		T(closing_while_connecting_is_told_once),
		T(nobody_listening_is_a_sentence_and_not_a_crash),
		T(a_proxy_that_shuts_down_says_so),
		T(many_connections_leave_nothing_behind),
		T(the_right_secret_is_let_in),
		T(a_wrong_secret_is_refused_on_both_sides),
		T(a_missing_secret_is_refused_on_both_sides),
		T(an_agent_with_a_secret_does_not_trust_a_proxy_without),
		T(sixty_four_agents_read_at_once),
		T(one_session_too_many_is_refused_with_the_limit),
		T(one_name_or_peer_does_not_take_all_sessions),
		T(a_silent_session_gives_way_to_its_name),
		T(disconnect_revokes_at_once),
		T(progress_arrives_and_holds_tombstones),
		RDMA_HOSTILE_TESTS(T),
	};

	if (argc == 4 && strcmp(argv[1], "--serve") == 0)
		return serve_main(argv[2], argv[3]);
	if (argc != 2) {
		fprintf(stderr, "usage: %s HOST\n", argv[0]);
		return 2;
	}
	setenv("KW_TEST_RDMA_HOST", argv[1], 1);
	setvbuf(stdout, NULL, _IOLBF, 0);
	return cmocka_run_group_tests_name("verbs", tests, over_rdma, NULL);
}
