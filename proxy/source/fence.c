#include "source/fence.h"

#include "base/clock.h"
#include "base/log.h"
#include "redis/server.h"
#include "source/source_internal.h"

#include <stdio.h>
#include <string.h>

enum kw_mandate_state kw_source_mandate(const struct kw_source *source)
{
	return source->options.mandate ? kw_mandate_state(source->options.mandate)
				       : KW_MANDATE_NONE;
}

static bool is_primary(const struct kw_source *source)
{
	return strcmp(kw_feed_server(source->feed)->role, "master") == 0;
}

enum kw_fence kw_source_fence(const struct kw_source *source)
{
	if (kw_mandate_holds(kw_source_mandate(source)) || !kw_source_link_is_up(&source->link) ||
		!is_primary(source))
		return KW_FENCE_OPEN;
	return KW_FENCE_CLOSED;
}

/* Barriers under way would prove that the table has what it does not get any more. */
static void fence_moved(struct kw_source *source, enum kw_fence now)
{
	if (now == KW_FENCE_CLOSED) {
		kw_fresh_spoil(&source->fresh);
		kw_ticket_spoil(&source->ticket);
	}
	kw_turn_wake(&source->turn);
}

#define ADDRESS sizeof(((struct kw_source_options *)NULL)->redis.address)

/* "tcp://": of the address that is followed, or of what is to be followed. */
static void scheme_of(const struct kw_source *source, char scheme[ADDRESS])
{
	const char *followed = source->options.redis.address, *end = strstr(followed, "://");

	if (source->options.follow_scheme)
		snprintf(scheme, ADDRESS, "%s", source->options.follow_scheme);
	else
		snprintf(scheme, ADDRESS, "%.*s", end ? (int)(end + 3 - followed) : 0, followed);
}

static void move_to(struct kw_source *source, const char address[ADDRESS])
{
	char *followed = source->options.redis.address;
	struct kw_error why;

	kw_log_info(
		"source", "the primary is %s%s%s", address, *followed ? ", before " : "", followed);
	kw_error_set(&why, KW_E_GONE, "%.100s is not the primary any more: it is %.100s", followed,
		address);
	memcpy(followed, address, ADDRESS);
	kw_source_link_moved(&source->link, &why);
}

static void judge_redial(struct kw_source *source, bool same_address)
{
	enum kw_redial_finding finding = KW_REDIAL_UNKNOWN;
	struct kw_error why;

	if (kw_source_mandate(source) == KW_MANDATE_CONFIRMED)
		finding = KW_REDIAL_REACHED;
	else if (same_address && kw_source_link_is_up(&source->link))
		finding = KW_REDIAL_ELSEWHERE;
	if (!kw_redial_judge(&source->redial, finding, kw_clock_us()))
		return;
	kw_error_set(&why, KW_E_GONE,
		"%.100s leads to another run than the primary's: it is dialled anew",
		source->options.redis.address);
	kw_log_warn("source", "%s", why.text);
	kw_source_link_lost(&source->link, &why);
}

/* The majority names another run than the one that is reached: go there. */
static void follow_primary(struct kw_source *source)
{
	const char *reached =
		kw_source_link_is_up(&source->link) ? kw_feed_server(source->feed)->run_id : "";
	char address[ADDRESS], scheme[ADDRESS];
	bool another, same;

	scheme_of(source, scheme);
	another = kw_mandate_primary(
		source->options.mandate, reached, scheme, address, sizeof address);
	same = another && strcmp(address, source->options.redis.address) == 0;
	if (another && !same && source->options.follow_scheme)
		move_to(source, address);
	judge_redial(source, same);
}

static struct kw_mandate_self self_of(const struct kw_source *source)
{
	bool known = source->link.ups > 0;

	return (struct kw_mandate_self){
		.run_id = known ? kw_feed_server(source->feed)->run_id : "",
		.is_primary = known && is_primary(source),
	};
}

enum kw_fence kw_source_fence_now(const struct kw_source *source)
{
	const struct kw_mandate_self self = self_of(source);

	if (!source->options.mandate || kw_source_fence(source) == KW_FENCE_CLOSED ||
		!self.is_primary)
		return kw_source_fence(source);
	return kw_mandate_would_hold(source->options.mandate, &self, kw_clock_us())
		       ? KW_FENCE_OPEN
		       : KW_FENCE_CLOSED;
}

bool kw_source_may_write(const struct kw_source *source)
{
	return kw_source_link_is_up(&source->link) && is_primary(source) &&
	       kw_mandate_holds(kw_source_mandate(source)) &&
	       kw_source_fence_now(source) == KW_FENCE_OPEN &&
	       !kw_source_pauses_hold(&source->pauses, kw_clock_us());
}

bool kw_source_stands_by(const struct kw_source *source)
{
	const struct kw_mandate_self self = self_of(source);

	return source->options.mandate && kw_mandate_stands_by(source->options.mandate, &self);
}

bool kw_source_judge(struct kw_source *source)
{
	enum kw_mandate_state mandate = kw_source_mandate(source);
	enum kw_fence before = kw_source_fence(source);
	const struct kw_mandate_self self = self_of(source);
	struct kw_late_counts counts;
	bool changed;

	if (!source->options.mandate)
		return false;
	changed = kw_mandate_judge(source->options.mandate, &self, kw_clock_us());
	if (kw_mandate_holds(mandate) && !kw_mandate_holds(kw_source_mandate(source))) {
		counts = kw_source_late_counts(source);
		kw_late_begin(&source->late, &counts);
	}
	if (kw_source_fence(source) != before)
		fence_moved(source, kw_source_fence(source));
	follow_primary(source);
	return changed;
}
