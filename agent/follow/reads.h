/*
 * READs of readers, lookups and walks through the connection that the agent follows on.
 *
 * This module does not own the connection, which can be lost and freed at any moment and replaced
 * by another one. So each READ asks for it anew. If there is none, kw_reads_tick tells the READ
 * back as failed, because a reader must not be told from within its own call. Loop thread only.
 */
#ifndef KW_AGENT_FOLLOW_READS_H
#define KW_AGENT_FOLLOW_READS_H

#include "remote/remote.h"
#include "table/lookup.h"
#include "table/reader.h"
#include "table/walk.h"

struct kw_reads_item;

/* The connection, ready for READs; NULL: there is none at the moment. */
typedef struct kw_remote *(*kw_reads_remote_fn)(void *arg);

struct kw_reads {
	kw_reads_remote_fn remote;
	/* A READ failed: called before the one that asked is told. NULL: not called. */
	void (*lost)(void *arg, const struct kw_error *error);
	void *arg;
	struct kw_reads_item *spare;
	struct kw_reads_item *refused; /* the next tick tells them back */
	int outstanding;               /* begun and not told back */
};

void kw_reads_init(struct kw_reads *reads, kw_reads_remote_fn remote, void *arg);

/* Nothing may be outstanding. */
void kw_reads_close(struct kw_reads *reads);

/* For kw_reader_new, kw_lookups_new and kw_walk_new. */
struct kw_reader_io kw_reads_reader_io(struct kw_reads *reads);
struct kw_lookups_io kw_reads_lookups_io(struct kw_reads *reads);
struct kw_walk_io kw_reads_walk_io(struct kw_reads *reads);

/* Call it from time to time while something is outstanding. */
void kw_reads_tick(struct kw_reads *reads);

#endif
