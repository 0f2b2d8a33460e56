/*
 * How many databases the server has, where CONFIG may not tell: by asking SELECT.
 *
 * Any client can publish an event that names a database. One that the server does not have would
 * break the data connection, so the number must be known. The default of 16 takes one round trip,
 * any other number up to seventeen.
 *
 * Each SELECT is followed by SELECT 0: for the data connection nothing changes. Loop thread only.
 */
#ifndef KW_PROXY_FEED_WATCH_RANGE_H
#define KW_PROXY_FEED_WATCH_RANGE_H

#include "fetch/data.h"

#include <stdint.h>

struct kw_range {
	struct kw_data_connection *data;
	void (*found)(void *arg); /* least is the number now */
	void *arg;
	uint32_t least, most; /* databases that it has */
	uint32_t probes[2];   /* asked for, in order */
	uint32_t asked, answered;
};

/*
 * On a connection on which database 0 is selected. found follows, or the connection's failure.
 * data, found and arg are set before.
 */
void kw_range_begin(struct kw_range *range);

#endif
