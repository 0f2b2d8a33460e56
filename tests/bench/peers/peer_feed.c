/*
 * peer-feed PRIMARY REPLICA: how fast can a server load a data set that is there already?
 *
 * The snapshot of PRIMARY is taken as a replica would take it, and kept in memory. Then REPLICA is
 * told to follow this program, which sends it these bytes and does nothing else. The clock runs
 * from REPLICAOF until the replica's first acknowledgement. No feed of a replica can be faster.
 *
 * Both are servers of the bench: without a password, diskless, PRIMARY without a delay.
 */
#include "peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define MARK 40 /* bytes after $EOF: */

struct snapshot {
	char *bytes; /* with the mark after it */
	size_t length, room;
	char mark[MARK];
};

static void say(struct peer *peer, const char *line)
{
	peer_append(&peer->out, line, strlen(line));
	peer_flush(peer);
}

/* One line without its end. A newline alone is a sign of life, and passed over. */
static void hear_line(int fd, char *line, size_t room)
{
	size_t length = 0;

	for (;;) {
		char byte;

		if (read(fd, &byte, 1) != 1)
			peer_die("the server closed the connection");
		if (byte == '\r' || (byte == '\n' && length == 0))
			continue;
		if (byte == '\n')
			break;
		if (length + 1 == room)
			peer_die("a line that is too long");
		line[length++] = byte;
	}
	line[length] = '\0';
}

static void expect(struct peer *peer, const char *beginning)
{
	char line[256];

	hear_line(peer->fd, line, sizeof line);
	if (strncmp(line, beginning, strlen(beginning)) != 0)
		peer_die("expected %s, and the server said: %s", beginning, line);
}

static int has_end(const struct snapshot *snapshot)
{
	return snapshot->length >= 2 * MARK &&
	       memcmp(snapshot->bytes + snapshot->length - MARK, snapshot->mark, MARK) == 0;
}

static void take_snapshot(const char *address, struct snapshot *snapshot)
{
	struct peer peer;
	char line[256];

	peer_connect(&peer, address);
	say(&peer, "REPLCONF capa eof\r\n");
	expect(&peer, "+OK");
	say(&peer, "PSYNC ? -1\r\n");
	expect(&peer, "+FULLRESYNC");
	hear_line(peer.fd, line, sizeof line);
	if (strncmp(line, "$EOF:", 5) != 0 || strlen(line) != 5 + MARK)
		peer_die("the primary is not diskless: %s", line);
	memcpy(snapshot->mark, line + 5, MARK);
	while (!has_end(snapshot)) {
		ssize_t got;

		if (snapshot->room - snapshot->length < 1 << 20) {
			snapshot->room = snapshot->room ? 2 * snapshot->room : 64 << 20;
			snapshot->bytes = realloc(snapshot->bytes, snapshot->room);
			if (!snapshot->bytes)
				peer_die("out of memory");
		}
		got = read(peer.fd, snapshot->bytes + snapshot->length,
			snapshot->room - snapshot->length);
		if (got <= 0)
			peer_die("the snapshot broke off: %s", strerror(errno));
		snapshot->length += (size_t)got;
	}
	peer_close(&peer);
}

static int listen_here(unsigned *port)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t length = sizeof address;
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || listen(fd, 1) < 0 ||
		getsockname(fd, (struct sockaddr *)&address, &length) < 0)
		peer_die("listen: %s", strerror(errno));
	*port = ntohs(address.sin_port);
	return fd;
}

/* A command of the replica, its first two words. */
static void hear_command(int fd, char name[64], char word[64])
{
	char line[256];
	int count;

	name[0] = word[0] = '\0';
	hear_line(fd, line, sizeof line);
	if (line[0] != '*')
		peer_die("the replica said: %s", line);
	count = atoi(line + 1);
	for (int i = 0; i < count; i++) {
		hear_line(fd, line, sizeof line); /* $length */
		hear_line(fd, line, sizeof line);
		if (i < 2)
			snprintf(i == 0 ? name : word, 64, "%.63s", line);
	}
}

static void send_all(int fd, const char *bytes, size_t length)
{
	while (length > 0) {
		ssize_t put = send(fd, bytes, length, MSG_NOSIGNAL);

		if (put < 0)
			peer_die("send: %s", strerror(errno));
		bytes += put;
		length -= (size_t)put;
	}
}

static void answer(int fd, const char *line)
{
	send_all(fd, line, strlen(line));
}

/* Until PSYNC. */
static void shake_hands(int fd)
{
	char name[64], word[64];

	for (;;) {
		hear_command(fd, name, word);
		if (strcasecmp(name, "PSYNC") == 0)
			return;
		answer(fd, strcasecmp(name, "PING") == 0 ? "+PONG\r\n" : "+OK\r\n");
	}
}

static void wait_for_ack(int fd)
{
	char name[64], word[64];

	do
		hear_command(fd, name, word);
	while (strcasecmp(name, "REPLCONF") != 0 || strcasecmp(word, "ACK") != 0);
}

static double feed(const char *address, const struct snapshot *snapshot)
{
	char line[128];
	struct peer replica;
	unsigned port;
	int listener = listen_here(&port), fd, on = 1;
	double begin;

	peer_connect(&replica, address);
	snprintf(line, sizeof line, "REPLICAOF 127.0.0.1 %u\r\n", port);
	begin = peer_now();
	say(&replica, line);
	expect(&replica, "+OK");
	fd = accept(listener, NULL, NULL);
	if (fd < 0)
		peer_die("accept: %s", strerror(errno));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	shake_hands(fd);
	answer(fd, "+FULLRESYNC 0123456789012345678901234567890123456789 1\r\n");
	snprintf(line, sizeof line, "$EOF:%.*s\r\n", MARK, snapshot->mark);
	answer(fd, line);
	send_all(fd, snapshot->bytes, snapshot->length);
	wait_for_ack(fd);
	begin = peer_now() - begin;
	say(&replica, "REPLICAOF NO ONE\r\n");
	expect(&replica, "+OK");
	close(fd);
	close(listener);
	peer_close(&replica);
	return begin;
}

int main(int argc, char **argv)
{
	struct snapshot snapshot = {0};
	double seconds;

	if (argc != 3)
		peer_die("usage: peer-feed PRIMARY REPLICA, each unix:///path or tcp://host:port");
	take_snapshot(argv[1], &snapshot);
	seconds = feed(argv[2], &snapshot);
	printf("{\"bytes\": %zu, \"seconds\": %.6f}\n", snapshot.length, seconds);
	free(snapshot.bytes);
	return 0;
}
