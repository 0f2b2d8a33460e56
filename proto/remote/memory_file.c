/* The pages of a memory that hold something, to a file and back. */
#include "remote/memory.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <unistd.h>

#define STEP (UINT64_C(4) << 20) /* copied, then given back */

/* From one descriptor's data to the memory, or the other way round. */
struct copy {
	int from, to;
	uint8_t *base;
	ssize_t (*step)(const struct copy *copy, uint64_t offset, uint64_t length);
	bool gives_back; /* what was copied, at its source */
};

static ssize_t save_step(const struct copy *copy, uint64_t offset, uint64_t length)
{
	return pwrite(copy->to, copy->base + offset, length, (off_t)offset);
}

static ssize_t load_step(const struct copy *copy, uint64_t offset, uint64_t length)
{
	return pread(copy->from, copy->base + offset, length, (off_t)offset);
}

/* Bounded: each turn copies at least a byte, or is the last. */
static int copy_range(const struct copy *copy, uint64_t offset, uint64_t end)
{
	uint64_t begin = offset;

	while (offset < end) {
		ssize_t done = copy->step(copy, offset, end - offset);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return done < 0 ? errno : ENODATA;
		offset += (uint64_t)done;
	}
	if (copy->gives_back)
		(void)fallocate(copy->from, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			(off_t)begin, (off_t)(end - begin));
	return 0;
}

static int copy_all(const struct copy *copy, uint64_t bytes)
{
	uint64_t at = 0;

	while (at < bytes) {
		off_t data = lseek(copy->from, (off_t)at, SEEK_DATA), hole;
		int errnum;

		if (data < 0)
			return errno == ENXIO ? 0 : errno; /* no more of it */
		hole = lseek(copy->from, data, SEEK_HOLE);
		if (hole < 0)
			return errno;
		at = (uint64_t)hole;
		if (at > (uint64_t)data + STEP)
			at = (uint64_t)data + STEP;
		if (at > bytes)
			at = bytes;
		errnum = copy_range(copy, (uint64_t)data, at);
		if (errnum != 0)
			return errnum;
	}
	return 0;
}

int kw_memory_save(struct kw_memory *memory, int fd, struct kw_error *error)
{
	const struct copy copy = {memory->fd, fd, memory->base, save_step, !memory->sealed};
	int errnum = 0;

	assert(!memory->huge && !memory->device.add);
	if (ftruncate(fd, (off_t)memory->reserve_bytes) != 0)
		errnum = errno;
	if (errnum == 0)
		errnum = copy_all(&copy, memory->reserve_bytes);
	return errnum == 0 ? 0 : kw_error_errno(error, errnum, "copying the table out");
}

int kw_memory_load(struct kw_memory *memory, int fd, struct kw_error *error)
{
	const struct copy copy = {fd, memory->fd, memory->base, load_step, true};
	int errnum;

	assert(!memory->huge && !memory->device.add);
	errnum = copy_all(&copy, memory->reserve_bytes);
	return errnum == 0 ? 0 : kw_error_errno(error, errnum, "copying the table in");
}

int kw_memory_renew(struct kw_memory *memory, struct kw_error *error)
{
	struct kw_memory fresh;
	int code = kw_memory_init(&fresh, memory->reserve_bytes, error);

	assert(!memory->sealed && atomic_load(&memory->extent_count) == 0);
	if (code == 0)
		code = kw_memory_load(&fresh, memory->fd, error);
	kw_memory_close(memory);
	if (code == 0)
		*memory = fresh;
	else
		kw_memory_close(&fresh);
	return code;
}
