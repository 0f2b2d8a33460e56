#include "control/http/internal.h"

#include <stdlib.h>
#include <sys/socket.h>

#define LIFE_US (UINT64_C(1000) * KW_HTTP_LIFE_MS)

static void end(struct http_connections *connections, struct http_connection *connection)
{
	connection->state = HTTP_ENDED;
	connections->count--;
	/* The descriptor is libmicrohttpd's: it reads the end of the stream, and closes. */
	(void)shutdown(connection->fd, SHUT_RDWR);
}

static struct http_connection *oldest_asking(const struct http_connections *connections)
{
	struct http_connection *c = connections->oldest;

	while (c && c->state != HTTP_ASKS)
		c = c->next;
	return c;
}

struct http_connection *http_connections_add(
	struct http_connections *connections, int fd, uint64_t now_us)
{
	struct http_connection *connection = kw_zalloc(sizeof *connection);

	if (connections->count >= KW_HTTP_CONNECTIONS_MAX)
		end(connections, oldest_asking(connections));
	connection->fd = fd;
	connection->since_us = now_us;
	connection->before = connections->newest;
	if (connections->newest)
		connections->newest->next = connection;
	else
		connections->oldest = connection;
	connections->newest = connection;
	connections->count++;
	return connection;
}

void http_connections_remove(
	struct http_connections *connections, struct http_connection *connection)
{
	if (connection->before)
		connection->before->next = connection->next;
	else
		connections->oldest = connection->next;
	if (connection->next)
		connection->next->before = connection->before;
	else
		connections->newest = connection->before;
	connections->count -= connection->state == HTTP_ASKS;
	free(connection);
}

void http_connections_listen(
	struct http_connections *connections, struct http_connection *connection)
{
	if (connection->state != HTTP_ASKS)
		return; /* it has been shut down meanwhile */
	connection->state = HTTP_LISTENS;
	connections->count--;
}

uint64_t http_connections_sweep(struct http_connections *connections, uint64_t now_us)
{
	struct http_connection *c;

	while ((c = oldest_asking(connections)) && now_us - c->since_us >= LIFE_US)
		end(connections, c);
	return c ? c->since_us + LIFE_US - now_us : HTTP_NEVER;
}
