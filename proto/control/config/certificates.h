/*
 * When the certificates of a daemon run out, for metrics and status. They are those in use, which
 * can be older than the files: a reload reads the files again. Loop thread only.
 */
#ifndef KW_CONTROL_CONFIG_CERTIFICATES_H
#define KW_CONTROL_CONFIG_CERTIFICATES_H

#include "base/buffer.h"
#include "control/config/config.h"
#include "tls/context.h"

#include <jansson.h>
#include <stddef.h>

/*
 * keywake_certificate_expires_timestamp_seconds, with a sample for each file of these contexts that
 * has a date. NULL among them: that one is not there. No two of them have the same group of keys.
 */
void kw_certificates_metrics(
	struct kw_buffer *text, const struct kw_tls_context *const *contexts, size_t count);

/* The same in status: "certificates": {"tls.cert": seconds since 1970, …} */
void kw_certificates_status(
	json_t *status, const struct kw_tls_context *const *contexts, size_t count);

/*
 * For --check-config: what came of reading the files of one context. code: not KW_OK, and *error
 * says why they cannot be used; else context is looked at, which may be NULL, and given back.
 */
void kw_certificates_look(struct kw_config_mistakes *files, int code,
	struct kw_tls_context *context, const struct kw_error *error);

#endif
