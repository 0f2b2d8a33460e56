/* How often what does not verify is read again. */
#include "sync/reread.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define NOW_US 1000000

static void pauses_grow_until_it_is_damage(void **state)
{
	struct kw_reread reread;
	uint64_t longest_us = 0;

	kw_reread_init(&reread);
	for (int i = 1; i <= KW_REREAD_MAX; i++) {
		assert_false(kw_reread_is_damage(&reread));
		kw_reread_failed(&reread, "a checksum", NOW_US);
		assert_true(reread.not_before_us > NOW_US);
		assert_true(i < 3 || reread.not_before_us - NOW_US > longest_us / 2);
		longest_us = reread.not_before_us - NOW_US;
	}
	assert_true(kw_reread_is_damage(&reread));
	assert_string_equal(reread.why, "a checksum");
}

static void a_pass_that_verifies_begins_the_count_anew(void **state)
{
	struct kw_reread reread;

	kw_reread_init(&reread);
	for (int i = 0; i < 3 * KW_REREAD_MAX; i++) {
		kw_reread_failed(&reread, "a checksum", NOW_US);
		if (i % 2)
			kw_reread_verified(&reread);
		assert_false(kw_reread_is_damage(&reread));
	}
	assert_int_equal(reread.ever, 3 * KW_REREAD_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pauses_grow_until_it_is_damage),
		cmocka_unit_test(a_pass_that_verifies_begins_the_count_anew),
	};

	return cmocka_run_group_tests_name("agent-reread", tests, NULL, NULL);
}
