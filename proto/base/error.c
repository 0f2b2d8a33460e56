#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *kw_code_name(enum kw_code code)
{
	static const char *const names[] = {
		[KW_OK] = "ok",
		[KW_E_ARGUMENT] = "argument",
		[KW_E_CONFIG] = "config",
		[KW_E_IO] = "io",
		[KW_E_TIMEOUT] = "timeout",
		[KW_E_REFUSED] = "refused",
		[KW_E_PROTOCOL] = "protocol",
		[KW_E_CORRUPT] = "corrupt",
		[KW_E_FULL] = "full",
		[KW_E_NOMEM] = "nomem",
		[KW_E_STATE] = "state",
		[KW_E_GONE] = "gone",
	};

	if ((unsigned)code >= sizeof names / sizeof *names)
		return "unknown";
	return names[code];
}

int kw_error_set(struct kw_error *error, enum kw_code code, const char *format, ...)
{
	va_list args;

	if (error) {
		error->code = code;
		va_start(args, format);
		vsnprintf(error->text, sizeof error->text, format, args);
		va_end(args);
	}
	return (int)code;
}

int kw_error_errno(struct kw_error *error, int errnum, const char *format, ...)
{
	enum kw_code code = errnum == ENOMEM ? KW_E_NOMEM : KW_E_IO;
	va_list args;
	size_t length;

	if (!error)
		return (int)code;
	error->code = code;
	va_start(args, format);
	vsnprintf(error->text, sizeof error->text, format, args);
	va_end(args);
	length = strlen(error->text);
	snprintf(error->text + length, sizeof error->text - length, ": %s", strerror(errnum));
	return (int)code;
}

int kw_error_wrap(struct kw_error *error, const char *format, ...)
{
	char inner[KW_ERROR_TEXT];
	va_list args;
	size_t length;

	if (!error)
		return (int)KW_E_IO;
	memcpy(inner, error->text, sizeof inner);
	va_start(args, format);
	vsnprintf(error->text, sizeof error->text, format, args);
	va_end(args);
	length = strlen(error->text);
	snprintf(error->text + length, sizeof error->text - length, ": %.*s",
		(int)(sizeof inner - 1), inner);
	return (int)error->code;
}
