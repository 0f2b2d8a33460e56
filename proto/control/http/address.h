/* The address of http.listen: unix:///path/of.sock or tcp://host:port. Pure; any thread. */
#ifndef KW_CONTROL_HTTP_ADDRESS_H
#define KW_CONTROL_HTTP_ADDRESS_H

#include "base/error.h"

#include <netinet/in.h>
#include <sys/socket.h>

/* Who can connect. */
enum kw_http_reach {
	KW_HTTP_UNIX,     /* who the file's mode lets in */
	KW_HTTP_LOOPBACK, /* every user of this host, and every page in a browser of this host */
	KW_HTTP_OPEN,     /* other hosts, too */
};

#define KW_HTTP_PATH_MAX 256

struct kw_http_address {
	enum kw_http_reach reach;
	char path[KW_HTTP_PATH_MAX]; /* of KW_HTTP_UNIX */
	struct sockaddr_storage tcp; /* of the others */
	socklen_t tcp_length;
};

/* The host is a number or localhost: nothing is resolved. KW_E_CONFIG with the remedy. */
int kw_http_address_parse(
	const char *text, struct kw_http_address *address, struct kw_error *error);

/* A kw_config_check_fn: empty is no address, and is allowed. */
int kw_http_address_check(const char *text, struct kw_error *error);

#endif
