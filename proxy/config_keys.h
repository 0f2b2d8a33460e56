/* The proxy's configuration keys: the one table behind file, --set, config.set and the manual. */
#ifndef KW_PROXY_CONFIG_KEYS_H
#define KW_PROXY_CONFIG_KEYS_H

#include "control/config.h"

extern const struct kw_config_key kw_proxy_config_keys[];

#endif
