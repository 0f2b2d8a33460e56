/*
 * Ask at a port who is there: a question of Redis first, then the greeting of TLS on a second
 * connection, and then the question 10000 ports below, where the server of a cluster bus listens.
 * Blocking, in a thread of libuv's pool, because a name can take long to resolve.
 */
#include "doctor/internal.h"

#include "base/clock.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define STEP_US UINT64_C(600000) /* three of them, and a name, within KW_DOCTOR_PROBE_MS */
#define ANSWER_BYTES 64
#define BUS_ABOVE 10000

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

/* The first bytes that it answers; empty: none. *reached: it can be connected to. */
static struct kw_slice ask(const struct addrinfo *info, struct kw_slice question,
	char answer[ANSWER_BYTES], bool *reached)
{
	const uint64_t until_us = kw_clock_us() + STEP_US;
	int fd = dial(info, until_us);
	ssize_t got = 0;

	*reached = fd >= 0;
	if (fd < 0)
		return kw_slice("", 0);
	if (send(fd, question.data, question.length, MSG_NOSIGNAL) > 0 &&
		wait_for(fd, POLLIN, until_us))
		got = recv(fd, answer, ANSWER_BYTES, 0);
	close(fd);
	return kw_slice(answer, got > 0 ? (size_t)got : 0);
}

static struct addrinfo *resolve(const char *host, const char *port)
{
	const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
	struct addrinfo *list;

	return getaddrinfo(host, port, &hints, &list) == 0 ? list : NULL;
}

static bool has_bus_owner(const char *host, const char *port)
{
	const long number = strtol(port, NULL, 10) - BUS_ABOVE;
	const struct kw_slice question = kw_slice_text(KW_PORT_QUESTION);
	char below[8], answer[ANSWER_BYTES];
	struct addrinfo *info;
	struct kw_port_answers answers = {{0}, {0}, false};
	bool reached;

	if (number <= 0 || number > UINT16_MAX)
		return false;
	snprintf(below, sizeof below, "%ld", number);
	info = resolve(host, below);
	if (!info)
		return false;
	answers.to_question = ask(info, question, answer, &reached);
	freeaddrinfo(info);
	return kw_port_judge(&answers) == KW_PORT_REDIS;
}

static void on_work(uv_work_t *work)
{
	struct kw_port_look *look = work->data;
	char first[ANSWER_BYTES], second[ANSWER_BYTES];
	struct kw_port_answers answers = {{0}, {0}, false};
	struct addrinfo *info = resolve(look->host, look->port);

	if (!info)
		return;
	answers.to_question = ask(info, kw_slice_text(KW_PORT_QUESTION), first, &look->reached);
	look->kind = kw_port_judge(&answers);
	if (look->kind == KW_PORT_UNKNOWN && look->reached && answers.to_question.length == 0) {
		bool reached;

		answers.to_greeting = ask(info, kw_port_greeting(), second, &reached);
		answers.bus_owner = has_bus_owner(look->host, look->port);
		look->kind = kw_port_judge(&answers);
	}
	freeaddrinfo(info);
}

static void on_worked(uv_work_t *work, int status)
{
	struct kw_port_look *look = work->data;

	kw_doctor_over(look->doctor);
}

void kw_port_look(
	struct kw_port_look *look, struct kw_doctor *doctor, const char *host, const char *port)
{
	look->doctor = doctor;
	look->work.data = look;
	snprintf(look->host, sizeof look->host, "%s", host);
	snprintf(look->port, sizeof look->port, "%s", port);
	if (uv_queue_work(&doctor->loop, &look->work, on_work, on_worked))
		kw_doctor_over(doctor);
}
