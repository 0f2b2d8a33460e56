#include "mandate/sentinel_reply.h"

#include <stdio.h>
#include <string.h>

#define QUOTE_BYTES 160

static bool says(const struct kw_reply *reply, const char *words)
{
	return memmem(reply->text.data, reply->text.length, words, strlen(words)) != NULL;
}

static const char *remedy(const struct kw_reply *reply)
{
	if (says(reply, "No such master"))
		return "set sentinel.name to a name that it monitors";
	if (says(reply, "NOPERM"))
		return "allow it there: ACL SETUSER ... +sentinel|master +sentinel|sentinels "
		       "+sentinel|myid";
	if (says(reply, "NOAUTH"))
		return "set sentinel.username and sentinel.password_file";
	if (says(reply, "unknown command") || says(reply, "unknown subcommand"))
		return "is it a sentinel (of version 6.2 or later)? Check sentinel.addresses";
	return "see the log of the sentinel";
}

static int refused(const struct kw_reply *reply, const char *question, struct kw_error *error)
{
	int length = reply->text.length < QUOTE_BYTES ? (int)reply->text.length : QUOTE_BYTES;

	if (reply->type == KW_REPLY_ERROR)
		return kw_error_set(error, KW_E_REFUSED, "it refused %s: %.*s; %s", question,
			length, (const char *)reply->text.data, remedy(reply));
	return kw_error_set(error, KW_E_PROTOCOL,
		"its answer to %s is none of a sentinel: check sentinel.addresses", question);
}

/* The value behind a name in a list of names and values; empty: it is not there. */
static struct kw_slice field(const struct kw_reply *list, const char *name)
{
	for (size_t i = 0; i + 1 < list->count; i += 2)
		if (list->elements[i].type == KW_REPLY_STRING &&
			list->elements[i + 1].type == KW_REPLY_STRING &&
			kw_slice_equal(list->elements[i].text, kw_slice_text(name)))
			return list->elements[i + 1].text;
	return kw_slice(NULL, 0);
}

static bool take_number(const struct kw_reply *list, const char *name, uint64_t most, uint64_t *to)
{
	const struct kw_slice text = field(list, name);
	const char *digit = text.data;

	*to = 0;
	if (text.length == 0 || text.length > 19)
		return false;
	for (size_t i = 0; i < text.length; i++) {
		if (digit[i] < '0' || digit[i] > '9')
			return false;
		*to = *to * 10 + (uint64_t)(digit[i] - '0');
	}
	return *to <= most;
}

static bool is_hex(const char *text)
{
	return strspn(text, "0123456789abcdef") == strlen(text);
}

/* An id, or nothing. */
static bool take_id(struct kw_slice text, char id[KW_SENTINEL_ID + 1])
{
	id[0] = '\0';
	if (text.length == 0)
		return true;
	if (text.length != KW_SENTINEL_ID)
		return false;
	memcpy(id, text.data, KW_SENTINEL_ID);
	id[KW_SENTINEL_ID] = '\0';
	return is_hex(id);
}

static bool take_host(struct kw_slice text, char *host, size_t room)
{
	const char *c = text.data;

	if (text.length == 0 || text.length >= room)
		return false;
	for (size_t i = 0; i < text.length; i++)
		if (c[i] <= ' ' || c[i] > '~' || c[i] == '/' || c[i] == '[' || c[i] == ']')
			return false;
	memcpy(host, text.data, text.length);
	host[text.length] = '\0';
	return true;
}

static bool take_port(const struct kw_reply *list, uint16_t *port)
{
	uint64_t number;

	if (!take_number(list, "port", UINT16_MAX, &number) || number == 0)
		return false;
	*port = (uint16_t)number;
	return true;
}

int kw_sentinel_reply_master(const struct kw_reply *reply, const char *name,
	struct kw_sentinel_master *master, struct kw_error *error)
{
	struct kw_sentinel_primary *primary = &master->primary;

	*master = (struct kw_sentinel_master){.epoch = 0};
	if (reply->type != KW_REPLY_ARRAY)
		return refused(reply, "SENTINEL MASTER", error);
	if (!kw_slice_equal(field(reply, "name"), kw_slice_text(name)) ||
		!take_host(field(reply, "ip"), primary->host, sizeof primary->host) ||
		!take_port(reply, &primary->port) ||
		!take_id(field(reply, "runid"), primary->run_id) ||
		!take_number(reply, "config-epoch", INT64_MAX, &master->epoch) ||
		!take_number(reply, "num-other-sentinels", UINT32_MAX, &master->others))
		return refused(reply, "SENTINEL MASTER", error);
	return KW_OK;
}

int kw_sentinel_reply_id(
	const struct kw_reply *reply, char id[KW_SENTINEL_ID + 1], struct kw_error *error)
{
	if (reply->type != KW_REPLY_STRING || !take_id(reply->text, id) || !id[0])
		return refused(reply, "SENTINEL MYID", error);
	return KW_OK;
}

bool kw_sentinel_reply_peer(const struct kw_reply *element, struct kw_sentinel_peer *peer)
{
	*peer = (struct kw_sentinel_peer){.port = 0};
	return element->type == KW_REPLY_ARRAY && take_id(field(element, "runid"), peer->id) &&
	       peer->id[0] && take_host(field(element, "ip"), peer->host, sizeof peer->host) &&
	       take_port(element, &peer->port);
}
