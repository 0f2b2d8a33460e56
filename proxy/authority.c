/* Who confirms the primary: made as the configuration says. */
#include "proxy.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/secret.h"
#include "control/config/tls.h"
#include "mandate/sentinels.h"

#include <string.h>

static enum kw_mandate_by read_by(const struct kw_config *config)
{
	const char *by = kw_config_text(config, "authority.by");

	return strcmp(by, "sentinel") == 0   ? KW_MANDATE_BY_SENTINEL
	       : strcmp(by, "operator") == 0 ? KW_MANDATE_BY_OPERATOR
					     : KW_MANDATE_BY_NONE;
}

/* A loss is found when the proxy publishes; a confirmation need not wait for that. */
static void on_answered(void *arg)
{
	struct kw_proxy *proxy = arg;

	if (proxy->source && !proxy->closing)
		kw_source_confirm(proxy->source);
}

int kw_proxy_sentinel_tls(
	const struct kw_config *config, struct kw_tls_context **context, struct kw_error *error)
{
	*context = NULL;
	for (size_t i = 0; i < kw_config_count(config, "sentinel.addresses"); i++) {
		const char *address = kw_config_text_at(config, "sentinel.addresses", i);

		if (strncmp(address, "rediss://", strlen("rediss://")) != 0)
			continue;
		*context = kw_tls_config_load(config, KW_TLS_CLIENT, &kw_tls_terms_sentinel, error);
		return *context ? KW_OK : KW_E_CONFIG;
	}
	return KW_OK;
}

static int make_sentinels(struct kw_proxy *proxy, struct kw_error *error)
{
	const struct kw_config *config = proxy->daemon.config;
	const struct kw_sentinels_handlers handlers = {on_answered, proxy};
	const char *addresses[KW_SENTINELS_MAX];
	struct kw_buffer password = {0};
	struct kw_sentinels_options options = {
		.addresses = addresses,
		.count = kw_config_count(config, "sentinel.addresses"),
		.username = kw_config_text(config, "sentinel.username"),
		.interval_ms = (uint32_t)kw_config_integer(config, "sentinel.interval_ms"),
	};
	struct kw_tls_context *context;
	int code = kw_proxy_sentinel_tls(config, &context, error);

	if (code)
		return code;
	kw_tls_current_put(&proxy->sentinel_tls, context);
	options.tls = &proxy->sentinel_tls;
	options.ports = &proxy->ports;
	code = kw_secret_load(kw_config_text(config, "sentinel.password_file"), &password, error);
	if (code)
		return kw_error_wrap(error, "sentinel.password_file");
	for (size_t i = 0; i < options.count && i < KW_SENTINELS_MAX; i++)
		addresses[i] = kw_config_text_at(config, "sentinel.addresses", i);
	options.password = kw_slice(kw_buffer_bytes(&password), kw_buffer_length(&password));
	code = kw_sentinels_new(
		proxy->loop, &options, &proxy->mandate, &handlers, &proxy->sentinels, error);
	kw_secret_close_buffer(&password);
	return code;
}

int kw_proxy_make_authority(struct kw_proxy *proxy, struct kw_error *error)
{
	const struct kw_config *config = proxy->daemon.config;

	kw_mandate_init(&proxy->mandate, read_by(config), kw_config_text(config, "sentinel.name"),
		kw_clock_us());
	proxy->mandate.operator_term = (uint64_t)kw_config_integer(config, "authority.term");
	kw_mandate_keep(&proxy->mandate, kw_table_history(proxy->table));
	if (proxy->mandate.by == KW_MANDATE_BY_OPERATOR && proxy->mandate.operator_term > 0 &&
		proxy->mandate.operator_term < proxy->mandate.kept.term)
		kw_log_warn("proxy",
			"authority.term is %llu, and term %llu was the last one that counted here: "
			"nothing is confirmed until it is given again",
			(unsigned long long)proxy->mandate.operator_term,
			(unsigned long long)proxy->mandate.kept.term);
	return proxy->mandate.by == KW_MANDATE_BY_SENTINEL ? make_sentinels(proxy, error) : KW_OK;
}
