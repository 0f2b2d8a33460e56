/*
 * shm, the agent's end: the proxy's memory file mapped read-only, and a READ is a copy out of it.
 *
 * The socket stays open behind the handshake: its end is the proxy's death notice, and reports go
 * over it. Copies are made in the next turn of the loop, a bounded number of bytes in each.
 */
#include "base/buffer.h"
#include "base/clock.h"
#include "remote/carrier.h"
#include "remote/exchange.h"
#include "remote/racy.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define TURN_BYTES (UINT64_C(8) << 20) /* copied before others on the loop get their turn */
#define TURN_READS 4096
#define RETRY_US 20000 /* between tries while the proxy's queue of connections is full */

struct shm {
	int fd;
	uv_poll_t *poll; /* NULL: not dialed, or let go */
	int events;      /* what it polls for */
	struct kw_exchange exchange;
	uint8_t *map;
	uint64_t map_bytes;
	uint64_t copied;              /* of the READ at the head of flight */
	struct kw_frame_report frame; /* on its way out */
	size_t frame_length, frame_sent;
	struct kw_frame_reply farewell; /* the only thing a proxy ever says here */
	size_t farewell_length;
};

static int open_shm(struct kw_remote *remote, struct kw_error *error)
{
	struct shm *shm = kw_zalloc(sizeof *shm);

	(void)error;
	shm->fd = -1;
	shm->exchange.give_fd = shm->exchange.taken_fd = -1;
	shm->exchange.takes_fd = true;
	remote->own = shm;
	return 0;
}

/* ---- handshake ---- */

/* A file that could shrink would kill this process by SIGBUS: it is not mapped. */
static int check_file(int fd, uint64_t *bytes, struct kw_error *error)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat status;

	if (seals < 0 || !(seals & F_SEAL_SHRINK))
		return kw_error_set(error, KW_E_PROTOCOL,
			"the proxy's memory file is not sealed against shrinking: refused");
	if (fstat(fd, &status) != 0)
		return kw_error_errno(error, errno, "the proxy's memory file");
	if (status.st_size <= 0 || (uint64_t)status.st_size > KW_RESERVE_MAX)
		return kw_error_set(error, KW_E_PROTOCOL,
			"the proxy's memory file has %lld bytes (1 to %" PRIu64 " can be mapped)",
			(long long)status.st_size, (uint64_t)KW_RESERVE_MAX);
	*bytes = (uint64_t)status.st_size;
	return 0;
}

static int map_file(struct kw_remote *remote, struct kw_error *error)
{
	struct shm *shm = remote->own;
	int fd = shm->exchange.taken_fd;
	void *map;
	int code;

	if (fd < 0)
		return kw_error_set(error, KW_E_PROTOCOL,
			"the proxy's WELCOME came without its memory file (or this process has no "
			"file "
			"descriptor left: raise LimitNOFILE)");
	code = check_file(fd, &shm->map_bytes, error);
	if (code == 0) {
		map = mmap(NULL, shm->map_bytes, PROT_READ, MAP_SHARED, fd, 0);
		if (map == MAP_FAILED)
			code = kw_error_errno(error, errno,
				"the proxy's memory file (%" PRIu64
				" bytes of addresses) cannot be mapped",
				shm->map_bytes);
		else
			shm->map = map;
	}
	close(fd);
	shm->exchange.taken_fd = -1;
	remote->mapped_bytes = shm->map_bytes;
	return code;
}

static void on_poll(uv_poll_t *poll, int status, int events);

static void watch(struct kw_remote *remote, int events)
{
	struct shm *shm = remote->own;

	/* Each start costs two system calls, whether or not anything changes. */
	if (events == shm->events)
		return;
	shm->events = events;
	uv_poll_start(shm->poll, events, on_poll);
}

static void greet(struct kw_remote *remote)
{
	struct shm *shm = remote->own;
	struct kw_error error = {0};

	switch (kw_exchange_step(&shm->exchange, shm->fd, &error)) {
	case KW_EXCHANGE_READ:
		watch(remote, UV_READABLE);
		return;
	case KW_EXCHANGE_WRITE:
		watch(remote, UV_WRITABLE);
		return;
	case KW_EXCHANGE_DONE:
		if (map_file(remote, &error) != 0)
			break;
		watch(remote, UV_READABLE);
		kw_remote_welcomed(remote, &shm->exchange.handshake.facts);
		return;
	case KW_EXCHANGE_DECIDE: /* the proxy's end only */
	case KW_EXCHANGE_FAILED:
		break;
	}
	kw_remote_fail(remote, &error);
}

static int dial(struct kw_remote *remote, struct kw_error *error)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	struct shm *shm = remote->own;
	int code = kw_remote_greet(remote, &shm->exchange.handshake, error);

	if (code != 0)
		return code;
	strcpy(name.sun_path, remote->address.path);
	shm->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (shm->fd < 0)
		return kw_error_errno(error, errno, "socket");
	if (connect(shm->fd, (struct sockaddr *)&name, sizeof name) != 0) {
		int errnum = errno;

		close(shm->fd);
		shm->fd = -1;
		if (errnum == EAGAIN) {
			/* Its queue is full; a unix socket offers no event for that. */
			kw_remote_turn_at(remote, kw_clock_us() + RETRY_US);
			return 0;
		}
		return kw_error_errno(error, errnum, "connect%s",
			errnum == EACCES ? " (is this user in the socket's group?)"
			: errnum == ENOENT || errnum == ECONNREFUSED ? " (is the proxy running?)"
								     : "");
	}
	shm->poll = kw_zalloc(sizeof *shm->poll);
	uv_poll_init(remote->loop, shm->poll, shm->fd);
	shm->poll->data = remote;
	greet(remote);
	return 0;
}

/* ---- what goes over the socket ---- */

static void lost(struct kw_remote *remote, int errnum)
{
	struct kw_error error;

	if (errnum == 0)
		kw_error_set(&error, KW_E_IO, "the proxy closed the connection");
	else
		kw_error_errno(&error, errnum, "connection lost");
	kw_remote_fail(remote, &error);
}

static void send_report(struct kw_remote *remote)
{
	struct shm *shm = remote->own;

	while (shm->frame_sent < shm->frame_length || remote->report_due) {
		ssize_t sent;

		if (shm->frame_sent == shm->frame_length) {
			kw_frame_encode_report(&shm->frame, &remote->report);
			shm->frame_length = sizeof shm->frame;
			shm->frame_sent = 0;
			kw_remote_report_taken(remote);
		}
		sent = send(shm->fd, (const uint8_t *)&shm->frame + shm->frame_sent,
			shm->frame_length - shm->frame_sent, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (sent < 0 && errno != EAGAIN && errno != EINTR) {
			/* A farewell may stand in front of the end: reading finds both. */
			shm->frame_sent = shm->frame_length = 0;
			remote->report_due = false;
			return;
		}
		if (sent < 0) {
			watch(remote, UV_READABLE | UV_WRITABLE);
			return;
		}
		shm->frame_sent += (size_t)sent;
	}
	watch(remote, UV_READABLE);
}

static void hear_farewell(struct kw_remote *remote)
{
	struct shm *shm = remote->own;
	struct kw_error error;
	ssize_t got = recv(shm->fd, (uint8_t *)&shm->farewell + shm->farewell_length,
		sizeof shm->farewell - shm->farewell_length, MSG_DONTWAIT);

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got <= 0) {
		lost(remote, got < 0 ? errno : 0);
		return;
	}
	shm->farewell_length += (size_t)got;
	if (shm->farewell_length < sizeof shm->farewell)
		return;
	if (kw_frame_check_reply(&shm->farewell, 0, 0, &error) == 0)
		kw_error_set(&error, KW_E_PROTOCOL, "the proxy answered a READ nobody sent");
	kw_remote_fail(remote, &error);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
	struct kw_remote *remote = poll->data;

	if (status < 0) {
		lost(remote, -status);
		return;
	}
	if (kw_remote_is(remote, KW_REMOTE_CONNECTING)) {
		greet(remote);
		return;
	}
	if (events & UV_READABLE)
		hear_farewell(remote);
	if ((events & UV_WRITABLE) && kw_remote_is(remote, KW_REMOTE_READY))
		send_report(remote);
}

/* ---- READs ---- */

static void copy_reads(struct kw_remote *remote)
{
	struct shm *shm = remote->own;
	uint64_t budget = TURN_BYTES;

	for (int i = 0; i < TURN_READS && remote->flight.head && budget > 0; i++) {
		struct kw_remote_read *read = remote->flight.head;
		uint64_t length = read->length - shm->copied;

		if (length > budget)
			length = budget;
		kw_racy_copy(
			read->buffer + shm->copied, shm->map + read->offset + shm->copied, length);
		shm->copied += length;
		budget -= length;
		if (shm->copied < read->length) {
			kw_remote_progressed(remote);
			break;
		}
		shm->copied = 0;
		kw_remote_complete(remote);
		if (!kw_remote_is(remote, KW_REMOTE_READY))
			return;
	}
	if (remote->flight.head)
		kw_remote_turn_soon(remote);
}

static void turn_shm(struct kw_remote *remote)
{
	struct shm *shm = remote->own;
	struct kw_error error;

	if (!shm->poll) {
		if (dial(remote, &error) != 0)
			kw_remote_fail(remote, &error);
	} else if (kw_remote_is(remote, KW_REMOTE_READY)) {
		copy_reads(remote);
	}
}

static void post_shm(struct kw_remote *remote, struct kw_remote_read *first)
{
	(void)first;
	kw_remote_turn_soon(remote);
}

static void close_shm(struct kw_remote *remote)
{
	struct shm *shm = remote->own;

	if (shm->poll) {
		uv_poll_stop(shm->poll);
		kw_remote_shut(remote, (uv_handle_t *)shm->poll, true);
		shm->poll = NULL;
	}
	if (shm->fd >= 0)
		close(shm->fd);
	if (shm->exchange.taken_fd >= 0)
		close(shm->exchange.taken_fd);
	shm->fd = shm->exchange.taken_fd = -1;
	if (shm->map)
		munmap(shm->map, shm->map_bytes);
	shm->map = NULL;
}

static void free_shm(struct kw_remote *remote)
{
	free(remote->own);
}

const struct kw_carrier_ops kw_carrier_shm = {
	.carrier = KW_CARRIER_SHM,
	.open = open_shm,
	.post = post_shm,
	.turn = turn_shm,
	.report = send_report,
	.close = close_shm,
	.free = free_shm,
};
