/* Whom a unix socket's end may trust without a key. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "auth/peer.h"

#define OVERFLOW 65534

static void a_user_is_judged_by_the_table(void **state)
{
	static const struct {
		uint32_t own, peer;
		enum kw_peer_user expected;
	} cases[] = {
		{990, 990, KW_PEER_LISTED}, /* our own */
		{990, 0, KW_PEER_LISTED},   /* root can do all of it anyway */
		{990, 991, KW_PEER_LISTED},
		{990, 992, KW_PEER_LISTED},
		{990, 993, KW_PEER_UNLISTED},
		{990, 1000, KW_PEER_UNLISTED},
		{990, UINT32_MAX, KW_PEER_UNLISTED},
		{0, 990, KW_PEER_UNLISTED},
		{0, 991, KW_PEER_LISTED},
		{990, OVERFLOW, KW_PEER_UNSEEN},
		{0, OVERFLOW, KW_PEER_UNSEEN},
		{OVERFLOW, OVERFLOW, KW_PEER_LISTED}, /* we run as nobody */
		{OVERFLOW, 993, KW_PEER_UNLISTED},
	};
	struct kw_peer_users users = {0};

	kw_peer_users_add(&users, 991);
	kw_peer_users_add(&users, 992);
	kw_peer_users_add(&users, OVERFLOW); /* a name can lead there; it lists nobody */
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const struct kw_peer_self self = {cases[i].own, OVERFLOW};

		if (kw_peer_judge(&users, &self, cases[i].peer) != cases[i].expected)
			fail_msg("case %zu", i);
	}
}

static void without_a_list_only_our_own_user_and_root_are_listed(void **state)
{
	const struct kw_peer_users nobody = {0};
	const struct kw_peer_self self = {990, OVERFLOW};

	assert_int_equal(kw_peer_judge(&nobody, &self, 990), KW_PEER_LISTED);
	assert_int_equal(kw_peer_judge(&nobody, &self, 0), KW_PEER_LISTED);
	assert_int_equal(kw_peer_judge(&nobody, &self, 991), KW_PEER_UNLISTED);
}

static void a_list_is_bounded_and_holds_each_user_once(void **state)
{
	struct kw_peer_users users = {0};

	for (int round = 0; round < 2; round++)
		for (uint32_t i = 0; i < KW_PEER_USERS_MAX; i++)
			assert_true(kw_peer_users_add(&users, 1000 + i));
	assert_int_equal(users.count, KW_PEER_USERS_MAX);
	assert_false(kw_peer_users_add(&users, 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_user_is_judged_by_the_table),
		cmocka_unit_test(without_a_list_only_our_own_user_and_root_are_listed),
		cmocka_unit_test(a_list_is_bounded_and_holds_each_user_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
