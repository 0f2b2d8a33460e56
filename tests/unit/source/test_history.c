/* What the proxy publishes of whose data the table holds. */
#include "source/history.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define FIRST "1111111111111111111111111111111111111111"
#define SECOND "2222222222222222222222222222222222222222"
#define ZEROS "0000000000000000000000000000000000000000"

static void assert_publishable(const struct kw_history *history)
{
	struct kw_history_record record;
	struct kw_history found;
	struct kw_error error;

	kw_history_record_make(&record, history);
	assert_int_equal(kw_history_parse(&record, record.checksum, &found, &error), KW_OK);
	assert_true(kw_history_equal(&found, history));
}

static void a_proxy_that_has_not_asked_says_so(void **state)
{
	static const char *const names[] = {
		"hosta/unix:///run/redis.sock",
		"",
		"with spaces and \xff\n",
		"a name of which no more than the front is published, since it is far too long/"
		"unix:///run/redis.sock",
	};
	struct kw_history history, other;

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		kw_source_history_init(&history, names[i]);
		assert_int_equal(history.standing, KW_HISTORY_AWAITED);
		assert_publishable(&history);
		kw_source_history_init(&other, names[i]);
		assert_true(kw_history_equal(&history, &other));
	}
	/* They differ in the part that is not published. */
	kw_source_history_init(&history, names[3]);
	kw_source_history_init(&other,
		"a name of which no more than the front is published, since it is far too long/"
		"unix:///run/other.sock");
	assert_true(history.proxy != other.proxy);
}

struct told {
	const char *replid, *replid2;
	uint64_t offset;
	enum kw_history_standing standing;
	const char *id, *second;
	uint64_t second_offset;
};

static void what_the_primary_tells_is_published(void **state)
{
	static const struct told cases[] = {
		{FIRST, ZEROS, 0, KW_HISTORY_TOLD, FIRST, "", 0},
		{SECOND, FIRST, 815, KW_HISTORY_TOLD, SECOND, FIRST, 815},
		{FIRST, "", 0, KW_HISTORY_TOLD, FIRST, "", 0},
		{"", "", 0, KW_HISTORY_UNTOLD, "", "", 0},
		{ZEROS, ZEROS, 0, KW_HISTORY_UNTOLD, "", "", 0},
		{"nonsense", FIRST, 5, KW_HISTORY_UNTOLD, "", "", 0},
		{FIRST, "nonsense", 5, KW_HISTORY_TOLD, FIRST, "", 0},
	};
	struct kw_history history;

	kw_source_history_init(&history, "x");
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const struct told *c = &cases[i];
		struct kw_server_identity identity = {.second_offset = c->offset};

		strcpy(identity.replid, c->replid);
		strcpy(identity.replid2, c->replid2);
		kw_source_history_told(&history, &identity);
		assert_int_equal(history.standing, c->standing);
		assert_string_equal(history.replid, c->id);
		assert_string_equal(history.replid2, c->second);
		assert_int_equal(history.second_offset, c->second_offset);
		assert_publishable(&history);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_proxy_that_has_not_asked_says_so),
		cmocka_unit_test(what_the_primary_tells_is_published),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
