/*
 * Ask at a port what listens there. Blocking, for a thread of libuv's pool, because a name can take
 * long to resolve; the questions themselves take KW_PORT_LOOK_MS at most.
 */
#ifndef KW_PORT_LOOK_H
#define KW_PORT_LOOK_H

#include "port/port.h"

#define KW_PORT_LOOK_MS 1800
#define KW_PORT_HOST 256
#define KW_PORT_NUMBER 8

/* *reached (may be NULL): something listens there. */
enum kw_port_kind kw_port_look(const char *host, const char *port, bool *reached);

#endif
