/* What every tcp connection of ours is set to, and how its ends are named for people. Any thread.
 */
#ifndef KW_REMOTE_SOCKET_H
#define KW_REMOTE_SOCKET_H

#include "auth/channel.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/*
 * No delay for small frames. If a peer's host is gone, keepalive finds it while idle, and
 * TCP_USER_TIMEOUT while bytes are under way. The latter also finds an agent that does not read for
 * that long.
 */
void kw_tcp_socket_tune(int fd);

/* "10.0.0.1:7471", "[::1]:7471". */
void kw_tcp_socket_text(const struct sockaddr *name, socklen_t length, char *text, size_t size);

/* False: no address of the internet. */
bool kw_tcp_socket_endpoint(const struct sockaddr *name, struct kw_endpoint *endpoint);

/*
 * What a connected socket is bound to: the address of the proxy's end. That is the other end at the
 * agent (peer), and the own one at the proxy. 0, or errno.
 */
int kw_tcp_socket_channel(int fd, bool peer, struct kw_channel *channel);

/* What counts as one peer (slots.h). */
uint64_t kw_tcp_socket_peer(const struct sockaddr *name);

#endif
