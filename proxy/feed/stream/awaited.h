/*
 * What asks for an offset of the replication stream: that of all which the server did before. ROLE
 * on the data connection tells it (offset.h). There are three such, each of them once at a time:
 *
 *   an order         between what was fetched and what the stream tells; no more is awaited
 *   an examination   for changes that the server does not tell by itself: until the stream has them
 *   a barrier        of freshness: the same
 *
 * The owner provides the struct, zeroed but for its first members. Loop thread only.
 */
#ifndef KW_PROXY_FEED_STREAM_AWAITED_H
#define KW_PROXY_FEED_STREAM_AWAITED_H

#include "feed/stream/offset.h"
#include "fetch/data.h"

#include <stdbool.h>
#include <stdint.h>

enum kw_awaited_kind {
	KW_AWAITED_ORDER,
	KW_AWAITED_EXAMINATION,
	KW_AWAITED_BARRIER,
	KW_AWAITED_KINDS,
};

struct kw_awaited {
	struct kw_data_connection *data;
	const char *username;
	void (*told)(void *arg, enum kw_awaited_kind kind); /* its offset is known now */
	void (*refused)(void *arg, const struct kw_error *why);
	void *arg;

	struct kw_awaited_one {
		struct kw_awaited *owner;
		struct kw_offset offset;
	} ones[KW_AWAITED_KINDS];
};

/* Nothing of this kind is awaited. */
void kw_awaited_ask(struct kw_awaited *awaited, enum kw_awaited_kind kind);

/* A replica without its primary told no offset: ask once more. */
void kw_awaited_ask_again(struct kw_awaited *awaited);

/* The data connection is gone: nothing is awaited any more. */
void kw_awaited_reset(struct kw_awaited *awaited);

bool kw_awaited_is(const struct kw_awaited *awaited, enum kw_awaited_kind kind);
bool kw_awaited_any(const struct kw_awaited *awaited);

/* The stream is at this offset. True: what was awaited is reached, and is awaited no more. */
bool kw_awaited_take(struct kw_awaited *awaited, enum kw_awaited_kind kind, uint64_t offset);

static inline const struct kw_offset *kw_awaited_offset(
	const struct kw_awaited *awaited, enum kw_awaited_kind kind)
{
	return &awaited->ones[kind].offset;
}

#endif
