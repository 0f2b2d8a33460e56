/*
 * Export: the table as an RDB stream, for a backup or another server, read from the proxy's memory
 * by a reader of its own over the agent's connection. Neither server notices; the agent goes on
 * following meanwhile, and need not have a local server at all.
 *
 *   ┌─────────┐ every key seen ┌──────────┐ all written ┌─────────┐
 *   │ READING │───────────────▶│ FLUSHING │────────────▶│ CLOSING │─▶ done
 *   └─────────┘                └──────────┘             └─────────┘
 *        └── failed, cancelled, nobody reads or waits ──────▲
 *
 * The snapshot's bytes go into a pipe or socket that somebody else opened: what they become (a
 * file, standard output, another host) is that side's, and so are rights, space and the answer to
 * both. Its slowness holds the reader up, not the loop: the descriptor is non-blocking.
 *
 * Which moment it shows: a snapshot in which no segment vanished is the table as it was at one
 * version (result.one_moment). When the cleaner was faster, what it moved is read in a tail behind
 * the snapshot: then every key is still there once, with a value that it had at some moment between
 * begin and end. A key that was deleted meanwhile may be among them.
 *
 * Bounded: KW_EXPORT_WINDOW_BYTES not yet taken by the other side, and one value more; 21 to 43
 * bytes a key to know which were written. Loop thread only.
 */
#ifndef KW_AGENT_INSPECT_EXPORT_H
#define KW_AGENT_INSPECT_EXPORT_H

#include "follow/reads.h"
#include "keys/filter.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#define KW_EXPORT_WINDOW_BYTES (UINT64_C(4) << 20)
#define KW_EXPORT_PROGRESS_MS 200

struct kw_export_options {
	uv_loop_t *loop;
	kw_reads_remote_fn remote; /* the connection to the proxy; NULL while there is none */
	void *remote_arg;
	const struct kw_filter *filter; /* outlives the export */
	int fd; /* a pipe or socket, open for writing; made non-blocking. Owned once begun */
};

struct kw_export_result {
	uint64_t keys, bytes; /* written to the stream so far */
	double progress;      /* 0..1 of the snapshot read */
	uint64_t epoch;       /* of the table */
	uint64_t version;     /* of its head when the snapshot began */
	uint64_t fresh_us;    /* all written before it is in (the proxy's wall clock); 0: unknown */
	uint64_t begun_us;    /* wall clock */
	uint16_t rdb_version; /* of the stream; 0 while it has not begun */
	uint8_t source_state; /* enum kw_source_state, when it began */
	bool one_moment;      /* the table as it was at `version` */
	double seconds;
};

struct kw_export_handlers {
	bool (*wanted)(void *arg); /* asked every now and then: false ends it */
	/* Every KW_EXPORT_PROGRESS_MS. */
	void (*progress)(void *arg, const struct kw_export_result *so_far);
	/*
	 * The end, the descriptor is closed: error NULL and all of the stream was taken, or why
	 * not, and what was taken is no whole file. result is valid during the call; the export is
	 * freed behind it.
	 */
	void (*done)(
		void *arg, const struct kw_export_result *result, const struct kw_error *error);
	void *arg;
};

struct kw_export;

/* KW_E_ARGUMENT: fd is no pipe or socket. Nothing was begun then, fd is still the caller's. */
int kw_export_start(const struct kw_export_options *options,
	const struct kw_export_handlers *handlers, struct kw_export **result,
	struct kw_error *error);

/* End it; done follows from the loop with KW_E_STATE and this sentence. */
void kw_export_cancel(struct kw_export *export, const char *why);

const struct kw_export_result *kw_export_result(struct kw_export *export);

#endif
