/*
 * Arbitrary bytes as an address of http.listen, and as Host and Authorization of a request: who is
 * let in is written down here a second time, in another way.
 *
 * The first byte chooses: an address (bit 0), or a request at a server of this reach, with a secret
 * (bit 1) or without. A request's first line is the Host, and the second the Authorization.
 */
#include "fuzz.h"

#include "control/http/address.h"
#include "control/http/guard.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define SECRET "a secret of sixteen and more"
#define LOGIN "a2V5d2FrZTphIHNlY3JldCBvZiBzaXh0ZWVuIGFuZCBtb3Jl"

static const struct kw_fuzz_bytes seeds[] = {
	KW_FUZZ_BYTES("\x01tcp://127.0.0.1:9121"),
	KW_FUZZ_BYTES("\x01tcp://localhost:1"),
	KW_FUZZ_BYTES("\x01tcp://[::1]:65535"),
	KW_FUZZ_BYTES("\x01tcp://[fe80::1%eth0]:80"),
	KW_FUZZ_BYTES("\x01tcp://[]:80"),
	KW_FUZZ_BYTES("\x01tcp://]:80"),
	KW_FUZZ_BYTES("\x01unix:///run/keywake/http.sock"),
	KW_FUZZ_BYTES("\x02" SECRET "\nBearer " SECRET),
	KW_FUZZ_BYTES("\x06host\nbAsIc " LOGIN),
	KW_FUZZ_BYTES("\x04"
		      "127.0.0.1:9121\nBearer x"),
	KW_FUZZ_BYTES("\x04[::1]:80"),
	KW_FUZZ_BYTES("\x04[::1].example"),
	KW_FUZZ_BYTES("\x04localhost:80"),
};

/* ---- addresses ---- */

static int is_loopback(const struct kw_http_address *address)
{
	static const uint8_t one[16] = {[15] = 1};
	const struct sockaddr_in *ip4 = (const struct sockaddr_in *)&address->tcp;
	const struct sockaddr_in6 *ip6 = (const struct sockaddr_in6 *)&address->tcp;

	if (address->tcp.ss_family == AF_INET)
		return *(const uint8_t *)&ip4->sin_addr == 127;
	must(address->tcp.ss_family == AF_INET6);
	return memcmp(&ip6->sin6_addr, one, sizeof one) == 0;
}

static void try_address(const char *text)
{
	struct kw_http_address address;
	struct kw_error error = {0};
	int code = kw_http_address_parse(text, &address, &error);

	must(kw_http_address_check(text, &error) == (*text ? code : 0));
	if (code != 0) {
		must(code == KW_E_CONFIG && error.text[0] != 0);
		return;
	}
	if (address.reach == KW_HTTP_UNIX) {
		must(address.path[0] == '/' && strcmp(address.path, text + 7) == 0);
		return;
	}
	must(address.path[0] == 0 && address.tcp_length > 0);
	must(((const struct sockaddr_in *)&address.tcp)->sin_port != 0);
	must((address.reach == KW_HTTP_LOOPBACK) == is_loopback(&address));
}

/* ---- requests ---- */

static int is_login(const char *authorization)
{
	return authorization && ((strncasecmp(authorization, "bearer ", 7) == 0 &&
					 strcmp(authorization + 7, SECRET) == 0) ||
					(strncasecmp(authorization, "basic ", 6) == 0 &&
						strcmp(authorization + 6, LOGIN) == 0));
}

/* Has it a letter that a name of another site would need, or an odd end? */
static int is_number_or_localhost(const char *host)
{
	const char *digits = *host == '[' ? "0123456789abcdefABCDEF:." : "0123456789.";
	const char *rest;

	if (strncasecmp(host, "localhost", 9) == 0) {
		rest = host + 9;
	} else {
		rest = host + (*host == '[');
		rest += strspn(rest, digits);
		if (*host == '[' && *rest++ != ']')
			return 0;
	}
	return *rest == 0 || (*rest == ':' && rest[1 + strspn(rest + 1, "0123456789")] == 0);
}

static void try_request(uint8_t choice, const char *host, const char *authorization)
{
	const int secret = choice & 2;
	const struct kw_http_question question = {
		.open = choice & 8, .host = host, .authorization = authorization};
	struct kw_http_guard guard;
	enum kw_http_verdict verdict;

	kw_http_guard_init(&guard, choice & 4 ? KW_HTTP_LOOPBACK : KW_HTTP_UNIX,
		secret ? kw_slice_text(SECRET) : kw_slice(NULL, 0));
	verdict = kw_http_judge(&guard, &question);
	if (secret && is_login(authorization))
		must(verdict == KW_HTTP_MAY);
	else if (secret)
		must(verdict == (question.open ? KW_HTTP_MAY_LITTLE : KW_HTTP_UNPROVED));
	else if (choice & 4)
		must(verdict == KW_HTTP_MISLED ||
			(verdict == KW_HTTP_MAY && is_number_or_localhost(host)));
	else
		must(verdict == KW_HTTP_MAY);
	kw_http_guard_close(&guard);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text, *authorization;

	if (size == 0)
		return 0;
	text = strndup((const char *)data + 1, size - 1);
	must(text != NULL);
	if (data[0] & 1) {
		try_address(text);
	} else {
		authorization = text;
		(void)strsep(&authorization, "\n");
		try_request(data[0], text, authorization);
	}
	free(text);
	return 0;
}

KW_FUZZ_SEEDS(seeds)
