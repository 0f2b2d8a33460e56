/*
 * The configuration keys of rdma that both daemons have: rdma.NAME for the field NAME of struct
 * kw_rdma_options. Both their tables of keys and the code that reads them are made from this list.
 * KEY(name, fallback, lowest, highest, doc); all are integers.
 *
 * There is no key for the GID: librdmacm takes the one of the address that a connection goes over.
 * That decides RoCE version and VLAN too. An operator with several GIDs chooses by address: the
 * proxy's `listen`, the agent's `proxy` and the route to it. Only the agent has a traffic class:
 * the proxy's packets use the one of the connection request.
 */
#ifndef KW_REMOTE_RDMA_KEYS_H
#define KW_REMOTE_RDMA_KEYS_H

#define KW_RDMA_TEXT_(x) #x
#define KW_RDMA_TEXT(x) KW_RDMA_TEXT_(x)

/* clang-format off */
#define KW_RDMA_KEYS(KEY)                                                                          \
	KEY(port, "0", 0, 255,                                                                     \
		"Port of the RDMA device that the address must lead over; 0: any.")                \
	KEY(ack_timeout, KW_RDMA_TEXT(KW_RDMA_ACK_TIMEOUT), 1, 31,                                 \
		"Time for an acknowledgement, 4.096 us * 2^N: 15 is 134 ms.")                      \
	KEY(retry_count, KW_RDMA_TEXT(KW_RDMA_RETRY_COUNT), 1, 6,                                  \
		"Tries after the first; a dead peer shows after N + 1 times ack_timeout.")
/* clang-format on */

/* Their entries in a daemon's table, which includes control/config.h and remote/remote.h. */
/* clang-format off */
#define KW_RDMA_CONFIG_KEY(name, fallback, lowest, highest, doc)                                   \
	{"rdma." #name, KW_CONFIG_INTEGER, fallback, false, lowest, highest, NULL, doc},
#define KW_CONFIG_RDMA                                                                             \
	{"rdma.device", KW_CONFIG_TEXT, "\"\"", false, 0, 0, NULL,                                 \
		"RDMA device that the address must lead over (`rdma link` shows them); empty: "    \
		"any.",                                                                            \
		kw_rdma_device_check},                                                             \
	KW_RDMA_KEYS(KW_RDMA_CONFIG_KEY)
/* clang-format on */

#endif
