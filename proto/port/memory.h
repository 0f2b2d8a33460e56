/*
 * What listens at addresses where a connection did not come about: remembered by a daemon, whose
 * connections are made anew each time.
 *
 * A connection that fails before the other end has said anything of use asks here. The first time
 * that begins a look (look.h), in a thread of libuv's pool; the answer is there when the connection
 * is tried again. No more than one look of an address is under way, and it is repeated after
 * KW_PORT_AGAIN_MS at the earliest, so a server in trouble is not asked more often. What is known
 * stays known meanwhile. KW_PORT_PLACES addresses are remembered; the one asked for longest ago
 * gives way.
 *
 * Loop thread only. Zeroed memory, or none (NULL), knows nothing and looks nowhere.
 */
#ifndef KW_PORT_MEMORY_H
#define KW_PORT_MEMORY_H

#include "port/look.h"

#include <stdint.h>
#include <uv.h>

#define KW_PORT_PLACES 16
#define KW_PORT_AGAIN_MS 10000

struct kw_port_errand; /* a look under way */

struct kw_port_place {
	char host[KW_PORT_HOST], port[KW_PORT_NUMBER]; /* host "": free */
	enum kw_port_kind kind;
	uint64_t asked_us, looked_us;
	struct kw_port_errand *errand; /* NULL: none */
};

struct kw_port_memory {
	uv_loop_t *loop; /* NULL: closed, or never opened */
	struct kw_port_place places[KW_PORT_PLACES];
};

void kw_port_memory_init(struct kw_port_memory *memory, uv_loop_t *loop);

/*
 * Looks under way end by themselves and are of no use any more. The loop has a request until then,
 * KW_PORT_LOOK_MS at most and what a name takes to resolve.
 */
void kw_port_memory_close(struct kw_port_memory *memory);

/* What listens there, as far as it is known. */
enum kw_port_kind kw_port_ask(struct kw_port_memory *memory, const char *host, const char *port);

#endif
