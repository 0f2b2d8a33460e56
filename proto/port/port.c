#include "port/port.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* RFC 5246: a record of 45 bytes with a ClientHello of TLS 1.2: one suite, no extensions. */
static const char greeting[] = "\x16\x03\x01\x00\x2d\x01\x00\x00\x29\x03\x03"
			       "keywake asks there who it may be" /* 32 random bytes */
			       "\x00\x00\x02\xc0\x2f\x01\x00";
static const char redis[] = "*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nROLE\r\n";
/* No Host: a Redis server takes such a line for an attack. */
static const char http[] = "GET / HTTP/1.0\r\n\r\n";

/*
 * clusterMsg of the server's cluster.h: signature, length, version 1, port 0, type 0 (ping), and
 * zeros: no sender, no slots, no gossip. A node replies with a pong to a ping of anybody, and takes
 * news from nodes that it knows only.
 */
static const uint8_t bus[2256] = {
	'R', 'C', 'm', 'b', 0, 0, sizeof bus >> 8, sizeof bus & 0xff, 0, 1};

struct kw_slice kw_port_question(enum kw_port_question question)
{
	switch (question) {
	case KW_PORT_ASK_REDIS:
		return kw_slice(redis, sizeof redis - 1);
	case KW_PORT_ASK_HTTP:
		return kw_slice(http, sizeof http - 1);
	case KW_PORT_ASK_BUS:
		return kw_slice(bus, sizeof bus);
	case KW_PORT_ASK_TLS:
	case KW_PORT_QUESTIONS:
		break;
	}
	return kw_slice(greeting, sizeof greeting - 1);
}

static bool begins(struct kw_slice bytes, const char *words)
{
	return bytes.length >= strlen(words) && memcmp(bytes.data, words, strlen(words)) == 0;
}

static bool has(struct kw_slice bytes, const char *words)
{
	return bytes.length > 0 && memmem(bytes.data, bytes.length, words, strlen(words));
}

/* A handshake or an alert, of version 3.x. */
static bool is_tls(struct kw_slice bytes)
{
	const uint8_t *b = bytes.data;

	return bytes.length >= 3 && (b[0] == 0x16 || b[0] == 0x15) && b[1] == 0x03 && b[2] <= 0x04;
}

enum kw_port_kind kw_port_judge_bytes(struct kw_slice said)
{
	if (begins(said, "HTTP/") || begins(said, "<html") || begins(said, "<!DOCTYPE"))
		return KW_PORT_HTTP;
	if (begins(said, "SSH-"))
		return KW_PORT_SSH;
	if (begins(said, "ERROR\r\n") || begins(said, "CLIENT_ERROR"))
		return KW_PORT_MEMCACHED;
	if (begins(said, "RCmb"))
		return KW_PORT_BUS;
	if (begins(said, "KWH1")) /* remote/handshake.h */
		return KW_PORT_KEYWAKE;
	if (is_tls(said))
		return KW_PORT_TLS;
	if (begins(said, "+PONG") && has(said, "\r\nsentinel\r\n"))
		return KW_PORT_SENTINEL;
	return begins(said, "+PONG") || begins(said, "-") ? KW_PORT_REDIS : KW_PORT_UNKNOWN;
}

enum kw_port_kind kw_port_judge(const struct kw_port_answers *answers)
{
	enum kw_port_kind kind = KW_PORT_UNKNOWN;

	for (int i = 0; kind == KW_PORT_UNKNOWN && i < KW_PORT_QUESTIONS; i++)
		kind = kw_port_judge_bytes(answers->to[i]);
	return kind;
}

const char *kw_port_name(enum kw_port_kind kind)
{
	static const char *const names[] = {
		[KW_PORT_UNKNOWN] = "no server that is known here",
		[KW_PORT_REDIS] = "a Redis or Valkey server",
		[KW_PORT_SENTINEL] = "a Sentinel",
		[KW_PORT_KEYWAKE] = "the table of a keywake-proxy",
		[KW_PORT_HTTP] = "an HTTP server",
		[KW_PORT_TLS] = "a port of TLS",
		[KW_PORT_MEMCACHED] = "a memcached server",
		[KW_PORT_SSH] = "an SSH server",
		[KW_PORT_BUS] = "the cluster bus of a Redis server",
	};

	return names[kind];
}
