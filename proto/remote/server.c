#include "remote/server.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "remote/server_internal.h"
#include "remote/tcp/serve.h"
#include "remote/users.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define HANDSHAKE_TIMEOUT_MS 5000
#define DEPTH 64
#define HELLO_TIMEOUT_MS 2000
#define GREETINGS_MAX 64 /* connections that threads build at a time */

/* ---- states ---- */

#define TO(state) KW_SM_TO(KW_SERVER_##state)
static const struct kw_sm_state server_states[] = {
	[KW_SERVER_SERVING] = {"serving", TO(BUSY) | TO(CLOSING), KW_SM_INITIAL},
	[KW_SERVER_BUSY] = {"busy", TO(SERVING) | TO(CLOSING)},
	[KW_SERVER_CLOSING] = {"closing", TO(CLOSED)},
	[KW_SERVER_CLOSED] = {"closed", 0, KW_SM_FINAL},
};
#undef TO

static bool server_holds(const void *owner, int state)
{
	const struct kw_server *server = owner;

	switch ((enum kw_server_state)state) {
	case KW_SERVER_SERVING:
		return server->greetings < GREETINGS_MAX;
	case KW_SERVER_BUSY:
		return server->greetings == GREETINGS_MAX;
	case KW_SERVER_CLOSING:
		return true;
	case KW_SERVER_CLOSED:
		return !server->sessions && server->session_count == 0 && server->greetings == 0;
	}
	return false;
}

static const struct kw_sm_conf server_machine = {
	.where = "server",
	.states = server_states,
	.count = sizeof server_states / sizeof *server_states,
	.invariant = server_holds,
};

#define TO(state) KW_SM_TO(KW_LISTENER_##state)
static const struct kw_sm_state listener_states[] = {
	[KW_LISTENER_NEW] = {"new", TO(LISTENING) | TO(WAITING), KW_SM_INITIAL},
	[KW_LISTENER_LISTENING] = {"listening", TO(WAITING) | TO(CLOSED)},
	[KW_LISTENER_WAITING] = {"waiting", TO(LISTENING) | TO(CLOSED)},
	[KW_LISTENER_CLOSED] = {"closed", 0, KW_SM_FINAL},
};

static bool listener_holds(const void *owner, int state)
{
	const struct kw_listener *listener = owner;

	if (state == KW_LISTENER_WAITING)
		return listener->why.code != KW_OK && !listener->device[0];
	return state == KW_LISTENER_CLOSED ||
	       (listener->why.code == KW_OK && listener->attempts == 0);
}

static const struct kw_sm_conf listener_machine = {
	.where = "listener",
	.states = listener_states,
	.count = sizeof listener_states / sizeof *listener_states,
	.invariant = listener_holds,
};

static bool listener_is(const struct kw_listener *listener, enum kw_listener_state state)
{
	return listener->sm.state == (int)state;
}

/* ---- for the carriers ---- */

uv_loop_t *kw_server_loop(struct kw_server *server)
{
	return server->loop;
}

struct kw_memory *kw_server_memory(struct kw_server *server)
{
	return server->memory;
}

uint32_t kw_server_handshake_timeout_ms(const struct kw_server *server)
{
	return server->options.handshake_timeout_ms;
}

uint32_t kw_server_hello_timeout_ms(const struct kw_server *server)
{
	return server->options.hello_timeout_ms;
}

enum kw_peer_user kw_server_judge(const struct kw_server *server, uint32_t uid)
{
	return kw_peer_judge(&server->options.users, &server->self, uid);
}

const struct kw_rdma_options *kw_server_rdma(const struct kw_server *server)
{
	return &server->options.rdma;
}

int kw_server_compression_level(const struct kw_server *server)
{
	return server->options.compression_level;
}

struct kw_tls_context *kw_server_tls(const struct kw_server *server)
{
	return server->options.tls;
}

enum kw_tls_identity kw_server_tls_identity(const struct kw_server *server)
{
	return server->options.identity;
}

void *kw_server_kept(struct kw_server *server)
{
	return server->kept;
}

void kw_server_keep(struct kw_server *server, void *device, const struct kw_kept_ops *ops)
{
	assert(!server->kept || !device);
	server->kept = device;
	server->kept_ops = ops;
}

void kw_server_placed(struct kw_server *server)
{
	if (server->handlers.placed)
		server->handlers.placed(server->handlers.arg);
}

void kw_server_rotated(struct kw_server *server, const struct kw_rotation *rotation)
{
	if (server->handlers.rotated)
		server->handlers.rotated(server->handlers.arg, rotation);
}

static void wake(void *arg)
{
	struct kw_server *server = arg;

	uv_async_send(&server->async);
}

struct kw_tcp_serve *kw_server_serve(struct kw_server *server, struct kw_error *error)
{
	if (!server->serve)
		server->serve = kw_tcp_serve_new(server->memory, wake, server, error);
	return server->serve;
}

void kw_server_violated(struct kw_server *server, enum kw_frame_status what)
{
	if (what == KW_FRAME_BOUNDS)
		server->stats.out_of_bounds++;
	else if (what == KW_FRAME_DEPTH)
		server->stats.beyond_depth++;
	else if (what == KW_FRAME_BAD)
		server->stats.bad_frames++;
}

static void on_async(uv_async_t *async)
{
	struct kw_server *server = async->data;
	struct kw_tcp_conn *conn;

	/* The last session to end can finish the server, but only in a later turn of the loop. */
	kw_server_check_keys(server);
	kw_server_wake(server);
	while (server->serve && (conn = kw_tcp_serve_ended(server->serve))) {
		kw_server_violated(server, conn->ended_by);
		kw_session_ended(conn->owner, conn->why.text);
		kw_tcp_conn_free(conn);
	}
	/* A look at all sessions, after which the next one waits: it is made for a wish alone. */
	if (server->serve && kw_tcp_serve_wished(server->serve) && server->handlers.ticket &&
		!kw_server_closing(server))
		server->handlers.ticket(server->handlers.arg, 0);
}

/* ---- handshakes ---- */

bool kw_server_busy(const struct kw_server *server)
{
	return server->sm.state == KW_SERVER_BUSY;
}

static int begin(struct kw_server *server, struct kw_handshake *handshake, struct kw_error *error)
{
	uint8_t nonce[KW_NONCE_BYTES];
	struct kw_handshake_options options = {
		.keyring = &server->keyring,
		.layout_version = KW_LAYOUT_VERSION,
		.nonce = nonce,
		.addresses = &server->options.addresses,
	};
	int code = kw_handshake_nonce(nonce, error);

	if (code != 0)
		return code;
	kw_handshake_init_proxy(handshake, &options);
	server->stats.handshakes++;
	return 0;
}

int kw_server_challenge(struct kw_server *server, struct kw_handshake *handshake,
	const struct kw_arrival *arrival, struct kw_error *error)
{
	int code = begin(server, handshake, error);

	if (code == 0)
		kw_handshake_set_channel(handshake, &arrival->channel);
	return code;
}

int kw_server_greet(
	struct kw_server *server, struct kw_handshake *handshake, struct kw_error *error)
{
	int code = begin(server, handshake, error);

	if (code != 0)
		return code;
	assert(server->greetings < GREETINGS_MAX);
	server->greetings++;
	if (server->greetings == GREETINGS_MAX && !kw_server_closing(server))
		kw_sm_move(&server->sm, KW_SERVER_BUSY, "no place for another connection to build");
	return 0;
}

void kw_server_greeted(struct kw_server *server)
{
	assert(server->greetings > 0);
	server->greetings--;
	if (kw_server_busy(server))
		kw_sm_move(&server->sm, KW_SERVER_SERVING, "");
}

void kw_server_set_addresses(struct kw_server *server, const struct kw_endpoints *addresses)
{
	server->options.addresses = *addresses;
}

/* Is each READ an answer of ours? */
static bool is_served(uint8_t kind)
{
	return kind == KW_CHANNEL_TCP || kind == KW_CHANNEL_TLS;
}

void kw_server_facts(struct kw_server *server, const struct kw_handshake *handshake,
	struct kw_handshake_facts *facts)
{
	struct stat status;

	*facts = (struct kw_handshake_facts){
		.epoch = server->handlers.epoch(server->handlers.arg),
		.depth = handshake->depth,
		.extent = server->memory->extents[0],
		.session = ++server->next_id,
		.scoped = kw_server_scope(server, &handshake->identity) != NULL,
	};
	if (facts->depth > server->options.depth_max)
		facts->depth = server->options.depth_max;
	if (handshake->compress && is_served(handshake->channel.kind))
		facts->compression = kw_server_compression(server);
	if (handshake->channel.kind != KW_CHANNEL_SHM)
		return;
	facts->wakes = handshake->sleeps;
	/* Without the two numbers the agent refuses the file. */
	if (fstat(server->memory->readonly_fd, &status) != 0)
		return;
	facts->memory_device = status.st_dev;
	facts->memory_inode = status.st_ino;
}

void kw_server_rejected(struct kw_server *server, const char *why)
{
	server->stats.rejected++;
	server->handlers.rejected(server->handlers.arg, why);
}

void kw_server_stats(const struct kw_server *server, struct kw_server_stats *stats)
{
	*stats = server->stats;
}

/* ---- the server ---- */

static void set_options(struct kw_server *server, const struct kw_server_options *options)
{
	struct kw_server_options *own = &server->options;

	*own = *options;
	if (own->handshake_timeout_ms == 0)
		own->handshake_timeout_ms = HANDSHAKE_TIMEOUT_MS;
	if (own->hello_timeout_ms == 0)
		own->hello_timeout_ms = HELLO_TIMEOUT_MS;
	if (own->hello_timeout_ms > own->handshake_timeout_ms)
		own->hello_timeout_ms = own->handshake_timeout_ms;
	kw_server_set_limits(server, &options->limits);
	if (own->silent_us == 0)
		own->silent_us = KW_SESSION_SILENT_US;
	if (own->compression_level == 0)
		own->compression_level = 1;
	if (own->depth_max == 0)
		own->depth_max = DEPTH;
	if (own->depth_max > KW_DEPTH_MAX)
		own->depth_max = KW_DEPTH_MAX;
	own->secret = (struct kw_slice){0};
	own->keyring = NULL;
	if (own->tls)
		own->tls = kw_tls_context_ref(own->tls);
	/* Without a text there is nothing to refuse. */
	server->keyring = options->keyring ? kw_keyring_hold(options->keyring)
					   : kw_keyring_new(options->secret, own->secret, NULL);
}

struct kw_server *kw_server_new(uv_loop_t *loop, struct kw_memory *memory,
	const struct kw_server_options *options, const struct kw_server_handlers *handlers)
{
	struct kw_server *server = kw_zalloc(sizeof *server);

	server->loop = loop;
	server->memory = memory;
	server->handlers = *handlers;
	server->self = kw_user_self();
	set_options(server, options);
	kw_sm_init(&server->sm, &server_machine, server, KW_SERVER_SERVING);
	/* Fails only when the system has no descriptor left at all; then nothing here would work.
	 */
	if (uv_async_init(loop, &server->async, on_async) != 0)
		abort();
	server->async.data = server;
	return server;
}

/* ---- listeners ---- */

static void describe(const struct kw_listener *listener, struct kw_listener_info *info)
{
	*info = (struct kw_listener_info){
		.carrier = listener->address.carrier,
		.waiting = listener_is(listener, KW_LISTENER_WAITING),
		.attempts = listener->attempts,
	};
	static_assert(sizeof info->address == KW_ADDRESS_TEXT, "no address is cut off");
	kw_address_text(&listener->address, info->address, sizeof info->address);
	memcpy(info->device, listener->device, sizeof info->device);
	memcpy(info->why, listener->why.text, sizeof info->why);
}

static void tell(const struct kw_listener *listener)
{
	const struct kw_server *server = listener->server;
	struct kw_listener_info info;

	if (!server->handlers.listener)
		return;
	describe(listener, &info);
	server->handlers.listener(server->handlers.arg, &info);
}

void kw_listener_waits(struct kw_listener *listener, const struct kw_error *why)
{
	bool again = listener_is(listener, KW_LISTENER_WAITING);
	bool news = !again || strcmp(listener->why.text, why->text) != 0;

	assert(why->code != KW_OK);
	listener->attempts = again ? listener->attempts + 1 : 0;
	listener->why = *why;
	listener->device[0] = '\0';
	kw_sm_move(&listener->sm, KW_LISTENER_WAITING, why->text);
	if (news)
		tell(listener);
}

void kw_listener_listens(struct kw_listener *listener)
{
	listener->attempts = 0;
	listener->why = (struct kw_error){0};
	kw_sm_move(&listener->sm, KW_LISTENER_LISTENING, "");
	tell(listener);
}

int kw_server_listeners(const struct kw_server *server, struct kw_listener_info *infos, int most)
{
	int count = 0;

	for (const struct kw_listener *at = server->listeners; at; at = at->next) {
		if (count < most)
			describe(at, &infos[count]);
		count++;
	}
	return count;
}

static const struct kw_listener_ops *find_carrier(enum kw_carrier carrier)
{
	static const struct kw_listener_ops *const all[] = {
		&kw_listener_shm,
		&kw_listener_tcp,
		&kw_listener_tls,
#ifdef KW_HAVE_RDMA
		&kw_listener_rdma,
#endif
	};

	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (all[i]->carrier == carrier)
			return all[i];
	return NULL;
}

static int check_listen(
	const struct kw_server *server, const struct kw_address *address, struct kw_error *error)
{
	char text[KW_ADDRESS_TEXT];

	kw_address_text(address, text, sizeof text);
	if (kw_server_closing(server))
		return kw_error_set(error, KW_E_STATE, "listen on %s: shutting down", text);
	if (atomic_load(&server->memory->extent_count) == 0)
		return kw_error_set(error, KW_E_STATE, "listen on %s: there is no table yet", text);
	return kw_address_check_guard(address,
		kw_server_keyed(server) || server->options.allow_insecure ||
			(address->carrier == KW_CARRIER_TLS && kw_server_certifies(server)),
		true, error);
}

int kw_server_look(const struct kw_address *address, const struct kw_rdma_options *rdma,
	struct kw_error *error)
{
	const struct kw_listener_ops *ops = find_carrier(address->carrier);

	if (!ops)
		return kw_carrier_missing(address, error);
	return ops->look ? ops->look(address, rdma, error) : 0;
}

int kw_server_prepare(
	struct kw_server *server, const struct kw_address *address, struct kw_error *error)
{
	const struct kw_listener_ops *ops = find_carrier(address->carrier);
	char text[KW_ADDRESS_TEXT];
	int code;

	if (!ops)
		return kw_carrier_missing(address, error);
	code = ops->prepare ? ops->prepare(server, address, error) : 0;
	if (code != 0) {
		kw_address_text(address, text, sizeof text);
		kw_error_wrap(error, "listen on %s", text);
	}
	return code;
}

int kw_server_listen(
	struct kw_server *server, const struct kw_address *address, struct kw_error *error)
{
	const struct kw_listener_ops *ops = find_carrier(address->carrier);
	struct kw_listener **end = &server->listeners;
	struct kw_listener *listener;
	char text[KW_ADDRESS_TEXT];
	int code;

	if (!ops)
		return kw_carrier_missing(address, error);
	code = check_listen(server, address, error);
	if (code != 0)
		return code;
	listener = kw_zalloc(sizeof *listener);
	listener->server = server;
	listener->ops = ops;
	listener->address = *address;
	kw_sm_init(&listener->sm, &listener_machine, listener, KW_LISTENER_NEW);
	code = ops->listen(listener, error);
	if (code != 0) {
		free(listener);
		kw_address_text(address, text, sizeof text);
		kw_error_wrap(error, "listen on %s", text);
		return code;
	}
	while (*end)
		end = &(*end)->next;
	*end = listener;
	if (!listener_is(listener, KW_LISTENER_WAITING))
		kw_listener_listens(listener);
	return 0;
}

uint16_t kw_server_port(const struct kw_server *server, int listener)
{
	const struct kw_listener *at = server->listeners;

	while (at && listener-- > 0)
		at = at->next;
	return at ? at->address.port : 0;
}

void kw_listener_closed(struct kw_listener *listener)
{
	kw_sm_move(&listener->sm, KW_LISTENER_CLOSED, "");
	kw_server_maybe_finish(listener->server);
}

static void on_async_closed(uv_handle_t *handle)
{
	struct kw_server *server = handle->data;
	void (*done)(void *arg) = server->done;
	void *arg = server->done_arg;

	kw_keyring_release(server->keyring);
	kw_tls_context_unref(server->options.tls);
	free(server);
	if (done)
		done(arg);
}

void kw_server_maybe_finish(struct kw_server *server)
{
	struct kw_listener *at, *next;

	if (server->sm.state != KW_SERVER_CLOSING || server->sessions)
		return;
	for (at = server->listeners; at; at = at->next)
		if (!listener_is(at, KW_LISTENER_CLOSED))
			return;
	kw_sm_move(&server->sm, KW_SERVER_CLOSED, "");
	for (at = server->listeners; at; at = next) {
		next = at->next;
		free(at);
	}
	server->listeners = NULL;
	if (server->serve) {
		kw_tcp_serve_stop(server->serve);
		kw_tcp_serve_free(server->serve);
		server->serve = NULL;
	}
	if (server->kept)
		server->kept_ops->release(server->kept);
	server->kept = NULL;
	uv_close((uv_handle_t *)&server->async, on_async_closed);
}

void kw_server_close(struct kw_server *server, void (*done)(void *arg), void *arg)
{
	assert(!kw_server_closing(server));
	kw_sm_move(&server->sm, KW_SERVER_CLOSING, "");
	server->done = done;
	server->done_arg = arg;
	for (struct kw_session *at = server->sessions; at; at = at->next)
		kw_session_end(at, KW_FRAME_SHUTDOWN, "the proxy is shutting down");
	for (struct kw_listener *at = server->listeners; at; at = at->next)
		at->ops->close(at);
	kw_server_maybe_finish(server);
}
