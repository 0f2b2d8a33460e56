#include "remote/exchange.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* More than any handshake needs, and far less than would hold up a loop. */
#define STEPS_MAX 64

static bool would_block(int errnum)
{
	return errnum == EAGAIN || errnum == EWOULDBLOCK || errnum == EINTR;
}

/* The first byte of WELCOME carries the descriptor. */
static bool gives_now(const struct kw_exchange *exchange)
{
	return exchange->give_fd >= 0 && exchange->handshake.output_sent == 0 &&
	       kw_handshake_is(&exchange->handshake, KW_HANDSHAKE_DONE);
}

static ssize_t send_output(struct kw_exchange *exchange, struct kw_wire *wire)
{
	struct kw_slice output = kw_handshake_output(&exchange->handshake);
	struct iovec part = {(void *)(uintptr_t)output.data, output.length};
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

	if (gives_now(exchange)) {
		struct cmsghdr *head;

		message.msg_control = control.bytes;
		message.msg_controllen = sizeof control.bytes;
		head = CMSG_FIRSTHDR(&message);
		head->cmsg_level = SOL_SOCKET;
		head->cmsg_type = SCM_RIGHTS;
		head->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(head), &exchange->give_fd, sizeof(int));
	}
	return kw_wire_send(wire, &message);
}

/* The first is kept. CMSG_SPACE has room for a second one, and each that came is open here. */
static void take_fds(struct kw_exchange *exchange, const struct cmsghdr *head)
{
	size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);

	for (size_t i = 0; i < count; i++) {
		int fd;

		memcpy(&fd, CMSG_DATA(head) + i * sizeof fd, sizeof fd);
		if (exchange->taken_fd >= 0)
			close(fd);
		else
			exchange->taken_fd = fd;
	}
}

static void take_control(struct kw_exchange *exchange, struct msghdr *message)
{
	for (struct cmsghdr *at = CMSG_FIRSTHDR(message); at; at = CMSG_NXTHDR(message, at))
		if (at->cmsg_level == SOL_SOCKET && at->cmsg_type == SCM_RIGHTS)
			take_fds(exchange, at);
}

static ssize_t receive(
	struct kw_exchange *exchange, struct kw_wire *wire, uint8_t *bytes, size_t length)
{
	struct iovec part = {bytes, length};
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	ssize_t got;

	/* Without room for control data the kernel drops descriptors that were not asked for. */
	if (exchange->takes_fd) {
		message.msg_control = control.bytes;
		message.msg_controllen = sizeof control.bytes;
	}
	got = kw_wire_receive(wire, &message);
	if (got > 0 && exchange->takes_fd)
		take_control(exchange, &message);
	return got;
}

/* true: go on; false: *result is the step's. */
static bool step_output(struct kw_exchange *exchange, struct kw_wire *wire,
	enum kw_exchange_result *result, struct kw_error *error)
{
	ssize_t sent = send_output(exchange, wire);

	if (sent >= 0) {
		kw_handshake_sent(&exchange->handshake, (size_t)sent);
		return true;
	}
	if (would_block(errno)) {
		*result = KW_EXCHANGE_WRITE;
		return false;
	}
	/* Our refusal could not be told; it is still the reason. */
	if (kw_handshake_is(&exchange->handshake, KW_HANDSHAKE_FAILED))
		*error = exchange->handshake.error;
	else
		kw_wire_explain(wire, errno, "handshake: connection lost", error);
	*result = KW_EXCHANGE_FAILED;
	return false;
}

static bool step_input(struct kw_exchange *exchange, struct kw_wire *wire,
	enum kw_exchange_result *result, struct kw_error *error)
{
	uint8_t bytes[KW_HANDSHAKE_MESSAGE_MAX];
	ssize_t got = receive(exchange, wire, bytes, kw_handshake_wants(&exchange->handshake));

	if (got > 0) {
		/* A failure shows in the machine's state, after its last message is sent. */
		(void)kw_handshake_input(&exchange->handshake, bytes, (size_t)got);
		return true;
	}
	*result = KW_EXCHANGE_FAILED;
	if (got == 0 && kw_handshake_is(&exchange->handshake, KW_HANDSHAKE_CHALLENGE_WAIT) &&
		!wire->tls)
		kw_error_set(error, KW_E_IO,
			"handshake: the other side closed the connection at once (if it listens "
			"on tcp+tls:// there, use that)");
	else if (got == 0)
		kw_error_set(error, KW_E_IO,
			"handshake: the other side closed the connection in the middle of it");
	else if (would_block(errno))
		*result = KW_EXCHANGE_READ;
	else
		kw_wire_explain(wire, errno, "handshake: connection lost", error);
	return false;
}

enum kw_exchange_result kw_exchange_step(
	struct kw_exchange *exchange, struct kw_wire *wire, struct kw_error *error)
{
	struct kw_handshake *handshake = &exchange->handshake;
	enum kw_exchange_result result = KW_EXCHANGE_FAILED;

	assert(kw_wire_is_open(wire));
	for (int i = 0; i < STEPS_MAX; i++) {
		if (kw_handshake_output(handshake).length > 0) {
			if (!step_output(exchange, wire, &result, error))
				return result;
			continue;
		}
		switch ((enum kw_handshake_state)handshake->sm.state) {
		case KW_HANDSHAKE_DONE:
			return KW_EXCHANGE_DONE;
		case KW_HANDSHAKE_PROVED:
			return KW_EXCHANGE_DECIDE;
		case KW_HANDSHAKE_FAILED:
			*error = handshake->error;
			kw_error_wrap(error, "handshake");
			return KW_EXCHANGE_FAILED;
		default:
			if (!step_input(exchange, wire, &result, error))
				return result;
		}
	}
	/* One byte at a time: let the loop serve others first. */
	return KW_EXCHANGE_READ;
}
