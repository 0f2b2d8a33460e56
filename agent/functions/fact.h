/* What the function libraries of the primary are to the local server. For the judge (judge.h). */
#ifndef KW_AGENT_FUNCTIONS_FACT_H
#define KW_AGENT_FUNCTIONS_FACT_H

enum kw_functions_fact {
	KW_FUNCTIONS_FINE,        /* the server has them, or there are none to apply */
	KW_FUNCTIONS_LATE,        /* they are on their way */
	KW_FUNCTIONS_ARE_HELD,    /* the primary has none, and may have lost them */
	KW_FUNCTIONS_ARE_REFUSED, /* they cannot be loaded here */
};

#endif
