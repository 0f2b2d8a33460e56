#include "control/stage_report.h"

#include "base/buffer.h"
#include "control/json_text.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static json_t *figure(const struct kw_lag *lag, uint64_t us)
{
	return lag->count > 0 ? json_integer((json_int_t)us) : json_null();
}

static json_t *row(const struct kw_stage *stage, const struct kw_lag *lag, const void *facts)
{
	char remedy[KW_REMEDY] = "";

	stage->remedy(facts, remedy);
	return json_pack("{s:s,s:o,s:o,s:o,s:I,s:s,s:s}", "stage", stage->name, "p50_us",
		figure(lag, kw_lag_quantile_us(lag, 0.5)), "p99_us",
		figure(lag, kw_lag_quantile_us(lag, 0.99)), "max_us", figure(lag, lag->max_us),
		"samples", (json_int_t)lag->count, "doc", stage->doc, "remedy", remedy);
}

json_t *kw_stage_report(struct kw_stages *stages, const struct kw_stage *table, const void *facts,
	uint64_t epoch, uint64_t now_us)
{
	struct kw_lag *recent = kw_alloc(sizeof *recent);
	json_t *rows = json_array();
	uint64_t window_us = 0;

	for (int i = 0; table[i].name; i++) {
		assert(i < KW_STAGES_MOST);
		window_us = kw_stages_recent(stages, i, now_us, recent);
		json_array_append_new(rows, row(&table[i], recent, facts));
	}
	free(recent);
	return json_pack("{s:I,s:f,s:s,s:o}", "epoch", (json_int_t)epoch, "window_s",
		(double)window_us / 1e6, "present", "", "stages", rows);
}

void kw_stage_report_present(json_t *report, const char *format, ...)
{
	char text[KW_REMEDY];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	json_object_set_new(report, "present", kw_json_text(text));
}

void kw_stage_metrics(const struct kw_metrics *metrics, const struct kw_stages *stages,
	const struct kw_stage *table)
{
	kw_metrics_family(metrics, "stage_seconds", "histogram",
		"time of sampled changes in each stage on their way to the replica");
	for (int i = 0; table[i].name; i++) {
		char labels[KW_METRICS_LABELS] = "";
		struct kw_histogram histogram;

		assert(i < KW_STAGES_MOST);
		kw_histogram_of_lag(&histogram, &stages->of[i].all);
		kw_metrics_label(labels, "stage", table[i].name);
		kw_metrics_histogram_of(metrics, "stage_seconds", labels, &histogram);
	}
}
