/*
 * A real table in shared memory and real servers: "primary" wrote what is in the table, "replica"
 * has other limits and holds the same values, until a test changes something.
 */
#ifndef KW_TEST_AGENT_WORLD_H
#define KW_TEST_AGENT_WORLD_H

#include "../rdb/payload_peer.h"
#include "inspect/verify.h"
#include "remote/memory.h"
#include "remote/server.h"
#include "table/table.h"

#include <uv.h>

#define FILLED 13 /* keys of fill besides the strings */

extern struct peer primary, replica;

struct world {
	uv_loop_t loop;
	uv_timer_t tick;
	struct kw_memory memory;
	struct kw_table *table;
	struct kw_server *server;
	struct kw_remote *remote;
	bool connected;
	char folder[32];
	struct kw_filter filter;
	struct kw_verify_options options;
	struct kw_verify *verify;
	struct kw_verify_result result; /* without the names */
	char names[3][2][64];           /* the first two of each list */
	struct kw_error error;
	bool done;
	int closed;
	void (*on_tick)(struct world *world, int turn);
	int turn;
};

/* Setup and teardown of the group: the two servers. */
int start_servers(void **state);
int stop_servers(void **state);

/* Empty servers, and a table that is served and connected to; complete: so it says. */
void world_open(struct world *world, bool complete);
void world_close(struct world *world);

/* Run the loop until the flag is set; fails the test when that takes too long. */
void run_until(struct world *world, const bool *flag);

/* The connection to the table, once more after it was closed; and as verify and get ask for it. */
void connect_remote(struct world *world);
struct kw_remote *remote_of(void *arg);

/* The primary's key goes into the table, and to the replica too if asked for. */
void publish(struct world *world, uint32_t database, const char *key, bool replicate);

/* Strings by the hundred, and one value of every other type in two databases. */
void fill(struct world *world, int strings);

#endif
