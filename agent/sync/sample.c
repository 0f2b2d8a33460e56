#include "sample.h"

#include "local/prune.h"

#include <assert.h>

static struct kw_remote *connection(void *arg)
{
	const struct kw_follow *follow = arg;

	return kw_follow_up(follow) ? follow->remote : NULL;
}

void kw_sample_init(struct kw_sample *sample, struct kw_follow *follow)
{
	const struct kw_lookups_options options = {0};
	struct kw_lookups_io io;

	*sample = (struct kw_sample){.follow = follow};
	kw_reads_init(&sample->reads, connection, follow);
	io = kw_reads_lookups_io(&sample->reads);
	sample->lookups = kw_lookups_new(&options, &io);
}

void kw_sample_close(struct kw_sample *sample)
{
	kw_sample_stop(sample);
	kw_reads_tick(&sample->reads);
	kw_lookups_free(sample->lookups);
	kw_reads_close(&sample->reads);
}

void kw_sample_stop(struct kw_sample *sample)
{
	sample->state = KW_SAMPLE_IDLE;
	kw_buffer_close(&sample->keys);
	kw_lookups_stop(sample->lookups);
}

static void finish(struct kw_sample *sample, const struct kw_error *error)
{
	sample->state = KW_SAMPLE_IDLE;
	kw_buffer_close(&sample->keys);
	sample->done(sample->arg, error);
}

static void look_up(struct kw_sample *sample);

static void on_looked_up(void *arg, const struct kw_lookup_result *found)
{
	struct kw_sample *sample = arg;

	assert(sample->state == KW_SAMPLE_ASKING);
	if (found->outcome == KW_LOOKUP_UNCERTAIN)
		return; /* the tick tries again */
	if (found->outcome == KW_LOOKUP_FAILED) {
		finish(sample, &found->error);
		return;
	}
	sample->looked_up++;
	sample->absent += found->outcome == KW_LOOKUP_ABSENT;
	kw_prune_drop_key(&sample->keys);
	look_up(sample);
}

static void look_up(struct kw_sample *sample)
{
	struct kw_prune_key key;

	if (kw_prune_next_key(&sample->keys, &key))
		kw_lookups_begin(sample->lookups, key.database, key.key, on_looked_up, sample);
	else
		finish(sample, NULL);
}

void kw_sample_start(struct kw_sample *sample, struct kw_buffer *keys, kw_sample_fn done, void *arg)
{
	assert(sample->state == KW_SAMPLE_IDLE && kw_buffer_length(keys) > 0);
	kw_lookups_stop(sample->lookups); /* what they know can be of an earlier connection */
	sample->state = KW_SAMPLE_ASKING;
	sample->keys = *keys;
	*keys = (struct kw_buffer){0};
	sample->looked_up = sample->absent = 0;
	sample->done = done;
	sample->arg = arg;
	kw_sample_tick(sample);
}

void kw_sample_tick(struct kw_sample *sample)
{
	kw_reads_tick(&sample->reads);
	kw_lookups_tick(sample->lookups);
	if (sample->state == KW_SAMPLE_ASKING && !kw_lookups_busy(sample->lookups))
		look_up(sample);
	kw_lookups_post(sample->lookups);
}
