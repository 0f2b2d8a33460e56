/*
 * A file that appears only when it is whole.
 *
 * It grows without a name in its folder (O_TMPFILE). If the file system has no O_TMPFILE, it has a
 * temporary name, which is removed when a signal ends the program. `commit` writes it to the disk
 * and gives it its name in one step: a reader sees the old file or the new one. It belongs to the
 * caller, mode 0600. A symbolic link is followed.
 */
#ifndef KW_CTL_TARGET_H
#define KW_CTL_TARGET_H

#include "base/error.h"

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

struct ctl_target {
	char path[PATH_MAX];   /* the name it gets */
	char folder[PATH_MAX]; /* of it */
	char making[PATH_MAX]; /* its name until then; "": none */
	uint64_t bytes;        /* written */
	int fd;
};

/* KW_E_ARGUMENT: the path is not a regular file, or its folder does not exist. KW_E_IO. */
int ctl_target_open(struct ctl_target *target, const char *path, struct kw_error *error);

/* KW_E_FULL: no space, or a quota; KW_E_IO. Then only discard is left. */
int ctl_target_write(
	struct ctl_target *target, const void *bytes, size_t length, struct kw_error *error);

/* One of the two ends it; after a failure of commit too, no file is left. */
int ctl_target_commit(struct ctl_target *target, struct kw_error *error);
void ctl_target_discard(struct ctl_target *target);

#endif
