/*
 * One agent's answers in blocks (frame.h): which READs are answered so, and the stage that holds
 * the block under way until all of it was sent.
 *
 * A READ is answered plain if it is short, or while blocks did not pay lately: after an answer that
 * did not shrink the next READ is left plain, then the next two, four, up to KW_PACKED_PAUSE_MAX.
 * So an agent that reads what cannot shrink costs little more than without compression.
 *
 * Serving thread only, but for kw_packed_new.
 */
#ifndef KW_REMOTE_TCP_PACKED_H
#define KW_REMOTE_TCP_PACKED_H

#include "base/slice.h"
#include "remote/tcp/compress.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KW_PACKED_PAUSE_MAX 32 /* READs left plain after one that did not shrink, at most */

struct kw_packed {
	struct kw_compressor *compressor; /* of the thread */
	int level;
	uint32_t in_vain; /* answers in a row that did not shrink */
	uint32_t pause;   /* READs that are still left plain */
	uint64_t length;  /* of the READ under way */
	uint64_t done;    /* of it, in blocks so far; the one in the stage included */
	uint64_t wire;    /* what these blocks take */
	size_t filled, sent;
	uint8_t *stage;
};

/* compressor: outlives it. level: as for kw_compressor_block. NULL: there is no memory. */
struct kw_packed *kw_packed_new(struct kw_compressor *compressor, int level);
void kw_packed_free(struct kw_packed *packed); /* NULL: nothing */

/* A READ came: is it answered in blocks? Once for each READ. */
bool kw_packed_takes(struct kw_packed *packed, uint64_t length);

/*
 * What is to be sent next of the READ under way, of `length` bytes. Empty: fill the compressor's
 * source with kw_packed_wants bytes, from packed->done on, then call kw_packed_fill.
 */
struct kw_slice kw_packed_piece(struct kw_packed *packed, uint64_t length);
size_t kw_packed_wants(const struct kw_packed *packed);
void kw_packed_fill(struct kw_packed *packed);

/* So much of the piece was sent. True: that was the end of the answer. */
bool kw_packed_sent(struct kw_packed *packed, size_t length);

#endif
