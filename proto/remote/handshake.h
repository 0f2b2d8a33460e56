/*
 * The handshake, common to all carriers: a pure machine over bytes, for both ends.
 *
 *   agent                                   proxy
 *     HELLO      layout, name, nonce  ───────▶
 *          ◀───────  CHALLENGE  layout, nonce       or REFUSE
 *     PROOF      HMAC                 ───────▶
 *          ◀───────  WELCOME  HMAC, epoch, extent 0  or REFUSE
 *
 * Both prove that they hold the secret, by an HMAC-SHA256 under it. It covers a label that names
 * the direction, then HELLO and CHALLENGE whole: both nonces, the name, both layout versions and
 * what either said about secrets. The proxy's covers the facts of its WELCOME too. Fresh nonces
 * make a replay worthless; the labels make a reflected proof worthless; a changed byte fails one of
 * the two. Without a secret the proofs are zero and nothing is proved. What follows on the
 * connection is not protected by this: on a network that is not trusted, use a tunnel.
 *
 * HELLO's first field after the header, and REFUSE as a whole, never change: by them, two different
 * layout versions tell each other so.
 *
 * Messages are little-endian, at most KW_HANDSHAKE_MESSAGE_MAX bytes each (one SEND of rdma). The
 * machine does no I/O, knows no clock, and is handed its nonce. Any thread, one at a time.
 */
#ifndef KW_REMOTE_HANDSHAKE_H
#define KW_REMOTE_HANDSHAKE_H

#include "auth/channel.h"
#include "auth/identity.h"
#include "base/error.h"
#include "base/slice.h"
#include "base/sm.h"
#include "remote/remote.h"
#include "table/layout.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KW_HANDSHAKE_MAGIC UINT32_C(0x3148574b) /* "KWH1" */
#define KW_HANDSHAKE_MESSAGE_MAX 256
#define KW_NONCE_BYTES 32
#define KW_PROOF_BYTES 32

enum kw_handshake_type {
	KW_HELLO = 1,
	KW_CHALLENGE = 2,
	KW_PROOF = 3,
	KW_WELCOME = 4,
	KW_REFUSE = 5,
};

struct kw_handshake_header {
	uint32_t magic;
	uint16_t type;   /* enum kw_handshake_type */
	uint16_t length; /* of the message, this header included */
};

struct kw_hello {
	struct kw_handshake_header header;
	uint16_t layout_version;
	uint8_t secret; /* 1: the agent has one and will prove it */
	uint8_t name_length;
	uint32_t depth; /* READs in flight wanted */
	uint8_t nonce[KW_NONCE_BYTES];
	char name[KW_AGENT_NAME_MAX]; /* zero bytes after name_length */
};

struct kw_challenge {
	struct kw_handshake_header header;
	uint16_t layout_version;
	uint8_t secret; /* 1: the proxy has one and will prove it */
	uint8_t reserved[5];
	uint8_t nonce[KW_NONCE_BYTES];
};

struct kw_proof {
	struct kw_handshake_header header;
	uint8_t proof[KW_PROOF_BYTES];
};

struct kw_welcome {
	struct kw_handshake_header header;
	uint8_t proof[KW_PROOF_BYTES];
	uint64_t epoch;
	uint32_t depth;
	uint32_t reserved;
	struct kw_extent extent; /* extent 0: the superblock is in it */
};

struct kw_refuse {
	struct kw_handshake_header header;
	uint16_t reason;         /* enum kw_refusal */
	uint16_t layout_version; /* the proxy's */
	uint32_t limit;          /* of sessions: how many there may be; else 0 */
};

static_assert(sizeof(struct kw_handshake_header) == 8, "");
static_assert(sizeof(struct kw_hello) == 112, "");
static_assert(sizeof(struct kw_challenge) == 48, "");
static_assert(sizeof(struct kw_proof) == 40, "");
static_assert(sizeof(struct kw_welcome) == 88, "");
static_assert(sizeof(struct kw_refuse) == 16, "");

/* Why the proxy says no. Numbers are part of the protocol. */
enum kw_refusal {
	KW_REFUSE_LAYOUT = 1,          /* another layout version */
	KW_REFUSE_SECRET_UNKNOWN = 2,  /* the agent's proof does not hold */
	KW_REFUSE_SECRET_REQUIRED = 3, /* the agent has none */
	KW_REFUSE_NAME = 4,            /* not 1 to KW_AGENT_NAME_MAX printable ASCII characters */
	KW_REFUSE_SESSIONS = 5,        /* as many sessions as there may be */
	KW_REFUSE_SHUTDOWN = 6,        /* the proxy stops */
	KW_REFUSE_PROTOCOL = 7,        /* the agent sent no valid handshake */
	KW_REFUSE_PEER = 10,           /* its user needs a secret, and it gave none */
	KW_REFUSE_NAME_LIMIT = 11,     /* as many sessions of its name as there may be */
	KW_REFUSE_PEER_LIMIT = 12,     /* as many sessions of its host, or user */
};

/*
 *   agent                                         proxy
 *   ┌────────────────┐ CHALLENGE ┌──────────────┐   ┌────────────┐ HELLO ┌────────────┐
 *   │ CHALLENGE_WAIT │──────────▶│ WELCOME_WAIT │   │ HELLO_WAIT │──────▶│ PROOF_WAIT │
 *   └────────────────┘           └──────────────┘   └────────────┘       └────────────┘
 *                                  │ WELCOME                               │ PROOF
 *                                  ▼               kw_handshake_welcome    ▼
 *                               ┌──────┐◀──────────────────────────── ┌────────┐
 *                               │ DONE │                              │ PROVED │
 *                               └──────┘                              └────────┘
 *   every state but DONE ──REFUSE, kw_handshake_refuse, anything else──▶ FAILED
 */
enum kw_handshake_state {
	KW_HANDSHAKE_CHALLENGE_WAIT,
	KW_HANDSHAKE_WELCOME_WAIT,
	KW_HANDSHAKE_HELLO_WAIT,
	KW_HANDSHAKE_PROOF_WAIT,
	KW_HANDSHAKE_PROVED, /* the owner decides: kw_handshake_welcome or kw_handshake_refuse */
	KW_HANDSHAKE_DONE,
	KW_HANDSHAKE_FAILED, /* `error` says why; output can still hold a REFUSE to send */
};

struct kw_handshake_options {
	struct kw_slice secret; /* empty: none; must outlive the handshake */
	const char *name;       /* the agent's; NULL at the proxy */
	const char *key_id;     /* the agent's; NULL or "": the unnamed key */
	enum kw_role role;      /* the agent's */
	uint16_t layout_version;
	uint32_t depth;       /* wanted */
	const uint8_t *nonce; /* KW_NONCE_BYTES fresh random bytes */
};

/* What the proxy tells with its WELCOME. */
struct kw_handshake_facts {
	uint64_t epoch;
	uint32_t depth; /* granted */
	struct kw_extent extent;
};

struct kw_handshake {
	struct kw_sm sm;
	struct kw_slice secret;
	uint16_t layout_version;
	char name[KW_AGENT_NAME_MAX + 1]; /* the agent's; at the proxy "" until HELLO */
	struct kw_channel channel;        /* as this end sees the connection */
	struct kw_identity identity;      /* at the proxy: from PROVED on */
	uint32_t depth;                   /* wanted by the agent */
	struct kw_hello hello;            /* as sent or received: part of what is proved */
	struct kw_challenge challenge;
	struct kw_handshake_facts facts; /* DONE */
	struct kw_error error;           /* FAILED */
	uint8_t input[KW_HANDSHAKE_MESSAGE_MAX];
	size_t input_length;
	uint8_t output[KW_HANDSHAKE_MESSAGE_MAX];
	size_t output_length, output_sent;
};

/* Random bytes for a nonce, by getrandom(2). */
int kw_handshake_nonce(uint8_t nonce[KW_NONCE_BYTES], struct kw_error *error);

/* Is it 1 to KW_AGENT_NAME_MAX printable ASCII characters? */
bool kw_agent_name_valid(const char *name);

/* Begin as agent (output holds HELLO then; the name must be valid) or as proxy. */
void kw_handshake_init_agent(
	struct kw_handshake *handshake, const struct kw_handshake_options *options);
void kw_handshake_init_proxy(
	struct kw_handshake *handshake, const struct kw_handshake_options *options);

/* As proxy, before the first input: the connection, seen from this end. */
void kw_handshake_set_channel(struct kw_handshake *handshake, const struct kw_channel *channel);

/*
 * How many bytes to read next; 0 while none are expected. Reading exactly these leaves no
 * remainder.
 */
size_t kw_handshake_wants(const struct kw_handshake *handshake);

/*
 * Bytes came. 0, or the code of handshake->error: KW_E_PROTOCOL bytes that are no handshake;
 * KW_E_REFUSED the proxy refused (at the agent), or we did (at the proxy). After an error the
 * machine is FAILED; what it still has to send is in its output.
 */
int kw_handshake_input(struct kw_handshake *handshake, const void *bytes, size_t length);

/* Bytes to send, and how many of them were. */
struct kw_slice kw_handshake_output(const struct kw_handshake *handshake);
void kw_handshake_sent(struct kw_handshake *handshake, size_t length);

/* PROVED: let it in (DONE; the output holds WELCOME), or not (FAILED; the output holds REFUSE). */
void kw_handshake_welcome(struct kw_handshake *handshake, const struct kw_handshake_facts *facts);

/* As proxy in any state but DONE and FAILED. limit: as in struct kw_refuse. */
int kw_handshake_refuse(struct kw_handshake *handshake, enum kw_refusal reason, uint32_t limit);

static inline bool kw_handshake_is(
	const struct kw_handshake *handshake, enum kw_handshake_state state)
{
	return handshake->sm.state == (int)state;
}

#endif
