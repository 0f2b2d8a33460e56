#include "source/pause.h"

#include "base/buffer.h"
#include "source/source_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct pause {
	struct kw_source *source;
	const char *words, *acl; /* for sentences */
	kw_source_paused_fn done;
	void *arg;
};

static void on_paused(void *arg, const struct kw_reply *reply)
{
	struct pause *pause = arg;
	struct kw_data_connection *data = &pause->source->link.data;
	struct kw_error error;

	reply = kw_data_reply(data, reply);
	if (!reply)
		kw_error_set(&error, KW_E_IO,
			"the connection to the primary was lost before it answered %s",
			pause->words);
	else if (reply->type == KW_REPLY_ERROR)
		kw_data_refusal(&error, data->user, pause->words, pause->acl, reply);
	pause->done(pause->arg, reply && reply->type != KW_REPLY_ERROR ? NULL : &error);
	free(pause);
}

void kw_source_pause_writes(
	struct kw_source *source, uint32_t ms, kw_source_paused_fn done, void *arg)
{
	struct pause *pause;
	struct kw_error error;
	char text[16];

	if (!kw_source_link_is_up(&source->link)) {
		kw_error_set(&error, KW_E_STATE, "the proxy is not connected to its primary: %s",
			source->state.reason);
		done(arg, &error);
		return;
	}
	pause = kw_alloc(sizeof *pause);
	*pause = (struct pause){source, ms ? "CLIENT PAUSE" : "CLIENT UNPAUSE",
		ms ? "+client|pause" : "+client|unpause", done, arg};
	snprintf(text, sizeof text, "%" PRIu32, ms);
	if (ms)
		kw_data_words(&source->link.data, on_paused, pause, "CLIENT", "PAUSE", text,
			"WRITE", NULL);
	else
		kw_data_words(&source->link.data, on_paused, pause, "CLIENT", "UNPAUSE", NULL);
}
