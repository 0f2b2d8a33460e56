#include "gets_internal.h"

#define NEAR_BATCH 32 /* questions whose near values are loaded at once */

static void tell(struct kw_gets *gets, struct kw_question *question, const struct kw_got *got)
{
	gets->stats.told[got->outcome]++;
	question->fn(question->arg, got);
}

static enum kw_get_outcome outcome_of(enum kw_gateway_state state)
{
	switch (state) {
	case KW_GATEWAY_LOADING:
		return KW_GOT_LOADING;
	case KW_GATEWAY_STALE:
		return KW_GOT_STALE;
	default:
		return KW_GOT_LOST;
	}
}

void kw_gets_tell_verdict(
	struct kw_gets *gets, struct kw_question *question, const struct kw_sight_verdict *verdict)
{
	char words[KW_SIGHT_WORDS];
	struct kw_got got = {.outcome = outcome_of(verdict->state), .why = words};

	assert(verdict->state != KW_GATEWAY_SERVING);
	kw_gets_say(gets, verdict, words);
	tell(gets, question, &got);
}

void kw_gets_tell_late(struct kw_gets *gets, struct kw_question *question)
{
	const struct kw_got got = {.outcome = KW_GOT_TRY_AGAIN,
		.why = "the table changed too fast to be read, or does not verify"};
	struct kw_sight_verdict verdict = kw_gets_judge(gets, kw_clock_us(), 0);

	if (verdict.state == KW_GATEWAY_SERVING)
		tell(gets, question, &got);
	else
		kw_gets_tell_verdict(gets, question, &verdict);
}

/* value NULL: there is no such key. */
static void tell_value(struct kw_gets *gets, struct kw_question *question,
	const struct kw_cache_value *value, uint64_t age_us)
{
	struct kw_got got = {.outcome = KW_GOT_MISSING};
	uint64_t now_us = kw_gets_turn_us(gets);

	if (value) {
		got.outcome = KW_GOT_VALUE;
		got.payload = value->payload;
		got.kind = value->kind;
		got.expires_ms = value->expires_ms;
		got.version = value->version;
		/* Fields of a hash can expire, too. */
		if (got.expires_ms != 0 || got.kind == KW_VALUE_HASH)
			now_us = kw_clock_us();
	}
	got.now_ms = kw_proxy_clock_now_us(&gets->clock, now_us) / 1000;
	if (got.expires_ms != 0 && got.expires_ms <= got.now_ms) {
		gets->stats.expired++;
		got = (struct kw_got){.outcome = KW_GOT_MISSING, .now_ms = got.now_ms};
	}
	kw_lag_add(&gets->staleness, age_us);
	tell(gets, question, &got);
}

/* Keep it near, or forget what is kept there. NULL: there is no such key, or it is not read. */
static void note_near(struct kw_gets *gets, const struct kw_question *question,
	const struct kw_cache_value *value)
{
	struct kw_cache *cache = gets->near.cache;

	if (cache && value)
		kw_cache_put(cache, question->ticket, question->database, question->key, value);
	else if (cache)
		kw_cache_forget(cache, question->database, question->key);
}

static void tell_too_large(struct kw_gets *gets, struct kw_question *question)
{
	const struct kw_got got = {.outcome = KW_GOT_TOO_LARGE, .why = gets->too_large};

	tell(gets, question, &got);
}

/* value NULL: there is no such key, or it is too large. */
static void tell_one(struct kw_gets *gets, struct kw_question *question,
	const struct kw_lookup_result *result, const struct kw_cache_value *value, uint64_t age_us)
{
	if (result->outcome == KW_LOOKUP_TOO_LARGE)
		tell_too_large(gets, question);
	else
		tell_value(gets, question, value, age_us);
}

void kw_gets_tell_found(struct kw_gets *gets, struct kw_question *question,
	struct kw_question *joined, const struct kw_lookup_result *result, uint64_t age_us)
{
	const struct kw_record_view *record = &result->record;
	const uint64_t looked_us = question->looked_us;
	struct kw_cache_value value, *found = NULL;

	if (result->outcome == KW_LOOKUP_FOUND) {
		value = (struct kw_cache_value){.payload = record->value,
			.kind = kw_payload_kind(record->value),
			.expires_ms = record->expires_ms,
			.version = record->version};
		found = &value;
	}
	note_near(gets, question, found);
	tell_one(gets, question, result, found, age_us); /* its memory may be gone now */
	while ((question = joined)) {
		joined = joined->next;
		if (looked_us >= question->seen_us &&
			kw_gets_is_proved(looked_us, question->asked_us)) {
			gets->stats.shared += found != NULL;
			tell_one(gets, question, result, found, age_us);
		} else {
			kw_questions_push(&gets->waiting, question);
		}
	}
}

/* Load what some questions will look at, so that their memory comes at the same time. */
static struct kw_question *approach_near(struct kw_gets *gets, struct kw_question *first)
{
	const struct kw_cache *cache = gets->near.cache;
	struct kw_question *end = first;

	for (int i = 0; end && i < NEAR_BATCH; i++, end = end->next)
		end->ticket = kw_cache_aim(cache, end->database, end->key);
	for (; first != end; first = first->next)
		kw_cache_approach(cache, first->ticket);
	return end;
}

void kw_gets_tell_near(struct kw_gets *gets)
{
	struct kw_question *question = gets->waiting.first, *end = question, *next;
	uint32_t left = gets->waiting.count;
	struct kw_sight_verdict verdict;
	struct kw_cache_value value;

	if (!question || !gets->near.cache || !kw_near_counts(&gets->near, kw_gets_turn_us(gets)))
		return;
	verdict = kw_gets_judge(gets, kw_gets_turn_us(gets), 0);
	if (verdict.state != KW_GATEWAY_SERVING)
		return;
	/* What fn asks comes after those that waited at first. */
	for (; left > 0; left--, question = next) {
		if (question == end)
			end = approach_near(gets, question);
		next = question->next;
		if (!kw_cache_find(gets->near.cache, question->database, question->key, &value))
			continue;
		kw_questions_take_out(&gets->waiting, question);
		tell_value(gets, question, &value, verdict.age_us);
	}
}
