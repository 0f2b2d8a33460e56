/*
 * How a reader of the replication stream attaches to a primary: the handshake, on a connection that
 * is logged in already.
 *
 *                PING            REPLCONF capa …      REPLCONF rdb-filter-only …      PSYNC
 *   ┌──────────┐ +PONG ┌────────┐      +OK      ┌───────────┐ +OK, or refused ┌────────┐
 *   │ GREETING │──────▶│ ABLE   │──────────────▶│ FILTERING │────────────────▶│ ASKING │
 *   └──────────┘       └────────┘               └───────────┘                 └───┬────┘
 *                                                        +CONTINUE                │
 *                      ┌───────────┐◀─────────────────────────────────────────────┤
 *                      │ FOLLOWING │                                              │ +FULLRESYNC
 *                      └───────────┘◀─ the end ─┌─────────┐◀─ $… ─┌────────────┐◀─┘
 *                                               │ PAYLOAD │       │ ANNOUNCING │
 *                                               └─────────┘       └────────────┘
 *   From any of them FAILED, with a code and a sentence.
 *
 * *Partial*: with the replication id and the offset of INFO, or those at which a connection broke,
 * a primary goes on from its backlog. No process is forked.
 *
 * *Full*: the primary forks, and sends an RDB first. It is told to leave all keys out
 * (rdb-filter-only, Redis 7.0 and later, Valkey), so the RDB has some 200 bytes. A server that does
 * not know the filter would send all of its data: then a full synchronisation is a failure. After a
 * payload of unknown length the primary sends nothing before a REPLCONF ACK, and an ACK that comes
 * before it has noticed the end of its child is forgotten (replicationCron, putSlaveOnline in
 * replication.c). So the ACK is repeated until the first byte comes.
 *
 * ACKs say offset 0: this reader is no replica that a WAIT may count.
 *
 * Pure: bytes in, bytes into `output`, times are handed in. One thread.
 */
#ifndef KW_PROXY_STREAM_ATTACH_H
#define KW_PROXY_STREAM_ATTACH_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/sm.h"

#include <stdbool.h>
#include <stdint.h>

#define KW_REPL_ID_LENGTH 40
#define KW_REPL_LINE_BYTES 1024 /* the longest answer to a command of the handshake */
#define KW_REPL_MARK_BYTES 40   /* ends a payload of unknown length */

enum kw_repl_attach_state {
	KW_ATTACH_GREETING,
	KW_ATTACH_ABLE,
	KW_ATTACH_FILTERING,
	KW_ATTACH_ASKING,
	KW_ATTACH_ANNOUNCING,
	KW_ATTACH_PAYLOAD,
	KW_ATTACH_FOLLOWING,
	KW_ATTACH_FAILED,
};

struct kw_repl_attach_options {
	/* Where to go on: the id of the data, and the offset of the last byte. An empty id: anew.
	 */
	char id[KW_REPL_ID_LENGTH + 1];
	uint64_t offset;
	bool functions;      /* the payload of a full synchronisation has the function libraries */
	size_t payload_most; /* a payload of more bytes is a failure */
};

struct kw_repl_attach {
	struct kw_repl_attach_options options;
	struct kw_sm sm;
	struct kw_buffer output;  /* for the owner to send, and to consume */
	struct kw_buffer payload; /* the RDB of a full synchronisation, whole in FOLLOWING */
	struct kw_buffer line;    /* of an answer that is not whole */
	bool filtered;            /* the server leaves the keys out */
	/* From FOLLOWING on: */
	bool full;                      /* there was a gap: all keys must be compared */
	char id[KW_REPL_ID_LENGTH + 1]; /* of the data now */
	uint64_t offset;                /* of the last byte before the stream */

	bool marked;   /* PAYLOAD: it ends with `mark`; else: */
	uint64_t left; /* PAYLOAD: so many bytes of it are to come */
	uint8_t mark[KW_REPL_MARK_BYTES];
	bool heard;           /* FOLLOWING: a byte of the stream came */
	uint64_t ack_us;      /* FOLLOWING after a full one: the next ACK */
	uint64_t ack_wait_us; /* … and how long after it the next but one */
};

/* `output` has the first command. */
void kw_repl_attach_init(
	struct kw_repl_attach *attach, const struct kw_repl_attach_options *options);
void kw_repl_attach_close(struct kw_repl_attach *attach);

/*
 * Bytes came. *used of them belong to the handshake; in FOLLOWING those after them are the stream.
 * Bytes that are not used must be given again, unless it failed.
 *
 * KW_E_STATE: not now, and the same may succeed later (it loads, or is a replica without its
 * primary) KW_E_REFUSED: not permitted, or only as a full synchronisation with all data KW_E_FULL:
 * the payload is larger than payload_most KW_E_PROTOCOL: bytes that no server sends The sentence
 * names the remedy. Every later call fails with KW_E_STATE.
 */
int kw_repl_attach_feed(struct kw_repl_attach *attach, const void *bytes, size_t length,
	size_t *used, struct kw_error *error);

static inline enum kw_repl_attach_state kw_repl_attach_state(const struct kw_repl_attach *attach)
{
	return (enum kw_repl_attach_state)attach->sm.state;
}

/* FOLLOWING: the first byte of the stream came, so ACKs need not be repeated any more. */
void kw_repl_attach_heard(struct kw_repl_attach *attach);

/* When kw_repl_attach_turn has something to do; UINT64_MAX: never. */
uint64_t kw_repl_attach_due_us(const struct kw_repl_attach *attach);
void kw_repl_attach_turn(struct kw_repl_attach *attach, uint64_t now_us);

/* The answer to REPLCONF GETACK. */
void kw_repl_attach_ack(struct kw_repl_attach *attach);

#endif
