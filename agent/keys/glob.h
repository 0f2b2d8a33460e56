/*
 * Patterns of keys as the server's KEYS and PSUBSCRIBE know them (util.c, stringmatchlen):
 *
 *   *      any number of bytes, also none       [abc]   one of these bytes
 *   ?      any one byte                         [^abc]  any other byte
 *   \x     the byte x itself                    [a-z]   a range, also in a list of bytes
 *
 * The server tries each place for each star, one star inside the other, so a few stars can take it
 * for ever. Here only the last star is tried again: what an earlier one could gain, a later one can
 * make up. So a match takes at most as many steps as the product of both lengths.
 *
 * Bytes, not characters: a letter beyond ASCII takes several `?`. Pure; any thread.
 */
#ifndef KW_AGENT_KEYS_GLOB_H
#define KW_AGENT_KEYS_GLOB_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/slice.h"

#include <stdbool.h>

#define KW_GLOB_MAX 256 /* bytes of a pattern that a configuration may have */

/* Any bytes are a pattern: a list that is never closed ends with the pattern, as in the server. */
bool kw_glob_matches(struct kw_slice pattern, struct kw_slice text);

/* Does it match every text? */
bool kw_glob_is_everything(struct kw_slice pattern);

/* Append the bytes with which every text that it matches begins. */
void kw_glob_beginning(struct kw_slice pattern, struct kw_buffer *bytes);

/*
 * Is it what a person would write? KW_E_CONFIG: it is empty or too long, a list is never closed,
 * or a backslash is its last byte.
 */
int kw_glob_check(const char *pattern, struct kw_error *error);

#endif
