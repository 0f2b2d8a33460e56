#include "primary/link_settings.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#define MARK "keywake/"
#define MARK_TLS "tls/"
#define RANDOM_BYTES 16

static const struct {
	const char *name;
	size_t at, room;
} places[] = {
#define PLACE(name, member)                                                                        \
	{                                                                                          \
		name, offsetof(struct kw_link_settings, member),                                   \
			sizeof((struct kw_link_settings *)NULL)->member                            \
	}
	PLACE("masterauth", password),
	PLACE("masteruser", user),
	PLACE("replicaof", primary),
	PLACE("repl-diskless-load", diskless),
	PLACE("tls-replication", tls),
	PLACE("databases", databases),
#undef PLACE
};

static bool copy_text(struct kw_slice text, char *to, size_t room)
{
	if (text.length >= room)
		return false;
	if (text.length > 0)
		memcpy(to, text.data, text.length);
	to[text.length] = '\0';
	return true;
}

const char *kw_link_settings_read(const struct kw_reply *reply, struct kw_link_settings *settings)
{
	const char *too_long = NULL;

	*settings = (struct kw_link_settings){0};
	for (size_t i = 0; i + 1 < reply->count; i += 2)
		for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
			if (!kw_slice_equal(reply->elements[i].text, kw_slice_text(places[p].name)))
				continue;
			if (!copy_text(reply->elements[i + 1].text, (char *)settings + places[p].at,
				    places[p].room))
				too_long = places[p].name;
		}
	return too_long;
}

void kw_link_settings_wipe(struct kw_link_settings *settings)
{
	explicit_bzero(settings, sizeof *settings);
}

bool kw_link_mark_read(const char *password, struct kw_link_mark *mark)
{
	const char *from = password + strlen(MARK), *end;

	if (strncmp(password, MARK, strlen(MARK)) != 0)
		return false;
	end = strchr(from, '/');
	if (!end || end == from || end - from >= KW_LINK_SETTING ||
		strspn(from, "abcdefghijklmnopqrstuvwxyz-") != (size_t)(end - from))
		return false;
	memcpy(mark->diskless, from, (size_t)(end - from));
	mark->diskless[end - from] = '\0';
	mark->tls = strncmp(end + 1, MARK_TLS, strlen(MARK_TLS)) == 0;
	return true;
}

bool kw_link_mark_write(const struct kw_link_mark *mark, char password[KW_LOGIN_TEXT])
{
	uint8_t bytes[RANDOM_BYTES];
	int length = snprintf(
		password, KW_LOGIN_TEXT, MARK "%s/%s", mark->diskless, mark->tls ? MARK_TLS : "");

	if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
		return false;
	for (size_t i = 0; i < sizeof bytes; i++)
		length += snprintf(
			password + length, (size_t)(KW_LOGIN_TEXT - length), "%02x", bytes[i]);
	explicit_bzero(bytes, sizeof bytes);
	return true;
}
