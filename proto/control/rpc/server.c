#include "control/rpc/internal.h"
#include "control/socket_file.h"

#include <assert.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void on_connection(uv_stream_t *listener, int status)
{
	struct kw_rpc_server *server = listener->data;

	/* Otherwise the client is gone again, or no descriptor is left. */
	if (status == 0 && !rpc_server_is_closing(server))
		rpc_connection_accept(server);
}

/* Connections that waited for calls to be answered go on here, outside of any handler. */
static void on_later(uv_idle_t *later)
{
	struct kw_rpc_server *server = later->data;
	struct rpc_connection *connection, *next;

	uv_idle_stop(later);
	for (connection = server->connections; connection; connection = next) {
		next = connection->next;
		if (rpc_is_paused(connection) && connection->call_count < KW_RPC_CALLS_MAX)
			rpc_connection_resume(connection);
	}
}

void rpc_server_later(struct kw_rpc_server *server)
{
	if (!rpc_server_is_closing(server))
		uv_idle_start(&server->later, on_later);
}

static struct kw_rpc_server *make_server(uv_loop_t *loop, const char *path)
{
	struct kw_rpc_server *server = kw_zalloc(sizeof *server);

	server->loop = loop;
	server->path = kw_strdup(path);
	uv_pipe_init(loop, &server->listener, 0);
	uv_idle_init(loop, &server->later);
	uv_timer_init(loop, &server->drain);
	rpc_logs_open(server);
	server->handles = 4;
	server->listener.data = server;
	server->later.data = server;
	server->drain.data = server;
	return server;
}

static void ignore(void *arg)
{
}

/*
 * A client that goes away before its answer is written must not end the daemon, and libuv writes
 * without MSG_NOSIGNAL. A disposition that the process has set is left alone.
 */
static void ignore_sigpipe(void)
{
	struct sigaction action;

	if (sigaction(SIGPIPE, NULL, &action) || action.sa_handler != SIG_DFL)
		return;
	action.sa_handler = SIG_IGN;
	sigaction(SIGPIPE, &action, NULL);
}

int kw_rpc_server_new(uv_loop_t *loop, const char *path, const struct kw_rpc_method *methods,
	const char *program, void *arg, struct kw_rpc_server **result, struct kw_error *error)
{
	static const struct kw_socket_use use = {"control socket", "control.socket"};
	struct stat identity;
	struct kw_rpc_server *server;
	int fd, code;

	fd = kw_socket_file_listen(&use, path, &identity, error);
	if (fd < 0)
		return -fd;
	ignore_sigpipe();
	server = make_server(loop, path);
	server->identity = identity;
	rpc_others_find(&server->others);
	server->methods = methods;
	server->program = program;
	server->arg = arg;
	/* uv_listen listens once more, which changes nothing. */
	code = uv_pipe_open(&server->listener, fd);
	if (code) {
		close(fd);
	} else {
		code = uv_listen((uv_stream_t *)&server->listener, KW_RPC_BACKLOG, on_connection);
	}
	if (code) {
		kw_error_set(error, KW_E_IO, "control socket %s: %s", path, uv_strerror(code));
		kw_rpc_server_close(server, ignore, NULL);
		return KW_E_IO;
	}
	rpc_builtin_log_tap(server);
	*result = server;
	return 0;
}

static void on_handle_closed(uv_handle_t *handle)
{
	struct kw_rpc_server *server = handle->data;

	assert(rpc_server_is_closing(server) && server->handles > 0);
	server->handles--;
	rpc_server_finish(server);
}

static void close_drain(struct kw_rpc_server *server)
{
	if (!uv_is_closing((uv_handle_t *)&server->drain))
		uv_close((uv_handle_t *)&server->drain, on_handle_closed);
}

void rpc_server_finish(struct kw_rpc_server *server)
{
	void (*done)(void *arg) = server->done;
	void *arg = server->done_arg;

	if (!rpc_server_is_closing(server) || server->connections)
		return;
	close_drain(server);
	if (server->handles > 0)
		return;
	free(server->path);
	free(server);
	done(arg);
}

static void on_drain_timeout(uv_timer_t *drain)
{
	struct kw_rpc_server *server = drain->data;

	for (struct rpc_connection *c = server->connections; c; c = c->next)
		rpc_connection_close(c);
}

void kw_rpc_server_close(struct kw_rpc_server *server, void (*done)(void *arg), void *arg)
{
	assert(done);
	if (rpc_server_is_closing(server))
		return;
	server->done = done;
	server->done_arg = arg;
	rpc_builtin_log_untap(server);
	rpc_logs_close(server);
	kw_socket_file_remove(server->path, &server->identity);
	uv_close((uv_handle_t *)&server->listener, on_handle_closed);
	uv_close((uv_handle_t *)&server->later, on_handle_closed);
	uv_close((uv_handle_t *)&server->log_news, on_handle_closed);
	/* The answer to `shutdown` itself can still be on its way out. */
	for (struct rpc_connection *c = server->connections; c; c = c->next) {
		if (!rpc_is_closing(c) && c->reader_fd >= 0)
			uv_poll_stop(&c->reader);
		rpc_connection_settle(c);
	}
	if (uv_timer_start(&server->drain, on_drain_timeout, KW_RPC_DRAIN_MS, 0))
		on_drain_timeout(&server->drain);
	rpc_server_finish(server);
}

void kw_rpc_event(struct kw_rpc_server *server, const char *kind, json_t *params)
{
	char *line = NULL;
	size_t length = 0;

	for (struct rpc_connection *c = server->connections; c; c = c->next) {
		if (!c->subscribed || rpc_is_closing(c))
			continue;
		if (!line)
			line = rpc_event_line(kind, params, &length);
		if (!line)
			break;
		rpc_connection_send_event(c, line, length);
	}
	free(line);
	json_decref(params);
}
