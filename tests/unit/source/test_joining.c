/* Which servers take no reader of their replication stream, now or ever. */
#include "feed/stream/joining.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

static void each_reason_has_its_code_and_its_remedy(void **state)
{
	static const struct {
		struct kw_server_identity server;
		int code;
		const char *says;
	} cases[] = {
		{{.major = 7}, KW_OK, ""},
		{{.shutting_down = true}, KW_E_STATE, "shutting down"},
		{{.failing_over = true}, KW_E_STATE, "FAILOVER ABORT"},
		{{.counts_replicas = true}, KW_E_REFUSED, "min-replicas-to-write to 0"},
		{{.writable_replica = true}, KW_E_REFUSED, "replica-read-only to yes"},
		/* What passes comes first: it may be the reason of the other. */
		{{.shutting_down = true, .counts_replicas = true}, KW_E_STATE, "shutting down"},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct kw_error why = {0};

		assert_int_equal(kw_joining_check(&cases[i].server, "here", &why), cases[i].code);
		assert_non_null(strstr(why.text, cases[i].says));
		assert_true(cases[i].code == KW_OK || strncmp(why.text, "here: ", 6) == 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_reason_has_its_code_and_its_remedy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
