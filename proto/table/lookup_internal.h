/* Inside the lookups: one lookup (lookup_search.c), the view they share (lookup_view.c). */
#ifndef KW_TABLE_LOOKUP_INTERNAL_H
#define KW_TABLE_LOOKUP_INTERNAL_H

#include "base/buffer.h"
#include "base/sm.h"
#include "table/lookup.h"
#include "table/places.h"
#include "table/runs.h"
#include "table/view.h"

/* From the index root to the last stripe. */
#define KW_LOOKUP_CONFIRM_BYTES                                                                    \
	(KW_INDEX_STRIPES_OFFSET + KW_INDEX_STRIPES * 8 - KW_INDEX_ROOT_OFFSET)

/* Drawn in lookup.h. */
enum kw_lookup_state {
	KW_LOOKUP_FREE,
	KW_LOOKUP_WAITING,
	KW_LOOKUP_GUESS,
	KW_LOOKUP_SLOTS,
	KW_LOOKUP_RECORD,
	KW_LOOKUP_CONFIRM,
	KW_LOOKUP_PARKED,
	KW_LOOKUP_DRAINING, /* stopped, but its READ is out */
};

/* What is known of the key, and what is wanted. */
enum kw_lookup_aim {
	KW_AIM_RECORD,   /* the record of this key */
	KW_AIM_PRESENCE, /* only whether the key is there */
	KW_AIM_SLOT,     /* the record of the key with this hash */
};

struct kw_lookup {
	struct kw_lookups *lookups;
	struct kw_sm sm; /* enum kw_lookup_state */
	struct kw_lookup_read read;
	struct kw_lookup *next; /* in the list of its state: free, waiting, parked */

	/* what is asked */
	enum kw_lookup_aim aim;
	uint32_t database; /* and key: not for KW_AIM_SLOT */
	struct kw_buffer key;
	uint64_t hash; /* of the key, from the first search on; KW_AIM_SLOT: from the beginning */
	kw_lookup_fn fn;
	void *arg;
	uint32_t tries;
	uint64_t look; /* the view that it searches by */

	/* where the search is */
	struct kw_index_root by; /* the index root that it goes by */
	uint64_t stripe;         /* the number of the hash's stripe before the search, … */
	bool striped;            /* … which is known, and even */
	struct kw_index_slot slots[KW_LOOKUP_NEIGHBOURHOOD_MAX];
	uint64_t position; /* of slots[0] in the index */
	uint32_t count;    /* slots read */
	uint32_t at;       /* slot to look at next */
	uint32_t neighbourhoods;
	uint64_t confirm[KW_LOOKUP_CONFIRM_BYTES / 8]; /* CONFIRM: the root again, and stripes */

	/*
	 * A place to follow before the index is searched; 0: none. A walk saw it (KW_AIM_SLOT), or
	 * this lookup read it from the index (`sampled`) and could not follow it yet.
	 */
	uint64_t first_place;
	bool sampled;
	uint64_t known_version; /* of the superblock known when the slots were asked for */
	uint32_t awaited;       /* how often a newer view was awaited for it */
	uint64_t doubtful;      /* no record of it verified in the segment with this id; 0: none */

	/* the record being read */
	uint8_t *record;
	uint64_t record_capacity;
	uint64_t record_offset; /* in the memory file */
	uint64_t wanted, got;
	uint64_t limit; /* bytes from the record to the end of its segment */
	uint64_t word;  /* its place, as a slot has it */
	struct kw_place place;
	uint64_t least_version; /* GUESS: what was found there before */
	bool length_known;      /* from the slot; otherwise from the header */
};

/*
 *   ┌───────┐ wanted ┌───────┐ another directory ┌───────────┐
 *   │ BLANK │───────▶│ FRONT │──────────────────▶│ DIRECTORY │
 *   └───────┘        └───────┘                   └───────────┘
 *       ▲  ▲         ▲    │ the known one          │    ▲
 *       │  │  begin  │    ▼                        │    │ seen: another directory
 *       │  │  anew  ┌─────────┐◀───────────────────┘    │
 *       │  └────────│  KNOWN  │─────────────────────────┘
 *       │           └─────────┘
 *       └── no try left, a READ failed, stop: from each of these
 */
enum kw_sight {
	KW_SIGHT_BLANK,
	KW_SIGHT_FRONT, /* superblock and index root, in one READ */
	KW_SIGHT_DIRECTORY,
	KW_SIGHT_KNOWN,
};

/* Superblock and index root adjoin (layout.h). */
struct kw_lookup_front {
	struct kw_superblock superblock;
	struct kw_index_root root;
};

static_assert(sizeof(struct kw_lookup_front) == KW_INDEX_ROOT_OFFSET + sizeof(struct kw_index_root),
	"one READ brings both");

struct kw_lookup_list {
	struct kw_lookup *first, *last;
	uint32_t count;
};

struct kw_lookups {
	struct kw_lookups_options options;
	struct kw_lookups_io io;
	struct kw_lookups_stats stats;

	/* The view that all share. */
	struct kw_sm sight; /* enum kw_sight */
	struct kw_lookup_front front;
	struct kw_superblock superblock; /* that the view is of, or will be of */
	struct kw_superblock seen;       /* the newest told by the owner; epoch 0: none */
	struct kw_index_root root;
	struct kw_view view;
	struct kw_runs runs; /* of the view's directory */
	bool told;           /* the owner tells its looks; since the view was forgotten last */
	uint64_t looks;      /* views that became known */
	struct kw_lookup_read read;
	bool reading; /* `read` is out, or collected */
	bool stale;   /* … and its bytes are not wanted any more */

	struct kw_places places;
	uint64_t places_epoch;

	/*
	 * At most twice the depth, and one: so many can be draining when all are stopped, and one
	 * can end while another begins.
	 */
	struct kw_lookup **all;
	uint32_t made, active, draining, outstanding;
	struct kw_lookup_list free, waiting, parked;

	struct kw_lookup_read **posting; /* READs collected: one for each, and the view's */
	uint32_t collected;
};

extern const struct kw_sm_conf kw_lookup_machine, kw_sight_machine;

static inline enum kw_lookup_state kw_lookup_state(const struct kw_lookup *lookup)
{
	return (enum kw_lookup_state)lookup->sm.state;
}

static inline enum kw_sight kw_sight(const struct kw_lookups *lookups)
{
	return (enum kw_sight)lookups->sight.state;
}

void kw_lookup_list_push(struct kw_lookup_list *list, struct kw_lookup *lookup);
struct kw_lookup *kw_lookup_list_pop(struct kw_lookup_list *list);

/* Collect a READ. */
void kw_lookups_ask(struct kw_lookups *lookups, struct kw_lookup_read *read);

/* ---- lookup_search.c ---- */

/* Of a key, by the known view. */
uint64_t kw_lookup_hash(const struct kw_lookups *lookups, uint32_t database, struct kw_slice key);
/* The view is known: search by it. */
void kw_lookup_search(struct kw_lookup *lookup);
/* Its READ has ended well. */
void kw_lookup_go_on(struct kw_lookup *lookup);
/* It is FREE from now on: on the list, and with little memory. */
void kw_lookup_release(struct kw_lookup *lookup);
/* Tell the end, and free it. */
void kw_lookup_end(struct kw_lookup *lookup, const struct kw_lookup_result *result);
void kw_lookup_fail(struct kw_lookup *lookup, const struct kw_error *error);
/* False: no try was left, and it was told uncertain. */
bool kw_lookup_try_again(struct kw_lookup *lookup, const char *why);

/* ---- lookup_view.c ---- */

/* Wait for a view newer than lookup->look. */
void kw_lookup_await_view(struct kw_lookup *lookup);
/* The view's own READ has ended. */
void kw_lookups_view_read(struct kw_lookups *lookups, const struct kw_error *error);
/* Nothing is known of the table any more. */
void kw_lookups_forget(struct kw_lookups *lookups);

#endif
