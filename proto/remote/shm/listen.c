/*
 * shm, the proxy's end: a unix socket over which the memory file is handed to agents that prove
 * themselves. After that a session only reports; this process never sees what it reads.
 */
#include "base/buffer.h"
#include "base/clock.h"
#include "remote/listen_stream.h"
#include "remote/users.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 128
#define SOCKET_MODE 0660

struct session {
	struct kw_session *session;
	int fd;
	uv_poll_t poll;
	uint8_t input[4 * KW_FRAME_MAX];
	size_t input_length;
	struct kw_reported reported;
};

/* The file we made, so that another's is not unlinked. */
struct file {
	dev_t device;
	ino_t inode;
};

/* ---- sessions ---- */

static void on_closed(uv_handle_t *handle)
{
	struct session *own = handle->data;

	kw_session_ended(own->session, "");
	free(own);
}

/* why: NULL when the server knows. */
static void end(struct session *own, const char *why)
{
	if (own->fd < 0)
		return;
	kw_session_ending(own->session);
	if (why)
		snprintf(own->session->why, sizeof own->session->why, "%s", why);
	uv_poll_stop(&own->poll);
	close(own->fd);
	own->fd = -1;
	uv_close((uv_handle_t *)&own->poll, on_closed);
}

static void say(const struct session *own, enum kw_frame_status what)
{
	struct kw_frame_reply reply;

	kw_frame_encode_reply(&reply, what, 0, 0);
	(void)send(own->fd, &reply, sizeof reply, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void end_shm(struct kw_session *session, enum kw_frame_status bye)
{
	struct session *own = session->own;

	if (own->fd >= 0)
		say(own, bye);
	end(own, NULL);
}

/* If the socket is full, the agent does not read, and finds by itself what is new. */
static void wake_shm(struct kw_session *session)
{
	struct session *own = session->own;

	if (own->fd >= 0)
		say(own, KW_FRAME_WAKE);
}

static uint64_t figures_shm(const struct kw_session *session, struct kw_session_info *info)
{
	const struct session *own = session->own;

	return kw_reported_show(&own->reported, info);
}

static void violated(struct session *own, const char *what)
{
	char why[KW_ERROR_TEXT + 16];

	kw_server_violated(own->session->server, KW_FRAME_BAD);
	snprintf(why, sizeof why, "it sent %s", what);
	say(own, KW_FRAME_BAD);
	end(own, why);
}

/* False: the session is over. */
static bool take_frame(struct session *own, const struct kw_frame *frame)
{
	switch (frame->op) {
	case KW_FRAME_REPORT:
		kw_reported_take(&own->reported, &frame->progress);
		return true;
	case KW_FRAME_SLEEP:
		if (kw_session_sleeps(own->session, frame->publication))
			return true;
		violated(own, "a wish to sleep that was not granted, or while it slept");
		return false;
	case KW_FRAME_READ:
		break;
	}
	violated(own, "a READ request, and shm has none");
	return false;
}

static void take_frames(struct session *own)
{
	struct kw_frame frame;
	struct kw_error error;
	size_t at = 0, taken;

	do {
		if (kw_frame_take(
			    own->input + at, own->input_length - at, &taken, &frame, &error) != 0) {
			violated(own, error.text);
			return;
		}
		if (taken == 0)
			break;
		if (!take_frame(own, &frame))
			return;
		at += taken;
	} while (at < own->input_length);
	own->input_length -= at;
	memmove(own->input, own->input + at, own->input_length);
	kw_session_wishes(own->session, own->reported.progress.ticket);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
	struct session *own = poll->data;
	ssize_t got;

	(void)events;
	if (status < 0) {
		end(own, uv_strerror(status));
		return;
	}
	got = recv(own->fd, own->input + own->input_length, sizeof own->input - own->input_length,
		MSG_DONTWAIT);
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got <= 0) {
		end(own, got < 0 ? strerror(errno) : "the agent closed the connection");
		return;
	}
	own->input_length += (size_t)got;
	take_frames(own);
}

static int adopt(struct kw_session *session, struct kw_wire wire, struct kw_error *error)
{
	struct session *own = kw_zalloc(sizeof *own);
	int status = uv_poll_init(kw_server_loop(session->server), &own->poll, wire.fd);

	if (status != 0) {
		free(own);
		return kw_error_errno(error, -status, "the connection cannot be watched");
	}
	own->session = session;
	own->fd = wire.fd;
	own->poll.data = own;
	session->own = own;
	uv_poll_start(&own->poll, UV_READABLE, on_poll);
	return 0;
}

/* ---- the listener ---- */

static int accepted(
	const struct kw_stream *stream, int fd, struct kw_arrival *arrival, struct kw_error *error)
{
	const struct file *file = stream->own;
	struct kw_origin *origin = &arrival->origin;
	pid_t pid;

	(void)error;
	origin->uid = kw_user_of(fd, &pid);
	snprintf(origin->text, sizeof origin->text, "pid %d, uid %u", (int)pid, origin->uid);
	origin->peer = kw_peer_of_user(origin->uid);
	origin->user = kw_server_judge(stream->listener->server, origin->uid);
	arrival->channel = kw_channel_shm(file->device, file->inode);
	return 0;
}

static int give_fd(struct kw_server *server)
{
	return kw_server_memory(server)->readonly_fd;
}

static void closed(struct kw_stream *stream)
{
	const char *path = stream->listener->address.path;
	struct file *file = stream->own;
	struct stat status;

	if (stat(path, &status) == 0 && status.st_dev == file->device &&
		status.st_ino == file->inode)
		(void)unlink(path);
	free(file);
}

static const struct kw_stream_ops stream_ops = {
	.accepted = accepted,
	.give_fd = give_fd,
	.adopt = adopt,
	.closed = closed,
};

/* Does a process listen at the path? A full queue (EAGAIN) is an answer too. */
static int check_stale(const struct sockaddr_un *name, struct kw_error *error)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int errnum;

	if (fd < 0)
		return kw_error_errno(error, errno, "socket");
	errnum = connect(fd, (const struct sockaddr *)name, sizeof *name) == 0 ? 0 : errno;
	close(fd);
	if (errnum == 0 || errnum == EAGAIN)
		return kw_error_set(error, KW_E_STATE,
			"another process answers there: is a proxy running already?");
	if (errnum != ECONNREFUSED)
		return kw_error_errno(error, errnum, "the socket file that is there");
	return 0;
}

static int make_room(const struct sockaddr_un *name, struct kw_error *error)
{
	struct stat status;
	int code;

	if (lstat(name->sun_path, &status) != 0)
		return errno == ENOENT ? 0 : kw_error_errno(error, errno, "%s", name->sun_path);
	if (!S_ISSOCK(status.st_mode))
		return kw_error_set(
			error, KW_E_STATE, "the file that is there is no socket: it is left alone");
	code = check_stale(name, error);
	if (code != 0)
		return code;
	if (unlink(name->sun_path) != 0 && errno != ENOENT)
		return kw_error_errno(error, errno,
			"a proxy of another user (uid %u) left the socket file, and this one (uid "
			"%u) cannot remove it: rm %s as root",
			(unsigned)status.st_uid, (unsigned)geteuid(), name->sun_path);
	return 0;
}

/* The mode is there from the first moment: bind makes the file with the socket's own. */
static int bind_path(
	int fd, const struct sockaddr_un *name, struct file *file, struct kw_error *error)
{
	struct stat status;
	int code;

	if (fchmod(fd, SOCKET_MODE) != 0)
		return kw_error_errno(error, errno, "mode of the socket");
	if (bind(fd, (const struct sockaddr *)name, sizeof *name) != 0)
		return kw_error_errno(error, errno, "bind%s",
			errno == ENOENT   ? " (does the directory exist?)"
			: errno == EACCES ? " (may this user write to the directory?)"
					  : "");
	if (chmod(name->sun_path, SOCKET_MODE) != 0 || stat(name->sun_path, &status) != 0 ||
		listen(fd, BACKLOG) != 0) {
		code = kw_error_errno(error, errno, "socket file");
		(void)unlink(name->sun_path);
		return code;
	}
	*file = (struct file){status.st_dev, status.st_ino};
	return 0;
}

static int listen_shm(struct kw_listener *listener, struct kw_error *error)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	struct kw_stream *stream = NULL;
	struct file *file;
	int code, fd;

	strcpy(name.sun_path, listener->address.path);
	code = make_room(&name, error);
	if (code != 0)
		return code;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return kw_error_errno(error, errno, "socket");
	file = kw_zalloc(sizeof *file);
	code = bind_path(fd, &name, file, error);
	if (code == 0) {
		stream = kw_stream_new(listener, &stream_ops, fd, error);
		if (!stream)
			(void)unlink(name.sun_path);
	}
	if (!stream) {
		free(file);
		close(fd);
		return (int)error->code;
	}
	stream->own = file;
	return 0;
}

const struct kw_listener_ops kw_listener_shm = {
	.carrier = KW_CARRIER_SHM,
	.listen = listen_shm,
	.close = kw_stream_close,
	.end = end_shm,
	.figures = figures_shm,
	.wake = wake_shm,
};
