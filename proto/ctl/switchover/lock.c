#include "ctl/switchover/lock.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>

static int taken(struct kw_switchover *run, int fd, const char *directory, struct kw_error *error)
{
	uint64_t deadline_us = kw_clock_us() + (uint64_t)(run->options.timeout_s * 1e6);
	int code = 0;

	while (!code && flock(fd, LOCK_EX | LOCK_NB)) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return kw_error_set(error, KW_E_IO, "cannot lock %s: %s", directory,
				strerror(errno));
		code = kw_switchover_go_on(run, deadline_us, error);
	}
	if (code == KW_E_TIMEOUT)
		return kw_error_set(error, KW_E_REFUSED,
			"another switchover has locked %s: wait for its end", directory);
	return code;
}

int kw_switchover_lock(struct kw_switchover *run, struct kw_error *error)
{
	char path[PATH_MAX];
	const char *directory;
	int fd;

	snprintf(path, sizeof path, "%s", run->sites.agent.ctl.socket);
	directory = dirname(path);
	fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return kw_error_set(error, KW_E_IO,
			"cannot open %s, so that no other switchover begins: %s", directory,
			strerror(errno));
	return taken(run, fd, directory, error); /* the fd stays open: it is the lock */
}
