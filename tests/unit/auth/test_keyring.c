/* The file of keys, and what a ring says of a key that was proved: tables of cases. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "auth/keyring.h"

/* 16 bytes each. */
#define SECRET "000102030405060708090a0b0c0d0e0f"
#define OTHER "ff0102030405060708090a0b0c0d0e0f"
#define THIRD "ee0102030405060708090a0b0c0d0e0f"
#define FOURTH "dd0102030405060708090a0b0c0d0e0f"
#define FIFTH "cc0102030405060708090a0b0c0d0e0f"

static struct kw_keyring *parse(const char *text)
{
	struct kw_error error = {0};
	struct kw_keyring *ring = kw_keyring_new((struct kw_slice){0}, kw_slice_text(text), &error);

	if (!ring)
		fail_msg("%s: %s", text, error.text);
	return ring;
}

static const struct kw_key *only(const struct kw_keyring *ring, const char *id)
{
	const struct kw_key *found[KW_KEY_LINES_MAX];

	assert_int_equal(kw_keyring_find(ring, id, found), 1);
	return found[0];
}

static void a_file_is_refused_with_line_and_remedy(void **state)
{
	static const struct {
		const char *text, *error;
	} cases[] = {
		{"kee a " SECRET, "line 1: a line begins with the word key"},
		{"# why\n\nkey a " SECRET "\nkey", "line 4: an id must follow the word key"},
		{"# nothing", "it has no key: a line of it is"},
		{"\n", "it has no key"},
		{"key a/b " SECRET, "line 1: the id of a key is 1 to 32 of the characters"},
		{"key abcdefghijabcdefghijabcdefghijabc " SECRET, "the id of a key is 1 to 32"},
		{"key a", "line 1: the secret of a key is 32 to 128 hexadecimal digits"},
		{"key a 0011", "make one by openssl rand -hex 32"},
		{"key a " SECRET "0", "two a byte"},
		{"key a " SECRET SECRET SECRET SECRET "00", "32 to 128 hexadecimal digits"},
		{"key a g00102030405060708090a0b0c0d0e0f", "hexadecimal digits"},
		{"key a " SECRET " database=0", "word 4: no such rule: known are databases="},
		{"key a " SECRET " expires=2027-02-30", "word 4: expires=: write one day, or one"},
		{"key a " SECRET " expires=2027-1-3", "expires=2027-01-31T18:00:00Z"},
		{"key a " SECRET " expires=2027-01-31T18:00:00", "expires=: write one day"},
		{"key a " SECRET " expires=2027-01-31T18:00:00ZZ", "expires=: write one day"},
		{"key a " SECRET " expires= ", "expires=: write one day"},
		{"key a " SECRET " expires=1960-01-01", "expires=: write one day"},
		{"key a " SECRET " expires=2027-01-01 expires=2027-01-02",
			"word 5: expires=: write"},
		{"key a " SECRET " sessions", "word 4: no such rule"},
		{"key a " SECRET " role=agent databases=", "word 5: databases=: a database is a"},
		{"key a " SECRET " databases=0,", "databases=: a database is a number"},
		{"key a " SECRET " databases=x", "databases=: a database is a number"},
		{"key a " SECRET " databases=65536", "no database above 65535"},
		{"key a " SECRET " databases=1,1", "database 1 is named twice"},
		{"key a " SECRET " databases=1 databases=2", "name them in one word"},
		{"key a " SECRET " prefix=", "every key begins with an empty prefix"},
		{"key a " SECRET " prefix=a prefix=%61", "a prefix is named twice"},
		{"key a " SECRET " prefix=%", "two hexadecimal digits must follow a %"},
		{"key a " SECRET " prefix=%2", "two hexadecimal digits must follow a %"},
		{"key a " SECRET " prefix=%2x", "two hexadecimal digits must follow a %"},
		{"key a " SECRET " carriers=", "carriers=: write shm, tcp, tcp+tls or rdma"},
		{"key a " SECRET " carriers=udp", "carriers=: write shm, tcp, tcp+tls or rdma"},
		{"key a " SECRET " carriers=shm carriers=tcp", "carriers=: it is there twice"},
		{"key a " SECRET " role=admin", "role=: write agent or gateway"},
		{"key a " SECRET " sessions=0", "sessions=: write one number from 1 to 4096"},
		{"key a " SECRET " sessions=4097", "sessions=: write one number"},
		{"key a " SECRET " sessions=-1", "sessions=: write one number"},
		{"key a " SECRET " sessions=1 sessions=2", "sessions=: write one number"},
		{"key a " SECRET "\nkey b " SECRET, "two lines have the same secret"},
		{"key a " SECRET "\nkey a " SECRET, "two lines have the same secret"},
		/* HMAC fills a key up with zeros, so these prove the same. */
		{"key a " SECRET "\nkey b " SECRET "00", "two lines have the same secret"},
		{"key a " SECRET "0000\nkey b " OTHER "\nkey c " SECRET "00",
			"two lines have the same secret"},
		{"key a " SECRET "\nkey a " OTHER "\nkey a " THIRD,
			"more than 2 lines for the key a"},
		{"key a " SECRET " databases=1\nkey a " OTHER, "key a have different rules"},
		{"key a " SECRET " prefix=a\nkey a " OTHER " prefix=b", "different rules"},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct kw_error error = {0};

		if (kw_keyring_new((struct kw_slice){0}, kw_slice_text(cases[i].text), &error))
			fail_msg("taken: %s", cases[i].text);
		assert_int_equal(error.code, KW_E_CONFIG);
		if (!strstr(error.text, cases[i].error))
			fail_msg("%s\n%s", error.text, cases[i].error);
		if (strstr(error.text, "0405") || strstr(error.text, "0a0b"))
			fail_msg("it quotes the secret: %s", error.text);
	}
}

/* The file of an agent with an id has the digits; one without an id has any bytes. */
static void the_secret_without_an_id_is_no_keys_secret(void **state)
{
	static const struct kw_slice texts[] = {
		{SECRET, sizeof SECRET - 1},
		{"abcdefghijklmnop", 16},
	};
	static const char *const lines[] = {
		"key a " SECRET, "key a 6162636465666768696a6b6c6d6e6f70"};
	struct kw_error error = {0};

	for (size_t i = 0; i < 2; i++) {
		struct kw_keyring *ring =
			kw_keyring_new(texts[1 - i], kw_slice_text(lines[i]), &error);

		assert_non_null(ring);
		kw_keyring_release(ring);
		assert_null(kw_keyring_new(texts[i], kw_slice_text(lines[i]), &error));
		assert_non_null(strstr(error.text, "key a has the secret of auth.secret_file"));
	}
}

static void a_zero_byte_is_refused(void **state)
{
	struct kw_error error = {0};

	assert_null(kw_keyring_new((struct kw_slice){0}, kw_slice("key a\0b", 7), &error));
	assert_non_null(strstr(error.text, "is it the right file"));
}

static void a_line_gives_id_secret_and_rules(void **state)
{
	struct kw_keyring *ring = parse(
		"# keys\r\n"
		"key edge-1\t" SECRET "  databases=2,0 prefix=session: prefix=cart%20: sessions=4 "
		"role=agent # old\r\n"
		"\n"
		"key gw.A_2 " OTHER SECRET " carriers=shm,tcp role=gateway,agent");
	const struct kw_key *edge = only(ring, "edge-1"), *gateway = only(ring, "gw.A_2");

	assert_int_equal(kw_keyring_count(ring), 2);
	assert_int_equal(edge->secret.length, 16);
	assert_int_equal(((const uint8_t *)edge->secret.data)[10], 10);
	assert_int_equal(edge->rules.sessions, 4);
	assert_int_equal(edge->rules.roles, 1 << KW_ROLE_AGENT);
	assert_int_equal(edge->rules.carriers, 0);
	assert_true(kw_scope_narrow(&edge->rules.scope));
	assert_int_equal(gateway->secret.length, 32);
	assert_int_equal(gateway->rules.carriers, 1 << KW_CHANNEL_SHM | 1 << KW_CHANNEL_TCP);
	assert_int_equal(gateway->rules.roles, 1 << KW_ROLE_AGENT | 1 << KW_ROLE_GATEWAY);
	assert_false(kw_scope_narrow(&gateway->rules.scope));
	kw_keyring_release(ring);
}

static void a_scope_allows_its_databases_and_prefixes(void **state)
{
	static const struct {
		const char *rules;
		uint32_t database;
		const char *key;
		bool allowed;
	} cases[] = {
		{"", 0, "k", true},
		{"", 65535, "", true},
		{"databases=0,2", 0, "k", true},
		{"databases=0,2", 1, "k", false},
		{"databases=0,2", 2, "k", true},
		{"databases=0,2", 65536, "k", false},
		{"prefix=a", 9, "ab", true},
		{"prefix=a", 9, "a", true},
		{"prefix=a", 9, "", false},
		{"prefix=a", 9, "ba", false},
		{"prefix=a prefix=b", 9, "ba", true},
		{"prefix=a%20b", 0, "a bc", true},
		{"prefix=a%20b", 0, "a%20bc", false},
		{"prefix=%25", 0, "%", true},
		{"databases=1 prefix=a", 1, "a", true},
		{"databases=1 prefix=a", 0, "a", false},
		{"databases=1 prefix=a", 1, "b", false},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char text[200];
		struct kw_keyring *ring;

		snprintf(text, sizeof text, "key a " SECRET " %s", cases[i].rules);
		ring = parse(text);
		if (kw_scope_allows(&only(ring, "a")->rules.scope, cases[i].database,
			    kw_slice_text(cases[i].key)) != cases[i].allowed)
			fail_msg("%s: %u %s", cases[i].rules, cases[i].database, cases[i].key);
		kw_keyring_release(ring);
	}
}

static void equal_scopes_are_written_equally(void **state)
{
	struct kw_keyring *ring =
		parse("key a " SECRET " prefix=b prefix=a%20\xc3\xa4 databases=3,1");
	struct kw_buffer text = {0};

	kw_scope_write(&only(ring, "a")->rules.scope, &text);
	kw_buffer_append(&text, "", 1);
	assert_string_equal(
		(const char *)kw_buffer_bytes(&text), "databases=1,3 prefix=a%20%c3%a4 prefix=b");
	kw_buffer_close(&text);
	kw_keyring_release(ring);
}

static void both_lines_of_an_id_are_found(void **state)
{
	struct kw_keyring *ring = parse("key b " SECRET "\nkey a " OTHER "\nkey b " THIRD);
	const struct kw_key *found[KW_KEY_LINES_MAX];

	assert_int_equal(kw_keyring_find(ring, "b", found), 2);
	assert_string_equal(found[0]->id, "b");
	assert_string_equal(found[1]->id, "b");
	assert_int_equal(kw_keyring_find(ring, "a", found), 1);
	assert_int_equal(kw_keyring_find(ring, "", found), 0);
	assert_int_equal(kw_keyring_find(ring, "c", found), 0);
	assert_int_equal(kw_keyring_find(ring, "B", found), 0);
	kw_keyring_release(ring);
}

static void the_secret_without_an_id_stands_beside_the_file(void **state)
{
	struct kw_keyring *ring =
		kw_keyring_new(kw_slice_text("any bytes"), kw_slice_text("key a " SECRET), NULL);

	assert_int_equal(kw_keyring_count(ring), 2);
	assert_int_equal(only(ring, "")->secret.length, 9);
	assert_int_equal(only(ring, "a")->secret.length, 16);
	kw_keyring_release(ring);
	ring = kw_keyring_new((struct kw_slice){0}, (struct kw_slice){0}, NULL);
	assert_int_equal(kw_keyring_count(ring), 0);
	kw_keyring_release(ring);
}

static void a_ring_judges_what_was_proved_under_another(void **state)
{
	static const char before[] = "key a " SECRET " databases=0,1 sessions=2";
	static const struct {
		const char *after;
		int standing;
	} cases[] = {
		{"key a " SECRET " databases=0,1 sessions=2", KW_KEY_HOLDS},
		{"key b " OTHER "\n# moved\nkey a " SECRET " sessions=2 databases=1,0",
			KW_KEY_HOLDS},
		{"key a " OTHER " databases=0,1 sessions=2\nkey a " SECRET
		 " databases=0,1 sessions=2",
			KW_KEY_HOLDS},
		{"key a " SECRET " databases=0,1", KW_KEY_CHANGED},
		{"key a " SECRET " databases=0 sessions=2", KW_KEY_CHANGED},
		{"key a " SECRET " databases=0,1 sessions=2 prefix=x", KW_KEY_CHANGED},
		{"key a " SECRET " databases=0,1 sessions=2 role=agent", KW_KEY_CHANGED},
		{"key a " SECRET " databases=0,1 sessions=2 carriers=tcp", KW_KEY_CHANGED},
		{"key a " OTHER " databases=0,1 sessions=2", KW_KEY_CHANGED},
		{"key a " SECRET "00 databases=0,1 sessions=2", KW_KEY_CHANGED},
		{"key b " SECRET " databases=0,1 sessions=2", KW_KEY_GONE},
	};
	uint8_t digest[KW_KEY_DIGEST_BYTES];
	struct kw_keyring *old = parse(before);

	memcpy(digest, only(old, "a")->digest, sizeof digest);
	kw_keyring_release(old);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct kw_keyring *ring = parse(cases[i].after);

		if ((int)kw_keyring_judge(ring, "a", digest) != cases[i].standing)
			fail_msg("%s", cases[i].after);
		kw_keyring_release(ring);
	}
}

static void a_key_is_for_its_carriers_and_roles(void **state)
{
	static const struct {
		const char *rules;
		int carrier, role;
		bool allowed;
	} cases[] = {
		{"", KW_CHANNEL_SHM, KW_ROLE_AGENT, true},
		{"", KW_CHANNEL_TLS, KW_ROLE_INSPECTOR, true},
		{"carriers=tcp", KW_CHANNEL_TCP, KW_ROLE_AGENT, true},
		{"carriers=tcp", KW_CHANNEL_SHM, KW_ROLE_AGENT, false},
		{"carriers=tcp", KW_CHANNEL_TLS, KW_ROLE_AGENT, false},
		{"carriers=tcp+tls", KW_CHANNEL_TLS, KW_ROLE_AGENT, true},
		{"carriers=tcp+tls", KW_CHANNEL_TCP, KW_ROLE_AGENT, false},
		{"carriers=tcp,rdma", KW_CHANNEL_RDMA, KW_ROLE_AGENT, true},
		{"role=agent", KW_CHANNEL_SHM, KW_ROLE_AGENT, true},
		{"role=agent", KW_CHANNEL_SHM, KW_ROLE_INSPECTOR, true},
		{"role=agent", KW_CHANNEL_SHM, KW_ROLE_GATEWAY, false},
		{"role=gateway", KW_CHANNEL_SHM, KW_ROLE_INSPECTOR, false},
		{"role=gateway,agent", KW_CHANNEL_SHM, KW_ROLE_GATEWAY, true},
		{"role=gateway carriers=tcp", KW_CHANNEL_SHM, KW_ROLE_GATEWAY, false},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char text[200];
		struct kw_keyring *ring;

		snprintf(text, sizeof text, "key a " SECRET " %s", cases[i].rules);
		ring = parse(text);
		if (kw_key_allows(&only(ring, "a")->rules, (enum kw_channel_kind)cases[i].carrier,
			    (enum kw_role)cases[i].role) != cases[i].allowed)
			fail_msg("%s: %d %d", cases[i].rules, cases[i].carrier, cases[i].role);
		kw_keyring_release(ring);
	}
}

static void a_revoked_id_is_neither_found_nor_holds(void **state)
{
	struct kw_keyring *ring = parse("key a " SECRET "\nkey b " OTHER "\nkey a " THIRD);
	const struct kw_key *found[KW_KEY_LINES_MAX], *b = only(ring, "b");

	assert_int_equal(kw_keyring_find(ring, "a", found), 2);
	assert_int_equal(kw_keyring_revoke(ring, "c"), 0);
	assert_int_equal(kw_keyring_judge(ring, "a", found[1]->digest), KW_KEY_HOLDS);
	assert_int_equal(kw_keyring_revoke(ring, "a"), 2);
	assert_int_equal(kw_keyring_judge(ring, "a", found[1]->digest), KW_KEY_GONE);
	assert_int_equal(kw_keyring_find(ring, "a", found), 0);
	assert_int_equal(kw_keyring_judge(ring, "b", b->digest), KW_KEY_HOLDS);
	kw_keyring_release(ring);
}

struct told {
	int count;
	char last[KW_KEY_ID_MAX + 1];
};

static void tell(void *arg, const char *id)
{
	struct told *told = arg;

	told->count++;
	snprintf(told->last, sizeof told->last, "%s", id);
}

static int count_lifted(const struct kw_keyring *before, const char *after_text, struct told *told)
{
	struct kw_keyring *after = parse(after_text);

	*told = (struct told){0};
	kw_keyring_each_lifted(before, after, tell, told);
	kw_keyring_release(after);
	return told->count;
}

/* Of an id with two lines it is told once. One that expired was not revoked. */
static void what_a_new_ring_lets_in_again_is_told(void **state)
{
	struct kw_keyring *ring =
		parse("key a " SECRET "\nkey a " THIRD "\nkey b " OTHER " expires=1970-01-02");
	struct told told;
	bool withdrawn;

	assert_int_equal(kw_keyring_expire(ring, 86400, 0, &withdrawn), 1);
	assert_int_equal(count_lifted(ring, "key a " SECRET "\nkey b " OTHER, &told), 0);
	kw_keyring_revoke(ring, "a");
	assert_int_equal(count_lifted(ring, "key a " SECRET "\nkey b " OTHER, &told), 1);
	assert_string_equal(told.last, "a");
	assert_int_equal(count_lifted(ring, "key b " OTHER, &told), 0);
	/* Revoked after its time: it is the operator's word that counts. */
	kw_keyring_revoke(ring, "b");
	assert_int_equal(count_lifted(ring, "key b " OTHER, &told), 1);
	assert_string_equal(told.last, "b");
	kw_keyring_release(ring);
}

#define JAN_31 INT64_C(1801353600) /* 2027-01-31 00:00:00 UTC */

static void an_expired_line_is_refused_and_the_other_one_holds(void **state)
{
	struct kw_keyring *ring = parse("key a " SECRET " expires=2027-01-31\nkey a " OTHER
					"\nkey b " THIRD " expires=2027-01-31T00:00:01Z");
	const struct kw_key *found[KW_KEY_LINES_MAX], *b = only(ring, "b");
	bool withdrawn;

	assert_int_equal(kw_keyring_expire(ring, JAN_31 - 1, ~0U, &withdrawn), 0);
	assert_false(withdrawn);
	assert_int_equal(kw_keyring_find(ring, "a", found), 2);
	assert_int_equal(kw_keyring_expire(ring, JAN_31, ~0U, &withdrawn), 1);
	assert_true(withdrawn);
	assert_int_equal(only(ring, "a")->expires_s, 0);
	assert_int_equal(kw_keyring_judge(ring, "b", b->digest), KW_KEY_HOLDS);
	assert_int_equal(kw_keyring_expire(ring, JAN_31 + 1, ~0U, &withdrawn), 1);
	assert_int_equal(kw_keyring_judge(ring, "b", b->digest), KW_KEY_GONE);
	assert_int_equal(kw_keyring_expire(ring, JAN_31 - 1, ~0U, &withdrawn), 0);
	assert_false(withdrawn);
	assert_int_equal(kw_keyring_find(ring, "b", found), 0);
	kw_keyring_release(ring);
}

static void note_expiry(void *arg, const char *id, int64_t at_s)
{
	char *text = arg;

	sprintf(text + strlen(text), "%s:%+d ", id, (int)(at_s - JAN_31));
}

static void what_runs_out_is_told_by_id(void **state)
{
	struct kw_keyring *ring = parse(
		"key a " SECRET " expires=2027-01-31\nkey a " OTHER "\nkey b " THIRD
		" expires=2027-01-31T00:01:00Z\nkey b " FOURTH " expires=2027-01-31\nkey c " FIFTH);
	char text[128] = "";
	bool withdrawn;

	kw_keyring_each_expiry(ring, note_expiry, text);
	assert_string_equal(text, "b:+60 ");
	/* What has expired stays in the list: that is what an alert is about. */
	kw_keyring_expire(ring, JAN_31 + 100, ~0U, &withdrawn);
	kw_keyring_each_expiry(ring, note_expiry, text);
	assert_string_equal(text, "b:+60 b:+60 ");
	kw_keyring_release(ring);
}

/* An operator who adds a date to a line, and reloads, ends no session. */
static void a_date_changes_no_key(void **state)
{
	struct kw_keyring *before = parse("key a " SECRET " role=agent");
	struct kw_keyring *after = parse("key a " SECRET " role=agent expires=2027-01-31");

	assert_int_equal(kw_keyring_judge(after, "a", only(before, "a")->digest), KW_KEY_HOLDS);
	kw_keyring_release(before);
	kw_keyring_release(after);
}

static void a_ring_lives_as_long_as_it_is_held(void **state)
{
	struct kw_keyring *ring = parse("key a " SECRET);
	const struct kw_key *key = only(ring, "a");

	assert_ptr_equal(kw_keyring_hold(ring), ring);
	kw_keyring_release(ring);
	assert_int_equal(((const uint8_t *)key->secret.data)[15], 15);
	kw_keyring_release(ring);
	kw_keyring_release(NULL);
}

static void an_id_is_checked_alone_too(void **state)
{
	assert_int_equal(kw_key_id_check("", NULL), KW_OK);
	assert_int_equal(kw_key_id_check("Edge-1.a_b", NULL), KW_OK);
	assert_int_equal(kw_key_id_check("a b", NULL), KW_E_CONFIG);
	assert_int_equal(kw_key_id_check("\xc3\xa4", NULL), KW_E_CONFIG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_is_refused_with_line_and_remedy),
		cmocka_unit_test(the_secret_without_an_id_is_no_keys_secret),
		cmocka_unit_test(a_zero_byte_is_refused),
		cmocka_unit_test(a_line_gives_id_secret_and_rules),
		cmocka_unit_test(a_scope_allows_its_databases_and_prefixes),
		cmocka_unit_test(equal_scopes_are_written_equally),
		cmocka_unit_test(both_lines_of_an_id_are_found),
		cmocka_unit_test(the_secret_without_an_id_stands_beside_the_file),
		cmocka_unit_test(a_ring_judges_what_was_proved_under_another),
		cmocka_unit_test(a_key_is_for_its_carriers_and_roles),
		cmocka_unit_test(a_revoked_id_is_neither_found_nor_holds),
		cmocka_unit_test(what_a_new_ring_lets_in_again_is_told),
		cmocka_unit_test(an_expired_line_is_refused_and_the_other_one_holds),
		cmocka_unit_test(what_runs_out_is_told_by_id),
		cmocka_unit_test(a_date_changes_no_key),
		cmocka_unit_test(a_ring_lives_as_long_as_it_is_held),
		cmocka_unit_test(an_id_is_checked_alone_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
