/* Commands about the connection that need a line or two each. */
#include "calls.h"

#include "gateway/answers/answers.h"

#include <inttypes.h>
#include <stdio.h>

void kw_call_ok(struct kw_call *call)
{
	kw_reply_simple(call->to, "OK");
}

void kw_call_quit(struct kw_call *call)
{
	kw_reply_simple(call->to, "OK");
	call->verdict = KW_SESSION_CLOSE;
}

void kw_call_echo(struct kw_call *call)
{
	kw_reply_bulk(call->to, call->words[1]);
}

void kw_call_ping(struct kw_call *call)
{
	if (call->count > 2)
		kw_reply_error(call->to, "ERR wrong number of arguments for 'ping' command");
	else if (call->count == 2)
		kw_reply_bulk(call->to, call->words[1]);
	else
		kw_reply_simple(call->to, "PONG");
}

void kw_call_select(struct kw_call *call)
{
	uint32_t databases = call->host->databases;
	int64_t number = 0;

	if (databases == 0)
		databases = KW_SESSION_DATABASES_MAX;
	if (!kw_answer_number(call->words[1], &number)) {
		kw_reply_error(call->to, "ERR value is not an integer or out of range");
	} else if (number < INT32_MIN || number > INT32_MAX) {
		kw_reply_error(call->to, "ERR value is out of range, value must between %d and %d",
			INT32_MIN, INT32_MAX);
	} else if (number < 0 || number >= databases) {
		kw_reply_error(call->to, "ERR DB index is out of range");
	} else {
		call->session->database = (uint32_t)number;
		kw_reply_simple(call->to, "OK");
	}
}

void kw_call_time(struct kw_call *call)
{
	uint64_t now_us = kw_session_look(call->session, call->host).now_us;
	char text[24];

	kw_reply_array(call->to, 2);
	snprintf(text, sizeof text, "%" PRIu64, now_us / 1000000);
	kw_reply_bulk(call->to, kw_slice_text(text));
	snprintf(text, sizeof text, "%" PRIu64, now_us % 1000000);
	kw_reply_bulk(call->to, kw_slice_text(text));
}

void kw_call_cluster(struct kw_call *call)
{
	kw_reply_error(call->to, "ERR This instance has cluster support disabled");
}
