/*
 * Where the time goes, as a daemon tells it: the answer of the method `lag`, and the histograms of
 * its metrics, from one table of the daemon's stages.
 *
 * The stages of all daemons, in the order in which a change passes through them:
 *
 *   proxy   primary ─▶ events ─▶ wait ─▶ fetch ─▶ publish ─┐
 *   agent                                                  └─▶ look ─▶ read ─▶ apply
 *
 * Loop thread only.
 */
#ifndef KW_CONTROL_STAGE_REPORT_H
#define KW_CONTROL_STAGE_REPORT_H

#include "base/stages.h"
#include "control/metrics.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#define KW_REMEDY 512

/* Of the method `lag`. */
#define KW_LAG_PARAMS                                                                              \
	{                                                                                          \
		{                                                                                  \
			"reset", JSON_TRUE, false, "the recent past begins anew after this answer" \
		}                                                                                  \
	}

struct kw_stage {
	const char *name; /* NULL ends a table */
	const char *doc;  /* what its time is: a phrase */
	/* What makes it long at present, and what shortens it: a sentence. facts: the caller's. */
	void (*remedy)(const void *facts, char text[KW_REMEDY]);
};

/*
 * {epoch, window_s, present, stages: [{stage, p50_us, p99_us, max_us, samples, doc, remedy}]} of
 * the recent past. The figures of a stage without samples are null. epoch: of the table that it is
 * about. present: what holds changes up at this moment, as a sentence; "": nothing is known to. A
 * change that waits is in no figure yet. table: in the order of the numbers in `stages`.
 */
json_t *kw_stage_report(struct kw_stages *stages, const struct kw_stage *table, const void *facts,
	uint64_t epoch, uint64_t now_us);
void kw_stage_report_present(json_t *report, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* PREFIX_stage_seconds, with the label stage: of all time. */
void kw_stage_metrics(const struct kw_metrics *metrics, const struct kw_stages *stages,
	const struct kw_stage *table);

#endif
