/*
 * Where no handshake comes about, perhaps no proxy listens. A server waits for the rest of a line
 * when it gets a HELLO, and is silent: so a look at the port (port/memory.h) begins well before the
 * deadline.
 */
#include "port/memory.h"
#include "remote/carrier.h"

#include <stdio.h>

static enum kw_port_kind ask(struct kw_remote *remote)
{
	char port[KW_PORT_NUMBER];

	if (remote->address.carrier != KW_CARRIER_TCP && remote->address.carrier != KW_CARRIER_TLS)
		return KW_PORT_UNKNOWN;
	snprintf(port, sizeof port, "%u", remote->address.port);
	return kw_port_ask(remote->options.ports, remote->address.host, port);
}

void kw_remote_suspect(struct kw_remote *remote)
{
	if (kw_remote_is(remote, KW_REMOTE_CONNECTING))
		ask(remote);
}

/* NULL: it is no stranger, or unknown. */
static const char *remedy_for(enum kw_port_kind kind)
{
	switch (kind) {
	case KW_PORT_UNKNOWN:
		return NULL;
	case KW_PORT_REDIS:
	case KW_PORT_SENTINEL:
	case KW_PORT_BUS:
		return "a server belongs into redis.address, and here an address that the proxy "
		       "has in `listen`";
	case KW_PORT_HTTP:
		return "http.listen is for monitoring, and here belongs an address that the proxy "
		       "has in `listen`";
	default:
		return "here belongs an address that the proxy has in `listen`";
	}
}

void kw_remote_name_stranger(struct kw_remote *remote, struct kw_error *why)
{
	bool tls = remote->address.carrier == KW_CARRIER_TLS;
	enum kw_port_kind kind;
	const char *remedy;

	if (!kw_remote_is(remote, KW_REMOTE_CONNECTING) ||
		(why->code != KW_E_IO && why->code != KW_E_TIMEOUT && why->code != KW_E_PROTOCOL))
		return;
	kind = ask(remote);
	remedy = remedy_for(kind);
	if (kind == KW_PORT_KEYWAKE && tls)
		kw_error_set(why, KW_E_PROTOCOL, "this address speaks no TLS: use tcp://");
	else if (kind == KW_PORT_TLS && !tls)
		kw_error_set(why, KW_E_PROTOCOL, "this address speaks TLS: use tcp+tls://");
	else if (remedy && kind != KW_PORT_KEYWAKE && kind != KW_PORT_TLS)
		kw_error_set(why, KW_E_PROTOCOL, "this is no keywake-proxy but %s: %s",
			kw_port_name(kind), remedy);
}
