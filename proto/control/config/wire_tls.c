#include "control/config/wire_tls.h"

#include <string.h>

static bool is_wanted(const struct kw_config *config, const char *addresses)
{
	static const char scheme[] = "tcp+tls://";

	for (size_t i = 0; i < kw_config_count(config, addresses); i++)
		if (strncmp(kw_config_text_at(config, addresses, i), scheme, sizeof scheme - 1) ==
			0)
			return true;
	return *kw_config_text(config, "tls.ca") || *kw_config_text(config, "tls.cert");
}

int kw_wire_tls_load(const struct kw_config *config, const char *addresses, enum kw_tls_role role,
	const struct kw_tls_terms *terms, struct kw_tls_context **context, struct kw_error *error)
{
	*context = NULL;
	if (!is_wanted(config, addresses))
		return KW_OK;
	*context = kw_tls_config_load(config, role, terms, error);
	return *context ? KW_OK : (int)error->code;
}

enum kw_tls_identity kw_wire_tls_identity(const struct kw_config *config)
{
	const char *text = kw_config_text(config, "tls.identity");

	if (strcmp(text, "san") == 0)
		return KW_TLS_IDENTITY_SAN;
	return strcmp(text, "cn") == 0 ? KW_TLS_IDENTITY_CN : KW_TLS_IDENTITY_AUTO;
}
