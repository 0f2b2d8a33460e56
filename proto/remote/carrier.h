/*
 * Inside proto/remote: what a carrier is, on either side.
 *
 *   active side (remote.c is common)          passive side (server.c is common)
 *     kw_carrier_ops: shm/shm.c, tcp/tcp.c,     kw_listener_ops: listen.c of the same
 *     rdma/rdma.c                               folder
 *
 * The common part queues READs to the negotiated depth, checks bounds, keeps deadlines, decides the
 * order of closing and owns the callbacks to the outside. A carrier moves bytes. Loop thread only.
 */
#ifndef KW_REMOTE_CARRIER_H
#define KW_REMOTE_CARRIER_H

#include "base/error.h"
#include "base/sm.h"
#include "remote/frame.h"
#include "remote/handshake.h"
#include "remote/memory.h"
#include "remote/remote.h"
#include "remote/server.h"
#include "tls/channel.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#define KW_DEPTH_MAX 1024 /* READs in flight on one connection, whatever both sides configure */
#define KW_ADDRESS_TEXT 300
#define KW_PEER_TEXT 128

/* Where a connection comes from. */
struct kw_origin {
	char text[KW_PEER_TEXT]; /* for people */
	uint64_t peer;           /* what counts as one (slots.h) */
	enum kw_peer_user user;  /* shm: may it come without a secret? */
	uint32_t uid;            /* shm */
};

/* "shm:///path", "tcp://[::1]:7471": for sentences. */
void kw_address_text(const struct kw_address *address, char *text, size_t size);

/* The sentence for an address whose carrier was not built in: KW_E_CONFIG. */
int kw_carrier_missing(const struct kw_address *address, struct kw_error *error);

/* ---- active side ---- */

/* READs in order, through their `next`. Zeroed memory is an empty list. */
struct kw_read_list {
	struct kw_remote_read *head, *tail;
};

void kw_read_list_push(struct kw_read_list *list, struct kw_remote_read *read);
struct kw_remote_read *kw_read_list_pop(struct kw_read_list *list);

struct kw_carrier_ops {
	enum kw_carrier carrier;
	/*
	 * Check the address and allocate remote->own; open no handle yet. Connecting begins in the
	 * first turn, so that its failures are told from the loop.
	 */
	int (*open)(struct kw_remote *remote, struct kw_error *error);
	/* `first` and those after it in remote->flight are new: start them. */
	void (*post)(struct kw_remote *remote, struct kw_remote_read *first);
	/* Called once from the loop after kw_remote_turn_soon or kw_remote_turn_at. */
	void (*turn)(struct kw_remote *remote);
	/* remote->report is due: send it and call kw_remote_report_taken, or come back to it later.
	 */
	void (*report)(struct kw_remote *remote);
	/* remote->sleep is due: the same, with kw_remote_sleep_taken. NULL: the agent never sleeps.
	 */
	void (*sleep)(struct kw_remote *remote);
	/*
	 * Let go: no buffer of a READ may be written after this. If another thread is still
	 * writing, take a kw_remote_hold here: then none after the kw_remote_release. Handles go
	 * through kw_remote_shut; their memory lives until `free`.
	 */
	void (*close)(struct kw_remote *remote);
	void (*free)(struct kw_remote *remote);
	/* kw_remote_end; NULL: it keeps nothing between two connections. */
	void (*end)(uv_loop_t *loop);
};

extern const struct kw_carrier_ops kw_carrier_shm, kw_carrier_tcp, kw_carrier_tls;
extern const struct kw_carrier_ops kw_carrier_rdma; /* KW_HAVE_RDMA */

/*
 *   ┌────────────┐ welcomed ┌───────┐
 *   │ CONNECTING │─────────▶│ READY │
 *   └────────────┘          └───────┘
 *         │ failed, close       │ failed, close
 *         ▼                     ▼
 *        ┌─────────────────────────┐ handles closed, READs told back ┌────────┐
 *        │         CLOSING         │────────────────────────────────▶│ CLOSED │
 *        └─────────────────────────┘                                 └────────┘
 */
enum kw_remote_state {
	KW_REMOTE_CONNECTING,
	KW_REMOTE_READY,
	KW_REMOTE_CLOSING,
	KW_REMOTE_CLOSED,
};

/* What becomes of kw_remote.report. */
enum kw_remote_reporting {
	KW_REPORT_NONE, /* the owner has not reported yet */
	KW_REPORT_DUE,  /* it must be sent, though perhaps not at once */
	KW_REPORT_SENT, /* it is repeated after a while, as a sign of life */
};

/* What becomes of a wish to sleep until the proxy wakes this end. */
enum kw_remote_rest {
	KW_REST_AWAKE,
	KW_REST_DUE,    /* SLEEP must be sent, though perhaps not at once */
	KW_REST_ASLEEP, /* it was: the proxy will send a wake */
};

struct kw_remote {
	uv_loop_t *loop;
	const struct kw_carrier_ops *ops;
	void *own; /* the carrier's */
	struct kw_sm sm;
	struct kw_address address;
	struct kw_remote_options options; /* secret: our copy */
	struct kw_tls_context *tls;       /* of this connection; held. NULL: there is none */
	struct kw_remote_handlers handlers;
	struct kw_remote_info info;
	struct kw_error why; /* of the end */

	uv_timer_t timer;  /* the one timer: every deadline, lazily moved */
	uint64_t timer_us; /* what it is set to; UINT64_MAX: not running */
	uv_idle_t turn;
	int shutting; /* handles whose close callback is still to come */

	uint64_t connect_deadline_us;
	uint64_t turn_at_us; /* UINT64_MAX: none asked for */
	uint64_t overdue_us; /* when the head's deadline was first found passed; 0: it was not */

	struct kw_remote_read scope_read; /* of what the key may read, before anything else */
	uint8_t *scope_text;              /* NULL: it is known, or there is none */

	struct kw_read_list waiting; /* beyond depth */
	struct kw_read_list flight;  /* with the carrier; they end in order */
	struct kw_read_list refused; /* out of bounds: told back in the next turn */
	uint32_t in_flight;
	uint64_t next_id;
	uint64_t received; /* tcp: bytes of replies, as they came */
	bool corked; /* a carrier is telling back a batch: new READs are posted once after it */

	struct kw_extent extents[KW_EXTENTS_MAX];
	int extent_count;
	uint64_t mapped_bytes; /* shm: no READ beyond, whatever extents say */

	struct kw_remote_progress report, report_last;
	enum kw_remote_reporting reporting;
	uint64_t report_us; /* when the last one was sent; 0: none was */

	enum kw_remote_rest rest;
	uint64_t rest_publication; /* not AWAKE: the one that SLEEP tells */
};

static inline bool kw_remote_is(const struct kw_remote *remote, enum kw_remote_state state)
{
	return remote->sm.state == (int)state;
}

/*
 * stranger.c: the handshake takes long, so ask what listens there; it failed, and if something else
 * than a proxy is known to listen there, *why says so from now on (KW_E_PROTOCOL).
 */
void kw_remote_suspect(struct kw_remote *remote);
void kw_remote_name_stranger(struct kw_remote *remote, struct kw_error *why);

/* The handshake holds. Calls handlers.ready: from the loop only. */
void kw_remote_welcomed(struct kw_remote *remote, const struct kw_handshake_facts *facts);

/* The head of `flight` has its bytes: tell it back, then post what waited (unless corked). */
void kw_remote_complete(struct kw_remote *remote);

/* Bytes came for the head of `flight`: its deadline begins anew. */
void kw_remote_progressed(struct kw_remote *remote);

/* Post waiting READs up to depth. */
void kw_remote_pump(struct kw_remote *remote);

/* The connection is over. From anywhere; nothing is called back from within. */
void kw_remote_fail(struct kw_remote *remote, const struct kw_error *error);

void kw_remote_report_taken(struct kw_remote *remote);
void kw_remote_sleep_taken(struct kw_remote *remote);
/* A wake came. False: this end does not sleep. It tells handlers.awake: from the loop only. */
bool kw_remote_woken(struct kw_remote *remote);
void kw_remote_turn_soon(struct kw_remote *remote);
void kw_remote_turn_at(struct kw_remote *remote, uint64_t at_us);

/* uv_close a handle of the carrier's (its data must be the remote); owned: free() it then. */
void kw_remote_shut(struct kw_remote *remote, uv_handle_t *handle, bool owned);

/* Delays `closed` as an open handle does, for work that has no handle. */
void kw_remote_hold(struct kw_remote *remote);
void kw_remote_release(struct kw_remote *remote);

/* remote_pace.c, for remote.c: the timer and the idle handle begin and end with the connection. */
#define KW_NEVER UINT64_MAX
void kw_remote_pace_init(struct kw_remote *remote);
void kw_remote_pace_close(struct kw_remote *remote);
void kw_remote_wake_at(struct kw_remote *remote, uint64_t at_us); /* the deadline moved, or came */
void kw_remote_report_soon(struct kw_remote *remote); /* one might have waited for READY */

static inline uint64_t kw_remote_read_timeout_us(const struct kw_remote *remote)
{
	return (uint64_t)remote->options.read_timeout_ms * 1000;
}

/* What the agent's end of the handshake is made of; channel: as the carrier sees it. */
int kw_remote_greet(struct kw_remote *remote, struct kw_handshake *handshake,
	const struct kw_channel *channel, struct kw_error *error);

/* ---- passive side ---- */

struct kw_listener;
struct kw_session;

struct kw_listener_ops {
	enum kw_carrier carrier;
	/* NULL, or what kw_server_look promises. */
	int (*look)(const struct kw_address *address, const struct kw_rdma_options *rdma,
		struct kw_error *error);
	/* NULL, or what kw_server_prepare promises. */
	int (*prepare)(
		struct kw_server *server, const struct kw_address *address, struct kw_error *error);
	/*
	 * Begin to listen on listener->address; allocates listener->own. If its device or address
	 * is not there yet, it calls kw_listener_waits, and kw_listener_listens when it is.
	 */
	int (*listen)(struct kw_listener *listener, struct kw_error *error);
	/* Stop listening and drop handshakes; ends in kw_listener_closed, from the loop. */
	void (*close)(struct kw_listener *listener);
	/* End a session, telling the peer `bye` if that is possible; ends in kw_session_ended. */
	void (*end)(struct kw_session *session, enum kw_frame_status bye);
	/* Fill in reads, bytes, progress, reported; returns when it was last heard of (0: never).
	 */
	uint64_t (*figures)(const struct kw_session *session, struct kw_session_info *info);
	/* The agent sleeps: wake it. NULL: agents of this carrier never sleep. */
	void (*wake)(struct kw_session *session);
};

extern const struct kw_listener_ops kw_listener_shm, kw_listener_tcp, kw_listener_tls;
extern const struct kw_listener_ops kw_listener_rdma; /* KW_HAVE_RDMA */

/*
 *   ┌─────┐ listens ┌───────────┐ nobody can connect ┌─────────┐
 *   │ NEW │────────▶│ LISTENING │◀──────────────────▶│ WAITING │  it tries again by itself
 *   └─────┘         └───────────┘   listens again    └─────────┘
 *      │ waits            │                            ▲   │
 *      └──────────────────┼────────────────────────────┘   │
 *                         ▼ closed                         ▼
 *                   ┌────────────────────────────────────────────┐
 *                   │ CLOSED: freed after the last session left  │
 *                   └────────────────────────────────────────────┘
 */
enum kw_listener_state {
	KW_LISTENER_NEW,
	KW_LISTENER_LISTENING,
	KW_LISTENER_WAITING,
	KW_LISTENER_CLOSED,
};

struct kw_listener {
	struct kw_sm sm; /* of enum kw_listener_state */
	struct kw_server *server;
	const struct kw_listener_ops *ops;
	struct kw_address address;
	void *own;
	char device[KW_RDMA_DEVICE_MAX]; /* rdma: while it listens */
	struct kw_error why;             /* WAITING; else its code is KW_OK */
	uint32_t attempts;               /* WAITING: in vain so far */
	struct kw_listener *next;
};

/*
 *   new ┌─────┐ joined ┌────────┐ lost, or told to leave ┌────────┐ ended: freed
 *   ───▶│ NEW │───────▶│ JOINED │───────────────────────▶│ ENDING │─────────────▶
 *       └─────┘        └────────┘                        └────────┘
 *
 * From JOINED on it is in the server's list. A carrier can also end it while JOINED.
 */
enum kw_session_state { KW_SESSION_NEW, KW_SESSION_JOINED, KW_SESSION_ENDING };

/* One agent, after its handshake. */
struct kw_session {
	struct kw_sm sm; /* of enum kw_session_state */
	struct kw_server *server;
	struct kw_listener *listener;
	void *own;
	uint64_t id;
	char name[KW_AGENT_NAME_MAX + 1];
	struct kw_origin origin;
	struct kw_identity identity;
	struct kw_tls_peer *certificate;  /* NULL: none was shown. Owned */
	struct kw_tls_context *judged_by; /* that accepted it last; held */
	uint64_t connected_us;            /* wall clock */
	uint64_t joined_us;               /* monotonic */
	uint32_t depth;
	bool scoped;                  /* so it was told: it must not get more */
	bool compressed;              /* so it was told; and counted */
	bool wakes;                   /* so it was told: it may sleep */
	uint64_t slept;               /* asleep since it read this publication; 0: it is awake */
	uint16_t ticket;              /* it waits for this one, as kw_session_wishes said */
	char why[KW_ERROR_TEXT + 16]; /* of its end, once known */
	struct kw_session *next, *previous;
};

/*
 * What an agent reported last, over a carrier whose reports come in the loop thread. Zeroed: it has
 * not reported yet.
 */
struct kw_reported {
	struct kw_remote_progress progress;
	uint64_t heard_us; /* monotonic, of the last report; 0: never */
	uint64_t state_us; /* wall clock, of the first report of the present state */
};

void kw_reported_take(struct kw_reported *reported, const struct kw_remote_progress *progress);

/* Into what figures tells of a one-sided carrier. Returns what that returns. */
uint64_t kw_reported_show(const struct kw_reported *reported, struct kw_session_info *info);

struct kw_tcp_serve;

/* What carriers ask of the server (server.c). */
uv_loop_t *kw_server_loop(struct kw_server *server);
struct kw_memory *kw_server_memory(struct kw_server *server);
uint32_t kw_server_handshake_timeout_ms(const struct kw_server *server);
uint32_t kw_server_hello_timeout_ms(const struct kw_server *server); /* not above the former */
enum kw_peer_user kw_server_judge(const struct kw_server *server, uint32_t uid); /* shm */

/* The serving thread, made by the first call. NULL: *error says why. */
struct kw_tcp_serve *kw_server_serve(struct kw_server *server, struct kw_error *error);

/*
 * What this identity may read, if its key has a scope; NULL: its key has none, or is there no more.
 * Valid until the keys are replaced.
 */
const struct kw_scope *kw_server_scope(
	const struct kw_server *server, const struct kw_identity *identity);

enum kw_tls_identity kw_server_tls_identity(const struct kw_server *server);

/* 1 to KW_COMPRESSION_LEVEL_MAX. */
int kw_server_compression_level(const struct kw_server *server);

const struct kw_rdma_options *kw_server_rdma(const struct kw_server *server);

/*
 * A device that listeners share; one. NULL: none is kept. What is kept to the end is released when
 * the last listener is closed.
 */
void *kw_server_kept(struct kw_server *server);
struct kw_kept_ops {
	void (*release)(void *device);
	/* A key was withdrawn: what its holder was told of the device must open nothing soon. */
	void (*rotate)(void *device);
};
void kw_server_keep(struct kw_server *server, void *device, const struct kw_kept_ops *ops);

/* The memory's extents have new addresses: the directory must name them before this returns. */
void kw_server_placed(struct kw_server *server);

/* The earlier addresses and rkeys lead nowhere now, since a key was withdrawn. */
void kw_server_rotated(struct kw_server *server, const struct kw_rotation *rotation);

/* What a listener knows of a connection before its first byte. */
struct kw_arrival {
	struct kw_channel channel; /* as this end sees it */
	struct kw_origin origin;
	/* Known once the wire is open: */
	char principal[KW_CERTIFICATE_ID_MAX +
		       1];                /* whom its certificate names; "": it showed none */
	struct kw_tls_peer *certificate;  /* owned */
	struct kw_tls_context *judged_by; /* that accepted it; held by the connection */
};

/* A handshake begins. The listener bounds their number. */
int kw_server_challenge(struct kw_server *server, struct kw_handshake *handshake,
	const struct kw_arrival *arrival, struct kw_error *error);

/*
 * The same for a carrier whose connections are first built by a thread, and whose channel is known
 * only then: kw_handshake_set_channel follows, and kw_server_greeted says that this one is built,
 * or given up. Until then it cannot give way to another one. While the bound of these is reached,
 * the server is busy, and the listener must reject new ones.
 */
int kw_server_greet(
	struct kw_server *server, struct kw_handshake *handshake, struct kw_error *error);
void kw_server_greeted(struct kw_server *server);
bool kw_server_busy(const struct kw_server *server);

/*
 * The peer has proved itself, handshake->identity says as whom: welcome it, or refuse it for a
 * reason of the server's.
 */
void kw_server_admit(
	struct kw_server *server, struct kw_handshake *handshake, const struct kw_origin *origin);

/*
 * Before that, of one that showed a certificate: others can have been loaded since it was accepted.
 * KW_E_REFUSED: by those it is not, and the sentence says why.
 */
int kw_server_judge_arrival(
	const struct kw_server *server, const struct kw_arrival *arrival, struct kw_error *error);

/* The welcome is sent: make the session, then tell handlers.joined by kw_session_joined. */
struct kw_session *kw_session_new(struct kw_listener *listener,
	const struct kw_handshake *handshake, const struct kw_origin *origin);
void kw_session_joined(struct kw_session *session);

/* One that did not join. */
void kw_session_free(struct kw_session *session);

/* The carrier knows that the session will end: it is listed no more. Any number of times. */
void kw_session_ending(struct kw_session *session);

/* The carrier has released it: tell handlers.left and free it. why: unless already known. */
void kw_session_ended(struct kw_session *session, const char *why);

/*
 * The agent of this session sleeps, and knows this publication. False: it may not, or does already.
 * It can be woken from within.
 */
bool kw_session_sleeps(struct kw_session *session, uint64_t publication);

/*
 * Its reports say that it waits for this ticket; 0: for none. If it is another one than before,
 * handlers.ticket is told. Of sessions over tcp, whose reports come in another thread, it is not
 * said.
 */
void kw_session_wishes(struct kw_session *session, uint16_t ticket);

void kw_server_rejected(struct kw_server *server, const char *why);
void kw_server_violated(struct kw_server *server, enum kw_frame_status what);
void kw_listener_closed(struct kw_listener *listener);

/*
 * No agent can connect, and why: it tries again by itself. Told to handlers when the reason is new.
 */
void kw_listener_waits(struct kw_listener *listener, const struct kw_error *why);
void kw_listener_listens(struct kw_listener *listener);

#endif
