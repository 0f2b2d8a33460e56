/*
 * The history of the data set in a table: whose data they are, and how they came to be.
 *
 * A server names the history of its data by a random id (master_replid in INFO replication). Its
 * replicas take the id over. A replica that is promoted makes a new id, and keeps the former one as
 * its second id: the two histories are linked. A server that starts anew can lose its id without a
 * link. The proxy puts both ids beside its own identity into one record of the memory file. Readers
 * judge by it whether a table goes on with the data that they have (agent/authority/history.h).
 *
 *   0        superblock ── history_checksum names the record that counts; 0: none is published
 *   128      index root
 *   192      history, 256 bytes
 *   4096     directories
 *
 * The record is written in place before the superblock that names it. A reader READs it only if the
 * superblock names another one than it knows. A superblock of before, or bytes of which a part is
 * older, do not fit together: KW_E_GONE, read the superblock again.
 *
 * The record also tells the mandate: whether the server that the proxy follows was confirmed as the
 * primary (by Redis Sentinel, or by an operator), and since which term. A term counts the primaries
 * of one domain. Terms of two domains cannot be compared. A reader that has data of a term accepts
 * no table of a lower term of the same domain: the server of such a table was deposed.
 *
 * It tells as well where the function libraries of the primary stand, if the table carries them.
 * They are state of the server and no keys: no record of the log is about them. A set is the
 * payload of FUNCTION RESTORE in the form of rdb/libraries.h. It is written beside the one that
 * counts, and then named by this record, as a directory is named by a superblock. A reader that is
 * two changes late finds bytes that do not fit the checksum, and reads the superblock again.
 *
 * Pure functions over bytes, for any thread. `error` may be NULL.
 */
#ifndef KW_TABLE_HISTORY_H
#define KW_TABLE_HISTORY_H

#include "base/error.h"
#include "table/layout.h"

#include <stdbool.h>
#include <stdint.h>

#define KW_HISTORY_MAGIC UINT32_C(0x31574b48) /* "HKW1" */
#define KW_HISTORY_ID 40                      /* hexadecimal digits of a replication id */
#define KW_PROXY_NAME_MAX 63

/* What is known of a history. */
enum kw_history_standing {
	KW_HISTORY_NONE,    /* nothing: the proxy is one of before, and publishes none */
	KW_HISTORY_AWAITED, /* the proxy has not asked its primary yet */
	KW_HISTORY_TOLD,    /* the primary told its id */
	KW_HISTORY_UNTOLD,  /* the primary tells no id; only the proxy's identity is known */
};

/*
 * Is the server that the proxy follows the primary? Only while it is CONFIRMED can source_state be
 * live; with NONE nobody is asked, and the state can be live as well.
 */
enum kw_mandate_state {
	KW_MANDATE_NONE,      /* nobody is asked (authority.by=none, or a proxy of before) */
	KW_MANDATE_AWAITED,   /* asked, and nobody has confirmed this server yet */
	KW_MANDATE_CONFIRMED, /* confirmed: `term` is its term */
	KW_MANDATE_LOST,      /* no majority confirms it any more */
	KW_MANDATE_ELSEWHERE, /* another server is the primary */
};

/* What does it mean that a set of function libraries is empty? */
enum kw_functions_origin {
	KW_FUNCTIONS_FOUND, /* the server was found so: it can have lost them */
	KW_FUNCTIONS_TOLD,  /* a command took the last of them, or said that there are none */
};

/* A set of function libraries in the memory file. All of it is 0: the table carries none. */
struct kw_history_functions {
	uint64_t version; /* counts the sets of this epoch */
	uint64_t offset;
	uint32_t bytes;    /* 1 to KW_FUNCTIONS_BYTES */
	uint32_t checksum; /* CRC32C of the bytes */
	enum kw_functions_origin origin;
};

/* What the primary is, for those who answer in its place. No reader judges by it whose data these
 * are. */
struct kw_history_server {
	uint8_t fork; /* 1 Redis, 2 Valkey; 0: not known (a proxy of before) */
	uint8_t major, minor, patch;
	uint32_t databases; /* how many it has; 0: not known */
};

struct kw_history {
	enum kw_history_standing standing;
	char replid[KW_HISTORY_ID + 1];  /* TOLD: the id; otherwise "" */
	char replid2[KW_HISTORY_ID + 1]; /* the id of before a promotion; "": there is none */
	uint64_t second_offset;          /* up to this offset both are one; 0: no second id */
	uint64_t proxy;                  /* identity of the proxy, a hash of its name; 0: unknown */
	char proxy_name[KW_PROXY_NAME_MAX + 1];
	struct kw_history_server server;
	enum kw_mandate_state mandate;
	uint64_t term;         /* of the last confirmation; with mandate NONE 0, and it can be 0 */
	uint64_t term_version; /* version of the table when this term began */
	uint64_t domain;       /* who confirms: kw_mandate_domain; 0 only with mandate NONE */
	uint16_t lease_ms; /* how old a confirmation can be when the proxy publishes; 0 with NONE */
	struct {
		uint64_t version; /* of the table: all up to it was in the server's data … */
		uint64_t offset;  /* … before this replication offset; 0: not known */
	} looked;                 /* at the server, about each second */
	struct kw_history_functions functions;
};

/* As it lies in the memory file. */
struct kw_history_record {
	uint32_t magic;
	uint32_t checksum;  /* CRC32C of all that follows, never 0: see kw_history_seal */
	uint32_t standing;  /* enum kw_history_standing */
	uint32_t databases; /* of the primary; 0: not known */
	uint64_t second_offset;
	uint64_t proxy;
	uint64_t term;
	char replid[KW_HISTORY_ID];
	char replid2[KW_HISTORY_ID];
	char proxy_name[KW_PROXY_NAME_MAX + 1]; /* ends in zeros */
	uint8_t server[4];                      /* fork, major, minor, patch; zeros: not known */
	uint8_t reserved[4];
	uint64_t term_version; /* this and what follows: zeros in the record of a proxy of before */
	uint64_t domain;
	uint16_t mandate; /* enum kw_mandate_state */
	uint16_t lease_ms;
	uint16_t functions_origin; /* enum kw_functions_origin; belongs to the last four */
	uint8_t reserved2[2];
	uint64_t looked_version; /* this and what follows: zeros, too, in one of before */
	uint64_t looked_offset;
	uint64_t functions_version; /* this and what follows: zeros, too, in one of before */
	uint64_t functions_offset;
	uint32_t functions_bytes;
	uint32_t functions_checksum;
};

static_assert(sizeof(struct kw_history_record) == 256, "");
static_assert(KW_HISTORY_OFFSET + sizeof(struct kw_history_record) <= KW_DIRECTORY_OFFSET, "");

/* One to 63 printable characters of ASCII without spaces. KW_E_CONFIG names what is wrong. */
int kw_proxy_name_check(const char *name, struct kw_error *error);

/* The identity that belongs to a name of any length; never 0. */
uint64_t kw_proxy_identity(const char *name);

/* The bytes of a history, sealed: the superblock that names it has record->checksum. */
void kw_history_record_make(struct kw_history_record *record, const struct kw_history *history);
void kw_history_seal(struct kw_history_record *record);

/*
 * Verify the bytes as the record that a verified superblock names by `checksum`, which is not 0.
 * KW_E_GONE: another one, or torn. KW_E_PROTOCOL: whole, but no proxy writes such a record.
 */
int kw_history_parse(const struct kw_history_record *record, uint32_t checksum,
	struct kw_history *history, struct kw_error *error);

/* Are these the bytes of the set that the history names? If not, they are torn, or of another set.
 */
bool kw_history_functions_hold(const struct kw_history_functions *functions, const void *bytes);

/* Is it the same set, of the same epoch? */
static inline bool kw_history_functions_equal(
	const struct kw_history_functions *a, const struct kw_history_functions *b)
{
	return a->version == b->version && a->bytes == b->bytes && a->checksum == b->checksum &&
	       a->origin == b->origin;
}

/* Whose data: the same history, told by the same proxy; whatever the server and its mandate are. */
bool kw_history_equal(const struct kw_history *a, const struct kw_history *b);

/* … and the same mandate and term: records of the two may lie in one segment, whenever the server
 * was looked at. */
bool kw_history_published_equal(const struct kw_history *a, const struct kw_history *b);

/* The domain of an authority: `kind` is "sentinel" or "operator"; never 0. */
uint64_t kw_mandate_domain(const char *kind, const char *name);

/* "none", "awaited", "confirmed", "lost", "elsewhere". */
const char *kw_mandate_state_name(enum kw_mandate_state state);

/* Does this text name a history? An id of zeros is what servers show for none. */
bool kw_history_is_id(const char *id);

#endif
