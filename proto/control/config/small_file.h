/* Small files that are read whole: configuration, secrets, users. Any thread. */
#ifndef KW_CONTROL_CONFIG_SMALL_FILE_H
#define KW_CONTROL_CONFIG_SMALL_FILE_H

#include "base/buffer.h"
#include "base/error.h"

#include <stddef.h>

/* Permission bits of all who are neither the owner nor of the file's group. */
#define KW_MODE_OF_OTHERS 007U

/*
 * Open a small regular file and append all of it to out. The sentences name the file;
 * mode_refused: permission bits the file must not have, `what` it is called ("a secret").
 */
int kw_small_file_read(const char *file, size_t most, unsigned mode_refused, const char *what,
	struct kw_buffer *out, struct kw_error *error);

#endif
