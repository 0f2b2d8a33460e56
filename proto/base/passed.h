/*
 * Sockets that systemd opened and passed on (LISTEN_PID, LISTEN_FDS, LISTEN_FDNAMES;
 * sd_listen_fds(3)). systemd keeps them open, so their ports stay taken while this process is dead.
 *
 * Any thread, as long as the environment is not changed.
 */
#ifndef KW_BASE_PASSED_H
#define KW_BASE_PASSED_H

#include <stddef.h>

#define KW_PASSED_NAME 64
#define KW_PASSED_MOST 64 /* sockets looked at */

/* The descriptor of this name (FileDescriptorName=) for this process; -1: there is none. */
int kw_passed_fd(const char *name);

/* The same from the texts, of which each may be NULL. Pure. */
int kw_passed_find(
	const char *name, const char *pid, const char *count, const char *names, long self);

#endif
