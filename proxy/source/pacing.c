/*
 * What our fetching costs the primary: INFO is asked, the pace is fed. What is missing from the
 * answers (a server that counts otherwise, a proxy between) leaves the pace as it was: without a
 * limit, if nothing was ever measured.
 */
#include "source/internal.h"

#include "base/clock.h"
#include "redis/address.h"
#include "redis/server.h"

static bool is_one_of(struct kw_slice command, const char *const *names)
{
	for (; *names; names++)
		if (kw_slice_equal(command, kw_slice_text(*names)))
			return true;
	return false;
}

static void count_command(void *arg, struct kw_slice command, uint64_t calls, uint64_t usec)
{
	static const char *const ours[] = {"dump", "pexpiretime", "pttl", "scan", NULL};
	static const char *const looks[] = {"info", "ping", NULL};
	struct kw_pace_counts *counts = arg;

	counts->calls += calls;
	counts->usec += usec;
	if (is_one_of(command, looks)) {
		counts->looks_calls += calls;
		counts->looks_usec += usec;
	}
	if (!is_one_of(command, ours))
		return;
	counts->ours_calls += calls;
	counts->ours_usec += usec;
	if (kw_slice_equal(command, kw_slice_text("dump")))
		counts->dumps = calls;
}

/* The main thread's time since Redis 6.2; before that, all threads'. */
static bool read_cpu(struct kw_slice info, uint64_t *us)
{
	uint64_t user_us, system_us;

	if ((!kw_info_seconds(info, "used_cpu_user_main_thread", &user_us) ||
		    !kw_info_seconds(info, "used_cpu_sys_main_thread", &system_us)) &&
		(!kw_info_seconds(info, "used_cpu_user", &user_us) ||
			!kw_info_seconds(info, "used_cpu_sys", &system_us)))
		return false;
	*us = user_us + system_us;
	return true;
}

/* The server told its CPU time at most as long ago as it was asked. */
static uint64_t look_at_waiting(struct kw_source *source)
{
	struct kw_redis_address address;
	struct kw_waiting_server server = {
		.process = kw_feed_server(source->feed)->process,
		.near = kw_redis_address_parse(source->options.redis.address, &address, NULL) ==
				0 &&
			kw_redis_address_near(&address),
		.cpu_us = source->pacing.counts.cpu_us,
		.age_us = kw_clock_us() - source->pacing.asked_us,
	};

	return kw_waiting_look(&source->pacing.waiting, &server);
}

static void cpu_answered(void *arg, const struct kw_reply *reply)
{
	struct kw_source *source = arg;

	reply = kw_lane_reply(&source->lane, reply);
	source->pacing.has_cpu = reply && reply->type == KW_REPLY_STRING &&
				 read_cpu(reply->text, &source->pacing.counts.cpu_us);
	if (source->pacing.has_cpu)
		source->pacing.counts.wait_us = look_at_waiting(source);
}

static void commands_answered(void *arg, const struct kw_reply *reply)
{
	struct kw_source *source = arg;
	struct kw_pacing *pacing = &source->pacing;

	pacing->asked = false;
	reply = kw_lane_reply(&source->lane, reply);
	if (!reply)
		return;
	if (reply->type != KW_REPLY_STRING || !pacing->has_cpu) {
		kw_pace_forget(&source->pace); /* no limit that nothing would ever lift again */
		return;
	}
	kw_info_commands(reply->text, count_command, &pacing->counts);
	kw_pace_look(&source->pace, &pacing->counts, kw_clock_us());
	kw_source_want_turn(source);
}

void kw_pacing_tick(struct kw_source *source)
{
	struct kw_pacing *pacing = &source->pacing;

	if (source->link != KW_LINK_UP)
		return;
	if (pacing->asked || !kw_pace_due(&source->pace, kw_clock_us()))
		return;
	pacing->asked = true;
	pacing->has_cpu = false;
	pacing->asked_us = kw_clock_us();
	pacing->counts = (struct kw_pace_counts){0};
	kw_lane_info(&source->lane, cpu_answered, source, "cpu");
	kw_lane_info(&source->lane, commands_answered, source, "commandstats");
}
