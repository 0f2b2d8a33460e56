#include "fetch/waiting.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

static bool read_time(const char *path, struct kw_thread_time *time)
{
	char text[96];
	uint64_t run_ns, wait_ns;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length;

	if (fd < 0)
		return false;
	length = read(fd, text, sizeof text - 1);
	close(fd);
	if (length <= 0)
		return false;
	text[length] = '\0';
	if (sscanf(text, "%" SCNu64 " %" SCNu64, &run_ns, &wait_ns) != 2)
		return false;
	*time = (struct kw_thread_time){run_ns / 1000, wait_ns / 1000};
	return true;
}

bool kw_thread_time_own(struct kw_thread_time *time)
{
	return read_time("/proc/thread-self/schedstat", time);
}

bool kw_thread_time_of(uint64_t process, struct kw_thread_time *time)
{
	char path[80];

	snprintf(path, sizeof path, "/proc/%" PRIu64 "/task/%" PRIu64 "/schedstat", process,
		process);
	return read_time(path, time);
}

/* Did the thread run for as long as the CPU time that the server tells? */
static bool is_its(const struct kw_waiting_server *server, uint64_t run_us)
{
	uint64_t slack_us = KW_WAITING_SLACK_US + server->cpu_us / 100;

	return run_us + slack_us >= server->cpu_us &&
	       run_us <= server->cpu_us + server->age_us + slack_us;
}

static uint64_t passed(uint64_t now, uint64_t then)
{
	return now > then ? now - then : 0;
}

/* The server's wait since the last look, estimated: it waits as much for its run time as we do. */
static uint64_t reckon(const struct kw_waiting *waiting, const struct kw_waiting_server *server,
	const struct kw_thread_time *own)
{
	uint64_t run_us = passed(own->run_us, waiting->own.run_us);
	uint64_t wait_us = passed(own->wait_us, waiting->own.wait_us);

	if (run_us == 0)
		return 0;
	return (uint64_t)((double)passed(server->cpu_us, waiting->cpu_us) * (double)wait_us /
			  (double)run_us);
}

uint64_t kw_waiting_look(struct kw_waiting *waiting, const struct kw_waiting_server *server)
{
	struct kw_thread_time its, own;
	bool its_known = server->process > 0 && kw_thread_time_of(server->process, &its) &&
			 is_its(server, its.run_us);
	bool own_known = server->near && kw_thread_time_own(&own);

	if (its_known && waiting->its_known)
		waiting->wait_us += passed(its.wait_us, waiting->its.wait_us);
	else if (!its_known && own_known && waiting->own_known)
		waiting->wait_us += reckon(waiting, server, &own);
	waiting->its_known = its_known;
	waiting->own_known = own_known;
	if (its_known)
		waiting->its = its;
	if (own_known)
		waiting->own = own;
	waiting->cpu_us = server->cpu_us;
	return waiting->wait_us;
}
