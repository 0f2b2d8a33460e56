/*
 * An IP address and a port, as they are compared and travel on the wire.
 *
 * IPv4 addresses are mapped into IPv6 (::ffff:a.b.c.d), so that an address has one form only. The
 * scope id of a link-local address is left out: it is a number of one host. Pure; any thread.
 */
#ifndef KW_AUTH_ENDPOINT_H
#define KW_AUTH_ENDPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KW_ENDPOINTS_MAX 64
#define KW_ENDPOINT_TEXT 64

struct kw_endpoint {
	uint8_t address[16];
	uint16_t port;
};

struct kw_endpoints {
	int count;
	struct kw_endpoint items[KW_ENDPOINTS_MAX];
};

struct kw_endpoint kw_endpoint_four(const uint8_t address[4], uint16_t port);
struct kw_endpoint kw_endpoint_six(const uint8_t address[16], uint16_t port);

/* "10.0.0.9:7000" or "[fd00::1]:7000". False: it is neither; names are not resolved. */
bool kw_endpoint_parse(const char *text, struct kw_endpoint *endpoint);

/* The same two forms. */
void kw_endpoint_text(const struct kw_endpoint *endpoint, char *text, size_t size);

bool kw_endpoint_equal(const struct kw_endpoint *one, const struct kw_endpoint *two);

#endif
