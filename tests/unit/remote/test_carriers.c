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

int main(int argc, char **argv)
{
	int failed;

	if (argc == 4 && strcmp(argv[1], "--serve") == 0)
		return serve_main(argv[2], argv[3]);
	failed = run_over(KW_CARRIER_SHM);
	failed += run_over(KW_CARRIER_TCP);
	return failed;
}
