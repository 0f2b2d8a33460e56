/*
 * READs of a second reader, or of lookups, through the connection that the agent follows on.
 *
 * The connection is not owned: it may be lost and freed at any moment, and another one come. So it
 * is asked for at every READ; a READ that finds none is told back as failed by kw_reads_tick, since
 * a reader may not be told from within its own call. Loop thread only.
 */
#ifndef KW_AGENT_FOLLOW_READS_H
#define KW_AGENT_FOLLOW_READS_H

#include "remote/remote.h"
#include "table/lookup.h"
#include "table/reader.h"

struct kw_reads_item;

/* The connection, ready for READs; NULL: there is none at the moment. */
typedef struct kw_remote *(*kw_reads_remote_fn)(void *arg);

struct kw_reads {
	kw_reads_remote_fn remote;
	void *arg;
	struct kw_reads_item *spare;
	struct kw_reads_item *refused; /* to be told back by the next tick */
	int outstanding;               /* posted and not told back */
};

void kw_reads_init(struct kw_reads *reads, kw_reads_remote_fn remote, void *arg);

/* Nothing may be outstanding. */
void kw_reads_close(struct kw_reads *reads);

/* What a reader, or a lookup, is to be made with. */
struct kw_reader_io kw_reads_reader_io(struct kw_reads *reads);
struct kw_lookup_io kw_reads_lookup_io(struct kw_reads *reads);

/* From time to time while something is outstanding. */
void kw_reads_tick(struct kw_reads *reads);

#endif
