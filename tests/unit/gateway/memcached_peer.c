#include "memcached_peer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define START_TRIES 500 /* of 20 ms */
#define PATIENCE_MS 20000

static void run(const struct memcached_peer *peer, const char *binary)
{
	char path[128];

	snprintf(path, sizeof path, "%s/socket", peer->folder);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	execl(binary, binary, "-s", path, "-a", "700", "-t", "1", "-m", "16", "-u", "root",
		(char *)NULL);
	_exit(127);
}

static int try_connect(const struct memcached_peer *peer)
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

void memcached_peer_start(struct memcached_peer *peer, const char *binary)
{
	int fd = -1;

	*peer = (struct memcached_peer){.folder = "/tmp/kw-memcached-XXXXXX"};
	assert_non_null(mkdtemp(peer->folder));
	peer->pid = fork();
	assert_int_not_equal(peer->pid, -1);
	if (peer->pid == 0)
		run(peer, binary);
	for (int i = 0; i < START_TRIES && fd < 0; i++) {
		usleep(20000);
		fd = try_connect(peer);
	}
	if (fd < 0)
		fail_msg("%s did not start: is the package memcached installed?", binary);
	close(fd);
}

void memcached_peer_stop(struct memcached_peer *peer)
{
	char path[128];

	kill(peer->pid, SIGKILL);
	waitpid(peer->pid, NULL, 0);
	snprintf(path, sizeof path, "%s/socket", peer->folder);
	unlink(path);
	rmdir(peer->folder);
}

/* Until it closes: it does so when it has answered all, because no more can come. */
static void receive(int fd, struct kw_buffer *reply)
{
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
	ssize_t got;

	do {
		uint8_t *at = kw_buffer_reserve(reply, 65536);

		if (poll(&poll_fd, 1, PATIENCE_MS) != 1)
			fail_msg("memcached says nothing, and does not close the connection");
		got = read(fd, at, 65536);
		if (got > 0)
			kw_buffer_filled(reply, (size_t)got);
	} while (got > 0);
	/* What it did not read when it closed. */
	assert_true(got == 0 || errno == ECONNRESET);
}

void memcached_peer_ask(struct memcached_peer *peer, struct kw_slice bytes, struct kw_buffer *reply)
{
	int fd = try_connect(peer);
	size_t sent = 0;

	assert_true(fd >= 0);
	while (sent < bytes.length) {
		ssize_t put = send(
			fd, (const char *)bytes.data + sent, bytes.length - sent, MSG_NOSIGNAL);

		if (put < 0)
			break; /* it closed in between */
		sent += (size_t)put;
	}
	shutdown(fd, SHUT_WR);
	receive(fd, reply);
	close(fd);
}
