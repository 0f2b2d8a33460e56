/*
 * The handshake, common to all carriers: a pure machine over bytes, for both ends.
 *
 *   agent                                             proxy
 *     HELLO      version, name, key id, channel, nonce ───▶
 *          ◀───────  CHALLENGE  version, nonce               or REFUSE
 *     PROOF      HMAC                              ───────▶
 *          ◀───────  WELCOME  HMAC, epoch, extent 0, memory  or REFUSE
 *
 * Both prove that they hold the same key, by an HMAC-SHA256 under it. It covers a label that names
 * the direction, then HELLO and CHALLENGE whole: both nonces, the name, the role, the versions, the
 * channel, and what either said about keys. The proxy's covers the facts of its WELCOME, too. Fresh
 * nonces make a replay worthless; the labels make a reflected proof worthless; a changed byte fails
 * one of the two.
 *
 * The channel (auth/channel.h) makes a relay worthless: the agent says in HELLO to which socket
 * file, address or queue pair it is connected, and the proxy compares that with its own end. Over
 * shm, WELCOME names the memory file, so that no other file can be passed in its place.
 *
 * Over TLS the channel is a value that only the two ends of one TLS session have. If the agent
 * showed a certificate there, that is proof enough of who it is, and a key can be left out. If it
 * proves a key, too, both must name the same (auth/identity.h).
 *
 * Without a key the proofs are zero and nothing is proved. Then of the channel only the carrier,
 * the socket file and the TLS session are compared: an address that nothing proves is not worth a
 * refusal behind a NAT. What follows on the connection is not protected by this: on a network that
 * is not trusted, use a tunnel, and name its address in auth.addresses.
 *
 * HELLO's first field after the header, and REFUSE as a whole, never change: by them, two different
 * versions tell each other so. Version 0.1 had the table's layout there, which was 2.
 *
 * Messages are little-endian, at most KW_HANDSHAKE_MESSAGE_MAX bytes each (one SEND of rdma). The
 * machine does no I/O, knows no clock, and is handed its nonce. Any thread, one at a time.
 */
#ifndef KW_REMOTE_HANDSHAKE_H
#define KW_REMOTE_HANDSHAKE_H

#include "auth/channel.h"
#include "auth/identity.h"
#include "auth/keyring.h"
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
/* Programs of two numbers refuse each other. Tests build programs with another one. */
#ifndef KW_WIRE_VERSION
#define KW_WIRE_VERSION 3
#endif
#define KW_WIRE_VERSION_0_1 2 /* what version 0.1 says; its handshake binds no channel */
#define KW_HANDSHAKE_MESSAGE_MAX 256
#define KW_NONCE_BYTES 32
#define KW_PROOF_BYTES 32

#define KW_WIRE_PROVES 1 /* HELLO, CHALLENGE: the sender has a key and will prove it */
#define KW_WIRE_SCOPED 1 /* WELCOME: the agent's key may read a part of the table only */

/*
 * HELLO, in depth: the agent wishes that answers be compressed. Earlier proxies refuse a HELLO with
 * anything in its reserved bytes. But they grant their own limit to whatever depth is beyond it, so
 * they let this pass, and say nothing. A proxy that knows the wish answers in WELCOME's flags,
 * which only an agent that had it may find there: enum kw_compression.
 */
#define KW_WIRE_COMPRESS (UINT32_C(1) << 31)
#define KW_WIRE_COMPRESSION_SHIFT 8
#define KW_WIRE_COMPRESSION_MASK (UINT32_C(0xff) << KW_WIRE_COMPRESSION_SHIFT)

/*
 * In the same way: the agent would sleep until the proxy wakes it (KW_FRAME_SLEEP), and the proxy
 * does so. Only over shm.
 */
#define KW_WIRE_SLEEPS (UINT32_C(1) << 30) /* HELLO, in depth */
#define KW_WIRE_WAKES 2                    /* WELCOME */

#define KW_WIRE_WISHES (KW_WIRE_COMPRESS | KW_WIRE_SLEEPS)

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
	uint16_t version; /* KW_WIRE_VERSION */
	uint16_t layout_version;
	uint8_t flags; /* KW_WIRE_PROVES */
	uint8_t role;  /* enum kw_role */
	uint8_t name_length;
	uint8_t key_id_length; /* 0: the unnamed key, or none */
	uint32_t depth;        /* READs in flight wanted, and KW_WIRE_WISHES */
	uint8_t carrier;       /* enum kw_channel_kind */
	uint8_t reserved[3];
	uint8_t nonce[KW_NONCE_BYTES];
	char name[KW_AGENT_NAME_MAX]; /* zero bytes after name_length */
	char key_id[KW_KEY_ID_MAX];   /* zero bytes after key_id_length */
	uint8_t channel[KW_CHANNEL_BYTES];
};

struct kw_challenge {
	struct kw_handshake_header header;
	uint16_t version;
	uint16_t layout_version;
	uint8_t flags; /* KW_WIRE_PROVES */
	uint8_t reserved[3];
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
	uint32_t flags;          /* KW_WIRE_SCOPED, KW_WIRE_WAKES, KW_WIRE_COMPRESSION_… */
	struct kw_extent extent; /* extent 0: the superblock is in it */
	uint64_t memory_device, memory_inode; /* of the memory file (shm); else 0 */
	uint64_t session;
};

/* In every version the same. */
struct kw_refuse {
	struct kw_handshake_header header;
	uint16_t reason;  /* enum kw_refusal */
	uint16_t version; /* the proxy's */
	/*
	 * Of sessions: how many there may be. KW_REFUSE_TABLE: the table's layout version.
	 * KW_REFUSE_PEER: the uid that the proxy sees. Else 0.
	 */
	uint32_t limit;
};

static_assert(sizeof(struct kw_handshake_header) == 8, "");
static_assert(sizeof(struct kw_hello) == 192, "");
static_assert(offsetof(struct kw_hello, version) == 8, "for ever");
static_assert(offsetof(struct kw_hello, nonce) == 24, "");
static_assert(offsetof(struct kw_hello, key_id) == 120, "");
static_assert(offsetof(struct kw_hello, channel) == 152, "");
static_assert(sizeof(struct kw_challenge) == 48, "");
static_assert(offsetof(struct kw_challenge, nonce) == 16, "");
static_assert(sizeof(struct kw_proof) == 40, "");
static_assert(sizeof(struct kw_welcome) == 112, "");
static_assert(offsetof(struct kw_welcome, extent) == 56, "");
static_assert(offsetof(struct kw_welcome, session) == 104, "");
static_assert(sizeof(struct kw_refuse) == 16, "for ever");

/* Why the proxy says no. Numbers are part of the protocol. */
enum kw_refusal {
	KW_REFUSE_VERSION = 1, /* another version of the handshake */
	KW_REFUSE_SECRET_UNKNOWN =
		2, /* the agent's proof does not hold, or nobody has its key id */
	KW_REFUSE_SECRET_REQUIRED = 3, /* the agent has none */
	KW_REFUSE_NAME = 4,            /* not 1 to KW_AGENT_NAME_MAX printable ASCII characters */
	KW_REFUSE_SESSIONS = 5,        /* as many sessions as there may be */
	KW_REFUSE_SHUTDOWN = 6,        /* the proxy stops */
	KW_REFUSE_PROTOCOL = 7,        /* the agent sent no valid handshake */
	KW_REFUSE_CHANNEL = 8,         /* what the agent dialled is not what arrived: a relay */
	KW_REFUSE_SCOPE = 9,           /* its key is limited in a way the carrier cannot enforce */
	KW_REFUSE_PEER = 10,           /* its user is not listed, and it gave no secret (shm) */
	KW_REFUSE_NAME_LIMIT = 11,     /* as many sessions of its name as there may be */
	KW_REFUSE_PEER_LIMIT = 12,     /* as many sessions of its host or user */
	KW_REFUSE_KEY_LIMIT = 13,      /* as many sessions of its key */
	KW_REFUSE_TABLE = 14,          /* another layout version of the table */
	KW_REFUSE_RULES = 15,          /* its key does not allow this carrier, or this role */
	KW_REFUSE_PRINCIPAL = 16,      /* its certificate and its key name two */
	KW_REFUSE_REVOKED = 17,        /* whom its certificate names is revoked */
};

/* As limit of KW_REFUSE_PEER: no uid, because it belongs to another user namespace. */
#define KW_REFUSE_PEER_UNSEEN UINT32_MAX

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
	uint16_t layout_version;
	const uint8_t *nonce; /* KW_NONCE_BYTES fresh random bytes */
	/* The agent's: */
	struct kw_slice secret; /* of key_id; empty: none. Outlives this */
	const char *name;
	const char *key_id; /* NULL or "": the unnamed key */
	enum kw_role role;
	uint32_t depth;                   /* wanted */
	bool compress;                    /* wished */
	bool sleeps;                      /* wished */
	const struct kw_channel *channel; /* as this end sees the connection */
	/*
	 * The proxy's; all outlive this. keyring: where its ring is. The ring of each moment
	 * counts, so that a key that is withdrawn is proved no more by handshakes under way. It has
	 * keys always or never. NULL: never.
	 */
	struct kw_keyring *const *keyring;
	const struct kw_endpoints *addresses; /* its further ones; NULL: none */
};

/* What the proxy tells with its WELCOME. */
struct kw_handshake_facts {
	uint64_t epoch;
	uint32_t depth;                  /* granted */
	bool scoped;                     /* the agent's key may read a part of the table only */
	enum kw_compression compression; /* UNTOLD if it was not wished for */
	bool wakes;                      /* an agent that sleeps; false if it was not wished for */
	struct kw_extent extent;
	uint64_t memory_device, memory_inode; /* shm: of the memory file that comes with it */
	uint64_t session;                     /* its number at the proxy */
};

struct kw_handshake {
	struct kw_sm sm;
	struct kw_slice secret;               /* the agent's */
	struct kw_keyring *const *keyring;    /* the proxy's */
	const struct kw_endpoints *addresses; /* the proxy's */
	uint16_t layout_version;
	char name[KW_AGENT_NAME_MAX + 1]; /* the agent's; at the proxy "" until HELLO */
	struct kw_channel channel;        /* as this end sees the connection */
	struct kw_identity identity;      /* at the proxy: from PROVED on */
	uint32_t depth;                   /* wanted by the agent */
	bool compress;                    /* wished by it */
	bool sleeps;                      /* … */
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

/* Begin as agent (output holds HELLO then; name, key id and role must be valid) or as proxy. */
void kw_handshake_init_agent(
	struct kw_handshake *handshake, const struct kw_handshake_options *options);
void kw_handshake_init_proxy(
	struct kw_handshake *handshake, const struct kw_handshake_options *options);

/* As proxy, before the first input: the connection, seen from this end. */
void kw_handshake_set_channel(struct kw_handshake *handshake, const struct kw_channel *channel);

/* The same, if the agent showed a certificate: whom it names. Not "". */
void kw_handshake_set_certificate(struct kw_handshake *handshake, const char *id);

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

/*
 * PROVED: let it in (DONE; the output holds WELCOME), or not (FAILED; the output holds REFUSE). It
 * is refused if its key was withdrawn since.
 */
void kw_handshake_welcome(struct kw_handshake *handshake, const struct kw_handshake_facts *facts);

/* As proxy in any state but DONE and FAILED. limit: as in struct kw_refuse. */
int kw_handshake_refuse(struct kw_handshake *handshake, enum kw_refusal reason, uint32_t limit);

static inline bool kw_handshake_is(
	const struct kw_handshake *handshake, enum kw_handshake_state state)
{
	return handshake->sm.state == (int)state;
}

#endif
