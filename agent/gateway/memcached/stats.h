/*
 * The figures that `stats` and `stats settings` show to memcached clients, in memcached's names.
 * What a gateway does not have (slabs, evictions, threads that wait) is left out.
 *
 * Pure; one thread.
 */
#ifndef KW_AGENT_GATEWAY_MEMCACHED_STATS_H
#define KW_AGENT_GATEWAY_MEMCACHED_STATS_H

#include "base/buffer.h"

#include <stdint.h>

struct kw_memcached_figures {
	uint64_t pid;
	uint64_t uptime;          /* seconds */
	uint64_t time;            /* seconds since 1970 */
	uint64_t max_connections; /* of all protocols, as the next ones */
	uint64_t curr_connections;
	uint64_t total_connections;
	uint64_t rejected_connections;
	uint64_t cmd_get; /* keys asked for; hits and misses of them; not the errors */
	uint64_t cmd_set; /* writes that were refused */
	uint64_t get_hits;
	uint64_t get_misses;
	uint64_t get_expired; /* misses of keys that had expired */
	uint64_t bytes_read;
	uint64_t bytes_written;
	uint64_t curr_items; /* in the table: all databases */
};

void kw_memcached_stats(const struct kw_memcached_figures *figures, struct kw_buffer *out);
void kw_memcached_settings(const struct kw_memcached_figures *figures, struct kw_buffer *out);

#endif
