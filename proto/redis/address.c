#include "redis/address.h"

#include "tls/context.h"

#include <arpa/inet.h>
#include <assert.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FORMS                                                                                      \
	"write unix:///path/of.sock, tcp://host:port or redis://host:port, or rediss://host:port " \
	"for TLS"

static int parse_local(const char *text, struct kw_redis_address *address, struct kw_error *error)
{
	const char *path = text + strlen("unix://");

	if (path[0] != '/')
		return kw_error_set(error, KW_E_CONFIG,
			"redis address \"%s\": the path must be absolute; " FORMS, text);
	if (strlen(path) >= sizeof address->path)
		return kw_error_set(error, KW_E_CONFIG,
			"redis address \"%s\": a socket's path has at most %zu bytes; " FORMS, text,
			sizeof address->path - 1);
	address->scheme = KW_REDIS_UNIX;
	memcpy(address->path, path, strlen(path) + 1);
	return 0;
}

/* The end of the host in "host:port" or "[v6]:port", and where it begins; NULL when malformed. */
static const char *host_end(const char **host)
{
	const char *end;

	if (**host == '[') {
		(*host)++;
		end = strchr(*host, ']');
		return end && end[1] == ':' ? end : NULL;
	}
	end = strrchr(*host, ':');
	/* Two colons without brackets: an IPv6 number whose port cannot be told from its tail. */
	if (end && memchr(*host, ':', (size_t)(end - *host)))
		return NULL;
	return end;
}

static bool parse_port(const char *text, char port[6])
{
	unsigned long number;
	size_t digits = strspn(text, "0123456789");

	if (digits == 0 || digits > 5 || text[digits] != '\0')
		return false;
	number = strtoul(text, NULL, 10);
	if (number < 1 || number > UINT16_MAX)
		return false;
	snprintf(port, 6, "%lu", number);
	return true;
}

/* host: what stands after the scheme in text. */
static int parse_remote(const char *text, const char *host, struct kw_redis_address *address,
	struct kw_error *error)
{
	const char *end = host_end(&host);
	size_t length = end ? (size_t)(end - host) : 0;

	if (length == 0 || length >= sizeof address->host)
		return kw_error_set(error, KW_E_CONFIG,
			"redis address \"%s\": no host and port; " FORMS
			" (an IPv6 number in brackets)",
			text);
	if (!parse_port(strrchr(end, ':') + 1, address->port))
		return kw_error_set(error, KW_E_CONFIG,
			"redis address \"%s\": the port is not a number from 1 to 65535; " FORMS,
			text);
	memcpy(address->host, host, length);
	address->host[length] = '\0';
	return 0;
}

int kw_redis_address_parse(
	const char *text, struct kw_redis_address *address, struct kw_error *error)
{
	static const struct {
		const char *prefix;
		enum kw_redis_scheme scheme;
	} remote[] = {
		{"tcp://", KW_REDIS_TCP},
		{"redis://", KW_REDIS_TCP},
		{"rediss://", KW_REDIS_TLS},
	};

	assert(text);
	*address = (struct kw_redis_address){0};
	if (strncmp(text, "unix://", strlen("unix://")) == 0)
		return parse_local(text, address, error);
	for (size_t i = 0; i < sizeof remote / sizeof *remote; i++) {
		size_t length = strlen(remote[i].prefix);

		if (strncmp(text, remote[i].prefix, length) != 0)
			continue;
		address->scheme = remote[i].scheme;
		return parse_remote(text, text + length, address, error);
	}
	return kw_error_set(error, KW_E_CONFIG, "redis address \"%s\": " FORMS, text);
}

int kw_redis_address_check(const char *text, struct kw_error *error)
{
	struct kw_redis_address address;

	if (kw_redis_address_parse(text, &address, error))
		return KW_E_CONFIG;
	if (address.scheme == KW_REDIS_TLS && !kw_tls_is_built())
		return kw_error_set(error, KW_E_CONFIG,
			"redis address \"%s\": this build has no TLS: use a package that has it, "
			"or build with -Dtls=enabled",
			text);
	return KW_OK;
}

/* A number, not a name that begins like one: names lead anywhere. */
static bool is_loopback(const char *host)
{
	const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
	struct in6_addr six;
	struct in_addr four;

	if (inet_pton(AF_INET, host, &four) == 1)
		return ntohl(four.s_addr) >> 24 == IN_LOOPBACKNET;
	if (inet_pton(AF_INET6, host, &six) != 1)
		return false;
	return IN6_IS_ADDR_LOOPBACK(&six) ||
	       (memcmp(&six, mapped, sizeof mapped) == 0 && six.s6_addr[12] == IN_LOOPBACKNET);
}

bool kw_redis_address_near(const struct kw_redis_address *address)
{
	return address->scheme == KW_REDIS_UNIX || is_loopback(address->host) ||
	       strcmp(address->host, "localhost") == 0;
}
