#include "control/config/certificates.h"

#include "base/clock.h"
#include "control/metrics.h"

#include <inttypes.h>
#include <stdio.h>

#define NAME "certificate_expires_timestamp_seconds"

#define FILES 3

/* key: such as tls.cert; at_s: above 0 */
typedef void (*certificate_fn)(void *arg, const char *key, int64_t at_s);

static void each_file(const struct kw_tls_context *context, certificate_fn tell, void *arg)
{
	const struct kw_tls_expiry *expiry = kw_tls_context_expiry(context);
	const struct {
		const char *file;
		int64_t at_s;
	} files[FILES] = {{"cert", expiry->cert}, {"ca", expiry->ca}, {"crl", expiry->crl}};

	for (int i = 0; i < FILES; i++) {
		char key[64];

		snprintf(key, sizeof key, "%s.%s", kw_tls_context_keys(context), files[i].file);
		if (files[i].at_s > 0)
			tell(arg, key, files[i].at_s);
	}
}

static void each(
	const struct kw_tls_context *const *contexts, size_t count, certificate_fn tell, void *arg)
{
	for (size_t i = 0; i < count; i++)
		if (contexts[i])
			each_file(contexts[i], tell, arg);
}

static void add_sample(void *arg, const char *key, int64_t at_s)
{
	char labels[KW_METRICS_LABELS] = "";

	kw_metrics_label(labels, "key", key);
	kw_metrics_integer(arg, NAME, labels, (uint64_t)at_s);
}

void kw_certificates_metrics(
	struct kw_buffer *text, const struct kw_tls_context *const *contexts, size_t count)
{
	struct kw_metrics metrics = {text, "keywake"};

	kw_metrics_family(&metrics, NAME, "gauge",
		"when what the files of this key hold, as read last, runs out: the first of our "
		"certificates, the last of the CAs, the first list of revoked ones");
	each(contexts, count, add_sample, &metrics);
}

static void add_member(void *arg, const char *key, int64_t at_s)
{
	json_object_set_new(arg, key, json_integer((json_int_t)at_s));
}

void kw_certificates_status(
	json_t *status, const struct kw_tls_context *const *contexts, size_t count)
{
	json_t *members = json_object();

	each(contexts, count, add_member, members);
	json_object_set_new(status, "certificates", members);
}

static void look_at_date(void *arg, const char *key, int64_t at_s)
{
	const int64_t now_s = (int64_t)(kw_wall_us() / 1000000);
	struct kw_error error;

	if (at_s > now_s)
		return;
	kw_error_set(&error, KW_E_CONFIG,
		"%s: what the file has ran out %" PRId64 " hours ago: put a new one in its place",
		key, (now_s - at_s) / 3600);
	kw_config_mistake(arg, &error);
}

void kw_certificates_look(struct kw_config_mistakes *files, int code,
	struct kw_tls_context *context, const struct kw_error *error)
{
	if (code)
		kw_config_mistake(files, error);
	else if (context)
		each_file(context, look_at_date, files);
	kw_tls_context_unref(context);
}
