/* Connections to the downlink: they come, say who they are, and go; what they send. */
#include "downlink_internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "remote/tcp/wire_tls.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define INPUT_BYTES 4096
/* Reads of one turn: what TLS holds is not told by a poll of the socket. */
#define READS 16
/* With it a record of TLS begins (its handshake); no command does. */
#define TLS_GREETING 0x16
/* Unknown peers that are named in the log. */
#define REFUSALS_LOGGED 20
/* Without a free descriptor, accept no connection for so long, rather than try without end. */
#define STARVED_US 100000

const struct kw_tls_terms kw_downlink_tls_terms = {
	.keys = "tls",
	.peer = "the local server",
	.plain = "it replicates without TLS there; the agent asks it again in a moment",
	.demand = "take tls.ca away",
	.trust = "tls-ca-cert-file",
	.secrets = true,
};

/* ---- connections come and go ---- */

void kw_downlink_part_closed(struct kw_downlink *downlink)
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

	kw_wire_close(&guest->wire);
	kw_replconf_close(&guest->replconf);
	free(guest);
	kw_downlink_part_closed(downlink);
}

void kw_guest_watch(struct kw_guest *guest, int events)
{
	if (guest->events == events || guest->state == KW_GUEST_LEAVING)
		return;
	guest->events = events;
	uv_poll_start(&guest->poll, events, kw_guest_event);
}

void kw_guest_send_off(struct kw_guest *guest)
{
	struct kw_downlink *downlink = guest->downlink;
	struct kw_buffer *output = &guest->replconf.output;

	bool open = guest->state == KW_GUEST_OPEN;

	if (guest->state == KW_GUEST_LEAVING)
		return;
	guest->state = KW_GUEST_LEAVING;
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
	if (open)
		kw_wire_farewell(&guest->wire, kw_buffer_bytes(output), kw_buffer_length(output));
	uv_close((uv_handle_t *)&guest->poll, on_guest_closed);
}

void kw_guest_fail(struct kw_guest *guest, const char *why)
{
	struct kw_downlink *downlink = guest->downlink;
	bool was_replica = guest == downlink->replica;
	char words[KW_DOWNLINK_WHY];

	if (guest->state == KW_GUEST_LEAVING)
		return;
	snprintf(words, sizeof words, "%.*s", KW_DOWNLINK_WHY - 1, why);
	kw_guest_send_off(guest);
	if (was_replica) {
		downlink->handlers.lost(downlink->handlers.arg, words);
		return;
	}
	if (++downlink->refused <= REFUSALS_LOGGED)
		kw_log_warn(
			"link", "a connection to port %u is refused: %s", downlink->port, words);
}

/* Before a word of it was understood: that can be why the server does not come. */
static void refuse(struct kw_guest *guest, const char *why)
{
	struct kw_downlink *downlink = guest->downlink;

	snprintf(downlink->refusal, sizeof downlink->refusal, "%.*s", KW_DOWNLINK_WHY - 1, why);
	kw_guest_fail(guest, why);
}

static void on_psync(void *arg, const char *replid, int64_t offset)
{
	struct kw_guest *guest = arg;
	struct kw_downlink *downlink = guest->downlink;
	struct kw_guest **at = &downlink->guests;

	/* Only a peer that knows the login comes here: it is the server itself, connected anew. */
	if (downlink->replica)
		kw_guest_fail(downlink->replica, "the server connected anew");
	while (*at != guest)
		at = &(*at)->next;
	*at = guest->next;
	downlink->guest_count--;
	downlink->replica = guest;
	guest->heard_us = kw_clock_us();
	downlink->blocked = false;
	downlink->wrote_us = kw_clock_us();
	downlink->refusal[0] = '\0';
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
		kw_guest_fail(oldest, "others came, and it had not said who it is");
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

static struct kw_tls_context *context_of(const struct kw_downlink *downlink)
{
	return downlink->certificates ? downlink->certificates->context : NULL;
}

/* The wire of a connection that was accepted. False: it cannot be had. */
static bool open_wire(struct kw_downlink *downlink, struct kw_guest *guest, int fd)
{
	struct kw_error error;

	if (downlink->speech != KW_DOWNLINK_TLS) {
		guest->wire = kw_wire_plain(fd);
		guest->state = KW_GUEST_OPEN;
		return true;
	}
	guest->state = KW_GUEST_SHAKING;
	if (!context_of(downlink))
		return false;
	if (!kw_wire_tls(&guest->wire, fd, context_of(downlink), NULL, NULL, &error))
		return true;
	kw_log_warn("link", "a connection to port %u: %s", downlink->port, error.text);
	return false;
}

static struct kw_guest *make_guest(struct kw_downlink *downlink, int fd)
{
	struct kw_guest *guest = kw_zalloc(sizeof *guest);

	if (!open_wire(downlink, guest, fd)) {
		close(fd);
		free(guest);
		return NULL;
	}
	if (uv_poll_init(downlink->loop, &guest->poll, fd) != 0) {
		kw_wire_close(&guest->wire);
		free(guest);
		return NULL;
	}
	return guest;
}

void kw_guest_arrives(uv_poll_t *poll, int status, int events)
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
	guest = make_guest(downlink, fd);
	if (!guest)
		return;
	guest->downlink = downlink;
	guest->heard_us = kw_clock_us();
	guest->next = downlink->guests;
	downlink->guests = guest;
	downlink->guest_count++;
	downlink->open++;
	handlers.arg = guest;
	kw_replconf_init(&guest->replconf, &downlink->login, &handlers);
	guest->poll.data = guest;
	kw_guest_watch(guest, UV_READABLE);
}

/* ---- bytes in ---- */

/* A guest's answers; they are few and fit into any socket. */
static void answer_guest(struct kw_guest *guest)
{
	struct kw_buffer *output = &guest->replconf.output;
	size_t length = kw_buffer_length(output);

	if (guest->state != KW_GUEST_OPEN || length == 0)
		return;
	if (kw_wire_send_bytes(&guest->wire, kw_buffer_bytes(output), length) != (ssize_t)length)
		kw_guest_fail(guest, "it does not read what it is answered");
	else
		kw_buffer_clear(output);
}

/* The first bytes of a connection without TLS; false: it is refused. */
static bool is_plain(struct kw_guest *guest, uint8_t first)
{
	if (guest->spoken || guest->wire.tls || first != TLS_GREETING)
		return true;
	refuse(guest, "it speaks TLS, and this link is plain: use apply.replica.tls=follow, or set "
		      "tls-replication no in the local server");
	return false;
}

static void read_failed(struct kw_guest *guest, ssize_t length, int errnum)
{
	struct kw_error error;

	if (length < 0 && (errnum == EAGAIN || errnum == EINTR))
		return;
	if (length == 0)
		kw_error_set(&error, KW_E_IO, "the server closed the connection");
	else
		kw_wire_explain(&guest->wire, errnum, "read", &error);
	/* In TLS 1.3 the server refuses our certificate after our handshake is done. */
	if (guest->wire.tls && !guest->spoken)
		refuse(guest, error.text);
	else
		kw_guest_fail(guest, error.text);
}

static void read_once(struct kw_guest *guest)
{
	uint8_t bytes[INPUT_BYTES];
	struct kw_error error;
	ssize_t length = kw_wire_receive_bytes(&guest->wire, bytes, sizeof bytes);

	if (length <= 0) {
		read_failed(guest, length, errno);
		return;
	}
	if (!is_plain(guest, bytes[0]))
		return;
	guest->spoken = true;
	if (guest == guest->downlink->replica)
		guest->heard_us = kw_clock_us();
	if (kw_replconf_feed(&guest->replconf, bytes, (size_t)length, &error))
		kw_guest_fail(guest, error.text);
	else if (guest != guest->downlink->replica)
		answer_guest(guest);
}

/* What is left after so many reads waits for the next turn: the replica's only. */
void kw_guest_read(struct kw_guest *guest)
{
	int reads = 0;

	do
		read_once(guest);
	while (guest->state == KW_GUEST_OPEN && kw_wire_pending(&guest->wire) && ++reads < READS);
	if (guest->state != KW_GUEST_OPEN || !kw_wire_pending(&guest->wire))
		return;
	if (guest == guest->downlink->replica)
		kw_downlink_wake(guest->downlink);
	else
		kw_guest_fail(guest, "it says more than a server that connects");
}

/* The handshake of TLS; its time is that of a guest. */
void kw_guest_shake(struct kw_guest *guest)
{
	struct kw_error error;

	switch (kw_wire_shake(&guest->wire, &error)) {
	case KW_WIRE_OPEN:
		guest->state = KW_GUEST_OPEN;
		kw_guest_watch(guest, UV_READABLE);
		return;
	case KW_WIRE_READ:
		kw_guest_watch(guest, UV_READABLE);
		return;
	case KW_WIRE_WRITE:
		kw_guest_watch(guest, UV_WRITABLE);
		return;
	case KW_WIRE_FAILED:
		refuse(guest, error.text);
	}
}
