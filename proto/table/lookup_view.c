#include "table/lookup_internal.h"

#include <assert.h>

static bool holds(const void *owner, int state)
{
	const struct kw_lookups *lookups = owner;

	switch (state) {
	case KW_SIGHT_FRONT:
	case KW_SIGHT_DIRECTORY:
		return lookups->reading && !lookups->stale;
	case KW_SIGHT_KNOWN:
		return lookups->view.directory.header && !lookups->reading;
	default:
		return true;
	}
}

static const struct kw_sm_state sights[] = {
	[KW_SIGHT_BLANK] = {"blank", KW_SM_TO(KW_SIGHT_FRONT) | KW_SM_TO(KW_SIGHT_BLANK),
		KW_SM_INITIAL},
	[KW_SIGHT_FRONT] = {"front", KW_SM_TO(KW_SIGHT_FRONT) | KW_SM_TO(KW_SIGHT_DIRECTORY) |
					     KW_SM_TO(KW_SIGHT_KNOWN) | KW_SM_TO(KW_SIGHT_BLANK)},
	[KW_SIGHT_DIRECTORY] = {"directory",
		KW_SM_TO(KW_SIGHT_FRONT) | KW_SM_TO(KW_SIGHT_DIRECTORY) | KW_SM_TO(KW_SIGHT_KNOWN) |
			KW_SM_TO(KW_SIGHT_BLANK)},
	[KW_SIGHT_KNOWN] = {"known",
		KW_SM_TO(KW_SIGHT_FRONT) | KW_SM_TO(KW_SIGHT_DIRECTORY) | KW_SM_TO(KW_SIGHT_BLANK)},
};

const struct kw_sm_conf kw_sight_machine = {"sight", sights, KW_SIGHT_KNOWN + 1, holds};

static void read_view(struct kw_lookups *lookups, enum kw_sight sight, uint64_t offset,
	uint64_t length, void *buffer)
{
	assert(!lookups->reading);
	lookups->read.offset = offset;
	lookups->read.length = length;
	lookups->read.buffer = buffer;
	lookups->reading = true;
	lookups->stats.views++;
	kw_sm_move(&lookups->sight, (int)sight, "");
	kw_lookups_ask(lookups, &lookups->read);
}

static void read_front(struct kw_lookups *lookups)
{
	read_view(lookups, KW_SIGHT_FRONT, KW_SUPERBLOCK_OFFSET, sizeof lookups->front,
		&lookups->front);
}

static void read_directory(struct kw_lookups *lookups)
{
	const struct kw_superblock *superblock = &lookups->superblock;

	read_view(lookups, KW_SIGHT_DIRECTORY, superblock->directory_offset,
		superblock->directory_bytes, kw_view_sink(&lookups->view, superblock));
}

void kw_lookups_forget(struct kw_lookups *lookups)
{
	kw_view_forget(&lookups->view);
	kw_places_clear(&lookups->places);
	lookups->seen = (struct kw_superblock){0};
	lookups->told = false;
	lookups->stale = lookups->reading;
	if (kw_sight(lookups) != KW_SIGHT_BLANK)
		kw_sm_move(&lookups->sight, KW_SIGHT_BLANK, "");
}

/*
 * Each lookup that waits has lost a try. While one is left, the view is read again. What is told
 * here can begin or stop lookups: those that waited at first are taken one by one.
 */
static void begin_anew(struct kw_lookups *lookups, const char *why)
{
	uint32_t waiting = lookups->waiting.count;
	struct kw_lookup *lookup;

	kw_sm_move(&lookups->sight, KW_SIGHT_BLANK, why);
	while (waiting-- > 0 && (lookup = kw_lookup_list_pop(&lookups->waiting)))
		if (kw_lookup_try_again(lookup, why))
			kw_lookup_list_push(&lookups->waiting, lookup);
	if (lookups->waiting.first && kw_sight(lookups) == KW_SIGHT_BLANK && !lookups->reading)
		read_front(lookups);
}

static void fail_waiting(struct kw_lookups *lookups, const struct kw_error *error)
{
	uint32_t waiting = lookups->waiting.count;
	struct kw_lookup *lookup;

	kw_lookups_forget(lookups);
	while (waiting-- > 0 && (lookup = kw_lookup_list_pop(&lookups->waiting)))
		kw_lookup_fail(lookup, error);
}

/* Does the owner know a directory that is newer than the view's? */
static bool is_overtaken(const struct kw_lookups *lookups)
{
	const struct kw_superblock *seen = &lookups->seen;

	return seen->epoch != 0 &&
	       (seen->epoch != lookups->superblock.epoch ||
		       seen->directory_publication > lookups->superblock.directory_publication);
}

/* Superblock, root and directory belong together. */
static void view_known(struct kw_lookups *lookups)
{
	uint32_t waiting = lookups->waiting.count;
	struct kw_lookup *lookup;

	kw_sm_move(&lookups->sight, KW_SIGHT_KNOWN, "");
	lookups->looks++;
	if (lookups->places_epoch != lookups->superblock.epoch)
		kw_places_clear(&lookups->places);
	lookups->places_epoch = lookups->superblock.epoch;
	if (is_overtaken(lookups)) {
		/* What is read from now on is no older than what was seen. */
		lookups->seen = (struct kw_superblock){0};
		read_front(lookups);
		return;
	}
	while (waiting-- > 0 && (lookup = kw_lookup_list_pop(&lookups->waiting)))
		kw_lookup_search(lookup);
}

static void on_front(struct kw_lookups *lookups)
{
	struct kw_error error;
	int code = kw_superblock_check(&lookups->front.superblock, &error);

	if (code == KW_E_CORRUPT) {
		begin_anew(lookups, "the superblock does not verify");
		return;
	}
	if (code) {
		fail_waiting(lookups, &error);
		return;
	}
	if (kw_index_root_check(&lookups->front.root, NULL)) {
		begin_anew(lookups, "the index root does not verify");
		return;
	}
	lookups->superblock = lookups->front.superblock;
	lookups->root = lookups->front.root;
	/* What was seen of another life of the table came before this, or is told again. */
	if (lookups->seen.epoch != lookups->superblock.epoch)
		lookups->seen = (struct kw_superblock){0};
	code = kw_directory_match(&lookups->view.directory, &lookups->superblock, NULL);
	if (code == KW_OK)
		view_known(lookups);
	else if (code == KW_E_GONE)
		read_directory(lookups);
	else
		begin_anew(lookups, "the directory does not verify");
}

static void on_directory(struct kw_lookups *lookups)
{
	const struct kw_directory *directory = &lookups->view.directory;

	if (kw_view_take(&lookups->view, &lookups->superblock, NULL)) {
		begin_anew(lookups, "the directory does not verify");
		return;
	}
	kw_runs_make(&lookups->runs, directory);
	lookups->io.extents(lookups->io.arg, directory->extents, (int)directory->header->extents);
	view_known(lookups);
}

void kw_lookups_view_read(struct kw_lookups *lookups, const struct kw_error *error)
{
	assert(lookups->reading);
	lookups->reading = false;
	if (lookups->stale) {
		lookups->stale = false;
		if (lookups->waiting.first && kw_sight(lookups) == KW_SIGHT_BLANK)
			read_front(lookups);
		return;
	}
	if (error)
		fail_waiting(lookups, error);
	else if (kw_sight(lookups) == KW_SIGHT_FRONT)
		on_front(lookups);
	else
		on_directory(lookups);
}

void kw_lookup_await_view(struct kw_lookup *lookup)
{
	struct kw_lookups *lookups = lookup->lookups;

	if (kw_sight(lookups) == KW_SIGHT_KNOWN && lookups->looks > lookup->look) {
		kw_lookup_search(lookup);
		return;
	}
	if (kw_lookup_state(lookup) != KW_LOOKUP_WAITING)
		kw_sm_move(&lookup->sm, KW_LOOKUP_WAITING, "");
	kw_lookup_list_push(&lookups->waiting, lookup);
	if ((kw_sight(lookups) == KW_SIGHT_BLANK || kw_sight(lookups) == KW_SIGHT_KNOWN) &&
		!lookups->reading)
		read_front(lookups);
}

void kw_lookups_seen(struct kw_lookups *lookups, const struct kw_superblock *superblock)
{
	bool other = superblock->epoch != lookups->superblock.epoch;

	lookups->seen = *superblock;
	lookups->told = true;
	if (kw_sight(lookups) != KW_SIGHT_KNOWN)
		return;
	if (other) { /* the index root is another one, too */
		read_front(lookups);
	} else if (is_overtaken(lookups)) {
		lookups->superblock = *superblock;
		read_directory(lookups);
	} else if (superblock->publication > lookups->superblock.publication) {
		lookups->superblock = *superblock;
	}
}
