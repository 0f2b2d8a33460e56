/*
 * The channel of a keyspace notification: `__keyevent@<db>__:<event>`. Pure.
 *
 * The database is read here and not filtered by the subscription's pattern: a glob class cannot
 * tell database 1 from 10.
 */
#ifndef KW_PROXY_SOURCE_CHANNEL_H
#define KW_PROXY_SOURCE_CHANNEL_H

#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

#define KW_CHANNEL_EVENTS "__keyevent@*__:*"
#define KW_CHANNEL_FLUSH "__redis__:invalidate"

/* False when it is none. */
bool kw_channel_database(struct kw_slice channel, uint32_t *database);

#endif
