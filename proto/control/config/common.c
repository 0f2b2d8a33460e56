#include "control/config/common.h"

int kw_config_check_metrics(const char *text, struct kw_error *error)
{
	if (text[0] == '\0')
		return 0;
	return kw_error_set(error, KW_E_CONFIG,
		"this version does not serve metrics over the network: leave it empty, and ask the "
		"control socket (keywakectl metrics)");
}
