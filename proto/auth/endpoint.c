#include "auth/endpoint.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

struct kw_endpoint kw_endpoint_four(const uint8_t address[4], uint16_t port)
{
	struct kw_endpoint endpoint = {.port = port};

	memcpy(endpoint.address, mapped, sizeof mapped);
	memcpy(endpoint.address + sizeof mapped, address, 4);
	return endpoint;
}

struct kw_endpoint kw_endpoint_six(const uint8_t address[16], uint16_t port)
{
	struct kw_endpoint endpoint = {.port = port};

	memcpy(endpoint.address, address, sizeof endpoint.address);
	return endpoint;
}

/* All of the text must be a port: 1 to 65535. 0: it is none. */
static uint16_t parse_port(const char *text)
{
	size_t digits = strspn(text, "0123456789");
	long port;

	if (digits == 0 || digits > 5 || text[digits] != 0)
		return 0;
	port = strtol(text, NULL, 10);
	return port <= UINT16_MAX ? (uint16_t)port : 0;
}

bool kw_endpoint_parse(const char *text, struct kw_endpoint *endpoint)
{
	const char *colon = strrchr(text, ':');
	char host[INET6_ADDRSTRLEN] = "";
	uint8_t address[16];
	size_t length;
	uint16_t port;

	if (!colon)
		return false;
	port = parse_port(colon + 1);
	length = (size_t)(colon - text);
	if (port == 0 || length == 0 || length >= sizeof host + 2)
		return false;
	if (text[0] == '[' && length > 2 && text[length - 1] == ']') {
		if (length - 2 >= sizeof host)
			return false;
		memcpy(host, text + 1, length - 2);
		if (inet_pton(AF_INET6, host, address) != 1)
			return false;
		*endpoint = kw_endpoint_six(address, port);
		return true;
	}
	if (length >= sizeof host)
		return false;
	memcpy(host, text, length);
	if (inet_pton(AF_INET, host, address) != 1)
		return false;
	*endpoint = kw_endpoint_four(address, port);
	return true;
}

void kw_endpoint_text(const struct kw_endpoint *endpoint, char *text, size_t size)
{
	char host[INET6_ADDRSTRLEN] = "?";
	bool four = memcmp(endpoint->address, mapped, sizeof mapped) == 0;

	if (four)
		inet_ntop(AF_INET, endpoint->address + sizeof mapped, host, sizeof host);
	else
		inet_ntop(AF_INET6, endpoint->address, host, sizeof host);
	snprintf(text, size, four ? "%s:%u" : "[%s]:%u", host, endpoint->port);
}

bool kw_endpoint_equal(const struct kw_endpoint *one, const struct kw_endpoint *two)
{
	return one->port == two->port &&
	       memcmp(one->address, two->address, sizeof one->address) == 0;
}
