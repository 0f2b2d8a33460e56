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

/* The version belongs to the look before: the question was put after that. */
static void a_look_pairs_the_offset_with_the_version_of_the_look_before(void **state)
{
	struct kw_server_identity server = {
		.major = 7, .role = "master", .offset = 100, .looks = 1};
	struct kw_source_look look = {0};
	struct kw_history history;

	memset(server.replid, 'a', 40);
	kw_source_history_init(&history, "proxy");
	kw_source_history_told(&history, &server);
	assert_false(kw_source_history_looked(&history, &look, &server, 10));
	assert_int_equal(history.looked.offset, 0);
	server.offset = 200;
	assert_false(kw_source_history_looked(&history, &look, &server, 15)); /* the same look */
	server.looks = 2;
	assert_true(kw_source_history_looked(&history, &look, &server, 20));
	assert_int_equal(history.looked.offset, 200);
	assert_int_equal(history.looked.version, 10);
	server.looks = 3;
	assert_true(kw_source_history_looked(&history, &look, &server, 20));
	assert_int_equal(history.looked.version, 20);
	server.looks = 4; /* at rest nothing new is told, so nothing is read */
	assert_false(kw_source_history_looked(&history, &look, &server, 20));
	/* Another history: what was told belongs to the one before. */
	memset(server.replid, 'b', 40);
	server.looks = 5;
	kw_source_history_told(&history, &server);
	assert_int_equal(history.looked.offset, 0);
	assert_false(kw_source_history_looked(&history, &look, &server, 30));
	assert_int_equal(history.looked.offset, 0);
}

static void the_offset_of_a_replica_is_not_told(void **state)
{
	struct kw_server_identity server = {.major = 7, .role = "slave", .offset = 100};
	struct kw_source_look look = {0};
	struct kw_history history;

	memset(server.replid, 'a', 40);
	kw_source_history_init(&history, "proxy");
	kw_source_history_told(&history, &server);
	for (server.looks = 1; server.looks < 4; server.looks++)
		assert_false(kw_source_history_looked(&history, &look, &server, server.looks));
	assert_int_equal(history.looked.offset, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_look_pairs_the_offset_with_the_version_of_the_look_before),
		cmocka_unit_test(the_offset_of_a_replica_is_not_told),
		cmocka_unit_test(a_proxy_that_has_not_asked_says_so),
		cmocka_unit_test(what_the_primary_tells_is_published),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
