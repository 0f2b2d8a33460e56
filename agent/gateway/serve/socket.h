/*
 * The bytes of one client: a socket, or TLS on it. Answers are those of recv(2) and send(2): -1 and
 * EAGAIN if the socket must become ready first. What was not written is given again, from the same
 * place and as long at least. Loop thread only.
 */
#ifndef KW_AGENT_GATEWAY_SERVE_SOCKET_H
#define KW_AGENT_GATEWAY_SERVE_SOCKET_H

#include "tls/channel.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct kw_socket {
	int fd;
	bool halted;                /* TLS: a record was begun, and the socket took a part of it */
	struct kw_tls_channel *tls; /* NULL: plain; else it is open */
};

/*
 * Would a handshake with this context let it in, as far as its certificate tells? Always if it is
 * plain, was made of this context, or this one demands none.
 */
bool kw_socket_is_admitted(const struct kw_socket *socket, const struct kw_tls_context *context);

ssize_t kw_socket_read(struct kw_socket *socket, void *to, size_t room);
ssize_t kw_socket_write(struct kw_socket *socket, const void *from, size_t length);

/* Would a read find something that no poll of the socket shows? */
bool kw_socket_pending(const struct kw_socket *socket);

/* Nothing more is written: the peer is told, if it can be without waiting. */
void kw_socket_farewell(struct kw_socket *socket);

/* And the socket. */
void kw_socket_close(struct kw_socket *socket);

#endif
