/* What the events connection says: keys that changed, and flushes. */
#include "source/channel.h"
#include "source/internal.h"

static void key_changed(struct kw_source *source, struct kw_slice channel, struct kw_slice key)
{
	struct kw_slice event;
	uint32_t database;
	unsigned flags = 0;

	if (!kw_channel_parse(channel, &database, &event) ||
		!kw_source_follows(source, database, key))
		return;
	source->stats.events++;
	if (source->flush.running)
		kw_canary_touch(source->canaries, database, key);
	if (kw_channel_may_expire(event)) {
		flags = KW_DIRTY_TTL;
		/* It may be fetched before the scan that began without any expiry meets it. */
		kw_databases_remove(&source->sweep.lasting, database);
	}
	kw_dirty_add(source->dirty, database, key, flags);
	kw_source_want_turn(source);
}

/*
 * Messages come as [pmessage, pattern, channel, key] and [message, channel, payload]. The payload
 * of an invalidation is nil for a flush; a list of keys cannot come, as OPTIN tracks none.
 */
void kw_source_pushed(void *arg, const struct kw_reply *message)
{
	struct kw_source *source = arg;
	const struct kw_reply *parts = message->elements;

	if (message->count == 4 && parts[2].type == KW_REPLY_STRING &&
		parts[3].type == KW_REPLY_STRING)
		key_changed(source, parts[2].text, parts[3].text);
	else if (message->count == 3 && parts[2].type == KW_REPLY_NIL &&
		 kw_slice_equal(parts[1].text, kw_slice_text(KW_CHANNEL_FLUSH)))
		kw_flush_seen(source);
}
