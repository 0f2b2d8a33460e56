#include "handshake.h"

#include "internal.h"

#include "base/log.h"

#include <stdlib.h>
#include <unistd.h>

struct kw_handshake {
	struct kw_handshake *older, *newer;
	struct kw_frontend *server;
	const struct kw_protocol *protocol;
	uv_poll_t poll;
	struct kw_socket socket; /* tls NULL: SILENT; fd -1: a client has it */
	uint64_t since_ms;
	int events;
};

const struct kw_tls_terms kw_frontend_tls_terms = {
	.keys = "gateway.tls",
	.peer = "the client",
	.plain = "let it use TLS, or give it an address without",
	.demand = "take gateway.tls.ca away",
	.trust = "its CAs",
	.secrets = true,
};

static void on_poll(uv_poll_t *poll, int status, int events);

static void unlist(struct kw_handshake *handshake)
{
	struct kw_handshakes *all = &handshake->server->handshakes;

	*(handshake->newer ? &handshake->newer->older : &all->newest) = handshake->older;
	*(handshake->older ? &handshake->older->newer : &all->oldest) = handshake->newer;
	all->count--;
}

static void on_closed(uv_handle_t *handle)
{
	struct kw_handshake *handshake = handle->data;
	struct kw_frontend *server = handshake->server;

	if (handshake->socket.fd >= 0)
		kw_socket_close(&handshake->socket);
	free(handshake);
	kw_frontend_part_closed(server);
}

/* It is no client's any more, or never was. */
static void end(struct kw_handshake *handshake)
{
	unlist(handshake);
	uv_close((uv_handle_t *)&handshake->poll, on_closed);
}

static void give_up(struct kw_handshake *handshake)
{
	handshake->server->stats.closed[KW_CLOSED_HANDSHAKE]++;
	end(handshake);
}

static void refuse(struct kw_handshake *handshake, const char *why)
{
	struct kw_frontend *server = handshake->server;

	if (kw_frontend_may_say(server, &server->handshakes.said_ms))
		kw_log_warn(
			"gateway", "a %s client is refused: %s", handshake->protocol->name, why);
	give_up(handshake);
}

/* The handshake is done: the socket changes hands. */
static void hand_over(struct kw_handshake *handshake)
{
	struct kw_frontend *server = handshake->server;
	const struct kw_protocol *protocol = handshake->protocol;
	struct kw_socket socket = handshake->socket;

	if (!kw_socket_is_admitted(&socket, server->options.tls->context)) {
		refuse(handshake, "its certificate does not count any more since the last reload");
		return;
	}
	handshake->socket = (struct kw_socket){.fd = -1};
	end(handshake); /* the loop does not watch it any more */
	kw_client_let_in(server, protocol, &socket);
}

static void watch(struct kw_handshake *handshake, int events)
{
	if (handshake->events != events)
		uv_poll_start(&handshake->poll, events, on_poll);
	handshake->events = events;
}

static void shake(struct kw_handshake *handshake)
{
	struct kw_tls_channel *tls = handshake->socket.tls;
	struct kw_error error;

	switch (kw_tls_channel_shake(tls, &error)) {
	case KW_TLS_DONE:
		hand_over(handshake);
		return;
	case KW_TLS_AGAIN:
		watch(handshake, kw_tls_channel_read_wants(tls) == KW_TLS_WANTS_WRITE
					 ? UV_WRITABLE
					 : UV_READABLE);
		return;
	default:
		refuse(handshake, error.text);
	}
}

/* The certificates of this moment. */
static bool begin_tls(struct kw_handshake *handshake)
{
	struct kw_tls_context *context = handshake->server->options.tls->context;
	struct kw_error error;

	handshake->socket.tls =
		kw_tls_channel_new(context, handshake->socket.fd, NULL, NULL, &error);
	if (!handshake->socket.tls)
		refuse(handshake, error.text);
	return handshake->socket.tls != NULL;
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
	struct kw_handshake *handshake = poll->data;
	struct kw_frontend *server = handshake->server;

	if (status < 0) {
		give_up(handshake);
		return;
	}
	/* The poll tells it again in the next turn. */
	if (server->handshakes.steps >= KW_HANDSHAKE_STEPS)
		return;
	server->handshakes.steps++;
	if (handshake->socket.tls || begin_tls(handshake))
		shake(handshake);
}

void kw_handshake_begin(struct kw_frontend *server, const struct kw_protocol *protocol, int fd)
{
	struct kw_handshakes *all = &server->handshakes;
	struct kw_handshake *handshake = kw_zalloc(sizeof *handshake);

	if (uv_poll_init(server->options.loop, &handshake->poll, fd) != 0) {
		close(fd);
		free(handshake);
		return;
	}
	if (all->count == KW_HANDSHAKES_MAX)
		give_up(all->oldest);
	handshake->server = server;
	handshake->protocol = protocol;
	handshake->socket = (struct kw_socket){.fd = fd};
	handshake->since_ms = uv_now(server->options.loop);
	handshake->poll.data = handshake;
	handshake->older = all->newest;
	*(all->newest ? &all->newest->newer : &all->oldest) = handshake;
	all->newest = handshake;
	all->count++;
	server->open++;
	watch(handshake, UV_READABLE);
}

void kw_handshakes_turn(struct kw_frontend *server)
{
	server->handshakes.steps = 0;
}

void kw_handshakes_tick(struct kw_frontend *server, uint64_t now_ms)
{
	struct kw_handshake *oldest;

	while ((oldest = server->handshakes.oldest) && now_ms > oldest->since_ms + KW_HANDSHAKE_MS)
		give_up(oldest);
}

void kw_handshakes_close(struct kw_frontend *server)
{
	while (server->handshakes.oldest)
		end(server->handshakes.oldest);
}
