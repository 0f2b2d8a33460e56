/*
 * A daemon for the tests of keywakectl: fake_daemon SOCKET PROGRAM. It answers what `fake.answer`
 * told it to, remembers what it was asked, and is otherwise the real server. In an answer to
 * status, fresh_us is the present moment plus fresh_from_now_us, where that is given. verify is
 * answered after its after_ms.
 */
#include "base/buffer.h"
#include "base/clock.h"
#include "base/log.h"
#include "control/rpc/rpc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fake {
	uv_loop_t loop;
	struct kw_rpc_server *server;
	json_t *answers; /* by method */
	json_t *asked;   /* [method, params] each */
};

struct delayed {
	uv_timer_t timer;
	struct kw_rpc_call *call;
	json_t *answer;
};

static void answer(
	struct fake *fake, struct kw_rpc_call *call, const char *method, const json_t *params)
{
	json_t *canned = json_object_get(fake->answers, method);
	json_t *from_now = json_object_get(canned, "fresh_from_now_us");
	json_t *result;

	json_array_append_new(fake->asked, json_pack("[s,O]", method, params));
	if (json_is_string(json_object_get(canned, "refuse"))) {
		kw_rpc_fail(call, KW_RPC_CODE(KW_E_STATE), "%s",
			json_string_value(json_object_get(canned, "refuse")));
		return;
	}
	if (!canned) {
		kw_rpc_result(call, json_null());
		return;
	}
	result = json_deep_copy(canned);
	if (from_now) {
		json_object_del(result, "fresh_from_now_us");
		json_object_set_new(result, "fresh_us",
			json_integer((json_int_t)kw_wall_us() + json_integer_value(from_now)));
	}
	kw_rpc_result(call, result);
}

#define CANNED(function, method)                                                                   \
	static void function(void *arg, struct kw_rpc_call *call, const json_t *params)            \
	{                                                                                          \
		answer(arg, call, method, params);                                                 \
	}

CANNED(on_status, "status")
CANNED(on_metrics, "metrics")
CANNED(on_agents, "agents.list")
CANNED(on_disconnect, "agents.disconnect")
CANNED(on_get, "get")
CANNED(on_pause, "pause")
CANNED(on_resume, "resume")
CANNED(on_resync, "resync")
CANNED(on_approve, "approve")
CANNED(on_reconcile, "reconcile")
CANNED(on_config_get, "config.get")
CANNED(on_config_set, "config.set")
CANNED(on_config_reload, "config.reload")
CANNED(on_history, "history")
CANNED(on_lag, "lag")

static void on_timer_closed(uv_handle_t *handle)
{
	free(handle->data);
}

static void on_timer(uv_timer_t *timer)
{
	struct delayed *delayed = timer->data;

	kw_rpc_result(delayed->call, delayed->answer);
	uv_close((uv_handle_t *)timer, on_timer_closed);
}

#define VERIFY_MS 100

/* verify answers later, as it does where there is something to verify. */
static void on_verify(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	struct fake *fake = arg;
	const json_t *canned = json_object_get(fake->answers, "verify");
	json_int_t after_ms = json_integer_value(json_object_get(canned, "after_ms"));
	struct delayed *delayed;

	if (json_object_get(json_object_get(fake->answers, "verify"), "refuse")) {
		answer(fake, call, "verify", params);
		return;
	}
	delayed = kw_zalloc(sizeof *delayed);

	json_array_append_new(fake->asked, json_pack("[s,O]", "verify", params));
	delayed->call = call;
	delayed->answer = json_incref(json_object_get(fake->answers, "verify"));
	delayed->timer.data = delayed;
	uv_timer_init(&fake->loop, &delayed->timer);
	uv_timer_start(&delayed->timer, on_timer, after_ms ? (uint64_t)after_ms : VERIFY_MS, 0);
}

static void on_closed(void *arg)
{
}

static void on_shutdown(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	struct fake *fake = arg;

	kw_rpc_result(call, json_pack("{s:b}", "stopping", 1));
	kw_rpc_server_close(fake->server, on_closed, NULL);
}

static void on_fake_answer(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	struct fake *fake = arg;

	json_object_set(fake->answers, json_string_value(json_object_get(params, "method")),
		json_object_get(params, "result"));
	kw_rpc_result(call, json_null());
}

/* Lines of the log: the text, and which one of them it is. */
static void on_fake_log(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	const char *level = json_string_value(json_object_get(params, "level"));
	const char *text = json_string_value(json_object_get(params, "text"));
	json_int_t count = json_integer_value(json_object_get(params, "count"));

	for (json_int_t i = 0; i < count; i++)
		kw_log((enum kw_log_level)kw_log_level_parse(level), "fake",
			"%s %" JSON_INTEGER_FORMAT, text, i);
	kw_rpc_result(call, json_null());
}

static void on_fake_event(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	struct fake *fake = arg;

	kw_rpc_event(fake->server, json_string_value(json_object_get(params, "kind")),
		json_deep_copy(json_object_get(params, "params")));
	kw_rpc_result(call, json_null());
}

static void on_fake_asked(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	struct fake *fake = arg;

	kw_rpc_result(call, json_deep_copy(fake->asked));
	json_array_clear(fake->asked);
}

#define ANY JSON_NULL

static const struct kw_rpc_method methods[] = {
	{"status", "What goes on.", {{0}}, on_status},
	{"metrics", "How much.", {{0}}, on_metrics},
	{"agents.list", "Who is connected.", {{0}}, on_agents},
	{"agents.disconnect", "End one.", {{"id", JSON_INTEGER, true, "which"}}, on_disconnect},
	{"get", "Look a key up.",
		{{"key", JSON_STRING, true, "the key"}, {"database", JSON_INTEGER, false, "its"}},
		on_get},
	{"verify", "Compare.", {{"sample", JSON_INTEGER, false, "how many"}}, on_verify},
	{"pause", "Stop applying.", {{0}}, on_pause},
	{"resume", "Go on.", {{0}}, on_resume},
	{"resync", "Read all again.", {{0}}, on_resync},
	{"approve", "Approve.", {{0}}, on_approve},
	{"reconcile", "Scan again.", {{0}}, on_reconcile},
	{"config.get", "Show.", {{"path", JSON_STRING, false, "key or group"}}, on_config_get},
	{"config.set", "Change.",
		{{"path", JSON_STRING, true, "key"}, {"value", ANY, true, "new value"}},
		on_config_set},
	{"config.reload", "Read again.", {{0}}, on_config_reload},
	{"history", "What happened.", {{0}}, on_history},
	{"lag", "Where the time goes.", {{"reset", JSON_TRUE, false, "begin anew"}}, on_lag},
	{"shutdown", "End.", {{"promote", JSON_TRUE, false, "or not"}}, on_shutdown},
	{"fake.answer", "Tell the fake what to answer.",
		{{"method", JSON_STRING, true, "to what"}, {"result", ANY, true, "what"}},
		on_fake_answer},
	{"fake.log", "Write lines into the log.",
		{{"level", JSON_STRING, true, "theirs"}, {"text", JSON_STRING, true, "theirs"},
			{"count", JSON_INTEGER, true, "how many"}},
		on_fake_log},
	{"fake.event", "Tell those who listen.",
		{{"kind", JSON_STRING, true, "its"}, {"params", JSON_OBJECT, true, "its"}},
		on_fake_event},
	{"fake.asked", "What was asked since the last time.", {{0}}, on_fake_asked},
	{0},
};

int main(int argc, char **argv)
{
	struct fake fake = {.answers = json_object(), .asked = json_array()};
	struct kw_error error;

	if (argc != 3)
		return 2;
	uv_loop_init(&fake.loop);
	if (kw_rpc_server_new(&fake.loop, argv[1], methods, argv[2], &fake, &fake.server, &error)) {
		fprintf(stderr, "fake_daemon: %s\n", error.text);
		return 1;
	}
	uv_run(&fake.loop, UV_RUN_DEFAULT);
	json_decref(fake.answers);
	json_decref(fake.asked);
	return uv_loop_close(&fake.loop) != 0;
}
