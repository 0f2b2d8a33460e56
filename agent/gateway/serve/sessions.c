/* What the sessions of Redis clients are told of the gateway, and their users. */
#include "internal.h"

#include "base/clock.h"
#include "gateway/forward/commands.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#define SCRATCH_KEPT ((size_t)16 << 10)

/* As CLIENT LIST writes it: host:port, or a path of a unix socket with port 0. */
static void write_address(const struct sockaddr_storage *address, char text[KW_SESSION_ADDRESS])
{
	const struct sockaddr_in *four = (const struct sockaddr_in *)address;
	const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)address;
	char host[INET6_ADDRSTRLEN] = "";

	if (address->ss_family == AF_INET) {
		inet_ntop(AF_INET, &four->sin_addr, host, sizeof host);
		snprintf(text, KW_SESSION_ADDRESS, "%s:%u", host, (unsigned)ntohs(four->sin_port));
	} else if (address->ss_family == AF_INET6) {
		inet_ntop(AF_INET6, &six->sin6_addr, host, sizeof host);
		snprintf(
			text, KW_SESSION_ADDRESS, "[%s]:%u", host, (unsigned)ntohs(six->sin6_port));
	} else if (address->ss_family == AF_UNIX) {
		const struct sockaddr_un *path = (const struct sockaddr_un *)address;

		snprintf(text, KW_SESSION_ADDRESS, "%.*s:0", (int)sizeof path->sun_path,
			path->sun_path);
	}
}

static void write_addresses(const struct kw_client *client, struct kw_session_facts *facts)
{
	struct sockaddr_storage address = {0};
	socklen_t length = sizeof address;

	if (getsockname(client->socket.fd, (struct sockaddr *)&address, &length) == 0)
		write_address(&address, facts->local_address);
	if (address.ss_family == AF_UNIX) { /* a client's own end has no name */
		memcpy(facts->address, facts->local_address, sizeof facts->address);
		return;
	}
	facts->port = address.ss_family == AF_INET
			      ? ntohs(((struct sockaddr_in *)&address)->sin_port)
			      : ntohs(((struct sockaddr_in6 *)&address)->sin6_port);
	length = sizeof address;
	if (getpeername(client->socket.fd, (struct sockaddr *)&address, &length) == 0)
		write_address(&address, facts->address);
}

static enum kw_session_table table_of(enum kw_gateway_state state)
{
	switch (state) {
	case KW_GATEWAY_SERVING:
		return KW_SESSION_TABLE_SERVED;
	case KW_GATEWAY_LOADING:
		return KW_SESSION_TABLE_LOADING;
	case KW_GATEWAY_STALE:
		return KW_SESSION_TABLE_STALE;
	case KW_GATEWAY_CONNECTING:
	case KW_GATEWAY_FAILED:
		break;
	}
	return KW_SESSION_TABLE_LOST;
}

static void look(void *arg, const struct kw_session *session, struct kw_session_facts *facts)
{
	const struct kw_frontend *server = arg;
	struct kw_gets_sight sight;

	kw_gets_sight(server->options.gets, &sight);
	facts->now_us = sight.now_us ? sight.now_us : kw_wall_us();
	facts->uptime_s = (kw_clock_us() - server->started_us) / 1000000;
	facts->clients = server->stats.clients;
	facts->max_clients = server->options.max_clients;
	facts->idle_timeout_s = (server->options.idle_timeout_ms + 999) / 1000;
	facts->table = table_of(sight.state);
	facts->keys = kw_gets_follow(server->options.gets)->superblock.keys;
	facts->fresh_us = sight.fresh_us;
	facts->epoch = sight.epoch;
	facts->version = sight.version;
	facts->name = server->options.name ? server->options.name : "";
	facts->state = kw_gateway_state_name(sight.state);
	if (session->owner)
		write_addresses(session->owner, facts);
}

/* A command that the session's catalog does not know. */
static bool forwards(void *arg, struct kw_slice name)
{
	return kw_forward_may(&name, 1).why == NULL;
}

void kw_frontend_sessions_init(struct kw_frontend *server)
{
	struct kw_users *users = server->options.users;

	server->sessions = (struct kw_session_host){
		.users = users ? users : kw_users_open(),
		.forwards = server->options.forward ? forwards : NULL,
		.look = look,
		.arg = server,
	};
	server->options.users = (struct kw_users *)server->sessions.users;
}

void kw_frontend_sessions_close(struct kw_frontend *server)
{
	kw_users_free(server->options.users);
	kw_buffer_close(&server->scratch);
}

/* As the proxy says. Valkey calls itself Redis 7.2.4 when it is asked for that version. */
static void learn_server(struct kw_frontend *server)
{
	const struct kw_history_server *known =
		&kw_gets_follow(server->options.gets)->history.server;
	struct kw_session_host *host = &server->sessions;

	host->release = kw_frontend_release(server);
	host->databases = known->databases;
	host->server_version = NULL;
	if (known->fork == 0)
		return;
	snprintf(server->server_version, sizeof server->server_version, "%u.%u.%u", known->major,
		known->minor, known->patch);
	if (known->fork == 1)
		host->server_version = server->server_version;
	host->valkey_version = known->fork == 2 ? server->server_version : NULL;
}

const struct kw_session_host *kw_frontend_sessions(struct kw_frontend *server)
{
	learn_server(server);
	return &server->sessions;
}

struct kw_buffer *kw_frontend_scratch(struct kw_frontend *server)
{
	kw_buffer_clear(&server->scratch);
	kw_buffer_trim(&server->scratch, SCRATCH_KEPT);
	return &server->scratch;
}

void kw_frontend_set_users(struct kw_frontend *server, struct kw_users *users)
{
	struct kw_users *before = server->options.users;
	struct kw_client *client = server->clients;

	server->options.users = users;
	server->sessions.users = users;
	while (client) {
		struct kw_client *next = client->next;

		if (client->protocol->take_users && !client->protocol->take_users(client, users))
			kw_client_close(client, KW_CLOSED_USER);
		client = next;
	}
	kw_users_free(before);
}

void kw_frontend_judge_certificates(struct kw_frontend *server)
{
	const struct kw_tls_context *context = server->options.tls->context;
	struct kw_client *client = server->clients;

	while (client && context) {
		struct kw_client *next = client->next;

		if (!kw_socket_is_admitted(&client->socket, context))
			kw_client_close(client, KW_CLOSED_USER);
		client = next;
	}
}
