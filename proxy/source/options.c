#include "source/options.h"

#include "base/buffer.h"
#include "base/secret.h"
#include "feed/auto.h"
#include "feed/notify/notify.h"
#include "feed/stream/stream.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* A server reads 16 KiB at a time, some 450 commands: two reads' worth keep it from waiting. */
#define DEFAULT_WINDOW 1024
#define DEFAULT_WATCH_MS 1000
#define DEFAULT_FRESH_MS 100
#define DEFAULT_UNREADABLE_PAUSE_MS 60000

static int follow_databases(struct kw_databases *follow, const struct kw_source_options *options,
	struct kw_error *error)
{
	if (!options->databases || options->database_count == 0) {
		kw_databases_add_all(follow);
		return KW_OK;
	}
	for (size_t i = 0; i < options->database_count; i++) {
		int64_t database = options->databases[i];

		if (database < 0 || !kw_databases_add(follow, (uint64_t)database))
			return kw_error_set(error, KW_E_CONFIG,
				"source.databases: %lld is none: give numbers from 0 to %d",
				(long long)database, KW_DATABASES_MOST - 1);
	}
	return KW_OK;
}

static uint32_t or_default(uint32_t value, uint32_t otherwise)
{
	return value ? value : otherwise;
}

static struct kw_feed *(*const feeds[])(
	const struct kw_feed_options *options, const struct kw_feed_handlers *handlers) = {
	[KW_SOURCE_FEED_NOTIFICATIONS] = kw_notify_new,
	[KW_SOURCE_FEED_STREAM] = kw_stream_feed_new,
	[KW_SOURCE_FEED_AUTO] = kw_auto_new,
};

int kw_source_options_copy(const struct kw_source_options *options, struct kw_source_options *own,
	struct kw_scope *scope, struct kw_error *error)
{
	int code;

	*scope = (struct kw_scope){0};
	code = follow_databases(&scope->databases, options, error);
	if (code) {
		kw_databases_close(&scope->databases);
		return code;
	}
	if (options->cursor_name)
		scope->cursor_name = kw_slice_text(kw_strdup(options->cursor_name));
	if (options->canary_key)
		scope->canary_key = kw_slice_text(kw_strdup(options->canary_key));
	*own = *options;
	own->databases = NULL;
	own->cursor_name = own->canary_key = NULL;
	own->redis.password = kw_secret_copy(options->redis.password);
	own->redis.present_password = &own->redis.password;
	own->window = or_default(own->window, DEFAULT_WINDOW);
	own->watch_interval_ms = or_default(own->watch_interval_ms, DEFAULT_WATCH_MS);
	own->fresh_interval_ms = or_default(own->fresh_interval_ms, DEFAULT_FRESH_MS);
	own->unreadable_pause_ms =
		or_default(own->unreadable_pause_ms, DEFAULT_UNREADABLE_PAUSE_MS);
	if (!own->feed)
		own->feed = feeds[own->kind];
	if (own->max_missing < 0 || own->max_missing > 1)
		own->max_missing = 1;
	if (own->primary_share <= 0)
		own->primary_share = 1;
	assert(own->window > 0 && own->primary_share > 0);
	return KW_OK;
}

void kw_source_options_close(struct kw_source_options *own, struct kw_scope *scope)
{
	kw_secret_close(&own->redis.password);
	free((void *)(uintptr_t)scope->cursor_name.data);
	free((void *)(uintptr_t)scope->canary_key.data);
	kw_databases_close(&scope->databases);
}
