/* The gateway's configuration keys: the one table for the file, --set, config.set and the manual.
 */
#ifndef KW_AGENT_GATEWAY_CONFIG_KEYS_H
#define KW_AGENT_GATEWAY_CONFIG_KEYS_H

#include "control/config/config.h"

extern const struct kw_config_key kw_gateway_config_keys[];

#endif
