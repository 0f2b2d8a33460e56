#include "feed/notify/search.h"

#include "base/buffer.h"
#include "redis/server.h"

#include <assert.h>
#include <stdlib.h>

static bool holds(const void *owner, int state)
{
	const struct kw_search *search = owner;

	if (search->ended > search->begun || search->begun > search->wanted)
		return false;
	switch (state) {
	case KW_SEARCH_IDLE:
		return search->ended == search->begun && kw_scan_done(search->scan);
	case KW_SEARCH_ASKING:
		return search->owed > 0 && search->ended < search->begun;
	default:
		return search->ended < search->begun;
	}
}

static const struct kw_sm_state states[] = {
	[KW_SEARCH_IDLE] = {"idle", KW_SM_TO(KW_SEARCH_ASKING), KW_SM_INITIAL},
	[KW_SEARCH_ASKING] = {"asking", KW_SM_TO(KW_SEARCH_SCANNING) | KW_SM_TO(KW_SEARCH_IDLE)},
	[KW_SEARCH_SCANNING] = {"scanning", KW_SM_TO(KW_SEARCH_IDLE)},
};

static const struct kw_sm_conf machine = {"search", states, KW_SEARCH_SCANNING + 1, holds};

static void found(void *arg, uint32_t database, struct kw_slice key)
{
	struct kw_search *search = arg;

	search->found(search->arg, database, key);
}

void kw_search_init(struct kw_search *search, uint64_t now_us)
{
	const struct kw_scan_handlers scan = {.key = found, .type = "vectorset", .arg = search};

	assert(search->data && search->found);
	search->scan = kw_scan_new(search->data, &scan);
	kw_bucket_init(&search->pace, KW_SEARCH_KEYS_PER_SECOND, now_us);
	kw_sm_init(&search->sm, &machine, search, KW_SEARCH_IDLE);
}

void kw_search_close(struct kw_search *search)
{
	assert(search->owed == 0);
	kw_scan_free(search->scan);
}

uint64_t kw_search_want(struct kw_search *search)
{
	return ++search->wanted;
}

static void rest(struct kw_search *search, const char *why)
{
	search->ended = search->begun;
	kw_sm_move(&search->sm, KW_SEARCH_IDLE, why);
}

void kw_search_abandon(struct kw_search *search)
{
	kw_scan_stop(search->scan);
	search->begun = search->wanted;
	if (search->sm.state == KW_SEARCH_IDLE)
		search->ended = search->begun;
	else
		rest(search, "abandoned");
}

struct listing {
	uint32_t *databases;
	uint32_t count;
};

static void list(void *arg, uint32_t database, uint64_t keys, uint64_t expires)
{
	struct listing *listing = arg;

	(void)keys;
	(void)expires;
	listing->databases =
		kw_realloc(listing->databases, (listing->count + 1) * sizeof *listing->databases);
	listing->databases[listing->count++] = database;
}

static void keyspace_answered(void *arg, const struct kw_reply *reply)
{
	struct kw_search *search = arg;
	struct listing listing = {0};

	assert(search->owed > 0);
	search->owed--;
	reply = kw_data_reply(search->data, reply);
	if (!reply || search->owed > 0 || search->sm.state != KW_SEARCH_ASKING)
		return;
	if (reply->type != KW_REPLY_STRING) {
		kw_data_refused(search->data, "INFO keyspace", "+info", reply);
		return;
	}
	kw_info_keyspace(reply->text, list, &listing);
	kw_scan_begin(search->scan, listing.databases, listing.count);
	free(listing.databases);
	kw_sm_move(&search->sm, KW_SEARCH_SCANNING, "");
}

static void begin(struct kw_search *search)
{
	search->begun = search->wanted;
	search->owed++;
	kw_sm_move(&search->sm, KW_SEARCH_ASKING, "");
	kw_data_info(search->data, keyspace_answered, search, "keyspace");
}

static void pump(struct kw_search *search, uint64_t now_us)
{
	if (kw_scan_asked(search->scan) || !kw_bucket_allows(&search->pace, now_us))
		return;
	kw_bucket_spend(&search->pace, KW_SCAN_COUNT);
	kw_scan_pump(search->scan, KW_SCAN_COUNT);
}

void kw_search_turn(struct kw_search *search, uint64_t now_us)
{
	if (kw_data_is_broken(search->data))
		return;
	if (search->sm.state == KW_SEARCH_SCANNING && kw_scan_done(search->scan))
		rest(search, "all were told");
	if (search->sm.state == KW_SEARCH_IDLE && search->begun < search->wanted)
		begin(search);
	else if (search->sm.state == KW_SEARCH_SCANNING)
		pump(search, now_us);
}

uint64_t kw_search_ready_us(const struct kw_search *search, uint64_t now_us)
{
	if (search->sm.state == KW_SEARCH_IDLE && search->begun < search->wanted)
		return now_us;
	if (search->sm.state != KW_SEARCH_SCANNING)
		return UINT64_MAX;
	if (kw_scan_done(search->scan))
		return now_us;
	return kw_scan_asked(search->scan) ? UINT64_MAX : kw_bucket_ready_us(&search->pace, now_us);
}
