#include "ctl/target.h"

#include "ctl/ctl.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MODE 0600
#define OWN_FDS "/proc/self/fd"
#define MAKING_NAME ".keywake-export."

/* Follow links; refuse what a rename would destroy. */
static int settle_path(struct ctl_target *target, const char *path, struct kw_error *error)
{
	char copy[PATH_MAX];
	struct stat info;
	size_t length = strlen(path);

	if (length == 0 || length >= sizeof target->path || path[length - 1] == '/')
		return kw_error_set(error, KW_E_ARGUMENT, "%.200s: no name of a file", path);
	if (!realpath(path, target->path))
		strcpy(target->path, path);
	if (stat(target->path, &info) == 0 && !S_ISREG(info.st_mode))
		return kw_error_set(error, KW_E_ARGUMENT,
			"%.200s: is no ordinary file, and would be replaced by one: - writes to "
			"standard output",
			path);
	strcpy(copy, target->path);
	strcpy(target->folder, dirname(copy));
	return 0;
}

static int open_failed(const struct ctl_target *target, struct kw_error *error)
{
	if (errno == ENOENT || errno == ENOTDIR)
		return kw_error_set(
			error, KW_E_ARGUMENT, "%.200s: there is no such folder", target->folder);
	return kw_error_errno(error, errno, "%.200s: cannot make a file there", target->folder);
}

int ctl_target_open(struct ctl_target *target, const char *path, struct kw_error *error)
{
	int code;

	*target = (struct ctl_target){.fd = -1};
	code = settle_path(target, path, error);
	if (code)
		return code;
	/* The name comes through /proc later on. */
	if (access(OWN_FDS, X_OK) == 0)
		target->fd = open(target->folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, MODE);
	if (target->fd >= 0)
		return 0;
	if (snprintf(target->making, sizeof target->making, "%s/" MAKING_NAME "XXXXXX",
		    target->folder) >= (int)sizeof target->making)
		return kw_error_set(error, KW_E_ARGUMENT, "%.200s: too long a path", path);
	target->fd = mkostemp(target->making, O_CLOEXEC);
	if (target->fd < 0) {
		target->making[0] = '\0';
		return open_failed(target, error);
	}
	ctl_remove_on_signal(target->making);
	return 0;
}

static int write_failed(const struct ctl_target *target, int errnum, struct kw_error *error)
{
	char text[64];

	ctl_show_bytes((double)target->bytes, text, sizeof text);
	if (errnum == ENOSPC || errnum == EDQUOT || errnum == EFBIG)
		return kw_error_set(error, KW_E_FULL,
			"%.200s: %s after %s: nothing of it was kept, and no file replaced",
			target->path, errnum == ENOSPC ? "the disk is full" : strerror(errnum),
			text);
	return kw_error_errno(error, errnum, "%.200s: after %s", target->path, text);
}

int ctl_target_write(
	struct ctl_target *target, const void *bytes, size_t length, struct kw_error *error)
{
	const char *at = bytes;

	while (length > 0) {
		ssize_t put = write(target->fd, at, length);

		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0)
			return write_failed(target, errno, error);
		at += put;
		length -= (size_t)put;
		target->bytes += (uint64_t)put;
	}
	return 0;
}

/* Give the nameless file a name: its own if that is free. 1: done, 0: in `making`. */
static int give_name(struct ctl_target *target, struct kw_error *error)
{
	char self[64];

	snprintf(self, sizeof self, OWN_FDS "/%d", target->fd);
	if (linkat(AT_FDCWD, self, AT_FDCWD, target->path, AT_SYMLINK_FOLLOW) == 0)
		return 1;
	if (errno != EEXIST)
		return -kw_error_errno(error, errno, "%.200s", target->path);
	if (snprintf(target->making, sizeof target->making, "%s/" MAKING_NAME "%d", target->folder,
		    (int)getpid()) >= (int)sizeof target->making)
		return -kw_error_set(error, KW_E_ARGUMENT, "%.200s: too long a path", target->path);
	unlink(target->making);
	ctl_remove_on_signal(target->making);
	if (linkat(AT_FDCWD, self, AT_FDCWD, target->making, AT_SYMLINK_FOLLOW))
		return -kw_error_errno(error, errno, "%.200s", target->making);
	return 0;
}

/* The name is on the disk when its folder is; some file systems cannot sync it, and need not. */
static void sync_folder(const struct ctl_target *target)
{
	int fd = open(target->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return;
	fsync(fd);
	close(fd);
}

int ctl_target_commit(struct ctl_target *target, struct kw_error *error)
{
	int named = 0, code = 0;

	if (fsync(target->fd))
		code = write_failed(target, errno, error);
	if (!code && !*target->making)
		named = give_name(target, error);
	if (named < 0)
		code = -named;
	if (!code && !named && rename(target->making, target->path))
		code = kw_error_errno(error, errno, "%.200s", target->path);
	if (!code) {
		target->making[0] = '\0';
		sync_folder(target);
	}
	ctl_target_discard(target);
	return code;
}

void ctl_target_discard(struct ctl_target *target)
{
	ctl_remove_on_signal(NULL);
	if (*target->making)
		unlink(target->making);
	target->making[0] = '\0';
	if (target->fd >= 0)
		close(target->fd);
	target->fd = -1;
}
