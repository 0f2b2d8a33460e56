#include "methods.h"

#include "base/buffer.h"
#include "base/log.h"
#include "export.h"
#include "get.h"
#include "verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define NO_INDEX                                                                                   \
	"the key of this agent has databases= or prefix=, and may not look keys up in the table: " \
	"use a key without them"

struct kw_inspect {
	uv_loop_t *loop;
	struct kw_agent *agent;
	struct kw_get *get;
	uint64_t connections; /* to the proxy, when the get last knew of one */
	struct kw_verify *verify;
	struct kw_rpc_call *verify_call;
	struct kw_export *export;
	struct kw_rpc_call *export_call;
	struct kw_rpc_server *server; /* for events; may be NULL */
	bool get_open, closing;
	void (*done)(void *arg);
	void *done_arg;
};

static struct kw_remote *remote_of(void *arg)
{
	const struct kw_inspect *inspect = arg;
	const struct kw_follow *follow = &inspect->agent->follow;

	return kw_follow_up(follow) ? follow->remote : NULL;
}

struct kw_inspect *kw_inspect_new(uv_loop_t *loop, struct kw_agent *agent)
{
	struct kw_inspect *inspect = kw_zalloc(sizeof *inspect);

	inspect->loop = loop;
	inspect->agent = agent;
	inspect->get = kw_get_new(loop, remote_of, inspect);
	inspect->get_open = true;
	return inspect;
}

void kw_inspect_set_server(struct kw_inspect *inspect, struct kw_rpc_server *server)
{
	inspect->server = server;
}

/* A key as JSON: text as it is; what is not UTF-8 with \xNN for each byte beyond ASCII. */
static json_t *key_json(struct kw_slice key)
{
	json_t *text = json_stringn(key.length ? key.data : "", key.length);
	struct kw_buffer shown = {0};
	const uint8_t *bytes = key.data;

	if (text)
		return text;
	for (size_t i = 0; i < key.length; i++)
		kw_buffer_printf(
			&shown, bytes[i] < 0x80 && bytes[i] >= 0x20 ? "%c" : "\\x%02x", bytes[i]);
	text = json_stringn((const char *)kw_buffer_bytes(&shown), kw_buffer_length(&shown));
	kw_buffer_close(&shown);
	return text;
}

/* ---- get ---- */

static json_t *result_json(const struct kw_get_result *result)
{
	json_t *answer = json_pack("{s:b,s:s,s:I,s:I,s:I,s:i}", "found", 1, "type", result->type,
		"bytes", (json_int_t)result->bytes, "expires_ms", (json_int_t)result->expires_ms,
		"version", (json_int_t)result->version, "rdb_version", (int)result->rdb_version);

	if (*result->digest)
		json_object_set_new(answer, "digest", json_string(result->digest));
	if (result->text.data)
		json_object_set_new(answer, "text", key_json(result->text));
	return answer;
}

static void on_got(void *arg, const struct kw_get_result *result, const struct kw_error *error)
{
	struct kw_rpc_call *call = arg;

	if (error)
		kw_rpc_fail_error(call, error);
	else if (!result->found)
		kw_rpc_fail(call, KW_RPC_CODE(KW_E_GONE), "get: the table holds no such key");
	else
		kw_rpc_result(call, result_json(result));
}

/* The proxy hides the index from a key with a scope: nothing can be looked up. */
static bool is_scoped(const struct kw_inspect *inspect)
{
	const struct kw_follow *follow = &inspect->agent->follow;

	return kw_follow_up(follow) && follow->info.scoped;
}

void kw_inspect_get(struct kw_inspect *inspect, struct kw_rpc_call *call, const json_t *params)
{
	const json_t *key = json_object_get(params, "key");
	json_int_t database = json_integer_value(json_object_get(params, "database"));
	uint64_t connections = inspect->agent->follow.reconnects;
	struct kw_error error;

	if (database < 0 || database > KW_DATABASE_MAX) {
		kw_rpc_fail(call, KW_RPC_CODE(KW_E_ARGUMENT),
			"get: database must lie between 0 and %d", KW_DATABASE_MAX);
		return;
	}
	if (is_scoped(inspect)) {
		kw_rpc_fail(call, KW_RPC_CODE(KW_E_STATE), "get: " NO_INDEX);
		return;
	}
	if (connections != inspect->connections)
		kw_get_lost(inspect->get);
	inspect->connections = connections;
	if (kw_get_ask(inspect->get, (uint32_t)database,
		    kw_slice(json_string_value(key), json_string_length(key)), on_got, call,
		    &error))
		kw_rpc_fail_error(call, &error);
}

/* ---- verify ---- */

static void add_list(json_t *answer, const char *name, const struct kw_verify_list *list)
{
	json_t *names = json_array();
	char count[32];

	for (int i = 0; i < list->named; i++)
		json_array_append_new(names,
			json_pack("{s:I,s:o}", "database", (json_int_t)list->names[i].database,
				"key", key_json(list->names[i].key)));
	json_object_set_new(answer, name, names);
	snprintf(count, sizeof count, "%s_count", name);
	json_object_set_new(answer, count, json_integer((json_int_t)list->count));
}

static json_t *verified_json(const struct kw_verify_result *result)
{
	json_t *answer = json_pack("{s:I,s:I,s:I,s:I,s:I,s:b,s:f}", "checked",
		(json_int_t)result->checked, "equal", (json_int_t)result->equal, "unsettled",
		(json_int_t)result->unsettled, "scanned", (json_int_t)result->scanned, "rechecked",
		(json_int_t)result->rechecked, "sampled", (int)result->sampled, "seconds",
		result->seconds);

	add_list(answer, "different", &result->different);
	add_list(answer, "missing", &result->missing);
	add_list(answer, "extra", &result->extra);
	return answer;
}

static void close_parts(struct kw_inspect *inspect);

static void on_verified(
	void *arg, const struct kw_verify_result *result, const struct kw_error *error)
{
	struct kw_inspect *inspect = arg;

	inspect->verify = NULL;
	if (error)
		kw_rpc_fail_error(inspect->verify_call, error);
	else
		kw_rpc_result(inspect->verify_call, verified_json(result));
	if (inspect->closing)
		close_parts(inspect);
}

static void on_verify_progress(void *arg, const struct kw_verify_progress *so_far)
{
	struct kw_inspect *inspect = arg;

	if (inspect->server)
		kw_rpc_event(inspect->server, "verify",
			json_pack("{s:I,s:f}", "keys", (json_int_t)so_far->keys, "progress",
				so_far->share));
}

bool kw_inspect_verifies(const struct kw_inspect *inspect)
{
	return inspect->verify != NULL;
}

/* Can it begin now? */
static int may_verify(const struct kw_inspect *inspect, json_int_t sample, struct kw_error *error)
{
	const struct kw_agent *agent = inspect->agent;

	if (sample < 0)
		return kw_error_set(error, KW_E_ARGUMENT,
			"verify: sample is a number of keys, 0 for all of them");
	if (inspect->closing)
		return kw_error_set(error, KW_E_STATE, "verify: the agent is shutting down");
	if (inspect->verify)
		return kw_error_set(error, KW_E_STATE,
			"verify: one is running already, %llu keys compared so far",
			(unsigned long long)kw_verify_checked(inspect->verify));
	if (is_scoped(inspect))
		return kw_error_set(error, KW_E_STATE, "verify: " NO_INDEX);
	if (!kw_pair_needs_local(agent->pair))
		return kw_error_set(error, KW_E_STATE,
			"verify: apply.mode %s has no local server to compare with",
			kw_pair_mode(agent->pair));
	if (!kw_follow_up(&agent->follow))
		return kw_error_set(error, KW_E_STATE,
			"verify: there is no connection to the proxy at the moment");
	if (!kw_local_ready(&agent->local))
		return kw_error_set(error, KW_E_STATE, "verify: %s", kw_local_why(&agent->local));
	return KW_OK;
}

void kw_inspect_verify(struct kw_inspect *inspect, struct kw_rpc_call *call, const json_t *params)
{
	struct kw_agent *agent = inspect->agent;
	const struct kw_local *local = &agent->local;
	const struct kw_server_identity *identity = &local->facts.identity;
	json_int_t sample = json_integer_value(json_object_get(params, "sample"));
	struct kw_verify_options options = {
		.loop = inspect->loop,
		.remote = remote_of,
		.remote_arg = inspect,
		.redis = local->options.redis,
		.pexpiretime = identity->valkey || identity->major >= 7,
		.filter = &agent->filter,
		.sample = sample > 0 ? (uint64_t)sample : 0,
		.progress = on_verify_progress,
	};
	struct kw_error error;

	snprintf(options.redis.client_name, sizeof options.redis.client_name, "keywake-verify");
	if (kw_local_store_is_key(local))
		snprintf(options.cursor_key, sizeof options.cursor_key, "%s",
			local->options.cursor_name);
	if (may_verify(inspect, sample, &error) ||
		kw_verify_start(&options, on_verified, inspect, &inspect->verify, &error))
		kw_rpc_fail_error(call, &error);
	else
		inspect->verify_call = call; /* on_verified comes from the loop, not from within */
}

/* ---- export ---- */

static const char *source_name(uint8_t state)
{
	static const char *const names[] = {[KW_SOURCE_CONNECTING] = "connecting",
		[KW_SOURCE_SCANNING] = "scanning",
		[KW_SOURCE_LIVE] = "live",
		[KW_SOURCE_RECONCILING] = "reconciling",
		[KW_SOURCE_FULL] = "table_full",
		[KW_SOURCE_DOWN] = "source_down",
		[KW_SOURCE_HELD] = "held",
		[KW_SOURCE_UNCONFIRMED] = "unconfirmed",
		[KW_SOURCE_STALLED] = "stalled"};

	return state < sizeof names / sizeof *names ? names[state] : "unknown";
}

static bool export_wanted(void *arg)
{
	const struct kw_inspect *inspect = arg;

	return kw_rpc_call_wanted(inspect->export_call);
}

static void on_export_progress(void *arg, const struct kw_export_result *so_far)
{
	struct kw_inspect *inspect = arg;

	if (inspect->server)
		kw_rpc_event(inspect->server, "export",
			json_pack("{s:I,s:I,s:f}", "keys", (json_int_t)so_far->keys, "bytes",
				(json_int_t)so_far->bytes, "progress", so_far->progress));
}

static json_t *exported_json(const struct kw_export_result *result)
{
	return json_pack("{s:I,s:I,s:f,s:b,s:s,s:I,s:I,s:I,s:I,s:i}", "keys",
		(json_int_t)result->keys, "bytes", (json_int_t)result->bytes, "seconds",
		result->seconds, "one_moment", (int)result->one_moment, "source",
		source_name(result->source_state), "begun_us", (json_int_t)result->begun_us,
		"fresh_us", (json_int_t)result->fresh_us, "version", (json_int_t)result->version,
		"epoch", (json_int_t)result->epoch, "rdb_version", (int)result->rdb_version);
}

static void on_exported(
	void *arg, const struct kw_export_result *result, const struct kw_error *error)
{
	struct kw_inspect *inspect = arg;

	inspect->export = NULL;
	if (error) {
		kw_log_warn("export", "not complete after %llu keys, %llu bytes: %s",
			(unsigned long long)result->keys, (unsigned long long)result->bytes,
			error->text);
		kw_rpc_fail_error(inspect->export_call, error);
	} else {
		kw_log_info("export", "%llu keys, %llu bytes in %.1f s",
			(unsigned long long)result->keys, (unsigned long long)result->bytes,
			result->seconds);
		kw_rpc_result(inspect->export_call, exported_json(result));
	}
	if (inspect->closing)
		close_parts(inspect);
}

/* Can it begin now? A local server is not needed, and a paused agent is connected too. */
static int may_export(struct kw_inspect *inspect, int fd, struct kw_error *error)
{
	if (fd < 0)
		return kw_error_set(error, KW_E_ARGUMENT,
			"export: pass the writing end of a pipe with the request (SCM_RIGHTS), as "
			"keywakectl export does");
	if (inspect->closing)
		return kw_error_set(error, KW_E_STATE, "export: the agent is shutting down");
	if (inspect->export)
		return kw_error_set(error, KW_E_STATE,
			"export: one is running already, %.0f %% of the table read so far; try "
			"again when it has ended",
			kw_export_result(inspect->export)->progress * 100);
	if (!kw_follow_up(&inspect->agent->follow))
		return kw_error_set(error, KW_E_STATE,
			"export: there is no connection to the proxy at the moment");
	return KW_OK;
}

void kw_inspect_export(struct kw_inspect *inspect, struct kw_rpc_call *call)
{
	const struct kw_export_options options = {
		.loop = inspect->loop,
		.remote = remote_of,
		.remote_arg = inspect,
		.filter = &inspect->agent->filter,
		.fd = kw_rpc_call_take_fd(call),
	};
	const struct kw_export_handlers handlers = {
		export_wanted, on_export_progress, on_exported, inspect};
	struct kw_error error;

	if (may_export(inspect, options.fd, &error) ||
		kw_export_start(&options, &handlers, &inspect->export, &error)) {
		if (options.fd >= 0)
			close(options.fd);
		kw_rpc_fail_error(call, &error);
		return;
	}
	inspect->export_call = call; /* the handlers are called from the loop, not from within */
}

/* ---- the end ---- */

static void on_get_closed(void *arg)
{
	struct kw_inspect *inspect = arg;

	inspect->get_open = false;
	close_parts(inspect);
}

static void close_parts(struct kw_inspect *inspect)
{
	if (inspect->get_open || inspect->verify || inspect->export)
		return;
	inspect->done(inspect->done_arg);
	free(inspect);
}

void kw_inspect_close(struct kw_inspect *inspect, void (*done)(void *arg), void *arg)
{
	inspect->closing = true;
	inspect->done = done;
	inspect->done_arg = arg;
	kw_get_close(inspect->get, on_get_closed, inspect);
	if (inspect->verify)
		kw_verify_cancel(inspect->verify, "the agent is shutting down");
	if (inspect->export)
		kw_export_cancel(inspect->export, "the agent is shutting down");
}
