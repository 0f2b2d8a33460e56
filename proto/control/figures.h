/*
 * A daemon's figures: one table says what each is called, what it means and where its value is.
 * The metrics (Prometheus text, of the control socket and of HTTP), the counters of status and the
 * page of all metrics in the documents are made from it.
 *
 *     struct values { uint64_t reads, lost, late, wait_us; };
 *     static const struct kw_figure figures[] = {
 *         KW_STATUS_COUNTER(struct values, reads, "reads", "READs of the proxy's memory"),
 *         KW_PART(struct values, lost, "reads_lost", "reads_failed", "why=\"lost\"", "READs …"),
 *         KW_PART(struct values, late, "reads_late", "reads_failed", "why=\"late\"", "READs …"),
 *         KW_SECONDS(struct values, wait_us, "wait", "time that READs waited"),
 *         {0},
 *     };
 *
 * The caller fills in the values and keeps them; members are uint64_t or double. Any thread.
 */
#ifndef KW_CONTROL_FIGURES_H
#define KW_CONTROL_FIGURES_H

#include "base/buffer.h"
#include "control/metrics.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

enum kw_figure_kind {
	KW_FIGURE_GAUGE,          /* in metrics, by its name */
	KW_FIGURE_COUNTER,        /* in metrics, with _total after its name */
	KW_FIGURE_STATUS_COUNTER, /* and in status, by its name */
	KW_FIGURE_STATUS,         /* in status alone: metrics have its parts */
};

enum kw_figure_type { KW_FIGURE_UINT64, KW_FIGURE_DOUBLE };

struct kw_figure {
	const char *name; /* NULL ends a table */
	const char *doc;
	enum kw_figure_kind kind;
	enum kw_figure_type type;
	size_t offset; /* of its value */
	/*
	 * In metrics: the family that it is a part of, and the label that tells it from the other
	 * parts. They stand one after the other in the table, and the doc of the first one is that
	 * of all. NULL: it is a family of its own, by its name.
	 */
	const char *family, *label;
	double scale; /* in metrics the value times this; 0: as it is */
};

#define KW_FIGURE(type, member, name, doc, kind, ...)                                              \
	{                                                                                          \
		name, doc, kind,                                                                   \
			_Generic(((const type *)0)->member, uint64_t                               \
				 : KW_FIGURE_UINT64, double                                        \
				 : KW_FIGURE_DOUBLE),                                              \
			offsetof(type, member), __VA_ARGS__                                        \
	}
#define KW_GAUGE(type, member, name, doc)                                                          \
	KW_FIGURE(type, member, name, doc, KW_FIGURE_GAUGE, NULL, NULL, 0)
#define KW_COUNTER(type, member, name, doc)                                                        \
	KW_FIGURE(type, member, name, doc, KW_FIGURE_COUNTER, NULL, NULL, 0)
#define KW_STATUS_COUNTER(type, member, name, doc)                                                 \
	KW_FIGURE(type, member, name, doc, KW_FIGURE_STATUS_COUNTER, NULL, NULL, 0)
#define KW_STATUS_ONLY(type, member, name, doc)                                                    \
	KW_FIGURE(type, member, name, doc, KW_FIGURE_STATUS, NULL, NULL, 0)
/* In status by its name, in metrics as a part of a family. */
#define KW_PART(type, member, name, family, label, doc)                                            \
	KW_FIGURE(type, member, name, doc, KW_FIGURE_STATUS_COUNTER, family, label, 0)
/* A counter of microseconds, in metrics as NAME_seconds_total. */
#define KW_SECONDS(type, member, name, doc)                                                        \
	KW_FIGURE(type, member, name, doc, KW_FIGURE_COUNTER, name "_seconds", NULL, 1e-6)

/* All of them in the table's order. values: of the table's type. */
void kw_figures_metrics(
	const struct kw_metrics *metrics, const struct kw_figure *figures, const void *values);

/* Those that status has, in the table's order. */
void kw_figures_status(json_t *status, const struct kw_figure *figures, const void *values);

#endif
