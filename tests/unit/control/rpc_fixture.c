#include "rpc_fixture.h"

#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct kw_error error;

static void on_echo(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	struct fixture *fixture = arg;

	fixture->echoes++;
	kw_rpc_result(call, json_incref(json_object_get(params, "text")));
}

static void on_hold(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	struct fixture *fixture = arg;

	if (fixture->held_count == HELD_MAX)
		abort();
	fixture->held[fixture->held_count++] = call;
}

static void on_release(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	struct fixture *fixture = arg;
	int count = fixture->held_count;

	for (int i = 0; i < count; i++)
		kw_rpc_result(fixture->held[i], json_integer(i));
	fixture->held_count = 0;
	kw_rpc_result(call, json_integer(count));
}

static void on_count(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	struct fixture *fixture = arg;

	kw_rpc_result(call,
		json_pack("{s:i,s:i}", "held", fixture->held_count, "echoes", fixture->echoes));
}

static json_t *filled_text(size_t bytes)
{
	char *text = kw_alloc(bytes + 1);
	json_t *string;

	memset(text, 'x', bytes);
	text[bytes] = '\0';
	string = json_string(text);
	free(text);
	return string;
}

static void on_big(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	kw_rpc_result(
		call, filled_text((size_t)json_integer_value(json_object_get(params, "bytes"))));
}

static void on_burst(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	struct fixture *fixture = arg;
	json_int_t count = json_integer_value(json_object_get(params, "count"));

	for (json_int_t i = 0; i < count; i++)
		kw_rpc_event(fixture->server, "tick",
			json_pack("{s:I,s:o}", "n", i, "padding", filled_text(1000)));
	kw_rpc_result(call, json_null());
}

static void on_log(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	kw_log_error("test", "a line with a bad byte \xff");
	kw_rpc_result(call, json_null());
}

static void on_fail(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	struct kw_error why;

	kw_error_set(&why, KW_E_FULL, "no room in \xff");
	kw_rpc_fail_error(call, &why);
}

void fixture_closed(void *arg)
{
	struct fixture *fixture = arg;

	fixture->closed = true;
}

/* A line through the descriptor that came along. */
static void on_take(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	int fd = kw_rpc_call_take_fd(call);
	bool written = fd >= 0 && write(fd, "taken\n", 6) == 6;

	if (fd >= 0)
		close(fd);
	kw_rpc_result(call, json_boolean(written));
}

static void on_wanted(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	struct fixture *fixture = arg;

	kw_rpc_result(
		call, json_boolean(fixture->held_count && kw_rpc_call_wanted(fixture->held[0])));
}

/* Which connection this is; with a number, whether that one is there. */
static void on_connection(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	struct fixture *fixture = arg;
	json_t *number = json_object_get(params, "number");

	kw_rpc_result(call, number ? json_boolean(kw_rpc_is_connected(
					     fixture->server, (uint64_t)json_integer_value(number)))
				   : json_integer((json_int_t)kw_rpc_call_connection(call)));
}

/* ---- waits ---- */

static bool has_passed(void *arg, uint64_t token)
{
	const struct fixture *fixture = arg;

	return token <= fixture->passed;
}

static void look(uv_prepare_t *before_sleep)
{
	struct fixture *fixture = before_sleep->data;

	kw_rpc_waits_look(&fixture->waits);
}

static void begin_waits(struct fixture *fixture)
{
	kw_rpc_waits_init(&fixture->waits, &fixture->loop, has_passed, fixture);
	uv_prepare_init(&fixture->loop, &fixture->before_sleep);
	fixture->before_sleep.data = fixture;
	uv_prepare_start(&fixture->before_sleep, look);
}

static void on_await(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	struct fixture *fixture = arg;
	uint64_t token = (uint64_t)json_integer_value(json_object_get(params, "token"));

	kw_rpc_waits_add(&fixture->waits, call, params, token);
}

static void on_pass(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	struct fixture *fixture = arg;

	fixture->passed = (uint64_t)json_integer_value(json_object_get(params, "token"));
	kw_rpc_result(call, json_integer(fixture->waits.count));
}

static void on_stop(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	struct fixture *fixture = arg;

	kw_rpc_result(call, json_string("stopping"));
	kw_rpc_waits_close(&fixture->waits);
	uv_close((uv_handle_t *)&fixture->before_sleep, NULL);
	kw_rpc_server_close(fixture->server, fixture_closed, fixture);
}

const struct kw_rpc_method fixture_methods[] = {
	{"echo", "Give text back.", {{"text", JSON_STRING, true, "anything"}}, on_echo},
	{"any", "Give any value back.", {{"text", JSON_NULL, true, "anything"}}, on_echo},
	{"hold", "Answer later.", {{0}}, on_hold},
	{"release", "Answer what is held.", {{0}}, on_release},
	{"count", "What happened.", {{0}}, on_count},
	{"big", "A large answer.", {{"bytes", JSON_INTEGER, true, "how large"}}, on_big},
	{"burst", "Many events.", {{"count", JSON_INTEGER, true, "how many"}}, on_burst},
	{"log", "Write a log line.", {{0}}, on_log},
	{"fail", "Refuse.", {{0}}, on_fail},
	{"flag", "Takes a boolean.", {{"on", JSON_TRUE, false, "or off"}}, on_count},
	{"connection", "Which one is it, or is that one there?",
		{{"number", JSON_INTEGER, false, "of another one"}}, on_connection},
	{"take", "Write to what was passed.", {{0}}, on_take},
	{"wanted", "Does anybody wait for the first one held?", {{0}}, on_wanted},
	{"await", "Wait for a token.",
		{{"token", JSON_INTEGER, true, "which one"}, KW_RPC_WAIT_PARAM}, on_await},
	{"pass", "Let tokens pass. How many calls wait?",
		{{"token", JSON_INTEGER, true, "up to this one"}}, on_pass},
	{"stop", "Close the server.", {{0}}, on_stop},
	{0},
};

void *fixture_serve(void *arg)
{
	struct fixture *fixture = arg;
	struct kw_error why;

	uv_loop_init(&fixture->loop);
	begin_waits(fixture);
	if (kw_rpc_server_new(&fixture->loop, fixture->path, fixture_methods, "keywake-test",
		    fixture, &fixture->server, &why)) {
		fprintf(stderr, "%s\n", why.text);
		abort();
	}
	pthread_barrier_wait(&fixture->started);
	uv_run(&fixture->loop, UV_RUN_DEFAULT);
	if (uv_loop_close(&fixture->loop) || !fixture->closed)
		abort();
	return NULL;
}

int fixture_setup(void **state)
{
	struct fixture *fixture = calloc(1, sizeof *fixture);

	strcpy(fixture->directory, "/tmp/kw-rpc-XXXXXX");
	assert_non_null(mkdtemp(fixture->directory));
	snprintf(fixture->path, sizeof fixture->path, "%s/c.sock", fixture->directory);
	pthread_barrier_init(&fixture->started, NULL, 2);
	assert_int_equal(pthread_create(&fixture->thread, NULL, fixture_serve, fixture), 0);
	pthread_barrier_wait(&fixture->started);
	*state = fixture;
	return 0;
}

int call_text(struct kw_rpc_client *client, const char *method, json_t *params, json_t **result)
{
	return kw_rpc_client_call(client, method, params, PATIENCE_MS, result, &error);
}

int fixture_teardown(void **state)
{
	struct fixture *fixture = *state;
	struct kw_rpc_client *client;
	json_t *result;

	if (access(fixture->path, F_OK) == 0) {
		assert_int_equal(kw_rpc_client_open(fixture->path, &client, &error), 0);
		assert_int_equal(call_text(client, "release", NULL, NULL), 0);
		assert_int_equal(call_text(client, "stop", NULL, &result), 0);
		assert_string_equal(json_string_value(result), "stopping");
		json_decref(result);
		kw_rpc_client_close(client);
	}
	pthread_join(fixture->thread, NULL);
	/* Nothing but the directory itself is left. */
	assert_int_equal(rmdir(fixture->directory), 0);
	pthread_barrier_destroy(&fixture->started);
	free(fixture);
	return 0;
}

struct kw_rpc_client *open_client(const struct fixture *fixture)
{
	struct kw_rpc_client *client;

	assert_int_equal(kw_rpc_client_open(fixture->path, &client, &error), 0);
	return client;
}

/* A bare socket, to send what the client would not. */
int open_raw(const struct fixture *fixture)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct timeval patience = {PATIENCE_MS / 1000, 0};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	snprintf(address.sun_path, sizeof address.sun_path, "%s", fixture->path);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
	return fd;
}

void send_raw(int fd, const char *text)
{
	size_t length = strlen(text);

	while (length > 0) {
		ssize_t sent = send(fd, text, length, MSG_NOSIGNAL);

		assert_true(sent > 0);
		text += sent;
		length -= (size_t)sent;
	}
}

/* One line as JSON; NULL when the server hung up. */
json_t *receive_raw(int fd)
{
	struct kw_buffer line = {0};
	json_t *message;
	char byte;

	for (;;) {
		ssize_t got = recv(fd, &byte, 1, 0);

		if (got < 0 && errno == EINTR)
			continue; /* with a timeout a call is not gone on with after a SIGSTOP */
		if (got <= 0) {
			assert_true(got == 0 || errno == ECONNRESET);
			kw_buffer_close(&line);
			return NULL;
		}
		if (byte == '\n')
			break;
		kw_buffer_append(&line, &byte, 1);
	}
	message =
		json_loadb((const char *)kw_buffer_bytes(&line), kw_buffer_length(&line), 0, NULL);
	assert_non_null(message);
	kw_buffer_close(&line);
	return message;
}

void expect_error(int fd, const char *line, int code, const char *word)
{
	json_t *message;
	const char *text;

	send_raw(fd, line);
	send_raw(fd, "\n");
	message = receive_raw(fd);
	assert_non_null(message);
	text = json_string_value(json_object_get(json_object_get(message, "error"), "message"));
	assert_non_null(text);
	assert_int_equal(
		json_integer_value(json_object_get(json_object_get(message, "error"), "code")),
		code);
	if (!strstr(text, word))
		fail_msg("not the sentence expected: %s", text);
	json_decref(message);
}

json_int_t held_now(struct kw_rpc_client *client)
{
	json_t *result;
	json_int_t held;

	assert_int_equal(call_text(client, "count", NULL, &result), 0);
	held = json_integer_value(json_object_get(result, "held"));
	json_decref(result);
	return held;
}

void wait_held(struct kw_rpc_client *client, json_int_t wanted)
{
	for (int i = 0; i < PATIENCE_MS && held_now(client) != wanted; i++)
		usleep(1000);
	assert_int_equal(held_now(client), wanted);
}
