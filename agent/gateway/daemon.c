#include "daemon.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/secret.h"
#include "control/config/certificates.h"
#include "control/config/tls.h"
#include "control/json_text.h"
#include "redis/address.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- configuration ---- */

static int read_follow(
	struct kw_gateway *gateway, struct kw_gets_options *options, struct kw_error *error)
{
	const struct kw_config *config = gateway->daemon.config;
	struct kw_remote_options *remote = &options->follow.remote;

	if (kw_target_open(&gateway->target, config, &options->proxies, remote, error))
		return KW_E_CONFIG;
	remote->ports = &gateway->ports;
	remote->rdma.busy = kw_config_bool(config, "rdma.busy");
	remote->role = KW_ROLE_GATEWAY;
	return KW_OK;
}

static int read_gets(
	struct kw_gateway *gateway, struct kw_gets_options *options, struct kw_error *error)
{
	const struct kw_config *config = gateway->daemon.config;

	options->loop = gateway->loop;
	options->depth = (uint32_t)kw_config_integer(config, "gateway.depth");
	options->places = (uint64_t)kw_config_integer(config, "gateway.places");
	options->max_value_bytes = (uint64_t)kw_config_integer(config, "gateway.max_value_bytes");
	options->max_staleness_ms = (uint32_t)kw_config_integer(config, "gateway.max_staleness_ms");
	options->cache_bytes = (uint64_t)kw_config_integer(config, "gateway.cache_bytes");
	options->coherence_ms = (uint32_t)kw_config_integer(config, "gateway.coherence_ms");
	return read_follow(gateway, options, error);
}

static struct kw_frontend_options read_server(const struct kw_gateway *gateway)
{
	const struct kw_config *config = gateway->daemon.config;

	return (struct kw_frontend_options){
		.loop = gateway->loop,
		.gets = gateway->gets,
		.forward = gateway->forward,
		.max_clients = (uint32_t)kw_config_integer(config, "gateway.max_clients"),
		.max_input_bytes = (uint64_t)kw_config_integer(config, "gateway.max_input_bytes"),
		.max_output_bytes = (uint64_t)kw_config_integer(config, "gateway.max_output_bytes"),
		.max_buffer_bytes = (uint64_t)kw_config_integer(config, "gateway.max_buffer_bytes"),
		.output_timeout_ms =
			(uint32_t)kw_config_integer(config, "gateway.output_timeout_ms"),
		.idle_timeout_ms = (uint32_t)kw_config_integer(config, "gateway.idle_timeout_ms"),
		.memcached_database =
			(uint32_t)kw_config_integer(config, "gateway.memcached_database"),
		.name = gateway->target.name,
		.tls = &gateway->client_tls,
	};
}

/* NULL: the file is not valid. */
static struct kw_users *read_users(const struct kw_config *config, struct kw_error *error)
{
	const char *path = kw_config_text(config, "gateway.users_file");
	struct kw_users *users = *path ? kw_users_load(path, error) : kw_users_open();

	if (!users)
		kw_error_wrap(error, "gateway.users_file");
	return users;
}

/* ---- TLS for clients ---- */

static bool is_tls(const char *text)
{
	struct kw_redis_address address;
	struct kw_error error;

	return !kw_frontend_address_parse(text, &address, &error) && address.scheme == KW_REDIS_TLS;
}

/* An address that speaks TLS; NULL: none does. */
static const char *find_tls(const struct kw_config *config, const char **key)
{
	static const char *const keys[] = {"gateway.resp", "gateway.memcached"};

	for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
		for (size_t i = 0; i < kw_config_count(config, keys[k]); i++) {
			*key = keys[k];
			if (is_tls(kw_config_text_at(config, *key, i)))
				return kw_config_text_at(config, *key, i);
		}
	return NULL;
}

static int check_client_tls(const struct kw_config *config, struct kw_error *error)
{
	static const char *const files[] = {
		"gateway.tls.cert", "gateway.tls.key", "gateway.tls.ca", "gateway.tls.crl"};
	const char *key, *address = find_tls(config, &key);

	for (size_t i = 0; i < sizeof files / sizeof *files && !address; i++)
		if (*kw_config_text(config, files[i]))
			return kw_error_set(error, KW_E_CONFIG,
				"%s is set, and no address of gateway.resp or gateway.memcached is "
				"tls://: write tls://address:port there, or leave gateway.tls out",
				files[i]);
	for (size_t i = 0; i < 2 && address; i++)
		if (!*kw_config_text(config, files[i]))
			return kw_error_set(error, KW_E_CONFIG,
				"%s: %s needs a certificate: set gateway.tls.cert and "
				"gateway.tls.key",
				key, address);
	return KW_OK;
}

int kw_gateway_client_tls(
	const struct kw_config *config, struct kw_tls_context **context, struct kw_error *error)
{
	const char *key;

	*context = NULL;
	if (!find_tls(config, &key))
		return KW_OK;
	*context = kw_tls_config_load(config, KW_TLS_SERVER, &kw_frontend_tls_terms, error);
	return *context ? KW_OK : KW_E_CONFIG;
}

/* Does the address let in only those with a certificate of our CAs? */
static bool is_certified(const struct kw_config *config, const char *text)
{
	return is_tls(text) && *kw_config_text(config, "gateway.tls.ca");
}

/* ---- who may connect ---- */

/* Every user of the host reaches a port. Whoever wants that says so. */
static int check_open(
	const struct kw_config *config, const char *key, const char *remedy, struct kw_error *error)
{
	size_t count = kw_config_count(config, key);
	struct kw_redis_address address;

	for (size_t i = 0; i < count; i++) {
		const char *text = kw_config_text_at(config, key, i);

		if (kw_frontend_address_parse(text, &address, error))
			return kw_error_wrap(error, "%s", key);
		if (address.scheme != KW_REDIS_UNIX && !is_certified(config, text) &&
			!kw_config_bool(config, "gateway.allow_insecure"))
			return kw_error_set(error, KW_E_CONFIG,
				"%s: every user that reaches %s reads all, without a password: %s, "
				"use unix:///path, or tls:// with gateway.tls.ca, or set "
				"gateway.allow_insecure=true",
				key, text, remedy);
	}
	return KW_OK;
}

/* Without users no client logs in; beyond this host that is never served. */
static int check_listen(const struct kw_config *config, struct kw_error *error)
{
	size_t count = kw_config_count(config, "gateway.resp");
	struct kw_redis_address address;
	int code;

	if ((code = check_client_tls(config, error)))
		return code;
	if ((code = check_open(config, "gateway.memcached", "let clients use gateway.resp", error)))
		return code;
	if (*kw_config_text(config, "gateway.users_file"))
		return KW_OK;
	for (size_t i = 0; i < count; i++) {
		const char *text = kw_config_text_at(config, "gateway.resp", i);

		if (kw_frontend_address_parse(text, &address, error))
			return kw_error_wrap(error, "gateway.resp");
		if (!kw_redis_address_near(&address) && !is_certified(config, text))
			return kw_error_set(error, KW_E_CONFIG,
				"gateway.resp: %s is open to other hosts and there are no users: "
				"set gateway.users_file, or tls:// and gateway.tls.ca",
				text);
	}
	return check_open(config, "gateway.resp", "set gateway.users_file", error);
}

static int check_primary(const struct kw_config *config, struct kw_error *error)
{
	const char *address = kw_config_text(config, "redis.address");

	if (*address && kw_redis_address_check(address, error))
		return kw_error_wrap(error, "redis.address");
	if (kw_tls_config_rule_redis(config, error))
		return KW_E_CONFIG;
	if (kw_config_bool(config, "gateway.forward") && !*address)
		return kw_error_set(error, KW_E_CONFIG,
			"gateway.forward: set redis.address to the primary's address, too");
	return KW_OK;
}

int kw_gateway_check(const struct kw_config *config, struct kw_error *error)
{
	int code = kw_target_check(config, error);

	if (code)
		return code;
	if (kw_config_count(config, "gateway.resp") == 0 &&
		kw_config_count(config, "gateway.memcached") == 0)
		return kw_error_set(error, KW_E_CONFIG,
			"gateway.resp: there is no address to serve clients at: set it, or "
			"gateway.memcached");
	if ((code = check_listen(config, error)) || (code = kw_http_rule(config, error)))
		return code;
	return check_primary(config, error);
}

void kw_gateway_look(const struct kw_config *config, struct kw_config_looked *looked)
{
	struct kw_tls_context *context;
	struct kw_error error;
	struct kw_users *users = read_users(config, &error);
	int code;

	if (users)
		kw_users_free(users);
	else
		kw_config_mistake(&looked->files, &error);
	code = kw_tls_config_load_redis(config, &context, &error);
	kw_certificates_look(&looked->files, code, context, &error);
	code = kw_target_load_tls(config, &context, &error);
	kw_certificates_look(&looked->files, code, context, &error);
	code = kw_gateway_client_tls(config, &context, &error);
	kw_certificates_look(&looked->files, code, context, &error);
}

static int on_changed(void *arg, const char *path, struct kw_error *error)
{
	struct kw_gateway *gateway = arg;
	const struct kw_config *config = gateway->daemon.config;

	if (strcmp(path, "gateway.max_staleness_ms") == 0)
		kw_gets_set_max_staleness(gateway->gets, (uint32_t)kw_config_integer(config, path));
	else if (strcmp(path, "gateway.coherence_ms") == 0)
		kw_gets_set_coherence(gateway->gets, (uint32_t)kw_config_integer(config, path));
	else if (strcmp(path, "gateway.max_clients") == 0)
		kw_frontend_set_max_clients(
			gateway->server, (uint32_t)kw_config_integer(config, path));
	else if (strcmp(path, "gateway.idle_timeout_ms") == 0)
		kw_frontend_set_idle_timeout(
			gateway->server, (uint32_t)kw_config_integer(config, path));
	else if (strcmp(path, "log.level") == 0)
		kw_log_set_level(
			(enum kw_log_level)kw_log_level_parse(kw_config_text(config, "log.level")));
	return KW_OK;
}

static int reload_key(struct kw_gateway *gateway, struct kw_error *error)
{
	bool changed;

	if (kw_own_key_reload(gateway->daemon.config, &gateway->target.key, &changed, error))
		return KW_E_CONFIG;
	if (!changed)
		return KW_OK;
	kw_log_info("follow", "another key is proved to the proxy from now on");
	kw_gets_set_key(
		gateway->gets, gateway->target.key.id, kw_own_key_secret(&gateway->target.key));
	return KW_OK;
}

/* Lines to the primary that are opened from now on log in with it. */
static void show_password(struct kw_gateway *gateway)
{
	gateway->present_password =
		kw_slice(kw_buffer_bytes(&gateway->password), kw_buffer_length(&gateway->password));
}

static int reload_password(struct kw_gateway *gateway, struct kw_error *error)
{
	const char *path = kw_config_text(gateway->daemon.config, "redis.password_file");
	bool changed;

	if (!gateway->forward)
		return KW_OK;
	if (kw_secret_reload(path, &gateway->password, &changed, error))
		return kw_error_wrap(
			error, "users, key and password stay as they were: redis.password_file");
	show_password(gateway);
	return KW_OK;
}

/*
 * The files are read again, although their names cannot have changed. All
 * count, or none.
 */
static int on_reloaded(void *arg, json_t *answer, struct kw_error *error)
{
	struct kw_gateway *gateway = arg;
	struct kw_users *users = read_users(gateway->daemon.config, error);
	struct kw_tls_context *context = NULL, *wire = NULL, *clients = NULL;

	if (!users || kw_tls_config_load_redis(gateway->daemon.config, &context, error) ||
		kw_target_load_tls(gateway->daemon.config, &wire, error) ||
		kw_gateway_client_tls(gateway->daemon.config, &clients, error) ||
		reload_password(gateway, error) || reload_key(gateway, error)) {
		kw_tls_context_unref(context);
		kw_tls_context_unref(wire);
		kw_tls_context_unref(clients);
		if (users)
			kw_users_free(users);
		return kw_error_wrap(error, "users, keys and certificates stay as they were");
	}
	kw_tls_current_put(&gateway->redis_tls, context);
	kw_tls_current_put(&gateway->target.tls, wire);
	kw_tls_current_put(&gateway->client_tls, clients);
	kw_frontend_judge_certificates(gateway->server);
	json_object_set_new(answer, "users", json_integer((json_int_t)kw_users_count(users)));
	kw_frontend_set_users(gateway->server, users);
	return KW_OK;
}

/* ---- construction and destruction ---- */

static enum kw_log_level level_of(enum kw_gateway_state state)
{
	if (state == KW_GATEWAY_FAILED)
		return KW_LOG_ERROR;
	return state == KW_GATEWAY_STALE ? KW_LOG_WARN : KW_LOG_INFO;
}

static void on_state(void *arg, enum kw_gateway_state state, const char *why)
{
	struct kw_gateway *gateway = arg;
	const char *name = kw_gateway_state_name(state);
	struct kw_gets_sight sight;

	kw_gets_sight(gateway->gets, &sight);
	kw_log_state(level_of(state), "gateway", name, sight.row->code, why);
	kw_daemon_moved(&gateway->daemon, name, sight.row->code, why);
	kw_notify_status(&gateway->notify, "%s%s%s", name, *why ? ": " : "", why);
	if (gateway->rpc)
		kw_rpc_event(gateway->rpc, "state",
			json_pack("{s:s,s:o,s:s}", "state", name, "reason", kw_json_text(why),
				"reason_code", sight.row->code));
}

static void on_ended(void *arg, const char *name)
{
	kw_gateway_shutdown(arg, name);
}

static void on_reload(void *arg)
{
	struct kw_gateway *gateway = arg;

	if (gateway->closing)
		return; /* by the control socket: the parts that would be told are closing */
	kw_notify_reloading();
	kw_daemon_reload(&gateway->daemon);
	kw_notify_ready();
}

/* Server, table and forward are closed side by side; the last one ends the rest. */
static void close_handles(struct kw_gateway *gateway)
{
	if (gateway->server || gateway->gets || gateway->forward)
		return;
	kw_signals_close(&gateway->signals);
	kw_notify_close(&gateway->notify);
	kw_daemon_end(&gateway->daemon);
}

static void gets_closed(void *arg)
{
	struct kw_gateway *gateway = arg;

	gateway->gets = NULL;
	close_handles(gateway);
}

static void forward_closed(void *arg)
{
	struct kw_gateway *gateway = arg;

	free(gateway->forward);
	gateway->forward = NULL;
	close_handles(gateway);
}

static void server_closed(void *arg)
{
	struct kw_gateway *gateway = arg;

	gateway->server = NULL;
	close_handles(gateway);
}

static void rpc_closed(void *arg)
{
	struct kw_gateway *gateway = arg;

	gateway->rpc = NULL;
	/* Clients ask nothing more from here on; what they had asked is told by table and forward.
	 */
	if (gateway->server)
		kw_frontend_close(gateway->server, server_closed, gateway);
	if (gateway->gets)
		kw_gets_close(gateway->gets);
	if (gateway->forward)
		kw_forward_close(gateway->forward, forward_closed, gateway);
	close_handles(gateway);
}

static int listen_all(struct kw_gateway *gateway, const char *key,
	const struct kw_protocol *protocol, struct kw_error *error)
{
	const struct kw_config *config = gateway->daemon.config;
	size_t count = kw_config_count(config, key);
	int code;

	for (size_t i = 0; i < count; i++) {
		code = kw_frontend_listen(
			gateway->server, kw_config_text_at(config, key, i), protocol, error);
		if (code)
			return kw_error_wrap(error, "%s", key);
	}
	return KW_OK;
}

/* memcached has no login, and users_file says nothing of its clients. */
static void warn_of_strangers(const struct kw_config *config)
{
	size_t count = kw_config_count(config, "gateway.memcached");
	struct kw_redis_address address;
	struct kw_error error;

	for (size_t i = 0; i < count; i++) {
		const char *text = kw_config_text_at(config, "gateway.memcached", i);

		if (!kw_frontend_address_parse(text, &address, &error) &&
			!kw_redis_address_near(&address) && !is_certified(config, text))
			kw_log_warn("gateway",
				"gateway.memcached: %s is open to other hosts, and memcached has "
				"no "
				"passwords: whoever reaches it reads database %lld",
				text,
				(long long)kw_config_integer(config, "gateway.memcached_database"));
	}
}

static int open_forward(struct kw_gateway *gateway, struct kw_error *error)
{
	const struct kw_config *config = gateway->daemon.config;
	struct kw_forward_options options = {.loop = gateway->loop};
	struct kw_redis_options *primary = &options.primary;
	struct kw_tls_context *context;
	struct kw_forward *forward;
	int code;

	snprintf(primary->address, sizeof primary->address, "%s",
		kw_config_text(config, "redis.address"));
	snprintf(primary->username, sizeof primary->username, "%s",
		kw_config_text(config, "redis.username"));
	snprintf(primary->client_name, sizeof primary->client_name, "keywake-gateway:%s",
		gateway->target.name);
	code = kw_secret_load(
		kw_config_text(config, "redis.password_file"), &gateway->password, error);
	if (code)
		return kw_error_wrap(error, "redis.password_file");
	show_password(gateway);
	primary->present_password = &gateway->present_password;
	if ((code = kw_tls_config_load_redis(config, &context, error)))
		return code;
	kw_tls_current_put(&gateway->redis_tls, context);
	primary->tls = &gateway->redis_tls;
	primary->ports = &gateway->ports;
	forward = kw_zalloc(sizeof *forward);
	code = kw_forward_init(forward, &options, error);
	if (code) {
		free(forward);
		return code;
	}
	gateway->forward = forward;
	return KW_OK;
}

static int open_parts(struct kw_gateway *gateway, struct kw_error *error)
{
	const struct kw_gets_handlers handlers = {on_state, gets_closed, gateway};
	const struct kw_config *config = gateway->daemon.config;
	struct kw_gets_options options = {0};
	struct kw_tls_context *context;
	struct kw_frontend_options server;
	int code;

	if ((code = read_gets(gateway, &options, error)) ||
		(code = kw_gets_new(&options, &handlers, &gateway->gets, error)))
		return code;
	if (kw_config_bool(config, "gateway.forward") && (code = open_forward(gateway, error)))
		return code;
	if ((code = kw_gateway_client_tls(config, &context, error)))
		return code;
	kw_tls_current_put(&gateway->client_tls, context);
	server = read_server(gateway);
	server.users = read_users(config, error);
	if (!server.users)
		return error->code;
	gateway->server = kw_frontend_new(&server);
	code = listen_all(gateway, "gateway.resp", &kw_protocol_resp, error);
	if (!code)
		code = listen_all(gateway, "gateway.memcached", &kw_protocol_memcached, error);
	if (!code)
		warn_of_strangers(config);
	if (!code)
		code = kw_rpc_server_new(gateway->loop, kw_config_text(config, "control.socket"),
			kw_gateway_methods, "keywake-gateway", gateway, &gateway->rpc, error);
	if (!code)
		code = kw_gateway_serve_http(gateway, error);
	return code;
}

int kw_gateway_init(struct kw_gateway *gateway, uv_loop_t *loop, struct kw_config *config,
	struct kw_error *error)
{
	const struct kw_signals_handlers signals = {on_ended, on_reload, gateway};
	int code;

	*gateway = (struct kw_gateway){
		.daemon = {config, on_changed, on_reloaded},
		.loop = loop,
		.started_us = kw_clock_us(),
	};
	kw_port_memory_init(&gateway->ports, loop);
	kw_notify_init(&gateway->notify, loop);
	kw_daemon_begin(&gateway->daemon, loop, "gateway");
	code = kw_signals_start(&gateway->signals, loop, &signals, error);
	if (!code)
		code = open_parts(gateway, error);
	if (code) {
		kw_gateway_shutdown(gateway, NULL);
		return code;
	}
	kw_notify_ready();
	return KW_OK;
}

void kw_gateway_shutdown(struct kw_gateway *gateway, const char *why)
{
	if (gateway->closing)
		return;
	gateway->closing = true;
	if (why)
		kw_log_info("gateway", "shutting down: %s", why);
	kw_notify_stopping();
	kw_port_memory_close(&gateway->ports);
	kw_http_server_close(gateway->daemon.http);
	gateway->daemon.http = NULL;
	if (gateway->rpc)
		kw_rpc_server_close(gateway->rpc, rpc_closed, gateway);
	else
		rpc_closed(gateway);
}

void kw_gateway_close(struct kw_gateway *gateway)
{
	kw_daemon_close(&gateway->daemon);
	kw_target_close(&gateway->target);
	kw_secret_close_buffer(&gateway->password);
	kw_tls_current_put(&gateway->redis_tls, NULL);
	kw_tls_current_put(&gateway->client_tls, NULL);
}
