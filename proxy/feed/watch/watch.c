#include "feed/watch/watch.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/sm.h"
#include "feed/watch/calls.h"
#include "feed/watch/conf.h"
#include "feed/watch/deaf.h"
#include "feed/watch/promotion.h"
#include "feed/watch/takers.h"
#include "keys/databases.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIME_EVERY_US UINT64_C(60000000)

/* They change what is no key, which counts as a change all the same. */
static const char *const function_changes[] = {
	"function|load", "function|delete", "function|restore"};
#define FUNCTION_CHANGES (sizeof function_changes / sizeof *function_changes)

/* After changes without events were found, the server is not asked again for so long … */
#define DEAF_PAUSE_US UINT64_C(60000000)

static const char *const section_names[] = {"server", "replication", "persistence", "commandstats"};
#define SECTIONS (sizeof section_names / sizeof *section_names)

struct kw_function_calls {
	uint64_t changes; /* calls, also those that failed */
	uint64_t flushes; /* carried out: each says that no library is meant to be there */
};

struct kw_watch {
	struct kw_data_connection *data;
	struct kw_watch_handlers handlers;
	struct kw_buffer info; /* the sections of the look under way */
	struct kw_sm sm;
	struct kw_server_identity identity; /* of the last look; version 0: there was none */
	enum kw_feed_server server;         /* … compared with the look before */
	enum kw_promotion_data data_seen;   /* … of its data, if it is a replica */
	struct kw_calls calls;
	struct kw_takers takers;
	uint64_t infos_asked; /* the data connection's count before the look under way */
	struct kw_conf conf;
	uint32_t owed;                      /* answers that end the look under way */
	struct kw_deaf deaf;                /* source.flags=trust */
	uint64_t events_asked;              /* heard before the look under way */
	uint64_t other_changes;             /* calls, at the last look */
	struct kw_function_calls functions; /* the same */
	uint64_t deaf_us;        /* when changes without events were found; 0: they were not … */
	uint64_t deaf_config;    /* … and CONFIG SETs counted then */
	kw_flag_classes lacking; /* … of which classes, if that is known */
	uint64_t config_calls;   /* CONFIG SETs counted by the last look */
	uint64_t time_us;        /* when the clocks were last compared */
	uint64_t asked_wall_us;
	uint64_t busy_times; /* of the data connection, when the time was asked for */
	int64_t skew_us;
};

/*
 *               begin              nothing against it
 *   ┌─────────┐        ┌──────────┐                    ┌─────────┐      ┌─────────┐
 *   │ STOPPED │───────▶│ GREETING │───────────────────▶│ RESTING │◀────▶│ LOOKING │
 *   └─────────┘        └──────────┘◀── begin ──────────└─────────┘      └─────────┘
 *        ▲                   │ refused, lost                                 │
 *        └───────────────────┴───────────────────────────────────────────────┘
 */
enum watch_state {
	STOPPED,
	GREETING, /* the first look at a connection: no counter of it to compare with */
	RESTING,
	LOOKING,
};

/* Has a look found a server? One that can be followed has a version; it need not tell a run_id. */
static bool is_known(const struct kw_server_identity *identity)
{
	return identity->major > 0;
}

static bool holds(const void *owner, int state)
{
	const struct kw_watch *watch = owner;

	if (state == STOPPED)
		return kw_buffer_length(&watch->info) == 0;
	return watch->data->redis && (state == GREETING || is_known(&watch->identity));
}

static const struct kw_sm_state states[] = {
	[STOPPED] = {"stopped", KW_SM_TO(GREETING), KW_SM_INITIAL},
	[GREETING] = {"greeting", KW_SM_TO(RESTING) | KW_SM_TO(STOPPED)},
	[RESTING] = {"resting", KW_SM_TO(LOOKING) | KW_SM_TO(GREETING)},
	[LOOKING] = {"looking", KW_SM_TO(RESTING) | KW_SM_TO(STOPPED)},
};

static const struct kw_sm_conf machine = {"watch", states, LOOKING + 1, holds};

static void answered(void *arg);
static void good(void *arg, bool mended);
static void lost(void *arg);

struct kw_watch *kw_watch_new(struct kw_data_connection *data, enum kw_source_flags flags,
	const struct kw_watch_handlers *handlers)
{
	struct kw_watch *watch = kw_zalloc(sizeof *watch);

	watch->data = data;
	watch->handlers = *handlers;
	watch->conf = (struct kw_conf){.data = data,
		.policy = flags,
		.answered = answered,
		.good = good,
		.lost = lost,
		.arg = watch};
	kw_takers_init(&watch->takers);
	kw_conf_init(&watch->conf);
	kw_sm_init(&watch->sm, &machine, watch, STOPPED);
	return watch;
}

void kw_watch_free(struct kw_watch *watch)
{
	if (!watch)
		return;
	kw_buffer_close(&watch->info);
	free(watch);
}

static void give_up(struct kw_watch *watch)
{
	kw_buffer_clear(&watch->info);
	if (watch->sm.state != RESTING)
		kw_sm_move(&watch->sm, STOPPED, "the look was given up");
}

/* Does CONFIG end a look? If not, INFO does. */
static bool asks_config(const struct kw_watch *watch)
{
	return watch->conf.policy != KW_SOURCE_FLAGS_TRUST &&
	       watch->conf.policy != KW_SOURCE_FLAGS_NONE;
}

/* The replication stream tells what commands do, so none of them is silent. */
static bool hears_all(const struct kw_watch *watch)
{
	return watch->conf.policy == KW_SOURCE_FLAGS_NONE;
}

/* Is the first look at this connection under way? */
static bool is_greeting(const struct kw_watch *watch)
{
	return watch->sm.state == GREETING;
}

bool kw_watch_is_another(const struct kw_server_identity *old, const struct kw_server_identity *now)
{
	return is_known(old) &&
	       (strcmp(now->run_id, old->run_id) != 0 || strcmp(now->replid, old->replid) != 0 ||
		       strcmp(now->role, old->role) != 0);
}

/* A promotion that goes on with the data is none of another server: no change of it was missed. */
static enum kw_feed_server compare(
	const struct kw_watch *watch, const struct kw_server_identity *now)
{
	if (!kw_watch_is_another(&watch->identity, now))
		return KW_FEED_SAME_SERVER;
	if (is_greeting(watch) || !kw_promotion_goes_on(&watch->identity, now, watch->data_seen))
		return KW_FEED_ANOTHER_SERVER;
	kw_log_info("source", "the server was promoted, and goes on with its data: no scan");
	return KW_FEED_SAME_SERVER;
}

/* Who is it? False: the server cannot be followed. */
static bool look_at_identity(struct kw_watch *watch, struct kw_slice info)
{
	const struct kw_server_identity *old = &watch->identity;
	struct kw_server_identity now;
	struct kw_error why;

	if (kw_server_identity_parse(info, &now, &why) || kw_server_identity_check(&now, &why)) {
		kw_data_fail(watch->data, why.code, "%s", why.text);
		return false;
	}
	if (now.loading) {
		kw_data_fail(watch->data, KW_E_STATE,
			"the server is loading its data set: waiting until it is done");
		return false;
	}
	/* Later looks only tell it: its data stay, and a short break must not cost a reconcile. */
	if (is_greeting(watch) && !kw_upstream_is_well(now.upstream)) {
		kw_data_fail(watch->data, KW_E_STATE,
			"the server is a replica, and %s: waiting until it follows its own "
			"primary again (if it shall be the primary, run REPLICAOF NO ONE there)",
			kw_upstream_trouble(now.upstream));
		return false;
	}
	if (strcmp(now.role, "master") != 0 && strcmp(now.role, old->role) != 0)
		kw_log_warn("source",
			"the server followed is itself a replica (role %s): what it has not "
			"received is not here either",
			now.role);
	watch->server = compare(watch, &now);
	watch->data_seen = kw_promotion_seen(
		is_greeting(watch) ? KW_PROMOTION_DATA_WHOLE : watch->data_seen, now.upstream);
	now.looks = old->looks + 1;
	watch->identity = now;
	return true;
}

/* Before 7.0 subcommands have no counter of their own. */
static bool counts_all(const struct kw_watch *watch)
{
	return !watch->identity.valkey && watch->identity.major < 7;
}

static uint64_t config_calls(const struct kw_watch *watch, struct kw_slice info)
{
	return kw_info_calls(info, counts_all(watch) ? "config" : "config|set");
}

static void look_at_settings(struct kw_watch *watch, struct kw_slice info, bool begin)
{
	bool all = counts_all(watch);
	bool blind = watch->conf.settings.blind;

	if (kw_settings_look(&watch->conf.settings, config_calls(watch, info), all, begin))
		watch->handlers.doubt(watch->handlers.arg, KW_DOUBT_FLAGS,
			blind ? "another client called CONFIG SET, and source.flags=trust does not "
				"look at notify-keyspace-events: events may be missed"
			      : "CONFIG SET was called repeatedly by others, so "
				"notify-keyspace-events may have been taken away and put back");
}

void kw_watch_told_up_to(struct kw_watch *watch, uint64_t offset)
{
	assert(hears_all(watch));
	kw_takers_told_up_to(&watch->takers, offset);
}

static void look_at_takers(struct kw_watch *watch, struct kw_slice info)
{
	uint64_t offset = hears_all(watch) ? watch->identity.offset : UINT64_MAX;

	if (!is_greeting(watch))
		kw_takers_look(&watch->takers, info, offset, kw_clock_us());
	else if (kw_takers_greet(&watch->takers, info, kw_clock_us()) &&
		 watch->server == KW_FEED_SAME_SERVER)
		watch->server = KW_FEED_FLUSHED_SERVER;
}

struct kw_watch_flushes kw_watch_flushes(const struct kw_watch *watch)
{
	return (struct kw_watch_flushes){
		kw_takers_untold(&watch->takers, KW_TAKER_FLUSHALL),
		kw_takers_untold(&watch->takers, KW_TAKER_FLUSHDB),
		kw_takers_untold(&watch->takers, KW_TAKER_SWAPDB),
		watch->takers.even_us,
	};
}

void kw_watch_see_flushes(struct kw_watch *watch, struct kw_slice commandstats)
{
	kw_takers_see(&watch->takers, commandstats, kw_clock_us());
}

void kw_watch_flushes_told(struct kw_watch *watch)
{
	kw_takers_told(&watch->takers);
}

static struct kw_function_calls function_calls(struct kw_slice info)
{
	struct kw_function_calls calls = {.flushes = kw_info_done(info, "function|flush")};

	for (size_t i = 0; i < FUNCTION_CHANGES; i++)
		calls.changes += kw_info_calls(info, function_changes[i]);
	return calls;
}

/* anew: the counters were wiped since the last look, and can hide a call. */
static void look_at_functions(struct kw_watch *watch, struct kw_slice info, bool anew)
{
	const struct kw_function_calls now = function_calls(info), before = watch->functions;
	bool flushed = now.flushes > (anew ? 0 : before.flushes);

	watch->functions = now;
	if (is_greeting(watch) || (!anew && !flushed && now.changes == before.changes))
		return;
	watch->handlers.functions(watch->handlers.arg,
		flushed ? KW_FEED_FUNCTIONS_FLUSHED : KW_FEED_FUNCTIONS_CHANGED);
}

/* Each look after the first of a connection tells what was called, or might have been. */
static void tell_calls(struct kw_watch *watch, const struct kw_calls_found *found)
{
	for (int kind = KW_SILENT_NONE + 1; kind < KW_SILENT_KINDS; kind++)
		if (found->kinds[kind])
			watch->handlers.stir(watch->handlers.arg, (enum kw_silent_kind)kind);
	if (found->swapped)
		watch->handlers.doubt(watch->handlers.arg, KW_DOUBT_SWAPDB,
			"SWAPDB exchanged databases, which raises no event");
	else if (found->may_have_been)
		watch->handlers.doubt(watch->handlers.arg, KW_DOUBT_RESET,
			"CONFIG RESETSTAT wiped the counter of SWAPDB, so it may have been called");
}

/* True: a command was called that changes keys and raises no event, or it may have been. */
static bool look_at_calls(struct kw_watch *watch, struct kw_slice info)
{
	bool vectors = !watch->identity.valkey && watch->identity.major >= 8;
	struct kw_calls_found found = kw_calls_look(&watch->calls, info, is_greeting(watch),
		watch->infos_asked, vectors, kw_clock_us());

	if (!found.first)
		tell_calls(watch, &found);
	look_at_settings(watch, info, found.first || found.reset);
	look_at_functions(watch, info, found.reset);
	return found.first || found.reset || found.any;
}

/* Silent changes were made, or might have been: those of databases, functions and flushes. */
static bool any_other_change(struct kw_watch *watch, struct kw_slice info)
{
	const struct kw_function_calls functions = function_calls(info);
	uint64_t calls = kw_takers_calls(info) + functions.changes + functions.flushes;
	uint64_t before = watch->other_changes;

	watch->other_changes = calls;
	return calls != before;
}

#define REMEDY                                                                                     \
	"source.flags=trust needs the flags A and E; put `notify-keyspace-events AE` into the "    \
	"server's configuration and run CONFIG SET notify-keyspace-events AE there (tried again "  \
	"once a minute)"

static bool fail_deaf(struct kw_watch *watch)
{
	char classes[KW_FLAG_CLASSES_TEXT];

	kw_flag_classes_text(watch->lacking, classes);
	if (watch->lacking)
		kw_data_fail(watch->data, KW_E_REFUSED,
			"source.canary_key was written, and no event came of these classes: "
			"%s: " REMEDY,
			classes);
	else
		kw_data_fail(watch->data, KW_E_REFUSED, "keys change and no event comes: " REMEDY);
	return false;
}

static void note_deaf(struct kw_watch *watch, kw_flag_classes lacking)
{
	watch->deaf_us = kw_clock_us();
	watch->deaf_config = watch->config_calls;
	watch->lacking = lacking;
}

void kw_watch_lacks_flags(struct kw_watch *watch, kw_flag_classes classes)
{
	assert(watch->conf.settings.blind && classes);
	if (kw_data_is_broken(watch->data))
		return;
	note_deaf(watch, classes);
	fail_deaf(watch);
}

/* Changes without events, if nothing else tells of missing flags. False: the connection failed. */
static bool look_for_events(struct kw_watch *watch, struct kw_slice info, bool silent)
{
	struct kw_deaf_look look = {
		.now_us = kw_clock_us(),
		.asked_events = watch->events_asked,
		.events = watch->handlers.events(watch->handlers.arg),
		.excused = any_other_change(watch, info) || silent || is_greeting(watch),
	};

	if (!watch->conf.settings.blind ||
		!kw_info_number(info, "rdb_changes_since_last_save", &look.changes))
		return true;
	if (is_greeting(watch) && watch->deaf_us && watch->server == KW_FEED_SAME_SERVER &&
		look.now_us - watch->deaf_us < DEAF_PAUSE_US &&
		watch->deaf_config == watch->config_calls)
		return fail_deaf(watch);
	if (!kw_deaf_look(&watch->deaf, &look))
		return true;
	note_deaf(watch, 0);
	return fail_deaf(watch);
}

static void info_answered(void *arg, const struct kw_reply *reply)
{
	struct kw_watch *watch = arg;

	reply = kw_data_reply(watch->data, reply);
	if (!reply) {
		give_up(watch);
		return;
	}
	if (reply->type != KW_REPLY_STRING) {
		kw_data_refused(watch->data, "INFO", "+info", reply);
		give_up(watch);
		return;
	}
	kw_buffer_append(&watch->info, reply->text.data, reply->text.length);
	kw_buffer_append(&watch->info, "\r\n", 2);
	if (!asks_config(watch))
		answered(watch);
}

static bool look_at_info(struct kw_watch *watch)
{
	struct kw_slice info =
		kw_slice(kw_buffer_bytes(&watch->info), kw_buffer_length(&watch->info));
	bool silent;

	if (!look_at_identity(watch, info))
		return false;
	watch->config_calls = config_calls(watch, info);
	silent = hears_all(watch) || look_at_calls(watch, info);
	if (!look_for_events(watch, info, silent))
		return false;
	look_at_takers(watch, info);
	if (watch->server == KW_FEED_ANOTHER_SERVER && !is_greeting(watch))
		watch->handlers.doubt(watch->handlers.arg, KW_DOUBT_IDENTITY,
			"the server changed its role or its replication history");
	return true;
}

/* The flags are as needed, and nothing else is wrong. */
static void finish(struct kw_watch *watch)
{
	bool greeting = is_greeting(watch);

	assert(greeting || watch->sm.state == LOOKING);
	kw_buffer_clear(&watch->info);
	kw_sm_move(&watch->sm, RESTING, "");
	if (greeting)
		watch->handlers.welcome(watch->handlers.arg, watch->server);
	else
		watch->handlers.looked(watch->handlers.arg);
}

static void lost(void *arg)
{
	give_up(arg);
}

static void good(void *arg, bool mended)
{
	struct kw_watch *watch = arg;

	if (mended && !is_greeting(watch))
		watch->handlers.doubt(watch->handlers.arg, KW_DOUBT_FLAGS,
			"notify-keyspace-events was changed, so events may have been missed");
	finish(watch);
}

/* One of the answers that end a look. */
static void answered(void *arg)
{
	struct kw_watch *watch = arg;

	assert(watch->owed > 0);
	if (--watch->owed > 0)
		return;
	if (look_at_info(watch))
		kw_conf_judge(&watch->conf);
	else
		give_up(watch);
}

static void time_answered(void *arg, const struct kw_reply *reply)
{
	struct kw_watch *watch = arg;
	uint64_t now_us = kw_wall_us();
	int64_t server_us;

	reply = kw_data_reply(watch->data, reply);
	if (!reply)
		return;
	if (!kw_data_time(reply, &server_us)) {
		kw_data_refused(watch->data, "TIME", "+time", reply);
		return;
	}
	if (watch->busy_times != watch->data->busy_times) {
		watch->time_us = 0; /* nobody knows when it was answered: ask in the next look */
		return;
	}
	watch->skew_us = server_us - (int64_t)(watch->asked_wall_us / 2 + now_us / 2);
}

/* A Sentinel knows neither TIME nor CONFIG: it is named before it refuses them. */
static void kind_told(void *arg, const struct kw_reply *reply)
{
	struct kw_watch *watch = arg;
	struct kw_server_identity identity;
	struct kw_error error;

	reply = kw_data_reply(watch->data, reply);
	if (!reply || reply->type != KW_REPLY_STRING)
		return; /* the look as a whole says so */
	if (kw_server_identity_parse(reply->text, &identity, &error) ||
		kw_server_identity_check(&identity, &error))
		kw_data_fail(watch->data, error.code, "%s", error.text);
}

static void ask(struct kw_watch *watch)
{
	uint64_t now_us = kw_clock_us();

	kw_buffer_clear(&watch->info);
	if (is_greeting(watch))
		kw_data_info(watch->data, kind_told, watch, "server");
	watch->events_asked = watch->handlers.events(watch->handlers.arg);
	if (is_greeting(watch) || now_us - watch->time_us >= TIME_EVERY_US) {
		watch->time_us = now_us;
		watch->asked_wall_us = kw_wall_us();
		watch->busy_times = watch->data->busy_times;
		kw_data_words(watch->data, time_answered, watch, "TIME", NULL);
	}
	watch->owed = is_greeting(watch) ? kw_conf_greet(&watch->conf) : 0;
	kw_settings_asked(&watch->conf.settings);
	watch->infos_asked = watch->data->infos;
	for (size_t i = 0; i < SECTIONS; i++)
		kw_data_info(watch->data, info_answered, watch, section_names[i]);
	if (!asks_config(watch))
		watch->owed += SECTIONS;
	watch->owed += kw_conf_ask(&watch->conf);
}

bool kw_watch_look(struct kw_watch *watch)
{
	if (watch->sm.state != RESTING || kw_data_is_broken(watch->data))
		return false;
	kw_sm_move(&watch->sm, LOOKING, "");
	ask(watch);
	return true;
}

void kw_watch_begin(struct kw_watch *watch)
{
	kw_sm_move(&watch->sm, GREETING, "");
	ask(watch);
}

void kw_watch_named(struct kw_watch *watch, const char *replid)
{
	struct kw_server_identity *identity = &watch->identity;

	if (strcmp(identity->replid, replid) == 0)
		return;
	snprintf(identity->replid, sizeof identity->replid, "%s", replid);
	memset(identity->replid2, '0', sizeof identity->replid2 - 1);
	identity->second_offset = 0;
}

const struct kw_server_identity *kw_watch_identity(const struct kw_watch *watch)
{
	return &watch->identity;
}

uint32_t kw_watch_databases(const struct kw_watch *watch)
{
	return watch->conf.databases;
}

int64_t kw_watch_skew_us(const struct kw_watch *watch)
{
	return watch->skew_us;
}

bool kw_watch_debugged(
	const struct kw_watch *watch, struct kw_slice commandstats, uint64_t recent_us)
{
	return kw_calls_debugged(&watch->calls, commandstats, recent_us, kw_clock_us());
}
