/*
 * Keys as base64 (RFC 4648, with padding), as the meta commands take and give them with flag b.
 *
 * Pure; any thread.
 */
#ifndef KW_AGENT_GATEWAY_MEMCACHED_BASE64_H
#define KW_AGENT_GATEWAY_MEMCACHED_BASE64_H

#include "base/slice.h"

#include <stddef.h>
#include <stdint.h>

#define KW_BASE64_LENGTH(bytes) (((bytes) + 2) / 3 * 4)

/* At most text.length / 4 * 3 bytes. Returns how many; 0: it is no base64, or there is nothing. */
size_t kw_base64_decode(struct kw_slice text, uint8_t *bytes);

/* Returns KW_BASE64_LENGTH(bytes.length). No zero is written after them. */
size_t kw_base64_encode(struct kw_slice bytes, char *text);

#endif
