#include "takeover.h"

#include "base/log.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#define MARK "keywake/"
#define MARK_TLS "tls/"
#define RANDOM_BYTES 16
#define SWAPDB "swapdb"

/* ---- the machine ---- */

static const struct kw_sm_state states[] = {
	[KW_TAKEOVER_IDLE] = {"idle",
		KW_SM_TO(KW_TAKEOVER_ASKING) | KW_SM_TO(KW_TAKEOVER_PROMOTING), KW_SM_INITIAL},
	[KW_TAKEOVER_ASKING] = {"asking",
		KW_SM_TO(KW_TAKEOVER_SETTING) | KW_SM_TO(KW_TAKEOVER_IDLE)},
	[KW_TAKEOVER_SETTING] = {"setting",
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
	case KW_TAKEOVER_FOLLOWING: /* nothing is sent after a failure */
		return takeover->done && takeover->port > 0 && !kw_failed(&takeover->failure);
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

static void follow(struct kw_takeover *takeover)
{
	char port[8];

	move(takeover, KW_TAKEOVER_FOLLOWING);
	snprintf(port, sizeof port, "%u", takeover->port);
	ASK(takeover, on_replicaof, "REPLICAOF", takeover->host, port);
}

/* An answer came. Once all are there, take the next step: REPLICAOF only after every setting. */
static void go_on(struct kw_takeover *takeover)
{
	if (takeover->owed > takeover->ignored || !kw_takeover_runs(takeover))
		return;
	if (takeover->sm.state == KW_TAKEOVER_SETTING && !kw_failed(&takeover->failure)) {
		follow(takeover);
		return;
	}
	if (takeover->sm.state == KW_TAKEOVER_PROMOTING && !kw_failed(&takeover->failure)) {
		move(takeover, KW_TAKEOVER_PUTTING_BACK);
		put_settings_back(takeover);
	}
	if (takeover->owed == takeover->ignored)
		end(takeover);
}

/* ---- the password, and what it remembers ---- */

struct mark {
	char diskless[KW_TAKEOVER_VALUE];
	bool tls; /* tls-replication was yes */
};

/* keywake/<setting>/<random>, or keywake/<setting>/tls/<random>: is the text one of ours? */
static bool read_mark(const char *password, struct mark *mark)
{
	const char *from = password + strlen(MARK), *end;

	if (strncmp(password, MARK, strlen(MARK)) != 0)
		return false;
	end = strchr(from, '/');
	if (!end || end == from || end - from >= KW_TAKEOVER_VALUE ||
		strspn(from, "abcdefghijklmnopqrstuvwxyz-") != (size_t)(end - from))
		return false;
	memcpy(mark->diskless, from, (size_t)(end - from));
	mark->diskless[end - from] = '\0';
	mark->tls = strncmp(end + 1, MARK_TLS, strlen(MARK_TLS)) == 0;
	return true;
}

static bool make_password(struct kw_takeover *takeover)
{
	uint8_t bytes[RANDOM_BYTES];
	char *at = takeover->login->password;
	int length = snprintf(at, KW_LOGIN_TEXT, MARK "%s/%s", takeover->diskless,
		takeover->tls_switched ? MARK_TLS : "");

	if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
		return false;
	for (size_t i = 0; i < sizeof bytes; i++)
		length += snprintf(at + length, (size_t)(KW_LOGIN_TEXT - length), "%02x", bytes[i]);
	return true;
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

static void forget_password(struct kw_takeover *takeover)
{
	takeover->auth = KW_AUTH_THEIRS;
	explicit_bzero(takeover->login->password, sizeof takeover->login->password);
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

static void on_password(void *arg, const struct kw_reply *reply)
{
	struct kw_takeover *takeover = arg;
	bool refused = reply && reply->type == KW_REPLY_ERROR && takeover->ignored == 0;

	if (refused)
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

/* It failed: the server keeps its role, and its settings are put back. */
static void undo(struct kw_takeover *takeover)
{
	kw_takeover_loaded(takeover);
	if (takeover->auth != KW_AUTH_NEW)
		return;
	forget_password(takeover);
	put_tls_back(takeover);
	takeover->owed++;
	put_password_back(takeover, on_set);
}

static void set_password(struct kw_takeover *takeover)
{
	takeover->auth = KW_AUTH_NEW;
	takeover->owed++;
	send_password(takeover, on_password, kw_slice_text(takeover->login->password));
}

/* After the password, which remembers it. */
static void set_tls(struct kw_takeover *takeover)
{
	bool speaks = takeover->downlink->speech == KW_DOWNLINK_TLS;

	if (speaks != takeover->replicates_tls)
		ASK(takeover, on_set, "CONFIG", "SET", "tls-replication", speaks ? "yes" : "no");
}

static void set(struct kw_takeover *takeover)
{
	bool needs_password = takeover->auth == KW_AUTH_THEIRS;

	if (needs_password && !make_password(takeover)) {
		kw_failure_set(&takeover->failure, KW_E_IO, "no random bytes");
		return;
	}
	move(takeover, KW_TAKEOVER_SETTING);
	if (needs_password)
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

/* ---- asking ---- */

static bool copy_text(const struct kw_reply *reply, char *to, size_t room)
{
	if (reply->text.length >= room)
		return false;
	if (reply->text.length > 0)
		memcpy(to, reply->text.data, reply->text.length);
	to[reply->text.length] = '\0';
	return true;
}

static void take_setting(
	struct kw_takeover *takeover, struct kw_slice name, const struct kw_reply *value)
{
	struct kw_link_login *login = takeover->login;
	char number[16];
	bool fits = true;

	if (kw_slice_equal(name, kw_slice_text("masterauth")))
		fits = copy_text(value, login->password, sizeof login->password);
	else if (kw_slice_equal(name, kw_slice_text("masteruser")))
		fits = copy_text(value, login->user, sizeof login->user);
	else if (kw_slice_equal(name, kw_slice_text("repl-diskless-load")))
		fits = copy_text(value, takeover->diskless, sizeof takeover->diskless);
	else if (kw_slice_equal(name, kw_slice_text("databases")) &&
		 copy_text(value, number, sizeof number))
		takeover->databases = (uint32_t)strtoul(number, NULL, 10);
	else if (kw_slice_equal(name, kw_slice_text("tls-replication")))
		takeover->replicates_tls = kw_slice_equal(value->text, kw_slice_text("yes"));
	if (!fits)
		kw_failure_set(&takeover->failure, KW_E_FULL, "the local server's %.*s is too long",
			(int)name.length, (const char *)name.data);
}

/* The operator's own would go in clear to any program that takes the agent's port. */
static void judge_foreign_password(struct kw_takeover *takeover)
{
	const char *given = takeover->login->password;

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
	forget_password(takeover);
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
	kw_downlink_speak(
		takeover->downlink, speech == KW_LINK_TLS ? KW_DOWNLINK_TLS : KW_DOWNLINK_PLAIN);
}

/* The setting before agents came; one of them might have been killed during a load. */
static void recall_settings(struct kw_takeover *takeover, const char *known)
{
	bool swapdb = strcmp(takeover->diskless, SWAPDB) == 0;
	struct mark mark = {.tls = false};
	const char *before = mark.diskless;
	bool ours = read_mark(takeover->login->password, &mark);

	if (takeover->login->user[0] && !takeover->login->password[0])
		kw_failure_set(&takeover->failure, KW_E_CONFIG,
			"the local server has masteruser but no masterauth: set both or neither");
	takeover->auth = ours ? KW_AUTH_OURS : KW_AUTH_THEIRS;
	if (!ours)
		judge_foreign_password(takeover);
	if (!kw_failed(&takeover->failure))
		decide_speech(takeover, mark.tls);
	if (ours && swapdb) {
		takeover->swapdb_set = strcmp(before, SWAPDB) != 0;
		snprintf(takeover->diskless, sizeof takeover->diskless, "%s", before);
	} else if (ours && strcmp(before, takeover->diskless) != 0) {
		/* The setting was changed since then: a new password must remember it. */
		forget_password(takeover);
	}
	if (ours && takeover->tls_switched && !mark.tls)
		forget_password(takeover);
	if (!ours && takeover->swapdb_set && swapdb)
		snprintf(takeover->diskless, sizeof takeover->diskless, "%s", known);
}

static void on_config(void *arg, const struct kw_reply *reply)
{
	struct kw_takeover *takeover = arg;
	char known[KW_TAKEOVER_VALUE];

	if (!expected(takeover, reply))
		return;
	memcpy(known, takeover->diskless, sizeof known);
	*takeover->login = (struct kw_link_login){0};
	takeover->replicates_tls = false; /* a server without TLS does not name it */
	if (reply->type != KW_REPLY_ARRAY)
		complain(takeover, "CONFIG GET", reply);
	for (size_t i = 0; i + 1 < reply->count; i += 2)
		take_setting(takeover, reply->elements[i].text, &reply->elements[i + 1]);
	if (!kw_failed(&takeover->failure))
		recall_settings(takeover, known);
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
	takeover->host = host;
	takeover->port = port;
	takeover->want = want;
	if (takeover->auth == KW_AUTH_NEW)
		takeover->auth = KW_AUTH_OURS; /* of a takeover before this one */
	takeover->done = done;
	takeover->arg = arg;
	takeover->failure = (struct kw_failure){0};
	move(takeover, KW_TAKEOVER_ASKING);
	ASK(takeover, on_config, "CONFIG", "GET", "masterauth", "masteruser", "repl-diskless-load",
		"databases", "tls-replication");
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

/* What CONFIG GET answers to on_give_back. */
struct present {
	char password[KW_LOGIN_TEXT];
	char diskless[KW_TAKEOVER_VALUE];
	char tls[KW_TAKEOVER_VALUE];
};

static void read_present(const struct kw_reply *reply, struct present *present)
{
	*present = (struct present){0};
	for (size_t i = 0; i + 1 < reply->count; i += 2) {
		const struct kw_reply *value = &reply->elements[i + 1];
		struct kw_slice name = reply->elements[i].text;

		if (kw_slice_equal(name, kw_slice_text("masterauth")))
			copy_text(value, present->password, sizeof present->password);
		else if (kw_slice_equal(name, kw_slice_text("tls-replication")))
			copy_text(value, present->tls, sizeof present->tls);
		else
			copy_text(value, present->diskless, sizeof present->diskless);
	}
}

/* Only a password with our mark: the operator might have set another one meanwhile. */
static void on_give_back(void *arg, const struct kw_reply *reply)
{
	struct kw_takeover *takeover = arg;
	struct present present;
	struct mark mark;

	if (!reply || kw_takeover_runs(takeover))
		return;
	read_present(reply, &present);
	if (read_mark(present.password, &mark)) {
		if (mark.tls && strcmp(present.tls, "no") == 0)
			put_back(takeover, "tls-replication", "yes");
		put_password_back(takeover, on_give_back_set);
		if (strcmp(present.diskless, SWAPDB) == 0 && strcmp(mark.diskless, SWAPDB) != 0)
			put_back(takeover, "repl-diskless-load", mark.diskless);
	} else if (takeover->swapdb_set && strcmp(present.diskless, SWAPDB) == 0) {
		put_back(takeover, "repl-diskless-load", takeover->diskless);
	}
	takeover->swapdb_set = takeover->tls_switched = false;
	forget_password(takeover);
	explicit_bzero(present.password, sizeof present.password);
}

void kw_takeover_give_back(struct kw_takeover *takeover)
{
	kw_redis_words(takeover->local->redis, on_give_back, takeover, "CONFIG", "GET",
		"masterauth", "repl-diskless-load", "tls-replication", NULL);
}
