#include "payload_peer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define START_TRIES 500 /* of 20 ms */
#define WORDS_MAX 32
#define DEPTH_MAX 8

static void run_server(const struct peer *peer, const char *binary, const char *const *options)
{
	const char *argv[WORDS_MAX + 16] = {binary, "--port", "0", "--save", "", "--dir",
		peer->folder, "--unixsocket", "socket", "--daemonize", "no"};
	int argc = 11, log;

	for (int i = 0; options && options[i] && argc < WORDS_MAX + 15; i++)
		argv[argc++] = options[i];
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (chdir(peer->folder) != 0)
		_exit(126);
	log = open("log", O_WRONLY | O_CREAT | O_TRUNC, 0600);
	dup2(log, 1);
	dup2(log, 2);
	execv(binary, (char *const *)argv);
	_exit(127);
}

static int try_connect(const struct peer *peer)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof address.sun_path, "%s/socket", peer->folder);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
		close(fd);
		fd = -1;
	}
	return fd;
}

void peer_start(struct peer *peer, const char *binary, const char *const *options)
{
	*peer = (struct peer){.fd = -1, .folder = "/tmp/kw-payload-XXXXXX"};
	assert_non_null(mkdtemp(peer->folder));
	peer->pid = fork();
	assert_int_not_equal(peer->pid, -1);
	if (peer->pid == 0)
		run_server(peer, binary, options);
	for (int i = 0; i < START_TRIES && peer->fd < 0; i++) {
		usleep(20000);
		peer->fd = try_connect(peer);
	}
	if (peer->fd < 0)
		fail_msg("%s did not start, see %s/log", binary, peer->folder);
}

void peer_stop(struct peer *peer)
{
	char path[128];

	close(peer->fd);
	kill(peer->pid, SIGKILL);
	waitpid(peer->pid, NULL, 0);
	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof path, "%s/%s", peer->folder, i ? "log" : "socket");
		unlink(path);
	}
	rmdir(peer->folder);
	kw_buffer_close(&peer->in);
}

static void receive(struct peer *peer)
{
	uint8_t *at = kw_buffer_reserve(&peer->in, 65536);
	ssize_t got = read(peer->fd, at, 65536);

	if (got <= 0)
		fail_msg("the server closed the connection: %s", strerror(errno));
	kw_buffer_filled(&peer->in, (size_t)got);
}

/* The next line without its end; valid until the next call. */
static const char *take_line(struct peer *peer)
{
	static char line[512];

	for (;;) {
		const uint8_t *bytes = kw_buffer_bytes(&peer->in);
		size_t length = kw_buffer_length(&peer->in);
		const uint8_t *end = length ? memchr(bytes, '\n', length) : NULL;

		if (end) {
			snprintf(line, sizeof line, "%.*s", (int)(end - bytes - 1), bytes);
			kw_buffer_consume(&peer->in, (size_t)(end - bytes) + 1);
			return line;
		}
		receive(peer);
	}
}

static char take_reply(struct peer *peer, struct kw_buffer *reply, int depth)
{
	const char *line = take_line(peer);
	char type = line[0];
	long count;

	assert_true(depth < DEPTH_MAX);
	if (type != '$' && type != '*') {
		if (reply)
			kw_buffer_append(reply, line + 1, strlen(line + 1));
		return type;
	}
	count = strtol(line + 1, NULL, 10);
	if (count < 0)
		return '_';
	if (type == '*') {
		for (long i = 0; i < count; i++)
			take_reply(peer, NULL, depth + 1);
		return type;
	}
	while (kw_buffer_length(&peer->in) < (size_t)count + 2)
		receive(peer);
	if (reply)
		kw_buffer_append(reply, kw_buffer_bytes(&peer->in), (size_t)count);
	kw_buffer_consume(&peer->in, (size_t)count + 2);
	return type;
}

char peer_command(struct peer *peer, struct kw_buffer *reply, int argc, const struct kw_slice *argv)
{
	struct kw_buffer out = {0};
	size_t sent = 0;

	kw_buffer_printf(&out, "*%d\r\n", argc);
	for (int i = 0; i < argc; i++) {
		kw_buffer_printf(&out, "$%zu\r\n", argv[i].length);
		kw_buffer_append(&out, argv[i].data, argv[i].length);
		kw_buffer_append(&out, "\r\n", 2);
	}
	while (sent < kw_buffer_length(&out)) {
		ssize_t put = write(
			peer->fd, kw_buffer_bytes(&out) + sent, kw_buffer_length(&out) - sent);

		assert_true(put > 0);
		sent += (size_t)put;
	}
	kw_buffer_close(&out);
	return take_reply(peer, reply, 0);
}

char peer_words(struct peer *peer, struct kw_buffer *reply, const char *word, ...)
{
	struct kw_slice argv[WORDS_MAX];
	struct kw_buffer answer = {0};
	va_list args;
	int argc = 0;
	char type;

	va_start(args, word);
	for (; word && argc < WORDS_MAX; word = va_arg(args, const char *))
		argv[argc++] = kw_slice_text(word);
	va_end(args);
	type = peer_command(peer, &answer, argc, argv);
	if (type == '-')
		fail_msg("%.*s: %.*s", (int)argv[0].length, (const char *)argv[0].data,
			(int)kw_buffer_length(&answer), (const char *)kw_buffer_bytes(&answer));
	if (reply)
		kw_buffer_append(reply, kw_buffer_bytes(&answer), kw_buffer_length(&answer));
	kw_buffer_close(&answer);
	return type;
}
