#include "regions.h"

#include <assert.h>

#define INTERVAL_US 1000000

void kw_regions_init(struct kw_regions *regions, const struct kw_superblock *newest)
{
	*regions = (struct kw_regions){.newest = newest};
}

void kw_regions_close(struct kw_regions *regions)
{
	assert(!regions->remote);
	kw_view_close(&regions->view);
}

void kw_regions_forget(struct kw_regions *regions)
{
	assert(!regions->remote);
	kw_view_forget(&regions->view);
	regions->asked_us = 0;
}

/* A pass of the reader's can have overtaken it: what that told counts. */
static bool is_overtaken(const struct kw_regions *regions)
{
	return regions->newest->epoch == regions->superblock.epoch &&
	       regions->newest->directory_publication > regions->superblock.directory_publication;
}

static void on_directory(struct kw_remote_read *read, const struct kw_error *lost)
{
	struct kw_regions *regions = read->arg;
	const struct kw_directory *directory = &regions->view.directory;
	struct kw_remote *remote = regions->remote;
	struct kw_error error;

	regions->remote = NULL;
	/* One that was replaced or torn meanwhile is asked for again. */
	if (lost || is_overtaken(regions) ||
		kw_view_take(&regions->view, &regions->superblock, &error) != KW_OK)
		return;
	kw_remote_set_extents(remote, directory->extents, (int)directory->header->extents);
}

void kw_regions_look(struct kw_regions *regions, struct kw_remote *remote,
	const struct kw_superblock *superblock, uint64_t now_us)
{
	struct kw_remote_read *read = &regions->read;
	struct kw_error error;

	if (regions->remote || (regions->asked_us && now_us - regions->asked_us < INTERVAL_US) ||
		kw_directory_match(&regions->view.directory, superblock, &error) != KW_E_GONE)
		return;
	regions->superblock = *superblock;
	regions->asked_us = now_us;
	regions->remote = remote;
	*read = (struct kw_remote_read){
		.offset = superblock->directory_offset,
		.length = superblock->directory_bytes,
		.buffer = kw_view_sink(&regions->view, superblock),
		.done = on_directory,
		.arg = regions,
	};
	kw_remote_read(remote, &read, 1);
}
