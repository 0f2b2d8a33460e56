#include "base/clock.h"
#include "verify_internal.h"

#include <assert.h>
#include <stdlib.h>

#define RECHECK_US 250000
#define LOOKS 3      /* that must agree before a key is reported */
#define MOVED_MAX 20 /* undecided looks, before it is called unsettled */

static void enqueue(struct kw_verify *verify, struct kw_suspect *suspect)
{
	/* Every wait is the same, so the queue stays in the order of the due times. */
	suspect->due_us = kw_clock_us() + RECHECK_US;
	suspect->next = NULL;
	if (verify->last)
		verify->last->next = suspect;
	else
		verify->first = suspect;
	verify->last = suspect;
}

void kw_verify_suspect(struct kw_verify *verify, uint32_t database, struct kw_slice key, bool extra)
{
	struct kw_suspect *suspect = kw_alloc(sizeof *suspect + key.length);

	*suspect = (struct kw_suspect){
		.database = database,
		.looks = 1,
		.extra = extra,
		.key_length = key.length,
	};
	if (key.length)
		memcpy(suspect->key, key.data, key.length);
	verify->suspects++;
	enqueue(verify, suspect);
}

void kw_verify_suspects_close(struct kw_verify *verify)
{
	free(verify->present);
	verify->present = NULL;
	while (verify->first) {
		struct kw_suspect *suspect = verify->first;

		verify->first = suspect->next;
		free(suspect);
	}
	verify->last = NULL;
	verify->suspects = 0;
}

static struct kw_slice key_of(const struct kw_suspect *suspect)
{
	return kw_slice(suspect->key, suspect->key_length);
}

/* The present suspect is judged for good. */
static void resolve(struct kw_verify *verify)
{
	free(verify->present);
	verify->present = NULL;
	verify->suspects--;
	kw_verify_step(verify);
}

/* It is looked at again later. */
static void postpone(struct kw_verify *verify)
{
	struct kw_suspect *suspect = verify->present;

	verify->present = NULL;
	enqueue(verify, suspect);
	kw_verify_step(verify);
}

static void acquit(struct kw_verify *verify)
{
	if (!verify->present->extra)
		verify->result.equal++;
	resolve(verify);
}

/*
 * A key that moves all the time cannot be judged; one that SCAN found was never counted as checked.
 */
static void say_nothing(struct kw_verify *verify)
{
	struct kw_suspect *suspect = verify->present;

	if (++suspect->moved < MOVED_MAX) {
		postpone(verify);
		return;
	}
	if (suspect->extra)
		verify->result.checked++;
	verify->result.unsettled++;
	resolve(verify);
}

static void accuse(struct kw_verify *verify)
{
	struct kw_verify_result *result = &verify->result;
	struct kw_suspect *suspect = verify->present;
	struct kw_verify_list *list = verify->verdict == KW_EXTRA     ? &result->extra
				      : verify->verdict == KW_MISSING ? &result->missing
								      : &result->different;

	/*
	 * `checked` counts keys of the table: an extra key is none of these, wherever it was found.
	 */
	if (verify->verdict == KW_EXTRA && !suspect->extra)
		result->checked--;
	else if (verify->verdict != KW_EXTRA && suspect->extra)
		result->checked++;
	kw_verify_name(list, suspect->database, key_of(suspect));
	resolve(verify);
}

static void fail_lookup(struct kw_verify *verify, const struct kw_lookup_result *found)
{
	struct kw_error error = found->error;

	kw_error_wrap(&error, "verify: the proxy's table");
	kw_run_fail(&verify->run, &error);
}

/* Look the present suspect up in the table. */
static void look_up(struct kw_verify *verify, kw_lookup_fn fn)
{
	kw_lookups_begin(
		verify->lookups, verify->present->database, key_of(verify->present), fn, verify);
	kw_lookups_post(verify->lookups);
}

/* The second lookup: was the table unchanged while the local server was asked? */
static void on_confirmed(void *arg, const struct kw_lookup_result *found)
{
	struct kw_verify *verify = arg;
	uint64_t version = found->outcome == KW_LOOKUP_FOUND ? found->record.version : 0;

	if (kw_verify_over(verify))
		return;
	if (found->outcome == KW_LOOKUP_FAILED)
		fail_lookup(verify, found);
	else if (found->outcome == KW_LOOKUP_UNCERTAIN || version != verify->expected.version)
		say_nothing(verify);
	else if (++verify->present->looks >= LOOKS + 1)
		accuse(verify);
	else
		postpone(verify);
}

static void on_value(void *arg, const struct kw_reply *reply)
{
	struct kw_verify *verify = arg;

	if (kw_verify_over(verify) || !kw_ask_answered(&verify->ask, reply))
		return;
	verify->verdict = kw_verify_judge(verify, &verify->expected);
	if (verify->verdict == KW_SAME)
		acquit(verify);
	else
		look_up(verify, on_confirmed);
}

static void on_found(void *arg, const struct kw_lookup_result *found)
{
	struct kw_verify *verify = arg;
	struct kw_suspect *suspect = verify->present;

	if (kw_verify_over(verify))
		return;
	switch (found->outcome) {
	case KW_LOOKUP_TOO_LARGE: /* never: no bound is set */
	case KW_LOOKUP_FAILED:
		fail_lookup(verify, found);
		return;
	case KW_LOOKUP_UNCERTAIN:
		say_nothing(verify);
		return;
	case KW_LOOKUP_FOUND:
		kw_expect(&found->record, kw_wall_us() / 1000, &verify->expected);
		break;
	case KW_LOOKUP_ABSENT:
		verify->expected = (struct kw_expected){0};
		break;
	}
	kw_ask_key(&verify->ask, suspect->database, key_of(suspect), on_value, verify);
}

static void look(struct kw_verify *verify)
{
	struct kw_suspect *suspect = verify->first;

	verify->first = suspect->next;
	if (!verify->first)
		verify->last = NULL;
	verify->present = suspect;
	verify->result.rechecked++;
	look_up(verify, on_found);
}

void kw_verify_suspects_step(struct kw_verify *verify)
{
	kw_lookups_tick(verify->lookups);
	kw_lookups_post(verify->lookups);
	if (!verify->present && verify->first && verify->first->due_us <= kw_clock_us() &&
		kw_lookups_have_room(verify->lookups))
		look(verify);
}
