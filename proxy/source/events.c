/* What the events connection says: keys that changed, and flushes. */
#include "feed/channel.h"
#include "source/internal.h"

static void settle_first(struct kw_source *source)
{
	struct kw_events *events = &source->coming;
	struct kw_event *event = &events->coming[events->first];

	events->first = (events->first + 1) % KW_EVENTS_COMING;
	events->count--;
	kw_dirty_add_expected(source->dirty, event->expected, event->database,
		kw_slice(event->key, event->length), event->flags);
}

void kw_events_settle(struct kw_source *source)
{
	while (source->coming.count > 0)
		settle_first(source);
}

/*
 * What a key's place in the dirty set touches is in no cache, with a million keys: of two memory
 * accesses the first is begun now, the second half a ring later.
 */
static void dirty_soon(
	struct kw_source *source, uint32_t database, struct kw_slice key, unsigned flags)
{
	struct kw_events *events = &source->coming;
	uint64_t expected = kw_dirty_hash(source->dirty, database, key);
	struct kw_event *event;

	/* Most events, where some keys are written again and again and wait for their turn. */
	if (kw_dirty_absorbs(source->dirty, expected, database, key, flags))
		return;
	if (key.length > KW_EVENT_KEY) {
		kw_events_settle(source);
		kw_dirty_add_expected(source->dirty, expected, database, key, flags);
		return;
	}
	if (events->count == KW_EVENTS_COMING)
		settle_first(source);
	event = &events->coming[(events->first + events->count++) % KW_EVENTS_COMING];
	kw_dirty_expect(source->dirty, expected);
	event->expected = expected;
	event->database = database;
	event->length = (uint16_t)key.length;
	event->flags = (uint8_t)flags;
	if (key.length > 0)
		memcpy(event->key, key.data, key.length);
	if (events->count > KW_EVENTS_COMING / 2)
		kw_dirty_approach(source->dirty,
			events->coming[(events->first + events->count - 1 - KW_EVENTS_COMING / 2) %
				       KW_EVENTS_COMING]
				.expected);
}

/* What a channel says. Most events have that of the one before: it is taken apart but once. */
static const struct kw_heard *hear(struct kw_source *source, struct kw_slice channel)
{
	struct kw_heard *heard = &source->coming.heard;
	struct kw_slice event;

	if (heard->length > 0 && kw_slice_equal(channel, kw_slice(heard->channel, heard->length)))
		return heard;
	heard->length = 0;
	if (!kw_channel_parse(channel, &heard->database, &event))
		return NULL;
	heard->may_expire = kw_channel_may_expire(event);
	if (channel.length <= sizeof(heard->channel)) {
		memcpy(heard->channel, channel.data, channel.length);
		heard->length = (uint16_t)channel.length;
	}
	return heard;
}

static void key_changed(struct kw_source *source, struct kw_slice channel, struct kw_slice key)
{
	const struct kw_heard *heard = hear(source, channel);
	uint32_t database;
	unsigned flags = KW_DIRTY_EVENT;

	if (!heard || !kw_source_follows(source, heard->database, key))
		return;
	database = heard->database;
	source->stats.events++;
	if (source->flush.running)
		kw_canary_touch(source->canaries, database, key);
	if (heard->may_expire) {
		flags |= KW_DIRTY_TTL;
		/* It may be fetched before the scan that began without any expiry meets it. */
		kw_databases_remove(&source->sweep.lasting, database);
	}
	dirty_soon(source, database, key, flags);
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
		 kw_slice_equal(parts[1].text, kw_slice_text(KW_CHANNEL_FLUSH))) {
		kw_events_settle(source);
		kw_flush_seen(source);
	}
}
