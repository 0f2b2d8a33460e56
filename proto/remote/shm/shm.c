/*
 * shm, the agent's end: the proxy's memory file mapped read-only, and a READ is a copy out of it.
 *
 * The socket stays open after the handshake: reports go over it, and it ends when the proxy dies.
 * Copies are made in the next turn of the loop, a bounded number of bytes in each; a thread helps
 * with large READs (copier.h).
 */
#include "base/buffer.h"
#include "base/clock.h"
#include "remote/carrier.h"
#include "remote/racy.h"
#include "remote/shm/copier.h"
#include "remote/stream_end.h"
#include "remote/users.h"

#include <assert.h>
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
#define EARLY_BYTES 1024
#define CACHE_LINE 64
#define RETRY_US 20000 /* between tries while the proxy's queue of connections is full */

struct shm {
	struct kw_stream_end end;
	uint8_t *map;
	uint64_t map_bytes;
	uint64_t copied; /* of the READ at the head of flight, unless the copier's */
	struct kw_copier copier;
	union {
		struct kw_frame_report report;
		struct kw_frame_sleep sleep;
	} frame; /* on its way out */
	size_t frame_length, frame_sent;
	struct kw_frame_reply heard; /* a wake or a farewell: all that a proxy ever sends here */
	size_t heard_length;
};

/* ---- handshake ---- */

/*
 * A file that could shrink would kill this process by SIGBUS: it is not mapped. Nor is one that
 * WELCOME did not name: another process passed it.
 */
static int check_file(
	int fd, const struct kw_handshake_facts *facts, uint64_t *bytes, struct kw_error *error)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat status;

	if (seals < 0 || !(seals & F_SEAL_SHRINK))
		return kw_error_set(error, KW_E_PROTOCOL,
			"the proxy's memory file is not sealed against shrinking: refused");
	if (fstat(fd, &status) != 0)
		return kw_error_errno(error, errno, "the proxy's memory file");
	if (status.st_dev != facts->memory_device || status.st_ino != facts->memory_inode)
		return kw_error_set(error, KW_E_REFUSED,
			"the memory file that came is not the one that the proxy named: a relay "
			"stands between");
	if (status.st_size <= 0 || (uint64_t)status.st_size > KW_RESERVE_MAX)
		return kw_error_set(error, KW_E_PROTOCOL,
			"the proxy's memory file has %lld bytes (1 to %" PRIu64 " can be mapped)",
			(long long)status.st_size, (uint64_t)KW_RESERVE_MAX);
	*bytes = (uint64_t)status.st_size;
	return 0;
}

/*
 * Whoever finds the proxy dead can listen at its path. Without a secret, the kernel must name a
 * user that is trusted with the data.
 */
static int check_user(const struct kw_remote *remote, struct kw_error *error)
{
	const struct shm *shm = remote->own;
	const struct kw_peer_self self = kw_user_self();
	uid_t uid = kw_user_of(shm->end.wire.fd, NULL);

	if (remote->options.secret.length > 0)
		return 0;
	switch (kw_peer_judge(&remote->options.users, &self, uid)) {
	case KW_PEER_NO_USER:
	case KW_PEER_LISTED:
		break;
	case KW_PEER_UNLISTED:
		return kw_error_set(error, KW_E_REFUSED,
			"the proxy at %s runs as uid %u, which is none of shm.users: add its user "
			"there, or set auth.secret_file on both sides",
			remote->address.path, (unsigned)uid);
	case KW_PEER_UNSEEN:
		return kw_error_set(error, KW_E_REFUSED,
			"the user of the proxy at %s cannot be seen from here (a user namespace: "
			"PrivateUsers= or a container): set auth.secret_file on both sides",
			remote->address.path);
	}
	return 0;
}

static int map_file(struct kw_remote *remote, struct kw_error *error)
{
	struct shm *shm = remote->own;
	int fd = shm->end.exchange.taken_fd;
	void *map;
	int code;

	if (check_user(remote, error))
		return KW_E_REFUSED;
	if (fd < 0)
		return kw_error_set(error, KW_E_PROTOCOL,
			"the proxy's WELCOME came without its memory file (or this process has no "
			"file "
			"descriptor left: raise LimitNOFILE)");
	code = check_file(fd, &shm->end.exchange.handshake.facts, &shm->map_bytes, error);
	if (code == 0) {
		/* NORESERVE: of huge pages, all of the reservation would be wanted. */
		map = mmap(NULL, shm->map_bytes, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0);
		if (map == MAP_FAILED)
			code = kw_error_errno(error, errno,
				"the proxy's memory file (%" PRIu64
				" bytes of addresses) cannot be mapped",
				shm->map_bytes);
		else
			shm->map = map;
		if (shm->map) /* a core file shall not have the data in it */
			(void)madvise(map, shm->map_bytes, MADV_DONTDUMP);
	}
	close(fd);
	shm->end.exchange.taken_fd = -1;
	remote->mapped_bytes = shm->map_bytes;
	return code;
}

/* Which socket file is there now? Following symbolic links, as connect does. */
static int find_file(const char *path, struct kw_channel *channel)
{
	struct stat status;

	if (stat(path, &status) != 0)
		return errno;
	*channel = kw_channel_shm(status.st_dev, status.st_ino);
	return 0;
}

/* The same file before and after: then it is the one that was connected to. */
static int check_replaced(const char *path, const struct kw_channel *before, struct kw_error *error)
{
	struct kw_channel after;
	int errnum = find_file(path, &after);

	if (errnum == 0 && kw_channel_compare(before, &after, NULL) == KW_CHANNEL_SAME)
		return 0;
	return kw_error_set(error, KW_E_IO, "the socket file was replaced meanwhile");
}

static int dial(struct kw_remote *remote, struct kw_error *error)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	struct shm *shm = remote->own;
	struct kw_channel channel = {0};
	uv_poll_t *poll;
	int fd, status;

	strcpy(name.sun_path, remote->address.path);
	(void)find_file(name.sun_path, &channel); /* connect fails, too, if there is none */
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return kw_error_errno(error, errno, "socket");
	if (connect(fd, (struct sockaddr *)&name, sizeof name) != 0) {
		int errnum = errno;

		close(fd);
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
	if (check_replaced(name.sun_path, &channel, error) != 0) {
		close(fd);
		return (int)error->code;
	}
	poll = kw_zalloc(sizeof *poll);
	status = uv_poll_init(remote->loop, poll, fd);
	if (status != 0) {
		close(fd);
		free(poll);
		return kw_error_errno(error, -status, "the connection cannot be watched");
	}
	poll->data = remote;
	kw_stream_end_connected(&shm->end, remote, kw_wire_plain(fd), poll, &channel);
	return 0;
}

/* ---- what goes over the socket ---- */

/* The next frame that is due. False: none is. */
static bool encode_frame(struct kw_remote *remote)
{
	struct shm *shm = remote->own;

	if (remote->rest == KW_REST_DUE) {
		kw_frame_encode_sleep(&shm->frame.sleep, remote->rest_publication);
		shm->frame_length = sizeof shm->frame.sleep;
		kw_remote_sleep_taken(remote);
	} else if (remote->reporting == KW_REPORT_DUE) {
		kw_frame_encode_report(&shm->frame.report, &remote->report);
		shm->frame_length = sizeof shm->frame.report;
		kw_remote_report_taken(remote);
	} else {
		return false;
	}
	shm->frame_sent = 0;
	return true;
}

static void send_frames(struct kw_remote *remote)
{
	struct shm *shm = remote->own;

	while (shm->frame_sent < shm->frame_length || encode_frame(remote)) {
		ssize_t sent =
			send(shm->end.wire.fd, (const uint8_t *)&shm->frame + shm->frame_sent,
				shm->frame_length - shm->frame_sent, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (sent < 0 && errno != EAGAIN && errno != EINTR) {
			/* A farewell can come before the end: reading finds both. */
			shm->frame_sent = shm->frame_length = 0;
			remote->reporting = KW_REPORT_SENT;
			return;
		}
		if (sent < 0) {
			kw_stream_end_watch(&shm->end, UV_READABLE | UV_WRITABLE);
			return;
		}
		shm->frame_sent += (size_t)sent;
	}
	kw_stream_end_watch(&shm->end, UV_READABLE);
}

static void hear(struct kw_remote *remote)
{
	struct shm *shm = remote->own;
	struct kw_error error;
	ssize_t got = recv(shm->end.wire.fd, (uint8_t *)&shm->heard + shm->heard_length,
		sizeof shm->heard - shm->heard_length, MSG_DONTWAIT);

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got <= 0) {
		kw_stream_end_lost(&shm->end, remote, got < 0 ? errno : 0);
		return;
	}
	shm->heard_length += (size_t)got;
	if (shm->heard_length < sizeof shm->heard)
		return;
	shm->heard_length = 0;
	if (kw_frame_is_wake(&shm->heard) && kw_remote_woken(remote))
		return;
	if (kw_frame_check_reply(&shm->heard, &(struct kw_frame_due){0}, &error) == 0)
		kw_error_set(&error, KW_E_PROTOCOL, "the proxy answered a READ nobody sent");
	kw_remote_fail(remote, &error);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
	struct kw_remote *remote = poll->data;
	struct shm *shm = remote->own;

	kw_stream_end_polled(&shm->end, remote, status, events);
}

static const struct kw_stream_end_ops end_ops = {
	.welcomed = map_file,
	.readable = hear,
	.writable = send_frames,
};

static int open_shm(struct kw_remote *remote, struct kw_error *error)
{
	struct shm *shm = kw_zalloc(sizeof *shm);

	(void)error;
	kw_stream_end_init(&shm->end, &end_ops, on_poll, true);
	kw_copier_init(&shm->copier, remote);
	remote->own = shm;
	return 0;
}

/* ---- READs ---- */

/* The state of the READ at the head of flight, within the bytes that a turn may still copy. */
static enum kw_copier_step copy_head(struct kw_remote *remote, uint64_t *budget)
{
	struct kw_remote_read *read = remote->flight.head;
	struct shm *shm = remote->own;
	uint64_t length = read->length - shm->copied;

	assert(shm->map && read->offset + read->length <= shm->map_bytes);
	assert(shm->copied < read->length);
	if (length > *budget)
		length = *budget;
	*budget -= length;
	if (kw_copier_is_due(&shm->copier, read))
		return kw_copier_step(&shm->copier);
	kw_racy_copy(read->buffer + shm->copied, shm->map + read->offset + shm->copied, length);
	shm->copied += length;
	if (shm->copied < read->length) {
		kw_remote_progressed(remote);
		return KW_COPIER_MORE;
	}
	shm->copied = 0;
	return KW_COPIER_DONE;
}

static void copy_reads(struct kw_remote *remote)
{
	struct shm *shm = remote->own;
	uint64_t budget = TURN_BYTES;

	for (int i = 0; i < TURN_READS && remote->flight.head && budget > 0; i++) {
		enum kw_copier_step step = copy_head(remote, &budget);

		if (step == KW_COPIER_WAIT)
			return;
		if (step == KW_COPIER_DONE)
			kw_remote_complete(remote);
		if (!kw_remote_is(remote, KW_REMOTE_READY))
			return;
		if (kw_copier_left(&shm->copier))
			break;
	}
	if (!remote->flight.head) {
		kw_copier_want_help(&shm->copier, false);
		return;
	}
	/* A whole turn's bytes, and more are left: copying is the bottleneck. */
	if (budget == 0)
		kw_copier_want_help(&shm->copier, true);
	kw_remote_turn_soon(remote);
}

static void turn_shm(struct kw_remote *remote)
{
	struct shm *shm = remote->own;
	struct kw_error error;

	if (!shm->end.poll) {
		if (dial(remote, &error) != 0)
			kw_remote_fail(remote, &error);
	} else if (kw_remote_is(remote, KW_REMOTE_READY)) {
		copy_reads(remote);
	}
}

/*
 * Small READs are copied some thousand cycles later, in the next turn: by then their first bytes
 * can be in the cache, and the processor fetches the rest as they are copied. Otherwise each READ
 * of a lookup waits for the memory, one after the other.
 */
static void fetch_early(const uint8_t *bytes, uint64_t length)
{
	if (length > EARLY_BYTES)
		return;
	__builtin_prefetch(bytes);
	if (length > CACHE_LINE)
		__builtin_prefetch(bytes + CACHE_LINE);
}

static void post_shm(struct kw_remote *remote, struct kw_remote_read *first)
{
	struct shm *shm = remote->own;

	for (; first; first = first->next) {
		fetch_early(shm->map + first->offset, first->length);
		(void)kw_copier_add(&shm->copier, first, shm->map + first->offset);
	}
	kw_copier_added(&shm->copier);
	kw_remote_turn_soon(remote);
}

static void unmap(struct kw_remote *remote)
{
	struct shm *shm = remote->own;

	if (shm->map)
		munmap(shm->map, shm->map_bytes);
	shm->map = NULL;
}

static void close_shm(struct kw_remote *remote)
{
	struct shm *shm = remote->own;

	kw_stream_end_close(&shm->end, remote);
	if (kw_copier_close(&shm->copier, unmap))
		unmap(remote);
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
	.report = send_frames,
	.sleep = send_frames,
	.close = close_shm,
	.free = free_shm,
};
