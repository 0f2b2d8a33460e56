/*
 * Small files that are read and replaced whole: configuration, secrets, users, what a daemon keeps.
 * Any thread.
 */
#ifndef KW_CONTROL_CONFIG_SMALL_FILE_H
#define KW_CONTROL_CONFIG_SMALL_FILE_H

#include "base/buffer.h"
#include "base/error.h"

#include <stddef.h>

/* Who else may have the file in hand. */
enum kw_file_care {
	KW_FILE_ANY,
	/*
	 * Root or this process's user owns it, its group may read it and no more, and others may do
	 * nothing with it. So for all that lets somebody in: secrets, passwords, users.
	 */
	KW_FILE_SECRET,
	/*
	 * Others may read it. Only its owner may write it: root, or this process's user. Root also
	 * checks for daemons with other users, so for root the owner may be that of the folder.
	 */
	KW_FILE_OWN,
};

/*
 * Open a small regular file and append all of it to out, which grows once at most: no copy of a
 * secret stays behind. `what` it is called ("the secret file"); the sentences name the file and
 * the remedy.
 */
int kw_small_file_read(const char *file, size_t most, enum kw_file_care care, const char *what,
	struct kw_buffer *out, struct kw_error *error);

/* Must it be on the disk when the call returns? Without that, a power failure can lose it. */
enum kw_file_sync {
	KW_FILE_SYNCED,
	KW_FILE_UNSYNCED,
};

/*
 * Put this text in the file's place, mode 0600: beside it first, so that a crash leaves the old one
 * or the new one. Returns 0, or an errno, and then the old file stays.
 */
int kw_small_file_replace(
	const char *file, const char *text, size_t length, enum kw_file_sync sync);

#endif
