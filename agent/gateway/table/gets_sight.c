#include "gets_internal.h"

static enum kw_sight_link link_of(const struct kw_follow *follow)
{
	if (kw_follow_is_hopeless(follow, NULL))
		return KW_SIGHT_HOPELESS;
	return kw_follow_up(follow) ? KW_SIGHT_UP : KW_SIGHT_AWAY;
}

struct kw_sight_verdict kw_gets_judge(
	const struct kw_gets *gets, uint64_t now_us, uint64_t fresh_us)
{
	const struct kw_superblock *superblock = &gets->follow.superblock;
	const struct kw_sight_facts facts = {
		.link = link_of(&gets->follow),
		.seen = superblock->epoch != 0,
		.complete = superblock->complete,
		.source = (enum kw_source_state)superblock->source_state,
		.term = gets->standing,
		.fresh_us = fresh_us ? fresh_us : superblock->fresh_us,
		.heartbeat_us = superblock->heartbeat_us,
		.now_us = kw_proxy_clock_now_us(&gets->clock, now_us),
		.max_staleness_us = (uint64_t)gets->options.max_staleness_ms * 1000,
	};

	return kw_sight_judge(&facts);
}

void kw_gets_say(const struct kw_gets *gets, const struct kw_sight_verdict *verdict,
	char words[KW_SIGHT_WORDS])
{
	kw_sight_say(verdict, (enum kw_source_state)gets->follow.superblock.source_state,
		gets->closing ? "the gateway is shutting down" : gets->follow.why, words);
}

void kw_gets_evaluate(struct kw_gets *gets, uint64_t now_us)
{
	struct kw_sight_verdict verdict = kw_gets_judge(gets, now_us, 0);
	char words[KW_SIGHT_WORDS];

	if (gets->closing ||
		(verdict.state == gets->told.state && verdict.reason == gets->told.reason))
		return;
	gets->told = verdict;
	kw_gets_say(gets, &verdict, words);
	gets->handlers.state(gets->handlers.arg, verdict.state, words);
}

enum kw_sight_fence kw_gets_fence(const struct kw_gets *gets)
{
	const struct kw_follow *follow = &gets->follow;
	const uint64_t now_us = kw_clock_us(), heard_us = follow->heartbeat_begun_us;
	const struct kw_fence_facts facts = {
		.link = link_of(follow),
		.seen = follow->superblock.epoch != 0 || gets->had_mandate,
		.source = (enum kw_source_state)follow->superblock.source_state,
		.term = gets->standing,
		.silent_us = now_us > heard_us ? now_us - heard_us : 0,
	};

	return kw_sight_fence(&facts);
}

bool kw_gets_look_is_late(struct kw_gets *gets)
{
	const struct kw_follow *follow = &gets->follow;

	return kw_follow_up(follow) && follow->probed_us > 0 &&
	       kw_gets_turn_us(gets) > follow->probed_us + KW_GETS_LATE_US;
}

/*
 * A table that is too old by the newest look might be younger by the next one, if that look is
 * older than the question's wait in our own queue. But a proxy that hangs never answers the next
 * one.
 */
bool kw_gets_may_refuse(struct kw_gets *gets)
{
	const uint64_t looked_us = gets->follow.superblock_begun_us;

	return !kw_follow_up(&gets->follow) ||
	       kw_gets_is_proved(looked_us, kw_gets_turn_us(gets)) || kw_gets_look_is_late(gets);
}

void kw_gets_sight(const struct kw_gets *gets, struct kw_gets_sight *sight)
{
	const struct kw_superblock *superblock = &gets->follow.superblock;
	const uint64_t now_us = kw_clock_us();
	struct kw_sight_verdict verdict = kw_gets_judge(gets, now_us, 0);

	*sight = (struct kw_gets_sight){
		.state = verdict.state,
		.row = kw_sight_row(verdict.reason),
		.epoch = superblock->epoch,
		.version = superblock->version,
		.fresh_us = superblock->fresh_us,
		.now_us = kw_proxy_clock_now_us(&gets->clock, now_us),
		.clock_error_us = kw_proxy_clock_error_us(&gets->clock),
		.age_us = verdict.age_us,
	};
	kw_gets_say(gets, &verdict, sight->why);
}
