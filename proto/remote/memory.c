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

static int seal(int fd, struct kw_error *error)
{
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
		return kw_error_errno(error, errno, "memory file: cannot be sealed");
	return 0;
}

int kw_memory_init(struct kw_memory *memory, uint64_t reserve_bytes, struct kw_error *error)
{
	*memory = (struct kw_memory){.fd = -1, .readonly_fd = -1};
	if (reserve_bytes == 0 || reserve_bytes > KW_RESERVE_MAX)
		return kw_error_set(error, KW_E_ARGUMENT,
			"memory file: %" PRIu64 " bytes asked for (1 to %" PRIu64 " are possible)",
			reserve_bytes, (uint64_t)KW_RESERVE_MAX);
	reserve_bytes = (reserve_bytes + PAGE - 1) & ~(PAGE - 1);
	memory->fd = memfd_create("keywake-table", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (memory->fd < 0)
		return kw_error_errno(error, errno, "memory file: memfd_create");
	/*
	 * 0777 is a memfd's default. No process may reopen it for writing, and no other user at
	 * all.
	 */
	if (fchmod(memory->fd, 0400) != 0 || ftruncate(memory->fd, (off_t)reserve_bytes) != 0) {
		kw_error_errno(error, errno, "memory file: cannot be made %" PRIu64 " bytes long",
			reserve_bytes);
		goto undo;
	}
	memory->base = mmap(NULL, reserve_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
		memory->fd, 0);
	if (memory->base == MAP_FAILED) {
		memory->base = NULL;
		kw_error_errno(error, errno,
			"memory file: %" PRIu64
			" bytes of addresses cannot be mapped (see ulimit -v)",
			reserve_bytes);
		goto undo;
	}
	assert(reserve_bytes % PAGE == 0);
	memory->reserve_bytes = reserve_bytes;
	memory->readonly_fd = open_readonly(memory->fd, error);
	if (memory->readonly_fd < 0 || seal(memory->fd, error) != 0)
		goto undo;
	return 0;

undo:
	kw_memory_close(memory);
	return error ? (int)error->code : (int)KW_E_IO;
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

	if (memory->device.add || !kw_memory_covers(memory, offset, length))
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
