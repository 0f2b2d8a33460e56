/*
 * Reading the memory of another process: the active side of the carriers (shm, tcp, rdma).
 *
 *   rdma://host:port        one-sided RDMA READ
 *   shm:///path.sock        the proxy's memory file, passed over a unix socket and mapped read-only
 *   tcp://host:port         READ requests served by a thread of the proxy
 *   tcp+tls://host:port     the same through TLS
 *
 * One struct kw_remote is one connection: open -> ready -> reads -> closed, once each way; it does
 * not reconnect (its owner does, with backoff). Loop thread only; callbacks come from the loop,
 * never from within a call into this module.
 *
 * The handshake (handshake.h) is common to all: versions, the agent's name, what it dialled, proof
 * of the key both ways, then epoch and extent 0.
 */
#ifndef KW_REMOTE_REMOTE_H
#define KW_REMOTE_REMOTE_H

#include "auth/identity.h"
#include "auth/peer.h"
#include "auth/scope.h"
#include "base/error.h"
#include "base/slice.h"
#include "table/layout.h"
#include "tls/context.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#define KW_AGENT_NAME_MAX 64 /* printable ASCII */
#define KW_STATE_BYTES 14    /* the name of an agent's state, and its end */
#define KW_READ_MAX (UINT64_C(1) << 30)

enum kw_carrier { KW_CARRIER_SHM, KW_CARRIER_TCP, KW_CARRIER_RDMA, KW_CARRIER_TLS };
const char *kw_carrier_name(enum kw_carrier carrier);

/* A parsed carrier address. tcp, tcp+tls and rdma: host without brackets, IPv6 in the URL as [::1].
 */
struct kw_address {
	enum kw_carrier carrier;
	char path[108]; /* shm */
	char host[256]; /* all others */
	uint16_t port;
};

/* KW_E_CONFIG with a sentence that shows the four forms. */
int kw_address_parse(const char *text, struct kw_address *address, struct kw_error *error);

/* The same, asked for the verdict only; a carrier that this build lacks is KW_E_CONFIG too. */
int kw_address_check(const char *text, struct kw_error *error);

/* Is it reachable from this host only (unix socket, 127/8, ::1, localhost)? */
bool kw_address_is_local(const struct kw_address *address);

/*
 * Over tcp and rdma nothing but a key tells an agent or a proxy from a stranger, on loopback, too:
 * every user of the host can dial a port, and listen on one that was given up. Over shm the kernel
 * names the user at the other end. guarded: there is a key, or auth.allow_insecure is set. listens:
 * the proxy's end. Over tcp+tls a verified certificate of the other end is as good as a key, and
 * counts as one. KW_E_CONFIG: the carrier needs a key, and is not guarded.
 */
int kw_address_check_guard(
	const struct kw_address *address, bool guarded, bool listens, struct kw_error *error);

#define KW_RDMA_DEVICE_MAX 64
#define KW_RDMA_ACK_TIMEOUT 15   /* 4.096 us * 2^15 = 134 ms a try */
#define KW_RDMA_RETRY_COUNT 4    /* so that a dead peer shows within 0.7 s; 7 can be for ever */
#define KW_RDMA_READ_BYTES 65536 /* larger pieces are no faster on any device known */
#define KW_RDMA_READ_BYTES_MAX (UINT32_C(1) << 20)
#define KW_RDMA_PROBE_MS 10000
#define KW_RDMA_ROTATE_MS 3000 /* an agent that reads no superblock for so long counts as stuck */

/*
 * What became of the wish that answers be compressed, which only tcp and tcp+tls can grant. Numbers
 * are part of the protocol.
 */
enum kw_compression {
	KW_COMPRESSION_UNTOLD = 0, /* none was wished for, or the proxy knows no such wish */
	KW_COMPRESSION_ZSTD = 1,
	KW_COMPRESSION_FORBIDDEN = 2, /* the proxy has remote.compressed_sessions=0 */
	KW_COMPRESSION_FULL = 3,      /* as many sessions have it as may */
	KW_COMPRESSION_UNBUILT = 4,   /* the proxy was built without zstd */
};

/* Can this build? */
bool kw_compression_built(void);

/* Why a wish was not granted, said about the proxy; "" for KW_COMPRESSION_ZSTD. */
const char *kw_compression_text(enum kw_compression compression);

/* For rdma only, either side. Zero: see each field. */
struct kw_rdma_options {
	char device[KW_RDMA_DEVICE_MAX]; /* "": the one that the address leads over */
	uint8_t port;                    /* of the device; 0: any */
	uint8_t traffic_class;           /* of RoCE packets; 0: the system's */
	uint8_t ack_timeout;             /* 1 to 31: 4.096 us * 2^n a try; 0: KW_RDMA_ACK_TIMEOUT */
	uint8_t retry_count; /* 1 to 6; 0: KW_RDMA_RETRY_COUNT. A dead peer shows after one more */
	uint32_t read_bytes; /* larger READs are cut into pieces of this; 0: KW_RDMA_READ_BYTES */
	uint32_t probe_ms;  /* proxy: an agent silent for so long is looked for; 0: KW_RDMA_PROBE_MS
			     */
	uint32_t rotate_ms; /* proxy: how long earlier rkeys still count; 0: KW_RDMA_ROTATE_MS */
	bool busy;          /* look for completions instead of sleeping, while READs are out */
};

/* Can this be the name of an RDMA device? KW_E_CONFIG with a sentence. */
int kw_rdma_device_check(const char *text, struct kw_error *error);

/* Words of a client's context for tcp+tls. */
extern const struct kw_tls_terms kw_remote_tls_terms;

struct kw_remote_options {
	char agent_name[KW_AGENT_NAME_MAX + 1];
	enum kw_role role; /* 0: KW_ROLE_AGENT */
	char key_id[KW_KEY_ID_MAX + 1];
	struct kw_slice secret; /* of key_id; empty: none; copied */
	bool allow_insecure;    /* tcp, rdma: without a secret, too */
	/* tcp+tls: of a client; outlives this. Each connection takes the context of its beginning.
	 */
	const struct kw_tls_current *tls; /* NULL: there is none */
	struct kw_peer_users users;       /* shm without a secret: whose proxy is trusted */
	/*
	 * tcp, tcp+tls: what is known of addresses that lead elsewhere (port/memory.h); outlives
	 * this. NULL: where no handshake comes about, it is not asked what listens there.
	 */
	struct kw_port_memory *ports;
	uint32_t connect_timeout_ms; /* until ready; 0: 5000 */
	uint32_t read_timeout_ms;    /* each READ; 0: 2000 */
	uint32_t depth;              /* READs in flight wanted; more are queued here; 0: 16 */
	bool compress; /* tcp, tcp+tls: wish that answers be compressed; if kw_compression_built */
	struct kw_rdma_options rdma;
	/*
	 * The key may read a part of the table only, and the proxy hides the rest. KW_OK: the owner
	 * can do with this part; the scope is valid during the call. Else the connection ends with
	 * the sentence. NULL: the owner needs the whole table.
	 */
	int (*scoped)(void *arg, const struct kw_scope *scope, struct kw_error *error);
	void *scoped_arg;
};

struct kw_remote_info {
	enum kw_carrier carrier;
	uint64_t epoch;
	uint32_t depth; /* negotiated */
	bool scoped;    /* the key reads a part of the table: no index */
	bool wished;    /* that answers be compressed: what became of it */
	bool wakes;     /* the proxy does, so kw_remote_sleep may be called */
	enum kw_compression compression;
	char peer[128];                  /* for people */
	char device[KW_RDMA_DEVICE_MAX]; /* rdma: this side's; else empty */
};

struct kw_remote_handlers {
	void (*ready)(void *arg, const struct kw_remote_info *info);
	/*
	 * The connection is over, or was never made. Called once, after every READ still out was
	 * told back with the same error (KW_E_STATE if the owner closed). Such a READ must not be
	 * answered with another one. Call kw_remote_free here or later.
	 */
	void (*closed)(void *arg, const struct kw_error *why);
	void *arg;
	/* kw_remote_sleep is over: the proxy published something. NULL: nobody sleeps. */
	void (*awake)(void *arg);
};

/* One READ; memory of the caller's until done was called. */
struct kw_remote_read {
	uint64_t offset, length; /* in the memory file; length 1 .. KW_READ_MAX */
	uint8_t *buffer;
	void (*done)(struct kw_remote_read *read, const struct kw_error *error); /* NULL: success */
	void *arg;
	/* the carrier's: */
	struct kw_remote_read *next;
	uint64_t deadline_us, id;
};

struct kw_remote;

/* Begin to connect. On failure here nothing was made and no callback follows. */
int kw_remote_open(uv_loop_t *loop, const struct kw_address *address,
	const struct kw_remote_options *options, const struct kw_remote_handlers *handlers,
	struct kw_remote **remote, struct kw_error *error);

/*
 * Start READs, in order; they end in order too. READs of one call are one posting (rdma: one chain
 * and one doorbell), up to the depth. Not after closed was called. A READ outside the advertised
 * extents fails by its callback with KW_E_ARGUMENT before anything is sent. Before ready, every
 * READ is outside. A READ whose deadline passes ends the connection (KW_E_TIMEOUT), because the
 * buffer can be given back only when no carrier can write to it. The deadline is one of silence: it
 * counts from the latest of the READ's start, the end of the one before, and the last bytes for it.
 * So a slow link is not a dead one.
 */
void kw_remote_read(struct kw_remote *remote, struct kw_remote_read *const *reads, int count);

/*
 * This loop has no connection, and none will be made: release what carriers keep between two
 * connections (over rdma, the watch of the device). Its handles close as the loop runs to its end.
 */
void kw_remote_end(uv_loop_t *loop);

/* What may be read from now on: the extents of a verified directory. Copied. */
void kw_remote_set_extents(struct kw_remote *remote, const struct kw_extent *extents, int count);

/*
 * Tell the proxy how far this agent is (it keeps tombstones above that), and what it is doing. May
 * be called at any rate, also before ready: reports are coalesced to ten a second, except that a
 * new ticket is told at once. The last one is repeated every three seconds as a sign of life.
 */
struct kw_remote_progress {
	uint64_t passed;  /* version; a bootstrapping agent has passed its snapshot's version */
	uint64_t applied; /* version */
	uint64_t lag_us;  /* UINT64_MAX: it is not known */
	char state[KW_STATE_BYTES]; /* the agent's state, for agents.list */
	uint16_t ticket;            /* it waits for this one (layout.h); 0: for none */
	uint64_t reads, bytes; /* READs that ended well: the proxy cannot count one-sided ones */
};
void kw_remote_report(struct kw_remote *remote, const struct kw_remote_progress *progress);

/*
 * Nothing is looked for until handlers.awake, which follows once the proxy has published anything
 * but a sign of life after this publication. A wake can be late: look now and then all the same.
 * Only if info.wakes, handlers.awake is given, and the connection is ready. Harmless while asleep.
 */
void kw_remote_sleep(struct kw_remote *remote, uint64_t publication);
bool kw_remote_is_asleep(const struct kw_remote *remote);

/*
 * Bytes that came over a socket for READs: headers and answers, as they came. 0 over shm and rdma.
 */
uint64_t kw_remote_received(const struct kw_remote *remote);

/* Close: handlers->closed follows (with KW_OK in its code). Harmless when already closing. */
void kw_remote_close(struct kw_remote *remote);

/* After closed was called. */
void kw_remote_free(struct kw_remote *remote);

#endif
