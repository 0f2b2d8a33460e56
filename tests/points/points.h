/*
 * Fault points: calls to the system, of which the n-th is made to fail.
 *
 * points.c defines these functions of libc itself, in front of libc's own. Linked into a test, it
 * is told by kw_point_arm. Loaded before a daemon (LD_PRELOAD), it is told by the environment:
 *
 *   KW_POINT=write:3:ENOSPC       the third call of write fails once
 *   KW_POINT=malloc:100+:ENOMEM   the hundredth and all after it
 *   KW_POINT_SHORT=7              reads and writes move 1 to 7 bytes at a time
 *   KW_POINT_EINTR=5              about one read or write in five is interrupted first
 *   KW_POINT_PROGRAM=keywake-     only in processes whose name begins so
 *   KW_POINT_LOG=FILE             the line "write 3" is appended to it when the point fires
 *
 * Calls that libc and the libraries make of these functions count too, as far as they go by their
 * public names. Any thread.
 */
#ifndef KW_TESTS_POINTS_H
#define KW_TESTS_POINTS_H

#include <stdbool.h>
#include <stddef.h>

/* The names that can be armed; NULL ends them. */
extern const char *const kw_point_names[];

/* The n-th call of it from now (1 …) fails once with this errno. n 0: none. */
void kw_point_arm(const char *name, unsigned n, int errnum);

/* Did it fail since it was armed? A sweep ends when n is beyond the last call. */
bool kw_point_fired(void);

/* Reads and writes of 1 to `most` bytes; 0: as they are. interrupt: EINTR about every so many. */
void kw_point_short(unsigned most, unsigned interrupt);

#endif
