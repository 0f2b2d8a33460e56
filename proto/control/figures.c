#include "control/figures.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
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

static const char *family_of(const struct kw_figure *figure)
{
	return figure->family ? figure->family : figure->name;
}

/* Does it go on with the family of the figure before it? */
static bool goes_on(const struct kw_figure *first, const struct kw_figure *figure)
{
	return figure > first && figure->label && figure[-1].family &&
	       strcmp(figure[-1].family, figure->family) == 0;
}

void kw_figures_metrics(
	const struct kw_metrics *metrics, const struct kw_figure *figures, const void *values)
{
	char name[128];

	for (const struct kw_figure *f = figures; f->name; f++) {
		const char *labels = f->label ? f->label : "";
		bool gauge = f->kind == KW_FIGURE_GAUGE;

		if (f->kind == KW_FIGURE_STATUS)
			continue;
		snprintf(name, sizeof name, "%s%s", family_of(f), gauge ? "" : "_total");
		if (!goes_on(figures, f))
			kw_metrics_family(metrics, name, gauge ? "gauge" : "counter", f->doc);
		if (f->type == KW_FIGURE_UINT64 && f->scale == 0.0)
			kw_metrics_integer(metrics, name, labels, get_uint64(f, values));
		else
			kw_metrics_sample(metrics, name, labels,
				get_double(f, values) * (f->scale == 0.0 ? 1 : f->scale));
	}
}

void kw_figures_status(json_t *status, const struct kw_figure *figures, const void *values)
{
	for (const struct kw_figure *f = figures; f->name; f++)
		if (f->kind == KW_FIGURE_STATUS_COUNTER || f->kind == KW_FIGURE_STATUS)
			json_object_set_new(
				status, f->name, json_integer((json_int_t)get_uint64(f, values)));
}
