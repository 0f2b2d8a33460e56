/*
 * Arbitrary bytes on the control socket of a daemon: every line that comes back is one JSON object
 * of JSON-RPC, there are no more answers than lines, no handler sees parameters of a wrong type,
 * and nothing is left when the client has gone.
 *
 * The first byte chooses the pieces in which the bytes come, and whether the client reads the
 * answers before it goes.
 */
#include "fuzz.h"

#include "base/buffer.h"
#include "base/log.h"
#include "control/rpc/rpc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <uv.h>

#define HELD_MAX 64
#define TURNS_MAX 100000

static const struct kw_fuzz_bytes seeds[] = {
	KW_FUZZ_BYTES("\x01{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\","
		      "\"params\":{\"text\":\"a\"}}\n"),
	KW_FUZZ_BYTES("\x07{\"id\":\"x\",\"method\":\"hold\"}\n{\"method\":\"hold\"}\n"
		      "{\"id\":2.5,\"method\":\"release\"}\n"),
	KW_FUZZ_BYTES("\x03{\"id\":1,\"method\":\"any\",\"params\":{\"value\":[{}],\"flag\":true,"
		      "\"number\":1.5,\"count\":3}}\nno JSON\n[]\n\n"),
	KW_FUZZ_BYTES(
		"\x83{\"id\":1,\"method\":\"rpc.methods\"}\n{\"id\":1,\"method\":\"version\"}\n"
		"{\"id\":null,\"method\":\"log.set\",\"params\":{\"level\":\"x\"}}\n"
		"{\"id\":1,\"method\":\"events.subscribe\"}\n{\"id\":1,\"method\":\"log\"}"),
	KW_FUZZ_BYTES("\x05{\"id\":[],\"method\":\"echo\"}\n{\"id\":1,\"method\":\"ecko\","
		      "\"params\":[1]}\n{\"id\":1,\"method\":\"echo\",\"params\":{\"txt\":1}}\n"),
};

static uv_loop_t loop;
static struct kw_rpc_server *server;
static struct sockaddr_un address = {.sun_family = AF_UNIX};
static struct kw_rpc_call *held[HELD_MAX];
static int held_count;

/* ---- the daemon ---- */

static void on_echo(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	(void)arg;
	must(json_is_string(json_object_get(params, "text")));
	kw_rpc_result(call, json_incref(json_object_get(params, "text")));
}

static void on_any(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	const json_t *flag = json_object_get(params, "flag");
	const json_t *number = json_object_get(params, "number");
	const json_t *count = json_object_get(params, "count");

	(void)arg;
	must(json_object_get(params, "value") != NULL);
	must(!flag || json_is_boolean(flag));
	must(!number || json_is_number(number));
	must(!count || json_is_integer(count));
	kw_rpc_result(call, json_incref(json_object_get(params, "value")));
}

static void on_hold(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	(void)arg;
	(void)params;
	if (held_count < HELD_MAX)
		held[held_count++] = call;
	else
		kw_rpc_fail(call, KW_RPC_CODE(KW_E_FULL), "full");
}

static void release(void)
{
	while (held_count > 0) {
		held_count--;
		kw_rpc_result(held[held_count], json_integer(held_count));
	}
}

static void on_release(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	(void)arg;
	(void)params;
	release();
	kw_rpc_result(call, json_true());
}

static void on_log(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	(void)arg;
	(void)params;
	kw_rpc_event(server, "tick", json_object());
	kw_rpc_result(call, json_null());
}

static const struct kw_rpc_method methods[] = {
	{"echo", "Text back.", {{"text", JSON_STRING, true, "any"}}, on_echo},
	{"any", "Any value back.",
		{{"value", JSON_NULL, true, "any"}, {"flag", JSON_TRUE, false, "on"},
			{"number", JSON_REAL, false, "n"}, {"count", JSON_INTEGER, false, "n"}},
		on_any},
	{"hold", "Answer later.", {{0}}, on_hold},
	{"release", "Answer what is held.", {{0}}, on_release},
	{"log", "An event.", {{0}}, on_log},
	{0},
};

static void remove_folder(void)
{
	char *slash;

	unlink(address.sun_path);
	slash = strrchr(address.sun_path, '/');
	*slash = '\0';
	rmdir(address.sun_path);
}

static void start(void)
{
	char folder[] = "/tmp/kw-fuzz-XXXXXX";
	struct kw_error error;

	must(mkdtemp(folder) != NULL);
	snprintf(address.sun_path, sizeof address.sun_path, "%s/s", folder);
	must(uv_loop_init(&loop) == 0);
	must(kw_rpc_server_new(&loop, address.sun_path, methods, "fuzzed", NULL, &server, &error) ==
		0);
	kw_log_set_level(KW_LOG_ERROR);
	atexit(remove_folder);
}

/* ---- its client ---- */

struct lines {
	unsigned sent, answers;
	struct kw_buffer in;
};

static void check_line(struct lines *lines, const char *line, size_t length)
{
	json_t *answer = json_loadb(line, length, JSON_ALLOW_NUL, NULL);
	const json_t *dialect = json_object_get(answer, "jsonrpc");

	must(json_is_object(answer));
	if (!json_object_get(answer, "method")) {
		must(!json_object_get(answer, "result") != !json_object_get(answer, "error"));
		must(dialect && strcmp(json_string_value(dialect), "2.0") == 0);
		must(json_object_get(answer, "id") != NULL);
		must(++lines->answers <= lines->sent);
	}
	json_decref(answer);
}

/* False: the server has closed the connection. */
static int hear(struct lines *lines, int fd)
{
	ssize_t got;

	while ((got = recv(fd, kw_buffer_reserve(&lines->in, 65536), 65536, MSG_DONTWAIT)) > 0)
		kw_buffer_filled(&lines->in, (size_t)got);
	if (got == 0 || (got < 0 && errno != EAGAIN))
		return 0;
	for (;;) {
		const uint8_t *bytes = kw_buffer_bytes(&lines->in), *end = NULL;

		if (kw_buffer_length(&lines->in) > 0)
			end = memchr(bytes, '\n', kw_buffer_length(&lines->in));
		if (!end)
			return 1;
		check_line(lines, (const char *)bytes, (size_t)(end - bytes));
		kw_buffer_consume(&lines->in, (size_t)(end - bytes) + 1);
	}
}

static void turn(void)
{
	for (int i = 0; i < 4; i++)
		uv_run(&loop, UV_RUN_NOWAIT);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct lines lines = {0};
	size_t piece;
	int fd, turns = 0;
	bool reads;

	if (size < 1)
		return 0;
	if (!server)
		start();
	piece = (size_t)(data[0] & 0x7f) * 3 + 1;
	reads = !(data[0] & 0x80);
	data++;
	size--;
	lines.sent = 1; /* the last line can lack its end */
	for (size_t i = 0; i < size; i++)
		lines.sent += data[i] == '\n';
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	must(fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
	turn();
	while (size > 0) {
		size_t take = piece < size ? piece : size;

		if (send(fd, data, take, MSG_NOSIGNAL) < 0)
			break;
		data += take;
		size -= take;
		turn();
	}
	if (reads) {
		shutdown(fd, SHUT_WR);
		release();
		for (turns = 0; hear(&lines, fd); turns++) {
			must(turns < TURNS_MAX);
			release();
			turn();
		}
	}
	close(fd);
	turn();
	release();
	turn();
	kw_buffer_close(&lines.in);
	return 0;
}

KW_FUZZ_SEEDS(seeds)
