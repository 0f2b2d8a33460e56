/*
 * The keeper: where the table's memory is between two processes of a proxy.
 *
 *   table.keep_file ""     systemd holds the descriptor of the memory itself (its file descriptor
 *                          store). Nothing is copied, and the pages stay where they are.
 *   table.keep_file FILE   the memory is copied into a file on a tmpfs, and out of it again
 *
 * An agent over shm has mapped the memory, and a mapping cannot be taken back. So if any key that
 * could map it is not valid any more, what systemd held is copied into other memory at the start.
 *
 * The memory is handed over at the clean end only: what a killed process leaves behind is not used,
 * and is not to take memory either. Whoever takes it removes it first, so no process finds it
 * twice.
 *
 * Memory of huge pages is never kept. Sealed memory (table.seal) can be copied, but not handed
 * over: no other process can write it.
 */
#ifndef KW_PROXY_KEEPER_H
#define KW_PROXY_KEEPER_H

#include "base/error.h"
#include "control/config/config.h"
#include "remote/memory.h"

#include <stdbool.h>

/* Can a table be kept, as the configuration is and as this process was started? */
bool kw_keeper_can(const struct kw_config *config);

/*
 * Open *memory as what the process before left. KW_E_GONE: it left nothing, or nothing is to be
 * kept. KW_E_CONFIG: table.keep_file cannot be used at all. Other codes: what it left cannot be
 * used; it is gone now. *memory is closed unless the answer is KW_OK. readers: as in struct
 * kw_keep_terms, of this process.
 */
int kw_keeper_take(const struct kw_config *config, uint64_t readers, struct kw_memory *memory,
	struct kw_error *error);

/*
 * Leave the memory to the next process. Nobody writes or reads it any more. Its bytes may be gone
 * afterwards.
 */
int kw_keeper_put(const struct kw_config *config, struct kw_memory *memory, struct kw_error *error);

#endif
