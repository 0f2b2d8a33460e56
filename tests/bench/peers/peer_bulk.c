/*
 * peer-bulk memory|socket --bytes N [--chunk-bytes N] [--passes N]: how fast do bytes move here?
 *
 * A memory file of N random bytes stands for the table. `memory`: each pass maps it afresh, as
 * an agent does, and copies it out chunk by chunk (128 KiB) into one buffer. `socket`: a child
 * writes it to a TCP connection over loopback, chunk by chunk, and this reads it into one buffer.
 * Nothing is asked for, checked or parsed. Prints the seconds of each pass.
 */
#include "noise.h"
#include "peer.h"
#include "words.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define PASSES_MAX 64

struct bulk {
	int memory;
	size_t bytes, chunk;
};

static const char *map(const struct bulk *bulk)
{
	const char *base = mmap(NULL, bulk->bytes, PROT_READ, MAP_SHARED, bulk->memory, 0);

	if (base == MAP_FAILED)
		peer_die("mmap: %s", strerror(errno));
	return base;
}

static void make_memory(struct bulk *bulk)
{
	uint64_t noise = 1;
	char *base;

	bulk->memory = memfd_create("peer-bulk", MFD_CLOEXEC);
	if (bulk->memory < 0 || ftruncate(bulk->memory, (off_t)bulk->bytes) < 0)
		peer_die("memory file of %zu bytes: %s", bulk->bytes, strerror(errno));
	base = mmap(NULL, bulk->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, bulk->memory, 0);
	if (base == MAP_FAILED)
		peer_die("mmap: %s", strerror(errno));
	noise_fill(&noise, base, bulk->bytes);
	munmap(base, bulk->bytes);
}

static double copy_memory(const struct bulk *bulk)
{
	char *buffer = malloc(bulk->chunk);
	double begin = peer_now(), seconds;
	const char *base = map(bulk);

	if (!buffer)
		peer_die("out of memory");
	for (size_t at = 0; at < bulk->bytes; at += bulk->chunk) {
		size_t part = bulk->bytes - at < bulk->chunk ? bulk->bytes - at : bulk->chunk;

		memcpy(buffer, base + at, part);
		__asm__ volatile("" : : "r"(buffer) : "memory"); /* it counts as used */
	}
	seconds = peer_now() - begin;
	munmap((void *)base, bulk->bytes);
	free(buffer);
	return seconds;
}

static void write_all(const struct bulk *bulk, int fd)
{
	const char *base = map(bulk);

	for (size_t at = 0; at < bulk->bytes;) {
		size_t part = bulk->bytes - at < bulk->chunk ? bulk->bytes - at : bulk->chunk;
		ssize_t n = send(fd, base + at, part, MSG_NOSIGNAL);

		if (n < 0)
			peer_die("send: %s", strerror(errno));
		at += (size_t)n;
	}
	munmap((void *)base, bulk->bytes);
}

static void read_all(const struct bulk *bulk, int fd)
{
	char *buffer = malloc(bulk->chunk);

	if (!buffer)
		peer_die("out of memory");
	for (size_t at = 0; at < bulk->bytes;) {
		ssize_t n = recv(fd, buffer, bulk->chunk, 0);

		if (n <= 0)
			peer_die("recv: %s", n < 0 ? strerror(errno) : "closed early");
		at += (size_t)n;
	}
	free(buffer);
}

static void tcp_pair(int pair[2])
{
	struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof address;
	int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;

	pair[0] = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(listener, (struct sockaddr *)&address, length) < 0 || listen(listener, 1) < 0 ||
		getsockname(listener, (struct sockaddr *)&address, &length) < 0 ||
		connect(pair[0], (struct sockaddr *)&address, length) < 0)
		peer_die("tcp over loopback: %s", strerror(errno));
	pair[1] = accept(listener, NULL, NULL);
	setsockopt(pair[1], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	close(listener);
}

static double read_socket(const struct bulk *bulk)
{
	int pair[2];
	double begin;
	pid_t child;

	tcp_pair(pair);
	begin = peer_now();
	child = fork();
	if (child == 0) {
		write_all(bulk, pair[1]);
		_exit(0);
	}
	read_all(bulk, pair[0]);
	begin = peer_now() - begin;
	waitpid(child, NULL, 0);
	close(pair[0]);
	close(pair[1]);
	return begin;
}

int main(int argc, char **argv)
{
	struct bulk bulk = {
		.bytes = (size_t)words_number(argc, argv, "--bytes", 0),
		.chunk = (size_t)words_number(argc, argv, "--chunk-bytes", 128 * 1024),
	};
	int passes = (int)words_number(argc, argv, "--passes", 1);
	bool tcp = argc > 1 && strcmp(argv[1], "socket") == 0;

	if (argc < 4 || (!tcp && strcmp(argv[1], "memory") != 0) || bulk.bytes == 0 ||
		bulk.chunk == 0 || passes < 1 || passes > PASSES_MAX)
		peer_die("usage: peer-bulk memory|socket --bytes N [--chunk-bytes N] [--passes N]");
	make_memory(&bulk);
	printf("{\"bytes\":%zu,\"seconds\":[", bulk.bytes);
	for (int i = 0; i < passes; i++)
		printf("%s%.6f", i ? "," : "", tcp ? read_socket(&bulk) : copy_memory(&bulk));
	printf("]}\n");
	close(bulk.memory);
	return 0;
}
