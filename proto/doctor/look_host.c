/* What the kernel says of this host. */
#include "doctor/internal.h"

#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* The first line of a file of the kernel's; false: it is not there. */
static bool read_line(const char *path, char *line, int room)
{
	FILE *stream = fopen(path, "re");
	bool got = stream && fgets(line, room, stream);

	if (stream)
		fclose(stream);
	return got;
}

static uint64_t read_number(const char *path, uint64_t fallback)
{
	unsigned long long number;
	char line[64];

	if (!read_line(path, line, sizeof line) || sscanf(line, "%llu", &number) != 1)
		return fallback;
	return number;
}

static uint64_t memory_bytes(void)
{
	long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
	uint64_t host = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : KW_HOST_UNKNOWN;
	uint64_t group = read_number("/sys/fs/cgroup/memory.max", KW_HOST_UNKNOWN);

	return group < host ? group : host;
}

static uint64_t locked_bytes(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit) || limit.rlim_cur == RLIM_INFINITY)
		return KW_HOST_UNKNOWN;
	return limit.rlim_cur;
}

void kw_host_look(struct kw_host_facts *facts)
{
	const uint64_t overcommit = read_number("/proc/sys/vm/overcommit_memory", KW_HOST_UNKNOWN);
	char line[128];

	*facts = (struct kw_host_facts){
		.overcommit_told = overcommit != KW_HOST_UNKNOWN,
		.overcommit = (int)overcommit,
		.memory_bytes = memory_bytes(),
		.locked_bytes = locked_bytes(),
	};
	facts->free_huge_bytes =
		read_number("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", 0) << 21;
	facts->huge_always =
		read_line("/sys/kernel/mm/transparent_hugepage/enabled", line, sizeof line) &&
		strstr(line, "[always]");
}

#define DEVICES "/sys/class/infiniband"

/* Of a NIC's own interface; that of soft-RoCE is named in `parent`. */
static uint64_t mtu_of_pattern(const char *pattern)
{
	glob_t found = {0};
	uint64_t mtu = 0;

	if (glob(pattern, 0, NULL, &found) == 0)
		mtu = read_number(found.gl_pathv[0], 0);
	globfree(&found);
	return mtu;
}

uint64_t kw_host_mtu(const char *device)
{
	char path[256], line[64];
	uint64_t mtu;

	snprintf(path, sizeof path, DEVICES "/%.60s/ports/1/link_layer", device);
	if (!*device || !read_line(path, line, sizeof line) ||
		strncmp(line, "Ethernet", strlen("Ethernet")) != 0)
		return 0;
	snprintf(path, sizeof path, DEVICES "/%.60s/device/net/*/mtu", device);
	mtu = mtu_of_pattern(path);
	snprintf(path, sizeof path, DEVICES "/%.60s/parent", device);
	if (mtu > 0 || !read_line(path, line, sizeof line))
		return mtu;
	line[strcspn(line, "\n")] = '\0';
	snprintf(path, sizeof path, "/sys/class/net/%.60s/mtu", line);
	return read_number(path, 0);
}
