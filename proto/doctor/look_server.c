/*
 * One connection to a server: who it is, what its user may do, how it is set.
 *
 *   ready: TIME, INFO ──▶ permissions, CONFIG GET ──▶ may it set the flags? ──▶ channels ──▶ over
 *   not ready: what listens at that port? ──▶ over
 */
#include "doctor/internal.h"

#include "base/clock.h"
#include "base/secret.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the answers ---- */

static void look_further(struct kw_server_look *look);

static void answered(struct kw_server_look *look)
{
	if (--look->waits == 0)
		look_further(look);
}

static void take_time(struct kw_server_look *look, const struct kw_reply *reply)
{
	const uint64_t took_us = kw_clock_us() - look->asked_us;
	int64_t server_us;

	if (reply->type != KW_REPLY_ARRAY || reply->count != 2 ||
		reply->elements[0].type != KW_REPLY_STRING ||
		reply->elements[1].type != KW_REPLY_STRING)
		return;
	server_us = 0;
	for (int i = 0; i < 2; i++) {
		char digits[24];

		snprintf(digits, sizeof digits, "%.*s", (int)reply->elements[i].text.length,
			(const char *)reply->elements[i].text.data);
		server_us = server_us * 1000000 + strtoll(digits, NULL, 10);
	}
	look->facts.clock_told = true;
	look->facts.round_us = took_us;
	look->facts.skew_us = server_us - (int64_t)(look->asked_wall_us + took_us / 2);
}

static void on_time(void *arg, const struct kw_reply *reply)
{
	struct kw_server_look *look = arg;

	if (!reply)
		return;
	take_time(look, reply);
	answered(look);
}

static void take_info(struct kw_server_look *look, struct kw_slice info)
{
	struct kw_doctor_server_facts *facts = &look->facts;
	struct kw_slice policy;

	if (kw_server_identity_parse(info, &facts->identity, &look->error))
		return;
	look->told = true;
	kw_info_number(info, "used_memory", &facts->used_memory);
	kw_info_number(info, "maxmemory", &facts->maxmemory);
	if (kw_info_text(info, "maxmemory_policy", &policy))
		snprintf(facts->policy, sizeof facts->policy, "%.*s", (int)policy.length,
			(const char *)policy.data);
	facts->wants_replicas = kw_info_number(info, "min_slaves_good_slaves", &facts->good);
}

static void on_info(void *arg, const struct kw_reply *reply)
{
	struct kw_server_look *look = arg;

	if (!reply)
		return;
	if (reply->type == KW_REPLY_STRING)
		take_info(look, reply->text);
	answered(look);
}

static void copy_value(const struct kw_reply *value, char *to, size_t room)
{
	if (value->type == KW_REPLY_STRING)
		snprintf(to, room, "%.*s",
			(int)(value->text.length < room ? value->text.length : room),
			(const char *)value->text.data);
}

static bool is_name(const struct kw_reply *reply, const char *name)
{
	return reply->type == KW_REPLY_STRING && kw_slice_equal(reply->text, kw_slice_text(name));
}

static void take_config(struct kw_server_look *look, const struct kw_reply *reply)
{
	struct kw_doctor_server_facts *facts = &look->facts;
	char backlog[24] = "";

	if (reply->type == KW_REPLY_ERROR) {
		facts->config = kw_server_lacks_command(reply->text) ? KW_DOCTOR_CONFIG_GONE
								     : KW_DOCTOR_CONFIG_REFUSED;
		return;
	}
	if (reply->type != KW_REPLY_ARRAY)
		return;
	facts->config = KW_DOCTOR_CONFIG_TOLD;
	for (size_t i = 0; i + 1 < reply->count; i += 2) {
		const struct kw_reply *value = &reply->elements[i + 1];

		if (is_name(&reply->elements[i], "notify-keyspace-events"))
			copy_value(value, facts->flags, sizeof facts->flags);
		else if (is_name(&reply->elements[i], "client-output-buffer-limit"))
			copy_value(value, facts->buffers, sizeof facts->buffers);
		else if (is_name(&reply->elements[i], "repl-backlog-size"))
			copy_value(value, backlog, sizeof backlog);
	}
	facts->backlog_bytes = strtoull(backlog, NULL, 10);
	if (look->server.flags)
		facts->flags_good =
			look->server.flags(kw_slice_text(facts->flags), facts->flags_wanted);
}

static void on_config(void *arg, const struct kw_reply *reply)
{
	struct kw_server_look *look = arg;

	if (!reply)
		return;
	take_config(look, reply);
	answered(look);
}

static void take_sentinel(struct kw_server_look *look, const struct kw_reply *reply)
{
	enum kw_doctor_sentinel *says = &look->facts.sentinel;

	if (reply->type == KW_REPLY_ARRAY)
		*says = KW_DOCTOR_SENTINEL_KNOWS;
	else if (reply->type != KW_REPLY_ERROR)
		return;
	else if (kw_server_lacks_command(reply->text))
		*says = KW_DOCTOR_SENTINEL_NONE;
	else if (kw_server_error(reply->text) != KW_SERVER_E_PERMISSION)
		*says = KW_DOCTOR_SENTINEL_FOREIGN;
}

static void on_sentinel(void *arg, const struct kw_reply *reply)
{
	struct kw_server_look *look = arg;

	if (!reply)
		return;
	take_sentinel(look, reply);
	answered(look);
}

/* ---- the permissions ---- */

static void send_question(
	void *arg, kw_reply_fn fn, void *fn_arg, int argc, const struct kw_slice *argv)
{
	struct kw_server_look *look = arg;

	kw_redis_send(look->redis, fn, fn_arg, argc, argv);
}

static void on_permissions(void *arg)
{
	answered(arg);
}

static void check_permissions(struct kw_server_look *look)
{
	if (look->server.wanted_count == 0)
		return;
	look->waits++;
	kw_wanted_begin(&look->wanted);
}

/* One question: before 7.0 CONFIG GET takes one pattern, and a running proxy counts the calls. */
static void ask_config(struct kw_server_look *look)
{
	const struct kw_server_identity *identity = &look->facts.identity;

	if ((!look->server.flags && look->server.use != KW_DOCTOR_STREAMED) || !look->told)
		return;
	look->waits++;
	if (identity->valkey || identity->major >= 7)
		kw_redis_words(look->redis, on_config, look, "CONFIG", "GET",
			"notify-keyspace-events", "client-output-buffer-limit", "repl-backlog-size",
			NULL);
	else
		kw_redis_words(look->redis, on_config, look, "CONFIG", "GET",
			"[nc][ol][ti][ie][fn][yt]-*", NULL);
}

static void on_may_set(void *arg, const struct kw_reply *reply)
{
	struct kw_server_look *look = arg;

	if (!reply)
		return;
	if (reply->type == KW_REPLY_STATUS)
		look->facts.may_set = KW_DOCTOR_MAY;
	else if (reply->type == KW_REPLY_STRING)
		look->facts.may_set = KW_DOCTOR_MAY_NOT;
	answered(look);
}

/* The flags are to be set: by words that the server judges and does not run. */
static bool ask_setting(struct kw_server_look *look)
{
	const struct kw_wanted *wanted = look->server.set_flags;
	struct kw_slice argv[KW_WANTED_WORDS + 3] = {
		kw_slice_text("ACL"), kw_slice_text("DRYRUN"), kw_slice_text(look->facts.user)};
	int argc = 3;

	if (!wanted || look->facts.config != KW_DOCTOR_CONFIG_TOLD || look->facts.flags_good ||
		look->asked_setting)
		return false;
	look->asked_setting = true;
	for (int i = 0; wanted->words[i]; i++)
		argv[argc++] = kw_slice_text(wanted->words[i]);
	look->waits++;
	kw_redis_send(look->redis, on_may_set, look, argc, argv);
	return true;
}

/* ---- channels: tried last, because then nothing else can be asked ---- */

struct listening {
	struct kw_server_look *look;
	size_t index; /* of the permission */
};

static void on_listening(void *arg, const struct kw_reply *reply)
{
	struct listening *listening = arg;
	struct kw_server_look *look = listening->look;
	const uint32_t bit = UINT32_C(1) << listening->index;

	free(listening);
	if (!reply)
		return;
	look->wanted.unknown &= ~bit;
	if (reply->type == KW_REPLY_ERROR && kw_server_error(reply->text) == KW_SERVER_E_PERMISSION)
		look->wanted.lacking |= bit;
	answered(look);
}

static bool is_subscription(const struct kw_wanted *wanted)
{
	return strcmp(wanted->words[0], "SUBSCRIBE") == 0 ||
	       strcmp(wanted->words[0], "PSUBSCRIBE") == 0;
}

/* Those that ACL DRYRUN did not tell. */
static bool try_channels(struct kw_server_look *look)
{
	if (look->wanted.state != KW_WANTED_OVER || look->listened)
		return false;
	look->listened = true;
	for (size_t i = 0; i < look->wanted.count; i++) {
		const struct kw_wanted *wanted = &look->wanted.wanted[i];
		struct listening *listening;

		if (!(look->wanted.unknown & UINT32_C(1) << i) || !is_subscription(wanted))
			continue;
		listening = kw_alloc(sizeof *listening);
		*listening = (struct listening){look, i};
		look->waits++;
		kw_redis_subscribe(look->redis, wanted->words[0][0] == 'P', wanted->words[1],
			on_listening, listening);
	}
	return look->waits > 0;
}

/* ---- from step to step ---- */

static void look_further(struct kw_server_look *look)
{
	if (!look->ready) {
		look->ready = true;
		check_permissions(look);
		ask_config(look);
		if (look->waits > 0)
			return;
	}
	if (!ask_setting(look) && !try_channels(look)) {
		look->over = true;
		kw_redis_close(look->redis);
	}
}

static void on_ready(void *arg)
{
	struct kw_server_look *look = arg;

	look->asked_us = kw_clock_us();
	look->asked_wall_us = kw_wall_us();
	look->waits = 2;
	kw_redis_words(look->redis, on_time, look, "TIME", NULL);
	if (look->server.use == KW_DOCTOR_SENTINEL)
		kw_redis_words(
			look->redis, on_sentinel, look, "SENTINEL", "MASTER", look->master, NULL);
	else
		kw_redis_words(look->redis, on_info, look, "INFO", NULL);
}

static void look_at_port(struct kw_server_look *look)
{
	struct kw_redis_address address;

	if (kw_redis_address_parse(look->address, &address, NULL) ||
		address.scheme == KW_REDIS_UNIX)
		kw_doctor_over(look->doctor);
	else
		kw_port_visit_begin(&look->port, look->doctor, address.host, address.port);
}

static void on_closed(void *arg, const struct kw_error *why)
{
	struct kw_server_look *look = arg;

	if (!look->over)
		look->error = *why;
	kw_redis_free(look->redis);
	look->redis = NULL;
	if (look->over || look->error.code == KW_E_REFUSED)
		kw_doctor_over(look->doctor);
	else
		look_at_port(look);
	look->over = true;
}

static int load_login(struct kw_server_look *look)
{
	const struct kw_config *config = look->doctor->config;
	char key[64];

	snprintf(key, sizeof key, "%s.username", look->server.group);
	snprintf(look->options.username, sizeof look->options.username, "%s",
		kw_config_text(config, key));
	snprintf(key, sizeof key, "%s.password_file", look->server.group);
	if (kw_secret_load(kw_config_text(config, key), &look->password, &look->error))
		return kw_error_wrap(&look->error, "%s", key);
	look->options.password =
		kw_slice(kw_buffer_bytes(&look->password), kw_buffer_length(&look->password));
	return KW_OK;
}

static void fill_facts(struct kw_server_look *look)
{
	struct kw_redis_address address;

	look->facts = (struct kw_doctor_server_facts){
		.what = look->what,
		.address = look->address,
		.master = look->master,
		.user = look->options.username[0] ? look->options.username : "default",
		.use = look->server.use,
		.flags_matter = look->server.flags != NULL,
		.sets_flags = look->server.set_flags != NULL,
		.host = look->doctor->host,
	};
	look->facts.near = kw_redis_address_parse(look->address, &address, NULL) == KW_OK &&
			   kw_redis_address_near(&address);
	look->wanted = (struct kw_wanted_check){
		.wanted = look->server.wanted,
		.count = look->server.wanted_count,
		.user = look->options.username,
		.thorough = true,
		.send = send_question,
		.done = on_permissions,
		.arg = look,
	};
}

void kw_server_look_begin(struct kw_server_look *look)
{
	const struct kw_redis_handlers handlers = {
		.ready = on_ready, .closed = on_closed, .arg = look};

	snprintf(look->options.address, sizeof look->options.address, "%s", look->address);
	snprintf(look->options.client_name, sizeof look->options.client_name, "keywake-doctor");
	look->options.keys = look->server.group;
	look->options.tls = &look->tls;
	look->options.connect_timeout_ms = look->options.reply_timeout_ms = KW_DOCTOR_PROBE_MS;
	if (!load_login(look) && !kw_redis_open(&look->doctor->loop, &look->options, &handlers,
					 &look->redis, &look->error)) {
		fill_facts(look);
		return;
	}
	/* Nobody can log in, and yet: is that a server? */
	look->redis = NULL;
	look->over = true;
	look_at_port(look);
}

void kw_server_look_close(struct kw_server_look *look)
{
	kw_secret_close_buffer(&look->password);
	kw_tls_current_put(&look->tls, NULL);
}
