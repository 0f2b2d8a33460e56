/*
 * One connection over TLS: the handshake, and bytes in and out, on a socket that the caller owns,
 * polls and closes. Nothing blocks.
 *
 *    ┌───────────┐ first step ┌─────────┐ finished, peer verified ┌──────┐ read: its end ┌───────┐
 *    │ CONNECTED │───────────▶│ SHAKING │────────────────────────▶│ OPEN │──────────────▶│ ENDED │
 *    └───────────┘            └─────────┘                         └──────┘               └───────┘
 *                                  └─ alert, verification, end ─▶ FAILED ◀─ alert, reset ─┘ (OPEN)
 *
 * Reading tells what became of a connection. A write that fails leaves it OPEN, because the reason
 * can still be in what the peer sent. In TLS 1.3 a server refuses our certificate when our
 * handshake is already finished: the alert comes with the first read.
 *
 * After AGAIN the caller polls the socket for what the channel wants. That can be the other
 * direction: a handshake reads and writes. The socket may be ready at once: a call takes a bounded
 * number of records that bring the caller no byte, so that no peer can keep it.
 *
 * One thread at a time. It may move to another thread between two calls.
 */
#ifndef KW_TLS_CHANNEL_H
#define KW_TLS_CHANNEL_H

#include "tls/context.h"

#include <stddef.h>

/* What one record holds, and one write takes. */
#define KW_TLS_RECORD_BYTES 16384

enum kw_tls_state {
	KW_TLS_CONNECTED,
	KW_TLS_SHAKING,
	KW_TLS_OPEN,
	KW_TLS_ENDED,
	KW_TLS_FAILED,
};

enum kw_tls_result {
	KW_TLS_MORE,  /* done as asked; ask again at once */
	KW_TLS_DONE,  /* done, and no more for now */
	KW_TLS_AGAIN, /* nothing was done: wait for the socket */
	KW_TLS_END,   /* read: the peer sent its last byte */
	KW_TLS_FAIL,  /* *error has the sentence */
};

enum kw_tls_wants {
	KW_TLS_WANTS_NOTHING,
	KW_TLS_WANTS_READ,  /* the socket must become readable */
	KW_TLS_WANTS_WRITE, /* the socket must become writable */
};

struct kw_tls_channel;
struct kw_tls_session;

/*
 * Of a connected, non-blocking stream socket. host: client: the name or number that was dialled,
 * "" for none; the certificate must have it unless the context has a server_name. A server passes
 * NULL. resume: client: a session of an earlier channel, NULL for none; it stays the caller's. It
 * is of no use once the certificate of either end has run out. NULL: KW_E_NOMEM, or KW_E_ARGUMENT
 * if neither has a name to verify.
 */
struct kw_tls_channel *kw_tls_channel_new(struct kw_tls_context *context, int fd, const char *host,
	const struct kw_tls_session *resume, struct kw_error *error);

/* Sends nothing, and leaves the socket open. NULL is accepted. */
void kw_tls_channel_free(struct kw_tls_channel *channel);

/* Go on with the handshake. DONE: it is OPEN. AGAIN: see the wants. FAIL: it is FAILED. */
enum kw_tls_result kw_tls_channel_shake(struct kw_tls_channel *channel, struct kw_error *error);

/*
 * OPEN, ENDED or FAILED. Up to room bytes, as many as have come. MORE: all of the room is filled,
 * or the next call tells the end. *got is 0 unless MORE or DONE.
 */
enum kw_tls_result kw_tls_channel_read(
	struct kw_tls_channel *channel, void *to, size_t room, size_t *got, struct kw_error *error);

/*
 * One record of at most KW_TLS_RECORD_BYTES. MORE: *put bytes were taken. AGAIN: none was, and the
 * next call must begin with the same bytes and be as long at least. It takes these, and no more.
 * Their content may have changed meanwhile: they were encrypted already. So what was not taken was
 * not sent whole, and the peer cannot read it. If the kernel encrypts, only what was taken was
 * encrypted. In either case the memory is free between two calls. FAIL: read, to learn why.
 */
enum kw_tls_result kw_tls_channel_write(struct kw_tls_channel *channel, const void *from,
	size_t length, size_t *put, struct kw_error *error);

/* That it was made of. Held by the channel. */
struct kw_tls_context *kw_tls_channel_context(const struct kw_tls_channel *channel);

/* Would a read find something that no poll of the socket shows? */
bool kw_tls_channel_pending(const struct kw_tls_channel *channel);

/* What the last read (or handshake), and the last write wait for. */
enum kw_tls_wants kw_tls_channel_read_wants(const struct kw_tls_channel *channel);
enum kw_tls_wants kw_tls_channel_write_wants(const struct kw_tls_channel *channel);

/* Tell the peer that no more comes: once, without waiting. Of an OPEN channel; else nothing. */
void kw_tls_channel_farewell(struct kw_tls_channel *channel);

enum kw_tls_state kw_tls_channel_state(const struct kw_tls_channel *channel);

/*
 * The handshake's time is over, in CONNECTED or SHAKING: the sentence for that (KW_E_TIMEOUT),
 * which differs if not one byte has come. Returns its code.
 */
int kw_tls_channel_late(const struct kw_tls_channel *channel, struct kw_error *error);

/* OPEN: "TLSv1.3 TLS_AES_256_GCM_SHA384"; valid as long as the channel. */
const char *kw_tls_channel_cipher(struct kw_tls_channel *channel);
bool kw_tls_channel_resumed(const struct kw_tls_channel *channel);

/* OPEN: does the kernel encrypt what is written to the socket? Then plain bytes are written. */
bool kw_tls_channel_kernel_sends(const struct kw_tls_channel *channel);

/*
 * OPEN: bytes that the two ends of this session have, and nobody else (RFC 5705). KW_E_REFUSED: a
 * session of TLS 1.2 whose secret does not cover its handshake (RFC 7627): upgrade OpenSSL there.
 */
int kw_tls_channel_export(struct kw_tls_channel *channel, const char *label, void *bytes,
	size_t length, struct kw_error *error);

/* Which field of a certificate names its owner. */
enum kw_tls_identity {
	KW_TLS_IDENTITY_AUTO, /* as SAN; if there is none, the CN */
	KW_TLS_IDENTITY_SAN,  /* the URI keywake:ID, else the first DNS name */
	KW_TLS_IDENTITY_CN,
};

#define KW_TLS_ID_MAX 63

/*
 * OPEN, of a peer that showed a certificate: who it is. KW_E_REFUSED: it showed none, or the field
 * is not there, longer than KW_TLS_ID_MAX, or has other bytes than [A-Za-z0-9._*@-]; the sentence
 * says which. *id is "" then.
 */
int kw_tls_channel_peer_id(const struct kw_tls_channel *channel, enum kw_tls_identity identity,
	char id[KW_TLS_ID_MAX + 1], struct kw_error *error);

struct kw_tls_peer;

/*
 * OPEN: the certificate that the peer showed, to be judged again later; NULL: it showed none. The
 * caller's. Those between it and its CA are known, too: with such no session is resumed.
 */
struct kw_tls_peer *kw_tls_channel_peer(const struct kw_tls_channel *channel);
void kw_tls_peer_free(struct kw_tls_peer *peer); /* NULL is accepted */

/* Would a server with this context let it in today? KW_E_REFUSED: the sentence says why not. */
int kw_tls_peer_judge(const struct kw_tls_peer *peer, const struct kw_tls_context *context,
	struct kw_error *error);

/*
 * Client: the newest session with which the next connection can skip the certificates; NULL: none
 * came (in TLS 1.3 they come with the first reads). The caller's from now on.
 */
struct kw_tls_session *kw_tls_channel_take_session(struct kw_tls_channel *channel);
void kw_tls_session_free(struct kw_tls_session *session); /* NULL is accepted */

#endif
