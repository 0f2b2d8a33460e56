/*
 * Certificates of tcp+tls between agents and proxies: the group of keys `tls`. Any thread.
 */
#ifndef KW_CONTROL_CONFIG_WIRE_TLS_H
#define KW_CONTROL_CONFIG_WIRE_TLS_H

#include "control/config/tls.h"
#include "tls/channel.h"

/*
 * addresses: the key with the addresses that are dialled or listened on. If one of them is
 * tcp+tls://, or if tls.ca or tls.cert is set, *context is of the files; else it is NULL.
 * KW_E_CONFIG as kw_tls_config_load.
 */
int kw_wire_tls_load(const struct kw_config *config, const char *addresses, enum kw_tls_role role,
	const struct kw_tls_terms *terms, struct kw_tls_context **context, struct kw_error *error);

/* tls.identity. */
enum kw_tls_identity kw_wire_tls_identity(const struct kw_config *config);

#endif
