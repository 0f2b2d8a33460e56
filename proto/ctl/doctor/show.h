/*
 * The report of a doctor, for people. Any thread.
 */
#ifndef KW_CTL_DOCTOR_SHOW_H
#define KW_CTL_DOCTOR_SHOW_H

#include "ctl/ctl.h"

/* What is wrong first, then warnings, then what is well; the order within each stays. */
void ctl_doctor_sort(json_t *report);

/* On standard output, as wide as the terminal. */
void ctl_doctor_show(const struct ctl *ctl, const json_t *report);

#endif
