/*
 * A record as the command that applies it, encoded straight into the window. Pure.
 *
 *   put     RESTORE key 0 payload REPLACE | RESTORE key <ms> payload REPLACE ABSTTL
 *   delete  UNLINK key
 *   flush   FLUSHDB ASYNC, or a sweep (SCAN and UNLINK) when not all of the database is ours
 */
#ifndef KW_AGENT_APPLY_COMMAND_H
#define KW_AGENT_APPLY_COMMAND_H

#include "table/record.h"
#include "window.h"

/* Add the record's command at the end of the window. sweeps: how a flush is carried out. */
void kw_command_add(struct kw_window *window, const struct kw_record_view *record, bool sweeps);

#endif
