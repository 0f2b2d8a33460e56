/*
 * A daemon's figures: one table says what each is called, what it means and where its value is.
 * `metrics` (Prometheus text) and the counters of `status` are made from it.
 *
 *     struct values { uint64_t reads; double share; };
 *     static const struct kw_figure figures[] = {
 *         KW_STATUS_COUNTER(struct values, reads, "reads", "READs of the proxy's memory"),
 *         KW_GAUGE(struct values, share, "share", "part of the time that is taken"),
 *         {0},
 *     };
 *
 * The caller fills in the values and keeps them; members are uint64_t or double. Any thread.
 */
#ifndef KW_CONTROL_FIGURES_H
#define KW_CONTROL_FIGURES_H

#include "base/buffer.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

enum kw_figure_kind {
	KW_FIGURE_GAUGE,          /* in metrics, by its name */
	KW_FIGURE_COUNTER,        /* in metrics, with _total after its name */
	KW_FIGURE_STATUS_COUNTER, /* and in status, by its name */
};

enum kw_figure_type { KW_FIGURE_UINT64, KW_FIGURE_DOUBLE };

struct kw_figure {
	const char *name; /* NULL ends a table */
	const char *doc;
	enum kw_figure_kind kind;
	enum kw_figure_type type;
	size_t offset; /* of its value */
};

#define KW_FIGURE(type, member, name, doc, kind)                                                   \
	{                                                                                          \
		name, doc, kind,                                                                   \
			_Generic(((const type *)0)->member, uint64_t                               \
				 : KW_FIGURE_UINT64, double                                        \
				 : KW_FIGURE_DOUBLE),                                              \
			offsetof(type, member)                                                     \
	}
#define KW_GAUGE(type, member, name, doc) KW_FIGURE(type, member, name, doc, KW_FIGURE_GAUGE)
#define KW_COUNTER(type, member, name, doc) KW_FIGURE(type, member, name, doc, KW_FIGURE_COUNTER)
#define KW_STATUS_COUNTER(type, member, name, doc)                                                 \
	KW_FIGURE(type, member, name, doc, KW_FIGURE_STATUS_COUNTER)

/* All of them as Prometheus text, in the table's order: PREFIX_NAME. values: of the table's type.
 */
void kw_figures_metrics(struct kw_buffer *text, const char *prefix, const struct kw_figure *figures,
	const void *values);

/* Those that status has, in the table's order. */
void kw_figures_status(json_t *status, const struct kw_figure *figures, const void *values);

#endif
