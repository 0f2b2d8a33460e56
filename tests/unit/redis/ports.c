#include "ports.h"

#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/socket.h>

/*
 * Below those that kernels give to connections, and kept to the end of this process: bound, at all
 * addresses. SO_REUSEADDR, which servers set too, comes behind the bind. With it, two processes
 * could have one port.
 */
int test_free_port(void)
{
	enum { FIRST = 10000, COUNT = 22000, TRIES = 1000 };
	struct sockaddr_in address = {.sin_family = AF_INET};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	for (int i = 0; i < TRIES; i++) {
		uint16_t number;

		if (getrandom(&number, sizeof number, 0) != sizeof number)
			abort();
		number = (uint16_t)(FIRST + number % COUNT);
		address.sin_port = htons(number);
		if (bind(fd, (struct sockaddr *)&address, sizeof address) == 0) {
			setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
			return number;
		}
	}
	perror("no port is free");
	abort();
}
