/*
 * The link down to the local server: a listening socket, and the one replica that connects to it.
 *
 *                 ┌─────── guests: at most KW_DOWNLINK_GUESTS, for KW_DOWNLINK_GREETING_MS ──────┐
 *   listen ──────▶│ TLS, if the link speaks it; replconf.h: PING, AUTH, REPLCONF, PSYNC           │
 *                 └──────┬───────────────────────────────────────────────────────────────────────┘
 *                        │ PSYNC with the login: takes the place of whoever was the replica
 *                        ▼
 *                    the replica ◀── output (answers, RDB), then the stream (feed.h)
 *                          └──▶ ACKs
 *
 * Unknown peers get no further than AUTH. They have KW_DOWNLINK_GREETING_MS from their arrival, and
 * make room for later ones, so they cannot keep the server out. Queued bytes leave at the end of
 * the loop turn, or at once when there are many. Handlers are called from the loop, never from
 * within a call. Loop thread only.
 *
 * Plain or TLS: the server's tls-replication decides it (link_tls.h). Until it is known, and the
 * server has the login of this takeover (takeover.h), connections wait unanswered in the socket's
 * queue. Over TLS the agent shows its certificate and asks for none, because the login that only
 * the server knows follows.
 */
#ifndef KW_AGENT_PRIMARY_DOWNLINK_H
#define KW_AGENT_PRIMARY_DOWNLINK_H

#include "apply/feed.h"
#include "replconf.h"

#include "base/buffer.h"
#include "base/error.h"
#include "base/passed.h"
#include "tls/context.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#define KW_DOWNLINK_GUESTS 8
#define KW_DOWNLINK_GREETING_MS 10000
/*
 * A replica sends something each second. If it sends nothing for so long, it is gone; but not while
 * bytes of a snapshot leave, because a loading server might find no time to send.
 */
#define KW_DOWNLINK_SILENCE_MS 60000
#define KW_DOWNLINK_WHY 256

struct kw_downlink_handlers {
	/* The replica asks: answer through kw_downlink_output, or kw_downlink_drop it. */
	void (*psync)(void *arg, const char *replid, int64_t offset);
	void (*ack)(void *arg, uint64_t offset);
	/* About to write, with the stream attached: add to it now. */
	void (*filling)(void *arg);
	/* Bytes went out. */
	void (*room)(void *arg);
	/* The replica is gone; not after kw_downlink_drop. */
	void (*lost)(void *arg, const char *why);
	void (*closed)(void *arg);
	void *arg;
};

struct kw_guest; /* a connection, the replica's too */

enum kw_downlink_speech {
	KW_DOWNLINK_UNDECIDED, /* nobody is let in */
	KW_DOWNLINK_PLAIN,
	KW_DOWNLINK_TLS,
};

/* What is said of certificates: the keys are the agent's, the remedies the local server's. */
extern const struct kw_tls_terms kw_downlink_tls_terms;

struct kw_downlink {
	uv_loop_t *loop;
	struct kw_downlink_handlers handlers;
	struct kw_link_login login;
	const struct kw_tls_current *certificates; /* NULL, or with none in it: there is no TLS */
	enum kw_downlink_speech speech;
	char refusal[KW_DOWNLINK_WHY]; /* of the last connection, before any word of it; "": none */
	struct sockaddr_storage address; /* to listen on */
	char host[64];                   /* what the server is told */
	char passed[KW_PASSED_NAME];     /* the name of a socket of systemd's; "": one of our own */
	bool guarded;  /* the port is not needed while no agent runs, or the operator was told */
	uint16_t port; /* 0: not listening */
	uv_poll_t listener;
	int listener_fd;
	uint64_t starved_us; /* no descriptor was left: listening again then; 0: it does */
	uv_idle_t turn;
	struct kw_guest *guests; /* all connections but the replica's */
	int guest_count;
	struct kw_guest *replica;
	struct kw_buffer output; /* answers and RDB, before anything of the stream */
	struct kw_feed *feed;    /* attached: sent after output */
	bool blocked;            /* the socket takes no more for now */
	uint64_t wrote_us;       /* our clock when bytes left last */
	uint64_t refused;        /* strangers, ever */
	int open;                /* handles not yet closed */
	bool closing;
};

#define KW_DOWNLINK_PASSED "systemd:" /* and a name: base/passed.h */

/*
 * tcp://number:port, port 0: any that is free; or systemd:NAME, which leaves address and host
 * empty. KW_E_CONFIG: not that, or an address that no server can connect to (0.0.0.0).
 */
int kw_downlink_address(
	const char *text, struct sockaddr_storage *address, char host[64], struct kw_error *error);

/* A socket that listens there, and its port; -1: errno says why. */
int kw_downlink_open(const struct sockaddr_storage *address, uint16_t *port);

/* The socket that systemd passed by this name, its host and its port. -1: *error. */
int kw_downlink_passed(const char *name, char host[64], uint16_t *port, struct kw_error *error);

/* Can any user of this host bind this port? (ip_unprivileged_port_start) */
bool kw_downlink_exposed(uint16_t port);

/* address as kw_downlink_address checked it. */
void kw_downlink_init(struct kw_downlink *downlink, uv_loop_t *loop, const char *address,
	const struct kw_downlink_handlers *handlers);

/* Is it a number that only this host reaches, as 127.0.0.1? */
bool kw_downlink_is_near(const char *host);

/* What connections speak from now on; those that stand go on. */
void kw_downlink_speak(struct kw_downlink *downlink, enum kw_downlink_speech speech);

/*
 * Nobody is let in before kw_downlink_speak, and all connections end: the login is about to change.
 * `lost` is not called.
 */
void kw_downlink_shut(struct kw_downlink *downlink);

/* How the replica's bytes are encrypted: "software" or "kernel"; "": they are plain. */
const char *kw_downlink_cipherer(const struct kw_downlink *downlink);

/* Listen, if it does not yet; port is known then. Let in once it is told what to speak. */
int kw_downlink_listen(struct kw_downlink *downlink, struct kw_error *error);

static inline bool kw_downlink_up(const struct kw_downlink *downlink)
{
	return downlink->replica != NULL;
}

/* Bytes for the replica, before those of the stream: append to output, then say so. */
static inline struct kw_buffer *kw_downlink_output(struct kw_downlink *downlink)
{
	return &downlink->output;
}
void kw_downlink_appended(struct kw_downlink *downlink);

/* Something was added to the stream. */
void kw_downlink_wake(struct kw_downlink *downlink);

/* A large run of bytes after output: what the socket takes at once is not copied. */
void kw_downlink_value(struct kw_downlink *downlink, struct kw_slice value);

/* Send this after output from now on; NULL: no longer. */
void kw_downlink_attach(struct kw_downlink *downlink, struct kw_feed *feed);

/* End the replica's connection; `lost` is not called. */
void kw_downlink_drop(struct kw_downlink *downlink, const char *why);

void kw_downlink_tick(struct kw_downlink *downlink, uint64_t now_us);

/* handlers.closed follows from the loop. */
void kw_downlink_close(struct kw_downlink *downlink);

#endif
