/* One line of a client: the request, whether it is allowed, and the answer. */
#include "control/rpc/internal.h"

#include "control/json_text.h"
#include "control/nearest.h"

#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static void send_json(struct rpc_connection *connection, json_t *answer)
{
	char *line = json_dumps(answer, JSON_COMPACT | KW_JSON_DIGITS);
	size_t length;

	if (!line) {
		rpc_connection_close(connection);
		return;
	}
	/* The terminator's place is the line end's. */
	length = strlen(line);
	line[length] = '\n';
	rpc_connection_send(connection, line, length + 1);
	free(line);
}

void rpc_call_answer_error(
	struct rpc_connection *connection, json_t *id, int code, const char *text, const char *word)
{
	json_t *answer = json_pack("{s:s,s:o,s:{s:i,s:o}}", "jsonrpc", "2.0", "id",
		id ? json_incref(id) : json_null(), "error", "code", code, "message",
		kw_json_text(text));

	if (word && answer)
		json_object_set_new(
			json_object_get(answer, "error"), "data", json_pack("{s:s}", "kind", word));
	send_json(connection, answer);
	json_decref(answer);
}

static struct kw_rpc_call *call_new(struct rpc_connection *connection, json_t *id, json_t *params)
{
	struct kw_rpc_call *call = kw_zalloc(sizeof *call);

	call->connection = connection;
	call->id = json_incref(id);
	call->params = params ? json_incref(params) : json_object();
	call->next = connection->calls;
	call->link = &connection->calls;
	if (call->next)
		call->next->link = &call->next;
	connection->calls = call;
	connection->call_count++;
	assert(connection->call_count <= KW_RPC_CALLS_MAX);
	return call;
}

/* The call is answered: take it from its connection, and let that go on. */
static void call_end(struct kw_rpc_call *call)
{
	struct rpc_connection *connection = call->connection;

	if (connection && call->link) {
		*call->link = call->next;
		if (call->next)
			call->next->link = call->link;
		assert(connection->call_count > 0);
		connection->call_count--;
		if (rpc_is_paused(connection))
			rpc_server_later(connection->server);
		rpc_connection_settle(connection);
	}
	json_decref(call->id);
	json_decref(call->params);
	free(call);
}

bool kw_rpc_call_wanted(const struct kw_rpc_call *call)
{
	return call->connection != NULL;
}

uint64_t kw_rpc_call_connection(const struct kw_rpc_call *call)
{
	return call->connection ? call->connection->number : 0;
}

int kw_rpc_call_take_fd(struct kw_rpc_call *call)
{
	struct rpc_connection *connection = call->connection;
	int fd = connection ? connection->passed_fd : -1;

	if (connection)
		connection->passed_fd = -1;
	return fd;
}

void kw_rpc_result(struct kw_rpc_call *call, json_t *result)
{
	json_t *answer;
	char *line;
	size_t length;

	if (!result) {
		kw_rpc_fail(call, KW_RPC_INTERNAL, "the daemon could not put its answer together");
		return;
	}
	if (!call->connection || !call->id) {
		json_decref(result);
		call_end(call);
		return;
	}
	answer = json_pack("{s:s,s:O,s:o}", "jsonrpc", "2.0", "id", call->id, "result", result);
	line = answer ? json_dumps(answer, JSON_COMPACT | KW_JSON_DIGITS) : NULL;
	json_decref(answer);
	length = line ? strlen(line) : 0;
	if (!line || length >= KW_RPC_OUTPUT_MAX) {
		free(line);
		kw_rpc_fail(call, KW_RPC_INTERNAL,
			"the answer has %zu bytes, more than a connection may hold: ask for less",
			length);
		return;
	}
	line[length] = '\n';
	rpc_connection_send(call->connection, line, length + 1);
	free(line);
	call_end(call);
}

static void fail_text(struct kw_rpc_call *call, int code, const char *text, const char *word)
{
	if (call->connection && call->id)
		rpc_call_answer_error(call->connection, call->id, code, text, word);
	call_end(call);
}

void kw_rpc_fail(struct kw_rpc_call *call, int code, const char *format, ...)
{
	char text[KW_ERROR_TEXT];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	fail_text(call, code, text, NULL);
}

void kw_rpc_fail_error(struct kw_rpc_call *call, const struct kw_error *error)
{
	fail_text(call, KW_RPC_CODE(error->code), error->text, kw_code_name(error->code));
}

static bool type_fits(json_type wanted, const json_t *value)
{
	if (wanted == JSON_NULL)
		return true;
	if (wanted == JSON_TRUE || wanted == JSON_FALSE)
		return json_is_boolean(value);
	if (wanted == JSON_REAL)
		return json_is_number(value);
	return json_typeof(value) == wanted;
}

static const struct kw_rpc_param *find_param(const struct kw_rpc_method *method, const char *name)
{
	for (int i = 0; i < KW_RPC_PARAMS_MAX && method->params[i].name; i++)
		if (strcmp(method->params[i].name, name) == 0)
			return &method->params[i];
	return NULL;
}

static int unknown_param(
	const struct kw_rpc_method *method, const char *name, struct kw_error *error)
{
	struct kw_nearest nearest;
	const char *best;

	if (!method->params[0].name)
		return kw_error_set(error, KW_E_ARGUMENT, "%s takes no parameters; given %.60s",
			method->name, name);
	kw_nearest_init(&nearest, name);
	for (int i = 0; i < KW_RPC_PARAMS_MAX && method->params[i].name; i++)
		kw_nearest_try(&nearest, method->params[i].name);
	best = kw_nearest_word(&nearest);
	return kw_error_set(error, KW_E_ARGUMENT, "%s has no parameter %.60s%s%s%s", method->name,
		name, best ? ": did you mean " : "", best ? best : "", best ? "?" : "");
}

static int check_params(
	const struct kw_rpc_method *method, const json_t *params, struct kw_error *error)
{
	char shown[KW_JSON_SHOWN];
	const char *name;
	json_t *value;

	if (params && !json_is_object(params))
		return kw_error_set(error, KW_E_ARGUMENT,
			"params must be an object: parameters are named; given %s",
			kw_json_show(params, shown));
	json_object_foreach((json_t *)(uintptr_t)params, name, value)
	{
		const struct kw_rpc_param *param = find_param(method, name);

		if (!param)
			return unknown_param(method, name, error);
		if (!type_fits(param->type, value))
			return kw_error_set(error, KW_E_ARGUMENT,
				"%s: %s must be of type %s; given %s", method->name, name,
				kw_json_type_name(param->type), kw_json_show(value, shown));
	}
	for (int i = 0; i < KW_RPC_PARAMS_MAX && method->params[i].name; i++)
		if (method->params[i].required && !json_object_get(params, method->params[i].name))
			return kw_error_set(error, KW_E_ARGUMENT, "%s needs the parameter %s (%s)",
				method->name, method->params[i].name, method->params[i].doc);
	return 0;
}

const struct kw_rpc_method *rpc_method_find(const struct kw_rpc_server *server, const char *name)
{
	for (const struct kw_rpc_method *m = server->methods; m->name; m++)
		if (strcmp(m->name, name) == 0)
			return m;
	for (const struct kw_rpc_method *m = rpc_builtin_methods; m->name; m++)
		if (strcmp(m->name, name) == 0)
			return m;
	return NULL;
}

bool rpc_method_is_builtin(const struct kw_rpc_method *method)
{
	for (const struct kw_rpc_method *m = rpc_builtin_methods; m->name; m++)
		if (m == method)
			return true;
	return false;
}

static int unknown_method(
	const struct kw_rpc_server *server, const char *name, struct kw_error *error)
{
	struct kw_nearest nearest;
	const char *best;

	kw_nearest_init(&nearest, name);
	for (const struct kw_rpc_method *m = server->methods; m->name; m++)
		kw_nearest_try_path(&nearest, m->name);
	for (const struct kw_rpc_method *m = rpc_builtin_methods; m->name; m++)
		kw_nearest_try_path(&nearest, m->name);
	best = kw_nearest_word(&nearest);
	if (best)
		return kw_error_set(error, KW_E_ARGUMENT,
			"%s has no method %.60s: did you mean %s?", server->program, name, best);
	return kw_error_set(error, KW_E_ARGUMENT, "%s has no method %.60s (rpc.methods lists them)",
		server->program, name);
}

/* Is the object a request? Anything but the four members is refused before any effect. */
static int check_request(json_t *request, struct kw_error *error)
{
	const json_t *id = json_object_get(request, "id");
	const json_t *dialect = json_object_get(request, "jsonrpc");
	const char *name;
	json_t *value;

	if (json_is_array(request))
		return kw_error_set(error, KW_E_PROTOCOL,
			"batches are not supported: send one object a line, without waiting");
	if (!json_is_object(request))
		return kw_error_set(error, KW_E_PROTOCOL,
			"a request is an object, like "
			"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"status\"}");
	if (dialect && (!json_is_string(dialect) || strcmp(json_string_value(dialect), "2.0") != 0))
		return kw_error_set(error, KW_E_PROTOCOL, "jsonrpc must be \"2.0\"");
	if (id && !json_is_string(id) && !json_is_number(id) && !json_is_null(id))
		return kw_error_set(error, KW_E_PROTOCOL, "id must be a text, a number or null");
	if (!json_is_string(json_object_get(request, "method")))
		return kw_error_set(error, KW_E_PROTOCOL, "method is missing, or not a text");
	json_object_foreach(request, name, value)
	{
		if (strcmp(name, "jsonrpc") && strcmp(name, "id") && strcmp(name, "method") &&
			strcmp(name, "params"))
			return kw_error_set(error, KW_E_PROTOCOL,
				"a request has no member %.60s (parameters go into params)", name);
	}
	return 0;
}

static void dispatch_request(struct rpc_connection *connection, json_t *request)
{
	struct kw_rpc_server *server = connection->server;
	json_t *params = json_object_get(request, "params");
	json_t *id = json_object_get(request, "id");
	const struct kw_rpc_method *method;
	struct kw_rpc_call *call;
	struct kw_error error;
	void *arg;
	int code = 0;

	if (check_request(request, &error)) {
		/* An id of a wrong type cannot be given back. */
		if (json_is_object(id) || json_is_array(id) || json_is_boolean(id))
			id = NULL;
		rpc_call_answer_error(connection, id, KW_RPC_INVALID, error.text, NULL);
		return;
	}
	method = rpc_method_find(server, json_string_value(json_object_get(request, "method")));
	if (!method) {
		unknown_method(
			server, json_string_value(json_object_get(request, "method")), &error);
		code = KW_RPC_NO_METHOD;
	} else if (check_params(method, params, &error)) {
		code = KW_RPC_BAD_PARAMS;
	}
	/* A notification (no id) gets no answer, not even this one. */
	if (code && id)
		rpc_call_answer_error(connection, id, code, error.text, NULL);
	if (code)
		return;
	call = call_new(connection, id, params);
	arg = rpc_method_is_builtin(method) ? server : server->arg;
	method->handler(arg, call, call->params);
}

static bool is_blank(const char *line, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r')
			return false;
	return true;
}

void rpc_call_dispatch(struct rpc_connection *connection, const char *line, size_t length)
{
	json_error_t where;
	json_t *request;
	char text[KW_ERROR_TEXT];

	if (is_blank(line, length))
		return;
	request = json_loadb(line, length, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &where);
	if (!request) {
		snprintf(text, sizeof text, "not JSON: column %d: %s", where.column, where.text);
		rpc_call_answer_error(connection, NULL, KW_RPC_PARSE, text, NULL);
		return;
	}
	dispatch_request(connection, request);
	json_decref(request);
}

char *rpc_event_line(const char *kind, json_t *params, size_t *length)
{
	json_t *copy = params ? json_copy(params) : json_object();
	json_t *event;
	char *line;

	json_object_set_new(copy, "kind", kw_json_text(kind));
	event = json_pack("{s:s,s:s,s:o}", "jsonrpc", "2.0", "method", "event", "params", copy);
	line = event ? json_dumps(event, JSON_COMPACT | KW_JSON_DIGITS) : NULL;
	json_decref(event);
	if (!line)
		return NULL;
	*length = strlen(line) + 1;
	line[*length - 1] = '\n';
	return line;
}
