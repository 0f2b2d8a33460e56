/*
 * The life of a daemon's process, the same for each of them: command line, log, loop, end. A daemon
 * names its parts in a struct kw_program, and its main calls kw_program_run.
 *
 * The process cannot be dumped or attached to, unless root does it, or KW_DUMPABLE=1 is in its
 * environment (for a debugger).
 */
#ifndef KW_CONTROL_PROGRAM_H
#define KW_CONTROL_PROGRAM_H

#include "control/config/config.h"

#include <uv.h>

struct kw_program {
	const char *name;      /* of the binary */
	const char *component; /* its lines in the log */
	const struct kw_config_key *keys;
	kw_config_rule_fn rule;  /* on all keys together */
	kw_config_look look;     /* for --check-config; NULL: nothing to look at */
	kw_config_doctor doctor; /* for --doctor */
	/*
	 * Start on the loop. On failure the daemon shuts itself down: what it has left on the loop
	 * comes to its end there.
	 */
	int (*start)(uv_loop_t *loop, struct kw_config *config, struct kw_error *error);
	void (*finish)(void); /* when the loop has ended, also after a start that failed */
};

/*
 * Returns the exit status: 0 after an orderly end, 1 after a failure that a later start may not
 * meet, 2 for a wrong command line or configuration (RestartPreventExitStatus=2 in the units).
 */
int kw_program_run(const struct kw_program *program, int argc, char **argv);

#endif
