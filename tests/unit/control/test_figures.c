/* One table of figures becomes metrics and fields of status. */
#include "control/figures.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

struct inner {
	uint64_t before, bytes;
};

struct values {
	double share;
	uint64_t reads;
	struct inner inner;
};

static const struct kw_figure figures[] = {
	KW_GAUGE(struct values, share, "share", "part of the time"),
	KW_STATUS_COUNTER(struct values, reads, "reads", "READs made"),
	KW_COUNTER(struct values, inner.bytes, "inner_bytes", "bytes moved"),
	KW_GAUGE(struct values, inner.before, "before", "what was there"),
	{0},
};

static const struct values values = {
	.share = 0.25,
	.reads = 7,
	.inner = {.before = UINT64_MAX, .bytes = 9007199254740992},
};

static void metrics_are_prometheus_text(void **state)
{
	static const char wanted[] = "# HELP kw_share part of the time\n# TYPE kw_share gauge\n"
				     "kw_share 0.25\n"
				     "# HELP kw_reads_total READs made\n"
				     "# TYPE kw_reads_total counter\nkw_reads_total 7\n"
				     "# HELP kw_inner_bytes_total bytes moved\n"
				     "# TYPE kw_inner_bytes_total counter\n"
				     "kw_inner_bytes_total 9007199254740992\n"
				     "# HELP kw_before what was there\n# TYPE kw_before gauge\n"
				     "kw_before 1.8446744073709552e+19\n";
	struct kw_buffer text = {0};

	kw_figures_metrics(&text, "kw", figures, &values);
	assert_int_equal(kw_buffer_length(&text), sizeof wanted - 1);
	assert_memory_equal(kw_buffer_bytes(&text), wanted, sizeof wanted - 1);
	kw_buffer_close(&text);
}

static void status_has_the_counters_marked_for_it(void **state)
{
	json_t *status = json_object();
	char *text;

	kw_figures_status(status, figures, &values);
	text = json_dumps(status, JSON_COMPACT);
	assert_string_equal(text, "{\"reads\":7}");
	free(text);
	json_decref(status);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(metrics_are_prometheus_text),
		cmocka_unit_test(status_has_the_counters_marked_for_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
