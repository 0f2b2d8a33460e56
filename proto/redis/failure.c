#include "failure.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

static enum kw_code code_of(enum kw_server_error answer)
{
	switch (answer) {
	case KW_SERVER_E_LOADING:
	case KW_SERVER_E_BUSY:
	case KW_SERVER_E_MASTERDOWN:
	case KW_SERVER_E_READONLY:
	case KW_SERVER_E_MISCONF:
		return KW_E_STATE;
	case KW_SERVER_E_OOM:
		return KW_E_FULL;
	case KW_SERVER_E_NONE:
		return KW_E_PROTOCOL;
	case KW_SERVER_E_OTHER:
	case KW_SERVER_E_PERMISSION:
	case KW_SERVER_E_PAYLOAD:
		break;
	}
	return KW_E_REFUSED;
}

static void fill(struct kw_failure *failure, enum kw_code code, enum kw_server_error answer,
	const char *format, va_list args)
{
	assert(code != KW_OK);
	failure->code = code;
	failure->answer = answer;
	vsnprintf(failure->text, sizeof failure->text, format, args);
}

void kw_failure_set(struct kw_failure *failure, enum kw_code code, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fill(failure, code, KW_SERVER_E_NONE, format, args);
	va_end(args);
}

void kw_failure_answered(
	struct kw_failure *failure, const struct kw_reply *reply, const char *format, ...)
{
	enum kw_server_error answer = KW_SERVER_E_NONE;
	va_list args;

	if (reply && reply->type == KW_REPLY_ERROR)
		answer = kw_server_error(reply->text);
	va_start(args, format);
	fill(failure, reply ? code_of(answer) : KW_E_IO, answer, format, args);
	va_end(args);
}

void kw_failure_of_class(
	struct kw_failure *failure, enum kw_server_error answer, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fill(failure, code_of(answer), answer, format, args);
	va_end(args);
}
