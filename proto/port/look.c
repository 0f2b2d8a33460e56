#include "port/look.h"

#include "base/clock.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define STEP_US (KW_PORT_LOOK_MS * UINT64_C(1000) / KW_PORT_QUESTIONS)
#define ANSWER_BYTES 128
/* PING is answered by itself, and ROLE comes after it: as long as no more than that has come. */
#define PONG_BYTES 7

static bool wait_for(int fd, short events, uint64_t until_us)
{
	const uint64_t now = kw_clock_us();
	struct pollfd poller = {.fd = fd, .events = events};

	return now < until_us && poll(&poller, 1, (int)((until_us - now) / 1000 + 1)) == 1;
}

static int dial(const struct addrinfo *info, uint64_t until_us)
{
	int fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	socklen_t length = sizeof(int);
	int failed = 0;

	if (fd < 0)
		return -1;
	if (connect(fd, info->ai_addr, info->ai_addrlen) == 0)
		return fd;
	if (errno == EINPROGRESS && wait_for(fd, POLLOUT, until_us) &&
		getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &length) == 0 && failed == 0)
		return fd;
	close(fd);
	return -1;
}

/* The first bytes that come, and those of a second reply if the first is a PONG alone. */
static size_t hear(int fd, char answer[ANSWER_BYTES], uint64_t until_us)
{
	size_t heard = 0;

	while (heard <= PONG_BYTES && wait_for(fd, POLLIN, until_us)) {
		ssize_t got = recv(fd, answer + heard, ANSWER_BYTES - heard, 0);

		if (got <= 0)
			break;
		heard += (size_t)got;
		if (heard != PONG_BYTES || answer[0] != '+')
			break;
	}
	return heard;
}

/* What it answers; empty: nothing. *reached: it can be connected to. */
static struct kw_slice ask(const struct addrinfo *info, enum kw_port_question number,
	char answer[ANSWER_BYTES], bool *reached)
{
	const uint64_t until_us = kw_clock_us() + STEP_US;
	const struct kw_slice question = kw_port_question(number);
	size_t heard = 0;
	int fd = -1;

	for (; info && fd < 0; info = info->ai_next)
		fd = dial(info, until_us);
	*reached = fd >= 0;
	if (fd < 0)
		return kw_slice("", 0);
	if (send(fd, question.data, question.length, MSG_NOSIGNAL) > 0)
		heard = hear(fd, answer, until_us);
	close(fd);
	return kw_slice(answer, heard);
}

static struct addrinfo *resolve(const char *host, const char *port)
{
	const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
	struct addrinfo *list;

	return getaddrinfo(host, port, &hints, &list) == 0 ? list : NULL;
}

enum kw_port_kind kw_port_look(const char *host, const char *port, bool *reached)
{
	char said[KW_PORT_QUESTIONS][ANSWER_BYTES];
	struct kw_port_answers answers = {0};
	struct addrinfo *info = resolve(host, port);
	enum kw_port_kind kind = KW_PORT_UNKNOWN;
	bool is_there = info != NULL;

	for (int i = 0; is_there && kind == KW_PORT_UNKNOWN && i < KW_PORT_QUESTIONS; i++) {
		answers.to[i] = ask(info, (enum kw_port_question)i, said[i], &is_there);
		if (reached && (i == 0 || is_there))
			*reached = is_there;
		kind = kw_port_judge(&answers);
	}
	if (info)
		freeaddrinfo(info);
	return kind;
}
