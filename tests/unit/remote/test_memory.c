#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "remote/memory.h"
#include "remote/racy.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (UINT64_C(1) << 20)

/* ---- huge pages: only root can have them, and not on every machine ---- */

#define POOL "/proc/sys/vm/nr_hugepages"

static long pool_size(void)
{
	FILE *file = fopen(POOL, "r");
	long size = -1;

	if (file && fscanf(file, "%ld", &size) != 1)
		size = -1;
	if (file)
		fclose(file);
	return size;
}

/* What the kernel could do of it. */
static long set_pool(long size)
{
	FILE *file = fopen(POOL, "w");

	if (file) {
		fprintf(file, "%ld", size);
		fclose(file);
	}
	return pool_size();
}

static uint64_t free_pages(void)
{
	FILE *file = fopen("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "r");
	unsigned long long size = 0;

	if (file && fscanf(file, "%llu", &size) != 1)
		size = 0;
	if (file)
		fclose(file);
	return size;
}

static void a_pool_that_is_too_small_is_a_sentence_with_the_sysctl(void **state)
{
	struct kw_memory memory;
	struct kw_error error = {0};
	struct kw_extent extent = {.offset = MIB};
	int code = kw_memory_init_huge(&memory, UINT64_C(1) << 37, &error);

	if (code != 0) { /* a kernel without any */
		assert_int_equal(code, KW_E_CONFIG);
		assert_non_null(strstr(error.text, "table.huge_pages = false"));
		return;
	}
	extent.length = (free_pages() + 64) * KW_HUGE_PAGE_BYTES;
	assert_int_equal(kw_memory_extend(&memory, &extent, &error), KW_E_NOMEM);
	assert_non_null(strstr(error.text, "sysctl vm.nr_hugepages="));
	assert_false(kw_memory_covers(&memory, MIB, 1));
	kw_memory_close(&memory);
}

/* The pages of an extent are there before it counts, whatever others take out of the pool. */
static void extents_of_huge_pages_have_all_their_pages(void **state)
{
	const long before = pool_size();
	struct kw_memory memory;
	struct kw_error error = {0};
	struct kw_extent first = {.length = 3 * MIB},
			 second = {.offset = 3 * MIB, .length = 5 * MIB};
	uint8_t *map;

	if (before < 0 || set_pool(before + 8) < before + 8) {
		print_message("no huge pages can be had here\n");
		set_pool(before);
		return;
	}
	assert_int_equal(kw_memory_init_huge(&memory, 63 * MIB, &error), 0);
	assert_int_equal(memory.reserve_bytes, 64 * MIB);
	assert_int_equal(kw_memory_extend(&memory, &first, &error), 0);
	assert_int_equal(kw_memory_extend(&memory, &second, &error), 0);
	map = mmap(NULL, memory.reserve_bytes, PROT_READ, MAP_SHARED | MAP_NORESERVE,
		memory.readonly_fd, 0);
	assert_ptr_not_equal(map, MAP_FAILED);
	set_pool(0); /* what is free goes; what is taken stays */
	memset(memory.base, 0x5a, 8 * MIB);
	assert_memory_equal(map, memory.base, 8 * MIB);
	assert_false(kw_memory_give_back(&memory, 0, 4 * MIB));
	assert_ptr_equal(
		mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED, memory.fd, 0), MAP_FAILED);
	assert_int_equal(map[2 * MIB], 0x5a);
	munmap(map, memory.reserve_bytes);
	kw_memory_close(&memory);
	set_pool(before);
}

/* By its own descriptor, which is what another process of the same user could open. */
static void a_sealed_memory_is_written_by_its_own_mapping_alone(void **state)
{
	struct kw_memory memory;
	struct kw_error error = {0};
	struct kw_extent extent = {.length = 4 * MIB};

	assert_int_equal(kw_memory_init_sealed(&memory, 16 * MIB, &error), 0);
	assert_int_equal(kw_memory_extend(&memory, &extent, &error), 0);
	memset(memory.base, 0x5a, 4 * MIB);
	assert_ptr_equal(
		mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED, memory.fd, 0), MAP_FAILED);
	assert_int_equal(pwrite(memory.fd, "forged", 6, 0), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(memory.base[0], 0x5a);
	/* The price: a hole cannot be made, so nothing is given back. */
	assert_false(kw_memory_give_back(&memory, 0, MIB));
	assert_int_equal(memory.base[0], 0x5a);
	kw_memory_close(&memory);
}

static int open_memory(void **state)
{
	static struct kw_memory memory;
	struct kw_error error;

	*state = &memory;
	return kw_memory_init(&memory, 16 * MIB - 100, &error);
}

static int close_memory(void **state)
{
	kw_memory_close(*state);
	kw_memory_close(*state); /* harmless */
	return 0;
}

static void the_reservation_is_whole_pages_and_zero(void **state)
{
	struct kw_memory *memory = *state;
	struct stat status;

	assert_int_equal(memory->reserve_bytes, 16 * MIB);
	assert_int_equal(memory->base[0], 0);
	assert_int_equal(memory->base[16 * MIB - 1], 0);
	assert_int_equal(fstat(memory->fd, &status), 0);
	assert_int_equal(status.st_size, 16 * MIB);
	assert_int_equal(status.st_mode & 0777, 0400);
}

static void the_file_cannot_shrink(void **state)
{
	struct kw_memory *memory = *state;

	assert_true(fcntl(memory->readonly_fd, F_GET_SEALS) & F_SEAL_SHRINK);
	assert_int_not_equal(ftruncate(memory->fd, 4096), 0);
	assert_int_equal(errno, EPERM);
}

/* As the file's owner, but without root's right to pass over modes; 0 if it was opened. */
static int errno_of_opening_without_rights(const char *path)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};
	int status;
	pid_t child = fork();

	assert_true(child >= 0);
	if (child == 0) {
		if (syscall(SYS_capset, &header, none) != 0)
			_exit(255);
		_exit(open(path, O_RDWR) >= 0 ? 0 : errno);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void peers_can_map_it_but_not_write_it(void **state)
{
	struct kw_memory *memory = *state;
	char path[64];
	uint8_t *map;
	void *bad;

	memory->base[5] = 99;
	map = mmap(NULL, MIB, PROT_READ, MAP_SHARED, memory->readonly_fd, 0);
	assert_true(map != MAP_FAILED);
	assert_int_equal(map[5], 99);
	memory->base[5] = 100; /* our own mapping goes on being written */
	assert_int_equal(map[5], 100);
	assert_int_not_equal(mprotect(map, MIB, PROT_READ | PROT_WRITE), 0);
	munmap(map, MIB);
	bad = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED, memory->readonly_fd, 0);
	assert_true(bad == MAP_FAILED);
	/* Not by opening it anew either, though we own it: root may, the owner as such may not. */
	snprintf(path, sizeof path, "/proc/self/fd/%d", memory->readonly_fd);
	assert_int_equal(errno_of_opening_without_rights(path), EACCES);
}

/* Resident pages of the file. */
static long long blocks_of(const struct kw_memory *memory)
{
	struct stat status;

	assert_int_equal(fstat(memory->fd, &status), 0);
	return status.st_blocks;
}

static void memory_given_back_is_empty_and_can_be_written_again(void **state)
{
	struct kw_memory *memory = *state;
	struct kw_extent extent = {.length = 8 * MIB};
	long long full;

	assert_int_equal(kw_memory_extend(memory, &extent, NULL), 0);
	memset(memory->base, 0x5a, 8 * MIB);
	full = blocks_of(memory);
	/* Pages that are only partly given back are kept. */
	assert_true(kw_memory_give_back(memory, 2 * MIB + 1, 4 * MIB));
	assert_int_equal(blocks_of(memory), full - (4 * MIB - 4096) / 512);
	assert_int_equal(memory->base[2 * MIB + 4095], 0x5a);
	assert_int_equal(memory->base[2 * MIB + 4096], 0);
	assert_int_equal(memory->base[6 * MIB], 0x5a);
	memory->base[3 * MIB] = 7;
	assert_int_equal(memory->base[3 * MIB], 7);
	assert_true(kw_memory_give_back(memory, 100, 200));
	assert_int_equal(memory->base[100], 0x5a);
	assert_false(kw_memory_give_back(memory, 7 * MIB, 2 * MIB));
}

static int pin(void *arg, int number, struct kw_extent *extent, struct kw_error *error)
{
	extent->rkey = 100 + (uint32_t)number;
	return 0;
}

/* The device would go on reading the pages of before. */
static void memory_that_a_device_has_pinned_is_kept(void **state)
{
	const struct kw_memory_device device = {pin, NULL};
	struct kw_memory *memory = *state;
	struct kw_extent extent = {.length = MIB};

	assert_int_equal(kw_memory_extend(memory, &extent, NULL), 0);
	assert_int_equal(kw_memory_attach(memory, &device), 1);
	memory->base[5000] = 1;
	assert_false(kw_memory_give_back(memory, 0, MIB));
	assert_int_equal(memory->base[5000], 1);
	kw_memory_detach(memory);
	assert_true(kw_memory_give_back(memory, 0, MIB));
}

/* What was there is placed by whoever registered it; what comes later by the device; then nothing.
 */
static void extents_have_places_while_a_device_has_them(void **state)
{
	const struct kw_memory_device device = {pin, NULL};
	struct kw_memory *memory = *state;
	struct kw_extent first = {.length = MIB}, second = {.offset = MIB, .length = MIB};

	assert_int_equal(kw_memory_extend(memory, &first, NULL), 0);
	for (int life = 0; life < 2; life++) {
		assert_int_equal(kw_memory_attach(memory, &device), 1 + life);
		if (life == 0) {
			assert_int_equal(kw_memory_extend(memory, &second, NULL), 0);
			assert_int_equal(second.rkey, 101);
		}
		assert_int_equal(memory->extents[0].rkey, 0);
		kw_memory_place(memory, 0, 4711, 7);
		assert_int_equal(memory->extents[0].address, 4711);
		assert_int_equal(memory->extents[0].rkey, 7);
		assert_int_equal(memory->extents[1].rkey, life ? 0 : 101);
		kw_memory_detach(memory);
		for (int i = 0; i < 2; i++) {
			assert_int_equal(memory->extents[i].address, 0);
			assert_int_equal(memory->extents[i].rkey, 0);
		}
	}
}

static void extents_that_do_not_fit_are_refused(void **state)
{
	struct kw_memory *memory = *state;
	struct kw_extent good = {.offset = 4 * MIB, .length = 4 * MIB, .address = 9, .rkey = 9};
	struct kw_extent bad[] = {{.offset = 0, .length = 0}, {.offset = 0, .length = 17 * MIB},
		{.offset = UINT64_MAX, .length = 2}, {.offset = 16 * MIB, .length = 1},
		{.offset = 0, .length = 4 * MIB + 1}, {.offset = 5 * MIB, .length = 1},
		{.offset = 8 * MIB - 1, .length = MIB}};
	struct kw_error error;

	assert_int_equal(kw_memory_extend(memory, &good, &error), 0);
	assert_int_equal(good.address, 0);
	assert_int_equal(good.rkey, 0);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_int_equal(kw_memory_extend(memory, &bad[i], &error), KW_E_ARGUMENT);
	assert_int_equal(atomic_load(&memory->extent_count), 1);
}

static void no_more_extents_than_there_may_be(void **state)
{
	struct kw_memory *memory = *state;
	struct kw_extent extent = {.length = 4096};
	struct kw_error error;

	for (uint64_t i = 0; i < KW_EXTENTS_MAX; i++) {
		extent.offset = i * 4096;
		assert_int_equal(kw_memory_extend(memory, &extent, &error), 0);
	}
	extent.offset = KW_EXTENTS_MAX * 4096;
	assert_int_equal(kw_memory_extend(memory, &extent, &error), KW_E_FULL);
	assert_true(kw_memory_covers(memory, 0, KW_EXTENTS_MAX * 4096));
	assert_true(kw_memory_covers(memory, 1, KW_EXTENTS_MAX * 4096 - 1));
	assert_false(kw_memory_covers(memory, 1, KW_EXTENTS_MAX * 4096));
}

static void covered_is_what_lies_within_adjoining_extents(void **state)
{
	struct kw_memory *memory = *state;
	/* In no order, with a gap behind 3 MiB. */
	struct kw_extent extents[] = {{.offset = 2 * MIB, .length = MIB},
		{.offset = 0, .length = MIB}, {.offset = MIB, .length = MIB},
		{.offset = 4 * MIB, .length = MIB}};
	struct kw_error error;

	assert_false(kw_memory_covers(memory, 0, 1));
	for (int i = 0; i < 4; i++)
		assert_int_equal(kw_memory_extend(memory, &extents[i], &error), 0);
	assert_true(kw_memory_covers(memory, 0, 3 * MIB));
	assert_true(kw_memory_covers(memory, 3 * MIB - 1, 1));
	assert_true(kw_memory_covers(memory, 4 * MIB, MIB));
	assert_false(kw_memory_covers(memory, 0, 3 * MIB + 1));
	assert_false(kw_memory_covers(memory, 3 * MIB, 1));
	assert_false(kw_memory_covers(memory, 0, 0));
	assert_false(kw_memory_covers(memory, 2 * MIB, 2 * MIB + 1));
	assert_false(kw_memory_covers(memory, UINT64_MAX, 1));
	assert_false(kw_memory_covers(memory, MIB, UINT64_MAX));
	assert_false(kw_memory_covers(memory, 1, UINT64_MAX));
}

/* ---- the memory of a process before ---- */

/* A duplicate, as systemd would hold it: the first process has ended. */
static int leave(struct kw_memory *memory, const char *words)
{
	int fd;

	memcpy(memory->base + MIB, words, strlen(words) + 1);
	fd = dup(memory->fd);
	assert_true(fd >= 0);
	kw_memory_close(memory);
	return fd;
}

static void a_memory_outlives_its_process(void **state)
{
	struct kw_memory *memory = *state;
	struct kw_extent extent = {.length = 2 * MIB};
	struct kw_error error;
	int fd = leave(memory, "kept");

	assert_int_equal(kw_memory_init_kept(memory, fd, &error), 0);
	assert_int_equal(memory->reserve_bytes, 16 * MIB);
	assert_string_equal((char *)memory->base + MIB, "kept");
	/* What may be read remotely is said anew. */
	assert_false(kw_memory_covers(memory, 0, 1));
	assert_int_equal(kw_memory_extend(memory, &extent, &error), 0);
	assert_string_equal((char *)memory->base + MIB, "kept");
	assert_true(kw_memory_give_back(memory, MIB, MIB));
	assert_int_equal(memory->base[MIB], 0);
}

static void refuse_kept(int fd, const char *words)
{
	struct kw_memory memory;
	struct kw_error error;

	assert_int_equal(kw_memory_init_kept(&memory, fd, &error), KW_E_REFUSED);
	assert_non_null(strstr(error.text, words));
	assert_int_equal(memory.fd, -1);
	assert_int_equal(fcntl(fd, F_GETFD), -1); /* it was closed */
}

static void memory_of_another_making_is_not_taken(void **state)
{
	struct kw_memory *memory = *state, sealed;
	struct kw_error error;
	int fd = leave(memory, "kept");

	assert_int_equal(fchmod(fd, 0600), 0);
	refuse_kept(fd, "mode 0600");
	fd = memfd_create("another", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(fd, 16 * MIB), 0);
	refuse_kept(fd, "seals"); /* it could shrink under our feet */
	fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	refuse_kept(fd, "seals");
	assert_int_equal(kw_memory_init_sealed(&sealed, 16 * MIB, &error), 0);
	refuse_kept(leave(&sealed, "kept"), "table.seal");
}

/* A mapping cannot be taken back. What it shows can. */
static void a_mapping_of_before_shows_nothing_of_a_memory_that_was_renewed(void **state)
{
	struct kw_memory *memory = *state;
	struct kw_error error;
	uint8_t *mapped;
	int fd = leave(memory, "kept");

	mapped = mmap(NULL, 16 * MIB, PROT_READ, MAP_SHARED, fd, 0);
	assert_true(mapped != MAP_FAILED);
	assert_int_equal(kw_memory_init_kept(memory, fd, &error), 0);
	assert_string_equal((char *)mapped + MIB, "kept");
	assert_int_equal(kw_memory_renew(memory, &error), 0);
	assert_int_equal(memory->reserve_bytes, 16 * MIB);
	assert_string_equal((char *)memory->base + MIB, "kept");
	assert_int_equal(mapped[MIB], 0);
	memory->base[2 * MIB] = 1;
	assert_int_equal(mapped[2 * MIB], 0);
	munmap(mapped, 16 * MIB);
}

/* What has pages comes and goes; the source is empty afterwards, so memory is not needed twice. */
static void a_memory_goes_through_a_file(void **state)
{
	struct kw_memory *memory = *state, copy;
	struct kw_error error;
	struct stat status;
	int fd = memfd_create("file", MFD_CLOEXEC);

	memcpy(memory->base + 3 * MIB - 2, "across", 7);
	memory->base[16 * MIB - 1] = 9;
	assert_int_equal(kw_memory_save(memory, fd, &error), 0);
	assert_int_equal(memory->base[3 * MIB], 0);
	assert_int_equal(fstat(fd, &status), 0);
	assert_int_equal(status.st_size, 16 * MIB);
	assert_in_range(status.st_blocks * 512, 1, MIB);
	assert_int_equal(kw_memory_init_sealed(&copy, (uint64_t)status.st_size, &error), 0);
	assert_int_equal(kw_memory_load(&copy, fd, &error), 0);
	assert_string_equal((char *)copy.base + 3 * MIB - 2, "across");
	assert_int_equal(copy.base[16 * MIB - 1], 9);
	assert_int_equal(fstat(fd, &status), 0);
	assert_int_equal(status.st_blocks, 0);
	close(fd);
	kw_memory_close(&copy);
}

static void a_file_without_room_is_told(void **state)
{
	struct kw_memory *memory = *state;
	struct kw_error error;
	int fd = open("/dev/full", O_RDWR | O_CLOEXEC);

	memory->base[0] = 1;
	assert_int_equal(kw_memory_save(memory, fd, &error), KW_E_IO);
	assert_non_null(strstr(error.text, "copying the table out"));
	close(fd);
}

static void senseless_reservations_are_refused(void **state)
{
	struct kw_memory memory;
	struct kw_error error;

	assert_int_equal(kw_memory_init(&memory, 0, &error), KW_E_ARGUMENT);
	assert_int_equal(kw_memory_init(&memory, KW_RESERVE_MAX + 1, &error), KW_E_ARGUMENT);
	assert_int_equal(memory.fd, -1);
}

static void racy_copies_are_copies(void **state)
{
	uint8_t from[128], to[160];

	for (size_t i = 0; i < sizeof from; i++)
		from[i] = (uint8_t)(i * 7 + 1);
	for (size_t start = 0; start < 16; start++)
		for (size_t length = 0; length + start < 100; length++) {
			memset(to, 0xEE, sizeof to);
			kw_racy_copy(to + 3, from + start, length);
			assert_memory_equal(to + 3, from + start, length);
			assert_int_equal(to[2], 0xEE);
			assert_int_equal(to[3 + length], 0xEE);
		}
}

int main(void)
{
#define WITH_MEMORY(test) cmocka_unit_test_setup_teardown(test, open_memory, close_memory)
	const struct CMUnitTest tests[] = {
		WITH_MEMORY(the_reservation_is_whole_pages_and_zero),
		WITH_MEMORY(the_file_cannot_shrink),
		WITH_MEMORY(peers_can_map_it_but_not_write_it),
		WITH_MEMORY(memory_given_back_is_empty_and_can_be_written_again),
		WITH_MEMORY(memory_that_a_device_has_pinned_is_kept),
		WITH_MEMORY(extents_have_places_while_a_device_has_them),
		WITH_MEMORY(extents_that_do_not_fit_are_refused),
		WITH_MEMORY(no_more_extents_than_there_may_be),
		WITH_MEMORY(covered_is_what_lies_within_adjoining_extents),
		WITH_MEMORY(a_memory_outlives_its_process),
		WITH_MEMORY(memory_of_another_making_is_not_taken),
		WITH_MEMORY(a_mapping_of_before_shows_nothing_of_a_memory_that_was_renewed),
		WITH_MEMORY(a_memory_goes_through_a_file),
		WITH_MEMORY(a_file_without_room_is_told),
		cmocka_unit_test(senseless_reservations_are_refused),
		cmocka_unit_test(racy_copies_are_copies),
		cmocka_unit_test(a_pool_that_is_too_small_is_a_sentence_with_the_sysctl),
		cmocka_unit_test(a_sealed_memory_is_written_by_its_own_mapping_alone),
		cmocka_unit_test(extents_of_huge_pages_have_all_their_pages),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
