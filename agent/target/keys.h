/*
 * The configuration keys that kw_target_open reads: entries for the tables of the agent and of the
 * gateway. What differs in their sentences is a parameter.
 */
#ifndef KW_AGENT_TARGET_KEYS_H
#define KW_AGENT_TARGET_KEYS_H

#include "auth/keyring.h"
#include "control/config/common.h"
#include "remote/rdma/keys.h"
#include "remote/remote.h"
#include "remote/users.h"
#include "table/reader.h"

/* clang-format off */
/* whose: "This agent's". */
#define KW_TARGET_WHICH(whose)                                                                     \
	{"proxy", KW_CONFIG_TEXTS, NULL, false, 0, 0, NULL,                                        \
		"The proxy to follow: shm:///path, tcp://host:port or rdma://host:port. Or a "     \
		"list of up to 16 proxies of one primary: see follow.",                            \
		kw_address_check},                                                                 \
	{"follow", KW_CONFIG_TEXT, "\"confirmed\"", false, 0, 0, "confirmed",                      \
		"Of several proxies, follow the one whose server is confirmed as the primary, "    \
		"in the highest term; without mandates, the first that can be followed."},         \
	{"name", KW_CONFIG_TEXT, "\"\"", false, 0, 0, NULL,                                        \
		whose " name at the proxy, printable ASCII; empty: the host's name."}

/* depth: "16", the READs in flight; of: " of 128 KiB", their size where it is fixed, or "". */
#define KW_TARGET_LINK(depth, of)                                                                  \
	KW_CONFIG_OWN_KEY,                                                                         \
	KW_CONFIG_TLS_DIALS,                                                                       \
	{"auth.allow_insecure", KW_CONFIG_BOOL, "false", false, 0, 0, NULL,                        \
		"Follow a proxy over tcp or rdma without a secret: whoever listens there decides " \
		"what is read."},                                                                  \
	KW_CONFIG_PEERS("the proxy", "[\"keywake-proxy\"]", kw_user_check),                        \
	{"remote.read_timeout_ms", KW_CONFIG_INTEGER, "2000", false, 10, 600000, NULL,             \
		"Silence on a READ after which the connection to the proxy counts as lost."},      \
	{"remote.depth", KW_CONFIG_INTEGER, depth, false, 1, KW_READER_DEPTH_MAX, NULL,            \
		"READs" of " in flight at most; the proxy or a device may allow fewer."},          \
	{"remote.compression", KW_CONFIG_TEXT, "\"none\"", false, 0, 0, "none|zstd",             \
		"Over tcp and tcp+tls, for links between sites: zstd asks the proxy to compress "  \
		"what is read, and goes on without if it does not; see deploy/doc/limits.md."},    \
	{"rdma.traffic_class", KW_CONFIG_INTEGER, "0", false, 0, 255, NULL,                        \
		"Traffic class (DSCP * 4) of RoCE packets either way; 0: the system's."},          \
	KW_CONFIG_RDMA                                                                             \
	{"rdma.read_bytes", KW_CONFIG_BYTES, KW_RDMA_TEXT(KW_RDMA_READ_BYTES), false, 4096,        \
		KW_RDMA_READ_BYTES_MAX, NULL,                                                      \
		"READs over rdma are cut into pieces of this size; up to 64 are in flight."}
/* clang-format on */

#endif
