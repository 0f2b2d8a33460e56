#include "mandate/sentinels.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/secret.h"
#include "mandate/hint.h"
#include "mandate/sentinel_reply.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ASKED_MOST 4 /* questions under way to one sentinel */
#define RETRY_US UINT64_C(1000000)
#define REFRESH_US UINT64_C(10000000)
#define TLS "rediss://"
#define CONNECT_MS 2000
#define SILENCE_MS 3000

enum peer_state { IDLE, OPENING, UP, CLOSING };

/* One address. The slot of the view with the same index holds its answer. */
struct peer {
	struct kw_sm sm;
	struct kw_sentinels *owner;
	struct kw_sentinel *slot;
	struct kw_redis *redis;
	char address[300];
	uint64_t asked_us[ASKED_MOST]; /* of the questions under way, the oldest first */
	int asked;
	uint64_t opened_us;               /* when it was tried to connect last */
	uint64_t refreshed_us;            /* when MYID and SENTINELS were asked last */
	uint64_t told_us;                 /* when another sentinel told of it last */
	char told_id[KW_SENTINEL_ID + 1]; /* … and its id then; "": none told of it */
	bool dropped;                     /* its slot is free as soon as it is closed */
	char why[KW_ERROR_TEXT];
};

struct kw_sentinels {
	uv_loop_t *loop;
	struct kw_mandate *mandate;
	struct kw_sentinels_handlers handlers;
	struct kw_redis_options redis; /* but for the address; its password is our own */
	struct kw_slice password;
	uint32_t interval_ms;
	const char *scheme; /* by which those are reached that are told of */
	uv_timer_t timer;
	struct kw_hint hint;
	size_t hint_at; /* peer that was asked for hints last */
	struct peer peers[KW_SENTINELS_MAX];
	bool closing, timer_closed;
	void (*closed)(void *arg);
	void *closed_arg;
};

static bool holds(const void *owner, int state)
{
	const struct peer *peer = owner;

	return state == IDLE ? !peer->redis && peer->asked == 0
			     : peer->redis && peer->slot->present;
}

static const struct kw_sm_state states[] = {
	[IDLE] = {"idle", KW_SM_TO(OPENING), KW_SM_INITIAL},
	[OPENING] = {"opening", KW_SM_TO(UP) | KW_SM_TO(CLOSING) | KW_SM_TO(IDLE)},
	[UP] = {"up", KW_SM_TO(CLOSING) | KW_SM_TO(IDLE)},
	[CLOSING] = {"closing", KW_SM_TO(IDLE)},
};

static const struct kw_sm_conf machine = {"sentinel", states, CLOSING + 1, holds};

static void free_when_closed(struct kw_sentinels *sentinels)
{
	void (*closed)(void *arg) = sentinels->closed;
	void *arg = sentinels->closed_arg;

	if (!sentinels->closing || !sentinels->timer_closed || !kw_hint_is_idle(&sentinels->hint))
		return;
	for (size_t i = 0; i < KW_SENTINELS_MAX; i++)
		if (sentinels->peers[i].sm.state != IDLE)
			return;
	kw_secret_close(&sentinels->password);
	free(sentinels);
	if (closed)
		closed(arg);
}

/* A sentence is logged when it begins to hold, and when all is well again. */
static void set_why(struct peer *peer, const char *why)
{
	if (strcmp(peer->why, why) == 0)
		return;
	if (*why)
		kw_log_warn("sentinel", "%s: %s", peer->address, why);
	else
		kw_log_info("sentinel", "%s answers", peer->address);
	snprintf(peer->why, sizeof peer->why, "%s", why);
}

/* The list. */

/* By its address, or else by its id. */
static struct peer *find(struct kw_sentinels *sentinels, const char *id, const char *address)
{
	struct peer *found = NULL;

	for (size_t i = 0; i < KW_SENTINELS_MAX; i++) {
		struct peer *peer = &sentinels->peers[i];

		if (!peer->slot->present)
			continue;
		if (strcmp(peer->address, address) == 0)
			return peer;
		if (strcmp(peer->slot->id, id) == 0 || strcmp(peer->told_id, id) == 0)
			found = peer;
	}
	return found;
}

static struct peer *add(struct kw_sentinels *sentinels, const char *address, bool configured)
{
	for (size_t i = 0; i < KW_SENTINELS_MAX; i++) {
		struct peer *peer = &sentinels->peers[i];

		if (peer->slot->present || peer->sm.state != IDLE)
			continue;
		*peer->slot = (struct kw_sentinel){.present = true, .configured = configured};
		snprintf(peer->address, sizeof peer->address, "%s", address);
		peer->opened_us = peer->refreshed_us = 0;
		peer->told_us = kw_clock_us();
		peer->told_id[0] = peer->why[0] = '\0';
		return peer;
	}
	return NULL; /* more than enough are known */
}

static void close_peer(struct peer *peer, const char *why)
{
	if (peer->sm.state != OPENING && peer->sm.state != UP)
		return;
	kw_sm_move(&peer->sm, CLOSING, why);
	kw_redis_close(peer->redis);
}

static void forget(struct peer *peer)
{
	*peer->slot = (struct kw_sentinel){.present = false};
	peer->dropped = false;
}

/* It is not asked any more. */
static void drop(struct peer *peer, const char *why)
{
	close_peer(peer, why);
	if (peer->sm.state == IDLE)
		forget(peer);
	else
		peer->dropped = true;
}

/* The sentinel of a configured address was told of under another one: the configured one counts. */
static void drop_doubles(struct peer *configured)
{
	for (size_t i = 0; i < KW_SENTINELS_MAX; i++) {
		struct peer *peer = &configured->owner->peers[i];

		if (peer->slot->present && !peer->slot->configured &&
			(strcmp(peer->slot->id, configured->slot->id) == 0 ||
				strcmp(peer->told_id, configured->slot->id) == 0))
			drop(peer, "it is a configured one, under another address");
	}
}

/* Not configured, and forgotten by all: it is not asked any more. */
static bool is_forgotten(const struct peer *peer, uint64_t now_us)
{
	uint64_t heard_us =
		peer->slot->asked_us > peer->told_us ? peer->slot->asked_us : peer->told_us;

	return peer->slot->present && !peer->slot->configured &&
	       now_us - heard_us > KW_SENTINEL_MEMORY_US;
}

/* Is it told of under another address than the one at which it does not answer any more? */
static bool has_moved(const struct peer *peer, const char *address, uint64_t now_us)
{
	return strcmp(peer->address, address) != 0 && peer->sm.state != UP &&
	       now_us - peer->slot->asked_us > REFRESH_US;
}

/* Another sentinel tells of this one. */
static void note_told(
	struct kw_sentinels *sentinels, const struct kw_sentinel_peer *told, const char *address)
{
	uint64_t now_us = kw_clock_us();
	struct peer *known = find(sentinels, told->id, address);

	if (known && has_moved(known, address, now_us)) {
		/* A configured address is asked for good: what is told is asked beside it. */
		if (!known->slot->configured)
			drop(known, "it has another address now");
		known = NULL;
	}
	if (!known)
		known = add(sentinels, address, false);
	if (!known)
		return;
	known->told_us = now_us;
	memcpy(known->told_id, told->id, sizeof told->id);
}

/* Questions. */

static uint64_t answered_question(struct peer *peer)
{
	uint64_t asked_us = peer->asked_us[0];

	assert(peer->asked > 0);
	peer->asked--;
	memmove(peer->asked_us, peer->asked_us + 1, (size_t)peer->asked * sizeof asked_us);
	return asked_us;
}

static void take_master(
	struct peer *peer, const struct kw_sentinel_master *master, uint64_t asked_us)
{
	struct kw_sentinels *sentinels = peer->owner;

	peer->slot->asked_us = asked_us;
	peer->slot->epoch = master->epoch;
	peer->slot->primary = master->primary;
	kw_sentinel_told(peer->slot, master->others, kw_clock_us());
	/* One without an id does not count: why it told none stays said. */
	if (peer->slot->id[0])
		set_why(peer, "");
	sentinels->handlers.answered(sentinels->handlers.arg);
}

static void on_master(void *arg, const struct kw_reply *reply)
{
	struct peer *peer = arg;
	uint64_t asked_us = answered_question(peer);
	struct kw_sentinel_master master;
	struct kw_error why;

	if (!reply || peer->sm.state != UP)
		return;
	if (kw_sentinel_reply_master(reply, peer->owner->mandate->name, &master, &why))
		set_why(peer, why.text);
	else
		take_master(peer, &master, asked_us);
}

static void on_id(void *arg, const struct kw_reply *reply)
{
	struct peer *peer = arg;
	char id[KW_SENTINEL_ID + 1];
	struct kw_error why;

	if (!reply || peer->sm.state != UP)
		return;
	if (kw_sentinel_reply_id(reply, id, &why)) {
		set_why(peer, why.text);
		return;
	}
	if (strcmp(peer->slot->id, id) != 0)
		peer->slot->asked_us = 0; /* what was answered before was of another sentinel */
	memcpy(peer->slot->id, id, sizeof id);
	if (strcmp(peer->told_id, id) != 0)
		peer->told_id[0] = '\0'; /* the one that was told of is elsewhere */
	if (peer->slot->configured)
		drop_doubles(peer);
}

static void on_sentinels(void *arg, const struct kw_reply *reply)
{
	struct peer *peer = arg;

	/* The password goes to nobody who is not in a closed list. */
	if (!reply || peer->sm.state != UP || reply->type != KW_REPLY_ARRAY ||
		kw_sentinel_view_is_closed(&peer->owner->mandate->view))
		return;
	for (size_t i = 0; i < reply->count && i < KW_SENTINELS_MAX; i++) {
		struct kw_sentinel_peer told;
		char address[sizeof peer->address];

		if (!kw_sentinel_reply_peer(&reply->elements[i], &told))
			continue;
		snprintf(address, sizeof address, strchr(told.host, ':') ? "%s[%s]:%u" : "%s%s:%u",
			peer->owner->scheme, told.host, told.port);
		note_told(peer->owner, &told, address);
	}
}

static void ask(struct peer *peer, uint64_t now_us)
{
	if (peer->refreshed_us == 0 || now_us - peer->refreshed_us >= REFRESH_US) {
		peer->refreshed_us = now_us;
		kw_redis_words(peer->redis, on_id, peer, "SENTINEL", "MYID", NULL);
		kw_redis_words(peer->redis, on_sentinels, peer, "SENTINEL", "SENTINELS",
			peer->owner->mandate->name, NULL);
	}
	if (peer->asked == ASKED_MOST)
		return;
	peer->asked_us[peer->asked++] = now_us;
	kw_redis_words(peer->redis, on_master, peer, "SENTINEL", "MASTER",
		peer->owner->mandate->name, NULL);
}

/* Connections. */

static void on_ready(void *arg)
{
	struct peer *peer = arg;

	if (peer->sm.state != OPENING)
		return;
	kw_sm_move(&peer->sm, UP, "");
	peer->refreshed_us = 0;
	ask(peer, kw_clock_us());
}

static void on_closed(void *arg, const struct kw_error *why)
{
	struct peer *peer = arg;
	struct kw_redis *gone = peer->redis;

	if (why->code != KW_OK)
		set_why(peer, why->text);
	peer->redis = NULL;
	kw_sm_move(&peer->sm, IDLE, why->text);
	kw_redis_free(gone); /* and `why` with it */
	if (peer->dropped)
		forget(peer);
	free_when_closed(peer->owner);
}

static void open_peer(struct peer *peer, uint64_t now_us)
{
	const struct kw_redis_handlers handlers = {
		.ready = on_ready, .closed = on_closed, .arg = peer};
	struct kw_redis_options options = peer->owner->redis;
	struct kw_error why;

	peer->opened_us = now_us;
	snprintf(options.address, sizeof options.address, "%s", peer->address);
	if (kw_redis_open(peer->owner->loop, &options, &handlers, &peer->redis, &why))
		set_why(peer, why.text);
	else
		kw_sm_move(&peer->sm, OPENING, "");
}

static void turn(struct peer *peer, uint64_t now_us)
{
	if (is_forgotten(peer, now_us)) {
		drop(peer, "no sentinel tells of it any more");
	} else if (peer->sm.state == UP) {
		ask(peer, now_us);
	} else if (peer->sm.state == IDLE && peer->slot->present &&
		   (peer->opened_us == 0 || now_us - peer->opened_us >= RETRY_US)) {
		open_peer(peer, now_us);
	}
}

void kw_sentinels_ask(struct kw_sentinels *sentinels)
{
	uint64_t now_us = kw_clock_us();

	if (sentinels->closing)
		return;
	for (size_t i = 0; i < KW_SENTINELS_MAX; i++)
		turn(&sentinels->peers[i], now_us);
}

/* The next one that answers. */
static struct peer *next_for_hints(struct kw_sentinels *sentinels)
{
	for (size_t i = 1; i <= KW_SENTINELS_MAX; i++) {
		size_t at = (sentinels->hint_at + i) % KW_SENTINELS_MAX;

		if (sentinels->peers[at].sm.state == UP) {
			sentinels->hint_at = at;
			return &sentinels->peers[at];
		}
	}
	return NULL;
}

static void want_hints(struct kw_sentinels *sentinels, uint64_t now_us)
{
	struct kw_redis_options options = sentinels->redis;
	struct peer *peer;

	kw_hint_refresh(&sentinels->hint, now_us);
	if (!kw_hint_is_due(&sentinels->hint, now_us) || !(peer = next_for_hints(sentinels)))
		return;
	snprintf(options.address, sizeof options.address, "%s", peer->address);
	snprintf(options.client_name, sizeof options.client_name, "keywake-proxy-hint");
	kw_hint_open(&sentinels->hint, &options, now_us);
}

static void on_hint(void *arg)
{
	kw_sentinels_ask(arg);
}

static void on_hint_closed(void *arg)
{
	free_when_closed(arg);
}

static void on_timer(uv_timer_t *timer)
{
	struct kw_sentinels *sentinels = timer->data;

	kw_sentinels_ask(sentinels);
	if (!sentinels->closing)
		want_hints(sentinels, kw_clock_us());
}

int kw_sentinels_new(uv_loop_t *loop, const struct kw_sentinels_options *options,
	struct kw_mandate *mandate, const struct kw_sentinels_handlers *handlers,
	struct kw_sentinels **result, struct kw_error *error)
{
	struct kw_sentinels *sentinels;

	if (options->count == 0 || options->count > KW_SENTINELS_MAX)
		return kw_error_set(error, KW_E_CONFIG, "sentinel.addresses: 1 to %d addresses",
			KW_SENTINELS_MAX);
	sentinels = kw_zalloc(sizeof *sentinels);
	sentinels->loop = loop;
	sentinels->mandate = mandate;
	sentinels->handlers = *handlers;
	sentinels->interval_ms = options->interval_ms;
	sentinels->redis.tls = options->tls;
	sentinels->redis.ports = options->ports;
	sentinels->scheme = strncmp(options->addresses[0], TLS, strlen(TLS)) == 0 ? TLS : "tcp://";
	sentinels->password = kw_secret_copy(options->password);
	sentinels->redis.password = sentinels->password;
	sentinels->redis.present_password = &sentinels->password;
	sentinels->redis.keys = "sentinel";
	sentinels->redis.connect_timeout_ms = CONNECT_MS;
	sentinels->redis.reply_timeout_ms = SILENCE_MS;
	snprintf(sentinels->redis.username, sizeof sentinels->redis.username, "%s",
		options->username);
	snprintf(sentinels->redis.client_name, sizeof sentinels->redis.client_name,
		"keywake-proxy-mandate");
	for (size_t i = 0; i < KW_SENTINELS_MAX; i++) {
		struct peer *peer = &sentinels->peers[i];

		peer->owner = sentinels;
		peer->slot = &mandate->view.sentinels[i];
		kw_sm_init(&peer->sm, &machine, peer, IDLE);
	}
	for (size_t i = 0; i < options->count; i++)
		add(sentinels, options->addresses[i], true);
	sentinels->hint = (struct kw_hint){
		.loop = loop, .heard = on_hint, .closed = on_hint_closed, .arg = sentinels};
	kw_hint_init(&sentinels->hint);
	uv_timer_init(loop, &sentinels->timer);
	sentinels->timer.data = sentinels;
	*result = sentinels;
	return KW_OK;
}

void kw_sentinels_set_password(struct kw_sentinels *sentinels, struct kw_slice password)
{
	kw_secret_close(&sentinels->password);
	sentinels->password = kw_secret_copy(password);
	sentinels->redis.password = sentinels->password;
}

void kw_sentinels_start(struct kw_sentinels *sentinels)
{
	uv_timer_start(&sentinels->timer, on_timer, 0, sentinels->interval_ms);
}

bool kw_sentinels_info(
	const struct kw_sentinels *sentinels, size_t i, struct kw_sentinel_info *info)
{
	const struct peer *peer = &sentinels->peers[i];

	assert(i < KW_SENTINELS_MAX);
	if (!peer->slot->present)
		return false;
	*info = (struct kw_sentinel_info){
		.address = peer->address,
		.configured = peer->slot->configured,
		.state = kw_sm_name(&peer->sm),
		.why = peer->why,
		.sentinel = peer->slot,
	};
	return true;
}

const struct kw_hint *kw_sentinels_hint(const struct kw_sentinels *sentinels)
{
	return &sentinels->hint;
}

static void on_timer_closed(uv_handle_t *handle)
{
	struct kw_sentinels *sentinels = handle->data;

	sentinels->timer_closed = true;
	free_when_closed(sentinels);
}

void kw_sentinels_close(struct kw_sentinels *sentinels, void (*done)(void *arg), void *arg)
{
	assert(!sentinels->closing);
	sentinels->closing = true;
	sentinels->closed = done;
	sentinels->closed_arg = arg;
	for (size_t i = 0; i < KW_SENTINELS_MAX; i++)
		close_peer(&sentinels->peers[i], "asked to close");
	kw_hint_close(&sentinels->hint);
	uv_close((uv_handle_t *)&sentinels->timer, on_timer_closed);
}
