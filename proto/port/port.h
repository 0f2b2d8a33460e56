/*
 * What listens at a port that does not speak as it was expected to: told by the bytes that it
 * answers to questions of Redis, of HTTP, of a cluster bus and of TLS. Pure; any thread.
 *
 *     port.h    which questions there are, and what the answers tell
 *     look.h    ask them
 *     memory.h  what a daemon has found out about addresses where it could not connect
 */
#ifndef KW_PORT_PORT_H
#define KW_PORT_PORT_H

#include "base/slice.h"

enum kw_port_kind {
	KW_PORT_UNKNOWN, /* it answers nothing, or with bytes of no protocol known here */
	KW_PORT_REDIS,   /* or Valkey; or a Sentinel that wants a password first */
	KW_PORT_SENTINEL,
	KW_PORT_KEYWAKE, /* the table of a keywake-proxy, plain */
	KW_PORT_HTTP,    /* the http.listen of a daemon, too */
	KW_PORT_TLS,     /* whatever speaks in it */
	KW_PORT_MEMCACHED,
	KW_PORT_SSH,
	KW_PORT_BUS, /* the cluster bus of a Redis server, whose port is mostly 10000 below */
};

/*
 * The questions, each on a connection of its own, until one is answered. An HTTP server often
 * closes at the first, and a Redis server has none of its commands in the second.
 */
enum kw_port_question {
	KW_PORT_ASK_REDIS, /* PING, which every server answers, and ROLE, which tells a Sentinel */
	KW_PORT_ASK_HTTP,  /* GET / */
	KW_PORT_ASK_BUS, /* a ping of a node that is not known there: it answers, and keeps nothing
			  */
	KW_PORT_ASK_TLS, /* a ClientHello */
	KW_PORT_QUESTIONS,
};
struct kw_slice kw_port_question(enum kw_port_question question);

struct kw_port_answers {
	struct kw_slice to[KW_PORT_QUESTIONS]; /* empty: not asked, silent, or closed */
};

enum kw_port_kind kw_port_judge(const struct kw_port_answers *answers);

/* The same for bytes that came unasked, or to something else. */
enum kw_port_kind kw_port_judge_bytes(struct kw_slice bytes);

/* "an HTTP server"; never NULL. */
const char *kw_port_name(enum kw_port_kind kind);

#endif
