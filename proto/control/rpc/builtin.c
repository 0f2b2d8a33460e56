/* The methods every daemon has. */
#include "control/rpc/internal.h"

#include "base/log.h"
#include "control/json_text.h"

#include <string.h>
#include <unistd.h>

static json_t *describe(const struct kw_rpc_method *method)
{
	json_t *params = json_array();

	for (int i = 0; i < KW_RPC_PARAMS_MAX && method->params[i].name; i++) {
		const struct kw_rpc_param *param = &method->params[i];

		json_array_append_new(
			params, json_pack("{s:s,s:s,s:b,s:s}", "name", param->name, "type",
					kw_json_type_name(param->type), "required",
					(int)param->required, "doc", param->doc ? param->doc : ""));
	}
	return json_pack("{s:s,s:s,s:o}", "name", method->name, "doc",
		method->doc ? method->doc : "", "params", params);
}

static void answer_methods(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	struct kw_rpc_server *server = arg;
	json_t *list = json_array();

	for (const struct kw_rpc_method *m = server->methods; m->name; m++)
		json_array_append_new(list, describe(m));
	/* A daemon's method goes before a built-in one of the same name. */
	for (const struct kw_rpc_method *m = rpc_builtin_methods; m->name; m++)
		if (rpc_method_find(server, m->name) == m)
			json_array_append_new(list, describe(m));
	kw_rpc_result(call, list);
}

static void answer_version(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	struct kw_rpc_server *server = arg;

	kw_rpc_result(call, json_pack("{s:s,s:s,s:i}", "program", server->program, "version",
				    KW_VERSION, "pid", (int)getpid()));
}

static void set_log_level(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	const char *word = json_string_value(json_object_get(params, "level"));
	const char *before = kw_log_level_name(kw_log_level());
	int level = kw_log_level_parse(word);

	if (level < 0) {
		kw_rpc_fail(call, KW_RPC_BAD_PARAMS,
			"level must be error, warn, info, debug or trace; given %.40s", word);
		return;
	}
	kw_log_set_level((enum kw_log_level)level);
	kw_rpc_result(call, json_pack("{s:s,s:s}", "level",
				    kw_log_level_name((enum kw_log_level)level), "before", before));
}

static void subscribe(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	if (call->connection)
		call->connection->subscribed = true;
	kw_rpc_result(call, json_pack("{s:b}", "subscribed", 1));
}

const struct kw_rpc_method rpc_builtin_methods[] = {
	{"version", "The program's name, version and process id.", {{0}}, answer_version},
	{"log.set", "Set the level below which nothing is logged, until the next start.",
		{{"level", JSON_STRING, true, "error, warn, info, debug or trace"}}, set_log_level},
	{"events.subscribe",
		"Send log lines and changes of state on this connection as they happen.", {{0}},
		subscribe},
	{"log.lines", "The last lines of the log, or those after a number.",
		{{"count", JSON_INTEGER, false, "no more than the last so many of them"},
			{"level", JSON_STRING, false, "only lines as serious as that"},
			{"after", JSON_INTEGER, false, "only lines after the one of this number"},
			{"run", JSON_INTEGER, false, "of which answer that number is"},
			{"wait", JSON_TRUE, false, "with after: answer when there is a line"}},
		rpc_log_lines},
	{"rpc.methods", "Every method with its parameters.", {{0}}, answer_methods},
	{0},
};

static void on_log_line(void *arg, enum kw_log_level level, const char *where, const char *text)
{
	struct kw_rpc_server *server = arg;
	bool wanted = false;

	for (struct rpc_connection *c = server->connections; c && !wanted; c = c->next)
		wanted = c->subscribed && !rpc_is_closing(c);
	if (wanted)
		kw_rpc_event(server, "log",
			json_pack("{s:s,s:o,s:o}", "level", kw_log_level_name(level), "where",
				kw_json_text(where), "text", kw_json_text(text)));
}

void rpc_builtin_log_tap(struct kw_rpc_server *server)
{
	server->tapping = true;
	kw_log_set_tap(on_log_line, server);
}

void rpc_builtin_log_untap(struct kw_rpc_server *server)
{
	if (server->tapping)
		kw_log_set_tap(NULL, NULL);
	server->tapping = false;
}
