/*
 * The operator's fence: writes of all clients wait (CLIENT PAUSE WRITE). For a switch-over by hand.
 *
 * The server ends the pause by itself, so a tool that died never leaves a primary paused. Reads,
 * INFO, DUMP and events go on, so the table and its agents get level meanwhile.
 *
 * A later pause moves the end away, and none moves it nearer. A pause of 0 ends it at once.
 *
 * Loop thread only.
 */
#ifndef KW_PROXY_SOURCE_PAUSE_H
#define KW_PROXY_SOURCE_PAUSE_H

#include "base/error.h"

#include <stdint.h>

struct kw_source;

/* error: NULL when the server took it. KW_E_REFUSED: it did not, and the sentence has the remedy.
 */
typedef void (*kw_source_paused_fn)(void *arg, const struct kw_error *error);

/*
 * Called once, perhaps before this returns: KW_E_STATE when the proxy is not connected, KW_E_IO
 * when the connection was lost before the answer. Then the server may have been paused all the
 * same.
 */
void kw_source_pause_writes(
	struct kw_source *source, uint32_t ms, kw_source_paused_fn done, void *arg);

#endif
