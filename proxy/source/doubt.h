/* Why the table may not be equal to the primary: each cause has its counter in the status. */
#ifndef KW_PROXY_SOURCE_DOUBT_H
#define KW_PROXY_SOURCE_DOUBT_H

enum kw_doubt {
	KW_DOUBT_CONNECTION, /* a connection was lost: events were missed */
	KW_DOUBT_FLAGS,      /* notify-keyspace-events was changed behind our back */
	KW_DOUBT_FLUSH,      /* a flush, and these databases cannot be shown to have been spared */
	KW_DOUBT_SWAPDB,     /* SWAPDB was called */
	KW_DOUBT_RESET,      /* … or may have been: its counter was reset */
	KW_DOUBT_IDENTITY,   /* another server, another role, another history */
	KW_DOUBT_AUDIT,      /* no doubt at all: the slow sweep */
	KW_DOUBT_ASKED,      /* the operator wants it */
	KW_DOUBTS,
};

#endif
