/*
 * The reader is idle and could start: the link came back, or bytes that did not verify can be read
 * again. From where? Pure; any thread. (Whether a cursor found in the server may be resumed from is
 * judged in local/continuity.h.)
 */
#ifndef KW_AGENT_SYNC_RESUME_H
#define KW_AGENT_SYNC_RESUME_H

#include "phases.h"

#include <stdbool.h>

enum kw_resume {
	KW_RESUME_NOTHING, /* reading is not needed in this phase */
	KW_RESUME_ON,      /* go on from the position */
	KW_RESUME_OVER,    /* no pass was consistent yet: a snapshot from its beginning */
};

/* positioned: is there a consistent position? */
enum kw_resume kw_resume_judge(enum kw_sync_phase phase, bool positioned);

#endif
