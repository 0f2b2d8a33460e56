#include "answers_server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <unistd.h>

#include "gateway/resp/request.h"
#include "payload_peer.h"

#define MARK "$4\r\nmark\r\n"
#define SHOWN_MAX 40

#ifndef SERVERS_DIR
#define SERVERS_DIR "build/servers/bin"
#endif

static char binary[4096] = "/usr/bin/redis-server";
static struct peer peer;
static struct kw_release release;
static int settings, differences;
static uint64_t chance;

int answers_choose(int argc, char **argv)
{
	if (argc > 1 && strchr(argv[1], '/'))
		snprintf(binary, sizeof binary, "%s", argv[1]);
	else if (argc > 1)
		snprintf(binary, sizeof binary, "%s/%s", SERVERS_DIR, argv[1]);
	if (access(binary, X_OK) == 0)
		return 1;
	fprintf(stderr, "%s is not there: tests/servers fetches it\n", binary);
	return 0;
}

/* ---- the server ---- */

size_t answers_split(char *line, struct kw_slice words[ANSWERS_WORDS_MAX])
{
	size_t count = 0;

	for (char *at = line; *at;) {
		size_t length = strcspn(at, " "), used = 0;
		bool ends = at[length] == '\0', empty = length == 2 && memcmp(at, "\"\"", 2) == 0;

		assert_true(count < ANSWERS_WORDS_MAX);
		for (size_t i = 0; i < length; i++, used++) {
			unsigned byte;

			at[used] = at[i];
			if (at[i] == '\\' && at[i + 1] == 'x' &&
				sscanf(at + i + 2, "%2x", &byte) == 1) {
				at[used] = (char)byte;
				i += 3;
			}
		}
		words[count++] = empty ? kw_slice("", 0) : kw_slice(at, used);
		at += length + !ends;
	}
	return count;
}

static void append_request(struct kw_buffer *out, const struct kw_slice *words, size_t count)
{
	kw_buffer_printf(out, "*%zu\r\n", count);
	for (size_t i = 0; i < count; i++) {
		kw_buffer_printf(out, "$%zu\r\n", words[i].length);
		kw_buffer_append(out, words[i].data, words[i].length);
		kw_buffer_append(out, "\r\n", 2);
	}
}

/* The server's reply, byte for byte. A marker that is asked for after it shows where it ends. */
static void ask_server(const struct kw_slice *words, size_t count, struct kw_buffer *reply)
{
	const struct kw_slice echo[] = {kw_slice_text("ECHO"), kw_slice_text("mark")};
	struct kw_buffer out = {0};
	const size_t mark = strlen(MARK);
	size_t sent = 0;

	append_request(&out, words, count);
	append_request(&out, echo, 2);
	while (sent < kw_buffer_length(&out)) {
		ssize_t put =
			write(peer.fd, kw_buffer_bytes(&out) + sent, kw_buffer_length(&out) - sent);

		assert_true(put > 0);
		sent += (size_t)put;
	}
	kw_buffer_close(&out);
	kw_buffer_clear(reply);
	for (;;) {
		size_t length = kw_buffer_length(reply);
		ssize_t got;

		if (length >= mark &&
			memcmp(kw_buffer_bytes(reply) + length - mark, MARK, mark) == 0)
			break;
		got = read(peer.fd, kw_buffer_reserve(reply, 65536), 65536);
		assert_true(got > 0);
		kw_buffer_filled(reply, (size_t)got);
	}
	reply->end -= mark;
}

static void do_line(const char *line, bool must)
{
	struct kw_slice words[ANSWERS_WORDS_MAX];
	struct kw_buffer reply = {0};
	char *copy = strdup(line);

	ask_server(words, answers_split(copy, words), &reply);
	if (must && kw_buffer_bytes(&reply)[0] == '-')
		fail_msg("%s: %.*s", line, (int)kw_buffer_length(&reply),
			(const char *)kw_buffer_bytes(&reply));
	kw_buffer_close(&reply);
	free(copy);
}

void answers_do(const char *line)
{
	do_line(line, true);
}

void answers_try(const char *line)
{
	do_line(line, false);
}

void answers_do_many(const char *pattern, int count)
{
	for (int i = 0; i < count; i++) {
		char line[400];
		int length = 0;

		for (const char *at = pattern; *at; at++)
			length += *at == '#' ? snprintf(line + length, 12, "%d", i)
					     : snprintf(line + length, 2, "%c", *at);
		do_line(line, true);
	}
}

static void learn_release(void)
{
	const struct kw_slice info[] = {kw_slice_text("INFO"), kw_slice_text("server")};
	struct kw_buffer reply = {0};
	unsigned major = 0, minor = 0;
	const char *text, *at;

	ask_server(info, 2, &reply);
	kw_buffer_append(&reply, "", 1);
	text = (const char *)kw_buffer_bytes(&reply);
	at = strstr(text, "valkey_version:");
	release.fork = at ? KW_FORK_VALKEY : KW_FORK_REDIS;
	if (!at)
		at = strstr(text, "redis_version:");
	assert_non_null(at);
	assert_int_equal(sscanf(strchr(at, ':') + 1, "%u.%u", &major, &minor), 2);
	release.number = KW_RELEASE(major, minor);
	kw_buffer_close(&reply);
}

int answers_start(void **state)
{
	peer_start(&peer, binary, NULL);
	learn_release();
	return 0;
}

int answers_stop(void **state)
{
	peer_stop(&peer);
	return 0;
}

struct kw_release answers_release(void)
{
	return release;
}

void answers_set(int which)
{
	static const char *const lines[ANSWERS_SETTINGS][9] = {
		{"CONFIG SET hash-max-listpack-entries 128",
			"CONFIG SET zset-max-listpack-entries 128",
			"CONFIG SET set-max-intset-entries 512",
			"CONFIG SET set-max-listpack-entries 128",
			"CONFIG SET list-max-listpack-size -2", "CONFIG SET list-compress-depth 0",
			"CONFIG SET rdbcompression yes", "CONFIG SET stream-node-max-entries 100"},
		{"CONFIG SET hash-max-listpack-entries 0", "CONFIG SET zset-max-listpack-entries 0",
			"CONFIG SET set-max-intset-entries 0",
			"CONFIG SET set-max-listpack-entries 0",
			"CONFIG SET list-max-listpack-size 1", "CONFIG SET list-compress-depth 1",
			"CONFIG SET rdbcompression no", "CONFIG SET stream-node-max-entries 1"},
		{"CONFIG SET hash-max-listpack-value 3", "CONFIG SET zset-max-listpack-value 3",
			"CONFIG SET set-max-intset-entries 3",
			"CONFIG SET set-max-listpack-entries 100000",
			"CONFIG SET list-max-listpack-size 3", "CONFIG SET list-compress-depth 1",
			"CONFIG SET rdbcompression yes", "CONFIG SET stream-node-max-entries 3"}};

	settings = which;
	answers_do("CONFIG SET hash-max-listpack-value 64");
	answers_do("CONFIG SET zset-max-listpack-value 64");
	for (int i = 0; lines[which][i]; i++)
		answers_try(lines[which][i]);
	answers_do("FLUSHALL");
}

/* ---- the gateway ---- */

/* What the table holds of a key. */
static void fetch(struct kw_slice key, struct kw_buffer *payload, struct kw_ask *ask)
{
	const struct kw_slice dump[] = {kw_slice_text("DUMP"), key};
	const struct kw_slice when[] = {kw_slice_text("PEXPIRETIME"), key};
	const struct kw_slice now[] = {kw_slice_text("TIME")};
	unsigned long long seconds = 0, micros = 0;
	struct kw_buffer reply = {0};
	const char *text;
	char *bytes;

	ask_server(dump, 2, &reply);
	kw_buffer_append(&reply, "", 1);
	text = (const char *)kw_buffer_bytes(&reply);
	kw_buffer_clear(payload);
	if (text[0] == '$' && text[1] != '-') {
		size_t length = strtoull(text + 1, &bytes, 10);

		kw_buffer_append(payload, bytes + 2, length);
	}
	ask->payload = kw_slice(kw_buffer_bytes(payload), kw_buffer_length(payload));
	ask->kind = kw_payload_kind(ask->payload);
	ask_server(when, 2, &reply);
	kw_buffer_append(&reply, "", 1);
	text = (const char *)kw_buffer_bytes(&reply);
	ask->expires_ms = text[1] == '-' ? 0 : strtoull(text + 1, NULL, 10);
	ask_server(now, 1, &reply);
	kw_buffer_append(&reply, "", 1);
	assert_int_equal(sscanf((const char *)kw_buffer_bytes(&reply),
				 "*2\r\n$%*u\r\n%llu\r\n$%*u\r\n%llu", &seconds, &micros),
		2);
	ask->now_ms = seconds * 1000 + micros / 1000;
	kw_buffer_close(&reply);
}

/* The answer for the only key of a request. */
static void ask_gateway(const struct kw_slice *words, size_t count, enum kw_resp_version version,
	struct kw_buffer *reply)
{
	const struct kw_command *command = kw_command_find(words[0]);
	const struct kw_reply_to to = {reply, version, release};
	struct kw_ask ask = {.words = words, .count = count, .random = chance, .to = &to};
	struct kw_buffer payload = {0};

	kw_buffer_clear(reply);
	if (!command)
		fail_msg("%.*s is not known", (int)words[0].length, (const char *)words[0].data);
	if (!kw_command_fits(command, count)) {
		kw_command_refuse(command, &to);
		return;
	}
	assert_int_equal(kw_command_keys(command, count), 1);
	fetch(words[command->first_key], &payload, &ask);
	kw_command_answer(command, &ask);
	kw_buffer_close(&payload);
}

void answers_gateway(
	const char *line, enum kw_resp_version version, uint64_t random, struct kw_buffer *reply)
{
	struct kw_slice words[ANSWERS_WORDS_MAX];
	char *copy = strdup(line);

	chance = random;
	ask_gateway(words, answers_split(copy, words), version, reply);
	free(copy);
}

/* ---- comparing ---- */

static int compare_lines(const void *left, const void *right)
{
	return strcmp(*(char *const *)left, *(char *const *)right);
}

/* The reply's lines in order: equal for replies whose elements are the same in any order. */
static void sort_reply(struct kw_buffer *reply)
{
	struct kw_buffer sorted = {0};
	char **lines = calloc(kw_buffer_length(reply) + 1, sizeof *lines);
	size_t count = 0;

	kw_buffer_append(reply, "", 1);
	for (char *line = strtok((char *)kw_buffer_bytes(reply), "\r\n"); line;
		line = strtok(NULL, "\r\n"))
		lines[count++] = line;
	qsort(lines, count, sizeof *lines, compare_lines);
	for (size_t i = 0; i < count; i++)
		kw_buffer_printf(&sorted, "%s\n", lines[i]);
	free(lines);
	kw_buffer_close(reply);
	*reply = sorted;
}

static void compare(const char *line, enum kw_resp_version version, bool sorted)
{
	struct kw_buffer server = {0}, gateway = {0};
	struct kw_slice words[ANSWERS_WORDS_MAX];
	char *copy = strdup(line);
	size_t count = answers_split(copy, words);

	ask_server(words, count, &server);
	ask_gateway(words, count, version, &gateway);
	if (sorted) {
		sort_reply(&server);
		sort_reply(&gateway);
	}
	if (!kw_slice_equal(kw_slice(kw_buffer_bytes(&server), kw_buffer_length(&server)),
		    kw_slice(kw_buffer_bytes(&gateway), kw_buffer_length(&gateway))) &&
		differences++ < SHOWN_MAX)
		print_error("%s (RESP %d, settings %d): the server says\n%.*s\nthe gateway\n%.*s\n",
			line, version, settings,
			(int)(kw_buffer_length(&server) < 600 ? kw_buffer_length(&server) : 600),
			(const char *)kw_buffer_bytes(&server),
			(int)(kw_buffer_length(&gateway) < 600 ? kw_buffer_length(&gateway) : 600),
			(const char *)kw_buffer_bytes(&gateway));
	kw_buffer_close(&server);
	kw_buffer_close(&gateway);
	free(copy);
}

static void compare_all(const char *const *lines, bool sorted)
{
	for (enum kw_resp_version version = KW_RESP_2; version <= KW_RESP_3; version++) {
		answers_do(version == KW_RESP_3 ? "HELLO 3" : "HELLO 2");
		for (const char *const *line = lines; *line; line++)
			compare(*line, version, sorted);
	}
}

void answers_same(const char *const *lines)
{
	compare_all(lines, false);
}

void answers_same_set(const char *const *lines)
{
	compare_all(lines, true);
}

void answers_none_differs(void)
{
	int found = differences;

	differences = 0;
	if (found > 0)
		fail_msg("%d replies differ from the server's", found);
}
