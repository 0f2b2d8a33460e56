#include "auth/identity.h"

#include <string.h>

bool kw_key_id_valid(const char *id, size_t length)
{
	if (length == 0 || length > KW_KEY_ID_MAX)
		return false;
	for (size_t i = 0; i < length; i++) {
		char c = id[i];

		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
			    c == '.' || c == '_' || c == '-'))
			return false;
	}
	return true;
}

bool kw_principal_valid(const char *id)
{
	size_t length = strnlen(id, KW_CERTIFICATE_ID_MAX + 1);

	if (length == 0 || length > KW_CERTIFICATE_ID_MAX)
		return false;
	for (size_t i = 0; i < length; i++)
		if (id[i] != '*' && id[i] != '@' && !kw_key_id_valid(&id[i], 1))
			return false;
	return true;
}

const char *kw_identity_principal(const struct kw_identity *identity)
{
	return *identity->certificate ? identity->certificate : identity->key_id;
}

bool kw_identity_agrees(const struct kw_identity *identity)
{
	return !*identity->certificate || !*identity->key_id ||
	       strcmp(identity->certificate, identity->key_id) == 0;
}

const char *kw_role_name(enum kw_role role)
{
	switch (role) {
	case KW_ROLE_AGENT:
		return "agent";
	case KW_ROLE_GATEWAY:
		return "gateway";
	case KW_ROLE_INSPECTOR:
		return "inspector";
	}
	return "unknown";
}
