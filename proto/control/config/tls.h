/*
 * Certificates that the configuration names: a group of keys GROUP.ca, .cert, .key, and of these
 * those that the group has: .crl, .server_name, .verify. Read at the start, and again at each
 * reload. Any thread.
 *
 *     KW_CONFIG_TLS("redis.tls", "redis.address")      three to six lines of a table of keys
 */
#ifndef KW_CONTROL_CONFIG_TLS_H
#define KW_CONTROL_CONFIG_TLS_H

#include "control/config/config.h"
#include "tls/context.h"

/* Of connections to a Redis or Valkey server, with the keys of redis.tls or sentinel.tls. */
extern const struct kw_tls_terms kw_tls_terms_redis, kw_tls_terms_sentinel;

/*
 * Of the group terms->keys. NULL: KW_E_CONFIG, and the sentence names key, file and remedy. The
 * key's file must be as private as a secret's: its group may only read it, and root or this
 * process's user owns it. No copy of the key stays behind but OpenSSL's. A server demands
 * certificates of its clients if GROUP.ca is set.
 */
struct kw_tls_context *kw_tls_config_load(const struct kw_config *config, enum kw_tls_role role,
	const struct kw_tls_terms *terms, struct kw_error *error);

/* The same as a server that asks for no certificate, whatever GROUP.ca is. */
struct kw_tls_context *kw_tls_config_load_open(
	const struct kw_config *config, const struct kw_tls_terms *terms, struct kw_error *error);

/*
 * The same for redis.address: if that is rediss://, *context is of redis.tls; else it is NULL.
 */
int kw_tls_config_load_redis(
	const struct kw_config *config, struct kw_tls_context **context, struct kw_error *error);

/*
 * A rule (kw_config_rule_fn): files of redis.tls without an address of TLS are a mistake. Their
 * owner expects what would be sent in plain bytes to be encrypted.
 */
int kw_tls_config_rule_redis(const struct kw_config *config, struct kw_error *error);

/* group: "redis.tls"; address: the key with the server's name, for the manual. */
#define KW_CONFIG_TLS(group, address)                                                              \
	{group ".ca", KW_CONFIG_TEXT, "\"\"", false, 0, 0, NULL,                                   \
		"File with the CA certificates that may sign the server's, read again by a "       \
		"reload; empty: the system's."},                                                   \
		{group ".cert", KW_CONFIG_TEXT, "\"\"", false, 0, 0, NULL,                         \
			"File with the certificate that is shown to the server, then those "       \
			"between it and its CA, read again by a reload; empty: none is shown."},   \
		{group ".key", KW_CONFIG_TEXT, "\"\"", false, 0, 0, NULL,                          \
			"File with the key of " group ".cert (not readable by others), read "      \
			"again by a reload."},                                                     \
		{group ".server_name", KW_CONFIG_TEXT, "\"\"", false, 0, 0, NULL,                  \
			"Name or IP address that the server's certificate must have; empty: the "  \
			"host of " address "."},                                                   \
	{                                                                                          \
		group ".verify", KW_CONFIG_BOOL, "true", false, 0, 0, NULL,                        \
			"Check the server's certificate and name; false only for a test."          \
	}

#endif
