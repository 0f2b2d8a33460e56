/*
 * Configuration keys that both daemons have: entries for a table of struct kw_config_key. What
 * differs in their sentences is a parameter.
 */
#ifndef KW_CONTROL_CONFIG_COMMON_H
#define KW_CONTROL_CONFIG_COMMON_H

#include "control/config/config.h"
#include "control/config/tls.h"

/* whose: "The primary"; on: "the primary"; check: of the address. */
#define KW_CONFIG_REDIS(whose, on, check)                                                          \
	{"redis.address", KW_CONFIG_TEXT, NULL, false, 0, 0, NULL,                                 \
		whose ": unix:///path/to/socket, redis://host:port (or tcp://), or "               \
		      "rediss://host:port for TLS.",                                               \
		check},                                                                            \
		{"redis.username", KW_CONFIG_TEXT, "\"\"", false, 0, 0, NULL,                      \
			"ACL user on " on "; empty: the default user."},                           \
		{"redis.password_file", KW_CONFIG_TEXT, "\"\"", false, 0, 0, NULL,                 \
			"File with the password (not readable or writable by others); empty: "     \
			"none."},                                                                  \
		KW_CONFIG_TLS("redis.tls", "redis.address")

/* what: the sentence about auth.secret_file. */
#define KW_CONFIG_SECRET(what)                                                                     \
	{                                                                                          \
		"auth.secret_file", KW_CONFIG_TEXT, "\"\"", false, 0, 0, NULL, what                \
	}

/* The key that an agent or a gateway proves. */
#define KW_CONFIG_OWN_KEY                                                                          \
	KW_CONFIG_SECRET(                                                                          \
		"File with the secret that is proved to the proxy, read again by a "               \
		"reload; empty: none. With auth.key_id it holds the digits of that key."),         \
	{                                                                                          \
		"auth.key_id", KW_CONFIG_TEXT, "\"\"", false, 0, 0, NULL,                          \
			"The key in the proxy's auth.keys_file that is proved; empty: the "        \
			"proxy's "                                                                 \
			"auth.secret_file.",                                                       \
			kw_key_id_check                                                            \
	}

/* peers: "the proxy"; fallback: users, in JSON; check: of each. */
#define KW_CONFIG_PEERS(peers, fallback, check)                                                    \
	{                                                                                          \
		"shm.users", KW_CONFIG_TEXTS, fallback, false, 0, 0, NULL,                         \
			"Users, by name or uid, as whom " peers                                    \
			" may run on this host without a secret; our own user and root always "    \
			"may.",                                                                    \
			check                                                                      \
	}

/* For tcp+tls, at the end that dials. */
#define KW_CONFIG_TLS_DIALS                                                                        \
	{"tls.ca", KW_CONFIG_TEXT, "\"\"", false, 0, 0, NULL,                                      \
		"File with the CA certificates that may sign the proxy's, for tcp+tls, read "      \
		"again by a reload; empty: the system's."},                                        \
		{"tls.cert", KW_CONFIG_TEXT, "\"\"", false, 0, 0, NULL,                            \
			"File with the certificate that is shown to the proxy, then those "        \
			"between it and its CA, read again by a reload; empty: none is shown."},   \
		{"tls.key", KW_CONFIG_TEXT, "\"\"", false, 0, 0, NULL,                             \
			"File with the key of tls.cert (not readable by others), read again by a " \
			"reload."},                                                                \
		{"tls.crl", KW_CONFIG_TEXT, "\"\"", false, 0, 0, NULL,                             \
			"File with lists of revoked certificates, read again by a reload; empty: " \
			"nothing is revoked."},                                                    \
	{                                                                                          \
		"tls.server_name", KW_CONFIG_TEXT, "\"\"", false, 0, 0, NULL,                      \
			"Name or IP address that the proxy's certificate must have; empty: the "   \
			"host of its address."                                                     \
	}

#define KW_CONFIG_HTTP                                                                             \
	{"http.listen", KW_CONFIG_TEXT, "\"\"", false, 0, 0, NULL,                                 \
		"Where health, metrics and status are told over HTTP: unix:///path/of.sock, or "   \
		"tcp://host:port with the number of an address of this host; empty: nowhere.",     \
		kw_http_address_check},                                                            \
	{                                                                                          \
		"http.secret_file", KW_CONFIG_TEXT, "\"\"", false, 0, 0, NULL,                     \
			"File with the secret that clients send to http.listen, read again by a "  \
			"reload; empty: none, which only a unix socket and a loopback port may "   \
			"have."                                                                    \
	}

/* fallback: the socket's path, in JSON. */
#define KW_CONFIG_DAEMON(fallback)                                                                 \
	{"control.socket", KW_CONFIG_TEXT, fallback, false, 0, 0, NULL,                            \
		"Unix socket of the control interface."},                                          \
		{"control.saved_file", KW_CONFIG_TEXT, "\"\"", false, 0, 0, NULL,                  \
			"File for what --save of keywakectl keeps, read after the configuration "  \
			"file; empty: nothing can be saved."},                                     \
		{"control.history_file", KW_CONFIG_TEXT, "\"\"", false, 0, 0, NULL,                \
			"File that keeps the last changes of state over a restart, for "           \
			"`keywakectl history`; empty: they are forgotten."},                       \
	{                                                                                          \
		"log.level", KW_CONFIG_TEXT, "\"info\"", true, 0, 0,                               \
			"error|warn|info|debug|trace", "What is written to standard error."        \
	}

#endif
