#include "proxy.h"

#include "auth/endpoint.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/secret.h"
#include "control/config/keys.h"
#include "control/json_text.h"
#include "mandate/sentinels.h"
#include "remote/rdma/keys.h"
#include "remote/users.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define HEARTBEAT_MS 100
/* Each ticket costs the primary a look. A wish within this time waits for the heartbeat. */
#define TICKET_INTERVAL_US 20000
#define TICKETS_LOOKED_AT 64 /* agents that wait at once; others have their turn after these */
/* Addresses beyond table.max_bytes, so that the limit can be raised without a restart. */
#define RESERVE_FACTOR 4
#define JOINED "joined"
#define LEFT "left"
#define REFUSED "refused"
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

static uint64_t epoch_of(void *arg)
{
	return ((struct kw_proxy *)arg)->epoch;
}

/* Peers come and go as often as they like, and must not fill the disk. */
static void say_left_out(const char *what, uint32_t left_out)
{
	if (left_out > 0)
		kw_log_warn("agents", "%s: %u more within that second", what, left_out);
}

static bool may_log(struct kw_line_limit *limit, const char *what)
{
	uint32_t left_out;
	bool may = kw_line_limit_allows(limit, kw_clock_us(), &left_out);

	say_left_out(what, left_out);
	return may;
}

/* The last flood might be over: the count of its lines does not wait for the next one. */
static void count_lines(struct kw_proxy *proxy)
{
	uint64_t now_us = kw_clock_us();

	say_left_out(JOINED, kw_line_limit_left_out(&proxy->joins, now_us));
	say_left_out(LEFT, kw_line_limit_left_out(&proxy->leaves, now_us));
	say_left_out(REFUSED, kw_line_limit_left_out(&proxy->refusals, now_us));
}

static void on_joined(void *arg, const struct kw_session_info *session)
{
	struct kw_proxy *proxy = arg;

	if (may_log(&proxy->joins, JOINED))
		kw_log_info("agents", "%s joined over %s from %s", session->name,
			kw_carrier_name(session->carrier), session->peer);
}

static void on_left(void *arg, const struct kw_session_info *session, const char *why)
{
	struct kw_proxy *proxy = arg;

	if (may_log(&proxy->leaves, LEFT))
		kw_log_info("agents", "%s (%s) left: %s", session->name,
			kw_carrier_name(session->carrier), why);
}

static void on_rejected(void *arg, const char *why)
{
	struct kw_proxy *proxy = arg;

	if (may_log(&proxy->refusals, REFUSED))
		kw_log_warn("agents", "refused: %s", why);
}

static void on_listener(void *arg, const struct kw_listener_info *listener)
{
	bool named = listener->device[0] != '\0';

	(void)arg;
	if (listener->waiting)
		kw_log_warn("agents", "nobody can connect to %s: %s; tried again until it can be",
			listener->address, listener->why);
	else
		kw_log_info("agents", "listening on %s%s%s%s", listener->address, named ? " (" : "",
			listener->device, named ? ")" : "");
}

void kw_proxy_publish(struct kw_proxy *proxy)
{
	kw_table_set_time(proxy->table, kw_clock_us());
	if (proxy->source) {
		kw_source_settle(proxy->source);
		kw_source_confirm(proxy->source);
	}
	kw_table_publish(proxy->table, kw_wall_us());
	if (proxy->source)
		kw_source_published(proxy->source);
}

/* Before there is a table its extents are registered as it takes them. */
static void on_placed(void *arg)
{
	struct kw_proxy *proxy = arg;

	if (!proxy->table)
		return;
	kw_table_set_places(
		proxy->table, proxy->memory.extents, atomic_load(&proxy->memory.extent_count));
	kw_proxy_publish(proxy);
}

static void on_rotated(void *arg, const struct kw_rotation *rotation)
{
	unsigned mib = (unsigned)(rotation->bytes >> 20), ms = (unsigned)(rotation->took_us / 1000);

	(void)arg;
	switch (rotation->outcome) {
	case KW_ROTATION_SMOOTH:
		kw_log_info("agents",
			"a key was withdrawn, and %u MiB were registered anew in %u ms: the "
			"earlier rkeys open nothing",
			mib, ms);
		return;
	case KW_ROTATION_BROKE:
		kw_log_warn("agents",
			"a key was withdrawn, and %u MiB were registered anew in %u ms: agents "
			"over rdma connect again, as the memory could not be registered twice: %s",
			mib, ms, rotation->why.text);
		return;
	case KW_ROTATION_FAILED:
		kw_log_warn("agents",
			"a key was withdrawn, and agents over rdma cannot read: %s; tried again "
			"until they can",
			rotation->why.text);
	}
}

static void on_source_state(void *arg, enum kw_source_state state, const char *reason)
{
	struct kw_proxy *proxy = arg;
	const char *name = kw_source_state_name(state);
	const char *code = kw_source_reason_code(proxy->source);
	enum kw_log_level level = state == KW_SOURCE_DOWN || state == KW_SOURCE_FULL ||
						  state == KW_SOURCE_HELD ||
						  state == KW_SOURCE_UNCONFIRMED
					  ? KW_LOG_WARN
					  : KW_LOG_INFO;

	kw_log_state(level, "source", name, code, reason);
	kw_daemon_moved(&proxy->daemon, name, code, reason);
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
}

/* Does any client or agent wait for a ticket that has not begun? */
static bool is_ticket_wanted(struct kw_proxy *proxy)
{
	uint16_t tickets[TICKETS_LOOKED_AT];
	int count;

	if (proxy->closing)
		return false;
	count = kw_server_tickets(proxy->server, tickets, TICKETS_LOOKED_AT);
	if (proxy->ticket && kw_source_want_ticket(proxy->source, proxy->ticket))
		return true;
	for (int i = 0; i < count; i++)
		if (kw_source_want_ticket(proxy->source, tickets[i]))
			return true;
	return false;
}

static void on_ticket(void *arg)
{
	struct kw_proxy *proxy = arg;

	if (kw_clock_us() - proxy->ticket_us < TICKET_INTERVAL_US || !is_ticket_wanted(proxy))
		return;
	proxy->ticket_us = kw_clock_us();
	kw_proxy_publish(proxy);
	kw_source_begin_ticket(proxy->source);
}

/* Who held one of them may have mapped the memory. */
static void expire_keys(struct kw_proxy *proxy)
{
	uint32_t ended;
	size_t keys =
		kw_server_expire_keys(proxy->server, (int64_t)(kw_wall_us() / 1000000), &ended);

	if (keys == 0)
		return;
	proxy->readers = 0;
	kw_log_warn("agents",
		"%zu lines of auth.keys_file have expired, and are refused from now on; %" PRIu32
		" sessions were ended",
		keys, ended);
}

static void on_heartbeat(uv_timer_t *timer)
{
	struct kw_proxy *proxy = timer->data;
	bool ticket;

	expire_keys(proxy);
	if (!proxy->table)
		return;
	ticket = is_ticket_wanted(proxy);
	kw_table_set_passed(proxy->table, kw_server_lowest_passed(proxy->server));
	kw_table_set_time(proxy->table, kw_clock_us());
	kw_table_tidy(proxy->table);
	kw_proxy_publish(proxy);
	count_lines(proxy);
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

/* Keys that could not be in the table are looked at again: they might fit now. */
static int change_max(struct kw_proxy *proxy, struct kw_error *error)
{
	struct kw_source_stats stats;
	int code = kw_table_set_max(proxy->table, kw_proxy_max_bytes(proxy->daemon.config), error);

	if (code)
		return code;
	kw_source_stats(proxy->source, &stats);
	if (stats.too_large > 0)
		kw_source_reconcile(proxy->source, "table.max_bytes was changed");
	return KW_OK;
}

/* Their number and form were checked with the configuration. */
static void read_addresses(const struct kw_config *config, struct kw_endpoints *addresses)
{
	addresses->count = (int)kw_config_count(config, "auth.addresses");
	for (int i = 0; i < addresses->count; i++)
		(void)kw_endpoint_parse(kw_config_text_at(config, "auth.addresses", (size_t)i),
			&addresses->items[i]);
}

static void change_addresses(struct kw_proxy *proxy)
{
	struct kw_endpoints addresses;

	read_addresses(proxy->daemon.config, &addresses);
	kw_server_set_addresses(proxy->server, &addresses);
}

static struct kw_server_limits read_limits(const struct kw_config *config)
{
	return (struct kw_server_limits){
		.sessions = (uint32_t)kw_config_integer(config, "remote.sessions"),
		.of_name = (uint32_t)kw_config_integer(config, "remote.sessions_per_name"),
		.of_peer = (uint32_t)kw_config_integer(config, "remote.sessions_per_peer"),
		.compressed = (uint32_t)kw_config_integer(config, "remote.compressed_sessions"),
	};
}

static void set_limits(struct kw_proxy *proxy)
{
	const struct kw_server_limits limits = read_limits(proxy->daemon.config);

	kw_server_set_limits(proxy->server, &limits);
}

static void change_term(struct kw_proxy *proxy)
{
	uint64_t term = (uint64_t)kw_config_integer(proxy->daemon.config, "authority.term");

	if (term < proxy->mandate.operator_term && term > 0)
		kw_log_warn("proxy",
			"authority.term is lowered from %llu to %llu: agents that have followed "
			"the "
			"higher one refuse this table",
			(unsigned long long)proxy->mandate.operator_term, (unsigned long long)term);
	kw_mandate_give_term(&proxy->mandate, term);
	kw_proxy_publish(proxy);
}

static int on_changed(void *arg, const char *path, struct kw_error *error)
{
	struct kw_proxy *proxy = arg;
	const struct kw_config *config = proxy->daemon.config;

	if (strcmp(path, "log.level") == 0)
		kw_log_set_level(
			(enum kw_log_level)kw_log_level_parse(kw_config_text(config, "log.level")));
	else if (strcmp(path, "auth.addresses") == 0)
		change_addresses(proxy);
	else if (strcmp(path, "table.max_bytes") == 0)
		return change_max(proxy, error);
	else if (strncmp(path, "remote.sessions", strlen("remote.sessions")) == 0 ||
		 strcmp(path, "remote.compressed_sessions") == 0)
		set_limits(proxy);
	else if (strcmp(path, "authority.term") == 0)
		change_term(proxy);
	else if (strcmp(path, "source.max_missing") == 0)
		kw_source_set_max_missing(
			proxy->source, kw_config_number(config, "source.max_missing"));
	else if (strcmp(path, "source.primary_share") == 0)
		kw_source_set_primary_share(
			proxy->source, kw_config_number(config, "source.primary_share"));
	else
		kw_source_set_limits(proxy->source,
			(uint64_t)kw_config_integer(config, "source.keys_per_second"),
			(uint64_t)kw_config_integer(config, "source.bytes_per_second"),
			(uint64_t)kw_config_integer(config, "source.audit_keys_per_second"));
	return KW_OK;
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

void kw_proxy_read_rdma(const struct kw_config *config, struct kw_rdma_options *rdma)
{
	snprintf(rdma->device, sizeof rdma->device, "%s", kw_config_text(config, "rdma.device"));
#define KEY(name, ...) rdma->name = (uint8_t)kw_config_integer(config, "rdma." #name);
	KW_RDMA_KEYS(KEY)
#undef KEY
	rdma->probe_ms = (uint32_t)kw_config_integer(config, "rdma.probe_ms");
}

static int read_users(
	const struct kw_config *config, struct kw_peer_users *users, struct kw_error *error)
{
	for (size_t i = 0; i < kw_config_count(config, "shm.users"); i++)
		if (kw_users_add(users, kw_config_text_at(config, "shm.users", i), error))
			return kw_error_wrap(error, "shm.users");
	return KW_OK;
}

static int make_server(struct kw_proxy *proxy, struct kw_error *error)
{
	const struct kw_config *config = proxy->daemon.config;
	const struct kw_server_handlers handlers = {
		.epoch = epoch_of,
		.joined = on_joined,
		.left = on_left,
		.rejected = on_rejected,
		.listener = on_listener,
		.ticket = on_ticket,
		.placed = on_placed,
		.rotated = on_rotated,
		.arg = proxy,
	};
	struct kw_server_options options = {
		.keyring = kw_keys_load(config, error),
		.allow_insecure = kw_config_bool(config, "auth.allow_insecure"),
		.limits = read_limits(config),
		.depth_max = (uint32_t)kw_config_integer(config, "remote.depth"),
		.compression_level = (int)kw_config_integer(config, "remote.compression_level"),
	};

	if (!options.keyring)
		return (int)error->code;
	options.identity = kw_wire_tls_identity(config);
	if (read_users(config, &options.users, error) ||
		kw_wire_tls_load(config, "listen", KW_TLS_SERVER, &kw_server_tls_terms,
			&options.tls, error)) {
		kw_keyring_release(options.keyring);
		return (int)error->code;
	}
	kw_proxy_read_rdma(config, &options.rdma);
	read_addresses(config, &options.addresses);
	if (kw_keyring_count(options.keyring) == 0 && options.allow_insecure)
		kw_log_warn("agents", "no key is configured, and auth.allow_insecure is set: every "
				      "user and host that reaches a port may read all data");
	proxy->server = kw_server_new(proxy->loop, &proxy->memory, &options, &handlers);
	kw_keyring_release(options.keyring);
	kw_tls_context_unref(options.tls);
	return KW_OK;
}

/* What a reload reads again, although the names of the files cannot have changed. */
struct reread {
	struct kw_buffer password;
	struct kw_buffer sentinel_password;
	struct kw_keyring *keyring;
	struct kw_tls_context *context;  /* of connections to the primary */
	struct kw_tls_context *sentinel; /* … and to the sentinels */
	struct kw_tls_context *wire;     /* of agents, over tcp+tls */
};

static struct kw_slice slice_of(const struct kw_buffer *buffer)
{
	return kw_slice(kw_buffer_bytes(buffer), kw_buffer_length(buffer));
}

static int reread(const struct kw_config *config, struct reread *files, struct kw_error *error)
{
	if (kw_secret_load(kw_config_text(config, "redis.password_file"), &files->password, error))
		return kw_error_wrap(error, "redis.password_file");
	if (kw_secret_load(kw_config_text(config, "sentinel.password_file"),
		    &files->sentinel_password, error))
		return kw_error_wrap(error, "sentinel.password_file");
	files->keyring = kw_keys_load(config, error);
	if (!files->keyring)
		return (int)error->code;
	if (kw_tls_config_load_redis(config, &files->context, error) == KW_OK &&
		kw_proxy_sentinel_tls(config, &files->sentinel, error) == KW_OK &&
		kw_wire_tls_load(config, "listen", KW_TLS_SERVER, &kw_server_tls_terms,
			&files->wire, error) == KW_OK)
		return KW_OK;
	kw_tls_context_unref(files->context);
	kw_tls_context_unref(files->sentinel);
	kw_keyring_release(files->keyring);
	return (int)error->code;
}

/* All files count, or none. */
static int on_reloaded(void *arg, json_t *answer, struct kw_error *error)
{
	struct kw_proxy *proxy = arg;
	struct reread files = {0};
	struct kw_keyring *keyring;
	uint32_t revoked;

	if (reread(proxy->daemon.config, &files, error)) {
		kw_secret_close_buffer(&files.password);
		kw_secret_close_buffer(&files.sentinel_password);
		return kw_error_wrap(error, "keys, password and certificates stay as they were");
	}
	keyring = files.keyring;
	kw_proxy_note_readers(proxy, keyring);
	kw_tls_current_put(&proxy->redis_tls, files.context);
	kw_tls_current_put(&proxy->sentinel_tls, files.sentinel);
	kw_source_set_password(proxy->source, slice_of(&files.password));
	kw_secret_close_buffer(&files.password);
	if (proxy->sentinels)
		kw_sentinels_set_password(proxy->sentinels, slice_of(&files.sentinel_password));
	kw_secret_close_buffer(&files.sentinel_password);
	revoked = kw_server_set_keyring(proxy->server, keyring);
	revoked += kw_server_set_tls(
		proxy->server, files.wire, kw_wire_tls_identity(proxy->daemon.config));
	kw_tls_context_unref(files.wire);
	json_object_set_new(answer, "keys", json_integer((json_int_t)kw_keyring_count(keyring)));
	json_object_set_new(answer, "revoked", json_integer((json_int_t)revoked));
	kw_keyring_release(keyring);
	return KW_OK;
}

/*
 * Devices come before the table, whose directory names the rkeys of its extents. If a device is not
 * there yet (at boot the proxy can start before its NIC), its listener waits for it.
 */
static int prepare_all(struct kw_proxy *proxy, struct kw_error *error)
{
	const struct kw_config *config = proxy->daemon.config;

	for (size_t i = 0; i < kw_config_count(config, "listen"); i++) {
		const char *text = kw_config_text_at(config, "listen", i);
		struct kw_address address;

		if (kw_address_parse(text, &address, error) ||
			(kw_server_prepare(proxy->server, &address, error) &&
				error->code != KW_E_GONE))
			return kw_error_wrap(error, "listen: %s", text);
	}
	return KW_OK;
}

static int listen_all(struct kw_proxy *proxy, struct kw_error *error)
{
	const struct kw_config *config = proxy->daemon.config;

	for (size_t i = 0; i < kw_config_count(config, "listen"); i++) {
		const char *text = kw_config_text_at(config, "listen", i);
		struct kw_address address;

		if (kw_address_parse(text, &address, error) ||
			kw_server_listen(proxy->server, &address, error))
			return kw_error_wrap(error, "listen: %s", text);
	}
	return KW_OK;
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
	const struct kw_source_handlers handlers = {on_source_state, proxy};
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
	proxy->publisher.data = proxy->heartbeat.data = proxy;
	uv_prepare_start(&proxy->publisher, on_prepare);
	uv_timer_start(&proxy->heartbeat, on_heartbeat, HEARTBEAT_MS, HEARTBEAT_MS);
	kw_notify_init(&proxy->notify, proxy->loop);
	kw_daemon_begin(&proxy->daemon, proxy->loop);
}

static void close_handles(struct kw_proxy *proxy)
{
	kw_remote_end(proxy->loop);
	uv_close((uv_handle_t *)&proxy->publisher, NULL);
	uv_close((uv_handle_t *)&proxy->heartbeat, NULL);
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
		.daemon = {config, on_changed, on_reloaded},
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
		(code = make_server(proxy, error)) || (code = prepare_all(proxy, error)) ||
		(!proxy->table && (code = make_table(proxy, error))) ||
		(code = load_certificates(proxy, error)) ||
		(code = kw_proxy_make_authority(proxy, error)) ||
		(code = make_source(proxy, error)) || (code = listen_all(proxy, error)) ||
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
	kw_http_server_close(proxy->daemon.http);
	proxy->daemon.http = NULL;
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
