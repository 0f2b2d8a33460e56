/* Why the table might differ from the primary. Each cause has its counter in the status. */
#ifndef KW_PROXY_FEED_DOUBT_H
#define KW_PROXY_FEED_DOUBT_H

#include <stdbool.h>

enum kw_doubt {
	KW_DOUBT_CONNECTION, /* a connection was lost: events were missed */
	KW_DOUBT_FLAGS,      /* another client changed notify-keyspace-events */
	KW_DOUBT_FLUSH,      /* a flush, and these databases cannot be shown to have been spared */
	KW_DOUBT_LOADED,     /* the data set may have been loaded anew: no flush was counted */
	KW_DOUBT_SWAPDB,     /* SWAPDB was called */
	KW_DOUBT_RESET,      /* SWAPDB might have been called: its counter was reset */
	KW_DOUBT_IDENTITY,   /* another server, another role, another history */
	KW_DOUBT_AUDIT,      /* no doubt: the slow sweep over everything */
	KW_DOUBT_ASKED,      /* the operator asked for a reconcile */
	KW_DOUBT_COMMAND,    /* a command of the replication stream is not understood */
	KW_DOUBTS,
};

/* Did the server count a command that explains why keys of these databases are gone? */
static inline bool kw_doubt_explains(enum kw_doubt cause)
{
	return cause == KW_DOUBT_FLUSH || cause == KW_DOUBT_SWAPDB;
}

#endif
