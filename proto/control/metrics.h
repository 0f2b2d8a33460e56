/*
 * Prometheus text (exposition format 0.0.4): families of samples, with labels that are escaped.
 *
 *     # HELP PREFIX_NAME doc
 *     # TYPE PREFIX_NAME gauge
 *     PREFIX_NAME{labels} value
 *
 * The name of a counter ends in _total, as these functions are told. Times are in seconds, sizes in
 * bytes. `promtool check metrics` has no complaint. Any thread.
 */
#ifndef KW_CONTROL_METRICS_H
#define KW_CONTROL_METRICS_H

#include "base/buffer.h"
#include "base/lag.h"

#include <stdint.h>

struct kw_metrics {
	struct kw_buffer *text;
	const char *prefix; /* "keywake_agent" */
};

/* Before the samples of a family. type: gauge, counter, histogram. */
void kw_metrics_family(
	const struct kw_metrics *metrics, const char *name, const char *type, const char *doc);

/* labels: "" or what kw_metrics_label made. */
void kw_metrics_sample(
	const struct kw_metrics *metrics, const char *name, const char *labels, double value);
/* All digits of it. */
void kw_metrics_integer(
	const struct kw_metrics *metrics, const char *name, const char *labels, uint64_t value);

/* A family with one sample, without labels. */
void kw_metrics_gauge(
	const struct kw_metrics *metrics, const char *name, const char *doc, double value);

/*
 * Append name="value" to labels, after a comma if there are others. What does not fit is left out
 * whole. value: of any origin; bytes that are not printable ASCII are shown as \xNN.
 */
#define KW_METRICS_LABELS 1024
void kw_metrics_label(char labels[KW_METRICS_LABELS], const char *name, const char *value);

/* A family with one sample for each state: 1 for the present one, 0 for the others. */
struct kw_metrics_states {
	const char *const *names;
	int count, now;
};
void kw_metrics_states(const struct kw_metrics *metrics, const char *name, const char *doc,
	const struct kw_metrics_states *states);

/* Why the state is what it is: one sample, labelled with the code of the reason. */
void kw_metrics_reason(const struct kw_metrics *metrics, const char *code);

/* keywake_build_info, of program and version. */
void kw_metrics_build(const struct kw_metrics *metrics, const char *program);

/*
 * A histogram of times. Its steps are the same everywhere, so that those of several daemons can be
 * added up: 128 us, twice that, and so on, up to 67 s.
 */
#define KW_HISTOGRAM_STEPS 20

static inline uint64_t kw_histogram_step_us(int step)
{
	return UINT64_C(128) << step;
}

struct kw_histogram {
	uint64_t below[KW_HISTOGRAM_STEPS]; /* so many were below each step */
	uint64_t count, sum_us;             /* of all */
};

void kw_metrics_histogram(const struct kw_metrics *metrics, const char *name, const char *doc,
	const struct kw_histogram *histogram);

/* The samples alone, after kw_metrics_family: one histogram of several, told apart by labels. */
void kw_metrics_histogram_of(const struct kw_metrics *metrics, const char *name, const char *labels,
	const struct kw_histogram *histogram);

/* The steps of a finer histogram. */
void kw_histogram_of_lag(struct kw_histogram *histogram, const struct kw_lag *lag);

#endif
