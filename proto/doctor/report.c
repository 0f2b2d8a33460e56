/* The findings as JSON, for keywakectl and for scripts. */
#include "doctor/internal.h"

#include "control/json_text.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

static json_t *list(const struct kw_findings *findings)
{
	json_t *all = json_array();

	for (size_t i = 0; i < findings->count; i++) {
		const struct kw_finding *finding = &findings->list[i];

		json_array_append_new(all, json_pack("{s:s,s:o,s:o,s:o}", "severity",
						   kw_severity_name(finding->severity), "check",
						   kw_json_text(finding->check), "finding",
						   kw_json_text(finding->text), "remedy",
						   kw_json_text(finding->remedy)));
	}
	return all;
}

static json_int_t count(const struct kw_doctor *doctor, enum kw_severity severity)
{
	return (json_int_t)kw_findings_of_severity(&doctor->findings, severity);
}

void kw_doctor_report(const struct kw_doctor *doctor)
{
	json_t *report = json_pack("{s:s,s:s,s:b,s:I,s:I,s:I,s:o}", "program",
		doctor->subject->program, "version", KW_VERSION, "running", doctor->running,
		"wrong", count(doctor, KW_FINDING_WRONG), "warnings",
		count(doctor, KW_FINDING_WARNING), "ok", count(doctor, KW_FINDING_OK), "findings",
		list(&doctor->findings));
	char *text = json_dumps(report, JSON_COMPACT);

	printf("%s\n", text ? text : "{}");
	fflush(stdout);
	free(text);
	json_decref(report);
}
