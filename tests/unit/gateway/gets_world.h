/* A real table behind a real server on shm, and gets from it; one loop. */
#ifndef TESTS_UNIT_GATEWAY_GETS_WORLD_H
#define TESTS_UNIT_GATEWAY_GETS_WORLD_H

#include "gateway/table/gets.h"

#include "remote/memory.h"
#include "remote/server.h"
#include "table/table.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#define GETS_VALUE 64 /* no value is longer */

struct gets_world {
	uv_loop_t loop;
	struct kw_memory memory;
	struct kw_table *table;
	struct kw_server *server;
	struct kw_gets *gets;
	enum kw_gateway_state state;
	uint64_t now_us; /* of the table */
	char folder[32];
};

/* Loop, proxy and handlers of the options are filled in. */
void gets_world_open(struct gets_world *world, const struct kw_gets_options *options);
void gets_world_close(struct gets_world *world);

/* Write as the proxy does. What is put is seen after the next publication. */
void gets_put(struct gets_world *world, const char *key, const char *value, uint64_t expires_ms);
void gets_publish(struct gets_world *world, bool complete, uint64_t fresh_us);

void gets_run_until_state(struct gets_world *world, enum kw_gateway_state state);

/* The proxy's server is gone. */
void gets_stop_server(struct gets_world *world);

#endif
