#include "scouts.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/log.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPORT_US 1000000

struct kw_scout {
	struct kw_scouts *scouts;
	struct kw_follow follow;
	uint64_t reported_us;
};

#define TO(state) KW_SM_TO(KW_SCOUTS_##state)
static const struct kw_sm_state states[] = {
	[KW_SCOUTS_SOLE] = {"sole", TO(HOLDING), KW_SM_INITIAL},
	[KW_SCOUTS_HOLDING] = {"holding", TO(SWITCHING) | TO(SOLE), KW_SM_INITIAL},
	[KW_SCOUTS_SWITCHING] = {"switching", TO(HOLDING) | TO(SOLE)},
};

static bool holds(const void *owner, int state)
{
	const struct kw_scouts *scouts = owner;

	switch ((enum kw_scouts_state)state) {
	case KW_SCOUTS_SOLE:
		return scouts->proxies.count == 1 && scouts->current == 0;
	case KW_SCOUTS_HOLDING:
		return scouts->proxies.count > 1 && !scouts->scout[scouts->current];
	case KW_SCOUTS_SWITCHING:
		return scouts->better != scouts->current && scouts->until_us > 0;
	}
	return false;
}

static const struct kw_sm_conf machine = {
	.where = "scouts",
	.states = states,
	.count = sizeof states / sizeof *states,
	.invariant = holds,
};

static bool is(const struct kw_scouts *scouts, enum kw_scouts_state state)
{
	return scouts->sm.state == (int)state;
}

/* ---- the list ---- */

int kw_proxies_add(struct kw_proxies *proxies, const char *address, struct kw_error *error)
{
	if (proxies->count == KW_PROXIES_MAX)
		return kw_error_set(
			error, KW_E_CONFIG, "proxy: more than %d addresses", KW_PROXIES_MAX);
	if (strlen(address) >= KW_PROXY_ADDRESS)
		return kw_error_set(error, KW_E_CONFIG, "proxy: longer than %d characters",
			KW_PROXY_ADDRESS - 1);
	snprintf(proxies->address[proxies->count++], KW_PROXY_ADDRESS, "%s", address);
	return KW_OK;
}

int kw_proxies_check(const struct kw_proxies *proxies, struct kw_error *error)
{
	struct kw_address address;

	if (proxies->count == 0)
		return kw_error_set(error, KW_E_CONFIG, "proxy: give the address of one at least");
	for (size_t i = 0; i < proxies->count; i++) {
		if (kw_address_parse(proxies->address[i], &address, error))
			return error ? error->code : KW_E_CONFIG;
		for (size_t j = 0; j < i; j++)
			if (strcmp(proxies->address[i], proxies->address[j]) == 0)
				return kw_error_set(error, KW_E_CONFIG, "proxy: %s is listed twice",
					proxies->address[i]);
	}
	return KW_OK;
}

/* ---- one scout ---- */

static void ignore_snapshot(void *arg, uint64_t epoch, uint64_t version)
{
	assert(!"a scout reads no records");
}

static void ignore_records(void *arg, const struct kw_record_view *records, size_t count)
{
	assert(!"a scout reads no records");
}

static uint64_t no_room(void *arg)
{
	return 0;
}

static void ignore_superblock(void *arg, const struct kw_superblock *superblock)
{
	/* The scout's follow keeps it. */
}

static void ignore_pass(void *arg, const struct kw_reader_pass *pass)
{
}

static void ignore_look(void *arg, bool found)
{
}

static void ignore_lapse(void *arg, const char *why)
{
}

static void ignore_failure(void *arg, const struct kw_error *error)
{
}

static void ignore_due(void *arg)
{
}

static void on_link(void *arg, bool up)
{
	((struct kw_scout *)arg)->reported_us = 0;
}

static void tell_if_closed(struct kw_scouts *scouts)
{
	if (scouts->closing && scouts->open == 0)
		scouts->handlers.closed(scouts->handlers.arg);
}

static void on_closed(void *arg)
{
	struct kw_scout *scout = arg;
	struct kw_scouts *scouts = scout->scouts;

	free(scout);
	assert(scouts->open > 0);
	scouts->open--;
	tell_if_closed(scouts);
}

/* NULL: the loop or the system refuses what it needs; the next tick tries again. */
static struct kw_scout *new_scout(struct kw_scouts *scouts, const char *address)
{
	struct kw_scout *scout = kw_zalloc(sizeof *scout);
	const struct kw_follow_handlers handlers = {
		.link = on_link,
		.due = ignore_due,
		.closed = on_closed,
		.arg = scout,
	};
	const struct kw_reader_sink sink = {
		.snapshot_begin = ignore_snapshot,
		.records = ignore_records,
		.room = no_room,
		.superblock = ignore_superblock,
		.pass_done = ignore_pass,
		.look_done = ignore_look,
		.lapsed = ignore_lapse,
		.failed = ignore_failure,
		.arg = scout,
	};
	struct kw_error error;

	scout->scouts = scouts;
	if (kw_follow_init(&scout->follow, address, &scouts->options, &handlers, &sink, &error)) {
		if (!scouts->refused)
			kw_log_warn("follow", "%s is not looked at beside the present proxy: %s",
				address, error.text);
		scouts->refused = true;
		free(scout);
		return NULL;
	}
	scouts->refused = false;
	scouts->open++;
	return scout;
}

static void dismiss(struct kw_scouts *scouts, size_t index)
{
	struct kw_scout *scout = scouts->scout[index];

	scouts->scout[index] = NULL;
	if (scout)
		kw_follow_close(&scout->follow);
}

/* Its proxy need not keep tombstones for it. */
static void report(struct kw_scout *scout, uint64_t now_us)
{
	const struct kw_remote_progress progress = {
		.passed = UINT64_MAX, .lag_us = UINT64_MAX, .state = "standby"};

	if (!kw_follow_up(&scout->follow) || now_us - scout->reported_us < REPORT_US)
		return;
	scout->reported_us = now_us;
	kw_follow_report(&scout->follow, &progress);
}

static void scout_all(struct kw_scouts *scouts, uint64_t now_us)
{
	for (size_t i = 0; i < scouts->proxies.count; i++) {
		if (i == scouts->current)
			continue;
		if (!scouts->scout[i])
			scouts->scout[i] = new_scout(scouts, scouts->proxies.address[i]);
		if (!scouts->scout[i])
			continue;
		kw_follow_tick(&scouts->scout[i]->follow, now_us);
		report(scouts->scout[i], now_us);
	}
}

/* ---- the choice ---- */

const struct kw_follow *kw_scouts_known(const struct kw_scouts *scouts, size_t index)
{
	assert(index < scouts->proxies.count);
	if (index == scouts->current)
		return scouts->follow;
	return scouts->scout[index] ? &scouts->scout[index]->follow : NULL;
}

static bool serves(enum kw_source_state source)
{
	switch (source) {
	case KW_SOURCE_LIVE:
	case KW_SOURCE_SCANNING:
	case KW_SOURCE_RECONCILING:
	case KW_SOURCE_FULL:
	case KW_SOURCE_HELD:
	case KW_SOURCE_STALLED: /* until it is DOWN: a hang often ends, and going costs a comparison
				 */
		return true;
	case KW_SOURCE_CONNECTING:
	case KW_SOURCE_DOWN:
	case KW_SOURCE_UNCONFIRMED:
		break;
	}
	return false;
}

static void describe(
	const struct kw_scouts *scouts, size_t index, uint64_t now_us, struct kw_choice *choice)
{
	const struct kw_follow *known = kw_scouts_known(scouts, index);

	*choice = (struct kw_choice){0};
	if (!known || !kw_follow_up(known) || known->superblock.epoch == 0 ||
		now_us > known->heartbeat_us + KW_FOLLOW_HEARTBEAT_US)
		return;
	choice->seen = true;
	choice->complete = known->superblock.complete;
	choice->serves = serves((enum kw_source_state)known->superblock.source_state);
	scouts->handlers.judge(scouts->handlers.arg, &known->history, choice);
}

static size_t choose(const struct kw_scouts *scouts, uint64_t now_us)
{
	struct kw_choice choices[KW_PROXIES_MAX];

	for (size_t i = 0; i < scouts->proxies.count; i++)
		describe(scouts, i, now_us, &choices[i]);
	return kw_choose(choices, scouts->proxies.count, scouts->current);
}

static void go_there(struct kw_scouts *scouts, uint64_t now_us)
{
	const char *address = scouts->proxies.address[scouts->better];
	struct kw_error error;

	kw_log_info("follow", "%s is followed from now on, and no longer %s", address,
		scouts->follow->proxy);
	dismiss(scouts, scouts->better);
	scouts->current = scouts->better;
	scouts->since_us = now_us;
	scouts->switches++;
	kw_sm_move(&scouts->sm, KW_SCOUTS_HOLDING, address);
	/* It was an address when the list was taken. */
	if (kw_follow_retarget(scouts->follow, address, &error))
		kw_log_error("follow", "%s", error.text);
}

static void look_around(struct kw_scouts *scouts, uint64_t now_us)
{
	size_t best = choose(scouts, now_us);

	if (best != scouts->better) {
		scouts->better = best;
		scouts->since_us = now_us;
		if (is(scouts, KW_SCOUTS_SWITCHING) && best != scouts->current)
			kw_sm_move(&scouts->sm, KW_SCOUTS_HOLDING, "another one is the best now");
	}
	if (best == scouts->current) {
		if (is(scouts, KW_SCOUTS_SWITCHING))
			kw_sm_move(&scouts->sm, KW_SCOUTS_HOLDING, "the present one is the best");
		return;
	}
	if (is(scouts, KW_SCOUTS_HOLDING) && now_us - scouts->since_us >= KW_SCOUTS_BETTER_US) {
		scouts->until_us = now_us + KW_SCOUTS_LEVEL_US;
		kw_sm_move(&scouts->sm, KW_SCOUTS_SWITCHING, scouts->proxies.address[best]);
	}
	if (is(scouts, KW_SCOUTS_SWITCHING) &&
		(now_us >= scouts->until_us || scouts->handlers.level(scouts->handlers.arg)))
		go_there(scouts, now_us);
}

void kw_scouts_tick(struct kw_scouts *scouts, uint64_t now_us)
{
	if (is(scouts, KW_SCOUTS_SOLE) || scouts->closing)
		return;
	scout_all(scouts, now_us);
	look_around(scouts, now_us);
}

/* ---- what the owner asks for ---- */

int kw_scouts_retarget(
	struct kw_scouts *scouts, const struct kw_proxies *proxies, struct kw_error *error)
{
	int code = kw_proxies_check(proxies, error);

	if (!code)
		code = kw_follow_retarget(scouts->follow, proxies->address[0], error);
	if (code)
		return code;
	for (size_t i = 0; i < scouts->proxies.count; i++)
		dismiss(scouts, i);
	scouts->proxies = *proxies;
	scouts->current = scouts->better = 0;
	scouts->since_us = kw_clock_us();
	if (!is(scouts, proxies->count > 1 ? KW_SCOUTS_HOLDING : KW_SCOUTS_SOLE))
		kw_sm_move(&scouts->sm, proxies->count > 1 ? KW_SCOUTS_HOLDING : KW_SCOUTS_SOLE,
			"another list");
	return KW_OK;
}

void kw_scouts_set_key(struct kw_scouts *scouts, const char *id, struct kw_slice secret)
{
	struct kw_remote_options *remote = &scouts->options.remote;

	snprintf(remote->key_id, sizeof remote->key_id, "%s", id);
	remote->secret = secret;
	for (size_t i = 0; i < scouts->proxies.count; i++)
		if (scouts->scout[i])
			kw_follow_set_key(&scouts->scout[i]->follow, id, secret);
}

void kw_scouts_init(struct kw_scouts *scouts, struct kw_follow *follow,
	const struct kw_proxies *proxies, const struct kw_follow_options *options,
	const struct kw_scouts_handlers *handlers)
{
	assert(proxies->count > 0);
	*scouts = (struct kw_scouts){
		.follow = follow,
		.options = *options,
		.handlers = *handlers,
		.proxies = *proxies,
		.since_us = kw_clock_us(),
	};
	scouts->options.remote.depth = 1;
	scouts->options.remote.compress = false; /* they read too little to take a place */
	kw_sm_init(&scouts->sm, &machine, scouts,
		proxies->count > 1 ? KW_SCOUTS_HOLDING : KW_SCOUTS_SOLE);
}

void kw_scouts_close(struct kw_scouts *scouts)
{
	assert(!scouts->closing);
	for (size_t i = 0; i < scouts->proxies.count; i++)
		dismiss(scouts, i);
	scouts->closing = true;
	tell_if_closed(scouts);
}
