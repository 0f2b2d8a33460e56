#include "control/daemon.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/log.h"

#include <jansson.h>
#include <stdlib.h>

void kw_daemon_begin(struct kw_daemon *daemon, uv_loop_t *loop, const char *component)
{
	daemon->begun_us = kw_wall_us();
	kw_turns_begin(&daemon->turns, loop, component);
	kw_transitions_file_open(&daemon->kept, loop,
		kw_config_text(daemon->config, "control.history_file"), &daemon->transitions);
}

void kw_daemon_end(struct kw_daemon *daemon)
{
	kw_turns_end(&daemon->turns);
	kw_transitions_file_close(&daemon->kept);
}

void kw_daemon_close(struct kw_daemon *daemon)
{
	kw_transitions_close(&daemon->transitions);
}

void kw_daemon_history(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	struct kw_daemon *daemon = arg;

	kw_rpc_result(call, kw_transitions_json(&daemon->transitions, SIZE_MAX));
}

bool kw_daemon_moved(
	struct kw_daemon *daemon, const char *state, const char *code, const char *reason)
{
	bool added = kw_transitions_add(&daemon->transitions, kw_wall_us(), state, code, reason);

	if (added)
		kw_transitions_file_changed(&daemon->kept);
	kw_http_server_news(daemon->http);
	return daemon->moves++ == 0 || added;
}

/* A state of the process before is not this one's. */
static uint64_t since_us(const struct kw_daemon *daemon, const char *state)
{
	uint64_t us = kw_transitions_since_us(&daemon->transitions, state);

	return us > daemon->begun_us ? us : daemon->begun_us;
}

void kw_daemon_tell_reason(
	const struct kw_daemon *daemon, json_t *status, const struct kw_reason_row *row)
{
	const char *state = json_string_value(json_object_get(status, "state"));

	json_object_set_new(status, "reason_code", json_string(row->code));
	json_object_set_new(status, "grade", json_string(kw_grade_name(row->grade)));
	json_object_set_new(status, "remedy", json_string(row->remedy));
	json_object_set_new(status, "since_us", json_integer((json_int_t)since_us(daemon, state)));
}

static void get_saved(struct kw_daemon *daemon, struct kw_rpc_call *call)
{
	struct kw_buffer text = {0};
	struct kw_error error;

	if (kw_config_saved_json(daemon->config, &text, &error))
		kw_rpc_fail_error(call, &error);
	else
		kw_rpc_result(call, json_loadb((const char *)kw_buffer_bytes(&text),
					    kw_buffer_length(&text), 0, NULL));
	kw_buffer_close(&text);
}

void kw_daemon_config_get(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	struct kw_daemon *daemon = arg;
	const char *path = json_string_value(json_object_get(params, "path"));
	struct kw_buffer text = {0};
	struct kw_error error;
	json_t *value;

	if (json_is_true(json_object_get(params, "saved"))) {
		get_saved(daemon, call);
		return;
	}
	if (path && kw_config_check_path(daemon->config, path, &error)) {
		kw_rpc_fail_error(call, &error);
		return;
	}
	if (json_is_true(json_object_get(params, "sources")))
		kw_config_sources_json(daemon->config, path, &text);
	else
		kw_config_json(daemon->config, path, &text);
	value = json_loadb((const char *)kw_buffer_bytes(&text), kw_buffer_length(&text),
		JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
	kw_buffer_close(&text);
	kw_rpc_result(call, value ? value : json_null());
}

void kw_daemon_config_set(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	struct kw_daemon *daemon = arg;
	const char *path = json_string_value(json_object_get(params, "path"));
	char *value = json_dumps(json_object_get(params, "value"), JSON_ENCODE_ANY);
	bool save = json_is_true(json_object_get(params, "save"));
	struct kw_error error;
	int code;

	code = (save ? kw_config_change_and_save : kw_config_change)(
		daemon->config, path, value ? value : "null", daemon->changed, daemon, &error);
	free(value);
	if (code)
		kw_rpc_fail_error(call, &error);
	else
		kw_rpc_result(call, json_pack("{s:s,s:b,s:o*}", "path", path, "changed", true,
					    "saved", save ? json_true() : NULL));
}

/* "keys 12, revoked 1": what the daemon added to the answer. */
static void log_added(const json_t *answer)
{
	struct kw_buffer text = {0};
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)answer, name, value) if (json_is_integer(value))
		kw_buffer_printf(&text, "%s%s %" JSON_INTEGER_FORMAT,
			kw_buffer_length(&text) ? ", " : "", name, json_integer_value(value));
	kw_log_info("config", "reloaded%s%.*s", kw_buffer_length(&text) ? ": " : "",
		(int)kw_buffer_length(&text), (const char *)kw_buffer_bytes(&text));
	kw_buffer_close(&text);
}

static int read_files(struct kw_daemon *daemon, json_t *answer, struct kw_error *error)
{
	struct kw_http_guard *guard;
	int code = kw_http_server_reread(daemon->http, daemon->config, &guard, error);

	if (!code && daemon->reloaded)
		code = daemon->reloaded(daemon, answer, error);
	if (!code)
		kw_http_server_put(daemon->http, guard);
	else
		kw_http_guard_drop(guard);
	if (code)
		kw_log_error(
			"config", "the configuration file was read again, but %s", error->text);
	else
		log_added(answer);
	return code;
}

void kw_daemon_log_passed_over(const struct kw_config *config)
{
	const char *names = kw_config_passed_over(config);

	if (*names)
		kw_log_warn("config",
			"this version does not know these keys, and passes them over: %s", names);
}

/* The answer of config.reload. NULL: *error says why. */
static json_t *reload(struct kw_daemon *daemon, struct kw_error *error)
{
	struct kw_buffer notes = {0};
	json_t *answer = NULL;

	if (kw_config_reload(daemon->config, daemon->changed, daemon, &notes, error)) {
		kw_log_error("config", "reload: %s; all stays as it was", error->text);
	} else {
		const char *text =
			kw_buffer_length(&notes) ? (const char *)kw_buffer_bytes(&notes) : "";

		answer = json_pack("{s:b,s:s%}", "reloaded", true, "needs_restart", text,
			(int)kw_buffer_length(&notes));
		if (*text)
			kw_log_warn("config", "only a restart takes up: %.*s",
				(int)kw_buffer_length(&notes), text);
		kw_daemon_log_passed_over(daemon->config);
		if (read_files(daemon, answer, error)) {
			json_decref(answer);
			answer = NULL;
		}
	}
	kw_buffer_close(&notes);
	return answer;
}

void kw_daemon_config_reload(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	struct kw_error error;
	json_t *answer = reload(arg, &error);

	if (answer)
		kw_rpc_result(call, answer);
	else
		kw_rpc_fail_error(call, &error);
}

void kw_daemon_reload(struct kw_daemon *daemon)
{
	struct kw_error error;

	json_decref(reload(daemon, &error));
}
