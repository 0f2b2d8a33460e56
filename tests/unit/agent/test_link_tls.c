/* Whether the link to a local server speaks TLS: every case. */
#include "primary/link_tls.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct row {
	enum kw_link_tls wish;
	struct kw_link_tls_facts facts; /* replicates, switched, certified, near */
	enum kw_link_speech speech;
};

static const struct row rows[] = {
	/* The server wants no TLS: nothing else matters. */
	{KW_LINK_TLS_FOLLOW, {0, 0, 1, 0}, KW_LINK_PLAIN},
	{KW_LINK_TLS_SWITCH, {0, 0, 0, 0}, KW_LINK_PLAIN},
	{KW_LINK_TLS_OFF, {0, 0, 1, 1}, KW_LINK_PLAIN},
	/* It does. */
	{KW_LINK_TLS_FOLLOW, {1, 0, 1, 0}, KW_LINK_TLS},
	{KW_LINK_TLS_FOLLOW, {1, 0, 0, 1}, KW_LINK_UNCERTIFIED},
	{KW_LINK_TLS_SWITCH, {1, 0, 1, 1}, KW_LINK_PLAIN},
	{KW_LINK_TLS_SWITCH, {1, 0, 1, 0}, KW_LINK_FAR},
	{KW_LINK_TLS_OFF, {1, 0, 1, 1}, KW_LINK_UNWANTED},
	/* An agent has switched it, and was killed. */
	{KW_LINK_TLS_FOLLOW, {0, 1, 1, 0}, KW_LINK_TLS},
	{KW_LINK_TLS_FOLLOW, {0, 1, 0, 1}, KW_LINK_UNCERTIFIED},
	{KW_LINK_TLS_SWITCH, {0, 1, 0, 1}, KW_LINK_PLAIN},
	{KW_LINK_TLS_SWITCH, {0, 1, 0, 0}, KW_LINK_FAR},
	{KW_LINK_TLS_OFF, {0, 1, 0, 1}, KW_LINK_PLAIN},
	/* Somebody has set it back meanwhile. */
	{KW_LINK_TLS_SWITCH, {1, 1, 0, 1}, KW_LINK_PLAIN},
	{KW_LINK_TLS_OFF, {1, 1, 1, 1}, KW_LINK_UNWANTED},
};

static void the_servers_setting_and_the_operators_decide(void **state)
{
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (kw_link_tls_judge(rows[i].wish, &rows[i].facts) != rows[i].speech)
			fail_msg("row %zu", i);
}

static void what_cannot_stand_has_a_remedy(void **state)
{
	assert_null(kw_link_speech_remedy(KW_LINK_PLAIN));
	assert_null(kw_link_speech_remedy(KW_LINK_TLS));
	assert_non_null(strstr(kw_link_speech_remedy(KW_LINK_UNCERTIFIED), "set tls.cert"));
	assert_non_null(strstr(kw_link_speech_remedy(KW_LINK_FAR), "apply.replica.tls=follow"));
	assert_non_null(strstr(kw_link_speech_remedy(KW_LINK_UNWANTED), "use follow or switch"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_servers_setting_and_the_operators_decide),
		cmocka_unit_test(what_cannot_stand_has_a_remedy),
	};

	return cmocka_run_group_tests_name("agent-link-tls", tests, NULL, NULL);
}
