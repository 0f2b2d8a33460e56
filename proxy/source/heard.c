#include "source/heard.h"

#include "base/log.h"
#include "redis/server.h"

#define SECOND_US UINT64_C(1000000)

void kw_heard_init(
	struct kw_heard *heard, struct kw_data_connection *data, void (*told)(void *arg), void *arg)
{
	*heard = (struct kw_heard){.data = data, .told = told, .arg = arg};
}

void kw_heard_reset(struct kw_heard *heard)
{
	kw_heard_init(heard, heard->data, heard->told, heard->arg);
}

static void note(struct kw_heard *heard, uint64_t moment_us)
{
	if (moment_us > heard->us)
		heard->us = moment_us;
}

void kw_heard_take(struct kw_heard *heard, struct kw_slice info, uint64_t asked_us)
{
	uint64_t offset = 0, seconds;

	(void)kw_info_number(info, "slave_repl_offset", &offset);
	if (heard->answered_us > 0 && offset != heard->offset)
		note(heard, heard->answered_us);
	/* They are whole ones, so it can be one more. */
	if (heard->answered_us == 0 &&
		kw_info_number(info, "master_last_io_seconds_ago", &seconds) &&
		seconds < asked_us / SECOND_US)
		note(heard, asked_us - (seconds + 1) * SECOND_US);
	heard->answered_us = asked_us;
	heard->offset = offset;
}

static void look_for_silence(struct kw_heard *heard, uint64_t now_us)
{
	if (heard->us == 0 || heard->silence == KW_HEARD_SELDOM ||
		now_us < heard->us + KW_HEARD_SELDOM_US)
		return;
	heard->silence = KW_HEARD_SELDOM;
	kw_log_warn("source",
		"the server followed is a replica, and has heard nothing of its own primary for "
		"%.1f s: nobody knows meanwhile whether its data are current, so agents are not "
		"warm. Set repl-ping-replica-period 1 on that primary, and warm.lag_ms of the "
		"agents to 3000",
		(double)(now_us - heard->us) / 1e6);
}

static void answered(void *arg, const struct kw_reply *reply)
{
	struct kw_heard *heard = arg;

	reply = kw_data_reply(heard->data, reply);
	if (!reply || heard->state != KW_HEARD_ASKED)
		return;
	if (reply->type != KW_REPLY_STRING) {
		kw_data_refused(heard->data, "INFO replication", "+info", reply);
		return;
	}
	heard->state = KW_HEARD_IDLE;
	kw_heard_take(heard, reply->text, heard->asked_us);
	look_for_silence(heard, heard->asked_us);
	heard->told(heard->arg);
}

void kw_heard_ask(struct kw_heard *heard, uint64_t now_us)
{
	if (heard->state == KW_HEARD_ASKED)
		return;
	heard->state = KW_HEARD_ASKED;
	heard->asked_us = now_us;
	kw_data_info(heard->data, answered, heard, "replication");
}
