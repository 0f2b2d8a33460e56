/*
 * What a doctor says: findings, each one sentence with its severity and what mends it. Pure; any
 * thread.
 */
#ifndef KW_DOCTOR_FINDING_H
#define KW_DOCTOR_FINDING_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

#define KW_FINDINGS_MAX 128
#define KW_FINDING_CHECK 96
#define KW_FINDING_REMEDY 640

enum kw_severity {
	KW_FINDING_OK,
	KW_FINDING_WARNING, /* it works, and something can go wrong with it, or costs more */
	KW_FINDING_WRONG,   /* the daemon cannot do its work, or not all of it */
};

struct kw_finding {
	enum kw_severity severity;
	char check[KW_FINDING_CHECK];   /* what was looked at: "primary: permissions" */
	char text[KW_ERROR_TEXT];       /* one sentence */
	char remedy[KW_FINDING_REMEDY]; /* a command, or a line of a configuration; "": none */
};

/* Zeroed: none. The caller owns it. */
struct kw_findings {
	struct kw_finding list[KW_FINDINGS_MAX];
	size_t count;
	struct kw_finding spare; /* for those beyond, which are only counted … */
	size_t left_out[3];      /* … by severity */
};

/* What is looked at: "WHAT: PART". */
struct kw_check {
	const char *what; /* "primary" */
	const char *part; /* "permissions" */
};

/* Add one; never NULL. Text of servers in it is made printable. */
struct kw_finding *kw_finding_add(struct kw_findings *findings, enum kw_severity severity,
	struct kw_check check, const char *format, ...) __attribute__((format(printf, 4, 5)));

/* What mends it. */
void kw_finding_mend(struct kw_finding *finding, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * Wrong, in the words of one of our readers. Their sentences end with the remedy, which follows the
 * last colon; it is shown as such, and nothing is decided by it. A sentence without one needs
 * `remedy`; NULL: it has one.
 */
struct kw_finding *kw_finding_of(struct kw_findings *findings, struct kw_check check,
	const struct kw_error *error, const char *remedy);

size_t kw_findings_of_severity(const struct kw_findings *findings, enum kw_severity severity);

/* "ok", "warning", "wrong". */
const char *kw_severity_name(enum kw_severity severity);

#endif
