/*
 * A wall clock that tests can step, for one process: LD_PRELOAD this library, and name a file in
 * KW_CLOCK_FILE. Its first 8 bytes are a signed number of microseconds, in the host's byte order.
 * They are added to the wall clock at each call, so a test steps the clock by writing them. The
 * next 8 bytes are added to the monotonic clocks, so that a pause of minutes passes at once. Timers
 * of the kernel do not know of it; a loop of libuv has none. A file that is missing or shorter adds
 * nothing.
 *
 * lib/clock.py of the integration tests is the other half.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

/* What a clock file has. */
struct offsets {
	int64_t wall_us, monotonic_us;
};

static const struct offsets nothing;

static const struct offsets *map_offsets(void)
{
	const char *path = getenv("KW_CLOCK_FILE");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	void *mapped = MAP_FAILED;
	struct stat file;

	if (fd < 0)
		return &nothing;
	if (fstat(fd, &file) == 0 && file.st_size >= (off_t)sizeof(struct offsets))
		mapped = mmap(NULL, sizeof(struct offsets), PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	return mapped == MAP_FAILED ? &nothing : mapped;
}

static const struct offsets *offsets(void)
{
	static const struct offsets *mapped;
	const struct offsets *known = __atomic_load_n(&mapped, __ATOMIC_ACQUIRE);

	if (!known) {
		known = map_offsets();
		__atomic_store_n(&mapped, known, __ATOMIC_RELEASE);
	}
	return known;
}

static int64_t offset_us(clockid_t id)
{
	switch (id) {
	case CLOCK_REALTIME:
	case CLOCK_REALTIME_COARSE:
		return __atomic_load_n(&offsets()->wall_us, __ATOMIC_RELAXED);
	case CLOCK_MONOTONIC:
	case CLOCK_MONOTONIC_COARSE:
		return __atomic_load_n(&offsets()->monotonic_us, __ATOMIC_RELAXED);
	default:
		return 0;
	}
}

static int read_clock(clockid_t id, struct timespec *now)
{
	static int (*real)(clockid_t id, struct timespec * now);

	if (!__atomic_load_n(&real, __ATOMIC_ACQUIRE)) {
		void *found = dlsym(RTLD_NEXT, "clock_gettime");

		__atomic_store_n((void **)&real, found, __ATOMIC_RELEASE);
	}
	return real(id, now);
}

static void add(struct timespec *now, int64_t us)
{
	int64_t ns = now->tv_nsec + us % 1000000 * 1000;

	now->tv_sec += us / 1000000;
	if (ns < 0 || ns >= 1000000000) {
		now->tv_sec += ns < 0 ? -1 : 1;
		ns += ns < 0 ? 1000000000 : -1000000000;
	}
	now->tv_nsec = (long)ns;
}

EXPORT int clock_gettime(clockid_t id, struct timespec *now)
{
	int failed = read_clock(id, now);

	if (!failed)
		add(now, offset_us(id));
	return failed;
}

EXPORT int gettimeofday(struct timeval *now, void *zone)
{
	struct timespec exact;

	(void)zone;
	if (clock_gettime(CLOCK_REALTIME, &exact))
		return -1;
	now->tv_sec = exact.tv_sec;
	now->tv_usec = exact.tv_nsec / 1000;
	return 0;
}

EXPORT time_t time(time_t *seconds)
{
	struct timespec now;

	if (clock_gettime(CLOCK_REALTIME, &now))
		return -1;
	if (seconds)
		*seconds = now.tv_sec;
	return now.tv_sec;
}
