#include "fetch/fetch.h"

#include "base/bucket.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/hash.h"
#include "fetch/cooldown.h"
#include "redis/server.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Type byte, at least one byte of value, version and CRC64. */
#define PAYLOAD_LEAST 12
#define TRAILER_BYTES 10

/*
 * Assumed of a payload before any was seen: a whole window of large values must not be asked for.
 */
#define FIRST_ESTIMATE ((uint64_t)4 << 20)
#define ESTIMATE_SHARE                                                                             \
	16 /* a smaller payload pulls the estimate down by 1/16 of the difference                  \
	    */

/* A payload up to so long is copied into the batch. Beyond, a copy costs more than it saves. */
#define COPIED_MOST 1024

#define ENTRIES_AHEAD 12 /* flights from an entry being loaded to its answer */

#define EXPIRY_NONE INT64_C(-1)    /* as the server says: the key has none */
#define EXPIRY_GONE INT64_C(-2)    /* as the server says: there is no such key */
#define EXPIRY_UNKNOWN INT64_C(-3) /* the question was not answered */

/*
 * With how many others a key may be in flight. GROUPED: the connection broke once while it was. It
 * is only one of many then. ALONE: it broke again. ON_TRIAL: as ALONE, and the key was unreadable.
 */
enum company { TOGETHER, GROUPED, ALONE, ON_TRIAL, COMPANIES };

struct flight {
	struct kw_dirty_entry *entry;
	int64_t expires_ms;  /* or EXPIRY_… */
	int64_t time_ms;     /* the server's, when it said the PTTL */
	uint64_t busy_times; /* of the connection, when the server said its time */
	enum company company;
};

/* Answers that wait to be stored; their keys are still in flight. */
struct batch {
	struct kw_table_change changes[KW_FETCH_BATCH];
	struct kw_dirty_entry *entries[KW_FETCH_BATCH];
	uint32_t count;
	uint8_t payloads[KW_FETCH_BATCH][COPIED_MOST];
};

struct kw_fetch {
	struct kw_data_connection *data;
	struct kw_dirty *dirty;
	struct kw_fetch_handlers handlers;
	struct flight *flights; /* a ring: answers come in order */
	uint32_t window, first, count;
	uint32_t in_company[COMPANIES]; /* flights of each kind: count in all */
	struct kw_dirty_entry *held;    /* taken: asked for once few enough others are in flight */
	bool was_asking;
	bool pexpiretime;
	uint32_t databases;
	uint16_t rdb_version;
	uint64_t estimate; /* bytes of the payloads in flight */
	struct kw_bucket keys, bytes;
	struct kw_pace *pace;
	uint64_t probed_us;  /* when the fetch that is timed was asked for; 0: none is timed */
	uint32_t probe_left; /* fetches to be answered until it is its turn */
	uint32_t probe_ahead;
	struct kw_cooldown cooldown;
	uint64_t busy_us;     /* since then at least one fetch was in flight */
	uint64_t answered_us; /* the last turn in which one was answered */
	uint64_t answered;    /* stats.fetches, then */
	struct kw_fetch_stats stats;
	struct batch batch;
};

struct kw_fetch *kw_fetch_new(struct kw_data_connection *data, struct kw_dirty *dirty,
	uint32_t window, const struct kw_fetch_handlers *handlers)
{
	struct kw_fetch *fetch = kw_zalloc(sizeof *fetch);

	if (window > KW_FETCH_WINDOW_MOST)
		window = KW_FETCH_WINDOW_MOST;
	fetch->data = data;
	fetch->dirty = dirty;
	fetch->handlers = *handlers;
	fetch->window = window;
	fetch->databases = UINT32_MAX;
	fetch->flights = kw_zalloc(window * sizeof *fetch->flights);
	fetch->estimate = FIRST_ESTIMATE;
	fetch->pexpiretime = true;
	return fetch;
}

void kw_fetch_free(struct kw_fetch *fetch)
{
	if (!fetch)
		return;
	assert(fetch->count == 0);
	free(fetch->flights);
	free(fetch);
}

void kw_fetch_limit(struct kw_fetch *fetch, uint64_t keys_per_second, uint64_t bytes_per_second,
	uint64_t now_us)
{
	kw_bucket_init(&fetch->keys, keys_per_second, now_us);
	kw_bucket_init(&fetch->bytes, bytes_per_second, now_us);
}

void kw_fetch_set_pace(struct kw_fetch *fetch, struct kw_pace *pace)
{
	fetch->pace = pace;
}

void kw_fetch_set_pexpiretime(struct kw_fetch *fetch, bool known)
{
	fetch->pexpiretime = known;
}

static struct flight *flight_at(struct kw_fetch *fetch, uint32_t index)
{
	uint32_t place = fetch->first + index;

	return &fetch->flights[place < fetch->window ? place : place - fetch->window];
}

static struct kw_dirty_entry *land(struct kw_fetch *fetch, struct flight *flight)
{
	assert(fetch->count > 0);
	*flight = *flight_at(fetch, 0);
	assert(fetch->count > 0 && fetch->count <= fetch->window);
	assert(fetch->in_company[flight->company] > 0);
	fetch->in_company[flight->company]--;
	fetch->first = fetch->first + 1 < fetch->window ? fetch->first + 1 : 0;
	fetch->count--;
	return flight->entry;
}

/* One fetch at a time is timed. */
static void pace_asked(struct kw_fetch *fetch)
{
	if (!fetch->pace)
		return;
	kw_pace_asked(fetch->pace);
	if (fetch->probed_us)
		return;
	fetch->probed_us = kw_clock_us();
	fetch->probe_ahead = fetch->count - 1;
	fetch->probe_left = fetch->count;
}

static void pace_answered(struct kw_fetch *fetch)
{
	if (!fetch->pace)
		return;
	kw_pace_answered(fetch->pace);
	if (!fetch->probed_us || --fetch->probe_left > 0)
		return;
	if (fetch->probed_us > fetch->data->resumed_us)
		kw_pace_waited(fetch->pace, kw_clock_us() - fetch->probed_us, fetch->probe_ahead);
	fetch->probed_us = 0;
}

static void retry_later(struct kw_fetch *fetch, struct kw_dirty_entry *entry)
{
	fetch->stats.retries++;
	kw_dirty_delay(fetch->dirty, entry, kw_clock_us() + KW_FETCH_RETRY_US);
}

/* Errors that pass by themselves are waited for; the operator must mend all others. */
static bool refused(
	struct kw_fetch *fetch, const char *command, const char *acl, const struct kw_reply *reply)
{
	if (reply->type == KW_REPLY_ERROR && kw_server_error_passes(kw_server_error(reply->text)))
		return false;
	kw_data_refused(fetch->data, command, acl, reply);
	return true;
}

static bool verified(struct kw_fetch *fetch, struct kw_slice payload)
{
	const uint8_t *bytes = payload.data;
	uint64_t crc;

	if (payload.length < PAYLOAD_LEAST)
		return false;
	memcpy(&crc, bytes + payload.length - sizeof crc, sizeof crc); /* little-endian, as we */
	if (kw_crc64(0, bytes, payload.length - sizeof crc) != crc)
		return false;
	fetch->rdb_version = (uint16_t)(bytes[payload.length - TRAILER_BYTES] |
					bytes[payload.length - TRAILER_BYTES + 1] << 8);
	return true;
}

/*
 * The server works on one fetch after the other, so the time of this one began when the one before
 * was answered, or when it was asked for. Waiting for other clients counts, too: the key then rests
 * for longer than it must.
 */
static void let_rest(struct kw_fetch *fetch, const struct kw_dirty_entry *entry, uint64_t bytes)
{
	uint64_t now_us = kw_clock_us();
	uint64_t begun_us =
		fetch->busy_us > fetch->answered_us ? fetch->busy_us : fetch->answered_us;
	uint64_t rest_us;

	if (begun_us < fetch->data->resumed_us)
		begun_us = fetch->data->resumed_us;
	rest_us = kw_cooldown_rest_us(bytes, now_us > begun_us ? now_us - begun_us : 0,
		fetch->pace ? fetch->pace->share : 1);

	kw_cooldown_note(&fetch->cooldown, entry->key.hash, bytes, rest_us, now_us);
}

static void learn_size(struct kw_fetch *fetch, const struct kw_dirty_entry *entry, uint64_t bytes)
{
	fetch->stats.fetches++;
	fetch->stats.bytes += bytes;
	kw_bucket_spend(&fetch->bytes, bytes);
	if (bytes > fetch->estimate)
		fetch->estimate = bytes;
	else
		fetch->estimate -= (fetch->estimate - bytes) / ESTIMATE_SHARE;
	if (bytes > KW_COOLDOWN_FROM_BYTES)
		let_rest(fetch, entry, bytes);
}

/* Absolute expiry of what PTTL said; the table's own number if it is within the jitter. */
static int64_t from_pttl(struct kw_fetch *fetch, const struct flight *flight)
{
	const struct kw_dirty_entry *entry = flight->entry;
	int64_t expires_ms = flight->time_ms + flight->expires_ms;
	int64_t known_ms = (int64_t)fetch->handlers.expiry(
		fetch->handlers.arg, entry->key.database, kw_dirty_name(fetch->dirty, entry));
	int64_t apart = known_ms > expires_ms ? known_ms - expires_ms : expires_ms - known_ms;

	return known_ms > 0 && apart <= KW_FETCH_JITTER_MS ? known_ms : expires_ms;
}

static void end(struct kw_fetch *fetch, struct kw_dirty_entry *entry, enum kw_put_result result,
	uint64_t payload_bytes)
{
	if (result == KW_PUT_FULL)
		kw_dirty_park(fetch->dirty, entry, entry->key.length + payload_bytes);
	else
		kw_dirty_done(fetch->dirty, entry);
}

void kw_fetch_settle(struct kw_fetch *fetch)
{
	struct batch *batch = &fetch->batch;
	struct kw_dirty_entry *done[KW_FETCH_BATCH];
	uint32_t count = batch->count, done_count = 0;
	uint8_t flags[KW_FETCH_BATCH];

	assert(count <= KW_FETCH_BATCH);
	if (count == 0)
		return;
	for (uint32_t i = 0; i < count; i++)
		flags[i] = batch->entries[i]->flags | batch->entries[i]->again_flags;
	fetch->handlers.store(fetch->handlers.arg, batch->changes, flags, count);
	assert(batch->count == count);
	batch->count = 0;
	for (uint32_t i = 0; i < count; i++) {
		if (batch->changes[i].result == KW_PUT_FULL)
			end(fetch, batch->entries[i], KW_PUT_FULL, batch->changes[i].value.length);
		else
			done[done_count++] = batch->entries[i];
	}
	kw_dirty_done_all(fetch->dirty, done, done_count);
}

/* payload NULL: the key is gone. */
static void store(struct kw_fetch *fetch, struct kw_dirty_entry *entry,
	const struct kw_slice *payload, int64_t expires_ms)
{
	struct batch *batch = &fetch->batch;
	bool copied = payload && payload->length <= COPIED_MOST;
	struct kw_table_change *change;

	assert(entry->state == KW_DIRTY_FLYING);
	if (entry->overtaken) {
		kw_dirty_done(fetch->dirty, entry);
		return;
	}
	if (batch->count == KW_FETCH_BATCH)
		kw_fetch_settle(fetch);
	change = &batch->changes[batch->count];
	*change = (struct kw_table_change){
		.kind = payload ? KW_RECORD_PUT : KW_RECORD_DELETE,
		.database = entry->key.database,
		.key = kw_dirty_name(fetch->dirty, entry),
		.value = payload ? *payload : (struct kw_slice){0},
		.expires_ms = expires_ms > 0 ? (uint64_t)expires_ms : 0,
	};
	if (copied) {
		memcpy(batch->payloads[batch->count], payload->data, payload->length);
		change->value.data = batch->payloads[batch->count];
	}
	batch->entries[batch->count++] = entry;
	/* A payload that was not copied is gone when this answer is over. */
	if (payload && !copied)
		kw_fetch_settle(fetch);
}

static bool is_explained(const struct kw_dirty_entry *entry)
{
	if (entry->flags & (KW_DIRTY_EVENT | KW_DIRTY_COUNTED))
		return true;
	return !(entry->flags & (KW_DIRTY_SCAN | KW_DIRTY_STALE));
}

static void gone(struct kw_fetch *fetch, struct kw_dirty_entry *entry)
{
	if (is_explained(entry)) {
		store(fetch, entry, NULL, 0);
		return;
	}
	if (fetch->handlers.spared)
		fetch->handlers.spared(fetch->handlers.arg, entry->key.database,
			kw_dirty_name(fetch->dirty, entry));
	kw_dirty_done(fetch->dirty, entry);
}

/*
 * The connection broke while nothing but this key was asked for. True: it is the key. The break
 * among the few of its group was the first strike. Each key has its own count, because several can
 * be to blame, and they are asked for in turn.
 */
static bool struck(struct kw_dirty_entry *entry)
{
	assert(entry->strikes < KW_FETCH_STRIKES - 1);
	return ++entry->strikes == KW_FETCH_STRIKES - 1;
}

static void unreadable(
	struct kw_fetch *fetch, struct kw_dirty_entry *entry, enum kw_fetch_found found)
{
	/* The feed told its value meanwhile: what was asked for is of no interest any more. */
	if (entry->overtaken) {
		kw_dirty_done(fetch->dirty, entry);
		return;
	}
	end(fetch, entry,
		fetch->handlers.unreadable(fetch->handlers.arg, entry->key.database,
			kw_dirty_name(fetch->dirty, entry), found),
		0);
}

/*
 * No answer comes any more. If the proxy gave up the connection, that says nothing against the key;
 * if the connection broke, it does. That holds also if it was given up before the break was told:
 * when a server dies, the loop can let go of the other connection first.
 */
static void lost(struct kw_fetch *fetch, const struct flight *flight)
{
	struct kw_dirty_entry *entry = flight->entry;

	if (kw_data_is_busy(fetch->data)) {
		kw_dirty_retry(fetch->dirty, entry, 0); /* a script had the server's time */
		return;
	}
	fetch->was_asking = true;
	if (!kw_redis_lost(fetch->data->redis) || !fetch->handlers.unreadable) {
		kw_dirty_retry(fetch->dirty, entry, 0);
	} else if (flight->company == TOGETHER) {
		kw_dirty_retry(fetch->dirty, entry, KW_DIRTY_LOST);
	} else if (flight->company == GROUPED || (flight->company == ALONE && !struck(entry))) {
		kw_dirty_retry(fetch->dirty, entry, KW_DIRTY_SUSPECT);
	} else {
		entry->strikes = 0;
		unreadable(fetch, entry, KW_FETCH_BROKE);
	}
}

static void have_value(
	struct kw_fetch *fetch, const struct flight *flight, const struct kw_slice *payload)
{
	struct kw_dirty_entry *entry = flight->entry;
	int64_t expires_ms = flight->expires_ms;

	learn_size(fetch, entry, payload->length);
	if (!verified(fetch, *payload)) {
		fetch->stats.rejected++;
		retry_later(fetch, entry);
		return;
	}
	if (expires_ms == EXPIRY_GONE) {
		/* Created between the two questions. */
		fetch->stats.retries++;
		kw_dirty_retry(fetch->dirty, entry, KW_DIRTY_TTL);
		return;
	}
	if (expires_ms == EXPIRY_UNKNOWN) {
		retry_later(fetch, entry);
		return;
	}
	if (!fetch->pexpiretime && expires_ms >= 0)
		expires_ms = from_pttl(fetch, flight);
	store(fetch, entry, payload, expires_ms);
}

/* A window of other keys was asked for since: this key's entry is in no cache any more. */
static void load_entry(struct kw_fetch *fetch)
{
	const uint8_t *entry;

	if (fetch->count <= ENTRIES_AHEAD)
		return;
	entry = (const uint8_t *)flight_at(fetch, ENTRIES_AHEAD)->entry;
	__builtin_prefetch(entry, 1);
	__builtin_prefetch(entry + 64); /* the name */
}

static void dump_answered(void *arg, const struct kw_reply *reply)
{
	struct kw_fetch *fetch = arg;
	struct flight flight;
	struct kw_dirty_entry *entry = land(fetch, &flight);

	pace_answered(fetch);
	load_entry(fetch);
	reply = kw_data_reply(fetch->data, reply);
	if (!reply) {
		lost(fetch, &flight);
		return;
	}
	fetch->was_asking = false;
	entry->strikes = 0;
	if (reply->type == KW_REPLY_STRING) {
		have_value(fetch, &flight, &reply->text);
	} else if (reply->type == KW_REPLY_NIL) {
		fetch->stats.fetches++;
		gone(fetch, entry);
	} else {
		refused(fetch, "DUMP", "+dump and ~* (read access to all keys)", reply);
		retry_later(fetch, entry);
	}
}

/* For a key that cannot be read: is it there at all? */
static void exists_answered(void *arg, const struct kw_reply *reply)
{
	struct kw_fetch *fetch = arg;
	struct flight flight;
	struct kw_dirty_entry *entry = land(fetch, &flight);

	pace_answered(fetch);
	reply = kw_data_reply(fetch->data, reply);
	if (reply)
		fetch->was_asking = false;
	if (!reply) {
		kw_dirty_retry(fetch->dirty, entry, 0);
	} else if (reply->type != KW_REPLY_INTEGER) {
		refused(fetch, "EXISTS", "+exists", reply);
		retry_later(fetch, entry);
	} else if (reply->integer > 0) {
		unreadable(fetch, entry,
			entry->flags & KW_DIRTY_EVENT ? KW_FETCH_CHANGED : KW_FETCH_THERE);
	} else {
		fetch->stats.fetches++;
		gone(fetch, entry);
	}
}

/* If a script ran between TIME and PTTL, they do not tell the expiry: the key is asked for again.
 */
static void note_expiry(struct kw_fetch *fetch, int64_t expires_ms)
{
	struct flight *flight = flight_at(fetch, 0);

	if (fetch->pexpiretime || expires_ms < 0 || flight->busy_times == fetch->data->busy_times)
		flight->expires_ms = expires_ms;
}

/*
 * The questions about a key are sent together, and those about earlier keys were answered before.
 * So the answer is always about the first flight.
 */
static void expiry_answered(void *arg, const struct kw_reply *reply)
{
	struct kw_fetch *fetch = arg;

	reply = kw_data_reply(fetch->data, reply);
	if (!reply)
		return;
	if (reply->type == KW_REPLY_INTEGER && reply->integer >= EXPIRY_GONE)
		note_expiry(fetch, reply->integer);
	else if (fetch->pexpiretime)
		refused(fetch, "PEXPIRETIME", "+pexpiretime and ~* (read access to all keys)",
			reply);
	else
		refused(fetch, "PTTL", "+pttl and ~* (read access to all keys)", reply);
}

static void note_time(struct kw_fetch *fetch, int64_t time_ms)
{
	flight_at(fetch, 0)->time_ms = time_ms;
	flight_at(fetch, 0)->busy_times = fetch->data->busy_times;
}

static void time_answered(void *arg, const struct kw_reply *reply)
{
	struct kw_fetch *fetch = arg;
	int64_t us;

	reply = kw_data_reply(fetch->data, reply);
	if (!reply)
		return;
	if (kw_data_time(reply, &us))
		note_time(fetch, us / 1000);
	else
		refused(fetch, "TIME", "+time", reply);
}

static bool may_expire(const struct kw_fetch *fetch, const struct kw_dirty_entry *entry)
{
	if (entry->flags & KW_DIRTY_TTL)
		return true;
	return fetch->handlers.expires &&
	       fetch->handlers.expires(fetch->handlers.arg, entry->key.database,
		       kw_dirty_name(fetch->dirty, entry));
}

static enum kw_fetch_mark mark_of(const struct kw_fetch *fetch, const struct kw_dirty_entry *entry)
{
	if (!fetch->handlers.mark)
		return KW_FETCH_READABLE;
	return fetch->handlers.mark(
		fetch->handlers.arg, entry->key.database, kw_dirty_name(fetch->dirty, entry));
}

static enum company company_of(const struct kw_dirty_entry *entry, enum kw_fetch_mark mark)
{
	if (mark == KW_FETCH_ON_TRIAL)
		return ON_TRIAL;
	if (entry->flags & KW_DIRTY_SUSPECT)
		return ALONE;
	return entry->flags & KW_DIRTY_LOST ? GROUPED : TOGETHER;
}

/* How many may be in flight together with a key of this company, itself included. */
static uint32_t most_with(const struct kw_fetch *fetch, enum company company)
{
	if (company >= ALONE)
		return 1;
	if (company == GROUPED && fetch->window > KW_FETCH_GROUP)
		return KW_FETCH_GROUP;
	return fetch->window;
}

/* … with those that are in flight now. */
static uint32_t most_now(const struct kw_fetch *fetch)
{
	enum company company = ON_TRIAL;

	while (company > TOGETHER && fetch->in_company[company] == 0)
		company--;
	return most_with(fetch, company);
}

static void ask(struct kw_fetch *fetch, struct kw_dirty_entry *entry, enum kw_fetch_mark mark)
{
	struct kw_slice argv[2] = {{0}, kw_dirty_name(fetch->dirty, entry)};
	bool readable = mark != KW_FETCH_UNREADABLE;
	bool expiry = readable && may_expire(fetch, entry);

	assert(fetch->count < fetch->window && entry->state == KW_DIRTY_FLYING);
	kw_data_select(fetch->data, entry->key.database);
	if (fetch->count == 0)
		fetch->busy_us = kw_clock_us();
	fetch->in_company[company_of(entry, mark)]++;
	*flight_at(fetch, fetch->count++) = (struct flight){.entry = entry,
		.expires_ms = expiry ? EXPIRY_UNKNOWN : EXPIRY_NONE,
		.company = company_of(entry, mark)};
	if (expiry) {
		if (!fetch->pexpiretime)
			kw_data_words(fetch->data, time_answered, fetch, "TIME", NULL);
		argv[0] = kw_slice_text(fetch->pexpiretime ? "PEXPIRETIME" : "PTTL");
		kw_data_send(fetch->data, expiry_answered, fetch, 2, argv);
	}
	argv[0] = kw_slice_text(readable ? "DUMP" : "EXISTS");
	kw_data_send(fetch->data, readable ? dump_answered : exists_answered, fetch, 2, argv);
	kw_bucket_spend(&fetch->keys, 1);
	pace_asked(fetch);
}

/* Can it join those that are in flight? */
static bool has_room(
	const struct kw_fetch *fetch, const struct kw_dirty_entry *entry, enum kw_fetch_mark mark)
{
	return fetch->count < most_with(fetch, company_of(entry, mark));
}

static bool any_due(const struct kw_fetch *fetch, uint64_t now_us)
{
	return fetch->held || kw_dirty_count(fetch->dirty, KW_DIRTY_WAITING) > 0 ||
	       kw_dirty_due_us(fetch->dirty) <= now_us;
}

static bool may_ask(struct kw_fetch *fetch, uint64_t now_us)
{
	if (fetch->count >= most_now(fetch) || !any_due(fetch, now_us))
		return false;
	if (fetch->held && !has_room(fetch, fetch->held, mark_of(fetch, fetch->held)))
		return false;
	if (fetch->count > 0 && (fetch->count + 1) * fetch->estimate > KW_FETCH_FLIGHT_BYTES)
		return false;
	return kw_bucket_allows(&fetch->keys, now_us) && kw_bucket_allows(&fetch->bytes, now_us) &&
	       (!fetch->pace || kw_pace_allows(fetch->pace, now_us));
}

void kw_fetch_set_databases(struct kw_fetch *fetch, uint32_t databases)
{
	fetch->databases = databases;
}

void kw_fetch_pump(struct kw_fetch *fetch, uint64_t now_us)
{
	kw_fetch_settle(fetch);
	if (fetch->stats.fetches != fetch->answered) {
		fetch->answered = fetch->stats.fetches;
		fetch->answered_us = now_us;
	}
	/* A key asked for on a connection that is gone would be taken for the one that broke it. */
	if (kw_data_is_broken(fetch->data) || kw_redis_lost(fetch->data->redis))
		return;
	/* Keys that cool down are only delayed. The bound on tries keeps the turn short. */
	for (uint32_t tries = 2 * fetch->window; tries > 0 && may_ask(fetch, now_us); tries--) {
		struct kw_dirty_entry *entry =
			fetch->held ? fetch->held : kw_dirty_take(fetch->dirty, now_us);
		enum kw_fetch_mark mark;
		uint64_t until_us;

		fetch->held = NULL;
		if (!entry)
			return;
		if (entry->key.database >= fetch->databases) {
			gone(fetch, entry);
			continue;
		}
		until_us = kw_cooldown_until(&fetch->cooldown, entry->key.hash, now_us);
		if (until_us) {
			kw_dirty_delay(fetch->dirty, entry, until_us);
			continue;
		}
		mark = mark_of(fetch, entry);
		if (has_room(fetch, entry, mark))
			ask(fetch, entry, mark);
		else
			fetch->held = entry;
	}
}

uint64_t kw_fetch_ready_us(const struct kw_fetch *fetch, uint64_t now_us)
{
	uint64_t due_us = kw_dirty_due_us(fetch->dirty);
	uint64_t keys_us = kw_bucket_ready_us(&fetch->keys, now_us);
	uint64_t bytes_us = kw_bucket_ready_us(&fetch->bytes, now_us);
	uint64_t pace_us = fetch->pace ? kw_pace_ready_us(fetch->pace, now_us) : now_us;
	uint64_t limit_us = keys_us > bytes_us ? keys_us : bytes_us;

	if (pace_us > limit_us)
		limit_us = pace_us;
	if (fetch->held || kw_dirty_count(fetch->dirty, KW_DIRTY_WAITING) > 0)
		due_us = 0;
	if (due_us == UINT64_MAX)
		return UINT64_MAX;
	/* Nothing but a full window holds it back: replies will come. */
	if (due_us <= now_us && limit_us <= now_us)
		return fetch->count > 0 ? UINT64_MAX : now_us;
	return due_us > limit_us ? due_us : limit_us;
}

bool kw_fetch_was_asking(const struct kw_fetch *fetch)
{
	return fetch->was_asking;
}

void kw_fetch_forget_version(struct kw_fetch *fetch)
{
	fetch->rdb_version = 0;
}

uint16_t kw_fetch_rdb_version(const struct kw_fetch *fetch)
{
	return fetch->rdb_version;
}

const struct kw_fetch_stats *kw_fetch_stats(const struct kw_fetch *fetch)
{
	return &fetch->stats;
}
