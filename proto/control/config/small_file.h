/* Small files that are read whole: configuration, secrets, users. Any thread. */
#ifndef KW_CONTROL_CONFIG_SMALL_FILE_H
#define KW_CONTROL_CONFIG_SMALL_FILE_H

#include "base/buffer.h"
#include "base/error.h"

#include <stddef.h>

/* Who else may have the file in hand. */
enum kw_file_care {
	KW_FILE_ANY,
	KW_FILE_PRIVATE, /* users who are neither owner nor of its group may do nothing with it */
	/* The same, its group may only read it, and root or this process's user owns it. */
	KW_FILE_SECRET,
};

/*
 * Open a small regular file and append all of it to out, which grows once at most: no copy of a
 * secret stays behind. `what` it is called ("the secret file"); the sentences name the file and
 * the remedy.
 */
int kw_small_file_read(const char *file, size_t most, enum kw_file_care care, const char *what,
	struct kw_buffer *out, struct kw_error *error);

#endif
