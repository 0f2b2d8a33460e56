#include "reply.h"

#include "shortest.h"

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

#define HEAD_MAX 24 /* a mark, a number of 64 bits, a line end */

/* Ends at `end`; where it begins is returned. */
static char *digits_before(char *end, int64_t number)
{
	uint64_t rest = number < 0 ? -(uint64_t)number : (uint64_t)number;

	do {
		*--end = (char)('0' + rest % 10);
		rest /= 10;
	} while (rest);
	if (number < 0)
		*--end = '-';
	return end;
}

/* A mark, a number, a line end. Room for `more` bytes is left after it, and returned. */
static char *head(const struct kw_reply_to *to, char mark, int64_t number, size_t more)
{
	char text[HEAD_MAX], *at, *out;
	size_t length;

	text[HEAD_MAX - 2] = '\r';
	text[HEAD_MAX - 1] = '\n';
	at = digits_before(text + HEAD_MAX - 2, number);
	*--at = mark;
	length = (size_t)(text + HEAD_MAX - at);
	out = (char *)kw_buffer_reserve(to->out, length + more);
	memcpy(out, at, length);
	kw_buffer_filled(to->out, length + more);
	return out + length;
}

static void headed(const struct kw_reply_to *to, char mark, int64_t number)
{
	head(to, mark, number, 0);
}

void kw_reply_integer(const struct kw_reply_to *to, int64_t number)
{
	headed(to, ':', number);
}

void kw_reply_bulk(const struct kw_reply_to *to, struct kw_slice bytes)
{
	char *out = head(to, '$', (int64_t)bytes.length, bytes.length + 2);

	if (bytes.length > 0)
		memcpy(out, bytes.data, bytes.length);
	out[bytes.length] = '\r';
	out[bytes.length + 1] = '\n';
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

struct writing {
	char *at;
};

static void write_bytes(struct writing *writing, const char *bytes, int count)
{
	memcpy(writing->at, bytes, (size_t)count);
	writing->at += count;
}

static void write_zeros(struct writing *writing, int count)
{
	memset(writing->at, '0', (size_t)count);
	writing->at += count;
}

/* d.ddde-5 */
static void write_scientific(struct writing *writing, const char *digits, int count, int exponent)
{
	char text[HEAD_MAX], *at = digits_before(text + HEAD_MAX, abs(exponent));

	write_bytes(writing, digits, 1);
	if (count > 1)
		*writing->at++ = '.';
	write_bytes(writing, digits + 1, count - 1);
	*writing->at++ = 'e';
	*writing->at++ = exponent < 0 ? '-' : '+';
	write_bytes(writing, at, (int)(text + HEAD_MAX - at));
}

/* Without an exponent while few zeros have to be added; the servers' rule (util.c, fpconv). */
static size_t shortest_text(double score, char text[KW_NUMBER_TEXT])
{
	char digits[KW_SHORTEST_DIGITS];
	int power, count = kw_shortest_digits(fabs(score), digits, &power), zeros = power - count;
	struct writing writing = {text};

	if (score < 0)
		*writing.at++ = '-';
	if (zeros >= 0 && power - 1 < count + 7) {
		write_bytes(&writing, digits, count);
		write_zeros(&writing, zeros);
	} else if (zeros >= 0 || (zeros <= -7 && abs(power - 1) >= 4)) {
		write_scientific(&writing, digits, count, power - 1);
	} else if (power <= 0) {
		write_bytes(&writing, "0.", 2);
		write_zeros(&writing, -power);
		write_bytes(&writing, digits, count);
	} else {
		write_bytes(&writing, digits, power);
		*writing.at++ = '.';
		write_bytes(&writing, digits + power, count - power);
	}
	return (size_t)(writing.at - text);
}

static size_t integer_text(int64_t number, char text[KW_NUMBER_TEXT])
{
	char digits[HEAD_MAX], *at = digits_before(digits + HEAD_MAX, number);
	size_t length = (size_t)(digits + HEAD_MAX - at);

	memcpy(text, at, length);
	return length;
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
		return integer_text((int64_t)number, text);
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
