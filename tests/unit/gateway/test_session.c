/*
 * A session against a real server: the same requests on one connection, byte for byte the same
 * replies, in RESP 2 and in RESP 3, with and without users. And what is the gateway's own.
 *
 *   test_session            the installed server
 *   test_session server     another one, of SERVERS_DIR: only whether all its commands are known
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <unistd.h>

#include "base/buffer.h"
#include "gateway/answers/command.h"
#include "gateway/session/catalog.h"
#include "gateway/session/session.h"
#include "payload_peer.h"

#define MARK "$4\r\nmark\r\n"
#define WORDS_MAX 32

static const char *binary = "/usr/bin/redis-server";
static struct peer peer;

/* ---- the server ---- */

static size_t split(const char *line, struct kw_slice words[WORDS_MAX])
{
	size_t count = 0;

	for (const char *at = line; *at;) {
		size_t length = strcspn(at, " ");

		assert_true(count < WORDS_MAX);
		words[count++] = length == 2 && memcmp(at, "\"\"", 2) == 0 ? kw_slice("", 0)
									   : kw_slice(at, length);
		at += length + (at[length] == ' ');
	}
	return count;
}

static void send_request(const struct kw_slice *words, size_t count)
{
	struct kw_buffer out = {0};

	kw_buffer_printf(&out, "*%zu\r\n", count);
	for (size_t i = 0; i < count; i++) {
		kw_buffer_printf(&out, "$%zu\r\n", words[i].length);
		kw_buffer_append(&out, words[i].data, words[i].length);
		kw_buffer_append(&out, "\r\n", 2);
	}
	assert_int_equal(write(peer.fd, kw_buffer_bytes(&out), kw_buffer_length(&out)),
		kw_buffer_length(&out));
	kw_buffer_close(&out);
}

static bool ends_with(const struct kw_buffer *buffer, const char *text)
{
	size_t length = strlen(text);

	return kw_buffer_length(buffer) >= length &&
	       memcmp(buffer->data + buffer->end - length, text, length) == 0;
}

/*
 * The server's reply, byte for byte. A request after it shows where it ends: an error of known
 * words, which the server gives before AUTH, too.
 */
static void ask_server(const char *line, struct kw_buffer *reply)
{
	static const char end[] = "-ERR unknown command 'mark', with args beginning with: \r\n";
	const struct kw_slice mark = kw_slice_text("mark");
	struct kw_slice words[WORDS_MAX];

	send_request(words, split(line, words));
	send_request(&mark, 1);
	kw_buffer_clear(reply);
	while (!ends_with(reply, end)) {
		ssize_t got = read(peer.fd, kw_buffer_reserve(reply, 65536), 65536);

		assert_true(got > 0);
		kw_buffer_filled(reply, (size_t)got);
	}
	reply->end -= strlen(end);
	kw_buffer_append(reply, "", 1);
}

static const char *text_of(const struct kw_buffer *reply)
{
	return (const char *)kw_buffer_bytes(reply);
}

static void run(const char *line)
{
	struct kw_buffer reply = {0};

	ask_server(line, &reply);
	if (text_of(&reply)[0] == '-')
		fail_msg("%s: %s", line, text_of(&reply));
	kw_buffer_close(&reply);
}

#ifndef SERVERS_DIR
#define SERVERS_DIR "build/servers/bin"
#endif

static char binary_path[512];

/* It is a replica, as the gateway is one. */
static int start_server(void **state)
{
	peer_start(&peer, binary, NULL);
	run("REPLICAOF 127.0.0.1 1");
	return 0;
}

static int stop_server(void **state)
{
	peer_stop(&peer);
	return 0;
}

/* ---- the session ---- */

static bool forwards_all(void *arg, struct kw_slice name)
{
	return true;
}

static void look(void *arg, const struct kw_session *session, struct kw_session_facts *facts)
{
	*facts = *(const struct kw_session_facts *)arg;
}

static struct kw_session_facts facts = {
	.now_us = 1700000000123456,
	.clients = 3,
	.max_clients = 10000,
	.keys = 17,
	.name = "here",
	.state = "serving",
};

static struct kw_session_host make_host(const char *users)
{
	struct kw_error error = {0};
	struct kw_session_host host = {
		.users = users ? kw_users_parse(kw_slice_text(users), &error) : kw_users_open(),
		.server_version = "7.0.15",
		.databases = 16,
		.look = look,
		.arg = &facts,
	};

	if (!host.users)
		fail_msg("%s", error.text);
	return host;
}

static void free_host(struct kw_session_host *host)
{
	kw_users_free((struct kw_users *)host->users);
}

static enum kw_session_verdict ask_session(struct kw_session *session,
	const struct kw_session_host *host, const char *line, struct kw_buffer *reply)
{
	struct kw_slice words[WORDS_MAX];
	size_t count = split(line, words);
	enum kw_session_verdict verdict;

	kw_buffer_clear(reply);
	verdict = kw_session_begin(session, host, words, count, reply);
	assert_int_equal(verdict == KW_SESSION_PASSES, kw_buffer_length(reply) == 0);
	kw_buffer_append(reply, "", 1);
	return verdict;
}

static int64_t server_id(void)
{
	struct kw_buffer reply = {0};
	int64_t id;

	ask_server("CLIENT ID", &reply);
	id = strtoll(text_of(&reply) + 1, NULL, 10);
	kw_buffer_close(&reply);
	return id;
}

/* What passes must not have been refused by the server for what a session refuses. */
static bool is_refusal(const char *reply)
{
	return strncmp(reply, "-NO", 3) == 0 || strncmp(reply, "-WRONGPASS", 10) == 0 ||
	       strncmp(reply, "-ERR unknown", 12) == 0 || strncmp(reply, "-ERR wrong", 10) == 0;
}

static void same(struct kw_session *session, const struct kw_session_host *host, const char *line)
{
	struct kw_buffer server = {0}, gateway = {0};
	bool passes;

	ask_server(line, &server);
	passes = ask_session(session, host, line, &gateway) == KW_SESSION_PASSES;
	if (passes ? is_refusal(text_of(&server))
		   : strcmp(text_of(&server), text_of(&gateway)) != 0)
		fail_msg("%s: the server says\n%s\nthe gateway\n%s", line, text_of(&server),
			passes ? "(nothing)" : text_of(&gateway));
	kw_buffer_close(&server);
	kw_buffer_close(&gateway);
}

/* One connection, from a RESET on. users: the file; the server has them already. */
static void same_dialogue(const char *users, const char *const *lines)
{
	struct kw_session_host host = make_host(users);
	struct kw_session session;
	int64_t id;

	id = server_id();
	run("RESET");
	kw_session_init(&session, &host, (uint64_t)id, NULL);
	for (; *lines; lines++)
		same(&session, &host, *lines);
	kw_session_close(&session);
	free_host(&host);
}

static void what_a_connection_is_told_is_what_the_server_says(void **state)
{
	static const char *const lines[] = {"PING", "PING hello", "PING a b", "ECHO text", "ECHO",
		"CLIENT GETNAME", "CLIENT SETNAME me", "CLIENT GETNAME", "CLIENT SETNAME a\nb",
		"CLIENT SETNAME \"\"", "CLIENT GETNAME", "CLIENT ID", "CLIENT", "CLIENT NOTHING",
		"CLIENT SETNAME", "CLIENT NO-EVICT on", "CLIENT NO-EVICT OFF", "CLIENT NO-EVICT x",
		"CLIENT REPLY ON", "CLIENT REPLY x", "CLIENT TRACKING off", "CLIENT TRACKING x",
		"CLIENT GETREDIR", "CLIENT TRACKINGINFO", "CLIENT CACHING yes", "SELECT 3",
		"SELECT 15", "SELECT 16", "SELECT -1", "SELECT x", "SELECT 99999999999", "SELECT 0",
		"HELLO", "HELLO 3", "CLIENT GETNAME", "CLIENT TRACKINGINFO", "HELLO 2", "HELLO 1",
		"HELLO 4", "HELLO x", "HELLO 3 SETNAME name", "CLIENT GETNAME", "HELLO 3 WHAT",
		"HELLO 3 SETNAME", "HELLO 3 SETNAME a\tb", "HELLO 2 AUTH default x",
		"HELLO 3 AUTH nobody x", "HELLO 3 AUTH default x SETNAME other", "CLIENT GETNAME",
		"AUTH x", "AUTH default x", "AUTH nobody x", "AUTH a b c", "ACL WHOAMI", "RESET",
		"CLIENT GETNAME", "HELLO", "unknown", "unknown a b c", "un\nknown a", "GET",
		"GET a b", "get k", "MGET", "OBJECT NOTHING k", "OBJECT", "SELECT", "SET k v",
		"CLIENT LIST TYPE nothing", "CLIENT LIST ID x", "CLIENT LIST WHAT",
		"CLIENT LIST TYPE pubsub", "CLIENT LIST ID 99999999", "CONFIG NOTHING", "HELLO 3",
		"CLIENT LIST TYPE replica", "CLUSTER SLOTS", "RESET", NULL};

	same_dialogue(NULL, lines);
}

static void settings_that_clients_ask_for_are_told(void **state)
{
	static const char *const lines[] = {"CONFIG GET appendonly", "CONFIG GET databases",
		"CONFIG GET maxmemory", "CONFIG GET proto-max-bulk-len", "CONFIG GET save",
		"CONFIG GET timeout", "CONFIG GET maxmemory-policy", "CONFIG GET nothing",
		"CONFIG GET DATABASES", "CONFIG GET d?tabases", "CONFIG GET", "HELLO 3",
		"CONFIG GET databases", "CONFIG GET no*ing", NULL};

	run("CONFIG SET save \"\"");
	same_dialogue(NULL, lines);
}

static void keys_of_a_request_are_found_as_the_server_finds_them(void **state)
{
	static const char *const lines[] = {"COMMAND GETKEYS GET k", "COMMAND GETKEYS MGET a b c",
		"COMMAND GETKEYS MSET a 1 b 2", "COMMAND GETKEYS PING", "COMMAND GETKEYS NOTHING a",
		"COMMAND GETKEYS GET", "COMMAND GETKEYS ZUNION 2 a b", "COMMAND GETKEYS ZUNION 9 a",
		"COMMAND GETKEYS ZUNIONSTORE d 2 a b WEIGHTS 1 2",
		"COMMAND GETKEYS XREAD COUNT 2 STREAMS a b 0 0",
		"COMMAND GETKEYS XREADGROUP GROUP streams c STREAMS a >",
		"COMMAND GETKEYS EVAL x 2 a b c", "COMMAND GETKEYS OBJECT ENCODING k",
		"COMMAND GETKEYS BLPOP a b 0", "COMMAND GETKEYS XINFO STREAM k",
		"COMMAND GETKEYS RENAME a b", NULL};

	same_dialogue(NULL, lines);
}

#define READER "on >pw ~cache:* %R~orders:* +@read -keys +client|id +client|getname"

static void users_are_refused_in_the_servers_words(void **state)
{
	static const char *const lines[] = {"PING", "GET cache:1", "NOTHING", "GET", "HELLO 3",
		"HELLO", "AUTH wrong", "AUTH reader wrong", "AUTH off off", "AUTH nobody x",
		"HELLO 3 AUTH reader wrong", "CLIENT ID", "SELECT 1", "AUTH reader pw",
		"ACL WHOAMI", "GET cache:1", "GET orders:7", "GET other", "MGET cache:1 orders:7",
		"MGET cache:1 other", "SET cache:1 v", "KEYS *", "CLIENT ID", "CLIENT GETNAME",
		"CLIENT SETNAME x", "CLIENT LIST", "CONFIG GET save", "PING",
		"EXISTS cache:1 other", "RESET", "GET cache:1", "HELLO 3 AUTH reader pw",
		"GET other", "GET cache:2", "AUTH secret", "ACL WHOAMI", "PING", "AUTH writer pw",
		"GET orders:1", NULL};
	static const char *const setup[] = {"ACL SETUSER admin on >admin ~* &* +@all",
		"ACL SETUSER reader reset " READER, "ACL SETUSER writer on >pw %W~orders:* +@all",
		"ACL SETUSER off off >off +@all", "ACL SETUSER default resetpass >secret", NULL};
	static const char users[] = "user admin on >admin ~* &* +@all\n"
				    "user reader " READER "\n"
				    "user writer on >pw %W~orders:* +@all\n"
				    "user off off >off +@all\n"
				    "user default on >secret ~* +@all\n";

	for (const char *const *line = setup; *line; line++)
		run(*line);
	same_dialogue(users, lines);
	run("AUTH admin admin");
	run("ACL SETUSER default nopass");
	run("RESET");
}

static void the_catalog_is_what_the_server_says_of_each_command(void **state)
{
	struct kw_buffer server = {0}, gateway = {0};
	struct kw_session_host host = make_host(NULL);
	struct kw_session session;
	size_t compared = 0;

	host.forwards = forwards_all;
	run("RESET");
	run("HELLO 3");
	kw_session_init(&session, &host, 1, NULL);
	ask_session(&session, &host, "HELLO 3", &gateway);
	for (size_t i = 0; i < kw_catalog_count(); i++) {
		const struct kw_catalog_row *row = kw_catalog_at(i);
		char line[80], *tips;

		assert_ptr_equal(kw_catalog_find(kw_slice_text(row->name)), row);
		snprintf(line, sizeof line, "COMMAND INFO %s", row->name);
		ask_server(line, &server);
		ask_session(&session, &host, line, &gateway);
		/* A newer server's command; or one whose tips begin: from there on we say less. */
		tips = strstr(strstr(text_of(&gateway), "+@"), "~0\r\n");
		assert_non_null(tips);
		if (strcmp(text_of(&server), "*1\r\n_\r\n") == 0)
			continue;
		if (strstr(row->name, "zr") == row->name && strstr(row->name, "rank"))
			continue; /* WITHSCORE since Redis 7.2 */
		compared++;
		if (strncmp(text_of(&server), text_of(&gateway),
			    (size_t)(tips - text_of(&gateway))) != 0)
			fail_msg("%s: the server says\n%s\nthe gateway\n%s", line, text_of(&server),
				text_of(&gateway));
	}
	assert_true(compared > 350);
	run("RESET");
	kw_session_close(&session);
	free_host(&host);
	kw_buffer_close(&server);
	kw_buffer_close(&gateway);
}

static void the_catalog_has_each_command_of_the_server(void **state)
{
	struct kw_buffer server = {0};
	size_t names = 0;
	char *rest;

	ask_server("COMMAND LIST FILTERBY PATTERN *", &server);
	rest = (char *)server.data + server.start;
	for (char *line; (line = strsep(&rest, "\n"));)
		if (line[0] >= 'a' && line[0] <= 'z') {
			line[strcspn(line, "\r")] = '\0';
			names++;
			if (!kw_catalog_find(kw_slice_text(line)))
				fail_msg("%s", line);
		}
	assert_true(names > 300);
	kw_buffer_close(&server);
}

/* ---- what is the gateway's own ---- */

struct own {
	const char *line;
	enum kw_session_verdict verdict;
	const char *holds; /* part of the reply */
};

static void expect(struct kw_session *session, const struct kw_session_host *host,
	const struct own *cases, size_t count)
{
	struct kw_buffer reply = {0};

	for (size_t i = 0; i < count; i++) {
		enum kw_session_verdict verdict = ask_session(session, host, cases[i].line, &reply);

		if (verdict != cases[i].verdict || !strstr(text_of(&reply), cases[i].holds))
			fail_msg("%s: %d, %s", cases[i].line, (int)verdict, text_of(&reply));
	}
	kw_buffer_close(&reply);
}

static void what_no_gateway_can_do_is_refused_with_a_sentence(void **state)
{
	static const struct own cases[] = {
		{"CLIENT REPLY OFF", KW_SESSION_REPLIED, "-ERR keywake-gateway answers each"},
		{"CLIENT REPLY SKIP", KW_SESSION_REPLIED, "-ERR keywake-gateway answers each"},
		{"CLIENT TRACKING ON", KW_SESSION_REPLIED, "-ERR keywake-gateway sends no inval"},
		{"CLIENT KILL x", KW_SESSION_REPLIED, "-ERR 'client|kill' is not served"},
		{"CONFIG SET save x", KW_SESSION_REPLIED, "-ERR 'config|set' is not served"},
		{"ACL LIST", KW_SESSION_REPLIED, "-ERR 'acl|list' is not served"},
		{"CLIENT SETINFO lib-name x", KW_SESSION_REPLIED, "+OK"},
		{"CLIENT SETINFO lib-ver 1.2", KW_SESSION_REPLIED, "+OK"},
		{"CLIENT SETINFO lib-name a\tb", KW_SESSION_REPLIED, "-ERR lib-name cannot"},
		{"CLIENT SETINFO what x", KW_SESSION_REPLIED, "-ERR Unrecognized option 'what'"},
		{"CLIENT NO-TOUCH on", KW_SESSION_REPLIED, "+OK"},
		{"READONLY", KW_SESSION_REPLIED, "+OK"},
		{"READWRITE", KW_SESSION_REPLIED, "+OK"},
		{"CLIENT INFO", KW_SESSION_REPLIED, " lib-name=x lib-ver=1.2"},
		{"CLIENT LIST", KW_SESSION_REPLIED, "id=7 addr="},
		{"CLIENT LIST TYPE normal", KW_SESSION_REPLIED, " user=default "},
		{"CLIENT LIST ID 1 7", KW_SESSION_REPLIED, "id=7 "},
		{"TIME", KW_SESSION_REPLIED, "*2\r\n$10\r\n1700000000\r\n$6\r\n123456\r\n"},
		{"QUIT", KW_SESSION_CLOSE, "+OK"},
		{"RESET", KW_SESSION_RESET, "+RESET"},
		{"GET k", KW_SESSION_PASSES, ""},
		{"SET k v", KW_SESSION_PASSES, ""},
		{"KEYWAKE.BARRIER 100", KW_SESSION_PASSES, ""},
	};
	struct kw_session_host host = make_host(NULL);
	struct kw_session session;
	char line[KW_SESSION_TEXT_MAX + 32] = "CLIENT SETNAME ";
	const struct own too_long = {
		line, KW_SESSION_REPLIED, "-ERR keywake-gateway keeps at most"};

	kw_session_init(&session, &host, 7, NULL);
	expect(&session, &host, cases, sizeof cases / sizeof *cases);
	memset(line + strlen(line), 'x', KW_SESSION_TEXT_MAX + 1);
	expect(&session, &host, &too_long, 1);
	kw_session_close(&session);
	free_host(&host);
}

/* ioredis and others wait until a server says that it is ready. */
static void info_says_whether_the_table_is_served(void **state)
{
	static const struct {
		enum kw_session_table table;
		const char *loading, *link;
	} cases[] = {
		{KW_SESSION_TABLE_SERVED, "\nloading:0\r", "\nmaster_link_status:up\r"},
		{KW_SESSION_TABLE_LOADING, "\nloading:1\r", "\nmaster_link_status:down\r"},
		{KW_SESSION_TABLE_STALE, "\nloading:0\r", "\nmaster_link_status:down\r"},
		{KW_SESSION_TABLE_LOST, "\nloading:0\r", "\nmaster_link_status:down\r"},
	};
	static const struct own sections[] = {
		{"INFO server", KW_SESSION_REPLIED, "\r\n# Server\r\nredis_version:7.0.15\r\n"},
		{"INFO keywake", KW_SESSION_REPLIED, "keywake_keys:17\r\n"},
		{"INFO KEYSPACE clients", KW_SESSION_REPLIED, "connected_clients:3\r\n"},
		{"INFO nothing", KW_SESSION_REPLIED, "$0\r\n\r\n"},
		{"HELLO 3", KW_SESSION_REPLIED, "%7"},
		{"INFO nothing", KW_SESSION_REPLIED, "=4\r\ntxt:\r\n"},
	};
	struct kw_session_host host = make_host(NULL);
	struct kw_session session;

	kw_session_init(&session, &host, 7, NULL);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const struct own lines[] = {{"INFO", KW_SESSION_REPLIED, cases[i].loading},
			{"INFO everything", KW_SESSION_REPLIED, cases[i].link},
			{"INFO persistence", KW_SESSION_REPLIED, cases[i].loading},
			{"INFO Replication", KW_SESSION_REPLIED, cases[i].link}};

		facts.table = cases[i].table;
		expect(&session, &host, lines, sizeof lines / sizeof *lines);
	}
	facts.table = KW_SESSION_TABLE_SERVED;
	expect(&session, &host, sections, sizeof sections / sizeof *sections);
	kw_session_close(&session);
	free_host(&host);
}

static bool forwards_set(void *arg, struct kw_slice name)
{
	return kw_slice_equal(name, kw_slice_text("set")) ||
	       kw_slice_equal(name, kw_slice_text("new.command"));
}

static void commands_are_those_that_are_served(void **state)
{
	static const struct own reading[] = {
		{"COMMAND INFO get", KW_SESSION_REPLIED, "$3\r\nget\r\n"},
		{"COMMAND INFO set", KW_SESSION_REPLIED, "*1\r\n*-1\r\n"},
		{"COMMAND INFO client|id nothing", KW_SESSION_REPLIED, "client|id"},
		{"COMMAND DOCS get set", KW_SESSION_REPLIED, "*2\r\n$3\r\nget\r\n*6\r\n"},
		{"COMMAND LIST FILTERBY PATTERN hge*", KW_SESSION_REPLIED, "$7\r\nhgetall\r\n"},
		{"COMMAND LIST FILTERBY ACLCAT transaction", KW_SESSION_REPLIED, "*0\r\n"},
		{"COMMAND LIST FILTERBY MODULE x", KW_SESSION_REPLIED, "*0\r\n"},
		{"COMMAND LIST FILTERBY WHAT", KW_SESSION_REPLIED, "-ERR syntax error"},
		{"COMMAND LIST", KW_SESSION_REPLIED, "$4\r\nping\r\n"},
		{"NEW.COMMAND", KW_SESSION_REPLIED, "-ERR unknown command"},
	};
	static const struct own writing[] = {
		{"COMMAND INFO set", KW_SESSION_REPLIED, "$3\r\nset\r\n"},
		{"COMMAND INFO append", KW_SESSION_REPLIED, "*1\r\n*-1\r\n"},
		{"COMMAND DOCS set", KW_SESSION_REPLIED, "Forwarded to the primary"},
	};
	struct kw_session_host host = make_host(NULL);
	struct kw_buffer all = {0}, count = {0};
	struct kw_session session;

	kw_session_init(&session, &host, 7, NULL);
	expect(&session, &host, reading, sizeof reading / sizeof *reading);
	ask_session(&session, &host, "COMMAND", &all);
	ask_session(&session, &host, "COMMAND COUNT", &count);
	assert_int_equal(atoi(text_of(&all) + 1), atoi(text_of(&count) + 1));
	assert_true(atoi(text_of(&count) + 1) > 60);
	host.forwards = forwards_set;
	expect(&session, &host, writing, sizeof writing / sizeof *writing);
	assert_int_equal(ask_session(&session, &host, "new.command x", &all), KW_SESSION_PASSES);
	kw_session_close(&session);
	free_host(&host);
	kw_buffer_close(&all);
	kw_buffer_close(&count);
}

static void what_nobody_answers_is_refused_as_by_a_replica(void **state)
{
	static const struct {
		const char *line, *reply;
	} cases[] = {
		{"SET", "-READONLY You can't write against a read only replica.\r\n"},
		{"SUBSCRIBE",
			"-ERR 'subscribe' is not served by keywake-gateway: ask the primary\r\n"},
		{"what", "-ERR unknown command\r\n"},
	};
	struct kw_session_host host = make_host(NULL);
	struct kw_buffer reply = {0};
	struct kw_session session;

	kw_session_init(&session, &host, 7, NULL);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct kw_slice word = kw_slice_text(cases[i].line);

		kw_buffer_clear(&reply);
		kw_session_refuse(&session, &host, &word, &reply);
		kw_buffer_append(&reply, "", 1);
		assert_string_equal(text_of(&reply), cases[i].reply);
	}
	kw_session_close(&session);
	free_host(&host);
	kw_buffer_close(&reply);
}

static void a_user_that_is_gone_loses_its_connections(void **state)
{
	static const char before[] = "user a on >x allkeys +get\nuser default on nopass";
	static const struct {
		const char *login, *users;
		bool stays;
	} cases[] = {
		{"AUTH a x", before, true},
		{"AUTH a x", "user a on >x allkeys +set", true},
		{"AUTH a x", "user a on >y allkeys +get", false},
		{"AUTH a x", "user a on >y >x allkeys +get", true},
		{"AUTH a x", "user a on nopass allkeys +get", true},
		{"AUTH a x", "user a off >x allkeys +get", false},
		{"AUTH a x", "user b on >x", false},
		{"PING", "user default on nopass", true},
		{"PING", "user default on >x", false},
		{"PING", "user a on >x", false},
		{"AUTH default x", "user default on >x", true},
		{"AUTH default y", "user default on >x", false},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct kw_session_host host = make_host(before), after = make_host(cases[i].users);
		struct kw_session session;
		struct kw_buffer reply = {0};

		kw_session_init(&session, &host, 7, NULL);
		ask_session(&session, &host, cases[i].login, &reply);
		if (kw_session_take_users(&session, after.users) != cases[i].stays)
			fail_msg("%s, %s", cases[i].login, cases[i].users);
		free_host(&host);
		if (i == 1) {
			ask_session(&session, &after, "GET k", &reply);
			assert_non_null(strstr(text_of(&reply), "-NOPERM"));
		}
		kw_session_close(&session);
		free_host(&after);
		kw_buffer_close(&reply);
	}
}

static void each_command_of_the_table_is_in_the_catalog(void **state)
{
	size_t answered = 0;

	for (size_t i = 0; i < kw_catalog_count(); i++) {
		const struct kw_catalog_row *row = kw_catalog_at(i);
		const struct kw_command *command = kw_command_find(kw_slice_text(row->name));

		if (!command)
			continue;
		answered++;
		assert_int_equal(command->first_key, row->first);
		/* The table may answer fewer forms than there are, never others. */
		for (size_t words = 1; words < WORDS_MAX; words++)
			if (kw_command_fits(command, words) && !kw_catalog_fits(row, words))
				fail_msg("%s", row->name);
	}
	assert_int_equal(answered, kw_command_count());
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_a_connection_is_told_is_what_the_server_says),
		cmocka_unit_test(settings_that_clients_ask_for_are_told),
		cmocka_unit_test(keys_of_a_request_are_found_as_the_server_finds_them),
		cmocka_unit_test(users_are_refused_in_the_servers_words),
		cmocka_unit_test(the_catalog_is_what_the_server_says_of_each_command),
		cmocka_unit_test(the_catalog_has_each_command_of_the_server),
		cmocka_unit_test(what_no_gateway_can_do_is_refused_with_a_sentence),
		cmocka_unit_test(info_says_whether_the_table_is_served),
		cmocka_unit_test(commands_are_those_that_are_served),
		cmocka_unit_test(what_nobody_answers_is_refused_as_by_a_replica),
		cmocka_unit_test(a_user_that_is_gone_loses_its_connections),
		cmocka_unit_test(each_command_of_the_table_is_in_the_catalog),
	};

	const struct CMUnitTest of_others[] = {
		cmocka_unit_test(the_catalog_has_each_command_of_the_server),
	};

	if (argc > 1) {
		snprintf(binary_path, sizeof binary_path, SERVERS_DIR "/%s", argv[1]);
		binary = binary_path;
		if (access(binary, X_OK) != 0)
			return 77; /* tests/servers has not fetched it */
		return cmocka_run_group_tests(of_others, start_server, stop_server);
	}
	return cmocka_run_group_tests(tests, start_server, stop_server);
}
