/* --check-config: all that is wrong with a configuration, and with the files that it names. */
#ifndef KW_CONTROL_CONFIG_CHECK_H
#define KW_CONTROL_CONFIG_CHECK_H

#include "control/config/config.h"

/*
 * Say it on standard error, a line each, and one line on standard output about the whole. config
 * NULL: the file could not be read at all. name: of the configuration, for that line. Returns true
 * if a daemon could start with it.
 */
bool kw_config_check(const struct kw_config *config, const struct kw_config_program *program,
	const struct kw_config_mistakes *mistakes, const char *name);

/* "program: before sentence" on standard error, safe for a terminal. */
void kw_config_say(const char *program, const char *before, const char *sentence);

#endif
