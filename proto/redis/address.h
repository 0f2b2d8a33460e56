/*
 * Where a server is: the text form taken apart. Pure; any thread.
 */
#ifndef KW_REDIS_ADDRESS_H
#define KW_REDIS_ADDRESS_H

#include "base/error.h"

#include <stdbool.h>

enum kw_redis_scheme {
	KW_REDIS_UNIX, /* unix:///path */
	KW_REDIS_TCP,  /* redis://host:port, or tcp://host:port: plain */
	KW_REDIS_TLS,  /* rediss://host:port */
};

struct kw_redis_address {
	enum kw_redis_scheme scheme;
	char path[108]; /* UNIX: as sockaddr_un holds it */
	char host[256]; /* TCP, TLS: name or number, an IPv6 number without its brackets */
	char port[6];   /* TCP, TLS: decimal, 1 … 65535 */
};

/* KW_E_CONFIG when it has none of the forms; the sentence shows them. */
int kw_redis_address_parse(
	const char *text, struct kw_redis_address *address, struct kw_error *error);

/*
 * Is it an address of this host: a unix socket, or a loopback number? Even then, a tunnel can lead
 * to another host.
 */
bool kw_redis_address_near(const struct kw_redis_address *address);

/* As parse, for the verdict only; and whether this build can speak TLS, if it asks for that. */
int kw_redis_address_check(const char *text, struct kw_error *error);

#endif
