#include "control/http/address.h"

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LOOPBACK_NET 127
#define PORT_DIGITS 5
#define PORT_MOST 65535

static int refuse(const char *text, const char *why, struct kw_error *error)
{
	return kw_error_set(error, KW_E_CONFIG,
		"\"%.200s\": %s; use unix:///path/of.sock or tcp://host:port", text, why);
}

/* The port's number; -1: it is none. */
static int port_of(const char *text)
{
	size_t length = strlen(text);
	long port;

	if (length == 0 || length > PORT_DIGITS || strspn(text, "0123456789") != length)
		return -1;
	port = strtol(text, NULL, 10);
	return port >= 1 && port <= PORT_MOST ? (int)port : -1;
}

static bool set_ip4(const char *host, int port, struct kw_http_address *address)
{
	struct sockaddr_in *ip = (struct sockaddr_in *)&address->tcp;

	ip->sin_family = AF_INET;
	ip->sin_port = htons((uint16_t)port);
	address->tcp_length = sizeof *ip;
	if (inet_pton(AF_INET, host, &ip->sin_addr) != 1)
		return false;
	address->reach =
		ntohl(ip->sin_addr.s_addr) >> 24 == LOOPBACK_NET ? KW_HTTP_LOOPBACK : KW_HTTP_OPEN;
	return true;
}

static bool set_ip6(const char *host, int port, struct kw_http_address *address)
{
	struct sockaddr_in6 *ip = (struct sockaddr_in6 *)&address->tcp;

	ip->sin6_family = AF_INET6;
	ip->sin6_port = htons((uint16_t)port);
	address->tcp_length = sizeof *ip;
	if (inet_pton(AF_INET6, host, &ip->sin6_addr) != 1)
		return false;
	address->reach = IN6_IS_ADDR_LOOPBACK(&ip->sin6_addr) ? KW_HTTP_LOOPBACK : KW_HTTP_OPEN;
	return true;
}

static int parse_tcp(
	const char *text, const char *rest, struct kw_http_address *address, struct kw_error *error)
{
	const char *colon = strrchr(rest, ':');
	char host[INET6_ADDRSTRLEN + 2];
	size_t length = colon ? (size_t)(colon - rest) : 0;
	int port = colon ? port_of(colon + 1) : -1;

	if (port < 0)
		return refuse(text, "the port must be a number from 1 to 65535", error);
	if (length == 0 || length >= sizeof host)
		return refuse(text, "the host must be an IP address or localhost", error);
	memcpy(host, rest, length);
	host[length] = '\0';
	if (strcmp(host, "localhost") == 0)
		strcpy(host, "127.0.0.1");
	if (host[0] == '[' && host[length - 1] == ']') {
		host[length - 1] = '\0';
		if (set_ip6(host + 1, port, address))
			return KW_OK;
	} else if (set_ip4(host, port, address)) {
		return KW_OK;
	}
	return refuse(text,
		"the host must be an IP address (IPv6 in brackets), or localhost: no name is "
		"resolved",
		error);
}

int kw_http_address_parse(const char *text, struct kw_http_address *address, struct kw_error *error)
{
	static const char tcp[] = "tcp://", local[] = "unix://";
	const char *path = text + strlen(local);

	*address = (struct kw_http_address){.reach = KW_HTTP_UNIX};
	if (strncmp(text, tcp, strlen(tcp)) == 0)
		return parse_tcp(text, text + strlen(tcp), address, error);
	if (strncmp(text, local, strlen(local)) != 0)
		return refuse(text, "this is no address", error);
	if (path[0] != '/')
		return refuse(text, "the path must begin with /", error);
	if (strlen(path) >= sizeof address->path)
		return refuse(text, "the path is too long", error);
	strcpy(address->path, path);
	return KW_OK;
}

int kw_http_address_check(const char *text, struct kw_error *error)
{
	struct kw_http_address address;

	return *text ? kw_http_address_parse(text, &address, error) : KW_OK;
}
