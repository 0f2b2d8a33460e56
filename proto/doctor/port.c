#include "doctor/port.h"

#include <stdint.h>
#include <string.h>

/* RFC 5246: a record of 45 bytes with a ClientHello of TLS 1.2: one suite, no extensions. */
static const char greeting[] = "\x16\x03\x01\x00\x2d\x01\x00\x00\x29\x03\x03"
			       "keywake doctor asks who is there" /* 32 random bytes */
			       "\x00\x00\x02\xc0\x2f\x01\x00";

struct kw_slice kw_port_greeting(void)
{
	return kw_slice(greeting, sizeof greeting - 1);
}

static bool begins(struct kw_slice bytes, const char *words)
{
	return bytes.length >= strlen(words) && memcmp(bytes.data, words, strlen(words)) == 0;
}

/* A handshake or an alert, of version 3.x. */
static bool is_tls(struct kw_slice bytes)
{
	const uint8_t *b = bytes.data;

	return bytes.length >= 3 && (b[0] == 0x16 || b[0] == 0x15) && b[1] == 0x03 && b[2] <= 0x04;
}

enum kw_port_kind kw_port_judge(const struct kw_port_answers *answers)
{
	const struct kw_slice said = answers->to_question;

	if (begins(said, "HTTP/") || begins(said, "<html") || begins(said, "<!DOCTYPE"))
		return KW_PORT_HTTP;
	if (begins(said, "SSH-"))
		return KW_PORT_SSH;
	if (begins(said, "ERROR\r\n") || begins(said, "CLIENT_ERROR"))
		return KW_PORT_MEMCACHED;
	if (is_tls(said))
		return KW_PORT_TLS;
	if (begins(said, "+PONG") || begins(said, "-"))
		return KW_PORT_REDIS;
	if (is_tls(answers->to_greeting))
		return KW_PORT_TLS;
	if (begins(answers->to_greeting, "HTTP/"))
		return KW_PORT_HTTP;
	return said.length == 0 && answers->bus_owner ? KW_PORT_BUS : KW_PORT_UNKNOWN;
}

const char *kw_port_name(enum kw_port_kind kind)
{
	static const char *const names[] = {
		[KW_PORT_UNKNOWN] = "no server that is known here",
		[KW_PORT_REDIS] = "a Redis or Valkey server",
		[KW_PORT_HTTP] = "an HTTP server",
		[KW_PORT_TLS] = "a port of TLS",
		[KW_PORT_MEMCACHED] = "a memcached server",
		[KW_PORT_SSH] = "an SSH server",
		[KW_PORT_BUS] = "the cluster bus of a Redis server",
	};

	return names[kind];
}
