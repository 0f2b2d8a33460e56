/*
 * Every byte of the table, as a reader on another host sees it.
 *
 *   memory file (offsets)
 *   0        superblock, 128 bytes      polled; everything is found from here
 *   128      index root, 64 bytes       where a key's hash is looked up
 *   192      history, 256 bytes         whose data they are: history.h
 *   512      seal, 256 bytes            of a table that outlives its process: proxy/table/keep.h
 *   4096     two directories            written in turn; the superblock names the one that counts
 *   …        two sets of functions      only if they are carried; the history names the one
 *   …        index slots                16 bytes each
 *   …        segments                   the log: records, 8-byte aligned
 *
 * The memory file grows in extents (one RDMA registration each). The directory lists them, so that
 * an offset in the memory file becomes an address and an rkey. Only offsets travel in records,
 * index and superblock.
 *
 * All numbers are little-endian and naturally aligned; both ends refuse to be built elsewhere. No
 * READ is a snapshot: bytes of one READ can be sampled in any order (see FORMAT.md). So each
 * structure ends in or begins with a checksum of its own, and a mismatch means: read again.
 */
#ifndef KW_TABLE_LAYOUT_H
#define KW_TABLE_LAYOUT_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the table is defined little-endian; a big-endian host is not supported"
#endif

/*
 * 1: records with a header of 40 bytes. In the handshake of version 0.1 this number stood where
 * later ones have their own version, which is 3 (remote/handshake.h). Programs of two numbers
 * refuse each other, and the lower one is to be upgraded. Tests build programs with another one.
 */
#ifndef KW_LAYOUT_VERSION
#define KW_LAYOUT_VERSION 2
#endif
#define KW_SUPERBLOCK_MAGIC UINT32_C(0x31574b53) /* "SKW1" */
#define KW_INDEX_MAGIC UINT32_C(0x31574b49)      /* "IKW1" */
#define KW_DIRECTORY_MAGIC UINT32_C(0x31574b44)  /* "DKW1" */

#define KW_SUPERBLOCK_OFFSET 0
#define KW_INDEX_ROOT_OFFSET 128
#define KW_HISTORY_OFFSET 192
#define KW_KEEP_OFFSET 512 /* the seal of a table that is kept: only the proxy reads it */
#define KW_INDEX_STRIPES_OFFSET 2048
#define KW_DIRECTORY_OFFSET 4096
#define KW_FUNCTIONS_BYTES (UINT32_C(1) << 20) /* of a set of function libraries, at most */

/* What the source of the table is doing, as the superblock says it. */
enum kw_source_state {
	KW_SOURCE_CONNECTING = 0, /* not connected to the primary yet */
	KW_SOURCE_SCANNING,       /* first scan of this epoch: the table is incomplete */
	KW_SOURCE_LIVE,           /* the table holds every key, current but for what is in flight */
	KW_SOURCE_RECONCILING,    /* an event might have been missed: a scan puts it right */
	KW_SOURCE_FULL,           /* table.max_bytes reached: changed keys wait */
	KW_SOURCE_DOWN,           /* the primary cannot be reached, or it lost its own primary */
	KW_SOURCE_HELD,           /* the primary lacks so many keys that their deletion waits */
	KW_SOURCE_UNCONFIRMED,    /* no majority confirms the server as the primary (history.h) */
	KW_SOURCE_STALLED,        /* the primary is connected and does not answer: it hangs */
};

#define KW_SOURCE_STATES (KW_SOURCE_STALLED + 1)

struct kw_superblock {
	uint32_t magic;
	uint16_t layout_version;
	uint8_t source_state;           /* enum kw_source_state */
	uint8_t complete;               /* 1 once the first scan of this epoch has finished */
	uint64_t epoch;                 /* random, not 0; one a life of the table */
	uint64_t publication;           /* counts the superblocks written in this epoch */
	uint64_t head_segment;          /* id of the segment being filled */
	uint64_t head_bytes;            /* bytes of it that may be read */
	uint64_t version;               /* highest version published */
	uint64_t tombstone_floor;       /* no tombstone above this version has been dropped */
	uint64_t directory_publication; /* must equal the directory's own */
	uint64_t directory_offset;
	uint32_t directory_bytes;
	uint16_t rdb_version;  /* of the payloads: 9 Redis 6, 10 Redis 7.0, 11 …, 80 Valkey 9 */
	uint16_t ticket;       /* see below */
	uint64_t heartbeat_us; /* the proxy's wall clock when this was written */
	uint64_t fresh_us;     /* every write that the primary executed before this moment is in the
				  table (the proxy's wall clock; except silent writes). 0: unknown */
	uint64_t published_us; /* the proxy's wall clock when `version` last moved */
	uint64_t keys;         /* live keys */
	uint64_t source_id;    /* kw_server_id of the primary; 0: unknown */
	uint32_t
		history_checksum; /* of the history that counts (history.h); 0: none is published */
	uint32_t checksum;        /* CRC32C of the 124 bytes before */
};

static_assert(sizeof(struct kw_superblock) == 128, "one READ of at most 128 bytes polls it");

/*
 * Tickets: barriers without a clock. The number in the superblock grows by one when a ticket begins
 * (odd: one is under way) and by one when it has passed. Then all that the primary did before it
 * began is in the table, what silent commands did included. 0: a proxy without tickets; other
 * numbers skip 0 and 1 when they wrap.
 *
 * A reader draws a ticket by a READ of the superblock: kw_ticket_drawn says at which number one has
 * passed that began after this READ did. The reader asks for it in its reports (frame.h).
 */
static inline uint16_t kw_ticket_next(uint16_t number)
{
	return number == UINT16_MAX ? 2 : (uint16_t)(number + 1);
}

static inline uint16_t kw_ticket_drawn(uint16_t number)
{
	if (number % 2 == 1) /* the one under way might have begun before */
		number = kw_ticket_next(number);
	return kw_ticket_next(kw_ticket_next(number));
}

static inline bool kw_ticket_reached(uint16_t number, uint16_t drawn)
{
	return (int16_t)(uint16_t)(number - drawn) >= 0;
}

/*
 * Can a reader that sees this number wait for that one? A number that is neither reached nor
 * awaited is older than half of all numbers, or was never drawn: no ticket that begins now reaches
 * it.
 */
static inline bool kw_ticket_awaited(uint16_t number, uint16_t drawn)
{
	return !kw_ticket_reached(number, drawn) &&
	       kw_ticket_reached(kw_ticket_drawn(number), drawn);
}

/*
 * The index: open addressing over one array of slots, in the order of the hashes. A key with hash h
 * belongs at slot home(h) = (h * slots) >> 64, and stands at the first free slot from there on.
 * `overflow` slots after the last take what runs over the end. Growth happens in place, from the
 * top down: hashes at or above `boundary` already live by home'(h) = (h * grown_slots) >> 64.
 *
 * Entries move only while `moves` is odd, or changes: a lookup that finds nothing counts only if
 * `moves` was even and the same before and after.
 *
 * A table that is written much moves entries all the time. So the moves are also counted by stripe,
 * in `stripes` numbers of 8 bytes at KW_INDEX_STRIPES_OFFSET, a power of two, or 0: a proxy without
 * them. An entry moves only while the number of its hash's stripe is odd, or changes. A lookup that
 * finds nothing counts, too, if that number was even and the same before and after, and the hash
 * had the same home by both roots.
 */
struct kw_index_root {
	uint32_t magic;
	uint32_t overflow; /* slots after the end of the array */
	uint64_t offset;   /* of slot 0 */
	uint64_t slots;
	uint64_t grown_slots; /* equals slots while not growing */
	uint64_t boundary;    /* hashes >= boundary use grown_slots; 0 while not growing: all do */
	uint64_t moves;
	uint64_t hash_seed; /* kw_hash_key(hash_seed, database, key) */
	uint32_t stripes;   /* 0: a proxy that does not count by stripe */
	uint32_t checksum;  /* CRC32C of the 60 bytes before */
};

static_assert(sizeof(struct kw_index_root) == 64, "");

#define KW_INDEX_STRIPES 256

static_assert(KW_INDEX_STRIPES_OFFSET + KW_INDEX_STRIPES * 8 <= KW_DIRECTORY_OFFSET, "they fit");

/* The stripe of a hash: hashes of one stripe adjoin, and so do their slots. */
static inline uint32_t kw_index_stripe(uint32_t stripes, uint64_t hash)
{
	return (uint32_t)((unsigned __int128)hash * stripes >> 64);
}

/*
 * place: bits 0..43 the record's offset / 8, bits 44..62 its length / 16 rounded up (all ones: that
 * or more, read the header first), bit 63 the proxy's reconcile mark. place 0 is a free slot. A
 * hash of all ones is kept, and looked up, as one less: a boundary of all ones means that none is
 * moved.
 */
struct kw_index_slot {
	uint64_t hash;
	uint64_t place;
};

static_assert(sizeof(struct kw_index_slot) == 16, "16 bytes an entry");

#define KW_PLACE_OFFSET_BITS 44
#define KW_PLACE_LENGTH_MAX ((UINT64_C(1) << 19) - 1)
#define KW_PLACE_MARK (UINT64_C(1) << 63)

/* Directory: header, then `segments` entries in ascending id, then `extents` entries. */
struct kw_directory_header {
	uint32_t magic;
	uint32_t checksum; /* CRC32C of all that follows this field, `bytes` - 8 of them */
	uint64_t epoch;
	uint64_t publication;
	uint32_t bytes; /* of the whole directory, this header included */
	uint32_t segments;
	uint32_t extents;
	uint32_t reserved;
};

static_assert(sizeof(struct kw_directory_header) == 40, "");

/*
 * One segment of the log. Ids only grow, over the life of the table: an id is the generation of the
 * memory it names, and log order is (id, offset in the segment).
 */
struct kw_directory_segment {
	uint64_t id;
	uint64_t offset;    /* in the memory file */
	uint64_t capacity;  /* bytes of the run */
	uint64_t committed; /* bytes that hold records; the head's is in the superblock */
	uint64_t lowest_version, highest_version; /* of its records; 0, 0 when there are none */
};

static_assert(sizeof(struct kw_directory_segment) == 48, "");

struct kw_extent {
	uint64_t offset; /* in the memory file */
	uint64_t length;
	uint64_t address; /* as the proxy's NIC knows it; 0 without one */
	uint32_t rkey;
	uint32_t reserved;
};

static_assert(sizeof(struct kw_extent) == 32, "");

enum kw_record_kind {
	KW_RECORD_HIDDEN = 0, /* only on its way to a reader: redact.h */
	KW_RECORD_PUT = 1,
	KW_RECORD_DELETE = 2, /* a tombstone: the key is gone */
	KW_RECORD_FLUSH = 3,  /* every key of the database is gone; no key, no value */
};

/*
 * A record: this header, the expiry if it has one (8 bytes, absolute, ms), the key, the value (the
 * server's DUMP payload, whole). The next record starts at the next multiple of 8. Published once;
 * afterwards only superseded_by may change, once, by one aligned 8-byte store.
 *
 * checksum: CRC32C over (epoch, segment id, offset in the segment, version_database), then all
 * that follows the checksum. It binds the content to its place, so a whole record left over in
 * recycled memory fails.
 *
 * superseded_by: bits 0..47 the version that replaced this record, 0 while none has; bits 48..63 a
 * check of those bits with the checksum, never left out. A READ that lasts across a recycling can
 * take every checked byte from the old life of the memory and this word from the new one. Without
 * the check, a record long replaced would then look live (the simulator finds it).
 */
struct kw_record {
	uint64_t superseded_by;    /* version and check: kw_superseded_word */
	uint64_t version_database; /* bits 0..47 the version, 48..63 the database */
	uint32_t checksum;
	uint32_t length; /* header, expiry, key and value: exact */
	uint32_t what;   /* bits 0..28 the key's length, 29 an expiry follows, 30..31 the kind */
	uint8_t body[];
};

/* The size of the header; sizeof would count the padding after it. */
#define KW_RECORD_HEADER 28

static_assert(offsetof(struct kw_record, body) == KW_RECORD_HEADER, "28 bytes, and no padding");

#define KW_VERSION_BITS 48 /* nine years at a million writes a second */
#define KW_VERSION_MASK ((UINT64_C(1) << KW_VERSION_BITS) - 1)
#define KW_RECORD_KEY_MAX ((UINT32_C(1) << 29) - 1) /* one byte less than a server accepts */
#define KW_RECORD_EXPIRES (UINT32_C(1) << 29)
#define KW_RECORD_KIND_SHIFT 30
#define KW_RECORD_ALIGN 8
#define KW_RECORD_LENGTH_MAX UINT32_C(0xfffffff0) /* a value of 4 GiB does not fit */
#define KW_DATABASE_MAX UINT16_MAX

#endif
