/*
 * The proxy daemon: one loop that puts the parts together.
 *
 *   source ──writes──▶ table ──in──▶ memory ◀──served by── server ◀── agents
 *      └── state ─────▶ facts ──published once a loop turn, and every heartbeat
 *
 * Construction and destruction are in proxy.c, in one order and its reverse. readers.c serves the
 * agents, reload.c changes what is live, and control.c answers for it on the control socket. Loop
 * thread only.
 */
#ifndef KW_PROXY_PROXY_H
#define KW_PROXY_PROXY_H

#include "base/bucket.h"
#include "control/config/wire_tls.h"
#include "control/daemon.h"
#include "control/notify.h"
#include "control/rpc/rpc.h"
#include "control/rpc/waits.h"
#include "control/signals.h"
#include "lock.h"
#include "mandate/mandate.h"
#include "port/memory.h"
#include "remote/memory.h"
#include "remote/server.h"
#include "source/source.h"
#include "source/ticket.h"
#include "table/table.h"

#include <uv.h>

#define KW_PROXY_HEARTBEAT_MS 100

struct kw_proxy {
	struct kw_daemon daemon; /* first: the control methods cast to it */
	uv_loop_t *loop;
	struct kw_memory memory;
	struct kw_table *table;
	struct kw_server *server;
	struct kw_mandate mandate;
	struct kw_sentinels *sentinels; /* NULL: authority.by is not sentinel */
	struct kw_source *source;
	struct kw_tls_current redis_tls;    /* of connections to the primary */
	struct kw_tls_current sentinel_tls; /* … and to the sentinels */
	struct kw_port_memory ports;        /* what listens where no server answers */
	struct kw_rpc_server *rpc;
	struct kw_proxy_lock lock; /* of a switch-over */
	struct kw_rpc_waits waits; /* for tickets */
	struct kw_notify notify;
	uv_prepare_t publisher;
	uv_timer_t heartbeat;
	uv_timer_t ticket_timer; /* one is wanted, and it is too early for it */
	struct kw_signals signals;
	uint64_t epoch;
	uint64_t started_us; /* wall clock */
	uint16_t ticket;     /* a client of the control socket waits for it; 0: none does */
	struct kw_ticket_budget ticket_budget; /* of tickets that readers wish for */
	uint64_t readers;                      /* of struct kw_keep_terms */
	struct kw_superblock told; /* agents that slept were woken for it; zeros: for none */
	bool closing;
	struct kw_line_limit joins, leaves, refusals;
};

/* All of it, or an error with everything undone. The configuration is complete. */
int kw_proxy_init(
	struct kw_proxy *proxy, uv_loop_t *loop, struct kw_config *config, struct kw_error *error);

/* doctor.c: a kw_config_look: certificates, and addresses in `listen` that are not there now. */
void kw_proxy_look(const struct kw_config *config, struct kw_config_looked *looked);

/* Begin to shut down; the loop runs out once all is closed. Harmless when already closing. */
void kw_proxy_shutdown(struct kw_proxy *proxy, const char *why);

/* After the loop has run out. */
void kw_proxy_close(struct kw_proxy *proxy);

/* What the configuration says, in the words of the parts. */
uint64_t kw_proxy_max_bytes(const struct kw_config *config); /* of the table */
void kw_proxy_read_rdma(const struct kw_config *config, struct kw_rdma_options *rdma);
enum kw_source_flags kw_proxy_flags(const struct kw_config *config);
enum kw_source_feed kw_proxy_feed(const struct kw_config *config);

/* doctor.c: a kw_config_doctor. */
int kw_proxy_doctor(const struct kw_config *config, const struct kw_config_mistakes *mistakes);

/* authority.c: who confirms the primary, as the configuration says. */
int kw_proxy_make_authority(struct kw_proxy *proxy, struct kw_error *error);

/* Certificates for the sentinels; NULL: none of their addresses is rediss://. */
int kw_proxy_sentinel_tls(
	const struct kw_config *config, struct kw_tls_context **context, struct kw_error *error);

/* For the parts of the proxy that make and keep its table. */
#define KW_PROXY_FULL_NAME 1024 /* host and address */
void kw_proxy_name(const struct kw_config *config, char name[KW_PROXY_FULL_NAME]);
struct kw_table_memory kw_proxy_table_memory(struct kw_proxy *proxy);
struct kw_table_options kw_proxy_table_options(const struct kw_proxy *proxy);
void kw_proxy_publish(struct kw_proxy *proxy);

/*
 * kept.c. Adopt what the process before left: memory, table and epoch. Without it, or if it cannot
 * be used, all of them stay as they are. An error: the configuration cannot work.
 */
int kw_proxy_take_kept(struct kw_proxy *proxy, struct kw_error *error);

/*
 * These keys count from now on. If they are others than at the start, one that was withdrawn may
 * have mapped the memory: the next process copies it.
 */
void kw_proxy_note_readers(struct kw_proxy *proxy, const struct kw_keyring *keyring);

/* Leave the table to the next process. All other parts are closed. */
void kw_proxy_keep_table(struct kw_proxy *proxy);

/* readers.c: the server that agents join at. Made, prepared, and then listening. */
int kw_proxy_make_server(struct kw_proxy *proxy, struct kw_error *error);
int kw_proxy_prepare_listeners(struct kw_proxy *proxy, struct kw_error *error);
int kw_proxy_listen(struct kw_proxy *proxy, struct kw_error *error);
void kw_proxy_set_addresses(struct kw_proxy *proxy); /* as the configuration says them now */
void kw_proxy_set_limits(struct kw_proxy *proxy);
void kw_proxy_expire_keys(struct kw_proxy *proxy);
void kw_proxy_wake_readers(struct kw_proxy *proxy); /* something was published */
void kw_proxy_count_lines(struct kw_proxy *proxy);  /* of the log that were left out */

/*
 * Tickets: does any reader want one that has not begun? It is announced then. The heartbeat begins
 * one for whoever waits. Sooner, one begins when all readers together may draw it (ticket.h): now,
 * or at that moment. Not from within the source: that is told `soon`, for the next loop turn.
 */
bool kw_proxy_is_ticket_wanted(struct kw_proxy *proxy);
void kw_proxy_serve_tickets(struct kw_proxy *proxy);
void kw_proxy_serve_tickets_soon(struct kw_proxy *proxy);

/* reload.c: struct kw_daemon's `changed` and `reloaded`. */
int kw_proxy_changed(void *arg, const char *path, struct kw_error *error);
int kw_proxy_reloaded(void *arg, json_t *answer, struct kw_error *error);

/* switchover.c: methods of the control socket. */
void kw_proxy_on_lock(void *arg, struct kw_rpc_call *call, const json_t *params);
void kw_proxy_on_fence(void *arg, struct kw_rpc_call *call, const json_t *params);
void kw_proxy_on_term(void *arg, struct kw_rpc_call *call, const json_t *params);
void kw_proxy_compare(struct kw_proxy *proxy, struct kw_rpc_call *call); /* and answer it */

/* control.c */
int kw_proxy_serve_http(struct kw_proxy *proxy, struct kw_error *error);
extern const struct kw_rpc_method kw_proxy_methods[];

#endif
