/*
 * Why the local server is not used: what kind of trouble it is. The sentence says the rest
 * (kw_local_why). Any thread.
 */
#ifndef KW_AGENT_LOCAL_UNFIT_H
#define KW_AGENT_LOCAL_UNFIT_H

enum kw_unfit {
	KW_UNFIT_CONNECTION,  /* it refuses the connection or the login, or the address is not valid
			       */
	KW_UNFIT_TAKEN,       /* another agent writes to it */
	KW_UNFIT_YIELDED,     /* this agent has nothing to write, and lets another one have it */
	KW_UNFIT_REPLICA,     /* it is a replica of another server */
	KW_UNFIT_UNSUPPORTED, /* its version, or what it is */
	KW_UNFIT_FORBIDDEN,   /* the agent's user lacks a permission */
	KW_UNFIT_CURSOR,      /* another's library or key stands where the cursor goes */
	KW_UNFIT_PASSES,      /* it loads its data, or is busy: that ends by itself */
};

#endif
