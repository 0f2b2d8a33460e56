/*
 * The passive side: letting agents read the memory file, over any number of listeners at once.
 *
 *   listener (shm, tcp, rdma) ──accept──▶ handshake ──proved──▶ session
 *
 * A session is one agent's connection after the handshake. While the agent reads, shm and rdma
 * sessions cost this process nothing; over shm agents that sleep are woken. One thread, which knows
 * nothing but bounds-checked memory, serves tcp sessions (tcp/serve.h).
 *
 * Handshakes are bounded in number for each listener, and in time; the bound is tightest for peers
 * that send nothing. When all slots of a listener are taken, one of the peer that holds most of
 * them gives way to a new connection (slots.h). Sessions are bounded in all, for each agent's name
 * and for each peer. A name is no proof without a key: beyond its bound a session of the peer that
 * has most of that name gives way to one of a peer that has two less, or fewer.
 *
 * Loop thread only.
 */
#ifndef KW_REMOTE_SERVER_H
#define KW_REMOTE_SERVER_H

#include "auth/endpoint.h"
#include "auth/identity.h"
#include "auth/keyring.h"
#include "base/error.h"
#include "remote/memory.h"
#include "remote/remote.h"
#include "tls/channel.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct kw_server;

/*
 * How many sessions there may be; 0: 256 in all, any number of one name or peer, and none whose
 * answers are compressed.
 */
struct kw_server_limits {
	uint32_t sessions;
	uint32_t of_name;    /* agents that call themselves the same; shared out between peers */
	uint32_t of_peer;    /* one host (slots.h), over shm one user */
	uint32_t compressed; /* tcp, tcp+tls: of those that wish it; the others are served plain */
};

/* Words of its context for tcp+tls. */
extern const struct kw_tls_terms kw_server_tls_terms;

#define KW_COMPRESSION_LEVEL_MAX 3 /* above that zstd is slower than most links */

struct kw_server_options {
	struct kw_keyring *keyring;     /* what agents must prove; held. NULL: */
	struct kw_slice secret;         /* one key without an id; empty: none; copied */
	struct kw_endpoints addresses;  /* of tunnels and forwarded ports that lead here */
	bool allow_insecure;            /* listen on tcp and rdma without a secret, too */
	struct kw_peer_users users;     /* over shm they may come without a secret */
	uint32_t handshake_timeout_ms;  /* 0: 5000 */
	uint32_t hello_timeout_ms;      /* shm, tcp: until the first message is there; 0: 2000 */
	struct kw_server_limits limits; /* more are refused with a sentence */
	uint32_t depth_max;             /* READs in flight a session may have; 0: 64 */
	int compression_level;          /* 1 to KW_COMPRESSION_LEVEL_MAX; 0: 1 */
	uint64_t silent_us;             /* 0: KW_SESSION_SILENT_US */
	struct kw_rdma_options rdma;
	struct kw_tls_context *tls;    /* tcp+tls: of a server; held. NULL: there is none */
	enum kw_tls_identity identity; /* which field of a certificate names the agent */
};

struct kw_session_info {
	uint64_t id;
	char name[KW_AGENT_NAME_MAX + 1];
	struct kw_identity identity;
	enum kw_carrier carrier;
	char peer[128];
	char device[KW_RDMA_DEVICE_MAX]; /* rdma: the proxy's, over which it came; else empty */
	const char *tls;       /* tcp+tls: who encrypts, "software" or "kernel"; else "" */
	bool resumed;          /* tcp+tls: it went on with an earlier session of TLS */
	uint64_t connected_us; /* wall clock */
	uint32_t depth;
	uint64_t reads, bytes; /* one-sided: as last reported; UINT64_MAX: nothing was yet */
	uint64_t wire_bytes;   /* tcp: sent for them, as they went; UINT64_MAX: one-sided */
	bool compressed;       /* of what can be, answers are */
	struct kw_remote_progress progress;
	bool reported;     /* progress was heard of at least once */
	uint64_t state_us; /* wall clock: it reports this state, or has not reported, since then */
};

/* A listener's address, and whether agents can connect there. */
struct kw_listener_info {
	char address[300]; /* as a person writes it */
	enum kw_carrier carrier;
	char device[KW_RDMA_DEVICE_MAX]; /* rdma, while it listens; else empty */
	bool waiting;                    /* for a device or an address; tried again by itself */
	char why[KW_ERROR_TEXT];         /* waiting; else empty */
	uint32_t attempts;               /* waiting: made in vain so far */
};

enum kw_rotation_outcome {
	KW_ROTATION_SMOOTH, /* agents have the grace time to take up the new rkeys */
	KW_ROTATION_BROKE,  /* the earlier regions had to go first: agents connect again */
	KW_ROTATION_FAILED, /* even so some memory has no region, and is tried again */
};

/* The memory was registered anew, since a key was withdrawn. */
struct kw_rotation {
	enum kw_rotation_outcome outcome;
	uint64_t bytes, took_us; /* of that, in a thread of the pool */
	struct kw_error why;     /* not SMOOTH */
};

struct kw_server_handlers {
	/* What the handshake tells an agent: called when one has proved itself. */
	uint64_t (*epoch)(void *arg);
	void (*joined)(void *arg, const struct kw_session_info *session);
	void (*left)(void *arg, const struct kw_session_info *session, const char *why);
	/* A handshake failed: the sentence names peer and reason. For the log. */
	void (*rejected)(void *arg, const char *why);
	/* It listens (now, or again), or waits (for another reason than before). NULL: no matter.
	 */
	void (*listener)(void *arg, const struct kw_listener_info *listener);
	/*
	 * An agent waits for another ticket. 0: some agents over tcp, whose reports come in another
	 * thread, do so: look at kw_server_any_ticket. NULL: no matter.
	 */
	void (*ticket)(void *arg, uint16_t ticket);
	/*
	 * A device has now registered the memory: extents have other addresses and rkeys, and a
	 * published directory must name them when this returns. NULL: there is none yet.
	 */
	void (*placed)(void *arg);
	/* The rkeys that were there when a key was withdrawn open nothing now. NULL: no matter. */
	void (*rotated)(void *arg, const struct kw_rotation *rotation);
	void *arg;
};

/* memory outlives the server. */
struct kw_server *kw_server_new(uv_loop_t *loop, struct kw_memory *memory,
	const struct kw_server_options *options, const struct kw_server_handlers *handlers);

/*
 * Open what an address needs before the memory has extents: they are registered one by one then,
 * while they are small, not all at once. Harmless for other addresses. KW_E_GONE: device or address
 * are not there; listening on it will wait for them.
 */
int kw_server_prepare(
	struct kw_server *server, const struct kw_address *address, struct kw_error *error);

/*
 * Is what an address needs there at this moment? Nothing is changed and no port is taken. Only rdma
 * needs anything. Can block while a name is resolved.
 */
int kw_server_look(const struct kw_address *address, const struct kw_rdma_options *rdma,
	struct kw_error *error);

/*
 * Listen; any number of times. A stale socket file (no process answers) is replaced; one that
 * answers is KW_E_STATE. Without a secret an address of tcp or rdma is KW_E_CONFIG unless
 * allow_insecure. Over rdma, a missing device or address is no error: the listener waits for it.
 * port 0 is allowed for tests; kw_server_port tells the port of the n-th listener.
 */
int kw_server_listen(
	struct kw_server *server, const struct kw_address *address, struct kw_error *error);
uint16_t kw_server_port(const struct kw_server *server, int listener);

/* Copy up to `most`, in the order of kw_server_listen; returns how many there are. */
int kw_server_listeners(const struct kw_server *server, struct kw_listener_info *infos, int most);

/* From now on; sessions that there are stay. */
void kw_server_set_limits(struct kw_server *server, const struct kw_server_limits *limits);

/* Counts since the start; for metrics. */
struct kw_server_stats {
	uint64_t handshakes;                              /* begun */
	uint64_t rejected;                                /* of them, failed */
	uint64_t sessions;                                /* joined */
	uint64_t out_of_bounds, beyond_depth, bad_frames; /* sessions ended for what they sent */
};
void kw_server_stats(const struct kw_server *server, struct kw_server_stats *stats);

/* Copy up to `most` sessions; returns how many there are. */
int kw_server_sessions(const struct kw_server *server, struct kw_session_info *infos, int most);

/*
 * Lowest `passed` of all sessions: 0 while one has not reported; UINT64_MAX without sessions. A
 * session not heard of for KW_SESSION_SILENT_US (since it joined, or since its last report) does
 * not count: a stuck agent must not hold tombstones for ever. A live kw_remote repeats its last
 * report by itself every few seconds, so silence means that the process is stuck.
 */
#define KW_SESSION_SILENT_US UINT64_C(10000000)
uint64_t kw_server_lowest_passed(const struct kw_server *server);

/*
 * This publication says more than that the proxy lives: agents that sleep are woken, at most
 * KW_SERVER_WAKES of them now and the others in the next turns of the loop. Cheap if none sleeps.
 */
#define KW_SERVER_WAKES 16
void kw_server_published(struct kw_server *server, uint64_t publication);

/*
 * Nothing but the ticket is another one in this publication: those of them are woken that wait for
 * a ticket.
 */
void kw_server_ticket_moved(struct kw_server *server, uint64_t publication);

/*
 * Does an agent wait for a ticket (layout.h) that `wants` takes? It is asked for that of each
 * session, until it takes one: what some report can hide no other.
 */
typedef bool (*kw_server_wants_fn)(void *arg, uint16_t ticket);
bool kw_server_any_ticket(const struct kw_server *server, kw_server_wants_fn wants, void *arg);

/*
 * Revoke at once; false when there is no such session (or it is leaving already). handlers.left
 * follows. Over shm a mapping cannot be taken back. Our agent unmaps it when the socket ends;
 * another program can keep it, but it was allowed to read.
 */
bool kw_server_disconnect(struct kw_server *server, uint64_t id, const char *why);

/*
 * What agents must prove from now on; held. A session whose key this ring does not have, or has
 * with other rules, is revoked at once. Returns how many. If the holder of such a key was told
 * rkeys, over rdma or by the directory, the memory is registered anew, so that these open nothing
 * (handlers.rotated).
 */
uint32_t kw_server_set_keyring(struct kw_server *server, struct kw_keyring *keyring);

/*
 * Withdraw the keys whose time has come (kw_keyring_expire); revoke the sessions of these: *ended
 * of them. Returns how many keys. To be called every second or so.
 */
size_t kw_server_expire_keys(struct kw_server *server, int64_t now_s, uint32_t *ended);

/* The keys that agents must prove. It lives until another one is set. */
const struct kw_keyring *kw_server_keyring(const struct kw_server *server);

/* What a revocation has found and done. */
struct kw_revocation {
	uint32_t keys;     /* of this id: withdrawn, now or before */
	uint32_t sessions; /* ended */
	uint32_t names; /* of certificates that are refused, with this one; 0: none are asked for */
};

/*
 * Withdraw the keys of this id until the next kw_server_set_keyring, and whom a certificate names
 * so until the next kw_server_set_tls; end the sessions of both. KW_E_GONE: there is no such id.
 * With certificates any id can be one. So a name that no session has is refused from now on, too:
 * without keys and sessions it may be a mistake, and the caller should say so. KW_E_STATE:
 * KW_REVOKED_MAX names are refused already, and this one is not; the sentence says what was done to
 * its keys, which comes first. *done is set in each case.
 */
#define KW_REVOKED_MAX 256
int kw_server_revoke(struct kw_server *server, const char *id, struct kw_revocation *done,
	struct kw_error *error);

/*
 * Each id that was revoked, and that is refused no more once this ring is set and certificates are
 * read again (kw_server_set_keyring, kw_server_set_tls).
 */
void kw_server_each_lifted(const struct kw_server *server, const struct kw_keyring *after,
	kw_key_id_fn tell, void *arg);

/*
 * Connections to come over tcp+tls get this context; held. A session whose certificate it does not
 * accept (another CA, a list of revoked ones) is revoked at once. Returns how many. If there are
 * any, the memory is registered anew.
 */
uint32_t kw_server_set_tls(
	struct kw_server *server, struct kw_tls_context *tls, enum kw_tls_identity identity);

/* The context of connections to come over tcp+tls; NULL: there is none. */
struct kw_tls_context *kw_server_tls(const struct kw_server *server);

/* Agents may have dialled these, too, from now on. */
void kw_server_set_addresses(struct kw_server *server, const struct kw_endpoints *addresses);

/* Stop listening, end all sessions, join the thread, then call done; the server is freed then. */
void kw_server_close(struct kw_server *server, void (*done)(void *arg), void *arg);

#endif
