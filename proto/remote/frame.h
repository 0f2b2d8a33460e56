/*
 * What travels on a connection after the handshake, if a socket carries it.
 *
 *   agent ──▶ proxy   READ (tcp only), REPORT, SLEEP (shm, if agreed)
 *   proxy ──▶ agent   reply header, then the bytes of the READ (tcp); a wake (shm, if agreed);
 *                     any other status: a farewell
 *
 * Replies come in the order of the requests and are never short: a request that cannot be answered
 * ends the connection. The last reply's status says why, and nothing follows it. So an agent can
 * let the kernel scatter header and bytes of several replies in one call.
 *
 * If both ends agreed on compression (handshake.h), a reply can come in blocks (KW_FRAME_BLOCKS).
 * Each block but the last is of KW_BLOCK_BYTES of the READ:
 *
 *   header │ word, frame of zstd │ word, frame of zstd │ word, plain bytes │ …
 *
 * A word has the bytes that follow it, and KW_BLOCK_ZSTD if these are one frame of zstd. A frame is
 * smaller than the bytes that it stands for, whose number it says. It knows nothing of other
 * blocks.
 *
 * An agent that sleeps has read a publication, and looks no more. The proxy wakes it when it has
 * published anything since but a sign of life: at once, if that is so already. A ticket is a sign
 * of life to an agent whose last REPORT waits for none. One SLEEP is out at a time; a second one
 * before the wake is a violation.
 *
 * Little-endian like the table. Pure; any thread.
 */
#ifndef KW_REMOTE_FRAME_H
#define KW_REMOTE_FRAME_H

#include "base/error.h"
#include "remote/remote.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KW_FRAME_MAGIC UINT32_C(0x3146574b) /* "KWF1" */
#define KW_REPLY_MAGIC UINT32_C(0x3152574b) /* "KWR1" */

#define KW_BLOCK_BYTES                                                                             \
	(UINT32_C(128) << 10) /* of a READ in one block; what zstd has in one, too                 \
			       */
#define KW_BLOCK_ZSTD (UINT32_C(1) << 31)
#define KW_BLOCKS_LEAST 1024 /* a shorter READ is always answered plain */

/*
 * An agent whose WELCOME says that its key reads a part of the table (KW_WIRE_SCOPED) must know
 * which part before it deletes anything. So its first READ is this one, of at most
 * KW_SCOPE_TEXT_MAX bytes: the scope in the words of kw_scope_write, then zeros. No table is so
 * large.
 */
#define KW_FRAME_SCOPE_OFFSET (UINT64_C(1) << 62)

enum kw_frame_op { KW_FRAME_READ = 1, KW_FRAME_REPORT = 2, KW_FRAME_SLEEP = 3 };

struct kw_frame_header {
	uint32_t magic;
	uint16_t op;
	uint16_t bytes; /* of the frame, this header included */
};

struct kw_frame_read {
	struct kw_frame_header header;
	uint64_t id;
	uint64_t offset, length; /* in the memory file */
};

struct kw_frame_report {
	struct kw_frame_header header;
	uint64_t passed, applied;
	uint64_t lag_us; /* all ones: not known */
	uint64_t reads, bytes;
	char state[KW_STATE_BYTES]; /* printable, ends in a zero byte */
	uint16_t ticket; /* wanted; 0: none. Proxies without tickets take it for more of state */
};

struct kw_frame_sleep {
	struct kw_frame_header header;
	uint64_t publication; /* of the superblock that the agent knows */
};

/* Why a connection ended, as the proxy tells it. Numbers are part of the protocol. */
enum kw_frame_status {
	KW_FRAME_OK = 0,
	KW_FRAME_BOUNDS = 1,   /* a READ outside of what may be read */
	KW_FRAME_DEPTH = 2,    /* more READs in flight than negotiated */
	KW_FRAME_BAD = 3,      /* not a valid frame */
	KW_FRAME_REVOKED = 4,  /* agents.disconnect */
	KW_FRAME_SHUTDOWN = 5, /* the proxy stops */
	KW_FRAME_SCOPE = 6,    /* a READ by a key with a scope that was not asked for before */
	KW_FRAME_WAKE = 7,     /* no end: the answer to a SLEEP */
	KW_FRAME_STATUSES,
};

enum kw_frame_encoding {
	KW_FRAME_PLAIN = 0,  /* the bytes follow, as they are */
	KW_FRAME_BLOCKS = 1, /* agreed on only */
	KW_FRAME_ENCODINGS,
};

struct kw_frame_reply {
	uint32_t magic;
	uint16_t status;   /* enum kw_frame_status */
	uint16_t encoding; /* enum kw_frame_encoding; PLAIN in a farewell */
	uint64_t id;       /* of the READ; 0 in a farewell */
	uint64_t length;   /* of the READ; 0 in a farewell */
};

static_assert(sizeof(struct kw_frame_header) == 8, "");
static_assert(sizeof(struct kw_frame_read) == 32, "");
static_assert(sizeof(struct kw_frame_report) == 64, "");
static_assert(sizeof(struct kw_frame_sleep) == 16, "");
static_assert(sizeof(struct kw_frame_reply) == 24, "");

#define KW_FRAME_MAX sizeof(struct kw_frame_report)

/* A frame that was checked. */
struct kw_frame {
	enum kw_frame_op op;
	uint64_t id, offset, length;        /* KW_FRAME_READ; length 1 .. KW_READ_MAX */
	struct kw_remote_progress progress; /* KW_FRAME_REPORT */
	uint64_t publication;               /* KW_FRAME_SLEEP */
};

void kw_frame_encode_read(
	struct kw_frame_read *frame, uint64_t id, uint64_t offset, uint64_t length);
void kw_frame_encode_report(
	struct kw_frame_report *frame, const struct kw_remote_progress *progress);
void kw_frame_encode_sleep(struct kw_frame_sleep *frame, uint64_t publication);
void kw_frame_encode_reply(
	struct kw_frame_reply *reply, enum kw_frame_status status, uint64_t id, uint64_t length);

/*
 * Take one frame from the front of `length` bytes (any alignment). *taken is 0 while it is not
 * complete. KW_E_PROTOCOL: bytes that are no frame; nothing after them can be trusted.
 */
int kw_frame_take(const uint8_t *bytes, size_t length, size_t *taken, struct kw_frame *frame,
	struct kw_error *error);

/* The reply that must come now. Zeros: none, so that only a farewell can. */
struct kw_frame_due {
	uint64_t id, length; /* of the READ */
	bool blocks;         /* it may come in blocks, if it is not too short for them */
};

/*
 * Check a reply against the READ it must answer: 0, or KW_E_PROTOCOL; a farewell is KW_E_REFUSED
 * (or KW_E_GONE when the proxy stops) with its sentence.
 */
int kw_frame_check_reply(
	const struct kw_frame_reply *reply, const struct kw_frame_due *due, struct kw_error *error);

/* Is it a wake, whole and nothing else? Only an agent that sleeps may take it for one. */
bool kw_frame_is_wake(const struct kw_frame_reply *reply);

/* What a status means, said about the agent; "" for KW_FRAME_OK. */
const char *kw_frame_status_text(enum kw_frame_status status);

#endif
