#include "fetch/pacing.h"

#include "base/clock.h"
#include "redis/address.h"
#include "redis/server.h"

#include <assert.h>

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

/* The CPU time that the server told is at most as old as the question. */
static uint64_t look_at_waiting(struct kw_pacing *pacing)
{
	struct kw_redis_address address;
	struct kw_waiting_server server = {
		.process = pacing->process,
		.near = kw_redis_address_parse(pacing->address, &address, NULL) == 0 &&
			kw_redis_address_near(&address),
		.cpu_us = pacing->counts.cpu_us,
		.age_us = kw_clock_us() - pacing->asked_us,
	};

	return kw_waiting_look(&pacing->waiting, &server);
}

static void cpu_answered(void *arg, const struct kw_reply *reply)
{
	struct kw_pacing *pacing = arg;

	assert(pacing->state == KW_PACING_ASKED);
	reply = kw_data_reply(pacing->data, reply);
	if (!reply || reply->type != KW_REPLY_STRING ||
		pacing->busy_times != pacing->data->busy_times ||
		!read_cpu(reply->text, &pacing->counts.cpu_us))
		return;
	pacing->counts.wait_us = look_at_waiting(pacing);
	pacing->state = KW_PACING_HAS_CPU;
}

static void commands_answered(void *arg, const struct kw_reply *reply)
{
	struct kw_pacing *pacing = arg;
	enum kw_pacing_state before = pacing->state;

	assert(before != KW_PACING_IDLE);
	pacing->state = KW_PACING_IDLE;
	reply = kw_data_reply(pacing->data, reply);
	if (!reply)
		return;
	if (reply->type != KW_REPLY_STRING || before != KW_PACING_HAS_CPU ||
		pacing->busy_times != pacing->data->busy_times) {
		kw_pace_forget(&pacing->pace); /* no limit that is never lifted again */
		return;
	}
	kw_info_commands(reply->text, count_command, &pacing->counts);
	kw_pace_look(&pacing->pace, &pacing->counts, kw_clock_us());
}

void kw_pacing_init(struct kw_pacing *pacing, struct kw_data_connection *data, const char *address,
	double share, uint64_t now_us)
{
	*pacing = (struct kw_pacing){.data = data, .address = address};
	kw_pace_init(&pacing->pace, share, now_us);
}

void kw_pacing_tick(struct kw_pacing *pacing, uint64_t process, uint64_t now_us)
{
	if (pacing->state != KW_PACING_IDLE || !kw_pace_due(&pacing->pace, now_us))
		return;
	assert(pacing->data->redis);
	pacing->state = KW_PACING_ASKED;
	pacing->process = process;
	pacing->asked_us = now_us;
	pacing->busy_times = pacing->data->busy_times;
	pacing->counts = (struct kw_pace_counts){0};
	kw_data_info(pacing->data, cpu_answered, pacing, "cpu");
	kw_data_info(pacing->data, commands_answered, pacing, "commandstats");
}
