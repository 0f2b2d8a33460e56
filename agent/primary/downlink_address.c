/* Where to listen for the local server: the text taken apart, and the socket. */
#include "downlink.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 8

int kw_downlink_address(
	const char *text, struct sockaddr_storage *address, char host[64], struct kw_error *error)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)address;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)address;
	const char *colon = strrchr(text, ':');
	char *end = NULL;
	size_t passed = strlen(KW_DOWNLINK_PASSED);
	long port = colon && colon[1] >= '0' && colon[1] <= '9' ? strtol(colon + 1, &end, 10) : -1;
	size_t length = colon ? (size_t)(colon - text) : 0;

	*address = (struct sockaddr_storage){0};
	host[0] = '\0';
	if (strncmp(text, KW_DOWNLINK_PASSED, passed) == 0 && text[passed] &&
		strlen(text + passed) < KW_PASSED_NAME && !strchr(text + passed, ':'))
		return KW_OK;
	if (strncmp(text, "tcp://", 6) != 0 || !end || *end || port > 65535 || length <= 6 ||
		length - 6 >= 64)
		return kw_error_set(error, KW_E_CONFIG,
			"\"%.80s\" is not an address to listen on: tcp://127.0.0.1:0, or another "
			"number of this host and a port (0: any), or systemd:NAME",
			text);
	snprintf(host, 64, "%.*s", (int)(length - 6), text + 6);
	if (host[0] == '[' && host[strlen(host) - 1] == ']') {
		memmove(host, host + 1, strlen(host));
		host[strlen(host) - 1] = '\0';
	}
	if (inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons((uint16_t)port);
	} else if (inet_pton(AF_INET6, host, &v6->sin6_addr) == 1) {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons((uint16_t)port);
	} else {
		return kw_error_set(
			error, KW_E_CONFIG, "\"%.64s\" is not the number of an address", host);
	}
	if (strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0)
		return kw_error_set(error, KW_E_CONFIG,
			"\"%s\" is no address to connect to: name the one that the local server "
			"reaches this host by",
			host);
	return KW_OK;
}

int kw_downlink_open(const struct sockaddr_storage *address, uint16_t *port)
{
	socklen_t length = address->ss_family == AF_INET ? sizeof(struct sockaddr_in)
							 : sizeof(struct sockaddr_in6);
	struct sockaddr_storage bound = {0};
	socklen_t bound_length = sizeof bound;
	int one = 1;
	int fd = socket(address->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (bind(fd, (const struct sockaddr *)address, length) < 0 || listen(fd, BACKLOG) < 0 ||
		getsockname(fd, (struct sockaddr *)&bound, &bound_length) < 0) {
		int errnum = errno;

		close(fd);
		errno = errnum;
		return -1;
	}
	*port = ntohs(bound.ss_family == AF_INET ? ((struct sockaddr_in *)&bound)->sin_port
						 : ((struct sockaddr_in6 *)&bound)->sin6_port);
	return fd;
}

/* Number and port of a bound socket. False: it is none of TCP, or bound to every address. */
static bool name_of(int fd, char host[64], uint16_t *port)
{
	struct sockaddr_storage bound = {0};
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)&bound;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&bound;
	socklen_t length = sizeof bound;

	if (getsockname(fd, (struct sockaddr *)&bound, &length) < 0)
		return false;
	if (bound.ss_family == AF_INET) {
		*port = ntohs(v4->sin_port);
		return v4->sin_addr.s_addr != INADDR_ANY &&
		       inet_ntop(AF_INET, &v4->sin_addr, host, 64);
	}
	*port = ntohs(v6->sin6_port);
	return bound.ss_family == AF_INET6 && !IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr) &&
	       inet_ntop(AF_INET6, &v6->sin6_addr, host, 64);
}

int kw_downlink_passed(const char *name, char host[64], uint16_t *port, struct kw_error *error)
{
	int fd = kw_passed_fd(name);
	int listens = 0;
	socklen_t length = sizeof listens;

	if (fd < 0) {
		kw_error_set(error, KW_E_CONFIG,
			"systemd passes no socket of the name \"%s\" (apply.replica.listen): "
			"enable "
			"keywake-agent-link@.socket for this agent, and restart the agent",
			name);
		return -1;
	}
	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) < 0 || !listens ||
		!name_of(fd, host, port)) {
		kw_error_set(error, KW_E_CONFIG,
			"the socket \"%s\" of systemd does not listen at a number of this host: "
			"set "
			"ListenStream= like 127.0.0.1:7380, and Accept=no",
			name);
		return -1;
	}
	if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) < 0) {
		kw_error_errno(error, errno, "the socket \"%s\" of systemd", name);
		return -1;
	}
	return fd;
}

bool kw_downlink_is_near(const char *host)
{
	struct in6_addr v6;
	struct in_addr v4;

	if (inet_pton(AF_INET, host, &v4) == 1)
		return ntohl(v4.s_addr) >> 24 == IN_LOOPBACKNET;
	return inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

bool kw_downlink_exposed(uint16_t port)
{
	FILE *file = fopen("/proc/sys/net/ipv4/ip_unprivileged_port_start", "re");
	int first = IPPORT_RESERVED;

	if (file && fscanf(file, "%d", &first) != 1)
		first = IPPORT_RESERVED;
	if (file)
		fclose(file);
	return port >= first;
}
