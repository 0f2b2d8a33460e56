/*
 * The agents that read the table: the server they join at, its listeners, keys and limits, what is
 * said of those who come and go, and the tickets that they ask for.
 */
#include "proxy.h"

#include "auth/endpoint.h"
#include "base/clock.h"
#include "base/log.h"
#include "control/config/keys.h"
#include "remote/rdma/keys.h"
#include "remote/users.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define JOINED "joined"
#define LEFT "left"
#define REFUSED "refused"

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
void kw_proxy_count_lines(struct kw_proxy *proxy)
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

static bool wants_ticket(void *arg, uint16_t ticket)
{
	return kw_source_want_ticket(((struct kw_proxy *)arg)->source, ticket);
}

/* Agents that wait for one that has passed, or that none can have drawn, hide no other. */
bool kw_proxy_is_ticket_wanted(struct kw_proxy *proxy)
{
	if (proxy->closing)
		return false;
	if (proxy->ticket && !kw_ticket_awaited(kw_source_ticket(proxy->source), proxy->ticket))
		proxy->ticket = 0;
	return (proxy->ticket && wants_ticket(proxy, proxy->ticket)) ||
	       kw_server_any_ticket(proxy->server, wants_ticket, proxy);
}

/*
 * An agent that sleeps sees all else, and the signs of life, when it looks by itself. Others'
 * tickets are nothing to it: one agent that waits would cost all of them two looks for each ticket.
 */
static bool is_same(const struct kw_superblock *one, const struct kw_superblock *other)
{
	return one->version == other->version && one->source_state == other->source_state &&
	       one->complete == other->complete && one->history_checksum == other->history_checksum;
}

void kw_proxy_wake_readers(struct kw_proxy *proxy)
{
	const struct kw_superblock *now = (const void *)(proxy->memory.base + KW_SUPERBLOCK_OFFSET);

	if (!proxy->server)
		return;
	if (!is_same(now, &proxy->told))
		kw_server_published(proxy->server, now->publication);
	else if (now->ticket != proxy->told.ticket)
		kw_server_ticket_moved(proxy->server, now->publication);
	proxy->told = *now;
}

static void on_ticket_timer(uv_timer_t *timer)
{
	kw_proxy_serve_tickets(timer->data);
}

/* If it may not begin now, it is tried again when it may, unless the heartbeat comes first. */
static bool may_begin(struct kw_proxy *proxy, uint64_t now_us)
{
	const struct kw_ticket_price *price = kw_source_ticket_price(proxy->source);
	uint64_t due_us = kw_ticket_due_us(&proxy->ticket_budget, price, now_us);

	if (due_us <= now_us)
		return true;
	if (due_us - now_us < KW_PROXY_HEARTBEAT_MS * 1000 &&
		!uv_is_active((uv_handle_t *)&proxy->ticket_timer))
		uv_timer_start(
			&proxy->ticket_timer, on_ticket_timer, (due_us - now_us + 999) / 1000, 0);
	return false;
}

/* It was announced. */
static void begin_ticket(struct kw_proxy *proxy, uint64_t now_us)
{
	kw_ticket_spend(&proxy->ticket_budget, kw_source_ticket_price(proxy->source), now_us);
	kw_proxy_publish(proxy);
	kw_source_begin_ticket(proxy->source);
}

void kw_proxy_serve_tickets(struct kw_proxy *proxy)
{
	uint64_t now_us = kw_clock_us();

	if (proxy->closing || !proxy->table || !may_begin(proxy, now_us))
		return;
	kw_ticket_looked(&proxy->ticket_budget, now_us);
	if (kw_proxy_is_ticket_wanted(proxy))
		begin_ticket(proxy, now_us);
}

void kw_proxy_serve_tickets_soon(struct kw_proxy *proxy)
{
	if (!proxy->closing)
		uv_timer_start(&proxy->ticket_timer, on_ticket_timer, 0, 0);
}

static void on_ticket(void *arg, uint16_t ticket)
{
	struct kw_proxy *proxy = arg;
	uint64_t now_us = kw_clock_us();

	if (ticket == 0) {
		kw_proxy_serve_tickets(proxy);
		return;
	}
	if (!proxy->closing && may_begin(proxy, now_us) && wants_ticket(proxy, ticket))
		begin_ticket(proxy, now_us);
}

/* Who held one of them may have mapped the memory. */
void kw_proxy_expire_keys(struct kw_proxy *proxy)
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

/* Their number and form were checked with the configuration. */
static void read_addresses(const struct kw_config *config, struct kw_endpoints *addresses)
{
	addresses->count = (int)kw_config_count(config, "auth.addresses");
	for (int i = 0; i < addresses->count; i++)
		(void)kw_endpoint_parse(kw_config_text_at(config, "auth.addresses", (size_t)i),
			&addresses->items[i]);
}

void kw_proxy_set_addresses(struct kw_proxy *proxy)
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

void kw_proxy_set_limits(struct kw_proxy *proxy)
{
	const struct kw_server_limits limits = read_limits(proxy->daemon.config);

	kw_server_set_limits(proxy->server, &limits);
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

int kw_proxy_make_server(struct kw_proxy *proxy, struct kw_error *error)
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

/*
 * Devices come before the table, whose directory names the rkeys of its extents. If a device is not
 * there yet (at boot the proxy can start before its NIC), its listener waits for it.
 */
int kw_proxy_prepare_listeners(struct kw_proxy *proxy, struct kw_error *error)
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

int kw_proxy_listen(struct kw_proxy *proxy, struct kw_error *error)
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
