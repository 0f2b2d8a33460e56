#include "remote/tcp/zstd_memory.h"

#include "base/secret.h"

#include <assert.h>
#include <stdalign.h>

/* Before each allocation: its size, and no less than what keeps it aligned. */
union head {
	size_t size;
	max_align_t align;
};

static void *take(void *opaque, size_t size)
{
	struct kw_zstd_memory *memory = opaque;
	union head *head;

	if (size > memory->most - memory->used)
		return NULL;
	head = kw_secret_try(sizeof *head + size);
	if (!head)
		return NULL;
	head->size = size;
	memory->used += size;
	return head + 1;
}

static void give_back(void *opaque, void *bytes)
{
	struct kw_zstd_memory *memory = opaque;
	union head *head;

	if (!bytes)
		return;
	head = (union head *)bytes - 1;
	assert(memory->used >= head->size);
	memory->used -= head->size;
	kw_secret_free(head, sizeof *head + head->size);
}

ZSTD_customMem kw_zstd_memory(struct kw_zstd_memory *memory)
{
	return (ZSTD_customMem){take, give_back, memory};
}
