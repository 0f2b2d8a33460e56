/* The file of users, and what each user may do: tables of cases. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gateway/answers/command.h"
#include "gateway/session/permission.h"
#include "gateway/session/users.h"

#define WORDS_MAX 16

static struct kw_users *parse(const char *text)
{
	struct kw_error error = {0};
	struct kw_users *users = kw_users_parse(kw_slice_text(text), &error);

	if (!users)
		fail_msg("%s: %s", text, error.text);
	return users;
}

static const struct kw_user *login(struct kw_users *users, const char *name, const char *password)
{
	return kw_users_login(users, kw_slice_text(name), kw_slice_text(password));
}

static void a_file_is_refused_with_line_word_and_remedy(void **state)
{
	static const struct {
		const char *text, *error;
	} cases[] = {
		{"usr a on", "line 1: a line begins with the word user"},
		{"user a on\n\n# why\nuser b on what", "line 4: word 4, \"wha…\": no such rule"},
		{"user", "line 1: a name must follow"},
		{"user a +nothing",
			"line 1: word 3, \"+nothing\": the gateway knows no such command"},
		{"user a +client|nothing",
			"word 3, \"+client|nothing\": the gateway knows no such"},
		{"user a +", "the gateway knows no such command"},
		{"user a +@nothing", "word 3, \"+@nothing\": no such category"},
		{"user a on >x (+get ~a*)",
			"word 5, \"(+g…\": the gateway does not know selectors"},
		{"user a #abc", "word 3, \"#…\": a hash is 64 lowercase hexadecimal digits"},
		{"user a #ZZD6EC9E8B4A3D2D4C1F1F0B1E1F8F7B3D1B0B1B0B1B0B1B0B1B0B1B0B1B0B1B",
			"a hash is 64 lowercase hexadecimal digits"},
		{"user a <never", "word 3, \"<…\": the user does not have the password"},
		{"user a allkeys ~b", "word 4, \"~b\": a pattern after allkeys"},
		{"user a allchannels &b", "word 4, \"&b\": a pattern after allchannels"},
		{"user a &* &b", "word 4, \"&b\": a pattern after allchannels"},
		{"user a %X~b", "word 3, \"%X~b\": what may be done with keys is written"},
		{"user a %RR~b", "what may be done with keys is written"},
		{"user a %~b", "what may be done with keys is written"},
		{"user a %R", "what may be done with keys is written"},
		{"user a on\nuser b on\nuser a off", "there are two lines for the user a"},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct kw_error error = {0};

		if (kw_users_parse(kw_slice_text(cases[i].text), &error))
			fail_msg("taken: %s", cases[i].text);
		assert_int_equal(error.code, KW_E_CONFIG);
		if (!strstr(error.text, cases[i].error))
			fail_msg("%s\n%s", error.text, cases[i].error);
	}
}

static void no_sentence_quotes_a_password(void **state)
{
	static const char *const texts[] = {"user a <secretword", "user a secretword",
		"user a #secretword", "user a (secretword", "secretword", "user a !secretword"};

	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		struct kw_error error = {0};

		assert_null(kw_users_parse(kw_slice_text(texts[i]), &error));
		if (strstr(error.text, "secretword"))
			fail_msg("%s", error.text);
	}
}

static void each_rule_of_passwords_means_what_the_server_means(void **state)
{
	static const struct {
		const char *rules, *password;
		bool enters;
	} cases[] = {
		{"on >one", "one", true},
		{"on >one", "two", false},
		{"on >one", "", false},
		{"on >", "", true},
		{"on >one >two", "one", true},
		{"on >one >two <one", "one", false},
		{"on >one >two <one", "two", true},
		{"off >one", "one", false},
		{">one", "one", false},
		{"on >one resetpass", "one", false},
		{"on nopass", "anything", true},
		{"on nopass >one", "two", false},
		{"on >one nopass", "two", true},
		{"on >one reset on", "one", false},
		{"on nopass resetpass", "x", false},
		/* printf %s secret | sha256sum */
		{"on #2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b", "secret",
			true},
		{"on >secret !2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b",
			"secret", false},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char text[200];
		struct kw_users *users;

		snprintf(text, sizeof text, "user a %s\r\n", cases[i].rules);
		users = parse(text);
		if ((login(users, "a", cases[i].password) != NULL) != cases[i].enters)
			fail_msg("%s with \"%s\"", cases[i].rules, cases[i].password);
		kw_users_free(users);
	}
}

static void users_are_found_by_their_whole_name(void **state)
{
	struct kw_users *users = parse("user bob on nopass\nuser alice on nopass\n"
				       "user bobby on nopass\nuser Bob on nopass");

	assert_int_equal(kw_users_count(users), 4);
	assert_string_equal(login(users, "bob", "")->name, "bob");
	assert_string_equal(login(users, "Bob", "")->name, "Bob");
	assert_string_equal(login(users, "bobby", "")->name, "bobby");
	assert_string_equal(login(users, "alice", "")->name, "alice");
	assert_null(login(users, "bo", ""));
	assert_null(login(users, "", ""));
	assert_null(login(users, "bobb", ""));
	assert_null(kw_users_find(users, kw_slice("bob\0x", 5)));
	kw_users_free(users);
}

static void without_a_line_for_default_each_client_must_log_in(void **state)
{
	static const struct {
		const char *text;
		bool unnamed;
	} cases[] = {{"", false}, {"user a on nopass", false}, {"user default on nopass", true},
		{"user default off nopass", false}, {"user default on >secret", false}};
	struct kw_users *users;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		users = parse(cases[i].text);
		assert_int_equal(kw_users_unnamed(users) != NULL, cases[i].unnamed);
		kw_users_free(users);
	}
	users = kw_users_open();
	assert_non_null(kw_users_unnamed(users));
	assert_true(kw_user_may_all(kw_users_unnamed(users)));
	kw_users_free(users);
}

static size_t split(const char *line, struct kw_slice words[WORDS_MAX])
{
	size_t count = 0;

	for (const char *at = line; *at;) {
		size_t length = strcspn(at, " ");

		assert_true(count < WORDS_MAX);
		words[count++] = kw_slice(at, length);
		at += length + (at[length] == ' ');
	}
	return count;
}

static enum kw_permission judge(const char *rules, const char *request)
{
	struct kw_slice words[WORDS_MAX];
	size_t count = split(request, words);
	const struct kw_catalog_row *row = kw_catalog_resolve(words, count);
	enum kw_permission permission;
	struct kw_users *users;
	char text[200];

	snprintf(text, sizeof text, "user a on nopass %s", rules);
	users = parse(text);
	if (!row || !kw_catalog_fits(row, count))
		fail_msg("%s", request);
	permission = kw_user_may(login(users, "a", ""), row, words, count);
	kw_users_free(users);
	return permission;
}

static void a_user_may_what_its_rules_say(void **state)
{
	enum {
		YES = KW_PERMITTED,
		COMMAND = KW_PERMITTED_NOT_COMMAND,
		KEYS = KW_PERMITTED_NOT_KEYS,
		CHANNELS = KW_PERMITTED_NOT_CHANNEL,
	};
	static const struct {
		const char *rules, *request;
		int permission;
	} cases[] = {
		/* commands */
		{"allkeys +@read", "get k", YES},
		{"allkeys +@read", "set k v", COMMAND},
		{"allkeys +@read", "GeT k", YES},
		{"allkeys", "get k", COMMAND},
		{"", "auth x", YES},
		{"", "hello", YES},
		{"", "ping", COMMAND},
		{"allkeys +@all -@write", "get k", YES},
		{"allkeys +@all -@write", "set k v", COMMAND},
		{"allkeys +@write +@read -get", "get k", COMMAND},
		{"allkeys -get +@read", "get k", YES},
		{"allkeys allcommands nocommands +get", "strlen k", COMMAND},
		{"allkeys +client|id", "client id", YES},
		{"allkeys +client|id", "client getname", COMMAND},
		{"allkeys +client", "client getname", YES},
		{"allkeys +client -client|getname", "client getname", COMMAND},
		{"allkeys +client -client|getname", "client id", YES},
		{"allkeys +@connection", "client setname x", YES},
		{"allkeys +@all -@dangerous", "client kill x", COMMAND},
		/* keys */
		{"~a* +@all", "get abc", YES},
		{"~a* +@all", "get b", KEYS},
		{"+@all", "get b", KEYS},
		{"+@all", "ping", YES},
		{"~a ~b +@all", "mget a b a", YES},
		{"~a ~b +@all", "mget a b c", KEYS},
		{"~a ~b resetkeys ~c +@all", "get a", KEYS},
		{"~* +@all", "get anything", YES},
		{"%R~a +@all", "get a", YES},
		{"%R~a +@all", "set a v", KEYS},
		{"%W~a +@all", "get a", KEYS},
		{"%RW~a +@all", "set a v", YES},
		{"%R~a %W~a +@all", "set a v", KEYS},
		{"~a +@all", "set a v", YES},
		{"~a +@all", "exists a b", KEYS},
		{"~a +@all", "rename a b", KEYS},
		{"~a +@all", "mset a 1 b 2", KEYS},
		{"~a +@all", "mset a b", YES},
		{"~a +@all", "object encoding b", KEYS},
		/* keys that are counted, or follow a word */
		{"~a ~b +@all", "zunion 2 a b", YES},
		{"~a ~b +@all", "zunion 2 a c", KEYS},
		{"~a ~b +@all", "zunion 1 a weights 2", YES},
		{"~a +@all", "zunion 3 a", KEYS},
		{"~a +@all", "zunion x a", KEYS},
		{"~a +@all", "zunion 1x a", KEYS},
		{"~a +@all", "zunion -1 a", KEYS},
		{"~a +@all", "zunionstore b 1 a", KEYS},
		{"~a +@all", "zunionstore a 1 a", YES},
		{"~a +@all", "eval return 1 b", KEYS},
		{"~a +@all", "eval return 0", KEYS},
		/* The primary runs a script as the gateway's user, whatever its words say. */
		{"~* +@read +eval", "eval return 0", COMMAND},
		{"~* +@read +eval_ro", "eval_ro return 0", YES},
		{"~* +@read -get +eval_ro", "eval_ro return 0", COMMAND},
		{"~* +@all -@dangerous", "fcall f 0", COMMAND},
		{"~* &* +@all -@admin", "fcall f 0", YES},
		{"~* &* +@all -config", "evalsha s 1 a", YES},
		/* … and a script can publish, but a read-only one cannot. */
		{"~* +@all", "eval return 0", CHANNELS},
		{"~* &a +@all", "fcall f 0", CHANNELS},
		{"~* +@all", "eval_ro return 0", YES},
		{"~* +@all", "fcall_ro f 0", YES},
		/* channels: without a rule there are none */
		{"~* +@all", "publish a x", CHANNELS},
		{"+publish", "publish a x", CHANNELS},
		{"+publish &a", "publish a x", YES},
		{"+publish &a", "publish ab x", CHANNELS},
		{"+publish &a* &b", "publish ab x", YES},
		{"+publish &a* &b", "publish b x", YES},
		{"+publish &a* &b", "publish ba x", CHANNELS},
		{"+publish &*", "publish anything x", YES},
		{"+publish allchannels", "publish anything x", YES},
		{"+publish allchannels resetchannels", "publish a x", CHANNELS},
		{"+publish &a resetchannels &b", "publish a x", CHANNELS},
		{"+publish &a reset on nopass +publish", "publish a x", CHANNELS},
		{"+spublish &a", "spublish a x", YES},
		{"+spublish &a", "spublish b x", CHANNELS},
		{"~a +spublish", "spublish a x", CHANNELS},
		{"&a", "publish a x", COMMAND},
		{"~* +@all -get", "evalsha s 1 a", COMMAND},
		{"%R~* +@all", "eval_ro return 0", KEYS},
		{"~a +@all", "xread count 1 streams a 0", YES},
		{"~a +@all", "xread streams a b 0 0", KEYS},
		{"~a +@all", "xread count 1 streams a", KEYS},
		{"~a +@all", "xread a 0 1", KEYS},
		{"~a ~consumer +@all", "xreadgroup group streams consumer streams b >", KEYS},
		{"~a +@all", "xreadgroup group streams consumer streams a >", YES},
		/* options that can name more */
		{"~a +@all", "sort a", YES},
		{"~a +@all", "sort b", KEYS},
		{"~a +@all", "sort a limit 0 1", YES},
		{"~a +@all", "sort a store b", KEYS},
		{"~a +@all", "sort a get secret", KEYS},
		{"~a +@all", "sort a BY secret", KEYS},
		{"allkeys +@all", "sort a store b", YES},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		if ((int)judge(cases[i].rules, cases[i].request) != cases[i].permission)
			fail_msg("%s: %s: %d", cases[i].rules, cases[i].request,
				(int)judge(cases[i].rules, cases[i].request));
}

static void only_who_may_everything_is_not_checked(void **state)
{
	static const struct {
		const char *rules;
		bool all;
	} cases[] = {{"allkeys +@all", true}, {"allkeys +@all -get", false}, {"~a +@all", false},
		{"allkeys +@all -keywake.barrier", false}, {"allkeys +@read +@write", false}};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char text[200];
		struct kw_users *users;

		snprintf(text, sizeof text, "user a on nopass %s", cases[i].rules);
		users = parse(text);
		assert_int_equal(kw_user_may_all(login(users, "a", "")), cases[i].all);
		kw_users_free(users);
	}
}

static void a_file_that_others_can_read_or_change_is_refused(void **state)
{
	char path[] = "/tmp/kw-users-XXXXXX";
	struct kw_error error = {0};
	struct kw_users *users;
	int fd = mkstemp(path);

	assert_int_equal(write(fd, "user a on nopass\n", 17), 17);
	users = kw_users_load(path, &error);
	assert_non_null(users);
	kw_users_free(users);
	assert_int_equal(fchmod(fd, 0644), 0);
	assert_null(kw_users_load(path, &error));
	assert_non_null(strstr(error.text, "chmod o-rwx"));
	assert_int_equal(fchmod(fd, 0660), 0);
	assert_null(kw_users_load(path, &error));
	assert_non_null(strstr(error.text, "chmod g-w"));
	close(fd);
	unlink(path);
	assert_null(kw_users_load(path, &error));
	assert_non_null(strstr(error.text, path));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_is_refused_with_line_word_and_remedy),
		cmocka_unit_test(no_sentence_quotes_a_password),
		cmocka_unit_test(each_rule_of_passwords_means_what_the_server_means),
		cmocka_unit_test(users_are_found_by_their_whole_name),
		cmocka_unit_test(without_a_line_for_default_each_client_must_log_in),
		cmocka_unit_test(a_user_may_what_its_rules_say),
		cmocka_unit_test(only_who_may_everything_is_not_checked),
		cmocka_unit_test(a_file_that_others_can_read_or_change_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
