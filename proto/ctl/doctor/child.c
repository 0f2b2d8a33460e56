#include "ctl/doctor/child.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOT_FOUND 127
#define READ_BYTES 65536

/* ---- in the child ---- */

static void take_place(const struct kw_rpc_daemon *daemon)
{
	struct rlimit limit;
	char folder[64];

	if (daemon->pid == 0)
		return;
	if (prlimit(daemon->pid, RLIMIT_MEMLOCK, NULL, &limit) == 0)
		setrlimit(RLIMIT_MEMLOCK, &limit);
	/* Its configuration can have paths that begin there. Without the right to it: from here. */
	snprintf(folder, sizeof folder, "/proc/%d/cwd", (int)daemon->pid);
	(void)!chdir(folder);
}

/* Only root can be another user. False: it must not go on. */
static bool take_user(const struct kw_rpc_daemon *daemon)
{
	const struct passwd *user;

	if (geteuid() != 0 || daemon->uid == 0)
		return true;
	user = getpwuid(daemon->uid);
	if (user ? initgroups(user->pw_name, daemon->gid) : setgroups(0, NULL))
		return false;
	return setgid(daemon->gid) == 0 && setuid(daemon->uid) == 0;
}

/* The program's file, beside our own; "" if it is not there. */
static void find_beside(const char *program, char path[PATH_MAX])
{
	char own[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);

	path[0] = '\0';
	if (length <= 0)
		return;
	own[length] = '\0';
	if (snprintf(path, PATH_MAX, "%s/%s", dirname(own), program) >= PATH_MAX ||
		access(path, X_OK))
		path[0] = '\0';
}

static void find_running(const struct ctl_doctor_child *child, char path[PATH_MAX])
{
	char link[64];
	ssize_t length;

	path[0] = '\0';
	if (!child->runs || child->daemon.pid == 0)
		return;
	snprintf(link, sizeof link, "/proc/%d/exe", (int)child->daemon.pid);
	length = readlink(link, path, PATH_MAX - 1);
	path[length > 0 ? length : 0] = '\0';
	if (path[0] && access(path, X_OK))
		path[0] = '\0';
}

/* Its configuration is as the daemon has it: our environment must not count over that. */
static void forget_keys(void)
{
	static const char prefix[] = "KEYWAKE_";
	char name[128];

	for (char **variable = environ; *variable;) {
		const size_t length = strcspn(*variable, "=");

		/* A longer name is no key's. */
		if (strncmp(*variable, prefix, sizeof prefix - 1) != 0 || length >= sizeof name) {
			variable++;
			continue;
		}
		snprintf(name, sizeof name, "%.*s", (int)length, *variable);
		unsetenv(name);
		variable = environ;
	}
}

static void become(const struct ctl_doctor_child *child, int output)
{
	char beside[PATH_MAX], running[PATH_MAX], config[64];
	char *argv[] = {(char *)(uintptr_t)child->program, (char *)(uintptr_t) "--doctor",
		(char *)(uintptr_t) "--config", (char *)(uintptr_t)child->file, NULL};

	/* Before the user changes: links of others cannot be read after that. */
	find_beside(child->program, beside);
	find_running(child, running);
	snprintf(config, sizeof config, "/proc/self/fd/%d", child->config);
	if (!child->file)
		argv[3] = config;
	if (child->runs) {
		take_place(&child->daemon);
		if (!take_user(&child->daemon))
			_exit(NOT_FOUND);
		forget_keys();
	}
	dup2(output, STDOUT_FILENO);
	if (beside[0])
		execv(beside, argv);
	if (running[0])
		execv(running, argv);
	execvp(child->program, argv);
	_exit(NOT_FOUND);
}

/* ---- in keywakectl ---- */

/* Until it closes its end. */
static int read_all(int fd, uint64_t until_us, struct kw_buffer *output, struct kw_error *error)
{
	struct pollfd poller = {.fd = fd, .events = POLLIN};
	ssize_t got = 1;

	while (got > 0 && kw_buffer_length(output) < CTL_DOCTOR_OUTPUT_MAX) {
		const uint64_t now = kw_clock_us();

		if (now >= until_us || poll(&poller, 1, (int)((until_us - now) / 1000 + 1)) == 0)
			return kw_error_set(error, KW_E_TIMEOUT,
				"the doctor has not come to an end within %d s",
				CTL_DOCTOR_MS / 1000);
		got = read(fd, kw_buffer_reserve(output, READ_BYTES), READ_BYTES);
		if (got > 0)
			kw_buffer_filled(output, (size_t)got);
		else if (got < 0 && errno == EINTR)
			got = 1;
	}
	return KW_OK;
}

static int wait_end(pid_t pid, const struct ctl_doctor_child *child, struct kw_error *error)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_FOUND)
		return kw_error_set(error, KW_E_IO,
			"%s cannot be run: it is neither beside keywakectl nor in PATH, or may not "
			"be run by the daemon's user",
			child->program);
	if (WIFSIGNALED(status))
		return kw_error_set(error, KW_E_IO, "%s was ended by signal %d", child->program,
			WTERMSIG(status));
	return KW_OK;
}

int ctl_doctor_run_child(
	const struct ctl_doctor_child *child, struct kw_buffer *output, struct kw_error *error)
{
	const uint64_t until_us = kw_clock_us() + (uint64_t)CTL_DOCTOR_MS * 1000;
	int ends[2], code, ended;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC))
		return kw_error_errno(error, errno, "no pipe");
	pid = fork();
	if (pid == 0)
		become(child, ends[1]);
	close(ends[1]);
	if (pid < 0) {
		code = kw_error_errno(error, errno, "no process for %s", child->program);
		close(ends[0]);
		return code;
	}
	code = read_all(ends[0], until_us, output, error);
	close(ends[0]);
	if (code)
		kill(pid, SIGKILL);
	ended = wait_end(pid, child, code ? NULL : error);
	if (code || ended)
		return code ? code : ended;
	if (kw_buffer_length(output) > 0)
		return KW_OK;
	return kw_error_set(error, KW_E_IO,
		"%s said nothing: is it of an earlier version, without --doctor?", child->program);
}
