/* Which local data may be replaced. */
#include "sync/claim.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define FOREIGN KW_SYNC_DATA_FOREIGN
#define OURS KW_SYNC_DATA_OURS
#define CLAIMED KW_SYNC_DATA_CLAIMED
#define NOT_COUNTED KW_CLAIM_NOT_COUNTED
#define COUNTED_MOST 1000

static const struct {
	const char *what;
	struct kw_claim_facts facts; /* scope, data, consent, keys, counted */
	enum kw_claim claim;
} cases[] = {
	{"an empty server", {KW_CLAIM_DATABASES, FOREIGN, false, 0, NOT_COUNTED}, KW_CLAIM_EMPTY},
	{"data of others", {KW_CLAIM_DATABASES, FOREIGN, false, 1, NOT_COUNTED}, KW_CLAIM_REFUSED},
	{"… with consent", {KW_CLAIM_DATABASES, FOREIGN, true, 1, NOT_COUNTED}, KW_CLAIM_CONSENTED},
	{"data with our cursor", {KW_CLAIM_DATABASES, OURS, false, 1, NOT_COUNTED}, KW_CLAIM_OURS},
	{"data that we wrote", {KW_CLAIM_DATABASES, CLAIMED, false, 1, NOT_COUNTED}, KW_CLAIM_OURS},
	{"keys of any prefix", {KW_CLAIM_SOME_KEYS, FOREIGN, false, 5, NOT_COUNTED},
		KW_CLAIM_UNKNOWN},
	{"none of our prefixes", {KW_CLAIM_SOME_KEYS, FOREIGN, false, 5, 0}, KW_CLAIM_EMPTY},
	{"some of our prefixes", {KW_CLAIM_SOME_KEYS, FOREIGN, false, 5, 2}, KW_CLAIM_REFUSED},
	{"no keys, and an old count", {KW_CLAIM_SOME_KEYS, FOREIGN, false, 0, 2}, KW_CLAIM_EMPTY},
	{"prefixes with consent", {KW_CLAIM_SOME_KEYS, FOREIGN, true, 5, NOT_COUNTED},
		KW_CLAIM_CONSENTED},
	{"prefixes and our cursor", {KW_CLAIM_SOME_KEYS, OURS, false, 5, NOT_COUNTED},
		KW_CLAIM_OURS},
	{"everything, and nothing there", {KW_CLAIM_EVERYTHING, FOREIGN, false, 0, NOT_COUNTED},
		KW_CLAIM_REFUSED},
	{"everything, although it is ours", {KW_CLAIM_EVERYTHING, OURS, false, 5, NOT_COUNTED},
		KW_CLAIM_REFUSED},
	{"everything, with consent", {KW_CLAIM_EVERYTHING, FOREIGN, true, 5, NOT_COUNTED},
		KW_CLAIM_CONSENTED},
};

static void data_of_others_need_consent(void **state)
{
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		enum kw_claim claim = kw_claim_judge(&cases[i].facts);

		if (claim != cases[i].claim)
			fail_msg("%s: %d", cases[i].what, (int)claim);
		assert_int_equal(kw_claim_granted(claim), claim <= KW_CLAIM_EMPTY);
	}
}

static const struct {
	struct kw_claim_facts facts;
	const char *says[2];
} refusals[] = {
	{{KW_CLAIM_DATABASES, FOREIGN, false, 7, NOT_COUNTED},
		{"holds 7 keys", "give it an empty"}},
	{{KW_CLAIM_SOME_KEYS, FOREIGN, false, 7, 3}, {"holds 3 keys", "apply.consent=true"}},
	{{KW_CLAIM_SOME_KEYS, FOREIGN, false, 7000, COUNTED_MOST},
		{"holds at least 1000 keys", "apply.consent=true"}},
	{{KW_CLAIM_EVERYTHING, OURS, false, 7, NOT_COUNTED},
		{"apply.mode=replica replaces everything", "apply.consent=true"}},
};

static void a_refusal_says_how_much_is_there_and_what_to_do(void **state)
{
	char text[256];

	for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
		kw_claim_refusal(&refusals[i].facts, "replica", COUNTED_MOST, text, sizeof text);
		for (int k = 0; k < 2; k++)
			if (!strstr(text, refusals[i].says[k]))
				fail_msg("'%s' does not say '%s'", text, refusals[i].says[k]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(data_of_others_need_consent),
		cmocka_unit_test(a_refusal_says_how_much_is_there_and_what_to_do),
	};

	return cmocka_run_group_tests_name("agent-claim", tests, NULL, NULL);
}
