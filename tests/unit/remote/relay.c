#include "relay.h"

#include "remote/socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

struct relay relay_open(struct fixture *fixture, size_t piece)
{
	struct sockaddr_in name = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct relay relay = {
		.fixture = fixture, .agent = -1, .proxy = -1, .piece = piece, .flip_from = -1};
	socklen_t length = sizeof name;

	relay.listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(relay.listen_fd, (struct sockaddr *)&name, length), 0);
	assert_int_equal(listen(relay.listen_fd, 1), 0);
	assert_int_equal(getsockname(relay.listen_fd, (struct sockaddr *)&name, &length), 0);
	relay.address = fixture->address;
	relay.address.port = ntohs(name.sin_port);
	return relay;
}

void relay_pass(struct relay *relay, int from, int to)
{
	uint8_t bytes[4096];
	ssize_t got = recv(from, bytes, relay->piece, MSG_DONTWAIT), sent;

	if (got > 0 && relay->flip_from == from) {
		bytes[got - 1] ^= 1;
		relay->flip_from = -1;
	}
	if (got > 0) {
		kw_tcp_socket_tune(to);
		/* The other end may have gone meanwhile. */
		sent = send(to, bytes, (size_t)got, MSG_NOSIGNAL);
		assert_true(sent == got || errno == EPIPE || errno == ECONNRESET);
		relay->passed += (uint64_t)got;
	}
}

void relay_turn(struct relay *relay)
{
	if (relay->agent < 0)
		relay->agent = accept4(relay->listen_fd, NULL, NULL, SOCK_CLOEXEC);
	if (relay->agent < 0)
		return;
	if (relay->proxy < 0)
		relay->proxy = raw_socket(&relay->fixture->address);
	relay_pass(relay, relay->agent, relay->proxy);
	relay_pass(relay, relay->proxy, relay->agent);
}

void relay_end(struct relay *relay)
{
	char byte;

	if (recv(relay->proxy, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0)
		(void)shutdown(relay->agent, SHUT_RDWR);
}

void relay_close(struct relay *relay)
{
	close(relay->listen_fd);
	close(relay->agent);
	close(relay->proxy);
}
