#include "control/http/guard.h"

#include "base/secret.h"

#include <arpa/inet.h>
#include <stdint.h>
#include <strings.h>

#define USER "keywake:"

/* RFC 4648, section 4. Into memory that is wiped. */
static struct kw_slice base64(struct kw_slice bytes)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const uint8_t *from = bytes.data;
	size_t length = (bytes.length + 2) / 3 * 4;
	char *to = kw_secret_new(length), *at = to;

	for (size_t i = 0; i < bytes.length; i += 3) {
		size_t left = bytes.length - i;
		uint32_t three = (uint32_t)from[i] << 16;

		three |= left > 1 ? (uint32_t)from[i + 1] << 8 : 0;
		three |= left > 2 ? from[i + 2] : 0;
		*at++ = digits[three >> 18];
		*at++ = digits[three >> 12 & 63];
		*at++ = left > 1 ? digits[three >> 6 & 63] : '=';
		*at++ = left > 2 ? digits[three & 63] : '=';
	}
	return kw_slice(to, length);
}

void kw_http_guard_init(
	struct kw_http_guard *guard, enum kw_http_reach reach, struct kw_slice secret)
{
	size_t length = strlen(USER) + secret.length;
	char *login;

	*guard = (struct kw_http_guard){.reach = reach};
	if (secret.length == 0)
		return;
	guard->bearer = kw_secret_copy(secret);
	login = kw_secret_new(length);
	memcpy(login, USER, strlen(USER));
	memcpy(login + strlen(USER), secret.data, secret.length);
	guard->basic = base64(kw_slice(login, length));
	kw_secret_free(login, length);
}

void kw_http_guard_close(struct kw_http_guard *guard)
{
	kw_secret_close(&guard->bearer);
	kw_secret_close(&guard->basic);
}

/* In a time that tells the length of the secret at most. */
static bool is_equal(struct kw_slice secret, const char *text)
{
	const uint8_t *expected = secret.data;
	volatile uint8_t differs = 0;

	if (strlen(text) != secret.length)
		return false;
	for (size_t i = 0; i < secret.length; i++)
		differs |= (uint8_t)(expected[i] ^ (uint8_t)text[i]);
	return differs == 0;
}

/* "Bearer SECRET"; the scheme in any case (RFC 9110, section 11.1). */
static bool proves(const char *authorization, const char *scheme, struct kw_slice secret)
{
	size_t length = strlen(scheme);

	return strncasecmp(authorization, scheme, length) == 0 && authorization[length] == ' ' &&
	       is_equal(secret, authorization + length + 1);
}

/* Nothing, or a colon and digits. */
static bool is_port(const char *text)
{
	return *text == '\0' || (*text == ':' && text[1 + strspn(text + 1, "0123456789")] == '\0');
}

/* A number or localhost, and a port at most. */
static bool is_this_host(const char *host)
{
	char name[INET6_ADDRSTRLEN + 2];
	size_t length = strcspn(host, host[0] == '[' ? "]" : ":");
	bool closed = host[0] == '[' && host[length] == ']';
	struct in6_addr ip;

	if (length >= sizeof name || !is_port(host + length + closed))
		return false;
	memcpy(name, host, length);
	name[length] = '\0';
	if (name[0] == '[')
		return closed && inet_pton(AF_INET6, name + 1, &ip) == 1;
	return strcasecmp(name, "localhost") == 0 || inet_pton(AF_INET, name, &ip) == 1;
}

enum kw_http_verdict kw_http_judge(
	const struct kw_http_guard *guard, const struct kw_http_question *question)
{
	const char *proof = question->authorization;

	if (guard->bearer.length > 0) {
		if (proof && (proves(proof, "Bearer", guard->bearer) ||
				     proves(proof, "Basic", guard->basic)))
			return KW_HTTP_MAY;
		return question->open ? KW_HTTP_MAY_LITTLE : KW_HTTP_UNPROVED;
	}
	if (guard->reach == KW_HTTP_UNIX)
		return KW_HTTP_MAY;
	/* A port that is open to other hosts is not without a secret (http.h). */
	return question->host && is_this_host(question->host) ? KW_HTTP_MAY : KW_HTTP_MISLED;
}
