#include "control/daemon.h"

#include "base/buffer.h"
#include "base/log.h"

#include <jansson.h>
#include <stdlib.h>

void kw_daemon_config_get(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	struct kw_daemon *daemon = arg;
	const char *path = json_string_value(json_object_get(params, "path"));
	struct kw_buffer text = {0};
	struct kw_error error;
	json_t *value;

	if (path && kw_config_check_path(daemon->config, path, &error)) {
		kw_rpc_fail_error(call, &error);
		return;
	}
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
	struct kw_error error;
	int code;

	code = kw_config_change(
		daemon->config, path, value ? value : "null", daemon->changed, daemon, &error);
	free(value);
	if (code)
		kw_rpc_fail_error(call, &error);
	else
		kw_rpc_result(call, json_pack("{s:s,s:b}", "path", path, "changed", true));
}

static int read_files(struct kw_daemon *daemon, struct kw_error *error)
{
	int code = daemon->reloaded ? daemon->reloaded(daemon, error) : KW_OK;

	if (code)
		kw_log_error("config", "reloaded, but %s", error->text);
	return code;
}

static int reload(struct kw_daemon *daemon, struct kw_buffer *notes, struct kw_error *error)
{
	int code = kw_config_reload(daemon->config, daemon->changed, daemon, notes, error);

	if (code) {
		kw_log_error("config", "reload: %s; all stays as it was", error->text);
		return code;
	}
	if (kw_buffer_length(notes) > 0)
		kw_log_warn("config", "reloaded; only a restart takes up: %.*s",
			(int)kw_buffer_length(notes), (const char *)kw_buffer_bytes(notes));
	else
		kw_log_info("config", "reloaded");
	return read_files(daemon, error);
}

void kw_daemon_config_reload(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	struct kw_daemon *daemon = arg;
	struct kw_buffer notes = {0};
	struct kw_error error;

	if (reload(daemon, &notes, &error))
		kw_rpc_fail_error(call, &error);
	else
		kw_rpc_result(call,
			json_pack("{s:b,s:s%}", "reloaded", true, "needs_restart",
				kw_buffer_length(&notes) ? (const char *)kw_buffer_bytes(&notes)
							 : "",
				(int)kw_buffer_length(&notes)));
	kw_buffer_close(&notes);
}

void kw_daemon_reload(struct kw_daemon *daemon)
{
	struct kw_buffer notes = {0};
	struct kw_error error;

	reload(daemon, &notes, &error);
	kw_buffer_close(&notes);
}
