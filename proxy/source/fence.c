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

/* The majority names another primary than the one that is reached: go there. */
static void follow_primary(struct kw_source *source)
{
	const char *reached =
		kw_source_link_is_up(&source->link) ? kw_feed_server(source->feed)->run_id : "";
	char *followed = source->options.redis.address;
	char address[sizeof source->options.redis.address];
	struct kw_error why;

	if (!source->options.follow_scheme ||
		!kw_mandate_primary(source->options.mandate, reached, source->options.follow_scheme,
			address, sizeof address) ||
		strcmp(address, followed) == 0)
		return;
	kw_log_info(
		"source", "the primary is %s%s%s", address, *followed ? ", before " : "", followed);
	kw_error_set(&why, KW_E_GONE, "%.100s is not the primary any more: it is %.100s", followed,
		address);
	memcpy(followed, address, sizeof address);
	kw_source_link_moved(&source->link, &why);
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
