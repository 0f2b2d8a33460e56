/*
 * Test helper: the reply to COMMAND, as a server would build it, from text.
 *
 *   One entry a line:  name flags first last step | spec | spec …     no spec: as Redis 6.2
 *   A spec:            RO index 1 range 0 1 0       flags, begin_search, find_keys
 *                      RW keyword STORE 3 range 0 1 0
 *                      RW index 2 keynum 0 1 1      OW unknown unknown
 *
 * flags: words with commas ("write,movablekeys"); "-" for none.
 */
#ifndef KW_TESTS_UNIT_STREAM_CATALOG_REPLIES_H
#define KW_TESTS_UNIT_STREAM_CATALOG_REPLIES_H

#include "stream/catalog.h"

/* What the tests of meaning and effects work with. */
extern const char *const usual_catalog;

/* Ends the test if the catalog cannot be made. */
struct kw_repl_catalog *catalog_from(const char *text);

#endif
