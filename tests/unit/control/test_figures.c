/* One table of figures becomes metrics and fields of status, and one of stages what explains the
 * lag. */
#include "control/figures.h"
#include "control/stage_report.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct inner {
	uint64_t before, bytes;
};

struct values {
	double share;
	uint64_t reads;
	struct inner inner;
	uint64_t lost, late, wait_us;
	double inf;
};

static const struct kw_figure figures[] = {
	KW_GAUGE(struct values, share, "share", "part of the time"),
	KW_STATUS_COUNTER(struct values, reads, "reads", "READs made"),
	KW_STATUS_ONLY(struct values, reads, "all", "not in metrics"),
	KW_PART(struct values, lost, "reads_lost", "failed", "why=\"lost\"", "READs that failed"),
	KW_PART(struct values, late, "reads_late", "failed", "why=\"late\"", "not told"),
	KW_COUNTER(struct values, inner.bytes, "inner_bytes", "bytes moved"),
	KW_SECONDS(struct values, wait_us, "wait", "time that READs waited"),
	KW_GAUGE(struct values, inner.before, "before", "what was there"),
	KW_GAUGE(struct values, inf, "inf", "not known"),
	{0},
};

static const struct values values = {
	.share = 0.05,
	.reads = 7,
	.inner = {.before = UINT64_MAX, .bytes = 9007199254740993},
	.lost = 3,
	.late = 4,
	.wait_us = 1500,
	.inf = (double)INFINITY,
};

static void assert_text(struct kw_buffer *text, const char *wanted)
{
	kw_buffer_append(text, "", 1);
	assert_string_equal((const char *)kw_buffer_bytes(text), wanted);
	kw_buffer_close(text);
}

static void metrics_are_prometheus_text(void **state)
{
	struct kw_buffer text = {0};
	const struct kw_metrics metrics = {&text, "kw"};

	kw_figures_metrics(&metrics, figures, &values);
	assert_text(&text, "# HELP kw_share part of the time\n# TYPE kw_share gauge\n"
			   "kw_share 0.05\n"
			   "# HELP kw_reads_total READs made\n"
			   "# TYPE kw_reads_total counter\nkw_reads_total 7\n"
			   "# HELP kw_failed_total READs that failed\n"
			   "# TYPE kw_failed_total counter\n"
			   "kw_failed_total{why=\"lost\"} 3\nkw_failed_total{why=\"late\"} 4\n"
			   "# HELP kw_inner_bytes_total bytes moved\n"
			   "# TYPE kw_inner_bytes_total counter\n"
			   "kw_inner_bytes_total 9007199254740993\n"
			   "# HELP kw_wait_seconds_total time that READs waited\n"
			   "# TYPE kw_wait_seconds_total counter\n"
			   "kw_wait_seconds_total 0.0015\n"
			   "# HELP kw_before what was there\n# TYPE kw_before gauge\n"
			   "kw_before 18446744073709551615\n"
			   "# HELP kw_inf not known\n# TYPE kw_inf gauge\nkw_inf +Inf\n");
}

static void status_has_the_counters_marked_for_it(void **state)
{
	json_t *status = json_object();
	char *text;

	kw_figures_status(status, figures, &values);
	text = json_dumps(status, JSON_COMPACT);
	assert_string_equal(text, "{\"reads\":7,\"all\":7,\"reads_lost\":3,\"reads_late\":4}");
	free(text);
	json_decref(status);
}

static void a_label_of_any_bytes_is_one_label(void **state)
{
	static const struct {
		const char *value, *shown;
	} cases[] = {
		{"plain", "a=\"plain\""},
		{"", "a=\"\""},
		{"x\"} 1\ny{z=\"", "a=\"x\\\"} 1\\\\x0ay{z=\\\"\""},
		{"back\\slash", "a=\"back\\\\slash\""},
		{"\xff\x7f", "a=\"\\\\xff\\\\x7f\""},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char labels[KW_METRICS_LABELS] = "";

		kw_metrics_label(labels, "a", cases[i].value);
		assert_string_equal(labels, cases[i].shown);
	}
}

static void a_label_without_room_is_left_out_whole(void **state)
{
	char labels[KW_METRICS_LABELS] = "", long_one[KW_METRICS_LABELS];

	memset(long_one, 'x', sizeof long_one - 1);
	long_one[sizeof long_one - 1] = '\0';
	kw_metrics_label(labels, "first", "1");
	for (size_t length = KW_METRICS_LABELS - 1; length > KW_METRICS_LABELS - 40; length--) {
		long_one[length] = '\0';
		kw_metrics_label(labels, "second", long_one);
		if (labels[strlen("first=\"1\"")] != '\0')
			break;
	}
	assert_int_equal(strlen(labels), KW_METRICS_LABELS - 1);
	assert_int_equal(labels[KW_METRICS_LABELS - 2], '"');
	kw_metrics_label(labels, "third", "");
	assert_int_equal(strlen(labels), KW_METRICS_LABELS - 1);
}

static void one_state_of_all_is_1(void **state)
{
	static const char *const names[] = {"cold", "warm"};
	const struct kw_metrics_states states = {names, 2, 1};
	struct kw_buffer text = {0};
	const struct kw_metrics metrics = {&text, "kw"};

	kw_metrics_states(&metrics, "state", "the state", &states);
	assert_text(&text, "# HELP kw_state the state\n# TYPE kw_state gauge\n"
			   "kw_state{state=\"cold\"} 0\nkw_state{state=\"warm\"} 1\n");
}

static void a_histogram_has_steps_sum_and_count(void **state)
{
	struct kw_histogram histogram = {.count = 9, .sum_us = 2500000};
	struct kw_buffer text = {0};
	const struct kw_metrics metrics = {&text, "kw"};
	const char *shown;

	for (int i = 0; i < KW_HISTOGRAM_STEPS; i++)
		histogram.below[i] = i < 3 ? 0 : 8;
	kw_metrics_histogram(&metrics, "lag_seconds", "the lag", &histogram);
	kw_buffer_append(&text, "", 1);
	shown = (const char *)kw_buffer_bytes(&text);
	assert_non_null(strstr(shown, "# TYPE kw_lag_seconds histogram\n"
				      "kw_lag_seconds_bucket{le=\"0.000128\"} 0\n"));
	assert_non_null(strstr(shown, "\nkw_lag_seconds_bucket{le=\"0.001024\"} 8\n"));
	assert_non_null(strstr(shown, "\nkw_lag_seconds_bucket{le=\"67.108864\"} 8\n"
				      "kw_lag_seconds_bucket{le=\"+Inf\"} 9\n"
				      "kw_lag_seconds_sum 2.5\nkw_lag_seconds_count 9\n"));
	kw_buffer_close(&text);
}

static void stages_are_one_family_of_histograms(void **state)
{
	const struct kw_stage table[] = {{"first", "", NULL}, {"second", "", NULL}, {0}};
	struct kw_stages *stages = kw_alloc(sizeof *stages);
	struct kw_buffer text = {0};
	const struct kw_metrics metrics = {&text, "kw"};
	const char *shown;

	kw_stages_init(stages, 1);
	kw_stages_add(stages, 1, 200, 1);
	kw_stages_reset(stages, 2); /* of no concern to metrics */
	kw_stages_add(stages, 1, 300, 2);
	kw_stage_metrics(&metrics, stages, table);
	kw_buffer_append(&text, "", 1);
	shown = (const char *)kw_buffer_bytes(&text);
	assert_non_null(
		strstr(shown, "# TYPE kw_stage_seconds histogram\n"
			      "kw_stage_seconds_bucket{stage=\"first\",le=\"0.000128\"} 0\n"));
	assert_null(strstr(strstr(shown, "# TYPE") + 1, "# TYPE"));
	assert_non_null(
		strstr(shown, "\nkw_stage_seconds_bucket{stage=\"second\",le=\"0.000256\"} 1\n"
			      "kw_stage_seconds_bucket{stage=\"second\",le=\"0.000512\"} 2\n"));
	assert_non_null(strstr(shown, "\nkw_stage_seconds_bucket{stage=\"second\",le=\"+Inf\"} 2\n"
				      "kw_stage_seconds_sum{stage=\"second\"} 0.0005\n"
				      "kw_stage_seconds_count{stage=\"second\"} 2\n"));
	kw_buffer_close(&text);
	free(stages);
}

static void mend(const void *facts, char text[KW_REMEDY])
{
	snprintf(text, KW_REMEDY, "do %s", (const char *)facts);
}

static void a_stage_without_samples_has_no_figures(void **state)
{
	const struct kw_stage table[] = {{"first", "what", mend}, {"second", "", mend}, {0}};
	struct kw_stages *stages = kw_alloc(sizeof *stages);
	json_t *report, *row;

	kw_stages_init(stages, 1000000);
	kw_stages_add(stages, 1, 200, 1000000);
	report = kw_stage_report(stages, table, "this", 77, 3000000);
	assert_int_equal(json_integer_value(json_object_get(report, "epoch")), 77);
	assert_true(json_number_value(json_object_get(report, "window_s")) == 2.0);
	assert_int_equal(json_array_size(json_object_get(report, "stages")), 2);
	row = json_array_get(json_object_get(report, "stages"), 0);
	assert_true(json_is_null(json_object_get(row, "p50_us")));
	assert_int_equal(json_integer_value(json_object_get(row, "samples")), 0);
	assert_string_equal(json_string_value(json_object_get(row, "remedy")), "do this");
	row = json_array_get(json_object_get(report, "stages"), 1);
	assert_in_range(json_integer_value(json_object_get(row, "p99_us")), 200, 212);
	json_decref(report);
	free(stages);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(metrics_are_prometheus_text),
		cmocka_unit_test(status_has_the_counters_marked_for_it),
		cmocka_unit_test(a_label_of_any_bytes_is_one_label),
		cmocka_unit_test(a_label_without_room_is_left_out_whole),
		cmocka_unit_test(one_state_of_all_is_1),
		cmocka_unit_test(a_histogram_has_steps_sum_and_count),
		cmocka_unit_test(stages_are_one_family_of_histograms),
		cmocka_unit_test(a_stage_without_samples_has_no_figures),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
