#include "stats.h"
#include "request.h"

#include <inttypes.h>
#include <stddef.h>

static const struct {
	const char *name;
	size_t offset;
} shown[] = {
#define FIGURE(name)                                                                               \
	{                                                                                          \
#name, offsetof(struct kw_memcached_figures, name)                                 \
	}
	FIGURE(pid),
	FIGURE(uptime),
	FIGURE(time),
	FIGURE(max_connections),
	FIGURE(curr_connections),
	FIGURE(total_connections),
	FIGURE(rejected_connections),
	FIGURE(cmd_get),
	FIGURE(cmd_set),
	FIGURE(get_hits),
	FIGURE(get_misses),
	FIGURE(get_expired),
	FIGURE(bytes_read),
	FIGURE(bytes_written),
	FIGURE(curr_items),
#undef FIGURE
};

void kw_memcached_stats(const struct kw_memcached_figures *figures, struct kw_buffer *out)
{
	for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
		const void *figure = (const char *)figures + shown[i].offset;

		kw_buffer_printf(
			out, "STAT %s %" PRIu64 "\r\n", shown[i].name, *(const uint64_t *)figure);
	}
	kw_buffer_printf(out,
		"STAT version %s\r\nSTAT pointer_size %zu\r\nSTAT threads 1\r\nEND\r\n",
		KW_MEMCACHED_VERSION, 8 * sizeof(void *));
}

void kw_memcached_settings(const struct kw_memcached_figures *figures, struct kw_buffer *out)
{
	kw_buffer_printf(out,
		"STAT maxconns %" PRIu64 "\r\nSTAT evictions off\r\nSTAT num_threads 1\r\n"
		"STAT cas_enabled yes\r\nSTAT binding_protocol ascii\r\nSTAT flush_enabled no\r\n"
		"STAT dump_enabled no\r\nSTAT detail_enabled no\r\nSTAT shutdown_command no\r\n"
		"END\r\n",
		figures->max_connections);
}
