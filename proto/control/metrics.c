#include "control/metrics.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Digits that a person would give: 0.05 and not 0.050000000000000003. */
#define DIGITS 15

void kw_metrics_family(
	const struct kw_metrics *metrics, const char *name, const char *type, const char *doc)
{
	kw_buffer_printf(metrics->text, "# HELP %s_%s %s\n# TYPE %s_%s %s\n", metrics->prefix, name,
		doc, metrics->prefix, name, type);
}

static void begin_sample(const struct kw_metrics *metrics, const char *name, const char *labels)
{
	if (*labels)
		kw_buffer_printf(metrics->text, "%s_%s{%s} ", metrics->prefix, name, labels);
	else
		kw_buffer_printf(metrics->text, "%s_%s ", metrics->prefix, name);
}

void kw_metrics_sample(
	const struct kw_metrics *metrics, const char *name, const char *labels, double value)
{
	begin_sample(metrics, name, labels);
	if (isnan(value))
		kw_buffer_printf(metrics->text, "NaN\n");
	else if (isinf(value))
		kw_buffer_printf(metrics->text, "%cInf\n", value > 0 ? '+' : '-');
	else
		kw_buffer_printf(metrics->text, "%.*g\n", DIGITS, value);
}

void kw_metrics_integer(
	const struct kw_metrics *metrics, const char *name, const char *labels, uint64_t value)
{
	begin_sample(metrics, name, labels);
	kw_buffer_printf(metrics->text, "%" PRIu64 "\n", value);
}

void kw_metrics_gauge(
	const struct kw_metrics *metrics, const char *name, const char *doc, double value)
{
	kw_metrics_family(metrics, name, "gauge", doc);
	kw_metrics_sample(metrics, name, "", value);
}

/* Where the next byte goes; NULL: it has no room with what must follow it. */
static char *add(char *at, const char *end, const char *bytes)
{
	size_t length = strlen(bytes);

	if (!at || (size_t)(end - at) <= length)
		return NULL;
	memcpy(at, bytes, length + 1);
	return at + length;
}

static char *add_value(char *at, const char *end, const char *value)
{
	char shown[8];

	for (; *value; value++) {
		unsigned char byte = (unsigned char)*value;

		if (byte == '"' || byte == '\\')
			snprintf(shown, sizeof shown, "\\%c", byte);
		else if (byte < ' ' || byte > '~')
			snprintf(shown, sizeof shown, "\\\\x%02x", byte);
		else
			snprintf(shown, sizeof shown, "%c", byte);
		at = add(at, end, shown);
	}
	return at;
}

void kw_metrics_label(char labels[KW_METRICS_LABELS], const char *name, const char *value)
{
	const char *end = labels + KW_METRICS_LABELS;
	char *start = labels + strlen(labels);
	char *at = add(start, end, *labels ? "," : "");

	at = add(add(at, end, name), end, "=\"");
	at = add(add_value(at, end, value), end, "\"");
	if (!at)
		*start = '\0';
}

void kw_metrics_states(const struct kw_metrics *metrics, const char *name, const char *doc,
	const struct kw_metrics_states *states)
{
	kw_metrics_family(metrics, name, "gauge", doc);
	for (int i = 0; i < states->count; i++) {
		char labels[KW_METRICS_LABELS] = "";

		kw_metrics_label(labels, "state", states->names[i]);
		kw_metrics_integer(metrics, name, labels, i == states->now);
	}
}

void kw_metrics_reason(const struct kw_metrics *metrics, const char *code)
{
	char labels[KW_METRICS_LABELS] = "";

	kw_metrics_label(labels, "code", code);
	kw_metrics_family(metrics, "reason", "gauge", "1 for the code of the present reason");
	kw_metrics_integer(metrics, "reason", labels, 1);
}

void kw_metrics_build(const struct kw_metrics *metrics, const char *program)
{
	const struct kw_metrics build = {metrics->text, "keywake"};
	char labels[KW_METRICS_LABELS] = "";

	kw_metrics_label(labels, "program", program);
	kw_metrics_label(labels, "version", KW_VERSION);
	kw_metrics_family(&build, "build_info", "gauge", "the program and its version; always 1");
	kw_metrics_integer(&build, "build_info", labels, 1);
}

void kw_histogram_of_lag(struct kw_histogram *histogram, const struct kw_lag *lag)
{
	histogram->count = lag->count;
	histogram->sum_us = lag->sum_us;
	for (int i = 0; i < KW_HISTOGRAM_STEPS; i++)
		histogram->below[i] = kw_lag_count_below(lag, kw_histogram_step_us(i));
}

void kw_metrics_histogram_of(const struct kw_metrics *metrics, const char *name, const char *labels,
	const struct kw_histogram *histogram)
{
	char bucket[128], sum[128], count[128], all[KW_METRICS_LABELS], step[32];

	snprintf(bucket, sizeof bucket, "%s_bucket", name);
	snprintf(sum, sizeof sum, "%s_sum", name);
	snprintf(count, sizeof count, "%s_count", name);
	for (int i = 0; i <= KW_HISTOGRAM_STEPS; i++) {
		bool last = i == KW_HISTOGRAM_STEPS;

		snprintf(step, sizeof step, "%.*g", DIGITS, (double)kw_histogram_step_us(i) / 1e6);
		snprintf(all, sizeof all, "%s", labels);
		kw_metrics_label(all, "le", last ? "+Inf" : step);
		kw_metrics_integer(
			metrics, bucket, all, last ? histogram->count : histogram->below[i]);
	}
	kw_metrics_sample(metrics, sum, labels, (double)histogram->sum_us / 1e6);
	kw_metrics_integer(metrics, count, labels, histogram->count);
}

void kw_metrics_histogram(const struct kw_metrics *metrics, const char *name, const char *doc,
	const struct kw_histogram *histogram)
{
	kw_metrics_family(metrics, name, "histogram", doc);
	kw_metrics_histogram_of(metrics, name, "", histogram);
}
