#include "control/process.h"

#include "base/clock.h"
#include "control/metrics.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define STAT_BYTES 1024

/* Of /proc/self/stat: see proc(5). */
struct stat_fields {
	unsigned long long start_ticks; /* after the boot */
	long pages;                     /* resident */
};

/* The name stands in brackets and can have any bytes, so the fields are counted from its end. */
static bool read_stat(struct stat_fields *fields)
{
	char line[STAT_BYTES] = "", *after;
	FILE *stream = fopen("/proc/self/stat", "re");
	bool read = stream && fgets(line, sizeof line, stream);

	if (stream)
		fclose(stream);
	after = read ? strrchr(line, ')') : NULL;
	return after && sscanf(after,
				") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d "
				"%*d %*d %*d %llu %*u %ld",
				&fields->start_ticks, &fields->pages) == 2;
}

/* The descriptor of the folder itself does not count. */
static long count_descriptors(void)
{
	DIR *folder = opendir("/proc/self/fd");
	long count = -1;

	if (!folder)
		return -1;
	for (const struct dirent *entry; (entry = readdir(folder));)
		count += entry->d_name[0] != '.';
	closedir(folder);
	return count;
}

static double cpu_seconds(void)
{
	struct timespec used;

	if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) < 0)
		return -1;
	return (double)used.tv_sec + (double)used.tv_nsec / 1e9;
}

/* The system tells it as time after the boot, and the clock can have been set since. */
static double start_seconds(unsigned long long ticks)
{
	struct timespec up;
	long rate = sysconf(_SC_CLK_TCK);

	if (rate <= 0 || clock_gettime(CLOCK_BOOTTIME, &up) < 0)
		return -1;
	return (double)kw_wall_us() / 1e6 - ((double)up.tv_sec + (double)up.tv_nsec / 1e9) +
	       (double)ticks / (double)rate;
}

/* Below 0: it is not known. */
static void add(const struct kw_metrics *metrics, const char *name, const char *type,
	const char *doc, double value)
{
	if (value < 0)
		return;
	kw_metrics_family(metrics, name, type, doc);
	kw_metrics_sample(metrics, name, "", value);
}

void kw_process_metrics(struct kw_buffer *text)
{
	const struct kw_metrics metrics = {text, "process"};
	struct stat_fields fields;
	struct rlimit limit;

	add(&metrics, "cpu_seconds_total", "counter", "CPU time that the process took",
		cpu_seconds());
	if (read_stat(&fields)) {
		add(&metrics, "resident_memory_bytes", "gauge", "memory of the process",
			(double)fields.pages * (double)sysconf(_SC_PAGESIZE));
		add(&metrics, "start_time_seconds", "gauge", "when the process started",
			start_seconds(fields.start_ticks));
	}
	add(&metrics, "open_fds", "gauge", "open file descriptors", (double)count_descriptors());
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
		add(&metrics, "max_fds", "gauge", "file descriptors that may be open",
			(double)limit.rlim_cur);
}
