#include "keeper.h"

#include "base/passed.h"
#include "control/notify.h"
#include "table/keep.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define STORED_NAME "keywake-table"
#define MODE 0600 /* of the file */
#define PATH_BYTES 4096

static const char *keep_file(const struct kw_config *config)
{
	return kw_config_text(config, "table.keep_file");
}

bool kw_keeper_can(const struct kw_config *config)
{
	if (!kw_config_bool(config, "table.keep") || kw_config_bool(config, "table.huge_pages"))
		return false;
	return *keep_file(config) ||
	       (kw_notify_can_store() && !kw_config_bool(config, "table.seal"));
}

/* The folder of the file. */
static void folder_of(const char *path, char folder[PATH_BYTES])
{
	char *last;

	snprintf(folder, PATH_BYTES, "%s", path);
	last = strrchr(folder, '/');
	if (last == folder)
		last++;
	if (last)
		*last = '\0';
}

/* The data of the primary shall not be written to a disk. */
static int check_folder(const char *path, struct kw_error *error)
{
	char folder[PATH_BYTES];
	struct statfs status;

	folder_of(path, folder);
	if (statfs(folder, &status) != 0)
		return kw_error_set(
			error, KW_E_CONFIG, "table.keep_file: %s: %s", folder, strerror(errno));
	if (status.f_type != TMPFS_MAGIC)
		return kw_error_set(error, KW_E_CONFIG,
			"table.keep_file: %s is on no tmpfs, and the data of the primary would be "
			"written to a disk: use a file in a folder like /dev/shm",
			path);
	return KW_OK;
}

/* Only what this user wrote, for itself alone. */
static bool is_ours(const struct stat *status)
{
	return S_ISREG(status->st_mode) && (status->st_mode & 07777) == MODE &&
	       status->st_uid == geteuid() && status->st_nlink == 1;
}

/* A name that was mistyped must not cost the file that has it. */
static bool is_table(int fd)
{
	uint32_t magic;

	return pread(fd, &magic, sizeof magic, KW_KEEP_OFFSET) == sizeof magic &&
	       magic == KW_KEEP_MAGIC;
}

static int check_file(int fd, const char *path, struct stat *status, struct kw_error *error)
{
	if (fstat(fd, status) != 0)
		return kw_error_errno(error, errno, "table.keep_file: %s", path);
	if (is_ours(status) && is_table(fd))
		return KW_OK;
	if (is_ours(status))
		return kw_error_set(error, KW_E_REFUSED,
			"%s holds no table: remove it, or give table.keep_file another name", path);
	return kw_error_set(error, KW_E_REFUSED,
		"%s is not a file that this proxy wrote (another owner, mode or a second name): "
		"remove it",
		path);
}

static int open_file(const char *path, struct stat *status, int *fd, struct kw_error *error)
{
	int code = check_folder(path, error);

	if (code)
		return code;
	*fd = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (*fd < 0 && errno == ENOENT)
		return KW_E_GONE;
	if (*fd < 0)
		return kw_error_errno(error, errno, "table.keep_file: %s", path);
	code = check_file(*fd, path, status, error);
	/* At once: if this process is killed, no other one may find it. */
	if (code == KW_OK && unlink(path) != 0)
		code = kw_error_errno(error, errno, "table.keep_file: removing %s", path);
	if (code)
		close(*fd);
	return code;
}

static int take_file(
	const struct kw_config *config, struct kw_memory *memory, struct kw_error *error)
{
	struct stat status;
	int fd, code = open_file(keep_file(config), &status, &fd, error);

	if (code)
		return code;
	code = kw_config_bool(config, "table.seal")
		       ? kw_memory_init_sealed(memory, (uint64_t)status.st_size, error)
		       : kw_memory_init(memory, (uint64_t)status.st_size, error);
	if (code == KW_OK) {
		code = kw_memory_load(memory, fd, error);
		if (code)
			kw_memory_close(memory);
	}
	close(fd);
	return code;
}

/*
 * A file that no process is to take: what a run before left, or one that ended while this one ran
 * already. It is older than what agents have by now.
 */
static void remove_file(const char *path)
{
	struct stat status;
	int fd;

	if (check_folder(path, NULL) ||
		(fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)) < 0)
		return;
	if (check_file(fd, path, &status, NULL) == KW_OK)
		(void)unlink(path);
	close(fd);
}

/* systemd keeps a duplicate, which it passes on at each start until it is told to forget it. */
static int take_stored(struct kw_memory *memory, bool wanted, struct kw_error *error)
{
	int fd = kw_passed_fd(STORED_NAME);

	if (fd < 0)
		return KW_E_GONE;
	kw_notify_forget(STORED_NAME);
	if (!wanted) {
		close(fd);
		return KW_E_GONE;
	}
	if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
		kw_error_errno(error, errno, "the memory that systemd kept");
		close(fd);
		return KW_E_IO;
	}
	return kw_memory_init_kept(memory, fd, error);
}

/* A key that was withdrawn can have mapped it: such a mapping must not show what comes. */
static int part_with_readers(uint64_t readers, struct kw_memory *memory, struct kw_error *error)
{
	return kw_keep_read_by(memory->base, readers) ? KW_OK : kw_memory_renew(memory, error);
}

int kw_keeper_take(const struct kw_config *config, uint64_t readers, struct kw_memory *memory,
	struct kw_error *error)
{
	const bool can = kw_keeper_can(config), file = *keep_file(config) != '\0';
	int code = take_stored(memory, can && !file, error);

	if (code == KW_OK)
		code = part_with_readers(readers, memory, error);
	if (file && !can)
		remove_file(keep_file(config));
	return can && file ? take_file(config, memory, error) : code;
}

static int put_file(const char *path, struct kw_memory *memory, struct kw_error *error)
{
	char folder[PATH_BYTES], self[64];
	int fd, code;

	/* Not later: one that comes while this one is copied is newer. */
	remove_file(path);
	folder_of(path, folder);
	fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, MODE);
	if (fd < 0)
		return kw_error_errno(error, errno, "table.keep_file: a file in %s", folder);
	/* The name comes last: a file of that name is whole. */
	snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
	code = kw_memory_save(memory, fd, error);
	if (code == KW_OK && linkat(AT_FDCWD, self, AT_FDCWD, path, AT_SYMLINK_FOLLOW) != 0)
		code = kw_error_errno(error, errno, "table.keep_file: %s", path);
	close(fd);
	return code;
}

int kw_keeper_put(const struct kw_config *config, struct kw_memory *memory, struct kw_error *error)
{
	if (*keep_file(config))
		return put_file(keep_file(config), memory, error);
	if (kw_notify_store(STORED_NAME, memory->fd))
		return KW_OK;
	return kw_error_set(error, KW_E_GONE, "systemd does not take its memory");
}
