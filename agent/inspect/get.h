/*
 * Get: what does the table hold for one key?
 *
 * A lookup through the agent's connection to the proxy; questions are answered one after the other,
 * at most KW_GET_WAITING_MAX wait. If the writer's work made a lookup uncertain, it is repeated
 * every few milliseconds, for at most KW_GET_TIMEOUT_MS. Loop thread only.
 */
#ifndef KW_AGENT_INSPECT_GET_H
#define KW_AGENT_INSPECT_GET_H

#include "follow/reads.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#define KW_GET_WAITING_MAX 64
#define KW_GET_TIMEOUT_MS 2000
#define KW_GET_TEXT_MAX 4096 /* longer strings are not shown */

struct kw_get_result {
	bool found;
	const char *type;     /* in the words of TYPE, or "unknown" */
	uint64_t bytes;       /* of the DUMP payload */
	uint64_t expires_ms;  /* absolute, 0: never */
	uint64_t version;     /* in the table */
	uint16_t rdb_version; /* of the payload */
	char digest[33];      /* canonical, in hex; "" for a type that has none */
	struct kw_slice text; /* of a string of at most KW_GET_TEXT_MAX bytes; data NULL: none */
};

/* error NULL: result says it, valid during the call. KW_E_TIMEOUT: uncertain for all that time. */
typedef void (*kw_get_fn)(
	void *arg, const struct kw_get_result *result, const struct kw_error *error);

struct kw_get;

struct kw_get *kw_get_new(uv_loop_t *loop, kw_reads_remote_fn remote, void *arg);

/* KW_E_FULL: too many are waiting; fn is not called then. It is never called from within. */
int kw_get_ask(struct kw_get *get, uint32_t database, struct kw_slice key, kw_get_fn fn, void *arg,
	struct kw_error *error);

/* The connection to the proxy is gone: forget what is known of the table. */
void kw_get_lost(struct kw_get *get);

/* Every waiting question is answered with KW_E_STATE; then done is called and the get is freed. */
void kw_get_close(struct kw_get *get, void (*done)(void *arg), void *arg);

#endif
