#include "remote/socket.h"

#include "remote/slots.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>

#define KEEPALIVE_IDLE_S 10
#define KEEPALIVE_INTERVAL_S 5
#define KEEPALIVE_PROBES 3
#define USER_TIMEOUT_MS 25000 /* as long as keepalive takes: idle + interval * probes */

static void set(int fd, int level, int option, int value)
{
	/* A socket without one of these still works; and nothing more can be done. */
	(void)setsockopt(fd, level, option, &value, sizeof value);
}

void kw_tcp_socket_tune(int fd)
{
	set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	set(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S);
	set(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S);
	set(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES);
	set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, USER_TIMEOUT_MS);
}

void kw_tcp_socket_text(const struct sockaddr *name, socklen_t length, char *text, size_t size)
{
	char host[INET6_ADDRSTRLEN + 1 + IF_NAMESIZE] = "?", port[8] = "?";
	bool six = name->sa_family == AF_INET6;

	(void)getnameinfo(name, length, host, sizeof host, port, sizeof port,
		NI_NUMERICHOST | NI_NUMERICSERV);
	snprintf(text, size, "%s%s%s:%s", six ? "[" : "", host, six ? "]" : "", port);
}

uint64_t kw_tcp_socket_peer(const struct sockaddr *name)
{
	if (name->sa_family == AF_INET6)
		return kw_peer_of_ipv6(((const struct sockaddr_in6 *)name)->sin6_addr.s6_addr);
	return kw_peer_of_ipv4((const uint8_t *)&((const struct sockaddr_in *)name)->sin_addr);
}

bool kw_tcp_socket_endpoint(const struct sockaddr *name, struct kw_endpoint *endpoint)
{
	const struct sockaddr_in *four = (const void *)name;
	const struct sockaddr_in6 *six = (const void *)name;

	if (name->sa_family == AF_INET)
		*endpoint =
			kw_endpoint_four((const uint8_t *)&four->sin_addr, ntohs(four->sin_port));
	else if (name->sa_family == AF_INET6)
		*endpoint = kw_endpoint_six(six->sin6_addr.s6_addr, ntohs(six->sin6_port));
	else
		*endpoint = (struct kw_endpoint){0};
	return name->sa_family == AF_INET || name->sa_family == AF_INET6;
}

int kw_tcp_socket_channel(int fd, bool peer, struct kw_channel *channel)
{
	struct sockaddr_storage name = {0};
	socklen_t length = sizeof name;
	struct kw_endpoint endpoint;

	if ((peer ? getpeername : getsockname)(fd, (struct sockaddr *)&name, &length) != 0)
		return errno;
	if (!kw_tcp_socket_endpoint((struct sockaddr *)&name, &endpoint))
		return EAFNOSUPPORT;
	*channel = kw_channel_tcp(&endpoint);
	return 0;
}
