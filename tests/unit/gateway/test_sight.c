/* May the table be answered from, and the estimate of the proxy's clock. */
#include "gateway/table/clock.h"
#include "gateway/table/sight.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define NOW 1000000000
#define MOST 1000000
#define UNKNOWN KW_SIGHT_AGE_UNKNOWN
/* Connected to a proxy whose table is whole and 20 ms old. */
#define GOOD                                                                                       \
	.link = KW_SIGHT_UP, .seen = true, .complete = true, .source = KW_SOURCE_LIVE,             \
	.fresh_us = NOW - 20000, .heartbeat_us = NOW + 10, .now_us = NOW, .max_staleness_us = MOST

#pragma GCC diagnostic ignored "-Woverride-init"

static const struct {
	struct kw_sight_facts facts;
	enum kw_gateway_state state;
	enum kw_sight_reason reason;
	uint64_t age_us;
} cases[] = {
	{{GOOD}, KW_GATEWAY_SERVING, KW_SIGHT_NONE, 20000},

	/* The connection comes first. How old the table is by now is known all the same. */
	{{GOOD, .link = KW_SIGHT_HOPELESS}, KW_GATEWAY_FAILED, KW_SIGHT_REFUSED, 20000},
	{{GOOD, .link = KW_SIGHT_AWAY}, KW_GATEWAY_CONNECTING, KW_SIGHT_UNCONNECTED, 20000},
	{{GOOD, .seen = false}, KW_GATEWAY_CONNECTING, KW_SIGHT_UNSEEN, UNKNOWN},

	/* Whose clock is not known yet: of another proxy, or since a moment. */
	{{GOOD, .now_us = 0}, KW_GATEWAY_STALE, KW_SIGHT_UNFRESH, UNKNOWN},
	{{GOOD, .link = KW_SIGHT_AWAY, .now_us = 0}, KW_GATEWAY_CONNECTING, KW_SIGHT_UNCONNECTED,
		UNKNOWN},

	/* A table whose server is not confirmed as the primary is stale at once, however young. */
	{{GOOD, .source = KW_SOURCE_UNCONFIRMED}, KW_GATEWAY_STALE, KW_SIGHT_UNCONFIRMED, 20000},
	{{GOOD, .term = KW_TERM_UNCONFIRMED}, KW_GATEWAY_STALE, KW_SIGHT_UNCONFIRMED, 20000},
	{{GOOD, .term = KW_TERM_UNCONFIRMED, .complete = false}, KW_GATEWAY_STALE,
		KW_SIGHT_UNCONFIRMED, 20000},
	{{GOOD, .term = KW_TERM_DEPOSED}, KW_GATEWAY_STALE, KW_SIGHT_DEPOSED, 20000},
	{{GOOD, .term = KW_TERM_UNFENCED}, KW_GATEWAY_STALE, KW_SIGHT_UNFENCED, 20000},
	{{GOOD, .term = KW_TERM_CURRENT}, KW_GATEWAY_SERVING, KW_SIGHT_NONE, 20000},
	{{GOOD, .term = KW_TERM_DEPOSED, .seen = false}, KW_GATEWAY_CONNECTING, KW_SIGHT_UNSEEN,
		UNKNOWN},

	/* A key that an incomplete table lacks can be there: never nil. */
	{{GOOD, .complete = false, .source = KW_SOURCE_SCANNING}, KW_GATEWAY_LOADING,
		KW_SIGHT_INCOMPLETE, 20000},
	{{GOOD, .complete = false, .fresh_us = 0}, KW_GATEWAY_LOADING, KW_SIGHT_INCOMPLETE,
		UNKNOWN},

	/* Age alone decides, whatever the proxy is busy with. */
	{{GOOD, .fresh_us = 0}, KW_GATEWAY_STALE, KW_SIGHT_UNFRESH, UNKNOWN},
	{{GOOD, .fresh_us = NOW - MOST}, KW_GATEWAY_SERVING, KW_SIGHT_NONE, MOST},
	{{GOOD, .fresh_us = NOW - MOST - 1}, KW_GATEWAY_STALE, KW_SIGHT_OLD, MOST + 1},
	{{GOOD, .source = KW_SOURCE_DOWN}, KW_GATEWAY_SERVING, KW_SIGHT_NONE, 20000},
	{{GOOD, .source = KW_SOURCE_RECONCILING}, KW_GATEWAY_SERVING, KW_SIGHT_NONE, 20000},
	{{GOOD, .source = KW_SOURCE_STALLED}, KW_GATEWAY_SERVING, KW_SIGHT_NONE, 20000},
	{{GOOD, .source = KW_SOURCE_STALLED, .fresh_us = 1}, KW_GATEWAY_STALE, KW_SIGHT_OLD,
		NOW - 1},
	{{GOOD, .source = KW_SOURCE_DOWN, .fresh_us = 1}, KW_GATEWAY_STALE, KW_SIGHT_OLD, NOW - 1},

	/* The estimate of the proxy's clock never goes ahead of it, so it can be behind. */
	{{GOOD, .fresh_us = NOW + 5}, KW_GATEWAY_SERVING, KW_SIGHT_NONE, 0},

	/* Their clock was set back since: nobody knows how long ago that moment was. */
	{{GOOD, .fresh_us = NOW + 11}, KW_GATEWAY_STALE, KW_SIGHT_UNFRESH, UNKNOWN},
	{{GOOD, .fresh_us = NOW + 3600000000}, KW_GATEWAY_STALE, KW_SIGHT_UNFRESH, UNKNOWN},
};

static void each_sight_has_its_verdict(void **state)
{
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct kw_sight_verdict verdict = kw_sight_judge(&cases[i].facts);

		if (verdict.state != cases[i].state || verdict.reason != cases[i].reason ||
			verdict.age_us != cases[i].age_us)
			fail_msg("case %zu: %s, reason %d, age %ju", i,
				kw_gateway_state_name(verdict.state), (int)verdict.reason,
				(uintmax_t)verdict.age_us);
	}
}

static void every_refusal_has_a_sentence(void **state)
{
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct kw_sight_verdict verdict = kw_sight_judge(&cases[i].facts);
		char words[KW_SIGHT_WORDS] = "?";

		kw_sight_say(&verdict, cases[i].facts.source, "why", words);
		assert_int_equal(words[0] == '\0', verdict.state == KW_GATEWAY_SERVING);
	}
}

/* ---- the fence ---- */

#define HEARD                                                                                      \
	.link = KW_SIGHT_UP, .seen = true, .source = KW_SOURCE_LIVE, .term = KW_TERM_CURRENT,      \
	.silent_us = 100000

static void requests_go_only_to_a_primary_that_is_confirmed(void **state)
{
	const struct {
		struct kw_fence_facts facts;
		enum kw_sight_fence fence;
	} fences[] = {
		{{HEARD}, KW_FENCE_NAMED},
		{{HEARD, .source = KW_SOURCE_DOWN}, KW_FENCE_NAMED},
		{{HEARD, .silent_us = KW_FENCE_SILENCE_US + 1}, KW_FENCE_CLOSED},
		{{HEARD, .link = KW_SIGHT_AWAY}, KW_FENCE_CLOSED},
		{{HEARD, .term = KW_TERM_DEPOSED}, KW_FENCE_CLOSED},
		{{HEARD, .term = KW_TERM_UNCONFIRMED}, KW_FENCE_CLOSED},
		{{HEARD, .source = KW_SOURCE_UNCONFIRMED}, KW_FENCE_CLOSED},
		/* Without a mandate nothing changes, whatever is heard. */
		{{HEARD, .term = KW_TERM_UNASKED}, KW_FENCE_OPEN},
		{{HEARD, .term = KW_TERM_UNASKED, .link = KW_SIGHT_AWAY}, KW_FENCE_OPEN},
		{{HEARD, .term = KW_TERM_UNASKED, .silent_us = UINT64_MAX}, KW_FENCE_OPEN},
		{{HEARD, .term = KW_TERM_UNASKED, .source = KW_SOURCE_UNCONFIRMED},
			KW_FENCE_CLOSED},
		/* Nothing is known before the first look, and a mandate that was asked counts on.
		 */
		{{HEARD, .term = KW_TERM_UNASKED, .seen = false}, KW_FENCE_CLOSED},
		{{HEARD, .term = KW_TERM_UNFENCED}, KW_FENCE_CLOSED},
	};

	for (size_t i = 0; i < sizeof fences / sizeof *fences; i++)
		if (kw_sight_fence(&fences[i].facts) != fences[i].fence)
			fail_msg("fence %zu", i);
}

/* ---- the clock ---- */

/* A world in which their clock is ahead by OFFSET, and a heartbeat is written each BEAT. */
#define OFFSET 5000000
#define BEAT 700

static void look(struct kw_proxy_clock *clock, uint64_t at, uint64_t offset, uint64_t took)
{
	uint64_t written = (at + took / 2) / BEAT * BEAT;

	kw_proxy_clock_learn(clock, written + offset, at, at + took);
}

static void the_estimate_never_goes_ahead_and_its_error_is_a_bound(void **state)
{
	struct kw_proxy_clock clock = {0};
	uint64_t least = UINT64_MAX;

	assert_int_equal(kw_proxy_clock_now_us(&clock, 1000), 0);
	assert_true(kw_proxy_clock_error_us(&clock) == UINT64_MAX);
	for (uint64_t at = 1000; at < 30000000; at += 1000 + at % 37) {
		uint64_t now = at + 40, error, estimate;

		look(&clock, at, OFFSET, 40);
		estimate = kw_proxy_clock_now_us(&clock, now);
		error = kw_proxy_clock_error_us(&clock);
		assert_true(estimate <= now + OFFSET);
		if (error < least)
			least = error;
		if (error != UINT64_MAX)
			assert_true(now + OFFSET - estimate <= error);
	}
	assert_true(least < 2000);
}

static void a_heartbeat_that_stands_still_says_nothing_new(void **state)
{
	struct kw_proxy_clock clock = {0};

	kw_proxy_clock_learn(&clock, 9000, 1000, 1010);
	for (uint64_t at = 2000; at < 100000; at += 1000)
		kw_proxy_clock_learn(&clock, 9000, at, at + 10);
	assert_int_equal(kw_proxy_clock_now_us(&clock, 100000), 100000 + 9000 - 1010);
	assert_true(kw_proxy_clock_error_us(&clock) == UINT64_MAX);
}

/* A proxy that is stopped: its table must grow older, whatever age is allowed. */
static void the_clock_goes_on_while_the_heartbeat_stands_still(void **state)
{
	struct kw_proxy_clock clock = {0};
	uint64_t at, error;

	for (at = 1000; at < 3000000; at += 1000)
		look(&clock, at, OFFSET, 40);
	error = kw_proxy_clock_error_us(&clock);
	assert_true(error < 2000);
	for (; at < 200000000; at += 1000) {
		kw_proxy_clock_learn(&clock, clock.heartbeat_us, at, at + 40);
		assert_true(kw_proxy_clock_now_us(&clock, at) + error >= at + OFFSET);
		assert_true(kw_proxy_clock_now_us(&clock, at) <= at + OFFSET);
	}
	assert_true(kw_proxy_clock_error_us(&clock) <= error);
}

static void a_clock_that_was_set_is_learned_anew(void **state)
{
	static const int64_t steps[] = {-3600000000, 3600000000, -20000, 20000};

	for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
		const uint64_t before = UINT64_C(7200000000);
		const uint64_t after = before + (uint64_t)steps[i];
		struct kw_proxy_clock clock = {0};
		uint64_t at, estimate;

		for (at = 1000; at < 2000000; at += 1000)
			look(&clock, at, before, 40);
		for (; at < 2010000; at += 1000)
			look(&clock, at, after, 40);
		estimate = kw_proxy_clock_now_us(&clock, at);
		assert_true(estimate <= at + after);
		assert_true(at + after - estimate < 2000);
	}
}

/* Two clocks drift apart by 100 parts in a million: that is no step. */
static void drift_is_followed(void **state)
{
	struct kw_proxy_clock clock = {0};
	uint64_t at, offset = OFFSET;

	for (at = 1000; at < 120000000; at += 1000) {
		offset = OFFSET + at / 10000;
		look(&clock, at, offset, 40);
	}
	assert_true(kw_proxy_clock_now_us(&clock, at) <= at + offset + 1);
	assert_true(at + offset - kw_proxy_clock_now_us(&clock, at) < 2000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_sight_has_its_verdict),
		cmocka_unit_test(every_refusal_has_a_sentence),
		cmocka_unit_test(requests_go_only_to_a_primary_that_is_confirmed),
		cmocka_unit_test(the_estimate_never_goes_ahead_and_its_error_is_a_bound),
		cmocka_unit_test(a_heartbeat_that_stands_still_says_nothing_new),
		cmocka_unit_test(the_clock_goes_on_while_the_heartbeat_stands_still),
		cmocka_unit_test(a_clock_that_was_set_is_learned_anew),
		cmocka_unit_test(drift_is_followed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
