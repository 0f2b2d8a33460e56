#include "remote/memory.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE UINT64_C(4096)
#ifndef F_SEAL_FUTURE_WRITE /* linux/fcntl.h */
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#ifndef MFD_HUGE_2MB /* linux/memfd.h */
#define MFD_HUGE_2MB (21U << 26)
#endif

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define MODE 0400

static int open_readonly(int fd, struct kw_error *error)
{
	char path[32];
	int readonly;

	/* A duplicate would share the access mode; opening the inode anew does not. */
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	readonly = open(path, O_RDONLY | O_CLOEXEC);
	if (readonly < 0)
		kw_error_errno(error, errno,
			"memory file: cannot be opened read-only through %s (is /proc mounted?)",
			path);
	return readonly;
}

/* A figure of the pool of huge pages; 0: the system has no such pool. */
static uint64_t huge_pages(const char *figure)
{
	unsigned long long number = 0;
	char path[128];
	FILE *file;

	snprintf(path, sizeof path, "/sys/kernel/mm/hugepages/hugepages-2048kB/%s", figure);
	file = fopen(path, "re");
	if (!file)
		return 0;
	if (fscanf(file, "%llu", &number) != 1)
		number = 0;
	fclose(file);
	return number;
}

/* Take the pages of an extent out of the pool. Those that it shares with others are there. */
static int take_huge_pages(
	const struct kw_memory *memory, const struct kw_extent *extent, struct kw_error *error)
{
	uint64_t start = extent->offset & ~(KW_HUGE_PAGE_BYTES - 1);
	uint64_t end = (extent->offset + extent->length + KW_HUGE_PAGE_BYTES - 1) &
		       ~(KW_HUGE_PAGE_BYTES - 1);
	uint64_t needed = (end - start) / KW_HUGE_PAGE_BYTES, left = huge_pages("free_hugepages");
	int errnum;

	do
		errnum = fallocate(memory->fd, 0, (off_t)start, (off_t)(end - start)) == 0 ? 0
											   : errno;
	while (errnum == EINTR);
	if (errnum == 0)
		return 0;
	return kw_error_set(error, KW_E_NOMEM,
		"table.huge_pages: %" PRIu64 " more huge pages of 2 MiB are needed and %" PRIu64
		" are free (%s): set `sysctl vm.nr_hugepages=%" PRIu64
		"` or more, soon after boot, or table.huge_pages = false",
		needed, left, strerror(errnum), huge_pages("nr_hugepages") - left + needed);
}

static int seal(int fd, bool whole, struct kw_error *error)
{
	if (fcntl(fd, F_ADD_SEALS, whole ? SEALS | F_SEAL_FUTURE_WRITE : SEALS) != 0)
		return kw_error_errno(error, errno, "memory file: cannot be sealed");
	return 0;
}

static int make_file(bool huge, struct kw_error *error)
{
	unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	int fd = memfd_create("keywake-table", huge ? flags | MFD_HUGETLB | MFD_HUGE_2MB : flags);

	if (fd >= 0)
		return fd;
	if (huge)
		kw_error_set(error, KW_E_CONFIG,
			"table.huge_pages: this system has no huge pages of 2 MiB (%s): set "
			"table.huge_pages = false",
			strerror(errno));
	else
		kw_error_errno(error, errno, "memory file: memfd_create");
	return -1;
}

enum kind {
	KIND_OPEN,
	KIND_SEALED,
	KIND_HUGE,
};

/* The whole file at a fixed address, and not in core files. */
static int map(struct kw_memory *memory, uint64_t reserve_bytes, struct kw_error *error)
{
	memory->base = mmap(NULL, reserve_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
		memory->fd, 0);
	if (memory->base == MAP_FAILED) {
		memory->base = NULL;
		return kw_error_errno(error, errno,
			"memory file: %" PRIu64
			" bytes of addresses cannot be mapped (see ulimit -v)",
			reserve_bytes);
	}
	/* A core file shall not have all data of the primary in it. */
	(void)madvise(memory->base, reserve_bytes, MADV_DONTDUMP);
	memory->reserve_bytes = reserve_bytes;
	memory->readonly_fd = open_readonly(memory->fd, error);
	return memory->readonly_fd < 0 ? (int)KW_E_IO : 0;
}

static int init(
	struct kw_memory *memory, uint64_t reserve_bytes, enum kind kind, struct kw_error *error)
{
	const bool huge = kind == KIND_HUGE, sealed = kind != KIND_OPEN;
	const uint64_t page = huge ? KW_HUGE_PAGE_BYTES : PAGE;

	*memory = (struct kw_memory){.fd = -1, .readonly_fd = -1, .huge = huge, .sealed = sealed};
	if (reserve_bytes == 0 || reserve_bytes > KW_RESERVE_MAX)
		return kw_error_set(error, KW_E_ARGUMENT,
			"memory file: %" PRIu64 " bytes asked for (1 to %" PRIu64 " are possible)",
			reserve_bytes, (uint64_t)KW_RESERVE_MAX);
	reserve_bytes = (reserve_bytes + page - 1) & ~(page - 1);
	memory->fd = make_file(huge, error);
	if (memory->fd < 0)
		return error ? (int)error->code : (int)KW_E_IO;
	/*
	 * 0777 is a memfd's default. No process may reopen it for writing, and no other user at
	 * all.
	 */
	if (fchmod(memory->fd, MODE) != 0 || ftruncate(memory->fd, (off_t)reserve_bytes) != 0) {
		kw_error_errno(error, errno, "memory file: cannot be made %" PRIu64 " bytes long",
			reserve_bytes);
		goto undo;
	}
	assert(reserve_bytes % page == 0);
	if (map(memory, reserve_bytes, error) != 0 || seal(memory->fd, sealed, error) != 0)
		goto undo;
	return 0;

undo:
	kw_memory_close(memory);
	return error ? (int)error->code : (int)KW_E_IO;
}

/* Is it what kw_memory_init made, and still ours alone? */
static int check_kept(int fd, struct stat *status, struct kw_error *error)
{
	int seals = fcntl(fd, F_GET_SEALS);

	if (fstat(fd, status) != 0)
		return kw_error_errno(error, errno, "memory file");
	if (seals != SEALS)
		return kw_error_set(error, KW_E_REFUSED,
			"memory file: its seals are %#x, not %#x (table.seal and table.huge_pages "
			"let no other process write it)",
			(unsigned)seals, (unsigned)SEALS);
	if (!S_ISREG(status->st_mode) || (status->st_mode & 07777) != MODE ||
		status->st_uid != geteuid())
		return kw_error_set(error, KW_E_REFUSED,
			"memory file: it has mode %04o and belongs to user %u, not %04o and %u",
			(unsigned)status->st_mode & 07777, (unsigned)status->st_uid, MODE,
			(unsigned)geteuid());
	if (status->st_size <= 0 || (uint64_t)status->st_size > KW_RESERVE_MAX ||
		(uint64_t)status->st_size % PAGE != 0)
		return kw_error_set(error, KW_E_REFUSED, "memory file: it has %lld bytes",
			(long long)status->st_size);
	return 0;
}

int kw_memory_init_kept(struct kw_memory *memory, int fd, struct kw_error *error)
{
	struct stat status;
	int code;

	*memory = (struct kw_memory){.fd = fd, .readonly_fd = -1};
	code = check_kept(fd, &status, error);
	if (code == 0)
		code = map(memory, (uint64_t)status.st_size, error);
	if (code != 0)
		kw_memory_close(memory);
	return code;
}

int kw_memory_init(struct kw_memory *memory, uint64_t reserve_bytes, struct kw_error *error)
{
	return init(memory, reserve_bytes, KIND_OPEN, error);
}

int kw_memory_init_sealed(struct kw_memory *memory, uint64_t reserve_bytes, struct kw_error *error)
{
	return init(memory, reserve_bytes, KIND_SEALED, error);
}

int kw_memory_init_huge(struct kw_memory *memory, uint64_t reserve_bytes, struct kw_error *error)
{
	return init(memory, reserve_bytes, KIND_HUGE, error);
}

void kw_memory_close(struct kw_memory *memory)
{
	if (memory->base)
		munmap(memory->base, memory->reserve_bytes);
	if (memory->readonly_fd >= 0)
		close(memory->readonly_fd);
	if (memory->fd >= 0)
		close(memory->fd);
	memory->base = NULL;
	memory->fd = memory->readonly_fd = -1;
	memory->reserve_bytes = 0;
	atomic_store(&memory->extent_count, 0);
}

int kw_memory_extend(struct kw_memory *memory, struct kw_extent *extent, struct kw_error *error)
{
	int count = atomic_load_explicit(&memory->extent_count, memory_order_relaxed);
	uint64_t end = extent->offset + extent->length;

	if (extent->length == 0 || end < extent->offset || end > memory->reserve_bytes)
		return kw_error_set(error, KW_E_ARGUMENT,
			"memory file: extent of %" PRIu64 " bytes at %" PRIu64
			" does not fit the reservation of %" PRIu64 " bytes",
			extent->length, extent->offset, memory->reserve_bytes);
	for (int i = 0; i < count; i++) {
		const struct kw_extent *other = &memory->extents[i];

		if (extent->offset < other->offset + other->length && other->offset < end)
			return kw_error_set(error, KW_E_ARGUMENT,
				"memory file: extent at %" PRIu64 " overlaps the one at %" PRIu64,
				extent->offset, other->offset);
	}
	if (count == KW_EXTENTS_MAX)
		return kw_error_set(error, KW_E_FULL,
			"memory file: %d extents are there, as many as there may be: let it grow "
			"in "
			"larger steps",
			count);
	if (memory->huge && take_huge_pages(memory, extent, error) != 0)
		return (int)KW_E_NOMEM;
	extent->address = 0;
	extent->rkey = 0;
	extent->reserved = 0;
	if (memory->device.add) {
		int code = memory->device.add(memory->device.arg, count, extent, error);

		if (code != 0)
			return code;
	}
	assert(count >= 0 && count < KW_EXTENTS_MAX);
	memory->extents[count] = *extent;
	atomic_store_explicit(&memory->extent_count, count + 1, memory_order_release);
	return 0;
}

void kw_memory_expect(struct kw_memory *memory, uint64_t offset, uint64_t length)
{
	if (memory->device.expect && length > 0 && offset < memory->reserve_bytes &&
		length <= memory->reserve_bytes - offset)
		memory->device.expect(memory->device.arg, offset, length);
}

bool kw_memory_give_back(struct kw_memory *memory, uint64_t offset, uint64_t length)
{
	uint64_t start = (offset + PAGE - 1) & ~(PAGE - 1), end = (offset + length) & ~(PAGE - 1);

	if (memory->device.add || memory->sealed || !kw_memory_covers(memory, offset, length))
		return false;
	return start >= end || fallocate(memory->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				       (off_t)start, (off_t)(end - start)) == 0;
}

int kw_memory_attach(struct kw_memory *memory, const struct kw_memory_device *device)
{
	assert(!memory->device.add);
	assert(device->add);
	memory->device = *device;
	return atomic_load_explicit(&memory->extent_count, memory_order_relaxed);
}

void kw_memory_place(struct kw_memory *memory, int number, uint64_t address, uint32_t rkey)
{
	assert(number >= 0);
	assert(number < atomic_load_explicit(&memory->extent_count, memory_order_relaxed));
	memory->extents[number].address = address;
	memory->extents[number].rkey = rkey;
}

void kw_memory_detach(struct kw_memory *memory)
{
	int count = atomic_load_explicit(&memory->extent_count, memory_order_relaxed);

	memory->device = (struct kw_memory_device){0};
	for (int i = 0; i < count; i++)
		kw_memory_place(memory, i, 0, 0);
}

bool kw_extents_cover(const struct kw_extent *extents, int count, uint64_t offset, uint64_t length)
{
	uint64_t end = offset + length;
	uint64_t at = offset;

	assert(count >= 0 && count <= KW_EXTENTS_MAX);
	if (length == 0 || end < offset)
		return false;
	/* Each turn steps over one extent, or is the last. */
	for (int steps = 0; steps < count; steps++) {
		int found = -1;

		for (int i = 0; i < count && found < 0; i++)
			if (at >= extents[i].offset && at - extents[i].offset < extents[i].length)
				found = i;
		if (found < 0)
			return false;
		if (end - extents[found].offset <= extents[found].length)
			return true;
		at = extents[found].offset + extents[found].length;
	}
	return false;
}

bool kw_memory_covers(const struct kw_memory *memory, uint64_t offset, uint64_t length)
{
	int count = atomic_load_explicit(&memory->extent_count, memory_order_acquire);

	return kw_extents_cover(memory->extents, count, offset, length);
}
