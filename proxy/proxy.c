#include "proxy.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/secret.h"
#include "control/config/tls.h"
#include "control/json_text.h"
#include "mandate/sentinels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

/* Addresses beyond table.max_bytes, so that the limit can be raised without a restart. */
#define RESERVE_FACTOR 4
#define GRACE_US 100000
#define MAX_BYTES_LEAST (UINT64_C(64) << 20)
#define MAX_BYTES_MOST (KW_RESERVE_MAX / 2) /* room to raise it is left */

static uint64_t random_bits(void)
{
	uint64_t bits = 0;

	while (bits == 0)
		if (getrandom(&bits, sizeof bits, 0) != sizeof bits)
			bits = kw_clock_us() ^ (uint64_t)getpid() << 32;
	return bits;
}

uint64_t kw_proxy_max_bytes(const struct kw_config *config)
{
	uint64_t bytes = (uint64_t)kw_config_integer(config, "table.max_bytes");
	long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);

	if (bytes > 0)
		return bytes;
	bytes = pages > 0 ? (uint64_t)pages * (uint64_t)page / 2 : 0;
	if (bytes > MAX_BYTES_MOST)
		return MAX_BYTES_MOST;
	return bytes > MAX_BYTES_LEAST ? bytes : MAX_BYTES_LEAST;
}

static uint64_t reserve_bytes(const struct kw_config *config)
{
	uint64_t most = kw_proxy_max_bytes(config);

	return most < KW_RESERVE_MAX / RESERVE_FACTOR ? most * RESERVE_FACTOR : KW_RESERVE_MAX;
}

void kw_proxy_publish(struct kw_proxy *proxy)
{
	kw_table_set_time(proxy->table, kw_clock_us());
	if (proxy->source) {
		kw_source_settle(proxy->source);
		kw_source_confirm(proxy->source);
	}
	kw_table_publish(proxy->table, kw_wall_us());
	kw_proxy_wake_readers(proxy);
	if (proxy->source)
		kw_source_published(proxy->source);
}

/* A reason that counts is in the log once. */
static void on_source_state(void *arg, enum kw_source_state state, const char *reason)
{
	struct kw_proxy *proxy = arg;
	const char *name = kw_source_state_name(state);
	const char *code = kw_source_reason_row(proxy->source)->code;

	if (kw_daemon_moved(&proxy->daemon, name, code, reason))
		kw_log_state(kw_source_level(proxy->source), "source", name, code, reason);
	kw_notify_status(&proxy->notify, "%s%s%s", name, *reason ? ": " : "", reason);
	if (proxy->rpc)
		kw_rpc_event(proxy->rpc, "state",
			json_pack("{s:s,s:o,s:s}", "state", name, "reason", kw_json_text(reason),
				"reason_code", code));
}

static int extend_memory(void *arg, struct kw_extent *extent, struct kw_error *error)
{
	return kw_memory_extend(arg, extent, error);
}

static void expect_memory(void *arg, uint64_t offset, uint64_t length)
{
	kw_memory_expect(arg, offset, length);
}

static bool give_back_memory(void *arg, uint64_t offset, uint64_t length)
{
	return kw_memory_give_back(arg, offset, length);
}

/* What the callbacks of this loop turn wrote becomes visible before the loop sleeps. */
static void on_prepare(uv_prepare_t *handle)
{
	struct kw_proxy *proxy = handle->data;

	if (proxy->table && kw_table_unpublished(proxy->table))
		kw_proxy_publish(proxy);
	kw_rpc_waits_look(&proxy->waits);
}

/*
 * A token is a ticket of this epoch, which is over only with this process. When the call came, the
 * ticket was reached or awaited. So one that is not awaited now has passed, however long ago.
 */
static bool is_ticket_passed(void *arg, uint64_t token)
{
	const struct kw_proxy *proxy = arg;

	return !kw_ticket_awaited(kw_source_ticket(proxy->source), (uint16_t)token);
}

static void on_ticket_passed(void *arg)
{
	kw_proxy_serve_tickets_soon(arg); /* for those that it does not cover */
}

static void on_heartbeat(uv_timer_t *timer)
{
	struct kw_proxy *proxy = timer->data;
	bool ticket;

	kw_proxy_expire_keys(proxy);
	if (!proxy->table)
		return;
	ticket = kw_proxy_is_ticket_wanted(proxy);
	kw_table_set_passed(proxy->table, kw_server_lowest_passed(proxy->server));
	kw_table_set_time(proxy->table, kw_clock_us());
	kw_table_tidy(proxy->table);
	kw_proxy_publish(proxy);
	kw_proxy_count_lines(proxy);
	if (ticket)
		kw_source_begin_ticket(proxy->source);
}

static void on_ended(void *arg, const char *name)
{
	kw_proxy_shutdown(arg, name);
}

static void on_reload(void *arg)
{
	struct kw_proxy *proxy = arg;

	if (proxy->closing)
		return; /* by the control socket: the parts that would be told are closing */
	kw_notify_reloading();
	kw_daemon_reload(&proxy->daemon);
	kw_notify_ready();
}

struct kw_table_memory kw_proxy_table_memory(struct kw_proxy *proxy)
{
	return (struct kw_table_memory){
		.base = proxy->memory.base,
		.reserve_bytes = proxy->memory.reserve_bytes,
		.extend = extend_memory,
		.expect = expect_memory,
		.give_back = give_back_memory,
		.arg = &proxy->memory,
	};
}

struct kw_table_options kw_proxy_table_options(const struct kw_proxy *proxy)
{
	const struct kw_config *config = proxy->daemon.config;

	return (struct kw_table_options){
		.max_bytes = kw_proxy_max_bytes(config),
		.segment_bytes = (uint64_t)kw_config_integer(config, "table.segment_bytes"),
		.utilisation = kw_config_number(config, "table.utilisation"),
		.retention_us =
			(uint64_t)kw_config_integer(config, "table.tombstone_seconds") * 1000000,
		.grace_us = GRACE_US,
		.epoch = proxy->epoch,
		.hash_seed = random_bits(),
		.cpu_ns = kw_cpu_ns,
		.same_value = kw_source_same_value,
		.functions = kw_config_bool(config, "source.functions"),
	};
}

static int make_memory(struct kw_proxy *proxy, struct kw_error *error)
{
	const struct kw_config *config = proxy->daemon.config;

	if (kw_config_bool(config, "table.huge_pages"))
		return kw_memory_init_huge(&proxy->memory, reserve_bytes(config), error);
	if (kw_config_bool(config, "table.seal"))
		return kw_memory_init_sealed(&proxy->memory, reserve_bytes(config), error);
	return kw_memory_init(&proxy->memory, reserve_bytes(config), error);
}

static int make_table(struct kw_proxy *proxy, struct kw_error *error)
{
	const struct kw_table_memory memory = kw_proxy_table_memory(proxy);
	const struct kw_table_options options = kw_proxy_table_options(proxy);

	proxy->table = kw_table_new(&options, &memory, kw_clock_us(), error);
	return proxy->table ? KW_OK : (int)error->code;
}

/* The default differs between the proxies of a host, and is the same after a restart. */
void kw_proxy_name(const struct kw_config *config, char name[KW_PROXY_FULL_NAME])
{
	const char *given = kw_config_text(config, "name");
	char host[256] = "";

	if (*given) {
		snprintf(name, KW_PROXY_FULL_NAME, "%s", given);
		return;
	}
	if (gethostname(host, sizeof host - 1) < 0)
		host[0] = '\0';
	snprintf(name, KW_PROXY_FULL_NAME, "%s/%s", host, kw_config_text(config, "redis.address"));
}

enum kw_source_flags kw_proxy_flags(const struct kw_config *config)
{
	const char *word = kw_config_text(config, "source.flags");

	return strcmp(word, "trust") == 0   ? KW_SOURCE_FLAGS_TRUST
	       : strcmp(word, "check") == 0 ? KW_SOURCE_FLAGS_CHECK
					    : KW_SOURCE_FLAGS_SET;
}

enum kw_source_feed kw_proxy_feed(const struct kw_config *config)
{
	const char *word = kw_config_text(config, "source.feed");

	return strcmp(word, "stream") == 0 ? KW_SOURCE_FEED_STREAM
	       : strcmp(word, "auto") == 0 ? KW_SOURCE_FEED_AUTO
					   : KW_SOURCE_FEED_NOTIFICATIONS;
}

static int load_certificates(struct kw_proxy *proxy, struct kw_error *error)
{
	struct kw_tls_context *context;
	int code = kw_tls_config_load_redis(proxy->daemon.config, &context, error);

	if (!code)
		kw_tls_current_put(&proxy->redis_tls, context);
	return code;
}

static int make_source(struct kw_proxy *proxy, struct kw_error *error)
{
	const struct kw_config *config = proxy->daemon.config;
	const struct kw_source_handlers handlers = {on_source_state, on_ticket_passed, proxy};
	const char *address = kw_config_text(config, "redis.address");
	size_t count = kw_config_count(config, "source.databases");
	int64_t *databases = kw_alloc((count + 1) * sizeof *databases);
	struct kw_buffer password = {0};
	char name[KW_PROXY_FULL_NAME];
	struct kw_source_options options = {
		.name = name,
		.databases = count ? databases : NULL,
		.database_count = count,
		.keys_per_second = (uint64_t)kw_config_integer(config, "source.keys_per_second"),
		.bytes_per_second = (uint64_t)kw_config_integer(config, "source.bytes_per_second"),
		.primary_share = kw_config_number(config, "source.primary_share"),
		.max_missing = kw_config_number(config, "source.max_missing"),
		.audit_keys_per_second =
			(uint64_t)kw_config_integer(config, "source.audit_keys_per_second"),
		.watch_interval_ms =
			(uint32_t)kw_config_integer(config, "source.watch_interval_ms"),
		.flags = kw_proxy_flags(config),
		.kind = kw_proxy_feed(config),
		.fresh_interval_ms =
			(uint32_t)kw_config_integer(config, "source.fresh_interval_ms"),
		.canary_key = kw_config_text(config, "source.canary_key"),
		.cursor_name = kw_config_text(config, "source.cursor_name"),
		.functions = kw_config_bool(config, "source.functions"),
		.mandate = proxy->mandate.by == KW_MANDATE_BY_NONE ? NULL : &proxy->mandate,
		.follow_scheme = strcmp(address, "redis://") == 0    ? "tcp://"
				 : strcmp(address, "rediss://") == 0 ? address
								     : NULL,
	};
	int code;

	kw_proxy_name(config, name);
	for (size_t i = 0; i < count; i++)
		databases[i] = kw_config_integer_at(config, "source.databases", i);
	code = kw_secret_load(kw_config_text(config, "redis.password_file"), &password, error);
	if (code) {
		free(databases);
		return kw_error_wrap(error, "redis.password_file");
	}
	if (!options.follow_scheme)
		snprintf(options.redis.address, sizeof options.redis.address, "%s", address);
	snprintf(options.redis.username, sizeof options.redis.username, "%s",
		kw_config_text(config, "redis.username"));
	snprintf(options.redis.client_name, sizeof options.redis.client_name, "keywake-proxy");
	options.redis.tls = &proxy->redis_tls;
	options.redis.ports = &proxy->ports;
	options.redis.password = kw_slice(kw_buffer_bytes(&password), kw_buffer_length(&password));
	code = kw_source_new(proxy->loop, &options, proxy->table, &handlers, &proxy->source, error);
	kw_secret_close_buffer(&password);
	free(databases);
	return code;
}

static void start_handles(struct kw_proxy *proxy)
{
	uv_prepare_init(proxy->loop, &proxy->publisher);
	uv_timer_init(proxy->loop, &proxy->heartbeat);
	uv_timer_init(proxy->loop, &proxy->ticket_timer);
	proxy->publisher.data = proxy->heartbeat.data = proxy->ticket_timer.data = proxy;
	kw_rpc_waits_init(&proxy->waits, proxy->loop, is_ticket_passed, proxy);
	uv_prepare_start(&proxy->publisher, on_prepare);
	uv_timer_start(
		&proxy->heartbeat, on_heartbeat, KW_PROXY_HEARTBEAT_MS, KW_PROXY_HEARTBEAT_MS);
	kw_port_memory_init(&proxy->ports, proxy->loop);
	kw_notify_init(&proxy->notify, proxy->loop);
	kw_daemon_begin(&proxy->daemon, proxy->loop, "proxy");
}

static void close_handles(struct kw_proxy *proxy)
{
	kw_remote_end(proxy->loop);
	uv_close((uv_handle_t *)&proxy->publisher, NULL);
	uv_close((uv_handle_t *)&proxy->heartbeat, NULL);
	uv_close((uv_handle_t *)&proxy->ticket_timer, NULL);
	kw_signals_close(&proxy->signals);
	kw_notify_close(&proxy->notify);
	kw_daemon_end(&proxy->daemon);
}

int kw_proxy_init(
	struct kw_proxy *proxy, uv_loop_t *loop, struct kw_config *config, struct kw_error *error)
{
	const struct kw_signals_handlers signals = {on_ended, on_reload, proxy};
	int code;

	*proxy = (struct kw_proxy){
		.daemon = {config, kw_proxy_changed, kw_proxy_reloaded},
		.loop = loop,
		.epoch = random_bits() >> 1, /* fits a JSON integer */
		.started_us = kw_wall_us(),
	};
	code = kw_proxy_take_kept(proxy, error);
	if (code == KW_OK && !proxy->table)
		code = make_memory(proxy, error);
	if (code)
		return code;
	start_handles(proxy);
	if ((code = kw_signals_start(&proxy->signals, loop, &signals, error)) ||
		(code = kw_proxy_make_server(proxy, error)) ||
		(code = kw_proxy_prepare_listeners(proxy, error)) ||
		(!proxy->table && (code = make_table(proxy, error))) ||
		(code = load_certificates(proxy, error)) ||
		(code = kw_proxy_make_authority(proxy, error)) ||
		(code = make_source(proxy, error)) || (code = kw_proxy_listen(proxy, error)) ||
		(code = kw_rpc_server_new(loop, kw_config_text(config, "control.socket"),
			 kw_proxy_methods, "keywake-proxy", proxy, &proxy->rpc, error)) ||
		(code = kw_proxy_serve_http(proxy, error))) {
		kw_proxy_shutdown(proxy, NULL);
		return code;
	}
	kw_source_start(proxy->source);
	if (proxy->sentinels)
		kw_sentinels_start(proxy->sentinels);
	kw_notify_ready();
	return KW_OK;
}

/* The parts close one after the other, each when the one that uses it is gone. */
static void server_closed(void *arg)
{
	struct kw_proxy *proxy = arg;

	proxy->server = NULL;
	close_handles(proxy);
}

static void source_closed(void *arg)
{
	struct kw_proxy *proxy = arg;

	proxy->source = NULL;
	if (proxy->server)
		kw_server_close(proxy->server, server_closed, proxy);
	else
		close_handles(proxy);
}

static void sentinels_closed(void *arg)
{
	struct kw_proxy *proxy = arg;

	proxy->sentinels = NULL;
	if (proxy->source)
		kw_source_close(proxy->source, source_closed, proxy);
	else
		source_closed(proxy);
}

static void rpc_closed(void *arg)
{
	struct kw_proxy *proxy = arg;

	proxy->rpc = NULL;
	if (proxy->sentinels)
		kw_sentinels_close(proxy->sentinels, sentinels_closed, proxy);
	else
		sentinels_closed(proxy);
}

void kw_proxy_shutdown(struct kw_proxy *proxy, const char *why)
{
	if (proxy->closing)
		return;
	proxy->closing = true;
	if (why)
		kw_log_info("proxy", "shutting down: %s", why);
	kw_notify_stopping();
	kw_port_memory_close(&proxy->ports);
	kw_http_server_close(proxy->daemon.http);
	proxy->daemon.http = NULL;
	kw_rpc_waits_close(&proxy->waits);
	if (proxy->rpc)
		kw_rpc_server_close(proxy->rpc, rpc_closed, proxy);
	else
		rpc_closed(proxy);
}

void kw_proxy_close(struct kw_proxy *proxy)
{
	if (proxy->table)
		kw_proxy_keep_table(proxy);
	kw_table_free(proxy->table);
	kw_daemon_close(&proxy->daemon);
	kw_tls_current_put(&proxy->redis_tls, NULL);
	kw_tls_current_put(&proxy->sentinel_tls, NULL);
	kw_memory_close(&proxy->memory);
}
