#include "remote/carrier.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const struct {
	const char *scheme, *name;
} carriers[] = {
	[KW_CARRIER_SHM] = {"shm://", "shm"},
	[KW_CARRIER_TCP] = {"tcp://", "tcp"},
	[KW_CARRIER_RDMA] = {"rdma://", "rdma"},
	[KW_CARRIER_TLS] = {"tcp+tls://", "tcp+tls"},
};

#define CARRIERS ((int)(sizeof carriers / sizeof *carriers))
#define FORMS                                                                                      \
	"shm:///path.sock, tcp://host:port, tcp+tls://host:port or rdma://host:port (IPv6 as "     \
	"[::1])"

const char *kw_carrier_name(enum kw_carrier carrier)
{
	return (int)carrier < CARRIERS ? carriers[carrier].name : "unknown";
}

static int parse_path(
	const char *text, const char *path, struct kw_address *address, struct kw_error *error)
{
	if (path[0] != '/')
		return kw_error_set(error, KW_E_CONFIG,
			"address \"%s\": the path must be absolute: shm:///path.sock", text);
	if (strlen(path) >= sizeof address->path)
		return kw_error_set(error, KW_E_CONFIG,
			"address \"%s\": the path is longer than a socket's may be (%zu bytes)",
			text, sizeof address->path - 1);
	strcpy(address->path, path);
	return 0;
}

/* The digits after the last colon; -1: no port. */
static int parse_port(const char *text)
{
	size_t digits = strspn(text, "0123456789");
	long port;

	if (digits == 0 || digits > 5 || text[digits] != 0)
		return -1;
	port = strtol(text, NULL, 10);
	return port <= UINT16_MAX ? (int)port : -1;
}

static int parse_host(
	const char *text, const char *host, struct kw_address *address, struct kw_error *error)
{
	const char *colon = strrchr(host, ':');
	struct in6_addr numeric;
	size_t length;
	int port;

	if (!colon || (port = parse_port(colon + 1)) < 0)
		return kw_error_set(
			error, KW_E_CONFIG, "address \"%s\": no port; use " FORMS, text);
	length = (size_t)(colon - host);
	if (host[0] == '[' && length > 2 && host[length - 1] == ']') {
		host++;
		length -= 2;
	} else if (memchr(host, ':', length) || memchr(host, '[', length)) {
		return kw_error_set(error, KW_E_CONFIG,
			"address \"%s\": an IPv6 address goes in brackets; use " FORMS, text);
	}
	if (length == 0 || length >= sizeof address->host)
		return kw_error_set(
			error, KW_E_CONFIG, "address \"%s\": no host; use " FORMS, text);
	memcpy(address->host, host, length);
	address->host[length] = 0;
	if (host[-1] == '[' && strchr(address->host, '%') == NULL &&
		inet_pton(AF_INET6, address->host, &numeric) != 1)
		return kw_error_set(error, KW_E_CONFIG,
			"address \"%s\": what is in brackets is no IPv6 address", text);
	if (strpbrk(address->host, "/ \t@"))
		return kw_error_set(error, KW_E_CONFIG,
			"address \"%s\": the host has characters it may not have; use " FORMS,
			text);
	address->port = (uint16_t)port;
	return 0;
}

int kw_address_parse(const char *text, struct kw_address *address, struct kw_error *error)
{
	*address = (struct kw_address){0};
	for (int i = 0; i < CARRIERS; i++) {
		size_t length = strlen(carriers[i].scheme);

		if (strncmp(text, carriers[i].scheme, length) != 0)
			continue;
		address->carrier = (enum kw_carrier)i;
		if (i == KW_CARRIER_SHM)
			return parse_path(text, text + length, address, error);
		return parse_host(text, text + length, address, error);
	}
	return kw_error_set(error, KW_E_CONFIG, "address \"%s\" is none: use " FORMS, text);
}

bool kw_address_is_local(const struct kw_address *address)
{
	struct in6_addr six;
	struct in_addr four;

	if (address->carrier == KW_CARRIER_SHM)
		return true;
	if (strcasecmp(address->host, "localhost") == 0)
		return true;
	if (inet_pton(AF_INET, address->host, &four) == 1)
		return ntohl(four.s_addr) >> 24 == 127;
	if (inet_pton(AF_INET6, address->host, &six) != 1)
		return false;
	if (IN6_IS_ADDR_V4MAPPED(&six))
		return six.s6_addr[12] == 127;
	return IN6_IS_ADDR_LOOPBACK(&six);
}

int kw_address_check_guard(
	const struct kw_address *address, bool guarded, bool listens, struct kw_error *error)
{
	char text[KW_ADDRESS_TEXT];

	if (guarded || address->carrier == KW_CARRIER_SHM)
		return 0;
	kw_address_text(address, text, sizeof text);
	if (!listens)
		return kw_error_set(error, KW_E_CONFIG,
			"%s is no proof of who listens there, and there is no secret: set "
			"auth.secret_file on both sides, use shm://, or set "
			"auth.allow_insecure=true",
			text);
	if (kw_address_is_local(address))
		return kw_error_set(error, KW_E_CONFIG,
			"%s is open to every user of this host and there is no secret: set "
			"auth.secret_file, listen on shm://, or set auth.allow_insecure=true",
			text);
	return kw_error_set(error, KW_E_CONFIG,
		"%s is open to other hosts and there is no secret: set auth.secret_file or "
		"auth.keys_file, or "
		"auth.allow_insecure=true",
		text);
}

void kw_address_text(const struct kw_address *address, char *text, size_t size)
{
	const char *scheme = carriers[address->carrier].scheme;
	bool six = strchr(address->host, ':') != NULL;

	if (address->carrier == KW_CARRIER_SHM)
		snprintf(text, size, "%s%s", scheme, address->path);
	else
		snprintf(text, size, "%s%s%s%s:%u", scheme, six ? "[" : "", address->host,
			six ? "]" : "", address->port);
}

int kw_carrier_missing(const struct kw_address *address, struct kw_error *error)
{
	char text[KW_ADDRESS_TEXT];

	kw_address_text(address, text, sizeof text);
	return kw_error_set(error, KW_E_CONFIG,
		"%s: this build has no %s carrier (use shm:///path.sock on one host, or "
		"tcp://host:port)",
		text, kw_carrier_name(address->carrier));
}

int kw_address_check(const char *text, struct kw_error *error)
{
	struct kw_address address;

	int code = kw_address_parse(text, &address, error);

#ifndef KW_HAVE_RDMA
	if (code == 0 && address.carrier == KW_CARRIER_RDMA)
		return kw_carrier_missing(&address, error);
#endif
	if (code == 0 && address.carrier == KW_CARRIER_TLS && !kw_tls_is_built())
		return kw_carrier_missing(&address, error);
	return code;
}

int kw_rdma_device_check(const char *text, struct kw_error *error)
{
	if (strlen(text) >= KW_RDMA_DEVICE_MAX)
		return kw_error_set(error, KW_E_CONFIG, "longer than the %d characters of a device",
			KW_RDMA_DEVICE_MAX - 1);
	for (const char *c = text; *c; c++)
		if (*c < 0x21 || *c > 0x7e || *c == '/')
			return kw_error_set(error, KW_E_CONFIG,
				"\"%s\" is no name of an RDMA device (`rdma link` shows them; "
				"mlx5_0, say, without the port)",
				text);
	return KW_OK;
}
