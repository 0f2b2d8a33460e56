#include "reply.h"

#include "shortest.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_MAX_BYTES 512

void kw_reply_simple(const struct kw_reply_to *to, const char *text)
{
	kw_buffer_append(to->out, "+", 1);
	kw_buffer_append(to->out, text, strlen(text));
	kw_buffer_append(to->out, "\r\n", 2);
}

/* A sentence can quote what a client sent: no line end of it may end the reply. */
static void flatten(char *text)
{
	for (; *text; text++)
		if (*text == '\r' || *text == '\n')
			*text = ' ';
}

void kw_reply_error(const struct kw_reply_to *to, const char *format, ...)
{
	char text[LINE_MAX_BYTES];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	flatten(text);
	kw_buffer_append(to->out, "-", 1);
	kw_buffer_append(to->out, text, strlen(text));
	kw_buffer_append(to->out, "\r\n", 2);
}

/* A mark, a number, a line end. */
static void headed(const struct kw_reply_to *to, char mark, int64_t number)
{
	char digits[24], *at = digits + sizeof digits;
	uint64_t rest = number < 0 ? -(uint64_t)number : (uint64_t)number;

	*--at = '\n';
	*--at = '\r';
	do {
		*--at = (char)('0' + rest % 10);
		rest /= 10;
	} while (rest);
	if (number < 0)
		*--at = '-';
	kw_buffer_append(to->out, &mark, 1);
	kw_buffer_append(to->out, at, (size_t)(digits + sizeof digits - at));
}

void kw_reply_integer(const struct kw_reply_to *to, int64_t number)
{
	headed(to, ':', number);
}

void kw_reply_bulk(const struct kw_reply_to *to, struct kw_slice bytes)
{
	headed(to, '$', (int64_t)bytes.length);
	kw_buffer_append(to->out, bytes.data, bytes.length);
	kw_buffer_append(to->out, "\r\n", 2);
}

void kw_reply_verbatim(const struct kw_reply_to *to, struct kw_slice text)
{
	if (to->version != KW_RESP_3) {
		kw_reply_bulk(to, text);
		return;
	}
	headed(to, '=', (int64_t)text.length + 4);
	kw_buffer_append(to->out, "txt:", 4);
	kw_buffer_append(to->out, text.data, text.length);
	kw_buffer_append(to->out, "\r\n", 2);
}

void kw_reply_nil(const struct kw_reply_to *to)
{
	if (to->version == KW_RESP_3)
		kw_buffer_append(to->out, "_\r\n", 3);
	else
		kw_buffer_append(to->out, "$-1\r\n", 5);
}

void kw_reply_nil_array(const struct kw_reply_to *to)
{
	if (to->version == KW_RESP_3)
		kw_buffer_append(to->out, "_\r\n", 3);
	else
		kw_buffer_append(to->out, "*-1\r\n", 5);
}

void kw_reply_array(const struct kw_reply_to *to, size_t count)
{
	headed(to, '*', (int64_t)count);
}

void kw_reply_set(const struct kw_reply_to *to, size_t count)
{
	headed(to, to->version == KW_RESP_3 ? '~' : '*', (int64_t)count);
}

void kw_reply_map(const struct kw_reply_to *to, size_t count)
{
	if (to->version == KW_RESP_3)
		headed(to, '%', (int64_t)count);
	else
		headed(to, '*', (int64_t)(2 * count));
}

/* Without an exponent while few zeros have to be added; the servers' rule (util.c, fpconv). */
static size_t shortest_text(double score, char text[KW_NUMBER_TEXT])
{
	char digits[KW_SHORTEST_DIGITS];
	int power, count = kw_shortest_digits(fabs(score), digits, &power), zeros = power - count;
	const char *sign = score < 0 ? "-" : "";

	if (zeros >= 0 && power - 1 < count + 7)
		return (size_t)snprintf(
			text, KW_NUMBER_TEXT, "%s%.*s%.*s", sign, count, digits, zeros, "0000000");
	if (zeros < 0 && (zeros > -7 || abs(power - 1) < 4)) {
		if (power <= 0)
			return (size_t)snprintf(text, KW_NUMBER_TEXT, "%s0.%.*s%.*s", sign, -power,
				"0000000", count, digits);
		return (size_t)snprintf(text, KW_NUMBER_TEXT, "%s%.*s.%.*s", sign, power, digits,
			count - power, digits + power);
	}
	return (size_t)snprintf(text, KW_NUMBER_TEXT, "%s%c%s%.*se%c%d", sign, digits[0],
		count > 1 ? "." : "", count - 1, digits + 1, power - 1 < 0 ? '-' : '+',
		abs(power - 1));
}

/* What no form of digits says: true, and it is written. */
static bool is_plain(double number, char text[KW_NUMBER_TEXT], size_t *length)
{
	const char *plain = signbit(number) ? "-0" : "0";

	if (isinf(number))
		plain = number > 0 ? "inf" : "-inf";
	else if (number != 0)
		return false;
	*length = (size_t)snprintf(text, KW_NUMBER_TEXT, "%s", plain);
	return true;
}

size_t kw_long_text(double number, char text[KW_NUMBER_TEXT])
{
	size_t length;

	if (is_plain(number, text, &length))
		return length;
	return (size_t)snprintf(text, KW_NUMBER_TEXT, "%.17g", number);
}

/* The servers' double2ll and d2string (util.c): up to half of an integer's range. */
size_t kw_packed_text(double number, struct kw_release release, char text[KW_NUMBER_TEXT])
{
	const double most = (double)(INT64_MAX / 2);
	size_t length;

	if (is_plain(number, text, &length))
		return length;
	if (number >= -most && number <= most && number == (double)(int64_t)number)
		return (size_t)snprintf(text, KW_NUMBER_TEXT, "%" PRId64, (int64_t)number);
	if (kw_release_since(release, KW_RELEASE(7, 2), 0))
		return shortest_text(number, text);
	return kw_long_text(number, text);
}

size_t kw_double_text(double number, struct kw_release release, char text[KW_NUMBER_TEXT])
{
	if (kw_release_since(release, KW_RELEASE(7, 2), 0))
		return kw_packed_text(number, release, text);
	if (fabs(number) < 1e15 && number == (double)(int64_t)number)
		return kw_packed_text(number, release, text); /* the same, and much faster */
	return kw_long_text(number, text);
}

void kw_reply_number(const struct kw_reply_to *to, struct kw_slice text)
{
	if (to->version != KW_RESP_3) {
		kw_reply_bulk(to, text);
		return;
	}
	kw_buffer_append(to->out, ",", 1);
	kw_buffer_append(to->out, text.data, text.length);
	kw_buffer_append(to->out, "\r\n", 2);
}

void kw_reply_double(const struct kw_reply_to *to, double number)
{
	char text[KW_NUMBER_TEXT];

	kw_reply_number(to, kw_slice(text, kw_double_text(number, to->release, text)));
}
