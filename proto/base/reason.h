/*
 * The reasons of a daemon's states: one table a daemon. Log, status, metrics and the page tell the
 * code; status and page tell the remedy, too. deploy/doc/operate.md explains the codes in the words
 * of these tables, and a test compares them.
 */
#ifndef KW_BASE_REASON_H
#define KW_BASE_REASON_H

#include <assert.h>

/* How a state is shown that has this reason: the colours and signs of page and keywakectl. */
enum kw_grade {
	KW_GRADE_NONE,    /* the table lacks it */
	KW_GRADE_GOOD,    /* as it should be, also if the state is not the best one */
	KW_GRADE_PASSING, /* it ends by itself, or a person wanted it so */
	KW_GRADE_BAD,     /* not well */
};

struct kw_reason_row {
	/* For programs: a code is never another reason's in a later version. "none": all is well.
	 */
	const char *code;
	enum kw_grade grade;
	const char *meaning; /* a sentence for people, without figures */
	const char *remedy;  /* what a person does; "": nothing is to be done */
};

/* "good", "passing" or "bad". */
static inline const char *kw_grade_name(enum kw_grade grade)
{
	static const char *const names[] = {
		[KW_GRADE_GOOD] = "good", [KW_GRADE_PASSING] = "passing", [KW_GRADE_BAD] = "bad"};

	assert(grade > KW_GRADE_NONE && grade <= KW_GRADE_BAD);
	return names[grade];
}

#endif
