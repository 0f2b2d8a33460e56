/* The words of the sync: its phases (sync.h draws them), and what it knows of the local data. */
#ifndef KW_AGENT_SYNC_PHASES_H
#define KW_AGENT_SYNC_PHASES_H

enum kw_sync_phase {
	KW_SYNC_WAIT,
	KW_SYNC_COUNT,
	KW_SYNC_SAMPLE,
	KW_SYNC_CLAIM,
	KW_SYNC_SNAPSHOT,
	KW_SYNC_SETTLE,
	KW_SYNC_PRUNE,
	KW_SYNC_HELD,
	KW_SYNC_TAIL,
};

/* What the snapshot is for. */
enum kw_sync_purpose {
	KW_SYNC_BOOTSTRAP, /* there was nothing before it: TAIL follows */
	KW_SYNC_RECONCILE, /* local keys that it does not have are deleted: SETTLE follows */
};

/* Whose the local data are, as of the last time the server was assessed. */
enum kw_sync_data {
	KW_SYNC_DATA_FOREIGN, /* no cursor of ours was found with them */
	KW_SYNC_DATA_OURS,    /* a cursor of ours was found */
	KW_SYNC_DATA_CLAIMED, /* the agent has claimed them since, and written */
};

/* Is anything read from the table? */
enum kw_sync_intake {
	KW_SYNC_INTAKE_OPEN,
	KW_SYNC_INTAKE_PAUSED, /* by the operator */
	KW_SYNC_INTAKE_ENDED,  /* the agent ends */
};

/* Does anything keep the sync from going on? `why` says what. */
enum kw_sync_obstacle {
	KW_SYNC_FREE,
	KW_SYNC_WAITS, /* it ends by itself */
	/* Only a person can mend it: */
	KW_SYNC_NEEDS_CONSENT,    /* to replace data of others */
	KW_SYNC_NEEDS_LINK,       /* the table is of another data set */
	KW_SYNC_NEEDS_TERM,       /* the proxy's server was deposed */
	KW_SYNC_NEEDS_MANDATE,    /* the data have a term, and the proxy asks nobody */
	KW_SYNC_NEEDS_SERVER,     /* the local server does not take this table */
	KW_SYNC_NEEDS_PERMISSION, /* to delete local keys */
};

/* Within the last warm_lag_us, were the local data equal to the newest version published then? */
enum kw_sync_equality {
	KW_SYNC_UNEQUAL,
	KW_SYNC_UNPROVEN, /* they were, unless the server has evicted keys: not known yet */
	KW_SYNC_EQUAL,
};

#endif
