/*
 * Where a server is: the text form taken apart. Pure; any thread.
 */
#ifndef KW_REDIS_ADDRESS_H
#define KW_REDIS_ADDRESS_H

#include "base/error.h"

#include <stdbool.h>

struct kw_redis_address {
	bool local;     /* unix socket */
	char path[108]; /* local: as sockaddr_un holds it */
	char host[256]; /* else: name or number, an IPv6 number without its brackets */
	char port[6];   /* decimal, 1 … 65535 */
};

/* KW_E_CONFIG when it is neither form; the sentence shows both. */
int kw_redis_address_parse(
	const char *text, struct kw_redis_address *address, struct kw_error *error);

/* Is it on this host for certain: a unix socket, or a loopback number? (Behind one may be a
 * tunnel.) */
bool kw_redis_address_near(const struct kw_redis_address *address);

/* The same as parse, asked for the verdict only. */
int kw_redis_address_check(const char *text, struct kw_error *error);

#endif
