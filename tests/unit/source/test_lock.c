/* The lock of a proxy: one client at a time, and a client that has lost it can do nothing more. */
#include "lock.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define S UINT64_C(1000000)

static const struct kw_proxy_lock_asker ann = {0, 1, "ann"}, bob = {0, 2, "bob"};

static struct kw_error error;

static void one_client_has_it_at_a_time(void **state)
{
	const struct kw_proxy_lock_asker again = {7, 3, "ann"};
	struct kw_proxy_lock lock = {0};

	(void)state;
	assert_int_equal(kw_proxy_lock_check(&lock, 0, &error), 0);
	assert_int_equal(kw_proxy_lock_take(&lock, &ann, 7, S, &error), 0);
	assert_int_equal(kw_proxy_lock_take(&lock, &bob, 8, S, &error), KW_E_REFUSED);
	assert_non_null(strstr(error.text, "ann"));
	assert_int_equal(kw_proxy_lock_check(&lock, 0, &error), KW_E_REFUSED);
	assert_int_equal(kw_proxy_lock_check(&lock, 8, &error), KW_E_REFUSED);
	assert_int_equal(kw_proxy_lock_check(&lock, 7, &error), 0);
	/* Its holder keeps it, by another connection, too. */
	assert_int_equal(kw_proxy_lock_take(&lock, &again, 9, 2 * S, &error), 0);
	assert_int_equal(lock.token, 7);
	assert_int_equal(lock.connection, 3);
	assert_int_equal(lock.until_us, 2 * S);
	kw_proxy_lock_release(&lock, 8);
	kw_proxy_lock_release(&lock, 0);
	assert_int_equal(lock.token, 7);
	kw_proxy_lock_release(&lock, 7);
	assert_int_equal(kw_proxy_lock_take(&lock, &bob, 8, S, &error), 0);
}

static void it_ends_with_its_connection_or_at_its_time(void **state)
{
	const struct kw_proxy_lock_asker late = {7, 1, "ann"};

	(void)state;
	for (int gone = 0; gone < 2; gone++) {
		struct kw_proxy_lock lock = {0};

		assert_int_equal(kw_proxy_lock_take(&lock, &ann, 7, S, &error), 0);
		kw_proxy_lock_expire(&lock, true, S - 1);
		assert_int_equal(kw_proxy_lock_check(&lock, 7, &error), 0);
		kw_proxy_lock_expire(&lock, !gone, gone ? 0 : S);
		assert_int_equal(kw_proxy_lock_check(&lock, 0, &error), 0);
		/* Who had it is told so, whether another one has it by now or not. */
		assert_int_equal(kw_proxy_lock_check(&lock, 7, &error), KW_E_REFUSED);
		assert_non_null(strstr(error.text, "has lost the lock"));
		assert_int_equal(kw_proxy_lock_take(&lock, &late, 9, 2 * S, &error), KW_E_REFUSED);
		assert_int_equal(kw_proxy_lock_take(&lock, &bob, 8, 2 * S, &error), 0);
		assert_int_equal(kw_proxy_lock_check(&lock, 7, &error), KW_E_REFUSED);
		assert_non_null(strstr(error.text, "bob"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_client_has_it_at_a_time),
		cmocka_unit_test(it_ends_with_its_connection_or_at_its_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
