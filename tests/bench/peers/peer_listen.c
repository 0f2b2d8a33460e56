/*
 * peer-listen ADDRESS: subscribe to every key event and read them, without looking, until standard
 * input closes. What any follower of events costs the server at least.
 */
#include "peer.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define READ_BYTES 65536
#define PATTERN "__keyevent@*__:*"

int main(int argc, char **argv)
{
	static char buffer[READ_BYTES];
	unsigned long long bytes = 0;
	struct peer peer;

	if (argc != 2)
		peer_die("usage: peer-listen ADDRESS");
	peer_connect(&peer, argv[1]);
	peer_array(&peer, 2);
	peer_bulk(&peer, "PSUBSCRIBE", 10);
	peer_bulk(&peer, PATTERN, strlen(PATTERN));
	peer_flush(&peer);
	for (;;) {
		struct pollfd watch[2] = {{.fd = peer.fd, .events = POLLIN}, {.events = POLLIN}};
		ssize_t length;

		if (poll(watch, 2, -1) < 0 && errno != EINTR)
			peer_die("poll: %s", strerror(errno));
		if (watch[1].revents)
			break;
		if (!watch[0].revents)
			continue;
		length = read(peer.fd, buffer, sizeof buffer);
		if (length <= 0)
			peer_die("read: %s", length < 0 ? strerror(errno) : "the server closed");
		bytes += (unsigned long long)length;
	}
	printf("{\"bytes\":%llu}\n", bytes);
	peer_close(&peer);
	return 0;
}
