#include "http_fixture.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "control/http/address.h"

static const struct kw_config_key keys[] = {
	{"http.listen", KW_CONFIG_TEXT, "\"\"", false, 0, 0, NULL, "", kw_http_address_check},
	{"http.secret_file", KW_CONFIG_TEXT, "\"\"", false, 0, 0, NULL, "", NULL},
	{0},
};

struct fixture *fixture;

static void get_ready(void *arg, struct kw_http_readiness *readiness)
{
	fixture->asked++;
	*readiness = fixture->now;
}

static json_t *get_status(void *arg)
{
	fixture->asked++;
	return json_pack("{s:s,s:[s]}", "state", fixture->now.state, "quarantine", "a key's name");
}

static void get_metrics(void *arg, struct kw_buffer *text)
{
	fixture->asked++;
	kw_buffer_printf(text, "# HELP x y\n# TYPE x gauge\nx 1\n");
}

struct kw_http_source source = {"agent", get_ready, get_status, get_metrics, NULL, NULL, NULL};

void set(const char *key, const char *value)
{
	struct kw_error error;
	char text[256];

	snprintf(text, sizeof text, "%s=%s", key, value);
	assert_int_equal(kw_config_set(fixture->config, text, &error), 0);
}

void write_secret(const char *secret)
{
	FILE *file = fopen(fixture->secret, "w");

	assert_non_null(file);
	fprintf(file, "%s\n", secret);
	fclose(file);
	chmod(fixture->secret, 0600);
}

int setup(void **state)
{
	fixture = calloc(1, sizeof *fixture);
	strcpy(fixture->directory, "/tmp/kw-http-XXXXXX");
	assert_non_null(mkdtemp(fixture->directory));
	snprintf(fixture->path, sizeof fixture->path, "%s/http", fixture->directory);
	snprintf(fixture->secret, sizeof fixture->secret, "%s/secret", fixture->directory);
	fixture->config = kw_config_new(keys);
	source.transitions = &fixture->transitions;
	fixture->now = (struct kw_http_readiness){true, "warm", "", 1500};
	assert_int_equal(uv_loop_init(&fixture->loop), 0);
	return 0;
}

int teardown(void **state)
{
	kw_http_server_close(fixture->server);
	uv_run(&fixture->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&fixture->loop), 0);
	kw_config_free(fixture->config);
	kw_transitions_close(&fixture->transitions);
	unlink(fixture->secret);
	assert_int_equal(rmdir(fixture->directory), 0); /* the socket is gone */
	free(fixture);
	return 0;
}

void start(void)
{
	struct kw_error error = {0};
	char address[128];

	snprintf(address, sizeof address, "unix://%s", fixture->path);
	set("http.listen", address);
	if (kw_http_server_new(&fixture->loop, fixture->config, &source, &fixture->server, &error))
		fail_msg("%s", error.text);
	assert_non_null(fixture->server);
}

int dial(void)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	strcpy(name.sun_path, fixture->path);
	assert_int_equal(connect(fd, (struct sockaddr *)&name, sizeof name), 0);
	return fd;
}

const char *read_all(int fd)
{
	static char text[65536];
	uint64_t until = kw_clock_us() + PATIENCE_US;
	size_t length = 0;
	ssize_t got;

	for (;;) {
		uv_run(&fixture->loop, UV_RUN_NOWAIT);
		got = read(fd, text + length, sizeof text - 1 - length);
		if (got == 0 || (got < 0 && errno != EAGAIN))
			break;
		length += got > 0 ? (size_t)got : 0;
		assert_true(kw_clock_us() < until);
	}
	text[length] = '\0';
	close(fd);
	return text;
}

void send_text(int fd, const char *text)
{
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
}

const char *ask_with(const char *line, const char *header)
{
	int fd = dial();
	char text[512];

	snprintf(text, sizeof text, "%s HTTP/1.1\r\nHost: x\r\n%s\r\n", line, header);
	send_text(fd, text);
	return read_all(fd);
}

const char *ask(const char *path)
{
	char line[256];

	snprintf(line, sizeof line, "GET %s", path);
	return ask_with(line, "");
}

void assert_status(const char *answer, const char *status)
{
	bool is = strncmp(answer, "HTTP/1.1 ", 9) == 0 &&
		  strncmp(answer + 9, status, strlen(status)) == 0;

	if (!is)
		print_error("not %s: %s\n", status, answer);
	assert_true(is);
}

void assert_has(const char *answer, const char *words)
{
	bool has = strstr(answer, words) != NULL;

	if (!has)
		print_error("not there: %s\nin: %s\n", words, answer);
	assert_true(has);
}

void assert_lacks(const char *answer, const char *words)
{
	bool has = strcasestr(answer, words) != NULL;

	if (has)
		print_error("there: %s\nin: %s\n", words, answer);
	assert_false(has);
}
