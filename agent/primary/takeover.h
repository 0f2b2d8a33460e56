/*
 * Making the local server a replica of this agent, and letting it go, by questions and settings on
 * the agent's ordinary connection to it.
 *
 *             start ┌────────┐ answered ┌─────────┐ a primary      ┌───────────┐
 *          ┌───────▶│ ASKING │─────────▶│ SETTING │───────────────▶│ FOLLOWING │
 *          │        └────────┘          └─────────┘                └───────────┘
 *          │   CONFIG GET, FUNCTION DUMP  CONFIG SET │          ▲   REPLICAOF host port
 *          │               │                 │  a    ▼          │        │
 *          │               │                 │  re- ┌─────────┐ │        │
 *          │               │                 │  pli-│ CUTTING │─┘        │
 *          │               │                 │  ca  └─────────┘          │
 *          │               │                 │ REPLICAOF nowhere, CONFIG SET masterauth
 *       ┌──────┐           │                 │       │                   │
 *   ───▶│ IDLE │◀──────────┴─ done ──────────┴───────┴───────────────────┘ on a failure, what was
 *       └──────┘◀──────────┬─ done ──────────┐                             set is taken back
 *          │        ┌───────────┐    ┌──────────────┐
 *          └───────▶│ PROMOTING │───▶│ PUTTING BACK │              on a failure, the next release
 *           release └───────────┘    └──────────────┘              goes on with what is left
 *                 REPLICAOF NO ONE      CONFIG SET
 *   stop: from every state to IDLE; the answers that are still owed are ignored.
 *
 * The link's password (link_settings.h) remembers what to put back. It stays in the server for at
 * least as long as the other settings do. So if an agent is killed at any moment, the next agent
 * finds all that it left. A masterauth of the operator is replaced only if the agent was given the
 * same password, because it must put it back (apply.replica.masterauth_file).
 *
 * Each takeover sets a new one, and lets nobody in before: between two agents the server says the
 * password of before to any program that listens at the agent's port. A replica may be connected to
 * such a program still, and would say the new one, too. So it is sent nowhere first (ownership.h),
 * which ends that connection, and gets the password that counts then. If an agent dies or fails in
 * between, the server stays a replica of nowhere until it is taken again. Loop thread only.
 */
#ifndef KW_AGENT_PRIMARY_TAKEOVER_H
#define KW_AGENT_PRIMARY_TAKEOVER_H

#include "downlink.h"
#include "link_settings.h"
#include "link_tls.h"
#include "local/local.h"

#include "base/buffer.h"
#include "base/sm.h"

#include <stdbool.h>
#include <stdint.h>

/* The server's own function libraries are carried in memory from asking to sending. */
#define KW_TAKEOVER_FUNCTIONS_MAX ((size_t)64 << 20)

enum kw_takeover_state {
	KW_TAKEOVER_IDLE,
	KW_TAKEOVER_ASKING,
	KW_TAKEOVER_SETTING,
	KW_TAKEOVER_CUTTING,
	KW_TAKEOVER_FOLLOWING,
	KW_TAKEOVER_PROMOTING,
	KW_TAKEOVER_PUTTING_BACK,
};

/* What the server gets once it follows. */
enum kw_takeover_want {
	KW_TAKEOVER_CONTINUE, /* the stream from where it is */
	KW_TAKEOVER_SNAPSHOT, /* an RDB: repl-diskless-load is set, FUNCTION DUMP is asked for */
};

/* Whose is the server's masterauth? */
enum kw_takeover_auth {
	KW_AUTH_THEIRS, /* the operator's, or there is none: never used for the link */
	KW_AUTH_OURS,   /* of this agent, or of one before it */
	KW_AUTH_NEW,    /* of this takeover, the first one: taken back if it fails */
};

/* What does not change from one takeover to the next. */
struct kw_takeover_options {
	struct kw_local *local;
	/* Filled in: what the server will log in with, and whether it speaks TLS. */
	struct kw_downlink *downlink;
	/* The server's masterauth while no agent leads it; empty: none; must stay in place. */
	struct kw_slice operators;
	enum kw_link_tls tls; /* apply.replica.tls */
};

struct kw_takeover {
	struct kw_local *local;
	struct kw_downlink *downlink;
	struct kw_link_login *login; /* the downlink's */
	struct kw_sm sm;             /* enum kw_takeover_state */
	kw_local_done_fn done;       /* owed in every state but IDLE */
	void *arg;
	uint32_t owed;             /* answers to come */
	uint32_t ignored;          /* of them: of what was stopped; they come first */
	struct kw_failure failure; /* the first; told with the last answer */

	/* ASKING to FOLLOWING */
	const char *host; /* where the server is sent */
	uint16_t port;
	enum kw_takeover_want want;

	enum kw_takeover_auth auth;
	struct kw_slice operators;      /* masterauth that is put back; empty: none */
	char diskless[KW_LINK_SETTING]; /* repl-diskless-load of before; "": not known */
	bool swapdb_set;                /* repl-diskless-load is ours to put back */
	enum kw_link_tls tls;
	enum kw_downlink_speech speech; /* of the link, once the server may come in */
	bool connects;                  /* it was a replica when it was asked last */
	bool replicates_tls;            /* tls-replication yes, as it was asked for last */
	bool tls_switched;              /* it was, and is ours to put back, with the password */
	uint32_t databases;             /* of the server; 0: not asked yet */
	struct kw_buffer functions;     /* FUNCTION DUMP */
};

void kw_takeover_init(struct kw_takeover *takeover, const struct kw_takeover_options *options);
void kw_takeover_close(struct kw_takeover *takeover);

/*
 * Only when the local server is READY. The downlink is shut until the server alone knows the new
 * password. done is called once, from the loop, unless stopped: failure NULL when the server was
 * told to follow host:port.
 */
void kw_takeover_start(struct kw_takeover *takeover, const char *host, uint16_t port,
	enum kw_takeover_want want, kw_local_done_fn done, void *arg);

/* Give up what runs: done is not called any more. The connection may already be gone. */
void kw_takeover_stop(struct kw_takeover *takeover);

/* done is owed. */
static inline bool kw_takeover_runs(const struct kw_takeover *takeover)
{
	return takeover->sm.state != KW_TAKEOVER_IDLE;
}

/* The load is over: put repl-diskless-load back. Only when READY. */
void kw_takeover_loaded(struct kw_takeover *takeover);

/*
 * The server belongs to another client now: put back what this agent, or one before it, has set.
 * Above all its masterauth: with it the server could not follow a primary without a password. Only
 * when READY.
 */
void kw_takeover_give_back(struct kw_takeover *takeover);

/*
 * REPLICAOF NO ONE, then all settings as before; done as above. Only when READY and IDLE. After a
 * failure it may be tried again: steps that were done stay done, and the others are remembered.
 */
void kw_takeover_release(struct kw_takeover *takeover, kw_local_done_fn done, void *arg);

#endif
