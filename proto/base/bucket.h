/*
 * A token bucket: so many units a second, with a bounded saving for bursts. Pure.
 *
 * A cost might be known only afterwards (the size of a value). Then the bucket goes into debt, and
 * nothing more is allowed until the debt is paid. The caller owns the struct.
 */
#ifndef KW_BASE_BUCKET_H
#define KW_BASE_BUCKET_H

#include <stdbool.h>
#include <stdint.h>

#define KW_BUCKET_BURST_MS 50 /* what is saved up at most, in time at the rate */

struct kw_bucket {
	uint64_t per_second; /* 0: no limit */
	double tokens;
	uint64_t filled_us;
};

/* A new rate; the saving begins at a full burst. */
void kw_bucket_init(struct kw_bucket *bucket, uint64_t per_second, uint64_t now_us);

/* May one more begin? */
bool kw_bucket_allows(struct kw_bucket *bucket, uint64_t now_us);

void kw_bucket_spend(struct kw_bucket *bucket, uint64_t units);

/* When it allows again; now_us when it does already. */
uint64_t kw_bucket_ready_us(const struct kw_bucket *bucket, uint64_t now_us);

/*
 * Lines of one kind for a log, ten in each second. What others can cause as often as they like must
 * not fill the disk.
 */
#define KW_LINES_A_SECOND 10

struct kw_line_limit {
	uint64_t since_us; /* of the present second; zeroed memory is a valid beginning */
	uint32_t lines;    /* asked for in it */
};

/* May one more be said? *left_out: so many were not, in the second that ended; tell that first. */
bool kw_line_limit_allows(struct kw_line_limit *limit, uint64_t now_us, uint32_t *left_out);

/*
 * The same count, if no further line has asked since the second ended. It is told once: to the next
 * line or here.
 */
uint32_t kw_line_limit_left_out(struct kw_line_limit *limit, uint64_t now_us);

#endif
