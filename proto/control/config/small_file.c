#include "control/config/small_file.h"

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MODE 0600
#define MODE_OF_OTHERS 007U
#define MODE_OF_GROUP 020U
#define MODE_OF_WRITERS 022U

static int check_owner(
	const struct stat *info, const char *file, const char *what, struct kw_error *error)
{
	if (info->st_uid == 0 || info->st_uid == geteuid())
		return KW_OK;
	return kw_error_set(error, KW_E_CONFIG,
		"%s %s belongs to user %u, who could change it: chown root %s", what, file,
		(unsigned)info->st_uid, file);
}

static int open_folder(const char *file)
{
	char *copy = kw_strdup(file);
	int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	free(copy);
	return fd;
}

static bool owns_folder(uid_t user, const char *file)
{
	int folder = open_folder(file);
	struct stat info;
	bool owns = folder >= 0 && fstat(folder, &info) == 0 && info.st_uid == user;

	if (folder >= 0)
		close(folder);
	return owns;
}

static int check_writers(
	const struct stat *info, const char *file, const char *what, struct kw_error *error)
{
	unsigned mode = info->st_mode & 07777;

	if (mode & MODE_OF_WRITERS)
		return kw_error_set(error, KW_E_CONFIG,
			"%s %s can be changed by its group or by others (mode %04o): chmod go-w %s",
			what, file, mode, file);
	if (geteuid() == 0 && owns_folder(info->st_uid, file))
		return KW_OK;
	return check_owner(info, file, what, error);
}

static int check_mode(const struct stat *info, enum kw_file_care care, const char *file,
	const char *what, struct kw_error *error)
{
	unsigned mode = info->st_mode & 07777;

	if (care == KW_FILE_ANY)
		return KW_OK;
	if (care == KW_FILE_OWN)
		return check_writers(info, file, what, error);
	if (mode & MODE_OF_OTHERS)
		return kw_error_set(error, KW_E_CONFIG,
			"%s %s is open to every user (mode %04o): chmod o-rwx %s", what, file, mode,
			file);
	if (mode & MODE_OF_GROUP)
		return kw_error_set(error, KW_E_CONFIG,
			"%s %s can be changed by its group (mode %04o): chmod g-w %s", what, file,
			mode, file);
	return check_owner(info, file, what, error);
}

/* A regular file of at most `most` bytes, in the right hands; the sentence says what else. */
static int check_file(int fd, const char *file, size_t most, enum kw_file_care care,
	const char *what, struct kw_error *error)
{
	struct stat info;

	if (fstat(fd, &info))
		return kw_error_errno(error, errno, "cannot look at %s %s", what, file);
	if (!S_ISREG(info.st_mode))
		return kw_error_set(error, KW_E_CONFIG, "%s %s is not a regular file", what, file);
	if (check_mode(&info, care, file, what, error))
		return KW_E_CONFIG;
	if ((uint64_t)info.st_size > most)
		return kw_error_set(error, KW_E_CONFIG,
			"%s %s has %lld bytes; at most %zu are read: is it the right file?", what,
			file, (long long)info.st_size, most);
	return 0;
}

static int cannot_open(int errnum, const char *file, const char *what, struct kw_error *error)
{
	const char *remedy = errnum == ENOENT ? ": make it, or name another file"
			     : errnum == EACCES
				     ? ": let the daemon's user read it (chown, chmod u+r)"
				     : "";
	return kw_error_set(error, KW_E_CONFIG, "cannot open %s %s: %s%s", what, file,
		strerror(errnum), remedy);
}

int kw_small_file_read(const char *file, size_t most, enum kw_file_care care, const char *what,
	struct kw_buffer *out, struct kw_error *error)
{
	/* Non-blocking, so that opening a FIFO cannot hang the daemon's start. */
	int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	size_t total = 0;
	ssize_t got;
	int code;

	if (fd < 0)
		return cannot_open(errno, file, what, error);
	code = check_file(fd, file, most, care, what, error);
	/* One byte more than allowed may be read: the file might have grown since. */
	while (!code && total <= most) {
		got = read(fd, kw_buffer_reserve(out, most + 1 - total), most + 1 - total);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			code = kw_error_errno(error, errno, "cannot read %s %s", what, file);
		if (got <= 0)
			break;
		kw_buffer_filled(out, (size_t)got);
		total += (size_t)got;
	}
	if (!code && total > most)
		code = kw_error_set(
			error, KW_E_CONFIG, "%s %s has more than %zu bytes", what, file, most);
	close(fd);
	return code;
}

static int write_all(int fd, const char *text, size_t length)
{
	while (length > 0) {
		ssize_t wrote = write(fd, text, length);

		if (wrote < 0 && errno == EINTR)
			continue;
		if (wrote < 0)
			return -1;
		text += wrote;
		length -= (size_t)wrote;
	}
	return 0;
}

/*
 * The rename is on the disk once its folder is. Some file systems cannot tell that of a folder, and
 * the file has the new value by now. So a folder that fails is said, and refuses nothing.
 */
static void sync_folder(int folder, const char *file)
{
	if (fsync(folder))
		kw_log_warn("config",
			"%s has the new value, but might lose it if the power fails now: its "
			"folder cannot be synced: %s",
			file, strerror(errno));
}

static int write_new(
	const char *beside, const char *text, size_t length, enum kw_file_sync sync, bool *made)
{
	int failed = 0,
	    fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, FILE_MODE);

	*made = fd >= 0;
	if (fd < 0)
		return errno;
	if (write_all(fd, text, length) || (sync == KW_FILE_SYNCED && fsync(fd)))
		failed = errno;
	if (close(fd) && !failed)
		failed = errno;
	return failed;
}

int kw_small_file_replace(const char *file, const char *text, size_t length, enum kw_file_sync sync)
{
	int folder = open_folder(file), failed;
	char beside[4096];
	bool made = false;

	if (folder < 0)
		return errno;
	if (snprintf(beside, sizeof beside, "%s.new", file) >= (int)sizeof beside)
		failed = ENAMETOOLONG;
	else
		failed = write_new(beside, text, length, sync, &made);
	if (!failed && rename(beside, file))
		failed = errno;
	if (!failed && sync == KW_FILE_SYNCED)
		sync_folder(folder, file);
	close(folder);
	if (failed && made)
		unlink(beside);
	return failed;
}
