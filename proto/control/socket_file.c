#include "control/socket_file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define SOCKET_MODE 0660
#define BACKLOG 16 /* connections not yet accepted */

static int open_socket(void)
{
	return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

/* Does a server answer at address? 1 yes, 0 no, -1 with errno. */
static int answers(const struct sockaddr_un *address)
{
	int fd = open_socket();
	int code, errnum;

	if (fd < 0)
		return -1;
	code = connect(fd, (const struct sockaddr *)address, sizeof *address);
	errnum = errno;
	close(fd);
	/* EAGAIN: a server listens, but its queue of connections is full. */
	if (code == 0 || errnum == EAGAIN)
		return 1;
	if (errnum == ECONNREFUSED || errnum == ENOENT)
		return 0;
	errno = errnum;
	return -1;
}

/* What is being made, for sentences. */
struct place {
	const struct kw_socket_use *use;
	struct sockaddr_un final, making;
};

static int failed(const struct place *place, int errnum, struct kw_error *error)
{
	return kw_error_errno(error, errnum, "%s %s", place->use->what, place->final.sun_path);
}

/* Remove the file of a daemon that was killed. */
static int remove_stale(const struct place *place, struct kw_error *error)
{
	const char *path = place->final.sun_path, *what = place->use->what;
	struct stat info;
	int alive;

	if (lstat(path, &info))
		return errno == ENOENT ? 0 : failed(place, errno, error);
	if (!S_ISSOCK(info.st_mode))
		return kw_error_set(error, KW_E_CONFIG,
			"%s %s: a file that is not a socket is in the way: remove it, or set "
			"another %s",
			what, path, place->use->key);
	alive = answers(&place->final);
	if (alive < 0)
		return failed(place, errno, error);
	if (alive)
		return kw_error_set(error, KW_E_STATE,
			"%s %s: another process answers there: stop it, or set another %s", what,
			path, place->use->key);
	if (unlink(path) && errno != ENOENT)
		return kw_error_errno(error, errno,
			"%s %s: a daemon of another user (uid %u) left it, and this one (uid %u) "
			"cannot remove it: rm %s as root",
			what, path, (unsigned)info.st_uid, (unsigned)geteuid(), path);
	return 0;
}

static int bind_failed(const struct place *place, int errnum, struct kw_error *error)
{
	const char *path = place->final.sun_path, *what = place->use->what;
	char copy[sizeof(((struct sockaddr_un *)NULL)->sun_path)];
	const char *directory;

	snprintf(copy, sizeof copy, "%s", path);
	directory = dirname(copy);
	if (errnum == ENOENT || errnum == ENOTDIR)
		return kw_error_set(error, KW_E_CONFIG,
			"%s %s: the directory %s does not exist: create it (mkdir -p %s; "
			"systemd-tmpfiles --create makes /run/keywake), or set another %s",
			what, path, directory, directory, place->use->key);
	if (errnum == EACCES || errnum == EROFS)
		return kw_error_set(error, KW_E_CONFIG,
			"%s %s: no permission to create it in %s (uid %u): change the directory's "
			"owner, or set another %s",
			what, path, directory, (unsigned)geteuid(), place->use->key);
	return failed(place, errnum, error);
}

/*
 * The socket is made under another name and renamed once it listens. So a client that sees the file
 * can connect, and a daemon that starts at the same moment cannot take it for a stale one.
 */
#define MAKING_SUFFIX ".%d"
#define MAKING_SUFFIX_MAX 8 /* the largest process id has 7 digits */

static int prepare(const char *path, struct place *place, struct kw_error *error)
{
	size_t most = sizeof place->final.sun_path - 1 - MAKING_SUFFIX_MAX;

	place->final = place->making = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (*path == '\0')
		return kw_error_set(
			error, KW_E_CONFIG, "%s is empty: give it a path", place->use->key);
	if (strlen(path) > most)
		return kw_error_set(error, KW_E_CONFIG,
			"%s %s: its path may have at most %zu bytes, this has %zu: choose a "
			"shorter %s",
			place->use->what, path, most, strlen(path), place->use->key);
	strcpy(place->final.sun_path, path);
	snprintf(place->making.sun_path, sizeof place->making.sun_path, "%.*s" MAKING_SUFFIX,
		(int)most, path, (int)getpid());
	return 0;
}

static int publish(const struct place *place, struct kw_error *error)
{
	const char *from = place->making.sun_path, *to = place->final.sun_path;

	if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno == EEXIST)
		return kw_error_set(error, KW_E_STATE,
			"%s %s: another process made it at this very moment", place->use->what, to);
	/* Not every file system knows the flag. */
	if ((errno == EINVAL || errno == ENOSYS) && rename(from, to) == 0)
		return 0;
	return failed(place, errno, error);
}

static int make_socket(
	int fd, const struct place *place, struct stat *identity, struct kw_error *error)
{
	const char *making = place->making.sun_path;
	int code = 0;

	unlink(making);
	/*
	 * Linux gives the file the mode of the unbound socket (unix_bind in net/unix/af_unix.c), so
	 * it is never wider than this. chmod then adds what the umask took away.
	 */
	fchmod(fd, SOCKET_MODE);
	if (bind(fd, (const struct sockaddr *)&place->making, sizeof place->making))
		return bind_failed(place, errno, error);
	if (chmod(making, SOCKET_MODE) || listen(fd, BACKLOG) || lstat(making, identity))
		code = failed(place, errno, error);
	if (!code)
		code = publish(place, error);
	if (code)
		unlink(making);
	return code;
}

int kw_socket_file_listen(const struct kw_socket_use *use, const char *path, struct stat *identity,
	struct kw_error *error)
{
	struct place place = {.use = use};
	int code, fd;

	code = prepare(path, &place, error);
	if (!code)
		code = remove_stale(&place, error);
	if (code)
		return -code;
	fd = open_socket();
	if (fd < 0)
		return -failed(&place, errno, error);
	code = make_socket(fd, &place, identity, error);
	if (code) {
		close(fd);
		return -code;
	}
	return fd;
}

void kw_socket_file_remove(const char *path, const struct stat *identity)
{
	struct stat now;

	if (lstat(path, &now) == 0 && now.st_dev == identity->st_dev &&
		now.st_ino == identity->st_ino)
		unlink(path);
}
