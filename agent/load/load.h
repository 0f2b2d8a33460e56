/*
 * Loaders: how a snapshot gets into the local server. One interface, one file a loader.
 *
 *   restore   record by record through the applier; what is there is merged with it   restore.c
 *             (of a replication link, too)
 *   rdb       an RDB on a replication link; it replaces all data at once              rdb.c
 *   none      to the applier, and no server is asked                                  restore.c
 *
 *   prepare ──▶ done ──▶ begin ──▶ records … ──▶ end ──▶ changes follow (apply/apply.h)
 *                 │        └──── abandon ◀──┘
 *                 └─ a failure: not now
 *
 * Loop thread only.
 */
#ifndef KW_AGENT_LOAD_LOAD_H
#define KW_AGENT_LOAD_LOAD_H

#include "apply/apply.h"
#include "primary/replica.h"

/* What is about to be read. */
struct kw_load_plan {
	uint64_t epoch;
	uint64_t keys;      /* about so many, without a promise; 0: not known */
	uint64_t consented; /* so many deletions a person has agreed to: the claim says so */
};

struct kw_loader;

struct kw_loader_ops {
	/*
	 * What must come before the first record: the claim, or the server's readiness to load.
	 * done is called once, perhaps from within, unless the server is gone or the loader is
	 * asked again.
	 */
	void (*prepare)(struct kw_loader *loader, const struct kw_load_plan *plan,
		kw_local_done_fn done, void *arg);
	void (*begin)(struct kw_loader *loader);
	/* Between begin and end. Always taken, even beyond the room. */
	void (*records)(
		struct kw_loader *loader, const struct kw_record_view *records, size_t count);
	/* Bytes of records that it has room for. */
	uint64_t (*room)(const struct kw_loader *loader);
	/* All records were handed on. */
	void (*end)(struct kw_loader *loader);
	/* What was begun is not completed. Also when nothing was begun. */
	void (*abandon)(struct kw_loader *loader);
	void (*set_window)(struct kw_loader *loader, uint64_t bytes);
	void (*free)(struct kw_loader *loader);
};

/* Written by the loader alone. */
struct kw_loader {
	const struct kw_loader_ops *ops;
	uint64_t taken; /* records that are neither loaded nor given up, nor with the applier */
};

/* The applier, and for `rdb` the replica, outlive the loader. */
struct kw_loader *kw_loader_restore(struct kw_applier *applier);
struct kw_loader *kw_loader_none(struct kw_applier *applier);
struct kw_loader *kw_loader_rdb(
	struct kw_replica *replica, struct kw_quarantine *quarantine, uint64_t window_bytes);

#endif
