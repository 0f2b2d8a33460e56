#include "feed/stream/leaving.h"

#include "base/clock.h"
#include "redis/server.h"

#include <assert.h>

static void answered(void *arg, const struct kw_reply *reply)
{
	struct kw_leaving *leaving = arg;
	struct kw_slice left;

	reply = kw_data_reply(leaving->data, reply);
	if (!reply || leaving->state == KW_LEAVING_QUIET)
		return;
	assert(leaving->state != KW_LEAVING_AGAIN);
	if (reply->type != KW_REPLY_STRING) {
		kw_data_refused(leaving->data, "INFO server", "+info", reply);
		return;
	}
	leaving->state = leaving->state == KW_LEAVING_ASKING ? KW_LEAVING_QUIET : KW_LEAVING_AGAIN;
	if (kw_info_text(reply->text, "shutdown_in_milliseconds", &left))
		leaving->leaves(leaving->arg);
}

static void ask(struct kw_leaving *leaving, uint64_t now_us)
{
	leaving->state = KW_LEAVING_ASKING;
	leaving->asked_us = now_us;
	kw_data_info(leaving->data, answered, leaving, "server");
}

void kw_leaving_suspect(struct kw_leaving *leaving, uint64_t now_us)
{
	if (leaving->state == KW_LEAVING_ASKING)
		leaving->state = KW_LEAVING_ASKING_AGAIN;
	else if (leaving->state == KW_LEAVING_QUIET)
		leaving->state = KW_LEAVING_AGAIN;
	kw_leaving_turn(leaving, now_us);
}

void kw_leaving_stop(struct kw_leaving *leaving)
{
	leaving->state = KW_LEAVING_QUIET;
}

void kw_leaving_turn(struct kw_leaving *leaving, uint64_t now_us)
{
	if (now_us >= kw_leaving_ready_us(leaving) && !kw_data_is_broken(leaving->data))
		ask(leaving, now_us);
}

uint64_t kw_leaving_ready_us(const struct kw_leaving *leaving)
{
	if (leaving->state != KW_LEAVING_AGAIN)
		return UINT64_MAX;
	return leaving->asked_us ? leaving->asked_us + KW_LEAVING_EVERY_US : 0;
}
