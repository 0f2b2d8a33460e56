/*
 * A unix socket that listens at a path: making its file, telling a stale one from one that answers,
 * and taking it away again. Any thread.
 */
#ifndef KW_CONTROL_SOCKET_FILE_H
#define KW_CONTROL_SOCKET_FILE_H

#include "base/error.h"

#include <sys/stat.h>

/* How sentences call it: "control socket", and the configuration key that names its path. */
struct kw_socket_use {
	const char *what, *key;
};

/*
 * The descriptor, which listens; *identity is the file's. Below 0: minus an enum kw_code, and the
 * sentence names path and remedy. The file has mode 0660. A stale one is replaced, one that answers
 * is KW_E_STATE. Who sees the file can connect: it appears when the socket listens.
 */
int kw_socket_file_listen(const struct kw_socket_use *use, const char *path, struct stat *identity,
	struct kw_error *error);

/* Remove the file, unless it is a successor's by now. */
void kw_socket_file_remove(const char *path, const struct stat *identity);

#endif
