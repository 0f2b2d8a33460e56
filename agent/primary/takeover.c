#include "takeover.h"

#include "ownership.h"

#include "base/log.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#define SWAPDB "swapdb"

/* ---- the machine ---- */

static const struct kw_sm_state states[] = {
	[KW_TAKEOVER_IDLE] = {"idle",
		KW_SM_TO(KW_TAKEOVER_ASKING) | KW_SM_TO(KW_TAKEOVER_PROMOTING), KW_SM_INITIAL},
	[KW_TAKEOVER_ASKING] = {"asking",
		KW_SM_TO(KW_TAKEOVER_SETTING) | KW_SM_TO(KW_TAKEOVER_IDLE)},
	[KW_TAKEOVER_SETTING] = {"setting", KW_SM_TO(KW_TAKEOVER_CUTTING) |
						    KW_SM_TO(KW_TAKEOVER_FOLLOWING) |
						    KW_SM_TO(KW_TAKEOVER_IDLE)},
	[KW_TAKEOVER_CUTTING] = {"cutting",
		KW_SM_TO(KW_TAKEOVER_FOLLOWING) | KW_SM_TO(KW_TAKEOVER_IDLE)},
	[KW_TAKEOVER_FOLLOWING] = {"following", KW_SM_TO(KW_TAKEOVER_IDLE)},
	[KW_TAKEOVER_PROMOTING] = {"promoting",
		KW_SM_TO(KW_TAKEOVER_PUTTING_BACK) | KW_SM_TO(KW_TAKEOVER_IDLE)},
	[KW_TAKEOVER_PUTTING_BACK] = {"putting back", KW_SM_TO(KW_TAKEOVER_IDLE)},
};

static bool holds(const void *owner, int state)
{
	const struct kw_takeover *takeover = owner;

	if (takeover->ignored > takeover->owed)
		return false;
	switch ((enum kw_takeover_state)state) {
	case KW_TAKEOVER_IDLE:
		return true;
	case KW_TAKEOVER_ASKING:
		return takeover->done && takeover->host && takeover->port > 0;
	case KW_TAKEOVER_SETTING:
	case KW_TAKEOVER_CUTTING: /* nothing is sent after a failure, and nobody logs in yet */
		return takeover->done && takeover->port > 0 && !kw_failed(&takeover->failure) &&
		       takeover->downlink->speech == KW_DOWNLINK_UNDECIDED;
	case KW_TAKEOVER_FOLLOWING: /* by a password of this takeover */
		return takeover->done && takeover->port > 0 && !kw_failed(&takeover->failure) &&
		       takeover->login->password[0];
	case KW_TAKEOVER_PROMOTING:
	case KW_TAKEOVER_PUTTING_BACK:
		return takeover->done && !kw_failed(&takeover->failure);
	}
	return false;
}

static const struct kw_sm_conf machine = {"takeover", states, KW_TAKEOVER_PUTTING_BACK + 1, holds};

static void move(struct kw_takeover *takeover, enum kw_takeover_state state)
{
	kw_sm_move(&takeover->sm, state, "");
}

static bool is_releasing(const struct kw_takeover *takeover)
{
	return takeover->sm.state == KW_TAKEOVER_PROMOTING ||
	       takeover->sm.state == KW_TAKEOVER_PUTTING_BACK;
}

void kw_takeover_init(struct kw_takeover *takeover, const struct kw_takeover_options *options)
{
	*takeover = (struct kw_takeover){
		.local = options->local,
		.downlink = options->downlink,
		.login = &options->downlink->login,
		.operators = options->operators,
		.tls = options->tls,
	};
	kw_sm_init(&takeover->sm, &machine, takeover, KW_TAKEOVER_IDLE);
}

void kw_takeover_close(struct kw_takeover *takeover)
{
	kw_buffer_close(&takeover->functions);
}

/* ---- questions and answers ---- */

static void ask(struct kw_takeover *takeover, kw_reply_fn fn, int argc, const char *const *words)
{
	struct kw_slice argv[8];

	for (int i = 0; i < argc; i++)
		argv[i] = kw_slice_text(words[i]);
	takeover->owed++;
	kw_redis_send(takeover->local->redis, fn, takeover, argc, argv);
}

#define ASK(takeover, fn, ...)                                                                     \
	ask(takeover, fn, (int)(sizeof((const char *[]){__VA_ARGS__}) / sizeof(const char *)),     \
		(const char *[]){__VA_ARGS__})

/* Count the answer. False: its question was stopped, or the connection is lost. */
static bool expected(struct kw_takeover *takeover, const struct kw_reply *reply)
{
	assert(takeover->owed > 0 && takeover->ignored <= takeover->owed);
	takeover->owed--;
	if (takeover->ignored > 0) {
		takeover->ignored--;
		return false;
	}
	return reply != NULL;
}

static void complain(struct kw_takeover *takeover, const char *what, const struct kw_reply *reply)
{
	enum kw_server_error kind =
		reply->type == KW_REPLY_ERROR ? kw_server_error(reply->text) : KW_SERVER_E_NONE;
	char text[KW_LOCAL_ANSWER];

	/* The link to its primary is down: the next try takes that into account. */
	if (kind == KW_SERVER_E_MASTERDOWN)
		kw_local_refused_stale(takeover->local);
	if (kw_failed(&takeover->failure))
		return;
	kw_local_tell_answer(takeover->local, reply,
		"grant the agent's user +config|get +config|set +function|dump +replicaof", text);
	kw_failure_answered(&takeover->failure, reply, "local server: %s %s", what, text);
}

static void on_replicaof(void *arg, const struct kw_reply *reply);
static void undo(struct kw_takeover *takeover);
static void cut(struct kw_takeover *takeover);
static void put_settings_back(struct kw_takeover *takeover);

static void end(struct kw_takeover *takeover)
{
	bool releasing = is_releasing(takeover);
	kw_local_done_fn done = takeover->done;

	assert(done && takeover->owed == takeover->ignored);
	move(takeover, KW_TAKEOVER_IDLE);
	if (kw_failed(&takeover->failure) && !releasing)
		undo(takeover);
	done(takeover->arg, kw_failed(&takeover->failure) ? &takeover->failure : NULL);
}

/* The server alone knows the password: from now on it may come in. */
static void follow(struct kw_takeover *takeover)
{
	char port[8];

	move(takeover, KW_TAKEOVER_FOLLOWING);
	kw_downlink_speak(takeover->downlink, takeover->speech);
	snprintf(port, sizeof port, "%u", takeover->port);
	ASK(takeover, on_replicaof, "REPLICAOF", takeover->host, port);
}

/* An answer came. Once all are there, take the next step: REPLICAOF only after every setting. */
static void go_on(struct kw_takeover *takeover)
{
	bool failed = kw_failed(&takeover->failure);

	if (takeover->owed > takeover->ignored || !kw_takeover_runs(takeover))
		return;
	if (takeover->sm.state == KW_TAKEOVER_SETTING && takeover->connects && !failed) {
		cut(takeover);
	} else if ((takeover->sm.state == KW_TAKEOVER_SETTING ||
			   takeover->sm.state == KW_TAKEOVER_CUTTING) &&
		   !failed) {
		follow(takeover);
	} else if (takeover->sm.state == KW_TAKEOVER_PROMOTING && !failed) {
		move(takeover, KW_TAKEOVER_PUTTING_BACK);
		put_settings_back(takeover);
	}
	if (takeover->owed == takeover->ignored)
		end(takeover);
}

/* ---- setting ---- */

static void on_set(void *arg, const struct kw_reply *reply)
{
	struct kw_takeover *takeover = arg;

	if (!expected(takeover, reply))
		return;
	if (reply->type == KW_REPLY_ERROR)
		complain(takeover, "CONFIG SET", reply);
	go_on(takeover);
}

static void on_replicaof(void *arg, const struct kw_reply *reply)
{
	struct kw_takeover *takeover = arg;

	if (!expected(takeover, reply))
		return;
	if (reply->type == KW_REPLY_ERROR)
		complain(takeover, "REPLICAOF", reply);
	go_on(takeover);
}

/* Nobody can log in by it any more. */
static void wipe_login(struct kw_takeover *takeover)
{
	explicit_bzero(takeover->login->password, sizeof takeover->login->password);
}

/* None of ours is in the server. */
static void forget_password(struct kw_takeover *takeover)
{
	takeover->auth = KW_AUTH_THEIRS;
	wipe_login(takeover);
}

/* Neither the command nor its copies stay in memory. */
static void send_password(struct kw_takeover *takeover, kw_reply_fn fn, struct kw_slice password)
{
	const struct kw_slice argv[] = {kw_slice_text("CONFIG"), kw_slice_text("SET"),
		kw_slice_text("masterauth"), password};

	kw_redis_send_secret(takeover->local->redis, fn, takeover, 4, argv);
}

/* As it is while no agent leads the server. */
static void put_password_back(struct kw_takeover *takeover, kw_reply_fn fn)
{
	send_password(takeover, fn, takeover->operators);
}

/* If it is refused, the password of before stays in the server. */
static void on_password(void *arg, const struct kw_reply *reply)
{
	struct kw_takeover *takeover = arg;
	bool refused = reply && reply->type == KW_REPLY_ERROR && takeover->ignored == 0;

	if (refused)
		wipe_login(takeover);
	if (refused && takeover->auth == KW_AUTH_NEW && takeover->sm.state == KW_TAKEOVER_SETTING)
		forget_password(takeover);
	on_set(takeover, reply);
}

static void on_swapdb(void *arg, const struct kw_reply *reply)
{
	struct kw_takeover *takeover = arg;

	if (reply && reply->type == KW_REPLY_ERROR && takeover->ignored == 0)
		takeover->swapdb_set = false;
	on_set(takeover, reply);
}

static void on_tls_back(void *arg, const struct kw_reply *reply)
{
	struct kw_takeover *takeover = arg;

	if (reply && reply->type != KW_REPLY_ERROR && takeover->ignored == 0)
		takeover->tls_switched = false;
	on_set(takeover, reply);
}

/* As it was before agents came. */
static void put_tls_back(struct kw_takeover *takeover)
{
	if (takeover->tls_switched)
		ASK(takeover, on_tls_back, "CONFIG", "SET", "tls-replication", "yes");
}

/* It failed: the server keeps its role, if it was not cut off, and its settings are put back. */
static void undo(struct kw_takeover *takeover)
{
	kw_takeover_loaded(takeover);
	wipe_login(takeover);
	if (takeover->auth != KW_AUTH_NEW)
		return;
	forget_password(takeover);
	put_tls_back(takeover);
	takeover->owed++;
	put_password_back(takeover, on_set);
}

/* One that was never told to any program. False: there is none. */
static bool make_password(struct kw_takeover *takeover)
{
	struct kw_link_mark mark = {.tls = takeover->tls_switched};

	snprintf(mark.diskless, sizeof mark.diskless, "%s", takeover->diskless);
	if (kw_link_mark_write(&mark, takeover->login->password))
		return true;
	wipe_login(takeover);
	kw_failure_set(&takeover->failure, KW_E_IO, "no random bytes");
	return false;
}

static void set_password(struct kw_takeover *takeover)
{
	if (takeover->auth == KW_AUTH_THEIRS)
		takeover->auth = KW_AUTH_NEW;
	takeover->owed++;
	send_password(takeover, on_password, kw_slice_text(takeover->login->password));
}

/* After the password, which remembers it. */
static void set_tls(struct kw_takeover *takeover)
{
	bool speaks = takeover->speech == KW_DOWNLINK_TLS;

	if (speaks != takeover->replicates_tls)
		ASK(takeover, on_set, "CONFIG", "SET", "tls-replication", speaks ? "yes" : "no");
}

static void set(struct kw_takeover *takeover)
{
	if (!make_password(takeover))
		return;
	move(takeover, KW_TAKEOVER_SETTING);
	set_password(takeover);
	set_tls(takeover);
	if (takeover->want == KW_TAKEOVER_SNAPSHOT) {
		if (strcmp(takeover->diskless, SWAPDB) != 0)
			takeover->swapdb_set = true;
		ASK(takeover, on_swapdb, "CONFIG", "SET", "repl-diskless-load", SWAPDB);
	} else {
		kw_takeover_loaded(takeover);
	}
}

/*
 * A replica can be connected to another program, which was at this port before us, and be about to
 * log in there: a server says its masterauth when PONG comes (syncWithMaster in replication.c). So
 * that connection is cut before the password is set that counts. REPLICAOF with the same host and
 * port would cut nothing.
 */
static void cut(struct kw_takeover *takeover)
{
	if (!make_password(takeover))
		return;
	move(takeover, KW_TAKEOVER_CUTTING);
	ASK(takeover, on_replicaof, "REPLICAOF", KW_NOWHERE_HOST, KW_NOWHERE_PORT);
	set_password(takeover);
}

/* ---- asking ---- */

/* The operator's own would go in clear to any program that takes the agent's port. */
static void judge_foreign_password(struct kw_takeover *takeover, const char *given)
{
	if (*given && takeover->operators.length == 0)
		kw_failure_set(&takeover->failure, KW_E_CONFIG,
			"the local server has a masterauth, which it would send to any program "
			"that listens at this agent's port: name a file with it in "
			"apply.replica.masterauth_file, so that it can be put back, or unset it");
	else if (*given && !kw_slice_equal(kw_slice_text(given), takeover->operators))
		kw_failure_set(&takeover->failure, KW_E_CONFIG,
			"the local server's masterauth is not the password in "
			"apply.replica.masterauth_file: the file must hold the one that shall be "
			"put back");
}

/* Plain or TLS. What the agent switches, the password remembers from before it is switched. */
static void decide_speech(struct kw_takeover *takeover, bool marked)
{
	const struct kw_downlink *downlink = takeover->downlink;
	const struct kw_tls_current *shown = downlink->certificates;
	const struct kw_link_tls_facts facts = {
		.replicates = takeover->replicates_tls,
		.switched = marked || (takeover->tls_switched && !takeover->replicates_tls),
		.certified = shown && shown->context,
		.near = kw_downlink_is_near(takeover->host),
	};
	enum kw_link_speech speech = kw_link_tls_judge(takeover->tls, &facts);
	const char *remedy = kw_link_speech_remedy(speech);

	if (remedy) {
		kw_failure_set(&takeover->failure, KW_E_CONFIG, "%s", remedy);
		return;
	}
	takeover->tls_switched = facts.switched || (speech == KW_LINK_PLAIN && facts.replicates);
	takeover->speech = speech == KW_LINK_TLS ? KW_DOWNLINK_TLS : KW_DOWNLINK_PLAIN;
}

/* repl-diskless-load before agents came; one of them might have been killed during a load. */
static void recall_diskless(
	struct kw_takeover *takeover, const char *present, const struct kw_link_mark *mark)
{
	bool swapdb = strcmp(present, SWAPDB) == 0;

	if (swapdb && takeover->auth == KW_AUTH_OURS) {
		takeover->swapdb_set = strcmp(mark->diskless, SWAPDB) != 0;
		present = mark->diskless;
	} else if (swapdb && takeover->swapdb_set) {
		return; /* by a takeover of this agent, which was undone before the setting was */
	}
	snprintf(takeover->diskless, sizeof takeover->diskless, "%s", present);
}

static bool is_replica(const struct kw_takeover *takeover, const struct kw_link_settings *settings)
{
	return settings->primary[0] || strcmp(takeover->local->facts.identity.role, "slave") == 0;
}

static void recall_settings(struct kw_takeover *takeover, const struct kw_link_settings *settings)
{
	struct kw_link_mark mark = {.tls = false};
	bool ours = kw_link_mark_read(settings->password, &mark);

	if (settings->user[0] && !settings->password[0])
		kw_failure_set(&takeover->failure, KW_E_CONFIG,
			"the local server has masteruser but no masterauth: set both or neither");
	takeover->auth = ours ? KW_AUTH_OURS : KW_AUTH_THEIRS;
	takeover->connects = is_replica(takeover, settings);
	takeover->replicates_tls = strcmp(settings->tls, "yes") == 0;
	takeover->databases = (uint32_t)strtoul(settings->databases, NULL, 10);
	snprintf(takeover->login->user, sizeof takeover->login->user, "%s", settings->user);
	if (!ours)
		judge_foreign_password(takeover, settings->password);
	if (!kw_failed(&takeover->failure))
		decide_speech(takeover, mark.tls);
	recall_diskless(takeover, settings->diskless, &mark);
}

static void on_config(void *arg, const struct kw_reply *reply)
{
	struct kw_takeover *takeover = arg;
	struct kw_link_settings settings;
	const char *too_long;

	if (!expected(takeover, reply))
		return;
	if (reply->type != KW_REPLY_ARRAY) {
		complain(takeover, "CONFIG GET", reply);
		return;
	}
	too_long = kw_link_settings_read(reply, &settings);
	if (too_long)
		kw_failure_set(&takeover->failure, KW_E_FULL, "the local server's %s is too long",
			too_long);
	else
		recall_settings(takeover, &settings);
	kw_link_settings_wipe(&settings);
}

/* The last answer of the questions. */
static void on_read(void *arg, const struct kw_reply *reply)
{
	struct kw_takeover *takeover = arg;

	if (!expected(takeover, reply))
		return;
	kw_buffer_clear(&takeover->functions);
	if (takeover->want == KW_TAKEOVER_SNAPSHOT && reply->type != KW_REPLY_STRING)
		complain(takeover, "FUNCTION DUMP", reply);
	else if (takeover->want == KW_TAKEOVER_SNAPSHOT &&
		 reply->text.length > KW_TAKEOVER_FUNCTIONS_MAX)
		kw_failure_set(&takeover->failure, KW_E_FULL,
			"the local server's function libraries are larger than %zu MiB",
			KW_TAKEOVER_FUNCTIONS_MAX >> 20);
	else if (takeover->want == KW_TAKEOVER_SNAPSHOT)
		kw_buffer_append(&takeover->functions, reply->text.data, reply->text.length);
	if (!kw_failed(&takeover->failure))
		set(takeover);
	go_on(takeover);
}

void kw_takeover_start(struct kw_takeover *takeover, const char *host, uint16_t port,
	enum kw_takeover_want want, kw_local_done_fn done, void *arg)
{
	kw_takeover_stop(takeover);
	kw_downlink_shut(takeover->downlink);
	wipe_login(takeover);
	takeover->host = host;
	takeover->port = port;
	takeover->want = want;
	if (takeover->auth == KW_AUTH_NEW)
		takeover->auth = KW_AUTH_OURS; /* of a takeover before this one */
	takeover->done = done;
	takeover->arg = arg;
	takeover->failure = (struct kw_failure){0};
	move(takeover, KW_TAKEOVER_ASKING);
	ASK(takeover, on_config, "CONFIG", "GET", KW_LINK_SETTINGS_NAMES);
	if (want == KW_TAKEOVER_CONTINUE) {
		ASK(takeover, on_read, "PING");
		return;
	}
	kw_local_serve_stale(takeover->local);
	ASK(takeover, on_read, "FUNCTION", "DUMP");
	kw_local_serve_stale_end(takeover->local);
}

void kw_takeover_stop(struct kw_takeover *takeover)
{
	move(takeover, KW_TAKEOVER_IDLE);
	takeover->done = NULL;
	takeover->ignored = takeover->owed;
}

/* ---- putting back ---- */

static void on_put_back(void *arg, const struct kw_reply *reply)
{
	struct kw_takeover *takeover = arg;

	if (!expected(takeover, reply))
		return;
	if (reply->type == KW_REPLY_ERROR && is_releasing(takeover))
		complain(takeover, "CONFIG SET", reply);
	else if (reply->type == KW_REPLY_ERROR)
		kw_log_warn("local", "repl-diskless-load cannot be put back to %s: %.*s",
			takeover->diskless, (int)reply->text.length,
			(const char *)reply->text.data);
	else
		takeover->swapdb_set = false;
	go_on(takeover);
}

void kw_takeover_loaded(struct kw_takeover *takeover)
{
	if (takeover->swapdb_set)
		ASK(takeover, on_put_back, "CONFIG", "SET", "repl-diskless-load",
			takeover->diskless);
}

/* Forget the password only when it is removed: else the next try would not remove it. */
static void on_password_gone(void *arg, const struct kw_reply *reply)
{
	struct kw_takeover *takeover = arg;
	bool gone = reply && reply->type != KW_REPLY_ERROR && takeover->ignored == 0;

	if (gone)
		forget_password(takeover);
	on_set(takeover, reply);
}

static void put_settings_back(struct kw_takeover *takeover)
{
	kw_takeover_loaded(takeover);
	if (takeover->auth != KW_AUTH_THEIRS) {
		put_tls_back(takeover);
		takeover->owed++;
		put_password_back(takeover, on_password_gone);
	}
}

void kw_takeover_release(struct kw_takeover *takeover, kw_local_done_fn done, void *arg)
{
	assert(!kw_takeover_runs(takeover));
	takeover->done = done;
	takeover->arg = arg;
	takeover->failure = (struct kw_failure){0};
	move(takeover, KW_TAKEOVER_PROMOTING);
	ASK(takeover, on_replicaof, "REPLICAOF", "NO", "ONE");
}

/* ---- the server belongs to another client ---- */

static void on_give_back_set(void *arg, const struct kw_reply *reply)
{
	if (reply && reply->type == KW_REPLY_ERROR)
		kw_log_warn("local", "a setting of this agent cannot be put back: %.*s",
			(int)reply->text.length, (const char *)reply->text.data);
}

static void put_back(struct kw_takeover *takeover, const char *name, const char *value)
{
	kw_redis_words(takeover->local->redis, on_give_back_set, takeover, "CONFIG", "SET", name,
		value, NULL);
}

/* Only a password with our mark: the operator might have set another one meanwhile. */
static void on_give_back(void *arg, const struct kw_reply *reply)
{
	struct kw_takeover *takeover = arg;
	struct kw_link_settings present;
	struct kw_link_mark mark;
	bool swapdb;

	if (!reply || kw_takeover_runs(takeover))
		return;
	(void)kw_link_settings_read(reply, &present);
	swapdb = strcmp(present.diskless, SWAPDB) == 0;
	if (kw_link_mark_read(present.password, &mark)) {
		if (mark.tls && strcmp(present.tls, "no") == 0)
			put_back(takeover, "tls-replication", "yes");
		put_password_back(takeover, on_give_back_set);
		if (swapdb && strcmp(mark.diskless, SWAPDB) != 0)
			put_back(takeover, "repl-diskless-load", mark.diskless);
	} else if (takeover->swapdb_set && swapdb) {
		put_back(takeover, "repl-diskless-load", takeover->diskless);
	}
	takeover->swapdb_set = takeover->tls_switched = false;
	forget_password(takeover);
	kw_link_settings_wipe(&present);
}

void kw_takeover_give_back(struct kw_takeover *takeover)
{
	kw_redis_words(takeover->local->redis, on_give_back, takeover, "CONFIG", "GET",
		KW_LINK_SETTINGS_NAMES, NULL);
}
