#include "downlink.h"

#include "base/clock.h"
#include "base/log.h"

#include <assert.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define INPUT_BYTES 4096
#define VECTORS 64
/* What one loop turn writes at most, and how much gathers before it is written in mid-turn. */
#define TURN_BYTES ((size_t)4 << 20)
#define GATHER_BYTES ((size_t)128 << 10)
/* Unknown peers that are named in the log. */
#define REFUSALS_LOGGED 20
/* What an emptied output keeps of its memory. */
#define KEEP_BYTES ((size_t)1 << 20)
/* Without a free descriptor, accept no connection for so long, rather than try without end. */
#define STARVED_US 100000

struct kw_guest {
	struct kw_downlink *downlink;
	struct kw_guest *next;
	uv_poll_t poll;
	int fd, events;
	struct kw_replconf replconf;
	uint64_t heard_us; /* a guest: came; the replica: spoke last */
	bool leaving;
	char why[KW_DOWNLINK_WHY]; /* of a failed write: told from the loop */
};

static void on_guest(uv_poll_t *poll, int status, int events);

/* ---- connections come and go ---- */

static void handle_gone(struct kw_downlink *downlink)
{
	if (--downlink->open == 0 && downlink->closing) {
		kw_buffer_close(&downlink->output);
		downlink->handlers.closed(downlink->handlers.arg);
	}
}

static void on_guest_closed(uv_handle_t *handle)
{
	struct kw_guest *guest = handle->data;
	struct kw_downlink *downlink = guest->downlink;

	close(guest->fd);
	kw_replconf_close(&guest->replconf);
	free(guest);
	handle_gone(downlink);
}

static void watch(struct kw_guest *guest, int events)
{
	if (guest->events == events || guest->leaving)
		return;
	guest->events = events;
	uv_poll_start(&guest->poll, events, on_guest);
}

/* Its last answer leaves if the socket takes it; then it is closed. */
static void send_off(struct kw_guest *guest)
{
	struct kw_downlink *downlink = guest->downlink;
	struct kw_buffer *output = &guest->replconf.output;

	if (guest->leaving)
		return;
	guest->leaving = true;
	if (guest == downlink->replica) {
		downlink->replica = NULL;
		downlink->feed = NULL;
		downlink->blocked = false;
		kw_buffer_clear(&downlink->output);
		kw_buffer_trim(&downlink->output, KEEP_BYTES);
	} else {
		struct kw_guest **at = &downlink->guests;

		while (*at != guest)
			at = &(*at)->next;
		*at = guest->next;
		downlink->guest_count--;
	}
	if (kw_buffer_length(output) > 0 &&
		send(guest->fd, kw_buffer_bytes(output), kw_buffer_length(output),
			MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		kw_log_debug("link", "a farewell did not get through");
	uv_close((uv_handle_t *)&guest->poll, on_guest_closed);
}

/* The connection cannot go on. */
static void fail(struct kw_guest *guest, const char *why)
{
	struct kw_downlink *downlink = guest->downlink;
	bool was_replica = guest == downlink->replica;
	char words[KW_DOWNLINK_WHY];

	if (guest->leaving)
		return;
	snprintf(words, sizeof words, "%.*s", KW_DOWNLINK_WHY - 1, why);
	send_off(guest);
	if (was_replica) {
		downlink->handlers.lost(downlink->handlers.arg, words);
		return;
	}
	if (++downlink->refused <= REFUSALS_LOGGED)
		kw_log_warn(
			"link", "a connection to port %u is refused: %s", downlink->port, words);
}

static void on_psync(void *arg, const char *replid, int64_t offset)
{
	struct kw_guest *guest = arg;
	struct kw_downlink *downlink = guest->downlink;
	struct kw_guest **at = &downlink->guests;

	/* Only a peer that knows the login comes here: it is the server itself, connected anew. */
	if (downlink->replica)
		fail(downlink->replica, "the server connected anew");
	while (*at != guest)
		at = &(*at)->next;
	*at = guest->next;
	downlink->guest_count--;
	downlink->replica = guest;
	guest->heard_us = kw_clock_us();
	downlink->blocked = false;
	downlink->wrote_us = kw_clock_us();
	kw_buffer_clear(&downlink->output);
	kw_buffer_append(&downlink->output, kw_buffer_bytes(&guest->replconf.output),
		kw_buffer_length(&guest->replconf.output));
	kw_buffer_clear(&guest->replconf.output);
	kw_downlink_wake(downlink);
	downlink->handlers.psync(downlink->handlers.arg, replid, offset);
}

static void on_ack(void *arg, uint64_t offset)
{
	struct kw_guest *guest = arg;
	struct kw_downlink *downlink = guest->downlink;

	if (guest == downlink->replica)
		downlink->handlers.ack(downlink->handlers.arg, offset);
}

/*
 * Guests are kept newest first, and one that has logged in goes on to PSYNC at once. So the last
 * one that has not has had the most time. False: no guest may go.
 */
static bool make_room(struct kw_downlink *downlink)
{
	struct kw_guest *oldest = NULL;

	for (struct kw_guest *guest = downlink->guests; guest; guest = guest->next)
		if (!guest->replconf.authenticated)
			oldest = guest;
	if (oldest)
		fail(oldest, "others came, and it had not said who it is");
	return oldest != NULL;
}

static void starve(struct kw_downlink *downlink, int errnum)
{
	if (errnum != EMFILE && errnum != ENFILE && errnum != ENOBUFS && errnum != ENOMEM)
		return;
	if (++downlink->refused <= REFUSALS_LOGGED)
		kw_log_warn("link", "port %u: nobody can be let in: %s", downlink->port,
			strerror(errnum));
	uv_poll_stop(&downlink->listener);
	downlink->starved_us = kw_clock_us() + STARVED_US;
}

static void on_connection(uv_poll_t *poll, int status, int events)
{
	const struct kw_replconf_handlers handlers_of = {.psync = on_psync, .ack = on_ack};
	struct kw_downlink *downlink = poll->data;
	struct kw_replconf_handlers handlers = handlers_of;
	struct kw_guest *guest;
	int one = 1;
	int fd = accept4(downlink->listener_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0) {
		starve(downlink, errno);
		return;
	}
	if (downlink->closing ||
		(downlink->guest_count == KW_DOWNLINK_GUESTS && !make_room(downlink))) {
		downlink->refused++;
		close(fd);
		return;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	guest = kw_zalloc(sizeof *guest);
	if (uv_poll_init(downlink->loop, &guest->poll, fd) != 0) {
		close(fd);
		free(guest);
		return;
	}
	guest->downlink = downlink;
	guest->fd = fd;
	guest->heard_us = kw_clock_us();
	guest->next = downlink->guests;
	downlink->guests = guest;
	downlink->guest_count++;
	downlink->open++;
	handlers.arg = guest;
	kw_replconf_init(&guest->replconf, &downlink->login, &handlers);
	guest->poll.data = guest;
	watch(guest, UV_READABLE);
}

/* ---- bytes in ---- */

/* A guest's answers; they are few and fit into any socket. */
static void answer_guest(struct kw_guest *guest)
{
	struct kw_buffer *output = &guest->replconf.output;
	size_t length = kw_buffer_length(output);

	if (guest->leaving || length == 0)
		return;
	if (send(guest->fd, kw_buffer_bytes(output), length, MSG_NOSIGNAL | MSG_DONTWAIT) !=
		(ssize_t)length)
		fail(guest, "it does not read what it is answered");
	else
		kw_buffer_clear(output);
}

static void read_input(struct kw_guest *guest)
{
	uint8_t bytes[INPUT_BYTES];
	struct kw_error error;
	ssize_t length = recv(guest->fd, bytes, sizeof bytes, MSG_DONTWAIT);

	if (length < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (length <= 0) {
		fail(guest, length == 0 ? "the server closed the connection" : strerror(errno));
		return;
	}
	if (guest == guest->downlink->replica)
		guest->heard_us = kw_clock_us();
	if (kw_replconf_feed(&guest->replconf, bytes, (size_t)length, &error))
		fail(guest, error.text);
	else if (guest != guest->downlink->replica)
		answer_guest(guest);
}

/* ---- bytes out ---- */

static int gather(struct kw_downlink *downlink, struct iovec *vectors, struct kw_slice value)
{
	size_t queued = kw_buffer_length(&downlink->output);
	int used = 0;

	if (queued > 0)
		vectors[used++] = (struct iovec){
			(void *)(uintptr_t)kw_buffer_bytes(&downlink->output), queued};
	if (value.length > 0)
		vectors[used++] = (struct iovec){(void *)(uintptr_t)value.data, value.length};
	else if (downlink->feed)
		used += kw_feed_gather(downlink->feed, vectors + used, VECTORS - used, TURN_BYTES);
	return used;
}

/* One sendmsg; bytes sent, 0 when the socket takes none. */
static size_t write_once(struct kw_downlink *downlink, struct kw_slice value)
{
	struct kw_guest *replica = downlink->replica;
	struct iovec vectors[VECTORS];
	struct msghdr message = {.msg_iov = vectors};
	ssize_t length;

	message.msg_iovlen = (size_t)gather(downlink, vectors, value);
	if (message.msg_iovlen == 0)
		return 0;
	length = sendmsg(replica->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (length < 0) {
		if (errno == EAGAIN || errno == EINTR)
			downlink->blocked = true;
		else
			/* A caller can be on the stack: told from the loop. */
			snprintf(replica->why, sizeof replica->why, "%s", strerror(errno));
		return 0;
	}
	downlink->wrote_us = kw_clock_us();
	return (size_t)length;
}

/* Take what was sent off output, then the stream; returns what remains: of a value. */
static size_t consume(struct kw_downlink *downlink, size_t sent)
{
	size_t queued = kw_buffer_length(&downlink->output);
	size_t first = sent < queued ? sent : queued;

	kw_buffer_consume(&downlink->output, first);
	if (first == queued)
		kw_buffer_trim(&downlink->output, KEEP_BYTES);
	return sent - first;
}

static bool pending(const struct kw_downlink *downlink)
{
	return kw_buffer_length(&downlink->output) > 0 ||
	       (downlink->feed && kw_feed_unsent(downlink->feed));
}

static void write_queued(struct kw_downlink *downlink)
{
	size_t total = 0, sent;

	while (downlink->replica && !downlink->blocked && !downlink->replica->why[0] &&
		pending(downlink) && total < TURN_BYTES) {
		sent = write_once(downlink, (struct kw_slice){0});
		total += sent;
		sent = consume(downlink, sent);
		if (downlink->feed)
			kw_feed_wrote(downlink->feed, sent);
	}
	if (downlink->replica && pending(downlink))
		watch(downlink->replica, UV_READABLE | UV_WRITABLE);
}

static void on_turn(uv_idle_t *turn)
{
	struct kw_downlink *downlink = turn->data;

	uv_idle_stop(turn);
	if (downlink->replica && downlink->feed)
		downlink->handlers.filling(downlink->handlers.arg);
	write_queued(downlink);
	if (downlink->replica && downlink->replica->why[0])
		fail(downlink->replica, downlink->replica->why);
	else if (downlink->replica)
		downlink->handlers.room(downlink->handlers.arg);
}

void kw_downlink_wake(struct kw_downlink *downlink)
{
	if (!downlink->closing && !uv_is_active((uv_handle_t *)&downlink->turn))
		uv_idle_start(&downlink->turn, on_turn);
}

static void on_guest(uv_poll_t *poll, int status, int events)
{
	struct kw_guest *guest = poll->data;
	struct kw_downlink *downlink = guest->downlink;

	if (status < 0)
		guest->events = 0;
	if (guest == downlink->replica && (events & UV_WRITABLE)) {
		downlink->blocked = false;
		write_queued(downlink);
		if (!pending(downlink))
			watch(guest, UV_READABLE);
		downlink->handlers.room(downlink->handlers.arg);
	}
	if (status < 0 || (events & UV_READABLE))
		read_input(guest);
	else if (guest == downlink->replica && guest->why[0])
		fail(guest, guest->why);
}

void kw_downlink_appended(struct kw_downlink *downlink)
{
	if (kw_buffer_length(&downlink->output) >= GATHER_BYTES)
		write_queued(downlink);
	kw_downlink_wake(downlink);
}

void kw_downlink_value(struct kw_downlink *downlink, struct kw_slice value)
{
	size_t sent = 0;

	if (downlink->replica && !downlink->blocked && !downlink->replica->why[0])
		sent = consume(downlink, write_once(downlink, value));
	kw_buffer_append(
		&downlink->output, (const uint8_t *)value.data + sent, value.length - sent);
	kw_downlink_appended(downlink);
}

void kw_downlink_attach(struct kw_downlink *downlink, struct kw_feed *feed)
{
	downlink->feed = feed;
	kw_downlink_wake(downlink);
}

void kw_downlink_drop(struct kw_downlink *downlink, const char *why)
{
	if (!downlink->replica)
		return;
	kw_log_info("link", "the replication link is ended: %s", why);
	send_off(downlink->replica);
}

/* ---- the beginning, the clock, the end ---- */

void kw_downlink_init(struct kw_downlink *downlink, uv_loop_t *loop, const char *address,
	const struct kw_downlink_handlers *handlers)
{
	struct kw_error error;

	*downlink = (struct kw_downlink){
		.loop = loop, .handlers = *handlers, .listener_fd = -1, .open = 1};
	if (kw_downlink_address(address, &downlink->address, downlink->host, &error))
		assert(!"the address was checked");
	if (downlink->address.ss_family == AF_UNSPEC)
		snprintf(downlink->passed, sizeof downlink->passed, "%s",
			address + strlen(KW_DOWNLINK_PASSED));
	uv_idle_init(loop, &downlink->turn);
	downlink->turn.data = downlink;
}

/* What any user of the host can do once the agent is gone. */
static void warn_of_port(struct kw_downlink *downlink)
{
	if (downlink->guarded || downlink->passed[0] || !kw_downlink_exposed(downlink->port))
		return;
	downlink->guarded = true;
	kw_log_warn("link",
		"while no agent runs, any user of this host can bind port %u, pose as the local "
		"server's primary and replace its data: let systemd hold the port "
		"(keywake-agent-link@.socket, apply.replica.listen=systemd:link), or name a "
		"privileged port in apply.replica.listen",
		downlink->port);
}

static int open_listener(struct kw_downlink *downlink, struct kw_error *error)
{
	int fd;

	if (downlink->passed[0])
		return kw_downlink_passed(downlink->passed, downlink->host, &downlink->port, error);
	fd = kw_downlink_open(&downlink->address, &downlink->port);
	if (fd < 0)
		kw_error_errno(error, errno,
			"cannot listen on %s for the local server (apply.replica.listen)",
			downlink->host);
	return fd;
}

int kw_downlink_listen(struct kw_downlink *downlink, struct kw_error *error)
{
	int fd, status;

	if (downlink->port)
		return KW_OK;
	fd = open_listener(downlink, error);
	if (fd < 0) {
		downlink->port = 0;
		return (int)error->code;
	}
	status = uv_poll_init(downlink->loop, &downlink->listener, fd);
	if (status != 0) {
		downlink->port = 0;
		close(fd);
		return kw_error_errno(
			error, -status, "the socket on %s cannot be watched", downlink->host);
	}
	downlink->listener_fd = fd;
	downlink->open++;
	downlink->listener.data = downlink;
	uv_poll_start(&downlink->listener, UV_READABLE, on_connection);
	warn_of_port(downlink);
	return KW_OK;
}

/*
 * During a load it sends little, but bytes that it takes show that it is there; later it sends
 * signs of life.
 */
static bool is_silent(const struct kw_downlink *downlink, uint64_t now_us)
{
	uint64_t sign_us = downlink->replica->heard_us;

	if (!downlink->feed && downlink->wrote_us > sign_us)
		sign_us = downlink->wrote_us;
	return now_us > sign_us + (uint64_t)KW_DOWNLINK_SILENCE_MS * 1000;
}

void kw_downlink_tick(struct kw_downlink *downlink, uint64_t now_us)
{
	struct kw_guest *next;

	if (downlink->starved_us && now_us >= downlink->starved_us && !downlink->closing) {
		downlink->starved_us = 0;
		uv_poll_start(&downlink->listener, UV_READABLE, on_connection);
	}
	for (struct kw_guest *guest = downlink->guests; guest; guest = next) {
		next = guest->next;
		if (now_us > guest->heard_us + (uint64_t)KW_DOWNLINK_GREETING_MS * 1000)
			fail(guest, "it did not say what it wants");
	}
	if (downlink->replica && is_silent(downlink, now_us))
		fail(downlink->replica, "the server was silent for a minute");
}

static void on_handle_closed(uv_handle_t *handle)
{
	handle_gone(handle->data);
}

static void on_listener_closed(uv_handle_t *handle)
{
	struct kw_downlink *downlink = handle->data;

	close(downlink->listener_fd);
	handle_gone(downlink);
}

void kw_downlink_close(struct kw_downlink *downlink)
{
	downlink->closing = true;
	while (downlink->guests)
		send_off(downlink->guests);
	if (downlink->replica)
		send_off(downlink->replica);
	if (downlink->port)
		uv_close((uv_handle_t *)&downlink->listener, on_listener_closed);
	uv_close((uv_handle_t *)&downlink->turn, on_handle_closed);
}
