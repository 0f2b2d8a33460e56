/*
 * Scanning: SCAN over a list of databases, one after the other, one SCAN in flight.
 *
 * Keys are told as they come, possibly more than once (that is SCAN's nature). The next step is
 * sent only when kw_scan_pump is called, which the owner does while there is room for its answer.
 * The cursor is passed back as it came: it is opaque.
 *
 * Loop thread only.
 */
#ifndef KW_PROXY_FETCH_SCAN_H
#define KW_PROXY_FETCH_SCAN_H

#include "fetch/data.h"

#include <stdbool.h>
#include <stdint.h>

#define KW_SCAN_COUNT 500 /* keys a step: 0.1 to 0.4 ms of the server */

struct kw_scan_handlers {
	void (*key)(void *arg, uint32_t database, struct kw_slice key);
	/*
	 * A step was answered. Its keys are told next, so the next step can be sent before: the
	 * server works on it meanwhile. NULL: not wanted.
	 */
	void (*answered)(void *arg);
	const char *type; /* only keys of this type, in the words of TYPE; NULL: all */
	void *arg;
};

struct kw_scan;

struct kw_scan *kw_scan_new(
	struct kw_data_connection *data, const struct kw_scan_handlers *handlers);
/* No step may be in flight. */
void kw_scan_free(struct kw_scan *scan);

/* From the beginning, whatever was under way. The list is copied; an empty one is done at once. */
void kw_scan_begin(struct kw_scan *scan, const uint32_t *databases, uint32_t count);
void kw_scan_stop(struct kw_scan *scan);

/* Send the next step, about so many keys (at most KW_SCAN_COUNT), unless one is in flight. */
void kw_scan_pump(struct kw_scan *scan, uint32_t keys);

/* A step is in flight. */
bool kw_scan_asked(const struct kw_scan *scan);

/* Every key was told (or it was stopped). */
bool kw_scan_done(const struct kw_scan *scan);

#endif
