#include "control/config/certificates.h"

#include "control/metrics.h"

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
