#include "base/clock.h"
#include "control/rpc/crowd.h"
#include "control/rpc/internal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void flush(struct rpc_connection *connection);

/* What must hold in a state. */
static bool holds(const struct rpc_connection *connection)
{
	switch (connection->state) {
	case RPC_OPEN:
	case RPC_ENDED:
		return connection->call_count < KW_RPC_CALLS_MAX;
	case RPC_PAUSED:
	case RPC_ENDED_PAUSED:
		return connection->call_count == KW_RPC_CALLS_MAX;
	case RPC_CLOSING:
		return !connection->calls && connection->passed_fd < 0 && connection->handles > 0;
	}
	return false;
}

static void move(struct rpc_connection *connection, enum rpc_state state)
{
	static const unsigned allowed[] = {
		[RPC_OPEN] = 1 << RPC_PAUSED | 1 << RPC_ENDED | 1 << RPC_CLOSING,
		[RPC_PAUSED] = 1 << RPC_OPEN | 1 << RPC_CLOSING,
		[RPC_ENDED] = 1 << RPC_ENDED_PAUSED | 1 << RPC_CLOSING,
		[RPC_ENDED_PAUSED] = 1 << RPC_ENDED | 1 << RPC_CLOSING,
		[RPC_CLOSING] = 0,
	};

	assert(allowed[connection->state] & 1U << state);
	connection->state = state;
	assert(holds(connection));
}

static size_t unsent(const struct rpc_connection *connection)
{
	return kw_buffer_length(&connection->out) + kw_buffer_length(&connection->writing);
}

static void drop_passed(struct rpc_connection *connection)
{
	if (connection->passed_fd >= 0)
		close(connection->passed_fd);
	connection->passed_fd = -1;
}

static void on_closed(uv_handle_t *handle)
{
	struct rpc_connection *connection = handle->data;
	struct kw_rpc_server *server = connection->server;

	assert(rpc_is_closing(connection) && connection->handles > 0);
	if (--connection->handles > 0)
		return;
	if (connection->reader_fd >= 0)
		close(connection->reader_fd);
	*connection->link = connection->next;
	if (connection->next)
		connection->next->link = connection->link;
	kw_buffer_close(&connection->in);
	kw_buffer_close(&connection->out);
	kw_buffer_close(&connection->writing);
	free(connection);
	rpc_server_finish(server);
}

void rpc_connection_close(struct rpc_connection *connection)
{
	if (rpc_is_closing(connection))
		return;
	assert(connection->server->connection_count > 0);
	connection->server->connection_count--;
	/* Calls in flight are their handlers' until answered; the answers are dropped. */
	for (struct kw_rpc_call *call = connection->calls, *next; call; call = next) {
		next = call->next;
		call->connection = NULL;
		call->next = NULL;
		call->link = NULL;
	}
	connection->calls = NULL;
	drop_passed(connection);
	move(connection, RPC_CLOSING);
	uv_close((uv_handle_t *)&connection->pipe, on_closed);
	if (connection->reader_fd >= 0)
		uv_close((uv_handle_t *)&connection->reader, on_closed);
}

void rpc_connection_settle(struct rpc_connection *connection)
{
	bool answered = connection->state == RPC_ENDED && connection->call_count == 0;

	if (rpc_is_closing(connection) || connection->processing || unsent(connection) > 0)
		return;
	if (rpc_server_is_closing(connection->server) || answered)
		rpc_connection_close(connection);
}

static void tell_dropped(struct rpc_connection *connection)
{
	json_t *params;
	size_t length;
	char *line;

	if (connection->dropped == 0 || unsent(connection) > KW_RPC_EVENTS_MAX / 2)
		return;
	params = json_pack("{sI}", "count", (json_int_t)connection->dropped);
	line = rpc_event_line("dropped", params, &length);
	json_decref(params);
	if (!line)
		return;
	connection->dropped = 0;
	kw_buffer_append(&connection->out, line, length);
	free(line);
}

static void on_written(uv_write_t *write, int status)
{
	struct rpc_connection *connection = write->data;

	kw_buffer_clear(&connection->writing);
	kw_buffer_trim(&connection->writing, KW_RPC_READ_BYTES);
	if (rpc_is_closing(connection))
		return;
	if (status < 0) {
		rpc_connection_close(connection);
		return;
	}
	tell_dropped(connection);
	flush(connection);
	rpc_connection_settle(connection);
}

/* One write at a time; what comes meanwhile goes out together with the next. */
static void flush(struct rpc_connection *connection)
{
	struct kw_buffer swap = connection->writing;
	uv_buf_t bytes;

	if (rpc_is_closing(connection) || kw_buffer_length(&connection->writing) > 0 ||
		kw_buffer_length(&connection->out) == 0)
		return;
	connection->writing = connection->out;
	connection->out = swap;
	bytes = uv_buf_init((char *)connection->writing.data + connection->writing.start,
		(unsigned)kw_buffer_length(&connection->writing));
	connection->write.data = connection;
	if (uv_write(&connection->write, (uv_stream_t *)&connection->pipe, &bytes, 1, on_written))
		rpc_connection_close(connection);
}

void rpc_connection_send(struct rpc_connection *connection, const char *line, size_t length)
{
	if (rpc_is_closing(connection))
		return;
	connection->heard_us = kw_clock_us();
	if (unsent(connection) + length > KW_RPC_OUTPUT_MAX) {
		rpc_connection_close(connection);
		return;
	}
	kw_buffer_append(&connection->out, line, length);
	flush(connection);
}

void rpc_connection_send_event(struct rpc_connection *connection, const char *line, size_t length)
{
	if (rpc_is_closing(connection))
		return;
	tell_dropped(connection);
	/*
	 * Once one is lost, the following ones wait for room, so that the gap is told in its place.
	 */
	if (connection->dropped > 0 || unsent(connection) + length > KW_RPC_EVENTS_MAX) {
		connection->dropped++;
		return;
	}
	kw_buffer_append(&connection->out, line, length);
	flush(connection);
}

static void refuse_line(struct rpc_connection *connection)
{
	rpc_call_answer_error(connection, NULL, KW_RPC_PARSE,
		"the line is longer than 1 MiB: send one JSON object a line", "protocol");
}

/*
 * The next whole line: its length without the line end, or -1 when there is none yet. A line beyond
 * KW_RPC_LINE_MAX is refused once and skipped to its end, in bounded memory.
 */
static ssize_t next_line(struct rpc_connection *connection)
{
	struct kw_buffer *in = &connection->in;
	const uint8_t *bytes = kw_buffer_bytes(in), *end = NULL;
	size_t length = kw_buffer_length(in);

	if (length > connection->scanned)
		end = memchr(bytes + connection->scanned, '\n', length - connection->scanned);
	connection->scanned = 0;
	if (end && connection->discarding) {
		connection->discarding = false;
		kw_buffer_consume(in, (size_t)(end - bytes) + 1);
		return next_line(connection);
	}
	if (end && (size_t)(end - bytes) <= KW_RPC_LINE_MAX)
		return end - bytes;
	if (end) {
		kw_buffer_consume(in, (size_t)(end - bytes) + 1);
		refuse_line(connection);
		return rpc_is_closing(connection) ? -1 : next_line(connection);
	}
	if (length > KW_RPC_LINE_MAX && !connection->discarding) {
		connection->discarding = true;
		refuse_line(connection);
	}
	if (connection->discarding)
		kw_buffer_clear(in);
	else
		connection->scanned = length;
	return -1;
}

static void process(struct rpc_connection *connection)
{
	ssize_t length;

	assert(!connection->processing && !rpc_is_paused(connection));
	connection->processing = true;
	while (!rpc_is_closing(connection) && !rpc_server_is_closing(connection->server)) {
		assert(connection->call_count <= KW_RPC_CALLS_MAX);
		if (connection->call_count == KW_RPC_CALLS_MAX) {
			move(connection,
				connection->state == RPC_OPEN ? RPC_PAUSED : RPC_ENDED_PAUSED);
			uv_poll_stop(&connection->reader);
			break;
		}
		length = next_line(connection);
		if (length < 0)
			break;
		rpc_call_dispatch(
			connection, (const char *)kw_buffer_bytes(&connection->in), (size_t)length);
		kw_buffer_consume(&connection->in, (size_t)length + 1);
	}
	connection->processing = false;
	if (!rpc_is_closing(connection))
		kw_buffer_trim(&connection->in, KW_RPC_READ_BYTES);
	rpc_connection_settle(connection);
}

/* The descriptors that came with a message: the last is kept, in place of one not taken yet. */
static void keep_passed(struct rpc_connection *connection, struct msghdr *message)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
		size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < count; i++) {
			drop_passed(connection);
			memcpy(&connection->passed_fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
		}
	}
}

static ssize_t receive(struct rpc_connection *connection)
{
	/* The union is for its alignment. */
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr header;
	} control;
	struct iovec bytes = {
		kw_buffer_reserve(&connection->in, KW_RPC_READ_BYTES), KW_RPC_READ_BYTES};
	struct msghdr message = {.msg_iov = &bytes,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = CMSG_LEN(sizeof(int))};
	ssize_t got = recvmsg(connection->reader_fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (got >= 0)
		keep_passed(connection, &message);
	return got;
}

/* After its end of file: can the client still read (it only shut its sending side down)? */
static bool still_reads(struct rpc_connection *connection)
{
	struct pollfd poll_fd = {.events = 0};
	uv_os_fd_t fd;

	if (uv_fileno((uv_handle_t *)&connection->pipe, &fd))
		return false;
	poll_fd.fd = fd;
	return poll(&poll_fd, 1, 0) <= 0 || !(poll_fd.revents & (POLLHUP | POLLERR));
}

static void on_readable(uv_poll_t *reader, int status, int events)
{
	struct rpc_connection *connection = reader->data;
	ssize_t got = status < 0 ? -1 : receive(connection);

	if (got > 0) {
		connection->heard_us = kw_clock_us();
		kw_buffer_filled(&connection->in, (size_t)got);
		process(connection);
		return;
	}
	if (status == 0 && got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got < 0 || !still_reads(connection)) {
		rpc_connection_close(connection);
		return;
	}
	/* echo '{...}' | nc -NU: the answers are still wanted. */
	move(connection, RPC_ENDED);
	uv_poll_stop(reader);
	/* The last line sent can lack its line end. */
	kw_buffer_append(&connection->in, "\n", 1);
	process(connection);
}

void rpc_connection_resume(struct rpc_connection *connection)
{
	if (connection->state == RPC_PAUSED) {
		move(connection, RPC_OPEN);
		uv_poll_start(&connection->reader, UV_READABLE, on_readable);
	} else {
		move(connection, RPC_ENDED);
	}
	process(connection);
}

#define REFUSAL(code, sentence)                                                                    \
	"{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":" code ",\"message\":\"" sentence    \
	"\"}}\n"
#define TOO_MANY                                                                                   \
	REFUSAL("-32008", "too many connections to the control socket: at most 64; close some")
#define GAVE_WAY REFUSAL("-32008", "closed for another client: 64 are connected")
#define OTHER_DAEMON                                                                               \
	REFUSAL("-32005",                                                                          \
		"this control socket is for people: the users of other keywake daemons are "       \
		"refused; run keywakectl as root, or as a member of the group keywake")

/* Say why before closing, as far as one write goes. */
static void turn_away(struct rpc_connection *connection, const char *line)
{
	uv_buf_t bytes = uv_buf_init((char *)(uintptr_t)line, (unsigned)strlen(line));

	uv_try_write((uv_stream_t *)&connection->pipe, &bytes, 1);
	rpc_connection_close(connection);
}

/* One more than there may be: somebody gives way, the newcomer if nobody else can. */
static void make_room(struct rpc_connection *newcomer)
{
	struct kw_crowd_client clients[KW_RPC_CONNECTIONS_MAX];
	struct rpc_connection *all[KW_RPC_CONNECTIONS_MAX];
	bool operator= newcomer->uid == 0 || newcomer->uid == geteuid();
	size_t count = 0;
	int victim;

	for (struct rpc_connection *c = newcomer->server->connections; c; c = c->next) {
		if (c == newcomer || rpc_is_closing(c))
			continue;
		if (!still_reads(c)) { /* it left, and we have not heard of that yet */
			rpc_connection_close(c);
			return;
		}
		assert(count < KW_RPC_CONNECTIONS_MAX);
		all[count] = c;
		clients[count++] = (struct kw_crowd_client){
			.uid = c->uid,
			.since_us = c->since_us,
			.heard_us = c->heard_us,
			.calls = c->call_count > 0,
			.subscribed = c->subscribed,
		};
	}
	victim = kw_crowd_victim(clients, count, operator, kw_clock_us());
	if (victim < 0)
		turn_away(newcomer, TOO_MANY);
	else
		turn_away(all[victim], GAVE_WAY);
}

static void know_client(struct rpc_connection *connection, int fd)
{
	struct ucred who = {.uid = (uid_t)-1};
	socklen_t length = sizeof who;

	(void)getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &length);
	connection->uid = who.uid;
	connection->since_us = connection->heard_us = kw_clock_us();
}

static int start_reading(struct rpc_connection *connection)
{
	uv_os_fd_t fd;
	int code = uv_fileno((uv_handle_t *)&connection->pipe, &fd);

	if (code)
		return code;
	know_client(connection, fd);
	fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return UV_EMFILE;
	code = uv_poll_init(connection->server->loop, &connection->reader, fd);
	if (code) {
		close(fd);
		return code;
	}
	connection->reader_fd = fd;
	connection->reader.data = connection;
	connection->handles++;
	return uv_poll_start(&connection->reader, UV_READABLE, on_readable);
}

bool kw_rpc_is_connected(const struct kw_rpc_server *server, uint64_t connection)
{
	for (const struct rpc_connection *c = server->connections; c; c = c->next)
		if (c->number == connection)
			return c->state == RPC_OPEN || c->state == RPC_PAUSED;
	return false;
}

void rpc_connection_accept(struct kw_rpc_server *server)
{
	struct rpc_connection *connection = kw_zalloc(sizeof *connection);

	connection->server = server;
	connection->number = ++server->connections_so_far;
	connection->pipe.data = connection;
	connection->reader_fd = connection->passed_fd = -1;
	connection->handles = 1;
	uv_pipe_init(server->loop, &connection->pipe, 0);
	connection->next = server->connections;
	connection->link = &server->connections;
	if (connection->next)
		connection->next->link = &connection->next;
	server->connections = connection;
	server->connection_count++;
	if (uv_accept((uv_stream_t *)&server->listener, (uv_stream_t *)&connection->pipe) ||
		start_reading(connection))
		rpc_connection_close(connection);
	else if (rpc_others_connected(&server->others, connection->reader_fd))
		turn_away(connection, OTHER_DAEMON);
	else if (server->connection_count > KW_RPC_CONNECTIONS_MAX)
		make_room(connection);
}
