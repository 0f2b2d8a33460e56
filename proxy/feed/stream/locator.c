#include "feed/stream/locator.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/log.h"
#include "feed/stream/replication.h"
#include "fetch/errand.h"
#include "redis/server.h"

#include <stdio.h>
#include <stdlib.h>

struct kw_locator {
	struct kw_errand *errand;
	char word[KW_REPLICATION_LOCATOR];
	uint64_t next_us; /* the earliest next question; UINT64_MAX: it was refused */
	bool refusal_logged;
	void (*closed)(void *arg);
	void *arg;
};

static void answered(void *arg, const struct kw_reply *reply)
{
	struct kw_locator *locator = arg;

	if (!reply)
		return;
	if (reply->type == KW_REPLY_ERROR &&
		kw_server_error(reply->text) == KW_SERVER_E_PERMISSION) {
		locator->next_us = UINT64_MAX;
		if (!locator->refusal_logged)
			kw_log_info("source",
				"PUBLISH is refused, so the primary forks once after some writes "
				"to tell in which database its stream is: grant +publish "
				"&" KW_REPLICATION_CHANNEL);
		locator->refusal_logged = true;
	}
	kw_errand_end(locator->errand);
}

static void on_open(void *arg)
{
	struct kw_locator *locator = arg;

	kw_redis_words(kw_errand_redis(locator->errand), answered, locator, "PUBLISH",
		KW_REPLICATION_CHANNEL, locator->word, NULL);
}

/* A deadline too: it is asked again when another key of an unknown database changes. */
static void on_closed(void *arg, const struct kw_error *why)
{
	struct kw_locator *locator = arg;

	if (why->code != KW_OK)
		kw_log_debug("source", "PUBLISH was not answered: %s", why->text);
	locator->closed(locator->arg);
}

void kw_locator_ask(struct kw_locator *locator, const char *address, const char *word)
{
	uint64_t now_us = kw_clock_us();
	struct kw_error why;

	if (!kw_errand_is_idle(locator->errand) || now_us < locator->next_us)
		return;
	locator->next_us = now_us + KW_LOCATOR_PAUSE_US;
	snprintf(locator->word, sizeof locator->word, "%s", word);
	if (kw_errand_begin(locator->errand, address, "", &why))
		kw_log_debug("source", "PUBLISH was not asked: %s", why.text);
}

void kw_locator_stop(struct kw_locator *locator)
{
	locator->next_us = 0;
	kw_errand_end(locator->errand);
}

bool kw_locator_is_idle(const struct kw_locator *locator)
{
	return kw_errand_is_idle(locator->errand);
}

struct kw_locator *kw_locator_new(uv_loop_t *loop, const struct kw_redis_options *options,
	void (*closed)(void *arg), void *arg)
{
	struct kw_locator *locator = kw_zalloc(sizeof *locator);
	const struct kw_errand_handlers handlers = {on_open, on_closed, locator};

	locator->errand = kw_errand_new(loop, options, "locator", &handlers);
	locator->closed = closed;
	locator->arg = arg;
	return locator;
}

void kw_locator_free(struct kw_locator *locator)
{
	if (!locator)
		return;
	kw_errand_free(locator->errand);
	free(locator);
}
