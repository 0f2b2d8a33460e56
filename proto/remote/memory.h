/*
 * The memory file: one sparse memfd, mapped once, that holds the table and is what carriers serve.
 *
 * The whole reservation is mapped from the start, so offset 0 .. reserve_bytes has a fixed address;
 * pages come into being when written. What may be read remotely is the list of extents, which only
 * grows. The file is sealed against shrinking, so a peer that maps it can never fault on it. Its
 * mode lets no other process open it anew for writing, unless it runs as the same user and changes
 * the mode, or is root. The seal against that (kw_memory_init_sealed, and always with huge pages)
 * leaves writing to this mapping alone. But it forbids punching holes: nothing is given back.
 *
 * Huge pages (kw_memory_init_huge) are 2 MiB each, from the pool that the system sets aside. A page
 * that the pool cannot give would kill the process that touches it (SIGBUS). So an extent gets all
 * of its pages before it counts, and keeps them: nothing is given back. Peers must map the file
 * with MAP_NORESERVE. Otherwise the kernel wants pages for all of the reservation.
 *
 * kw_memory_extend is called by the main thread only; the extents may be read by any thread.
 */
#ifndef KW_REMOTE_MEMORY_H
#define KW_REMOTE_MEMORY_H

#include "base/error.h"
#include "table/layout.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define KW_EXTENTS_MAX 256
#define KW_RESERVE_MAX (UINT64_C(1) << 44) /* of the 47 bits of addresses a process has */

/*
 * Registers extents with a device. add: the number-th; fills in address and rkey. expect: this one
 * might be added soon.
 */
struct kw_memory_device {
	int (*add)(void *arg, int number, struct kw_extent *extent, struct kw_error *error);
	void (*expect)(void *arg, uint64_t offset, uint64_t length);
	void *arg;
};

struct kw_memory {
	int fd;          /* read-write, sealed; -1 when closed */
	int readonly_fd; /* handed to peers: they can map it, not write it */
	uint8_t *base;
	uint64_t reserve_bytes;
	bool huge;   /* made of huge pages */
	bool sealed; /* nobody can map it for writing any more, and nothing is given back */
	struct kw_extent extents[KW_EXTENTS_MAX];
	struct kw_memory_device device; /* add NULL: none */
	_Atomic int extent_count;       /* release-stored after the entry is written */
};

/* KW_E_ARGUMENT: 0 or beyond KW_RESERVE_MAX. Rounded up to whole pages. */
int kw_memory_init(struct kw_memory *memory, uint64_t reserve_bytes, struct kw_error *error);

/* The same, sealed. KW_E_IO: the kernel is older than 5.1. */
int kw_memory_init_sealed(struct kw_memory *memory, uint64_t reserve_bytes, struct kw_error *error);

#define KW_HUGE_PAGE_BYTES (UINT64_C(2) << 20)

/* Sealed, of huge pages. KW_E_CONFIG: the system has none of 2 MiB. */
int kw_memory_init_huge(struct kw_memory *memory, uint64_t reserve_bytes, struct kw_error *error);

/*
 * The memory of a process before, of which this descriptor is left: it is as large as it was, and
 * its bytes are what they were. No extent counts yet. The descriptor belongs to the memory, and is
 * closed if it is refused. KW_E_REFUSED: it is no memory file that kw_memory_init made for this
 * user. So is one of kw_memory_init_sealed or _huge: no process can map it for writing any more.
 */
int kw_memory_init_kept(struct kw_memory *memory, int fd, struct kw_error *error);

/*
 * Between a memory and a file: all pages that hold something, at the same offsets (memory_file.c).
 * What was copied is given back meanwhile, so neither needs twice the memory: from a memory that is
 * sealed, and from a file on another filesystem than tmpfs, it cannot be. Not for huge pages.
 *
 * save: nothing may write to the memory any more, or read it. load: the memory is new, and as large
 * as the file. KW_E_IO; part of it was copied then.
 */
int kw_memory_save(struct kw_memory *memory, int fd, struct kw_error *error);
int kw_memory_load(struct kw_memory *memory, int fd, struct kw_error *error);

/*
 * The same bytes in another file: whoever has mapped this one reads zeros from now on, and nothing
 * that is written later. No extent counts yet. On an error the memory is closed. Not for memory
 * that is sealed or of huge pages.
 */
int kw_memory_renew(struct kw_memory *memory, struct kw_error *error);

/* No peer may still be reading: close the server first. Harmless on a closed one. */
void kw_memory_close(struct kw_memory *memory);

/*
 * Add an extent (offset and length given; neither overlapping nor beyond the reservation). Its
 * address and rkey are 0, or what the attached device says: it is registered before others may see
 * it. KW_E_FULL beyond KW_EXTENTS_MAX. KW_E_NOMEM: the system has too few huge pages; the sentence
 * says which sysctl to set.
 */
int kw_memory_extend(struct kw_memory *memory, struct kw_extent *extent, struct kw_error *error);

/*
 * kw_memory_extend might follow for this extent soon: a device that takes long to register it
 * begins now. Repeated calls change nothing. An extent that was not expected, or of another size,
 * works too.
 */
void kw_memory_expect(struct kw_memory *memory, uint64_t offset, uint64_t length);

/*
 * Give the whole pages of [offset, +length) back to the system. From now on peers read zeros there,
 * or what is written later. False, and nothing is done: the kernel cannot, or a device has the
 * memory pinned and would go on reading the old pages.
 */
bool kw_memory_give_back(struct kw_memory *memory, uint64_t offset, uint64_t length);

/*
 * From now on no pages are given back, and the device registers each new extent first. The caller
 * registers the extents that are there already, on any thread, since pinning much memory takes
 * long. Then it says where they are (kw_memory_place), on the main thread. Returns how many there
 * are. This must come before the pinning: if pages were given back meanwhile, the device would read
 * the old pages for ever, and the table would write others.
 */
int kw_memory_attach(struct kw_memory *memory, const struct kw_memory_device *device);
void kw_memory_place(struct kw_memory *memory, int number, uint64_t address, uint32_t rkey);

/* Nothing is registered any more: no extent has an address. Harmless when nothing was. */
void kw_memory_detach(struct kw_memory *memory);

/* May [offset, offset + length) be read remotely? Adjoining extents count as one. */
bool kw_memory_covers(const struct kw_memory *memory, uint64_t offset, uint64_t length);

/* The same over any list of extents, in any order; length 0 is never covered. */
bool kw_extents_cover(const struct kw_extent *extents, int count, uint64_t offset, uint64_t length);

#endif
