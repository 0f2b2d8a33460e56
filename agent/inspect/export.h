/*
 * Export: the table as an RDB stream, for a backup or another server. It is read from the proxy's
 * memory in one inspection run (run.h). Neither server notices. The agent goes on following
 * meanwhile, and needs no local server.
 *
 * While the run is READING, records are appended to the stream. Once it is READ, the last bytes are
 * written. Then it ends. It fails if it is cancelled, if the other side stops taking bytes, or if
 * the caller no longer wants it.
 *
 * The bytes go into a pipe or socket that the caller's side opened. That side decides what they
 * become (a file, standard output, another host), and takes care of rights and space. If it is
 * slow, the reader waits, not the loop: the descriptor is non-blocking.
 *
 * Which moment does it show? A snapshot in which no segment vanished is the table as it was at one
 * version (result.one_moment). If the cleaner was faster, the records that it moved are read in a
 * tail after the snapshot. Then every key is there once, with a value that it had at some moment
 * between begin and end. A key that was deleted meanwhile can be among them.
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
	bool (*wanted)(void *arg); /* asked each KW_RUN_TICK_MS: false ends it */
	/* Every KW_EXPORT_PROGRESS_MS. */
	void (*progress)(void *arg, const struct kw_export_result *so_far);
	/*
	 * The end; the descriptor is closed. error NULL: all of the stream was taken. Otherwise the
	 * bytes taken are no whole file. result is valid during the call. The export is freed after
	 * it.
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
