/*
 * What listens at a port that does not speak as it was expected to: told by the bytes that it
 * answers to a question of Redis, and to the greeting of TLS. Pure; any thread.
 */
#ifndef KW_DOCTOR_PORT_H
#define KW_DOCTOR_PORT_H

#include "base/slice.h"

#include <stdbool.h>

enum kw_port_kind {
	KW_PORT_UNKNOWN, /* it answers neither, or with bytes of no protocol known here */
	KW_PORT_REDIS,   /* or Valkey, or a Sentinel */
	KW_PORT_HTTP,
	KW_PORT_TLS,
	KW_PORT_MEMCACHED,
	KW_PORT_SSH,
	KW_PORT_BUS, /* the cluster bus of a Redis server, whose port is 10000 below */
};

/* The question that is sent first: RESP, and no request of any other protocol known here. */
#define KW_PORT_QUESTION "*1\r\n$4\r\nPING\r\n"

/* Sent on a second connection, to one that did not answer the first: a ClientHello of TLS. */
struct kw_slice kw_port_greeting(void);

struct kw_port_answers {
	struct kw_slice to_question, to_greeting; /* empty: it was silent, or closed */
	bool bus_owner;                           /* 10000 ports below listens a Redis server */
};

enum kw_port_kind kw_port_judge(const struct kw_port_answers *answers);

/* "an HTTP server"; never NULL. */
const char *kw_port_name(enum kw_port_kind kind);

#endif
