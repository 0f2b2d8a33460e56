#include "daemon.h"

#include "authority/lease.h"
#include "base/log.h"
#include "base/secret.h"
#include "control/config/certificates.h"
#include "control/config/tls.h"
#include "control/json_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/random.h>
#include <unistd.h>

/* ---- configuration ---- */

typedef int (*add_database_fn)(struct kw_filter *, int64_t, struct kw_error *);
typedef int (*add_text_fn)(struct kw_filter *, const char *, struct kw_error *);

static int read_databases(const struct kw_config *config, const char *path, add_database_fn add,
	struct kw_filter *filter, struct kw_error *error)
{
	int code = KW_OK;

	for (size_t i = 0; i < kw_config_count(config, path) && !code; i++)
		code = add(filter, kw_config_integer_at(config, path, i), error);
	return code;
}

static int read_texts(const struct kw_config *config, const char *path, add_text_fn add,
	struct kw_filter *filter, struct kw_error *error)
{
	int code = KW_OK;

	for (size_t i = 0; i < kw_config_count(config, path) && !code; i++)
		code = add(filter, kw_config_text_at(config, path, i), error);
	return code;
}

static int read_filter(
	const struct kw_config *config, struct kw_filter *filter, struct kw_error *error)
{
	int code;

	if ((code = read_databases(
		     config, "filter.databases", kw_filter_add_database, filter, error)) ||
		(code = read_databases(config, "filter.exclude_databases",
			 kw_filter_exclude_database, filter, error)) ||
		(code = read_texts(
			 config, "filter.prefixes", kw_filter_add_prefix, filter, error)) ||
		(code = read_texts(
			 config, "filter.patterns", kw_filter_add_pattern, filter, error)) ||
		(code = read_texts(config, "filter.exclude", kw_filter_exclude, filter, error)) ||
		(code = read_texts(
			 config, "filter.map_databases", kw_filter_map_database, filter, error)) ||
		(code = read_texts(config, "filter.rewrite_prefixes", kw_filter_rewrite_prefix,
			 filter, error)))
		return code;
	return kw_filter_check_names(filter, error);
}

/* A server that leads its data in loads them under the names of the table. */
static int check_names(
	const struct kw_filter *filter, const struct kw_mode *mode, struct kw_error *error)
{
	if (!kw_mode_leads(mode) || kw_naming_is_identity(&filter->names))
		return KW_OK;
	return kw_error_set(error, KW_E_CONFIG,
		"filter.%s: in mode %s the local server loads keys under the names of the table: "
		"use apply.mode=commands",
		filter->names.database_count > 0 ? "map_databases" : "rewrite_prefixes",
		mode->name);
}

static enum kw_shutdown read_shutdown(const struct kw_config *config)
{
	const char *word = kw_config_text(config, "apply.on_shutdown");

	return strcmp(word, "promote") == 0 ? KW_SHUTDOWN_PROMOTE : KW_SHUTDOWN_STAY;
}

static enum kw_link_tls read_link_tls(const struct kw_config *config)
{
	const char *word = kw_config_text(config, "apply.replica.tls");

	if (strcmp(word, "switch") == 0)
		return KW_LINK_TLS_SWITCH;
	return strcmp(word, "off") == 0 ? KW_LINK_TLS_OFF : KW_LINK_TLS_FOLLOW;
}

/* What goes plain must not leave the host. A socket of systemd's is judged when it is known. */
static int check_link_tls(const struct kw_config *config, struct kw_error *error)
{
	const char *listen = kw_config_text(config, "apply.replica.listen");
	struct sockaddr_storage address;
	char host[64];
	int code = kw_downlink_address(listen, &address, host, error);

	if (code)
		return kw_error_wrap(error, "apply.replica.listen");
	if (read_link_tls(config) != KW_LINK_TLS_SWITCH || !*host || kw_downlink_is_near(host))
		return KW_OK;
	return kw_error_set(error, KW_E_CONFIG,
		"apply.replica.tls: switch would send the local server in plain bytes to %s: use "
		"follow, or a loopback address in apply.replica.listen",
		host);
}

static enum kw_foreign read_foreign(const struct kw_config *config)
{
	const char *word = kw_config_text(config, "apply.foreign");

	return strcmp(word, "follow") == 0 ? KW_FOREIGN_FOLLOW : KW_FOREIGN_REFUSE;
}

static int read_apply(
	const struct kw_config *config, struct kw_agent_options *options, struct kw_error *error)
{
	const char *mode = kw_config_text(config, "apply.mode");
	const char *store = kw_config_text(config, "apply.cursor_store");
	const char *cursor_name = kw_config_text(config, "apply.cursor_name");
	int code = kw_cursor_name_check(cursor_name, error);

	if (code)
		return code;
	options->mode = kw_mode_find(mode);
	if (!options->mode)
		return kw_error_set(error, KW_E_CONFIG,
			"apply.mode: %s is not in this version: use commands", mode);
	if (kw_mode_leads(options->mode) && (code = check_link_tls(config, error)))
		return code;
	if (kw_mode_leads(options->mode) && strcmp(store, "key") == 0)
		return kw_error_set(error, KW_E_CONFIG,
			"apply.cursor_store: mode %s keeps the position in a function library: "
			"use auto or function",
			mode);
	if (kw_mode_leads(options->mode) && kw_config_integer(config, "apply.bytes_per_second"))
		return kw_error_set(error, KW_E_CONFIG,
			"apply.bytes_per_second: mode %s lets the local server load the snapshot, "
			"and a server answers no client while it waits for more of it: use "
			"apply.mode=commands, or 0",
			mode);
	snprintf(options->listen, sizeof options->listen, "%s",
		kw_config_text(config, "apply.replica.listen"));
	options->link_tls = read_link_tls(config);
	options->shutdown = read_shutdown(config);
	options->consent = kw_config_bool(config, "apply.consent");
	options->foreign = read_foreign(config);
	options->max_prune = kw_config_number(config, "apply.max_prune");
	options->window_bytes = (uint64_t)kw_config_integer(config, "apply.window_bytes");
	options->bytes_per_second = (uint64_t)kw_config_integer(config, "apply.bytes_per_second");
	snprintf(options->local.cursor_name, sizeof options->local.cursor_name, "%s", cursor_name);
	options->local.store = strcmp(store, "key") == 0        ? KW_STORE_KEY
			       : strcmp(store, "function") == 0 ? KW_STORE_FUNCTION
								: KW_STORE_AUTO;
	return KW_OK;
}

static int copy_text(const struct kw_config *config, const char *path, char *to, size_t size,
	struct kw_error *error)
{
	const char *text = kw_config_text(config, path);

	if (strlen(text) >= size)
		return kw_error_set(
			error, KW_E_CONFIG, "%s: longer than %zu characters", path, size - 1);
	memcpy(to, text, strlen(text) + 1);
	return KW_OK;
}

/* Connections from now on log in with it. */
static void show_password(struct kw_agent_daemon *daemon)
{
	daemon->present_password =
		kw_slice(kw_buffer_bytes(&daemon->password), kw_buffer_length(&daemon->password));
}

static int read_local(
	struct kw_agent_daemon *daemon, struct kw_redis_options *redis, struct kw_error *error)
{
	const struct kw_config *config = daemon->daemon.config;
	struct kw_tls_context *context;
	int code;

	if ((code = copy_text(
		     config, "redis.address", redis->address, sizeof redis->address, error)) ||
		(code = copy_text(
			 config, "redis.username", redis->username, sizeof redis->username, error)))
		return code;
	code = kw_secret_load(
		kw_config_text(config, "redis.password_file"), &daemon->password, error);
	if (code)
		return kw_error_wrap(error, "redis.password_file");
	show_password(daemon);
	redis->present_password = &daemon->present_password;
	if ((code = kw_tls_config_load_redis(config, &context, error)))
		return code;
	kw_tls_current_put(&daemon->redis_tls, context);
	redis->tls = &daemon->redis_tls;
	redis->ports = &daemon->ports;
	return KW_OK;
}

/* The local server's masterauth while no agent leads it. */
static int read_masterauth(
	struct kw_agent_daemon *daemon, struct kw_slice *masterauth, struct kw_error *error)
{
	const char *path = "apply.replica.masterauth_file";
	int code = kw_secret_load(
		kw_config_text(daemon->daemon.config, path), &daemon->masterauth, error);

	if (code)
		return kw_error_wrap(error, "%s", path);
	*masterauth = kw_slice(
		kw_buffer_bytes(&daemon->masterauth), kw_buffer_length(&daemon->masterauth));
	return KW_OK;
}

/* Certificates of the link to a server that replicates over TLS; *context NULL: there are none. */
static int load_link(
	const struct kw_config *config, struct kw_tls_context **context, struct kw_error *error)
{
	const struct kw_mode *mode = kw_mode_find(kw_config_text(config, "apply.mode"));

	*context = NULL;
	if (!kw_mode_leads(mode) || read_link_tls(config) != KW_LINK_TLS_FOLLOW ||
		!*kw_config_text(config, "tls.cert"))
		return KW_OK;
	*context = kw_tls_config_load_open(config, &kw_downlink_tls_terms, error);
	return *context ? KW_OK : KW_E_CONFIG;
}

static int read_link(
	struct kw_agent_daemon *daemon, struct kw_agent_options *options, struct kw_error *error)
{
	struct kw_tls_context *context;

	if (read_masterauth(daemon, &options->masterauth, error) ||
		load_link(daemon->daemon.config, &context, error))
		return KW_E_CONFIG;
	kw_tls_current_put(&daemon->link_tls, context);
	options->link_certificates = &daemon->link_tls;
	return KW_OK;
}

/* Who this agent is to the others that are given the same server. */
static int read_lease(const char *name, struct kw_lease_owner *lease, struct kw_error *error)
{
	char host[256] = "";
	uint64_t session = 0;

	gethostname(host, sizeof host - 1);
	if (getrandom(&session, sizeof session, 0) != sizeof session || session == 0)
		return kw_error_set(error, KW_E_IO, "no random bytes for the agent's session");
	kw_lease_owner_set(lease, session, name, host);
	return KW_OK;
}

static enum kw_ahead read_ahead(const char *text)
{
	return strcmp(text, "off") == 0 ? KW_AHEAD_OFF : KW_AHEAD_FREE;
}

static int read_follow(
	struct kw_agent_daemon *daemon, struct kw_agent_options *options, struct kw_error *error)
{
	const struct kw_config *config = daemon->daemon.config;
	struct kw_remote_options *remote = &options->follow.remote;

	if (kw_target_open(&daemon->target, config, &options->proxies, remote, error))
		return KW_E_CONFIG;
	remote->ports = &daemon->ports;
	remote->rdma.busy = options->follow.busy = kw_config_bool(config, "poll.busy");
	options->follow.idle_us = (uint32_t)kw_config_integer(config, "poll.idle_us");
	options->follow.asleep_us = KW_FOLLOW_ASLEEP_US;
	options->follow.ahead = read_ahead(kw_config_text(config, "poll.ahead"));
	return KW_OK;
}

static int read_options(
	struct kw_agent_daemon *daemon, struct kw_agent_options *options, struct kw_error *error)
{
	const struct kw_config *config = daemon->daemon.config;
	int code;

	options->audit_keys_per_second =
		(uint64_t)kw_config_integer(config, "apply.audit_keys_per_second");
	options->index = kw_config_bool(config, "apply.index");
	options->functions = kw_config_bool(config, "apply.functions");
	options->warm_lag_ms = (uint32_t)kw_config_integer(config, "warm.lag_ms");
	if ((code = read_follow(daemon, options, error)) ||
		(code = read_apply(config, options, error)) ||
		(code = read_local(daemon, &options->local.redis, error)) ||
		(code = read_link(daemon, options, error)) ||
		(code = read_lease(daemon->target.name, &options->local.lease, error)))
		return code;
	snprintf(options->local.agent, sizeof options->local.agent, "%s", daemon->target.name);
	if ((code = read_filter(config, &options->filter, error)))
		return code;
	return check_names(&options->filter, options->mode, error);
}

int kw_agent_daemon_check(const struct kw_config *config, struct kw_error *error)
{
	struct kw_agent_options options = {0};
	int code;

	if ((code = kw_target_check(config, error)) ||
		(code = kw_tls_config_rule_redis(config, error)) ||
		(code = kw_http_rule(config, error)) ||
		(code = read_apply(config, &options, error)))
		return code;
	code = read_filter(config, &options.filter, error);
	if (!code)
		code = check_names(&options.filter, options.mode, error);
	kw_filter_close(&options.filter);
	return code;
}

void kw_agent_daemon_look(const struct kw_config *config, struct kw_config_looked *looked)
{
	struct kw_tls_context *context;
	struct kw_error error;
	int code;

	code = kw_tls_config_load_redis(config, &context, &error);
	kw_certificates_look(&looked->files, code, context, &error);
	code = kw_target_load_tls(config, &context, &error);
	kw_certificates_look(&looked->files, code, context, &error);
	code = load_link(config, &context, &error);
	kw_certificates_look(&looked->files, code, context, &error);
}

static int on_changed(void *arg, const char *path, struct kw_error *error)
{
	struct kw_agent_daemon *daemon = arg;
	const struct kw_config *config = daemon->daemon.config;
	struct kw_agent *agent = daemon->agent;

	if (strncmp(path, "poll.", 5) == 0)
		kw_agent_set_pace(agent, (uint32_t)kw_config_integer(config, "poll.idle_us"),
			kw_config_bool(config, "poll.busy"));
	else if (strcmp(path, "apply.window_bytes") == 0)
		kw_agent_set_window(agent, (uint64_t)kw_config_integer(config, path));
	else if (strcmp(path, "apply.bytes_per_second") == 0)
		kw_agent_set_limit(agent, (uint64_t)kw_config_integer(config, path));
	else if (strcmp(path, "apply.audit_keys_per_second") == 0)
		kw_agent_set_audit_rate(agent, (uint64_t)kw_config_integer(config, path));
	else if (strcmp(path, "apply.on_shutdown") == 0)
		kw_agent_set_shutdown(agent, read_shutdown(config));
	else if (strcmp(path, "apply.foreign") == 0)
		kw_agent_set_foreign(agent, read_foreign(config));
	else if (strcmp(path, "apply.max_prune") == 0)
		kw_agent_set_max_prune(agent, kw_config_number(config, path));
	else if (strcmp(path, "warm.lag_ms") == 0)
		kw_agent_set_warm_lag(agent, (uint32_t)kw_config_integer(config, path));
	else if (strcmp(path, "log.level") == 0)
		kw_log_set_level(
			(enum kw_log_level)kw_log_level_parse(kw_config_text(config, "log.level")));
	return KW_OK;
}

static int reload_password(struct kw_agent_daemon *daemon, struct kw_error *error)
{
	const char *path = kw_config_text(daemon->daemon.config, "redis.password_file");
	bool changed;

	if (kw_secret_reload(path, &daemon->password, &changed, error))
		return kw_error_wrap(error, "redis.password_file");
	show_password(daemon);
	return KW_OK;
}

/*
 * Key and password are read again, although the names of their files cannot have changed. A
 * password that was read before the key failed does no harm: it is the one of the file.
 */
static int on_reloaded(void *arg, json_t *answer, struct kw_error *error)
{
	struct kw_agent_daemon *daemon = arg;
	struct kw_tls_context *context = NULL, *wire = NULL, *link = NULL;
	bool changed;

	if (kw_tls_config_load_redis(daemon->daemon.config, &context, error) ||
		kw_target_load_tls(daemon->daemon.config, &wire, error) ||
		load_link(daemon->daemon.config, &link, error) || reload_password(daemon, error) ||
		kw_own_key_reload(daemon->daemon.config, &daemon->target.key, &changed, error)) {
		kw_tls_context_unref(context);
		kw_tls_context_unref(wire);
		kw_tls_context_unref(link);
		return kw_error_wrap(error, "keys, password and certificates stay as they were");
	}
	kw_tls_current_put(&daemon->redis_tls, context);
	kw_tls_current_put(&daemon->target.tls, wire);
	kw_tls_current_put(&daemon->link_tls, link);
	if (!changed)
		return KW_OK;
	kw_log_info("follow", "another key is proved to the proxy from now on");
	kw_agent_set_key(
		daemon->agent, daemon->target.key.id, kw_own_key_secret(&daemon->target.key));
	return KW_OK;
}

/* ---- construction and destruction ---- */

static void on_state(void *arg, const char *state, const char *reason)
{
	struct kw_agent_daemon *daemon = arg;
	const char *code = kw_agent_reason_row(daemon->agent->cause)->code;

	kw_daemon_moved(&daemon->daemon, state, code, reason);
	kw_notify_status(&daemon->notify, "%s%s%s", state, *reason ? ": " : "", reason);
	if (daemon->rpc)
		kw_rpc_event(daemon->rpc, "state",
			json_pack("{s:s,s:o,s:s}", "state", state, "reason", kw_json_text(reason),
				"reason_code", code));
}

static void on_ended(void *arg, const char *name)
{
	kw_agent_daemon_shutdown(arg, name);
}

static void on_reload(void *arg)
{
	struct kw_agent_daemon *daemon = arg;

	if (daemon->closing)
		return; /* by the control socket: the parts that would be told are closing */
	kw_notify_reloading();
	kw_daemon_reload(&daemon->daemon);
	kw_notify_ready();
}

/* ---- calls that wait ---- */

static bool is_token_passed(void *arg, uint64_t token)
{
	const struct kw_agent_daemon *daemon = arg;

	return daemon->agent && kw_token_passed(&daemon->agent->sync.tokens, token) &&
	       kw_functions_fact(&daemon->agent->functions) == KW_FUNCTIONS_FINE;
}

static void look_at_waits(uv_prepare_t *handle)
{
	struct kw_agent_daemon *daemon = handle->data;

	kw_rpc_waits_look(&daemon->waits);
}

static void begin_waits(struct kw_agent_daemon *daemon)
{
	kw_rpc_waits_init(&daemon->waits, daemon->loop, is_token_passed, daemon);
	uv_prepare_init(daemon->loop, &daemon->before_sleep);
	daemon->before_sleep.data = daemon;
	uv_prepare_start(&daemon->before_sleep, look_at_waits);
	uv_unref((uv_handle_t *)&daemon->before_sleep);
}

static void end_waits(struct kw_agent_daemon *daemon)
{
	kw_rpc_waits_close(&daemon->waits);
	uv_close((uv_handle_t *)&daemon->before_sleep, NULL);
}

/* ---- the end ---- */

static void close_handles(struct kw_agent_daemon *daemon)
{
	kw_signals_close(&daemon->signals);
	kw_notify_close(&daemon->notify);
	kw_daemon_end(&daemon->daemon);
}

static void agent_closed(void *arg)
{
	struct kw_agent_daemon *daemon = arg;

	daemon->agent = NULL;
	close_handles(daemon);
}

static void rpc_closed(void *arg);

/* Every request has been answered, and control.c lets no more calls through. */
static void inspect_closed(void *arg)
{
	struct kw_agent_daemon *daemon = arg;

	daemon->inspect = NULL;
	if (daemon->rpc)
		kw_rpc_server_close(daemon->rpc, rpc_closed, daemon);
	else
		rpc_closed(daemon);
}

static void rpc_closed(void *arg)
{
	struct kw_agent_daemon *daemon = arg;

	daemon->rpc = NULL;
	if (daemon->agent)
		kw_agent_close(daemon->agent);
	else
		close_handles(daemon);
}

int kw_agent_daemon_init(struct kw_agent_daemon *daemon, uv_loop_t *loop, struct kw_config *config,
	struct kw_error *error)
{
	const struct kw_agent_handlers handlers = {on_state, agent_closed, daemon};
	const struct kw_signals_handlers signals = {on_ended, on_reload, daemon};
	struct kw_agent_options options = {0};
	int code;

	*daemon = (struct kw_agent_daemon){
		.daemon = {config, on_changed, on_reloaded},
		.loop = loop,
	};
	kw_port_memory_init(&daemon->ports, loop);
	kw_notify_init(&daemon->notify, loop);
	kw_daemon_begin(&daemon->daemon, loop, "agent");
	begin_waits(daemon);
	code = kw_signals_start(&daemon->signals, loop, &signals, error);
	if (!code)
		code = read_options(daemon, &options, error);
	kw_filter_describe(&options.filter, daemon->filter_text, sizeof daemon->filter_text);
	if (!code)
		code = kw_agent_new(loop, &options, &handlers, &daemon->agent, error);
	if (!code)
		daemon->inspect = kw_inspect_new(loop, daemon->agent);
	if (code ||
		(code = kw_rpc_server_new(loop, kw_config_text(config, "control.socket"),
			 kw_agent_methods, "keywake-agent", daemon, &daemon->rpc, error)) ||
		(code = kw_agent_serve_http(daemon, error))) {
		kw_filter_close(&options.filter);
		kw_agent_daemon_shutdown(daemon, NULL);
		return code;
	}
	kw_inspect_set_server(daemon->inspect, daemon->rpc);
	kw_notify_ready();
	return KW_OK;
}

void kw_agent_daemon_shutdown(struct kw_agent_daemon *daemon, const char *why)
{
	if (daemon->closing)
		return;
	daemon->closing = true;
	if (why)
		kw_log_info("agent", "shutting down: %s", why);
	kw_notify_stopping();
	kw_port_memory_close(&daemon->ports);
	kw_http_server_close(daemon->daemon.http);
	daemon->daemon.http = NULL;
	end_waits(daemon);
	if (daemon->inspect)
		kw_inspect_close(daemon->inspect, inspect_closed, daemon);
	else
		inspect_closed(daemon);
}

void kw_agent_daemon_close(struct kw_agent_daemon *daemon)
{
	kw_daemon_close(&daemon->daemon);
	kw_secret_close_buffer(&daemon->password);
	kw_secret_close_buffer(&daemon->masterauth);
	kw_tls_current_put(&daemon->redis_tls, NULL);
	kw_tls_current_put(&daemon->link_tls, NULL);
	kw_target_close(&daemon->target);
}
