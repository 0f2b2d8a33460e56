/*
 * The databases of the connection to the local server: which one do commands go to?
 *
 *               a new connection
 *                     │
 *                     ▼    SELECT of a confirmed one (pipelined)
 *                ┌────────┐───┐
 *            ┌──▶│ PLACED │◀──┘──────────────────────────────┐
 *            │   └────────┘                                  │ taken
 *            │        │ the server put a SELECT off          │
 *  confirmed │        │ that commands followed          ┌─────────┐
 *            │        ▼                   put off       │ PENDING │◀─┐ SELECT of one that is
 *            │   ┌─────────┐◀───────────────────────────└─────────┘  │ used for the first time,
 *            │   │ PUT_OFF │                                 │       │ from PLACED and LOST
 *            │   └─────────┘                                 │ ──────┘
 *            │        │ after a pause                        │ there is no such database
 *            │        ▼                                      │
 *            │   ┌────────┐◀─────────────────────────────────┘
 *            └───│  LOST  │
 *                └────────┘
 *
 * A database is confirmed by one SELECT whose answer is awaited. From then on SELECTs are sent
 * without waiting, and commands follow at once. If the server refuses such a SELECT, the commands
 * after it are carried out in another database. That is harm: the owner is told, and looks at all
 * data again. A server that is busy with a script refuses both the SELECT and the commands. Only
 * commands that come just as the script ends can do harm. So each answer to a command of a database
 * is given to kw_databases_in_place.
 *
 * Loop thread only.
 */
#ifndef KW_AGENT_LOCAL_DATABASES_H
#define KW_AGENT_LOCAL_DATABASES_H

#include "base/sm.h"
#include "keys/filter.h"
#include "redis/redis.h"
#include "redis/server.h"

#include <stdbool.h>
#include <stdint.h>

#define KW_DATABASES_WORDS ((KW_DATABASE_MAX + 1) / 64)

enum kw_databases_state {
	KW_DATABASES_PLACED,  /* commands sent now go to `database` */
	KW_DATABASES_PENDING, /* the answer to SELECT `database` is awaited: nothing is sent */
	KW_DATABASES_PUT_OFF, /* the server could not answer a SELECT: none before `retry_us` */
	KW_DATABASES_LOST,    /* no database is known to be selected */
};

/* A SELECT that the server put off, with the class and the text of its answer. */
struct kw_databases_delay {
	int64_t database; /* -1: one of several */
	uint64_t retry_us;
	enum kw_server_error class;
	char words[128];
};

struct kw_databases_handlers {
	/* A database that kw_databases_use made wait can be used, or is refused, or put off. */
	void (*selected)(void *arg);
	/* Commands went to a database that they were not meant for. */
	void (*harmed)(void *arg);
	void *arg;
};

struct kw_databases {
	struct kw_databases_handlers handlers;
	struct kw_redis *redis; /* of the connection; valid while that is */
	struct kw_sm sm;
	int64_t database;
	uint64_t confirmed[KW_DATABASES_WORDS];
	uint64_t refused[KW_DATABASES_WORDS];
	uint64_t answers;    /* to SELECTs of this connection */
	uint64_t taken_at;   /* the last of them that was taken; 0: the start */
	uint64_t strayed_at; /* the last that was put off while commands followed it; 0: none */
	struct kw_databases_delay delay; /* the last one */
};

enum kw_local_use {
	KW_USE_OK,      /* commands sent now go to this database */
	KW_USE_WAIT,    /* send nothing before handlers.selected */
	KW_USE_REFUSED, /* the server has no such database */
};

void kw_databases_init(
	struct kw_databases *databases, const struct kw_databases_handlers *handlers);

/* A connection begins: it is in database 0. */
void kw_databases_begin(struct kw_databases *databases, struct kw_redis *redis);

/* Make ready to send commands to this database. The connection is there. */
enum kw_local_use kw_databases_use(struct kw_databases *databases, uint32_t database);

/*
 * Was the command that this answers carried out where it was meant to be? Ask this for each answer
 * to a command of a database (NULL: the connection is lost). False: handlers.harmed was called.
 */
bool kw_databases_in_place(struct kw_databases *databases, const struct kw_reply *reply);

/* End the pause after a SELECT that was put off, when it is time: handlers.selected. */
void kw_databases_tick(struct kw_databases *databases, uint64_t now_us);

/* The SELECT that was put off, if the pause after it lasts; NULL. */
const struct kw_databases_delay *kw_databases_delayed(const struct kw_databases *databases);

#endif
