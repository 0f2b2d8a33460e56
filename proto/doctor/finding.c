#include "doctor/finding.h"

#include "base/printable.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static struct kw_finding *next(struct kw_findings *findings, enum kw_severity severity)
{
	if (findings->count < KW_FINDINGS_MAX)
		return &findings->list[findings->count++];
	findings->left_out[severity]++;
	return &findings->spare;
}

struct kw_finding *kw_finding_add(struct kw_findings *findings, enum kw_severity severity,
	struct kw_check check, const char *format, ...)
{
	struct kw_finding *finding = next(findings, severity);
	char raw[KW_ERROR_TEXT];
	va_list args;

	*finding = (struct kw_finding){.severity = severity};
	snprintf(finding->check, sizeof finding->check, "%s: %s", check.what, check.part);
	va_start(args, format);
	vsnprintf(raw, sizeof raw, format, args);
	va_end(args);
	kw_printable(finding->text, sizeof finding->text, kw_slice_text(raw), KW_NEWLINE_ESCAPED);
	return finding;
}

void kw_finding_mend(struct kw_finding *finding, const char *format, ...)
{
	char raw[KW_FINDING_REMEDY];
	va_list args;

	va_start(args, format);
	vsnprintf(raw, sizeof raw, format, args);
	va_end(args);
	kw_printable(
		finding->remedy, sizeof finding->remedy, kw_slice_text(raw), KW_NEWLINE_ESCAPED);
}

struct kw_finding *kw_finding_of(struct kw_findings *findings, struct kw_check check,
	const struct kw_error *error, const char *remedy)
{
	struct kw_finding *finding =
		kw_finding_add(findings, KW_FINDING_WRONG, check, "%s", error->text);
	const char *last = NULL, *at = finding->text;

	if (remedy) {
		kw_finding_mend(finding, "%s", remedy);
		return finding;
	}
	while ((at = strstr(at, ": ")))
		last = at += 2;
	kw_finding_mend(finding, "%s", last ? last : finding->text);
	return finding;
}

size_t kw_findings_of_severity(const struct kw_findings *findings, enum kw_severity severity)
{
	size_t count = findings->left_out[severity];

	for (size_t i = 0; i < findings->count; i++)
		count += findings->list[i].severity == severity;
	return count;
}

const char *kw_severity_name(enum kw_severity severity)
{
	static const char *const names[] = {"ok", "warning", "wrong"};

	return names[severity];
}
