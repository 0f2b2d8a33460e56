/*
 * What a connection is: its carrier, and the proxy's end of it.
 *
 * The agent says in its HELLO what it connected to, as it sees it. The proxy compares that with its
 * own end of the connection. Both prove the HELLO (remote/handshake.h). So messages that belong to
 * one connection are worth nothing on another one: a relay has an end of its own, so either the
 * comparison fails, or the relay changed the HELLO and the proof fails.
 *
 *   shm    the socket file: its device and inode
 *   tcp    address and port of the proxy
 *   rdma   the same, and the numbers of both queue pairs (0 over iWARP, which has none)
 *   tls    a value that both ends of one TLS session have and no other (RFC 5705, RFC 9266)
 *
 * The agent's own address is no part of it, because network address translation changes it. If
 * translation, a tunnel or a forwarded port changes the proxy's address, the proxy must be told
 * under which other addresses agents reach it (auth.addresses). Over tls it need not be: a tunnel
 * that passes TLS through changes nothing, and one that ends it is a relay.
 *
 * The bytes stand in HELLO as they are here, little-endian. Pure; any thread.
 */
#ifndef KW_AUTH_CHANNEL_H
#define KW_AUTH_CHANNEL_H

#include "auth/endpoint.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KW_CHANNEL_BYTES 40
#define KW_CHANNEL_TEXT 96

/* Numbers are part of the protocol. */
enum kw_channel_kind {
	KW_CHANNEL_NONE = 0, /* not known yet */
	KW_CHANNEL_SHM = 1,
	KW_CHANNEL_TCP = 2,
	KW_CHANNEL_RDMA = 3,
	KW_CHANNEL_TLS = 4,
};

struct kw_channel_file {
	uint64_t device, inode; /* of the socket file */
	uint8_t reserved[24];
};

struct kw_channel_host {
	uint8_t address[16]; /* of the proxy; as in struct kw_endpoint */
	uint16_t port;
	uint8_t reserved[2];
	uint32_t agent_pair, proxy_pair; /* rdma: numbers of the queue pairs; else 0 */
	uint8_t reserved2[12];
};

#define KW_CHANNEL_EXPORTER_BYTES 32
#define KW_CHANNEL_EXPORTER_LABEL "EXPORTER-keywake-channel"

struct kw_channel_tls {
	uint8_t exporter[KW_CHANNEL_EXPORTER_BYTES];
	uint8_t reserved[8];
};

struct kw_channel {
	enum kw_channel_kind kind;
	union {
		struct kw_channel_file file; /* SHM */
		struct kw_channel_host host; /* TCP, RDMA */
		struct kw_channel_tls tls;   /* TLS */
		uint8_t bytes[KW_CHANNEL_BYTES];
	};
};

static_assert(sizeof(struct kw_channel_file) == KW_CHANNEL_BYTES, "");
static_assert(sizeof(struct kw_channel_host) == KW_CHANNEL_BYTES, "");
static_assert(sizeof(struct kw_channel_tls) == KW_CHANNEL_BYTES, "");
static_assert(offsetof(struct kw_channel_host, agent_pair) == 20, "");

struct kw_channel kw_channel_shm(uint64_t device, uint64_t inode);
struct kw_channel kw_channel_tcp(const struct kw_endpoint *proxy);
struct kw_channel kw_channel_rdma(
	const struct kw_endpoint *proxy, uint32_t agent_pair, uint32_t proxy_pair);
struct kw_channel kw_channel_tls(const uint8_t exporter[KW_CHANNEL_EXPORTER_BYTES]);

/* From the wire. False: this build knows no such kind, or reserved bytes are not zero. */
bool kw_channel_decode(
	uint8_t kind, const uint8_t bytes[KW_CHANNEL_BYTES], struct kw_channel *channel);

enum kw_channel_verdict {
	KW_CHANNEL_SAME,
	KW_CHANNEL_CARRIER_DIFFERS,
	KW_CHANNEL_FILE_DIFFERS,
	KW_CHANNEL_ADDRESS_DIFFERS,
	KW_CHANNEL_PAIRS_DIFFER,
	KW_CHANNEL_SESSION_DIFFERS, /* of TLS */
};

/* said: by the agent; own: as the proxy sees it; more: further addresses of the proxy, or NULL. */
enum kw_channel_verdict kw_channel_compare(const struct kw_channel *said,
	const struct kw_channel *own, const struct kw_endpoints *more);

/* For sentences: "tcp 10.0.0.9:7000", "shm". */
void kw_channel_text(const struct kw_channel *channel, char *text, size_t size);

#endif
