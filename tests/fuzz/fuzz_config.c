/*
 * Arbitrary bytes as a configuration file and as assignments: taken or refused with a sentence,
 * never half taken, and what was taken is taken again when it is written out.
 *
 * The first byte chooses: a file (a reload after it keeps all, and the pass over its comments keeps
 * its promises), or assignments, one a line. Each line is a variable of the environment, too.
 */
#include "fuzz.h"

#include "control/config/config.h"
#include "control/json_comments.h"
#include "remote/remote.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const struct kw_config_key keys[] = {
	{"redis.address", KW_CONFIG_TEXT, NULL, false, 0, 0, NULL, "Where."},
	{"proxy", KW_CONFIG_TEXT, "\"shm:///s\"", false, 0, 0, NULL, "Proxy.", kw_address_check},
	{"table.max_bytes", KW_CONFIG_BYTES, "\"1GiB\"", true, 1048576, 1e15, NULL, "Limit."},
	{"poll.idle_us", KW_CONFIG_INTEGER, "1000", true, 10, 1000000, NULL, "Interval."},
	{"poll.busy", KW_CONFIG_BOOL, "false", true, 0, 0, NULL, "Busy."},
	{"source.share", KW_CONFIG_NUMBER, "0.25", true, 0.01, 1, NULL, "Share."},
	{"listen", KW_CONFIG_TEXTS, "[]", true, 0, 0, NULL, "Listeners."},
	{"filter.databases", KW_CONFIG_INTEGERS, "[]", true, 0, 65535, NULL, "Databases."},
	{"log.level", KW_CONFIG_TEXT, "\"info\"", true, 0, 0, "error|warn|info", "Level."},
	{0},
};

static const struct kw_fuzz_bytes seeds[] = {
	KW_FUZZ_BYTES("\x00{\"redis\": {\"address\": \"unix:///s\"}, \"poll.busy\": true,\n"
		      " \"table\": {\"max_bytes\": \"16 MiB\"}, \"listen\": [\"a\", \"b\"],\n"
		      " \"filter\": {\"databases\": [0, 7]}, \"log\": {\"level\": \"warn\"}}"),
	KW_FUZZ_BYTES("\x00{\"source\": {\"share\": 1e-1}, \"proxy\": \"tcp://[::1]:7471\"}"),
	KW_FUZZ_BYTES("\x00{\"poll\": {\"idle_us\": 1e400}}"),
	KW_FUZZ_BYTES(
		"\x00// a\n{\"poll\": {\"busy\": true /* b */,}, \"listen\": [\"//\", \"/*\",],}"),
	KW_FUZZ_BYTES("\x00{\"include\": [\"a.json\", \"b/*.json\"], \"log.level\": \"warn\"}"),
	KW_FUZZ_BYTES("\x00{\"listen\": \"\\\"\" /* \xc3\xa4\n*/}/"),
	KW_FUZZ_BYTES("\x00[]"),
	KW_FUZZ_BYTES("\x01redis.address=unix:///s\ntable.max_bytes=64k\npoll.idle_us=20\n"
		      "listen=[\"x\"]\nfilter.databases=3\nsource.share=0.5\nlog.level=warn"),
	KW_FUZZ_BYTES("\x01REDIS_ADDRESS=unix:///s\nFILTER_DATABASES=[1]\nREDIS_PORT=tcp://a:1\n"
		      "REDIS_SERVICE_PORT_X=1\nSOCKET=/s\nPOLL_IDLE=1\nOTHER=1"),
	KW_FUZZ_BYTES("\x01proxy=rdma://host:1\nproxy=http://x\npoll=1\nunknown.key=2\nx"),
};

static void json_of(const struct kw_config *config, struct kw_buffer *out)
{
	kw_buffer_clear(out);
	kw_config_json(config, NULL, out);
	kw_buffer_append(out, "", 1);
}

static const char *text_of(const struct kw_buffer *buffer)
{
	return (const char *)kw_buffer_bytes(buffer);
}

static void read_all(const struct kw_config *config)
{
	size_t length = 0;

	length += strlen(kw_config_text(config, "log.level"));
	for (size_t i = 0; i < kw_config_count(config, "listen"); i++)
		length += strlen(kw_config_text_at(config, "listen", i));
	for (size_t i = 0; i < kw_config_count(config, "filter.databases"); i++)
		must(kw_config_integer_at(config, "filter.databases", i) <= 65535);
	must(kw_config_integer(config, "poll.idle_us") >= 10);
	must(kw_config_integer(config, "poll.idle_us") <= 1000000);
	must(kw_config_number(config, "source.share") <= 1 && length < SIZE_MAX);
	(void)kw_config_bool(config, "poll.busy");
}

/* A file whose content is this; the path names it as long as fd is open. */
static int file_of(const void *bytes, size_t size, char path[64])
{
	int fd = memfd_create("config", MFD_CLOEXEC);

	must(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
	snprintf(path, 64, "/proc/self/fd/%d", fd);
	return fd;
}

/* What was taken is a file of its own, which means the same. */
static void take_again(const struct kw_config *config)
{
	struct kw_buffer text = {0}, second = {0};
	struct kw_error error = {0};
	struct kw_config *again;
	char path[64];
	int fd;

	/* A required key that was not given is written as null, which no file may say. */
	if (kw_config_complete(config, &error) != 0)
		return;
	again = kw_config_new(keys);
	json_of(config, &text);
	fd = file_of(text_of(&text), strlen(text_of(&text)), path);
	must(kw_config_load(again, path, &error) == 0);
	json_of(again, &second);
	must(strcmp(text_of(&text), text_of(&second)) == 0);
	close(fd);
	kw_buffer_close(&text);
	kw_buffer_close(&second);
	kw_config_free(again);
}

static size_t lines_of(const char *text, size_t length)
{
	size_t lines = 0;

	for (size_t i = 0; i < length; i++)
		lines += text[i] == '\n';
	return lines;
}

/* No byte is added, no line is lost, and what is left has no comment. */
static void try_comments(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1), *again = malloc(size + 1);
	struct kw_json_place open = {0, 0};
	size_t length = size, second;
	enum kw_json_comments found;

	must(text && again);
	memcpy(text, data, size);
	found = kw_json_blank_comments(text, &length, &open);
	if (found == KW_JSON_COMMENTS_UNCLOSED) {
		must(open.line > 0 && open.line <= lines_of((const char *)data, size) + 1);
		must(open.column > 0 && open.column <= size);
	} else {
		must(length <= size);
		must(lines_of(text, length) == lines_of((const char *)data, size));
		must(found == KW_JSON_COMMENTS_BLANKED || memcmp(text, data, size) == 0);
		memcpy(again, text, length);
		second = length;
		must(kw_json_blank_comments(again, &second, &open) == KW_JSON_COMMENTS_NONE);
		must(second == length && memcmp(again, text, length) == 0);
	}
	free(text);
	free(again);
}

static void try_file(struct kw_config *config, const uint8_t *data, size_t size)
{
	struct kw_buffer before = {0}, after = {0}, notes = {0};
	struct kw_error error = {0};
	char path[64];
	int fd = file_of(data, size, path);

	json_of(config, &before);
	if (kw_config_load(config, path, &error) != 0) {
		must(error.text[0] != 0);
		json_of(config, &after);
		must(strcmp(text_of(&before), text_of(&after)) == 0);
	} else if (kw_config_complete(config, &error) == 0) {
		json_of(config, &before);
		must(kw_config_reload(config, NULL, NULL, &notes, &error) == 0);
		json_of(config, &after);
		must(strcmp(text_of(&before), text_of(&after)) == 0);
	}
	close(fd);
	kw_buffer_close(&before);
	kw_buffer_close(&after);
	kw_buffer_close(&notes);
}

static void try_variable(const char *line)
{
	struct kw_config *config = kw_config_new(keys);
	struct kw_error error = {0};
	char variable[sizeof "KEYWAKE_" + 4096];
	const char *environment[] = {variable, NULL};

	snprintf(variable, sizeof variable, "KEYWAKE_%s", line);
	if (kw_config_load_environment(config, environment, &error) == 0)
		take_again(config);
	else
		must(error.text[0] != 0);
	kw_config_free(config);
}

static void try_lines(struct kw_config *config, char *text)
{
	struct kw_buffer before = {0}, after = {0};
	char *rest = text, *line;

	while ((line = strsep(&rest, "\n"))) {
		struct kw_error error = {0};

		try_variable(line);
		json_of(config, &before);
		if (kw_config_set(config, line, &error) == 0)
			continue;
		must(error.text[0] != 0);
		json_of(config, &after);
		must(strcmp(text_of(&before), text_of(&after)) == 0);
		/* The same at run time. */
		(void)kw_config_change(config, "listen", line, NULL, NULL, &error);
		(void)kw_config_change(config, line, "17", NULL, NULL, &error);
		(void)kw_config_check_path(config, line, &error);
	}
	kw_buffer_close(&before);
	kw_buffer_close(&after);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kw_config *config;
	char *text;

	if (size < 1 || size > 4096)
		return 0;
	config = kw_config_new(keys);
	if (data[0] & 1) {
		text = strndup((const char *)data + 1, size - 1);
		must(text != NULL);
		try_lines(config, text);
		free(text);
	} else {
		try_comments(data + 1, size - 1);
		try_file(config, data + 1, size - 1);
	}
	read_all(config);
	take_again(config);
	kw_config_free(config);
	return 0;
}

KW_FUZZ_SEEDS(seeds)
