#include "peer.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define BUFFER_BYTES ((size_t)1024 * 1024)

void peer_die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

double peer_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int connect_local(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	if (strlen(path) >= sizeof address.sun_path)
		peer_die("%s: too long for a socket", path);
	strcpy(address.sun_path, path);
	if (connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
		peer_die("connect %s: %s", path, strerror(errno));
	return fd;
}

static int connect_remote(const char *text)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	const char *colon = strrchr(text, ':');
	struct addrinfo *info;
	char host[256];
	int fd, on = 1;

	if (!colon || (size_t)(colon - text) >= sizeof host)
		peer_die("%s: write tcp://host:port", text);
	snprintf(host, sizeof host, "%.*s", (int)(colon - text), text);
	if (getaddrinfo(host, colon + 1, &hints, &info) != 0)
		peer_die("%s: no such host", host);
	fd = socket(info->ai_family, SOCK_STREAM, 0);
	if (connect(fd, info->ai_addr, info->ai_addrlen) < 0)
		peer_die("connect %s: %s", text, strerror(errno));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	freeaddrinfo(info);
	return fd;
}

void peer_connect(struct peer *peer, const char *address)
{
	*peer = (struct peer){0};
	if (strncmp(address, "unix://", 7) == 0)
		peer->fd = connect_local(address + 7);
	else if (strncmp(address, "tcp://", 6) == 0)
		peer->fd = connect_remote(address + 6);
	else
		peer_die("%s: write unix:///path or tcp://host:port", address);
	peer_reserve(&peer->in, BUFFER_BYTES);
	peer_reserve(&peer->out, BUFFER_BYTES);
}

void peer_close(struct peer *peer)
{
	close(peer->fd);
	free(peer->in.data);
	free(peer->out.data);
}

char *peer_reserve(struct peer_bytes *bytes, size_t length)
{
	size_t used = bytes->end - bytes->start;

	if (bytes->room - bytes->end >= length)
		return bytes->data + bytes->end;
	if (bytes->start > 0)
		memmove(bytes->data, bytes->data + bytes->start, used);
	bytes->start = 0;
	bytes->end = used;
	if (bytes->room - used < length) {
		if (bytes->room == 0)
			bytes->room = BUFFER_BYTES;
		while (bytes->room - used < length)
			bytes->room *= 2;
		bytes->data = realloc(bytes->data, bytes->room);
		if (!bytes->data)
			peer_die("out of memory");
	}
	return bytes->data + bytes->end;
}

void peer_append(struct peer_bytes *bytes, const void *data, size_t length)
{
	memcpy(peer_reserve(bytes, length), data, length);
	bytes->end += length;
}

static void put_header(struct peer *peer, char type, size_t number)
{
	char *begin = peer_reserve(&peer->out, 24);
	char *at = begin;
	char digits[20];
	int count = 0;

	*at++ = type;
	do {
		digits[count++] = (char)('0' + number % 10);
		number /= 10;
	} while (number > 0);
	while (count > 0)
		*at++ = digits[--count];
	*at++ = '\r';
	*at++ = '\n';
	peer->out.end += (size_t)(at - begin);
}

void peer_array(struct peer *peer, int count)
{
	put_header(peer, '*', (size_t)count);
}

void peer_bulk(struct peer *peer, const void *data, size_t length)
{
	put_header(peer, '$', length);
	peer_append(&peer->out, data, length);
	peer_append(&peer->out, "\r\n", 2);
}

/* Blocking is safe: a server reads on, whatever replies wait for us. */
void peer_flush(struct peer *peer)
{
	struct peer_bytes *out = &peer->out;

	while (out->start < out->end) {
		ssize_t length =
			send(peer->fd, out->data + out->start, out->end - out->start, MSG_NOSIGNAL);

		if (length < 0)
			peer_die("write: %s", strerror(errno));
		out->start += (size_t)length;
	}
	out->start = out->end = 0;
}

/* More bytes, with room for at least `wanted` behind those that are there. */
static void fill(struct peer *peer, size_t wanted)
{
	struct peer_bytes *in = &peer->in;
	ssize_t length;

	if (in->start == in->end)
		in->start = in->end = 0;
	peer_reserve(in, wanted);
	length = read(peer->fd, in->data + in->end, in->room - in->end);
	if (length <= 0)
		peer_die("read: %s", length < 0 ? strerror(errno) : "the server closed");
	in->end += (size_t)length;
}

char peer_header(struct peer *peer, long long *number)
{
	struct peer_bytes *in = &peer->in;
	char *end;
	char type;

	while (!(end = memchr(in->data + in->start, '\n', in->end - in->start)))
		fill(peer, 4096);
	type = in->data[in->start];
	if (type == '-')
		peer_die("the server says: %.*s", (int)(end - in->data - (long)in->start - 2),
			in->data + in->start + 1);
	*number = type == '+' ? 0 : strtoll(in->data + in->start + 1, NULL, 10);
	in->start = (size_t)(end - in->data) + 1;
	return type;
}

const char *peer_body(struct peer *peer, size_t length)
{
	struct peer_bytes *in = &peer->in;
	const char *body;

	while (in->end - in->start < length + 2)
		fill(peer, length + 2 - (in->end - in->start));
	body = in->data + in->start;
	in->start += length + 2;
	return body;
}
