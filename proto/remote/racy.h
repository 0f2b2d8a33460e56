/*
 * Reads that race with the table's writer by design.
 *
 * A one-sided READ samples memory while the proxy writes it. A torn sample fails its checksum and
 * is read again (proto/table/FORMAT.md, reading). To the C memory model that is a data race all the
 * same, and ThreadSanitizer is right to say so. Only these two functions do it. So the sanitizer
 * can be told about them, and still checks everything else.
 */
#ifndef KW_REMOTE_RACY_H
#define KW_REMOTE_RACY_H

#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

/* memcpy out of memory that another thread or process might be writing. */
void kw_racy_copy(void *to, const void *from, size_t length);

/* sendmsg out of such memory. */
ssize_t kw_racy_sendmsg(int fd, const struct msghdr *message, int flags);

#endif
