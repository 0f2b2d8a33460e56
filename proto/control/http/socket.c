/* The socket that listens. */
#include "control/http/internal.h"

#include <errno.h>
#include <unistd.h>

#define BACKLOG 64

static int bind_tcp(int fd, const struct kw_http_address *address)
{
	int one = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (address->tcp.ss_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one);
	return bind(fd, (const struct sockaddr *)&address->tcp, address->tcp_length) ||
	       listen(fd, BACKLOG);
}

static int listen_tcp(
	const struct kw_http_address *address, const char *text, struct kw_error *error)
{
	int fd = socket(address->tcp.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int errnum;

	if (fd >= 0 && bind_tcp(fd, address) == 0)
		return fd;
	errnum = errno;
	if (fd >= 0)
		close(fd);
	if (errnum == EADDRINUSE)
		return -kw_error_set(error, KW_E_STATE,
			"http.listen: %s: another process has this port: stop it, or set another",
			text);
	return -kw_error_errno(error, errnum, "http.listen: %s: cannot listen", text);
}

int http_socket_listen(const struct kw_http_address *address, const char *text,
	struct stat *identity, struct kw_error *error)
{
	static const struct kw_socket_use use = {"HTTP socket", "http.listen"};

	if (address->reach == KW_HTTP_UNIX)
		return kw_socket_file_listen(&use, address->path, identity, error);
	return listen_tcp(address, text, error);
}
