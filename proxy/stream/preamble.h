/*
 * What stands at the beginning of an RDB file, before any key: the fields that a server writes
 * about itself.
 *
 *   REDIS0010 (VALKEY080) │ FA name value │ FA name value │ … │ another opcode
 *
 * One of them is repl-stream-db: the database in which the replication stream goes on after this
 * RDB (rdbSaveInfoAuxFields in rdb.c). A replica of a replica is told no SELECT, and learns it so.
 *
 * A value is a string. One that is a number is written as such (rdbSaveRawString). The bytes come
 * from outside. Pure. Any thread.
 */
#ifndef KW_PROXY_STREAM_PREAMBLE_H
#define KW_PROXY_STREAM_PREAMBLE_H

#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

#define KW_REPL_PREAMBLE_FIELDS 64 /* that are looked at; servers write some ten */

/* False: the field is not there, is no number from 0 on, or the bytes are no RDB. */
bool kw_repl_preamble_number(struct kw_slice rdb, const char *field, uint64_t *number);

#endif
