/* What the doctor of an agent or a gateway looks at: its proxies, and what it proves to them. */
#include "target/doctor.h"

#include "control/config/wire_tls.h"

/* Both are told, not the first alone that is wrong. */
static int read_files(struct kw_doctor *doctor, const struct kw_config *config)
{
	struct kw_own_key key;
	struct kw_tls_context *context = NULL;
	struct kw_error error;
	int key_code = kw_own_key_load(config, &key, &error), tls_code;

	if (key_code || kw_buffer_length(&key.secret) > 0)
		kw_doctor_read(doctor, "auth", key_code, &error);
	if (!key_code)
		kw_own_key_close(&key);
	tls_code = kw_target_load_tls(config, &context, &error);
	if (tls_code || context)
		kw_doctor_read(doctor, "tls", tls_code, &error);
	kw_doctor_certificates(doctor, context);
	kw_tls_context_unref(context);
	return key_code ? key_code : tls_code;
}

void kw_target_examine(struct kw_target_doctor *target, struct kw_doctor *doctor,
	const struct kw_config *config, enum kw_role role)
{
	const struct kw_check check = {"configuration", "proxy"};
	struct kw_error error;

	if (!read_files(doctor, config)) {
		target->open = kw_target_open(&target->target, config, &target->proxies,
				       &target->remote, &error) == KW_OK;
		if (!target->open)
			kw_finding_of(kw_doctor_findings(doctor), check, &error, NULL);
	}
	target->remote.role = role;
	for (size_t i = 0; i < kw_config_count(config, "proxy"); i++)
		kw_doctor_proxy(doctor, kw_config_text_at(config, "proxy", i),
			target->open ? &target->remote : NULL);
}

void kw_target_examined(struct kw_target_doctor *target)
{
	kw_target_close(&target->target);
}
