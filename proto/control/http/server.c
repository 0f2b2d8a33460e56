/*
 * libmicrohttpd on the daemon's loop. It has no thread of its own: it waits by an epoll descriptor,
 * which the loop polls, and MHD_run does what there is to do.
 */
#include "control/http/internal.h"

#include "base/clock.h"
#include "base/secret.h"

#include <assert.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* Those that were shut down are closed in the next turn; until then they take a place. */
#define PLACES (2 * (KW_HTTP_CONNECTIONS_MAX + KW_HTTP_STREAMS_MAX))

#define REST_MS 100

struct kw_http_server {
	uv_loop_t *loop;
	struct MHD_Daemon *mhd;
	struct kw_http_source source;
	struct kw_http_guard guard;
	struct kw_http_address address;
	struct stat identity; /* of the file of a unix socket */
	struct http_connections connections;
	struct http_streams streams;
	uint64_t accepted; /* connections, ever */
	uv_poll_t poll;    /* of libmicrohttpd's epoll descriptor */
	uv_timer_t timer;  /* runs only while something is connected, or rests */
	int handles;       /* of these two, not yet closed */
	bool closing;
};

/* ---- one request ---- */

struct headers {
	const char *host, *authorization;
	int hosts, authorizations;
};

static enum MHD_Result on_header(
	void *arg, enum MHD_ValueKind kind, const char *name, const char *value)
{
	struct headers *headers = arg;

	if (strcasecmp(name, MHD_HTTP_HEADER_HOST) == 0) {
		headers->host = value;
		headers->hosts++;
	} else if (strcasecmp(name, MHD_HTTP_HEADER_AUTHORIZATION) == 0) {
		headers->authorization = value;
		headers->authorizations++;
	}
	return MHD_YES;
}

/* The request's own memory: libmicrohttpd would give it back with the secret in it. Of any method.
 */
static enum MHD_Result on_header_to_wipe(
	void *arg, enum MHD_ValueKind kind, const char *name, const char *value)
{
	if (value && strcasecmp(name, MHD_HTTP_HEADER_AUTHORIZATION) == 0)
		explicit_bzero((void *)(uintptr_t)value, strlen(value));
	return MHD_YES;
}

static enum kw_http_verdict judge(
	const struct kw_http_server *server, struct MHD_Connection *connection, const char *path)
{
	struct headers headers = {0};
	struct kw_http_question question = {.open = http_page_is_open(path)};

	MHD_get_connection_values(connection, MHD_HEADER_KIND, on_header, &headers);
	question.host = headers.hosts == 1 ? headers.host : NULL;
	question.authorization = headers.authorizations == 1 ? headers.authorization : NULL;
	return kw_http_judge(&server->guard, &question);
}

/* May this request be told names of keys? */
static bool tells_names(const struct kw_http_server *server, enum kw_http_verdict verdict)
{
	return verdict == KW_HTTP_MAY &&
	       (server->guard.bearer.length > 0 || server->address.reach == KW_HTTP_UNIX);
}

static void make_answer(const struct kw_http_server *server, struct MHD_Connection *connection,
	const char *path, struct http_answer *answer)
{
	enum kw_http_verdict verdict = judge(server, connection, path);
	const struct http_request request = {
		.path = path,
		.max_lag_ms = MHD_lookup_connection_value(
			connection, MHD_GET_ARGUMENT_KIND, "max_lag_ms"),
		.stranger = verdict != KW_HTTP_MAY,
		.names = tells_names(server, verdict),
	};

	if (verdict == KW_HTTP_MAY || verdict == KW_HTTP_MAY_LITTLE)
		http_page_answer(&server->source, &request, answer);
	else
		http_page_refuse(verdict, answer);
}

/* No other site reads or frames an answer, no browser guesses its type, and no cache keeps it. */
static const char *const headers_of_all[][2] = {
	{MHD_HTTP_HEADER_CONNECTION, "close"},
	{MHD_HTTP_HEADER_CACHE_CONTROL, "no-store"},
	{"X-Content-Type-Options", "nosniff"},
	{"Cross-Origin-Resource-Policy", "same-origin"},
	{"Referrer-Policy", "no-referrer"},
};

#define POLICY "default-src 'none'; frame-ancestors 'none'"

static enum MHD_Result queue(struct MHD_Connection *connection, const struct http_answer *answer,
	struct MHD_Response *response)
{
	enum MHD_Result result;

	for (size_t i = 0; i < sizeof headers_of_all / sizeof *headers_of_all; i++)
		MHD_add_response_header(response, headers_of_all[i][0], headers_of_all[i][1]);
	MHD_add_response_header(
		response, "Content-Security-Policy", answer->policy ? answer->policy : POLICY);
	MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, answer->type);
	if (answer->status == MHD_HTTP_UNAUTHORIZED)
		MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE,
			"Basic realm=\"keywake\", charset=\"UTF-8\"");
	if (answer->status == MHD_HTTP_METHOD_NOT_ALLOWED)
		MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
	result = MHD_queue_response(connection, answer->status, response);
	MHD_destroy_response(response);
	return result;
}

static enum MHD_Result send_answer(
	struct MHD_Connection *connection, const struct http_answer *answer)
{
	struct MHD_Response *response =
		MHD_create_response_from_buffer(kw_buffer_length(&answer->body),
			(void *)(uintptr_t)kw_buffer_bytes(&answer->body), MHD_RESPMEM_MUST_COPY);

	return response ? queue(connection, answer, response) : MHD_NO;
}

/* ---- a stream ---- */

static bool is_stream(const struct http_answer *answer)
{
	return answer->status == MHD_HTTP_OK && strcmp(answer->type, HTTP_EVENT_STREAM) == 0;
}

/* answer: its body is the first event. */
static enum MHD_Result begin_stream(struct kw_http_server *server,
	struct MHD_Connection *connection, const struct http_answer *answer)
{
	struct http_connection *mine =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)
			->socket_context;
	struct MHD_Response *response =
		http_streams_add(&server->streams, connection, mine->fd, &answer->body);
	struct http_answer full = {0};
	enum MHD_Result result;

	if (response) {
		http_connections_listen(&server->connections, mine);
		return queue(connection, answer, response);
	}
	http_page_refuse_stream(&full);
	result = send_answer(connection, &full);
	kw_buffer_close(&full.body);
	return result;
}

/* Called when the headers are there. It is answered at once: no body is ever read. */
static enum MHD_Result on_request(void *arg, struct MHD_Connection *connection, const char *path,
	const char *method, const char *version, const char *body, size_t *length, void **state)
{
	struct kw_http_server *server = arg;
	bool get = strcmp(method, MHD_HTTP_METHOD_GET) == 0;
	struct http_answer answer = {0};
	enum MHD_Result result;

	if (get || strcmp(method, MHD_HTTP_METHOD_HEAD) == 0) {
		make_answer(server, connection, path, &answer);
	} else {
		answer.status = MHD_HTTP_METHOD_NOT_ALLOWED;
		answer.type = "text/plain";
		kw_buffer_printf(&answer.body, "only GET and HEAD: nothing can be changed here\n");
	}
	MHD_get_connection_values(connection, MHD_HEADER_KIND, on_header_to_wipe, NULL);
	result = get && is_stream(&answer) ? begin_stream(server, connection, &answer)
					   : send_answer(connection, &answer);
	kw_buffer_close(&answer.body);
	return result;
}

static void on_connection(void *arg, struct MHD_Connection *connection, void **context,
	enum MHD_ConnectionNotificationCode what)
{
	struct kw_http_server *server = arg;

	if (what == MHD_CONNECTION_NOTIFY_STARTED) {
		const union MHD_ConnectionInfo *info =
			MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);

		*context =
			http_connections_add(&server->connections, info->connect_fd, kw_clock_us());
		server->accepted++;
	} else if (*context) {
		http_connections_remove(&server->connections, *context);
		*context = NULL;
	}
}

/* ---- the loop ---- */

static void run(struct kw_http_server *server);
static void on_timer(uv_timer_t *timer);

/*
 * A client waits that cannot be accepted, as no descriptor is left, and the poll would tell it for
 * ever. (While others are connected, libmicrohttpd waits for the end of one of them.)
 */
static void rest(struct kw_http_server *server)
{
	uv_poll_stop(&server->poll);
	uv_timer_start(&server->timer, on_timer, REST_MS, 0);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
	struct kw_http_server *server = poll->data;
	uint64_t accepted = server->accepted;
	bool alone = !server->connections.newest;

	run(server);
	if (alone && server->accepted == accepted)
		rest(server);
}

static void on_timer(uv_timer_t *timer)
{
	struct kw_http_server *server = timer->data;

	if (!uv_is_active((uv_handle_t *)&server->poll))
		uv_poll_start(&server->poll, UV_READABLE, on_poll); /* it has rested */
	run(server);
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* The source can move the state when it is asked, and then says that there are news. */
static void send_events(struct kw_http_server *server, uint64_t now_us)
{
	struct kw_buffer event = {0};

	if (!http_streams_are_due(&server->streams, now_us))
		return;
	http_page_event(&server->source, tells_names(server, KW_HTTP_MAY), &event);
	http_streams_send(&server->streams, &event, now_us);
	kw_buffer_close(&event);
}

static void run(struct kw_http_server *server)
{
	MHD_UNSIGNED_LONG_LONG wait_ms;
	uint64_t next_us;

	send_events(server, kw_clock_us());
	MHD_run(server->mhd);
	next_us = smaller(http_connections_sweep(&server->connections, kw_clock_us()),
		http_streams_wait(&server->streams, kw_clock_us()));
	if (MHD_get_timeout(server->mhd, &wait_ms) == MHD_YES)
		next_us = smaller(next_us, (uint64_t)wait_ms * 1000);
	if (next_us == HTTP_NEVER)
		uv_timer_stop(&server->timer);
	else
		uv_timer_start(&server->timer, on_timer, (next_us + 999) / 1000, 0);
}

void kw_http_server_news(struct kw_http_server *server)
{
	if (!server || server->closing || server->streams.count == 0)
		return;
	http_streams_hurry(&server->streams);
	uv_timer_start(&server->timer, on_timer,
		(http_streams_wait(&server->streams, kw_clock_us()) + 999) / 1000, 0);
}

/* ---- start and end ---- */

static int read_secret(
	const struct kw_config *config, struct kw_buffer *secret, struct kw_error *error)
{
	int code = kw_key_file_load(kw_config_text(config, "http.secret_file"), secret, error);

	return code ? kw_error_wrap(error, "http.secret_file") : KW_OK;
}

static int read_guard(const struct kw_config *config, enum kw_http_reach reach,
	struct kw_http_guard *guard, struct kw_error *error)
{
	struct kw_buffer secret = {0};
	int code = read_secret(config, &secret, error);

	if (!code)
		kw_http_guard_init(guard, reach,
			kw_slice(kw_buffer_bytes(&secret), kw_buffer_length(&secret)));
	kw_secret_close_buffer(&secret);
	return code;
}

int kw_http_rule(const struct kw_config *config, struct kw_error *error)
{
	const char *listen = kw_config_text(config, "http.listen");
	bool secret = *kw_config_text(config, "http.secret_file");
	struct kw_http_address address;

	if (!*listen && secret)
		return kw_error_set(error, KW_E_CONFIG,
			"http.secret_file has no effect without http.listen: set it, or leave the "
			"file out");
	if (!*listen)
		return KW_OK;
	if (kw_http_address_parse(listen, &address, error))
		return kw_error_wrap(error, "http.listen");
	if (address.reach == KW_HTTP_OPEN && !secret)
		return kw_error_set(error, KW_E_CONFIG,
			"http.listen: %s is open to other hosts: set http.secret_file, or use "
			"tcp://127.0.0.1:port or unix:///path",
			listen);
	return KW_OK;
}

static void start_handles(struct kw_http_server *server)
{
	const union MHD_DaemonInfo *info =
		MHD_get_daemon_info(server->mhd, MHD_DAEMON_INFO_EPOLL_FD);

	uv_poll_init(server->loop, &server->poll, info->epoll_fd);
	uv_timer_init(server->loop, &server->timer);
	server->poll.data = server->timer.data = server;
	server->handles = 2;
	uv_poll_start(&server->poll, UV_READABLE, on_poll);
}

static int start(struct kw_http_server *server, const char *text, struct kw_error *error)
{
	int fd = http_socket_listen(&server->address, text, &server->identity, error);

	if (fd < 0)
		return -fd;
	server->mhd = MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL,
		on_request, server, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
		(unsigned)PLACES, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)KW_HTTP_REQUEST_MAX,
		MHD_OPTION_NOTIFY_CONNECTION, on_connection, server, MHD_OPTION_END);
	if (!server->mhd) {
		close(fd);
		kw_socket_file_remove(server->address.path, &server->identity);
		return kw_error_set(
			error, KW_E_IO, "http.listen: %s: libmicrohttpd could not start", text);
	}
	start_handles(server);
	return KW_OK;
}

int kw_http_server_new(uv_loop_t *loop, const struct kw_config *config,
	const struct kw_http_source *source, struct kw_http_server **result, struct kw_error *error)
{
	const char *text = kw_config_text(config, "http.listen");
	struct kw_http_server *server;
	int code;

	*result = NULL;
	if (!*text)
		return KW_OK;
	server = kw_zalloc(sizeof *server);
	server->loop = loop;
	server->source = *source;
	code = kw_http_address_parse(text, &server->address, error);
	if (!code)
		code = read_guard(config, server->address.reach, &server->guard, error);
	if (!code)
		code = start(server, text, error);
	if (code) {
		kw_http_guard_close(&server->guard);
		free(server);
		return code;
	}
	*result = server;
	return KW_OK;
}

static void on_closed(uv_handle_t *handle)
{
	struct kw_http_server *server = handle->data;

	assert(server->closing && server->handles > 0);
	if (--server->handles > 0)
		return;
	kw_http_guard_close(&server->guard);
	free(server);
}

void kw_http_server_close(struct kw_http_server *server)
{
	if (!server || server->closing)
		return;
	server->closing = true;
	if (server->address.reach == KW_HTTP_UNIX)
		kw_socket_file_remove(server->address.path, &server->identity);
	uv_poll_stop(&server->poll);
	http_streams_end(&server->streams);
	MHD_stop_daemon(server->mhd); /* closes all connections, and its descriptors */
	uv_close((uv_handle_t *)&server->poll, on_closed);
	uv_close((uv_handle_t *)&server->timer, on_closed);
}

/* ---- a new secret ---- */

int kw_http_server_reread(struct kw_http_server *server, const struct kw_config *config,
	struct kw_http_guard **guard, struct kw_error *error)
{
	int code;

	*guard = NULL;
	if (!server)
		return KW_OK;
	*guard = kw_zalloc(sizeof **guard);
	code = read_guard(config, server->address.reach, *guard, error);
	if (code) {
		free(*guard);
		*guard = NULL;
	}
	return code;
}

void kw_http_server_put(struct kw_http_server *server, struct kw_http_guard *guard)
{
	if (!guard)
		return;
	kw_http_guard_close(&server->guard);
	server->guard = *guard;
	free(guard);
	http_streams_end(&server->streams);
}

void kw_http_guard_drop(struct kw_http_guard *guard)
{
	if (guard)
		kw_http_guard_close(guard);
	free(guard);
}
