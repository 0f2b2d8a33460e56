#include "feed/watch/conf.h"

#include "base/log.h"
#include "keys/databases.h"
#include "redis/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FLAGS "notify-keyspace-events"
#define QUOTED_BYTES 100

/* No CONFIG is sent: flags are trusted, or not used. */
static bool asks_nothing(const struct kw_conf *conf)
{
	return conf->policy == KW_SOURCE_FLAGS_TRUST || conf->policy == KW_SOURCE_FLAGS_NONE;
}

static const char *user_of(const struct kw_conf *conf)
{
	return conf->data->user[0] ? conf->data->user : "default";
}

static void found(void *arg)
{
	struct kw_conf *conf = arg;

	conf->databases = conf->range.least;
	conf->answered(conf->arg);
}

void kw_conf_init(struct kw_conf *conf)
{
	conf->databases = KW_DATABASES_MOST;
	conf->settings.blind = conf->policy == KW_SOURCE_FLAGS_TRUST;
	conf->range = (struct kw_range){.data = conf->data, .found = found, .arg = conf};
}

static void ask(struct kw_conf *conf, kw_reply_fn fn, const char *parameter)
{
	kw_settings_get(&conf->settings);
	kw_data_words(conf->data, fn, conf, "CONFIG", "GET", parameter, NULL);
}

/* ---- a connection's first look ---- */

/* Any client can publish an event that names a database beyond the last one. */
static void databases_answered(void *arg, const struct kw_reply *reply)
{
	struct kw_conf *conf = arg;
	char number[16];
	unsigned long databases;

	reply = kw_data_reply(conf->data, reply);
	if (!reply || reply->type != KW_REPLY_ARRAY || reply->count != 2)
		return;
	snprintf(number, sizeof number, "%.*s", (int)reply->elements[1].text.length,
		(const char *)reply->elements[1].text.data);
	databases = strtoul(number, NULL, 10);
	if (databases > 0 && databases < KW_DATABASES_MOST)
		conf->databases = (uint32_t)databases;
}

/* Only the name of the parameter is told. */
static void password_answered(void *arg, const struct kw_reply *reply)
{
	struct kw_conf *conf = arg;
	struct kw_slice name;

	reply = kw_data_reply(conf->data, reply);
	if (!reply || reply->type != KW_REPLY_ARRAY || reply->count != 2 ||
		reply->elements[1].text.length == 0 || conf->warned)
		return;
	name = reply->elements[0].text;
	conf->warned = true;
	kw_log_warn("source",
		"the user '%s' can read %.*s: a thief of its password becomes administrator of "
		"the primary; set source.flags=trust and take away its +config|get "
		"(deploy/acl/primary.acl)",
		conf->data->user, (int)(name.length < QUOTED_BYTES ? name.length : QUOTED_BYTES),
		(const char *)name.data);
}

uint32_t kw_conf_greet(struct kw_conf *conf)
{
	conf->databases = KW_DATABASES_MOST;
	if (asks_nothing(conf)) {
		kw_range_begin(&conf->range);
		return 1;
	}
	ask(conf, databases_answered, "databases");
	if (conf->data->user[0] && !conf->warned) {
		ask(conf, password_answered, "requirepass");
		ask(conf, password_answered, "masterauth");
	}
	return 0;
}

/* ---- each look ---- */

static void flags_answered(void *arg, const struct kw_reply *reply)
{
	struct kw_conf *conf = arg;

	reply = kw_data_reply(conf->data, reply);
	if (!reply) {
		conf->lost(conf->arg);
		return;
	}
	if (reply->type == KW_REPLY_ERROR &&
		kw_server_error(reply->text) == KW_SERVER_E_PERMISSION) {
		kw_data_fail(conf->data, KW_E_REFUSED,
			"the user '%s' may not run CONFIG GET notify-keyspace-events: put "
			"`notify-keyspace-events AE` into the server's configuration and set "
			"source.flags=trust, or give "
			"the permission with ACL SETUSER %s +config|get",
			user_of(conf), user_of(conf));
		conf->lost(conf->arg);
		return;
	}
	if (reply->type != KW_REPLY_ARRAY || reply->count != 2 ||
		reply->elements[1].type != KW_REPLY_STRING) {
		kw_data_refused(
			conf->data, "CONFIG GET notify-keyspace-events", "+config|get", reply);
		conf->lost(conf->arg);
		return;
	}
	conf->flags = kw_flags_parse(reply->elements[1].text);
	conf->answered(conf->arg);
}

uint32_t kw_conf_ask(struct kw_conf *conf)
{
	if (asks_nothing(conf))
		return 0;
	ask(conf, flags_answered, FLAGS);
	return 1;
}

/* ---- what follows from it ---- */

static void flags_set(void *arg, const struct kw_reply *reply)
{
	struct kw_conf *conf = arg;

	reply = kw_data_reply(conf->data, reply);
	if (!reply) {
		conf->lost(conf->arg);
		return;
	}
	if (reply->type == KW_REPLY_ERROR) {
		kw_data_fail(conf->data, KW_E_REFUSED,
			"notify-keyspace-events lacks flags of AE, and the user '%s' may not set "
			"it (%.*s): put "
			"`notify-keyspace-events AE` into the server's configuration, or give the "
			"permission with ACL SETUSER %s +config|set",
			user_of(conf),
			(int)(reply->text.length < QUOTED_BYTES ? reply->text.length
								: QUOTED_BYTES),
			(const char *)reply->text.data, user_of(conf));
		conf->lost(conf->arg);
		return;
	}
	conf->good(conf->arg, true);
}

static void set_flags(struct kw_conf *conf)
{
	char merged[KW_FLAGS_TEXT];

	kw_settings_set(&conf->settings);
	kw_flags_merged(conf->flags, merged);
	kw_log_info("source", "setting notify-keyspace-events to %s", merged);
	kw_data_words(conf->data, flags_set, conf, "CONFIG", "SET", FLAGS, merged, NULL);
}

void kw_conf_judge(struct kw_conf *conf)
{
	if (asks_nothing(conf) || kw_flags_sufficient(conf->flags)) {
		conf->good(conf->arg, false);
	} else if (conf->policy == KW_SOURCE_FLAGS_SET) {
		set_flags(conf);
	} else {
		kw_data_fail(conf->data, KW_E_REFUSED,
			"notify-keyspace-events lacks flags of AE, and source.flags=check leaves "
			"them as they are: "
			"run CONFIG SET notify-keyspace-events AE on the server and put it into "
			"its "
			"configuration, or set source.flags=set");
		conf->lost(conf->arg);
	}
}
