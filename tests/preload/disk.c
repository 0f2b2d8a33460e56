/*
 * A disk that tests can fill, for one process: LD_PRELOAD this library, and name a file in
 * KW_DISK_FILE. While its first 8 bytes are not zero, write, pwrite, fsync and fdatasync of regular
 * files fail with ENOSPC. What a program writes by stdio fails at its fsync. A file that is missing
 * or shorter changes nothing.
 *
 * tests/fault/campaign/field.py is the other half.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

static const int64_t nothing;
static const int64_t *full = &nothing;

__attribute__((constructor)) static void map_file(void)
{
	const char *path = getenv("KW_DISK_FILE");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	void *mapped = MAP_FAILED;
	struct stat file;

	if (fd < 0)
		return;
	if (fstat(fd, &file) == 0 && file.st_size >= (off_t)sizeof(int64_t))
		mapped = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (mapped != MAP_FAILED)
		__atomic_store_n(&full, (const int64_t *)mapped, __ATOMIC_RELEASE);
}

static int no_room(int fd)
{
	struct stat file;

	if (!__atomic_load_n(__atomic_load_n(&full, __ATOMIC_ACQUIRE), __ATOMIC_RELAXED))
		return 0;
	if (fstat(fd, &file) || !S_ISREG(file.st_mode))
		return 0;
	errno = ENOSPC;
	return 1;
}

/* The function of that name that comes after ours. POSIX lets dlsym return one as an object. */
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

EXPORT ssize_t write(int fd, const void *bytes, size_t length)
{
	static ssize_t (*real)(int fd, const void *bytes, size_t length);

	if (!real)
		real = REAL(write);
	return no_room(fd) ? -1 : real(fd, bytes, length);
}

EXPORT ssize_t pwrite(int fd, const void *bytes, size_t length, off_t offset)
{
	return no_room(fd) ? -1 : REAL(pwrite)(fd, bytes, length, offset);
}

EXPORT int fsync(int fd)
{
	return no_room(fd) ? -1 : REAL(fsync)(fd);
}

EXPORT int fdatasync(int fd)
{
	return no_room(fd) ? -1 : REAL(fdatasync)(fd);
}
