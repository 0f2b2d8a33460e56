#include "ctl/top/order.h"

#include <stdlib.h>
#include <string.h>

/* 0: the rows are equal in that column. */
static int compare_figures(const struct top_figure *a, const struct top_figure *b, bool reversed)
{
	int known = (b->is == TOP_KNOWN) - (a->is == TOP_KNOWN);
	int larger = (b->value > a->value) - (b->value < a->value);

	if (known || a->is != TOP_KNOWN)
		return known;
	return reversed ? -larger : larger;
}

/* An empty code is that of a row that has none: last. */
static int compare_texts(const char *a, const char *b, bool reversed)
{
	int there = !*a - !*b, order = strcmp(a, b);

	if (there)
		return there;
	return reversed ? -order : order;
}

static int compare_states(const struct top_row *a, const struct top_row *b, bool reversed)
{
	int order = (int)b->mood - (int)a->mood;

	if (!order)
		order = strcmp(a->state, b->state);
	return reversed ? -order : order;
}

static int compare(const struct top_row *a, const struct top_row *b, const struct top_order *order)
{
	switch (order->column) {
	case TOP_NAME:
		return compare_texts(a->name, b->name, order->reversed);
	case TOP_KIND:
		return compare_texts(a->kind, b->kind, order->reversed);
	case TOP_STATE:
		return compare_states(a, b, order->reversed);
	case TOP_CODE:
		return compare_texts(a->code, b->code, order->reversed);
	default:
		return compare_figures(&a->figures[order->column - TOP_FIRST_FIGURE],
			&b->figures[order->column - TOP_FIRST_FIGURE], order->reversed);
	}
}

static int compare_rows(const void *left, const void *right, void *arg)
{
	const struct top_row *a = *(struct top_row *const *)left;
	const struct top_row *b = *(struct top_row *const *)right;
	int order;

	if (a->group != b->group) {
		order = compare(a->lead, b->lead, arg);
		return order ? order : a->group < b->group ? -1 : 1;
	}
	if (a->below != b->below)
		return a->below - b->below;
	order = compare(a, b, arg);
	return order ? order : strcmp(a->name, b->name);
}

void top_order_sort(struct top_row **rows, size_t count, const struct top_order *order)
{
	struct top_order copy = *order;

	for (size_t first = 0, next; first < count; first = next) {
		const struct top_row *lead = rows[first];

		for (next = first; next < count && rows[next]->group == rows[first]->group; next++)
			if (compare(rows[next], lead, order) < 0)
				lead = rows[next];
		for (size_t i = first; i < next; i++)
			rows[i]->lead = lead;
	}
	qsort_r(rows, count, sizeof *rows, compare_rows, &copy);
}
