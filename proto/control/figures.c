#include "control/figures.h"

#include <assert.h>
#include <string.h>

static uint64_t get_uint64(const struct kw_figure *figure, const void *values)
{
	uint64_t value;

	assert(figure->type == KW_FIGURE_UINT64);
	memcpy(&value, (const char *)values + figure->offset, sizeof value);
	return value;
}

static double get_double(const struct kw_figure *figure, const void *values)
{
	double value;

	if (figure->type == KW_FIGURE_UINT64)
		return (double)get_uint64(figure, values);
	memcpy(&value, (const char *)values + figure->offset, sizeof value);
	return value;
}

void kw_figures_metrics(struct kw_buffer *text, const char *prefix, const struct kw_figure *figures,
	const void *values)
{
	for (const struct kw_figure *f = figures; f->name; f++) {
		const char *type = f->kind == KW_FIGURE_GAUGE ? "gauge" : "counter";
		const char *tail = f->kind == KW_FIGURE_GAUGE ? "" : "_total";

		kw_buffer_printf(text, "# HELP %s_%s%s %s\n# TYPE %s_%s%s %s\n%s_%s%s %.17g\n",
			prefix, f->name, tail, f->doc, prefix, f->name, tail, type, prefix, f->name,
			tail, get_double(f, values));
	}
}

void kw_figures_status(json_t *status, const struct kw_figure *figures, const void *values)
{
	for (const struct kw_figure *f = figures; f->name; f++)
		if (f->kind == KW_FIGURE_STATUS_COUNTER)
			json_object_set_new(
				status, f->name, json_integer((json_int_t)get_uint64(f, values)));
}
