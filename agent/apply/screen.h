/*
 * Changes that must not reach the local server. A server stops, or drops its link, at a value that
 * it does not know, and a replication link has no way to refuse one change. Pure, except for the
 * log line.
 */
#ifndef KW_AGENT_APPLY_SCREEN_H
#define KW_AGENT_APPLY_SCREEN_H

#include "keys/quarantine.h"
#include "table/record.h"

#include <stdbool.h>
#include <stdint.h>

/* What decides about a record, of the server that it would go into. */
struct kw_screen_server {
	uint32_t databases;
	bool vector_sets; /* it has the module for them */
};

/* May it go into this server? `why`: the reason if not, with its remedy, at most room - 1 bytes. */
bool kw_screen_record(const struct kw_record_view *record, const struct kw_screen_server *server,
	char *why, size_t room);

/* Is the payload whole, and of an RDB version that a server of version `local` loads? */
bool kw_screen_payload(struct kw_slice payload, uint16_t local, char *why, size_t room);

/* Give the key up: into quarantine, and into the log as long as the log names keys. */
void kw_screen_quarantine(struct kw_quarantine *quarantine, uint32_t database, struct kw_slice key,
	struct kw_slice why);

#endif
