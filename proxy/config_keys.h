/* The proxy's configuration keys: the one table for the file, --set, config.set and the manual. */
#ifndef KW_PROXY_CONFIG_KEYS_H
#define KW_PROXY_CONFIG_KEYS_H

#include "control/config/config.h"

extern const struct kw_config_key kw_proxy_config_keys[];

/* A kw_config_rule_fn: refuses what can never work, whatever the host has when the proxy starts. */
int kw_proxy_config_rule(const struct kw_config *config, struct kw_error *error);

#endif
