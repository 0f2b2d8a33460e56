#include "downlink_internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "remote/tcp/wire_tls.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define VECTORS 64
/* What one loop turn writes at most, and how much gathers before it is written in mid-turn. */
#define TURN_BYTES ((size_t)4 << 20)
#define GATHER_BYTES ((size_t)128 << 10)

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

static void write_failed(struct kw_guest *replica, int errnum)
{
	struct kw_error error;

	if (errnum == EAGAIN || errnum == EINTR) {
		replica->downlink->blocked = true;
		return;
	}
	kw_wire_explain(&replica->wire, errnum, "write", &error);
	/* A caller can be on the stack: told from the loop. */
	snprintf(replica->why, sizeof replica->why, "%.*s", KW_DOWNLINK_WHY - 1, error.text);
}

/*
 * One sendmsg; bytes sent, 0 when the socket takes none. What TLS has begun to send is given again
 * from the same place: all that is sent waits in output and feed until it was taken.
 */
static size_t write_once(struct kw_downlink *downlink, struct kw_slice value)
{
	struct kw_guest *replica = downlink->replica;
	struct iovec vectors[VECTORS];
	struct msghdr message = {.msg_iov = vectors};
	ssize_t length;

	message.msg_iovlen = (size_t)gather(downlink, vectors, value);
	if (message.msg_iovlen == 0)
		return 0;
	length = kw_wire_send(&replica->wire, &message);
	if (length < 0) {
		write_failed(replica, errno);
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
		kw_guest_watch(downlink->replica, UV_READABLE | UV_WRITABLE);
}

static void on_turn(uv_idle_t *turn)
{
	struct kw_downlink *downlink = turn->data;

	uv_idle_stop(turn);
	if (downlink->replica && kw_wire_pending(&downlink->replica->wire))
		kw_guest_read(downlink->replica);
	if (downlink->replica && downlink->feed)
		downlink->handlers.filling(downlink->handlers.arg);
	write_queued(downlink);
	if (downlink->replica && downlink->replica->why[0])
		kw_guest_fail(downlink->replica, downlink->replica->why);
	else if (downlink->replica)
		downlink->handlers.room(downlink->handlers.arg);
}

void kw_downlink_wake(struct kw_downlink *downlink)
{
	if (!downlink->closing && !uv_is_active((uv_handle_t *)&downlink->turn))
		uv_idle_start(&downlink->turn, on_turn);
}

void kw_guest_event(uv_poll_t *poll, int status, int events)
{
	struct kw_guest *guest = poll->data;
	struct kw_downlink *downlink = guest->downlink;

	if (status < 0)
		guest->events = 0;
	if (guest->state == KW_GUEST_SHAKING) {
		kw_guest_shake(guest);
		return;
	}
	if (guest == downlink->replica && (events & UV_WRITABLE)) {
		downlink->blocked = false;
		write_queued(downlink);
		if (!pending(downlink))
			kw_guest_watch(guest, UV_READABLE);
		downlink->handlers.room(downlink->handlers.arg);
	}
	if (status < 0 || (events & UV_READABLE))
		kw_guest_read(guest);
	else if (guest == downlink->replica && guest->why[0])
		kw_guest_fail(guest, guest->why);
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
	kw_guest_send_off(downlink->replica);
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

static void let_in(struct kw_downlink *downlink)
{
	if (downlink->speech != KW_DOWNLINK_UNDECIDED)
		uv_poll_start(&downlink->listener, UV_READABLE, kw_guest_arrives);
	else
		uv_poll_stop(&downlink->listener);
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
	let_in(downlink);
	warn_of_port(downlink);
	return KW_OK;
}

void kw_downlink_speak(struct kw_downlink *downlink, enum kw_downlink_speech speech)
{
	downlink->speech = speech;
	downlink->refusal[0] = '\0';
	if (downlink->port && !downlink->starved_us && !downlink->closing)
		let_in(downlink);
}

void kw_downlink_shut(struct kw_downlink *downlink)
{
	kw_downlink_speak(downlink, KW_DOWNLINK_UNDECIDED);
	while (downlink->guests)
		kw_guest_send_off(downlink->guests);
	kw_downlink_drop(downlink, "the local server gets another password");
}

const char *kw_downlink_cipherer(const struct kw_downlink *downlink)
{
	return downlink->replica ? kw_wire_tls_cipherer(&downlink->replica->wire) : "";
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
		let_in(downlink);
	}
	for (struct kw_guest *guest = downlink->guests; guest; guest = next) {
		next = guest->next;
		if (now_us > guest->heard_us + (uint64_t)KW_DOWNLINK_GREETING_MS * 1000)
			kw_guest_fail(guest, "it did not say what it wants");
	}
	if (downlink->replica && is_silent(downlink, now_us))
		kw_guest_fail(downlink->replica, "the server was silent for a minute");
}

static void on_handle_closed(uv_handle_t *handle)
{
	kw_downlink_part_closed(handle->data);
}

static void on_listener_closed(uv_handle_t *handle)
{
	struct kw_downlink *downlink = handle->data;

	close(downlink->listener_fd);
	kw_downlink_part_closed(downlink);
}

void kw_downlink_close(struct kw_downlink *downlink)
{
	downlink->closing = true;
	while (downlink->guests)
		kw_guest_send_off(downlink->guests);
	if (downlink->replica)
		kw_guest_send_off(downlink->replica);
	if (downlink->port)
		uv_close((uv_handle_t *)&downlink->listener, on_listener_closed);
	uv_close((uv_handle_t *)&downlink->turn, on_handle_closed);
}
