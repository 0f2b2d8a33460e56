/* The socket file: making it, and telling a stale one from one that answers. */
#include "control/rpc/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define SOCKET_MODE 0660

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

/* Remove the file of a daemon that was killed. */
static int remove_stale(const struct sockaddr_un *address, struct kw_error *error)
{
	const char *path = address->sun_path;
	struct stat info;
	int alive;

	if (lstat(path, &info))
		return errno == ENOENT ? 0
				       : kw_error_errno(error, errno, "control socket %s", path);
	if (!S_ISSOCK(info.st_mode))
		return kw_error_set(error, KW_E_CONFIG,
			"control socket %s: a file that is not a socket is in the way: remove it, "
			"or set another control.socket",
			path);
	alive = answers(address);
	if (alive < 0)
		return kw_error_errno(error, errno, "control socket %s", path);
	if (alive)
		return kw_error_set(error, KW_E_STATE,
			"control socket %s: another process answers there: stop it, or set another "
			"control.socket",
			path);
	if (unlink(path) && errno != ENOENT)
		return kw_error_errno(error, errno,
			"control socket %s: a daemon of another user (uid %u) left it, and this "
			"one (uid %u) cannot remove it: rm %s as root",
			path, (unsigned)info.st_uid, (unsigned)geteuid(), path);
	return 0;
}

static int bind_failed(const char *path, int errnum, struct kw_error *error)
{
	char copy[sizeof(((struct sockaddr_un *)NULL)->sun_path)];
	const char *directory;

	snprintf(copy, sizeof copy, "%s", path);
	directory = dirname(copy);
	if (errnum == ENOENT || errnum == ENOTDIR)
		return kw_error_set(error, KW_E_CONFIG,
			"control socket %s: the directory %s does not exist: create it (mkdir -p "
			"%s; "
			"systemd-tmpfiles --create makes /run/keywake), or set another "
			"control.socket",
			path, directory, directory);
	if (errnum == EACCES || errnum == EROFS)
		return kw_error_set(error, KW_E_CONFIG,
			"control socket %s: no permission to create it in %s (uid %u): change the "
			"directory's owner, or set another control.socket",
			path, directory, (unsigned)geteuid());
	return kw_error_errno(error, errnum, "control socket %s", path);
}

/*
 * The socket is made under another name and renamed once it listens. So a client that sees the file
 * can connect, and a daemon that starts at the same moment cannot take it for a stale one.
 */
#define MAKING_SUFFIX ".%d"
#define MAKING_SUFFIX_MAX 8 /* the largest process id has 7 digits */

struct names {
	struct sockaddr_un final, making;
};

static int prepare_names(const char *path, struct names *names, struct kw_error *error)
{
	size_t most = sizeof names->final.sun_path - 1 - MAKING_SUFFIX_MAX;

	*names = (struct names){{.sun_family = AF_UNIX}, {.sun_family = AF_UNIX}};
	if (*path == '\0')
		return kw_error_set(error, KW_E_CONFIG, "control.socket is empty: give it a path");
	if (strlen(path) > most)
		return kw_error_set(error, KW_E_CONFIG,
			"control socket %s: its path may have at most %zu bytes, this has %zu: "
			"choose a shorter control.socket",
			path, most, strlen(path));
	strcpy(names->final.sun_path, path);
	snprintf(names->making.sun_path, sizeof names->making.sun_path, "%.*s" MAKING_SUFFIX,
		(int)most, path, (int)getpid());
	return 0;
}

static int publish(const struct names *names, struct kw_error *error)
{
	const char *from = names->making.sun_path, *to = names->final.sun_path;

	if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno == EEXIST)
		return kw_error_set(error, KW_E_STATE,
			"control socket %s: another process made it at this very moment", to);
	/* Not every file system knows the flag. */
	if ((errno == EINVAL || errno == ENOSYS) && rename(from, to) == 0)
		return 0;
	return kw_error_errno(error, errno, "control socket %s", to);
}

static int make_socket(
	int fd, const struct names *names, struct stat *identity, struct kw_error *error)
{
	const char *making = names->making.sun_path, *path = names->final.sun_path;
	int code = 0;

	unlink(making);
	/*
	 * Linux gives the file the mode of the unbound socket (unix_bind in net/unix/af_unix.c), so
	 * it is never wider than this. chmod then adds what the umask took away.
	 */
	fchmod(fd, SOCKET_MODE);
	if (bind(fd, (const struct sockaddr *)&names->making, sizeof names->making))
		return bind_failed(path, errno, error);
	if (chmod(making, SOCKET_MODE) || listen(fd, KW_RPC_BACKLOG) || lstat(making, identity))
		code = kw_error_errno(error, errno, "control socket %s", path);
	if (!code)
		code = publish(names, error);
	if (code)
		unlink(making);
	return code;
}

int rpc_socket_listen(const char *path, struct stat *identity, struct kw_error *error)
{
	struct names names;
	int code, fd;

	code = prepare_names(path, &names, error);
	if (!code)
		code = remove_stale(&names.final, error);
	if (code)
		return -code;
	fd = open_socket();
	if (fd < 0)
		return -kw_error_errno(error, errno, "control socket %s", names.final.sun_path);
	code = make_socket(fd, &names, identity, error);
	if (code) {
		close(fd);
		return -code;
	}
	return fd;
}
