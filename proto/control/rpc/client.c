#include "control/rpc/rpc.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/slice.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define ANSWER_MAX ((size_t)8 << 20) /* the server sends at most 4 MiB */
#define READ_BYTES ((size_t)64 << 10)
#define EVENTS_KEPT 256
#define CROWD_US 2000000 /* so long a client tries to get in */
#define CROWD_STEP_MS 10

struct kw_rpc_client {
	int fd;
	char *path;
	struct kw_buffer in;
	size_t scanned; /* bytes of `in` known to hold no line end */
	json_int_t last_id;
	json_t *events; /* arrived while an answer was waited for */
};

static int connect_failed(const char *path, int errnum, struct kw_error *error)
{
	if (errnum == ENOENT || errnum == ENOTDIR)
		return kw_error_set(error, KW_E_IO,
			"%s: there is no such socket: is the daemon running, and is this its "
			"control.socket?",
			path);
	if (errnum == ECONNREFUSED)
		return kw_error_set(error, KW_E_IO,
			"%s: nobody answers there: the daemon is not running (any more)", path);
	if (errnum == EACCES || errnum == EPERM)
		return kw_error_set(error, KW_E_IO,
			"%s: no permission: run as root, as the daemon's user, or as a member of "
			"its group",
			path);
	if (errnum == EAGAIN)
		return kw_error_set(error, KW_E_STATE,
			"%s: the daemon hangs: it lets nobody in, and as many as may wait do",
			path);
	return kw_error_errno(error, errnum, "%s", path);
}

/* Returns an errno. Many can come at once: whoever finds no room to wait in comes again. */
static int connect_patiently(int fd, const struct sockaddr_un *address, uint64_t patience_us)
{
	const uint64_t until_us = kw_clock_us() + patience_us;

	while (connect(fd, (const struct sockaddr *)address, sizeof *address)) {
		if (errno != EAGAIN || kw_clock_us() >= until_us)
			return errno;
		(void)poll(NULL, 0, CROWD_STEP_MS);
	}
	return 0;
}

static int open_within(uint64_t patience_us, const char *path, struct kw_rpc_client **result,
	struct kw_error *error)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct kw_rpc_client *client;
	int fd, errnum;

	if (*path == '\0')
		return kw_error_set(error, KW_E_ARGUMENT,
			"the socket's path is empty: name the daemon's control.socket");
	if (strlen(path) >= sizeof address.sun_path)
		return kw_error_set(error, KW_E_ARGUMENT,
			"%.60s...: longer than a socket's path can be (%zu bytes)", path,
			sizeof address.sun_path - 1);
	strcpy(address.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return kw_error_errno(error, errno, "%s", path);
	errnum = connect_patiently(fd, &address, patience_us);
	if (errnum) {
		close(fd);
		return connect_failed(path, errnum, error);
	}
	client = kw_zalloc(sizeof *client);
	client->fd = fd;
	client->path = kw_strdup(path);
	client->events = json_array();
	*result = client;
	return 0;
}

int kw_rpc_client_open(const char *path, struct kw_rpc_client **client, struct kw_error *error)
{
	return open_within(CROWD_US, path, client, error);
}

int kw_rpc_client_open_at_once(
	const char *path, struct kw_rpc_client **client, struct kw_error *error)
{
	return open_within(0, path, client, error);
}

int kw_rpc_client_fd(const struct kw_rpc_client *client)
{
	return client->fd;
}

int kw_rpc_client_daemon(
	const struct kw_rpc_client *client, struct kw_rpc_daemon *daemon, struct kw_error *error)
{
	struct ucred peer;
	socklen_t length = sizeof peer;

	if (getsockopt(client->fd, SOL_SOCKET, SO_PEERCRED, &peer, &length))
		return kw_error_errno(error, errno, "%s: who listens there", client->path);
	*daemon = (struct kw_rpc_daemon){peer.pid, peer.uid, peer.gid};
	return KW_OK;
}

void kw_rpc_client_close(struct kw_rpc_client *client)
{
	if (!client)
		return;
	close(client->fd);
	kw_buffer_close(&client->in);
	json_decref(client->events);
	free(client->path);
	free(client);
}

/* A moment on the monotonic clock; UINT64_MAX: never. */
static uint64_t deadline_after(int timeout_ms)
{
	return timeout_ms < 0 ? UINT64_MAX : kw_clock_us() + (uint64_t)timeout_ms * 1000;
}

static int wait_for(
	struct kw_rpc_client *client, short events, uint64_t deadline_us, struct kw_error *error)
{
	struct pollfd poll_fd = {.fd = client->fd, .events = events};

	for (;;) {
		uint64_t now = kw_clock_us();
		uint64_t left = deadline_us > now ? deadline_us - now : 0;
		int wait_ms = left > 1000000000 ? 1000000 : (int)((left + 999) / 1000);
		int ready = poll(&poll_fd, 1, wait_ms);

		if (ready > 0)
			return 0;
		if (ready < 0 && errno != EINTR)
			return kw_error_errno(error, errno, "%s", client->path);
		if (kw_clock_us() >= deadline_us)
			return kw_error_set(error, KW_E_TIMEOUT,
				"%s: the daemon did not answer in time", client->path);
	}
}

static int lost(struct kw_rpc_client *client, struct kw_error *error)
{
	return kw_error_set(error, KW_E_IO, "%s: the daemon closed the connection", client->path);
}

/* A descriptor travels with the first byte. */
static ssize_t send_some(
	const struct kw_rpc_client *client, const char *bytes, size_t length, int fd)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr header;
	} control = {0};
	struct iovec part = {(void *)(uintptr_t)bytes, length};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

	if (fd >= 0) {
		control.header = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)),
			.cmsg_level = SOL_SOCKET,
			.cmsg_type = SCM_RIGHTS};
		memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
		message.msg_control = control.bytes;
		message.msg_controllen = sizeof control.bytes;
	}
	return sendmsg(client->fd, &message, MSG_NOSIGNAL);
}

static int send_all(struct kw_rpc_client *client, struct kw_slice line, int fd,
	uint64_t deadline_us, struct kw_error *error)
{
	const char *bytes = line.data;
	size_t length = line.length;

	while (length > 0) {
		ssize_t sent = send_some(client, bytes, length, fd);
		int code;

		if (sent >= 0) {
			fd = -1;
			bytes += sent;
			length -= (size_t)sent;
			continue;
		}
		if (errno == EINTR)
			continue;
		/* What the daemon said before it hung up is still to be read. */
		if (errno == EPIPE || errno == ECONNRESET)
			return 0;
		if (errno != EAGAIN)
			return kw_error_errno(error, errno, "%s", client->path);
		code = wait_for(client, POLLOUT, deadline_us, error);
		/* Half a line went out: nothing sensible can follow it. */
		if (code == KW_E_TIMEOUT)
			code = kw_error_set(
				error, KW_E_IO, "%s: the daemon reads nothing", client->path);
		if (code)
			return code;
	}
	return 0;
}

static int read_more(struct kw_rpc_client *client, uint64_t deadline_us, struct kw_error *error)
{
	for (;;) {
		ssize_t got =
			recv(client->fd, kw_buffer_reserve(&client->in, READ_BYTES), READ_BYTES, 0);
		int code;

		if (got > 0) {
			kw_buffer_filled(&client->in, (size_t)got);
			return 0;
		}
		if (got == 0 || errno == ECONNRESET)
			return lost(client, error);
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN)
			return kw_error_errno(error, errno, "%s", client->path);
		code = wait_for(client, POLLIN, deadline_us, error);
		if (code)
			return code;
	}
}

/* The next line the daemon sends, as JSON. */
static int read_message(struct kw_rpc_client *client, uint64_t deadline_us, json_t **message,
	struct kw_error *error)
{
	for (;;) {
		const uint8_t *bytes = kw_buffer_bytes(&client->in), *end = NULL;
		size_t length = kw_buffer_length(&client->in);
		json_error_t where;
		int code;

		if (length > client->scanned)
			end = memchr(bytes + client->scanned, '\n', length - client->scanned);
		if (end) {
			*message = json_loadb(
				(const char *)bytes, (size_t)(end - bytes), JSON_ALLOW_NUL, &where);
			kw_buffer_consume(&client->in, (size_t)(end - bytes) + 1);
			client->scanned = 0;
			if (json_is_object(*message))
				return 0;
			json_decref(*message);
			return kw_error_set(error, KW_E_PROTOCOL,
				"%s: what answers there is not JSON-RPC", client->path);
		}
		client->scanned = length;
		if (length > ANSWER_MAX)
			return kw_error_set(error, KW_E_PROTOCOL,
				"%s: a line without end came from there", client->path);
		code = read_more(client, deadline_us, error);
		if (code)
			return code;
	}
}

static bool is_event(const json_t *message)
{
	const char *method = json_string_value(json_object_get(message, "method"));

	return method && strcmp(method, "event") == 0;
}

static void keep_event(struct kw_rpc_client *client, const json_t *message)
{
	if (json_array_size(client->events) == EVENTS_KEPT)
		json_array_remove(client->events, 0);
	json_array_append(client->events, json_object_get(message, "params"));
}

static int take_answer(struct kw_rpc_client *client, const json_t *message, json_t **result,
	struct kw_error *error)
{
	const json_t *failure = json_object_get(message, "error");
	const char *text;

	if (failure) {
		text = json_string_value(json_object_get(failure, "message"));
		return kw_error_set(error, KW_E_REFUSED, "%s", text ? text : "refused");
	}
	if (!json_object_get(message, "result"))
		return kw_error_set(error, KW_E_PROTOCOL,
			"%s: an answer without result came from there", client->path);
	if (result)
		*result = json_incref(json_object_get(message, "result"));
	return 0;
}

/*
 * Read until the answer to the last request; events are kept, late answers passed over. A daemon
 * that sends other lines without an end does not hold us beyond the deadline.
 */
static int await_answer(
	struct kw_rpc_client *client, uint64_t deadline_us, json_t **result, struct kw_error *error)
{
	for (uint64_t others = 0; others < EVENTS_KEPT || kw_clock_us() < deadline_us; others++) {
		json_t *message;
		const json_t *id;
		int code = read_message(client, deadline_us, &message, error);

		if (code)
			return code;
		id = json_object_get(message, "id");
		if (is_event(message)) {
			keep_event(client, message);
		} else if (!json_is_integer(id) || json_integer_value(id) == client->last_id) {
			/* Without an id: the daemon refuses the connection or the line as such. */
			code = take_answer(client, message, result, error);
			json_decref(message);
			return code;
		}
		json_decref(message);
	}
	return kw_error_set(error, KW_E_TIMEOUT,
		"%s: the daemon sends other lines, and no answer in time", client->path);
}

static int send_request(struct kw_rpc_client *client, const char *method, json_t *params, int fd,
	uint64_t deadline_us, struct kw_error *error)
{
	json_t *request = json_pack("{s:s,s:I,s:s,s:o*}", "jsonrpc", "2.0", "id", ++client->last_id,
		"method", method, "params", params);
	char *line = request ? json_dumps(request, JSON_COMPACT) : NULL;
	size_t length;
	int code;

	json_decref(request);
	if (!line)
		return kw_error_set(
			error, KW_E_ARGUMENT, "%s: the parameters are not valid UTF-8", method);
	length = strlen(line);
	line[length] = '\n';
	code = send_all(client, kw_slice(line, length + 1), fd, deadline_us, error);
	free(line);
	return code;
}

int kw_rpc_client_begin(struct kw_rpc_client *client, const char *method, json_t *params, int fd,
	struct kw_error *error)
{
	return send_request(client, method, params, fd, UINT64_MAX, error);
}

int kw_rpc_client_await(
	struct kw_rpc_client *client, int timeout_ms, json_t **result, struct kw_error *error)
{
	return await_answer(client, deadline_after(timeout_ms), result, error);
}

int kw_rpc_client_call(struct kw_rpc_client *client, const char *method, json_t *params,
	int timeout_ms, json_t **result, struct kw_error *error)
{
	uint64_t deadline_us = deadline_after(timeout_ms);
	int code = send_request(client, method, params, -1, deadline_us, error);

	return code ? code : await_answer(client, deadline_us, result, error);
}

int kw_rpc_client_event(
	struct kw_rpc_client *client, int timeout_ms, json_t **event, struct kw_error *error)
{
	uint64_t deadline_us = deadline_after(timeout_ms);
	json_t *message;
	int code;

	if (json_array_size(client->events) > 0) {
		*event = json_incref(json_array_get(client->events, 0));
		json_array_remove(client->events, 0);
		return 0;
	}
	do {
		code = read_message(client, deadline_us, &message, error);
		if (code)
			return code;
		if (is_event(message)) {
			*event = json_incref(json_object_get(message, "params"));
			json_decref(message);
			return 0;
		}
		json_decref(message);
	} while (kw_clock_us() < deadline_us);
	return kw_error_set(error, KW_E_TIMEOUT, "%s: no event came", client->path);
}
