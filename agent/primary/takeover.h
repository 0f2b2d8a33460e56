/*
 * Making the local server a replica of this agent, and letting it go: what is asked and set through
 * the agent's ordinary connection to it.
 *
 *   ┌──────┐ start ┌───────────────────────────┐     ┌────────────────────────────────┐  ┌──────┐
 *   │ IDLE │──────▶│ CONFIG GET, FUNCTION DUMP │────▶│ CONFIG SET, REPLICAOF host port│─▶│ HELD │
 *   └──────┘       └───────────────────────────┘     └────────────────────────────────┘  └──────┘
 *      ▲               └── cannot be: done(error) ───────────┘       release: REPLICAOF NO ONE │
 *      └──────────────────────────────────────────────────────────────────────────────────────┘
 *
 * The link's password. Where the server has no masterauth one is set:
 *
 *   keywake/<repl-diskless-load of before>/<32 random hex digits>
 *
 * It tells any later agent that it is ours, and what to put back: it lives exactly as long in the
 * server as the setting does, so an agent that is killed at any moment leaves nothing behind that
 * the next one does not find. A masterauth of the operator's is used as it is; then the setting is
 * remembered by this process only. Loop thread only.
 */
#ifndef KW_AGENT_PRIMARY_TAKEOVER_H
#define KW_AGENT_PRIMARY_TAKEOVER_H

#include "local/local.h"
#include "replconf.h"

#include "base/buffer.h"

#include <stdbool.h>
#include <stdint.h>

#define KW_TAKEOVER_SETTING 32
/* The server's own function libraries are carried in memory from asking to sending. */
#define KW_TAKEOVER_FUNCTIONS_MAX ((size_t)64 << 20)

struct kw_takeover {
	struct kw_local *local;
	struct kw_link_login *login; /* filled in: what the server will log in with */
	const char *host;            /* where it is sent */
	uint16_t port;
	bool running; /* done is owed */
	bool full;    /* a snapshot follows: swapdb is set, functions are asked for */
	kw_local_done_fn done;
	void *arg;
	uint32_t owed;             /* answers to come */
	uint32_t ignored;          /* of them: of a takeover that was given up; they come first */
	struct kw_failure failure; /* the first; told with the last answer */

	char diskless[KW_TAKEOVER_SETTING]; /* repl-diskless-load of before; "": not known */
	bool swapdb_set;                    /* ours to put back */
	bool auth_ours;                     /* masterauth was set by us, or an agent before us */
	bool auth_fresh;                    /* by this very takeover: undone when it fails */
	bool releasing;                     /* not undone when it fails: to be tried again */
	bool letting_go;                    /* the settings follow once REPLICAOF is taken */
	bool follow_next;                   /* REPLICAOF goes out behind the settings */
	uint32_t databases;                 /* of the server */
	struct kw_buffer functions;         /* FUNCTION DUMP */
};

void kw_takeover_init(
	struct kw_takeover *takeover, struct kw_local *local, struct kw_link_login *login);
void kw_takeover_close(struct kw_takeover *takeover);

/*
 * Only when the local server is READY. done is called once, from the loop, unless stopped:
 * failure NULL when the server was told to follow host:port.
 */
void kw_takeover_start(struct kw_takeover *takeover, const char *host, uint16_t port, bool full,
	kw_local_done_fn done, void *arg);

/* Give up what runs: done is not called any more. The connection may be gone. */
void kw_takeover_stop(struct kw_takeover *takeover);

/* The load is over: put repl-diskless-load back. Only when READY. */
void kw_takeover_loaded(struct kw_takeover *takeover);

/*
 * Somebody else has it now: what we, or an agent before us, set there is put back, above all the
 * masterauth that would keep it from a primary that wants none. Only when READY.
 */
void kw_takeover_hands_off(struct kw_takeover *takeover);

/*
 * REPLICAOF NO ONE, and all settings as before; done as above. Only when READY, not running. On an
 * error it may be tried again: what was done already is not undone, and what was not is remembered.
 */
void kw_takeover_release(struct kw_takeover *takeover, kw_local_done_fn done, void *arg);

#endif
