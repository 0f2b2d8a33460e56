/*
 * The last changes of a daemon's state, kept over restarts in a small file (transitions.h).
 *
 * A change is written at most a second after it came, and all of them when the file is closed. The
 * new file takes the old one's place in one step, without waiting for the disk: after a crash of
 * the daemon at most that second is lost. A file that cannot be read or written is said in the log,
 * and nothing else comes of it. Loop thread only.
 */
#ifndef KW_CONTROL_TRANSITIONS_FILE_H
#define KW_CONTROL_TRANSITIONS_FILE_H

#include "control/transitions.h"

#include <uv.h>

#define KW_TRANSITIONS_WRITE_MS 1000

struct kw_transitions_file {
	char path[4096]; /* "": none is kept */
	struct kw_transitions *ring;
	uv_timer_t timer; /* active: the ring is newer than the file */
	int failed;       /* errno of the last attempt to write */
};

/* Read it into the ring, which is empty and outlives this. path "": nothing is kept. */
void kw_transitions_file_open(struct kw_transitions_file *file, uv_loop_t *loop, const char *path,
	struct kw_transitions *ring);

/* The ring has changed. */
void kw_transitions_file_changed(struct kw_transitions_file *file);

/* Write what is not written. The memory may be reused once the loop has closed the handle. */
void kw_transitions_file_close(struct kw_transitions_file *file);

#endif
