/*
 * The order of the rows. The rows of a daemon stay together: the daemon first, then its agents. A
 * group stands where the first of its rows would stand alone, so a failed agent is not hidden below
 * a proxy that is well. Pure.
 */
#ifndef KW_CTL_TOP_ORDER_H
#define KW_CTL_TOP_ORDER_H

#include "ctl/top/row.h"

/*
 * Texts from a to z; states from bad to good; figures from the largest. What is not known comes
 * last, in the reversed order too.
 */
struct top_order {
	enum top_column column;
	bool reversed;
};

/* `rows` has the rows of each group one after the other. Sets the lead of each. */
void top_order_sort(struct top_row **rows, size_t count, const struct top_order *order);

#endif
