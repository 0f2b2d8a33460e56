#include "config_keys.h"

#include "control/http/address.h"
#include "serve/frontend.h"
#include "table/lookup.h"
#include "target/keys.h"

#include <stddef.h>

/* 2^32 entries of 24 bytes are more than any host has. */
#define PLACES_MAX 4294967296.0

const struct kw_config_key kw_gateway_config_keys[] = {
	KW_TARGET_WHICH("This gateway's"),
	{"gateway.resp", KW_CONFIG_TEXTS, "[]", false, 0, 0, NULL,
		"Where Redis clients are served: unix:///path, tcp://address:port, or "
		"tls://address:port (or rediss://) for TLS.",
		kw_frontend_address_check},
	{"gateway.memcached", KW_CONFIG_TEXTS, "[]", false, 0, 0, NULL,
		"Where memcached clients are served, by the text and meta protocols: "
		"unix:///path, tcp://address:port, or tls://address:port for TLS. It has no "
		"passwords.",
		kw_frontend_address_check},
	{"gateway.tls.ca", KW_CONFIG_TEXT, "\"\"", false, 0, 0, NULL,
		"File with the CA certificates that may sign those of clients, read again by a "
		"reload. With it, each client of an address of TLS must show one."},
	{"gateway.tls.cert", KW_CONFIG_TEXT, "\"\"", false, 0, 0, NULL,
		"File with the gateway's certificate, then those between it and its CA, read again "
		"by a reload. An address of TLS needs one."},
	{"gateway.tls.key", KW_CONFIG_TEXT, "\"\"", false, 0, 0, NULL,
		"File with the key of gateway.tls.cert (not readable by others), read again by a "
		"reload."},
	{"gateway.tls.crl", KW_CONFIG_TEXT, "\"\"", false, 0, 0, NULL,
		"File with a list of revoked certificates of each CA in gateway.tls.ca, read again "
		"by a reload; empty: none is revoked."},
	{"gateway.memcached_database", KW_CONFIG_INTEGER, "0", false, 0, KW_DATABASE_MAX, NULL,
		"The database whose keys memcached clients read."},
	{"gateway.max_staleness_ms", KW_CONFIG_INTEGER, "1000", true, 1, 3600000, NULL,
		"Above this age of the table, reads are refused with -MASTERDOWN or SERVER_ERROR "
		"stale, or forwarded."},
	{"gateway.cache_bytes", KW_CONFIG_BYTES, "0", false, 0, 1099511627776.0, NULL,
		"Memory for values that were read before; 0: none are kept."},
	{"gateway.coherence_ms", KW_CONFIG_INTEGER, "10", true, 1, 60000, NULL,
		"A kept value counts only while the log was looked at this short ago."},
	{"gateway.depth", KW_CONFIG_INTEGER, "64", false, 1, KW_LOOKUPS_DEPTH_MAX, NULL,
		"Keys that are looked up at once; more wait."},
	{"gateway.places", KW_CONFIG_INTEGER, "1048576", false, 0, PLACES_MAX, NULL,
		"Keys whose place in the table is remembered, at 24 bytes each; a get of them "
		"takes one READ in place of two. 0: none."},
	{"gateway.max_value_bytes", KW_CONFIG_BYTES, "67108864", false, 4096, 4294967296.0, NULL,
		"A larger value is not read from the table: the request is refused, or goes to the "
		"primary. Counted as the table keeps it, which is often compressed."},
	{"gateway.max_clients", KW_CONFIG_INTEGER, "10000", true, 1, 1000000, NULL,
		"Clients connected at once. One more takes the place of the oldest that has not "
		"logged in; without such a one it is told so and closed."},
	{"gateway.max_input_bytes", KW_CONFIG_BYTES, "16777216", false, 65536, 1073741824, NULL,
		"The largest request; a client that sends more is told so and closed."},
	{"gateway.max_output_bytes", KW_CONFIG_BYTES, "262144", false, 4096, 1073741824, NULL,
		"Replies that a client has not read yet: above this, nothing more of it is begun. "
		"One reply alone may be larger."},
	{"gateway.max_buffer_bytes", KW_CONFIG_BYTES, "1073741824", false, 1048576, 1099511627776.0,
		NULL,
		"Requests and replies of all clients together; above this, those that hold most "
		"are closed."},
	{"gateway.output_timeout_ms", KW_CONFIG_INTEGER, "60000", false, 10, 3600000, NULL,
		"A client that takes nothing of its replies for so long is closed."},
	{"gateway.idle_timeout_ms", KW_CONFIG_INTEGER, "0", true, 0, 86400000, NULL,
		"A client that sends nothing for so long is closed; 0: none is, as servers do "
		"with timeout 0."},
	{"gateway.users_file", KW_CONFIG_TEXT, "\"\"", false, 0, 0, NULL,
		"File of users and passwords, in the form of the server's aclfile (not readable or "
		"writable by others); empty: no "
		"passwords, and Redis clients connect over a unix socket."},
	{"gateway.allow_insecure", KW_CONFIG_BOOL, "false", false, 0, 0, NULL,
		"Serve clients over tcp without passwords or certificates: Redis clients of this "
		"host when there "
		"is no users_file, and memcached clients. Each may read all."},
	{"gateway.forward", KW_CONFIG_BOOL, "false", false, 0, 0, NULL,
		"Send writes, and reads that are not served from the table, to the primary at "
		"redis.address."},
	{"redis.address", KW_CONFIG_TEXT, "\"\"", false, 0, 0, NULL,
		"The primary, for gateway.forward: unix:///path/to/socket, redis://host:port (or "
		"tcp://), or rediss://host:port for TLS."},
	{"redis.username", KW_CONFIG_TEXT, "\"\"", false, 0, 0, NULL,
		"ACL user on the primary; empty: the default user."},
	{"redis.password_file", KW_CONFIG_TEXT, "\"\"", false, 0, 0, NULL,
		"File with the password (not readable by others); empty: none."},
	KW_CONFIG_TLS("redis.tls", "redis.address"),
	KW_TARGET_LINK("64", ""),
	{"rdma.busy", KW_CONFIG_BOOL, "false", false, 0, 0, NULL,
		"Look for completions without sleeping while READs are out."},
	KW_CONFIG_HTTP,
	KW_CONFIG_DAEMON("\"/run/keywake/gateway.sock\""),
	{0},
};
