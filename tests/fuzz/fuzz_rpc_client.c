/*
 * Arbitrary bytes as the answers of a daemon, before keywakectl: calls come to an end with a result
 * or a sentence, and what is shown of a result has no control character that a terminal obeys.
 *
 * The first byte chooses whether a call or an event is waited for first.
 */
#include "fuzz.h"

#include "ctl/ctl.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define CALLS_MAX 16

static const struct kw_fuzz_bytes seeds[] = {
	KW_FUZZ_BYTES("\x00{\"id\":1,\"result\":{\"state\":\"live\",\"fresh_us\":1,\"epoch\":17,"
		      "\"used_bytes\":1048576,\"progress\":0.5,\"nested\":{\"lag_ms\":3},"
		      "\"list\":[{\"name\":\"a\",\"since_us\":5},{\"name\":\"b\"}]}}\n"),
	KW_FUZZ_BYTES("\x00{\"id\":1,\"error\":{\"code\":-32000,\"message\":\"no\\u001b[31m\"}}\n"),
	KW_FUZZ_BYTES("\x01{\"method\":\"event\",\"params\":{\"kind\":\"log\"}}\n{\"id\":9,"
		      "\"result\":1}\n{\"method\":\"event\"}\n{\"id\":1,\"result\":[1,[2],{}]}\n"),
	KW_FUZZ_BYTES("\x00{\"id\":1,\"result\":\"\\u009b31m \\u0000 \\u007f\"}\n"),
	KW_FUZZ_BYTES("\x00HTTP/1.1 400 Bad Request\r\n"),
};

static struct sockaddr_un address = {.sun_family = AF_UNIX};
static int listener = -1;

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

	must(mkdtemp(folder) != NULL);
	snprintf(address.sun_path, sizeof address.sun_path, "%s/s", folder);
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	must(bind(listener, (struct sockaddr *)&address, sizeof address) == 0);
	must(listen(listener, 4) == 0);
	atexit(remove_folder);
}

/* Bytes that a terminal takes for text. */
static void must_be_text(const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		unsigned char c = (unsigned char)text[i];

		must(c == '\n' || (c >= 0x20 && c != 0x7f));
		/* U+0080 to U+009F */
		must(c != 0xc2 || i + 1 == length || ((unsigned char)text[i + 1] & 0xe0) != 0x80);
	}
}

static void show_value(const char *name, const json_t *value)
{
	char cell[CTL_CELL];
	const char *shown = ctl_show_value(name, value, cell);

	must(strlen(shown) < sizeof cell);
	must_be_text(shown, strlen(shown));
}

/* As a person would see it. */
static void show(const json_t *value)
{
	const struct ctl ctl = {0};
	FILE *own = stdout;
	char *text = NULL;
	size_t length = 0;

	stdout = open_memstream(&text, &length);
	must(stdout != NULL);
	if (json_is_object(value))
		ctl_print_fields(&ctl, value);
	else if (json_is_array(value))
		ctl_print_rows(&ctl, value);
	fclose(stdout);
	stdout = own;
	must_be_text(text, length);
	free(text);
	show_value("lag_us", value);
	show_value("since_us", value);
	show_value("used_bytes", value);
	show_value("epoch", value);
}

/* False: the client must be closed. */
static bool one_call(struct kw_rpc_client *client)
{
	json_t *result = NULL;
	struct kw_error error = {0};
	int code = kw_rpc_client_call(client, "status", NULL, 1000, &result, &error);

	must(code == 0 || error.text[0] != 0 || code == KW_E_REFUSED);
	if (code == 0) {
		must(result != NULL);
		show(result);
	}
	json_decref(result);
	return code == 0 || code == KW_E_REFUSED;
}

static bool one_event(struct kw_rpc_client *client)
{
	json_t *event = NULL;
	struct kw_error error = {0};
	int code = kw_rpc_client_event(client, 1000, &event, &error);

	must(code == 0 || error.text[0] != 0);
	if (code == 0 && event)
		show(event);
	json_decref(event);
	return code == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kw_rpc_client *client;
	struct kw_error error;
	int fd;

	/* All of it fits into the socket: this one thread is both ends. */
	if (size < 1 || size > 65536)
		return 0;
	if (listener < 0)
		start();
	must(kw_rpc_client_open(address.sun_path, &client, &error) == 0);
	fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	must(fd >= 0 && send(fd, data + 1, size - 1, MSG_NOSIGNAL) == (ssize_t)size - 1);
	shutdown(fd, SHUT_WR);
	for (int i = 0; i < CALLS_MAX; i++)
		if (!((data[0] & 1) && i % 2 == 0 ? one_event(client) : one_call(client)))
			break;
	kw_rpc_client_close(client);
	close(fd);
	return 0;
}

KW_FUZZ_SEEDS(seeds)
