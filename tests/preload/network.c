/*
 * Where a process wants to go: LD_PRELOAD this library, and name a file in KW_NETWORK_FILE. Each
 * call of connect, bind, sendto and sendmsg with an address, and of getaddrinfo, appends one line
 * to it:
 *
 *   connect unix /run/x.sock      bind inet 127.0.0.1:7000      resolve db.example.org
 *
 * Calls are made as ever. What libc sends by itself to resolve a name is not seen, its name is.
 * tests/security/test_network.py is the other half.
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

/* The function of that name that comes after ours. POSIX lets dlsym return one as an object. */
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

__attribute__((format(printf, 1, 2))) static void note(const char *format, ...)
{
	const char *path = getenv("KW_NETWORK_FILE");
	int saved = errno;
	char line[512];
	va_list args;
	int fd, length;

	if (!path)
		return;
	va_start(args, format);
	length = vsnprintf(line, sizeof line, format, args);
	va_end(args);
	fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
	if (fd >= 0 && (length >= (int)sizeof line || write(fd, line, (size_t)length) != length))
		abort(); /* a line that is lost would be a lie */
	if (fd >= 0)
		close(fd);
	errno = saved;
}

static void note_unix(const char *call, const struct sockaddr_un *name, socklen_t length)
{
	size_t path = length > offsetof(struct sockaddr_un, sun_path)
			      ? length - offsetof(struct sockaddr_un, sun_path)
			      : 0;

	if (path > 0 && name->sun_path[0] == '\0')
		note("%s unix @%.*s\n", call, (int)path - 1, name->sun_path + 1);
	else
		note("%s unix %.*s\n", call, (int)path, path ? name->sun_path : "");
}

static void note_address(const char *call, const struct sockaddr *to, socklen_t length)
{
	char text[INET6_ADDRSTRLEN];

	switch (to->sa_family) {
	case AF_UNIX:
		note_unix(call, (const struct sockaddr_un *)(const void *)to, length);
		return;
	case AF_INET: {
		const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)to;

		note("%s inet %s:%u\n", call, inet_ntop(AF_INET, &in->sin_addr, text, sizeof text),
			ntohs(in->sin_port));
		return;
	}
	case AF_INET6: {
		const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)(const void *)to;

		note("%s inet6 [%s]:%u\n", call,
			inet_ntop(AF_INET6, &in->sin6_addr, text, sizeof text),
			ntohs(in->sin6_port));
		return;
	}
	default:
		note("%s family %d\n", call, to->sa_family);
	}
}

EXPORT int connect(int fd, const struct sockaddr *to, socklen_t length)
{
	note_address("connect", to, length);
	return REAL(connect)(fd, to, length);
}

EXPORT int bind(int fd, const struct sockaddr *to, socklen_t length)
{
	note_address("bind", to, length);
	return REAL(bind)(fd, to, length);
}

EXPORT ssize_t sendto(int fd, const void *bytes, size_t size, int flags, const struct sockaddr *to,
	socklen_t length)
{
	if (to)
		note_address("send", to, length);
	return REAL(sendto)(fd, bytes, size, flags, to, length);
}

EXPORT ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	if (message->msg_name)
		note_address("send", message->msg_name, message->msg_namelen);
	return REAL(sendmsg)(fd, message, flags);
}

EXPORT int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
	struct addrinfo **found)
{
	struct in6_addr number;

	/* An address in figures asks nobody. */
	if (host && inet_pton(AF_INET, host, &number) != 1 &&
		inet_pton(AF_INET6, host, &number) != 1)
		note("resolve %s\n", host);
	return REAL(getaddrinfo)(host, service, hints, found);
}
