#include "server.h"

#include "base/buffer.h"
#include "redis/address.h"

#include <stdlib.h>

struct kw_server {
	struct kw_server_options options;
	struct kw_server_stats stats;
};

const struct kw_protocol kw_protocol_resp = {.name = "resp"};

struct kw_server *kw_server_new(const struct kw_server_options *options)
{
	struct kw_server *server = kw_zalloc(sizeof *server);

	server->options = *options;
	return server;
}

int kw_server_address_check(const char *address, struct kw_error *error)
{
	return kw_redis_address_check(address, error);
}

int kw_server_listen(struct kw_server *server, const char *address,
	const struct kw_protocol *protocol, struct kw_error *error)
{
	return KW_OK;
}

void kw_server_close(struct kw_server *server, void (*done)(void *arg), void *arg)
{
	free(server);
	done(arg);
}

void kw_server_set_max_clients(struct kw_server *server, uint32_t clients)
{
	server->options.max_clients = clients;
}

const char *kw_closed_for_name(enum kw_closed_for reason)
{
	static const char *const names[] = {
		"peer", "quit", "protocol", "input", "slow", "full", "end"};

	return names[reason];
}

const struct kw_server_stats *kw_server_stats(const struct kw_server *server)
{
	return &server->stats;
}
