/*
 * The daemon's program, run to look at its own configuration: `keywake-agent --doctor --config
 * FILE`. It is found beside keywakectl, as the file of the running daemon, or in PATH.
 *
 * When root asks about a running daemon, the program runs as that daemon's user, with its limit of
 * locked memory and in its folder: what the daemon may do is what counts.
 */
#ifndef KW_CTL_DOCTOR_CHILD_H
#define KW_CTL_DOCTOR_CHILD_H

#include "base/buffer.h"
#include "base/error.h"
#include "control/rpc/rpc.h"

#include <stdbool.h>

#define CTL_DOCTOR_MS 15000
#define CTL_DOCTOR_OUTPUT_MAX ((size_t)1 << 20)

struct ctl_doctor_child {
	const char *program; /* "keywake-agent" */
	const char *file;    /* of --config; NULL: `config` is */
	int config;          /* a descriptor whose content is the configuration; -1: none */
	bool runs;           /* a daemon runs, and is: */
	struct kw_rpc_daemon daemon;
};

/*
 * What it printed on standard output; its standard error is ours. KW_E_IO: it cannot be run, or has
 * printed nothing. KW_E_TIMEOUT: it has taken longer than CTL_DOCTOR_MS.
 */
int ctl_doctor_run_child(
	const struct ctl_doctor_child *child, struct kw_buffer *output, struct kw_error *error);

#endif
