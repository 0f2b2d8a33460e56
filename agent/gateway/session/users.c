#include "users.h"

#include "control/config/small_file.h"
#include "user_rules.h"

#include "base/buffer.h"

#include <nettle/memops.h>
#include <stdlib.h>
#include <string.h>

struct kw_users {
	struct kw_user *list; /* in the order of their names */
	size_t count;
};

static const char default_name[] = "default";

void kw_users_free(struct kw_users *users)
{
	if (!users)
		return;
	for (size_t i = 0; i < users->count; i++)
		kw_user_close(&users->list[i]);
	free(users->list);
	free(users);
}

size_t kw_users_count(const struct kw_users *users)
{
	return users->count;
}

static struct kw_user *add_user(struct kw_users *users, struct kw_slice name)
{
	users->list = kw_realloc(users->list, (users->count + 1) * sizeof *users->list);
	kw_user_init(&users->list[users->count], name);
	return &users->list[users->count++];
}

struct kw_users *kw_users_open(void)
{
	static const char *const rules[] = {
		"on", "nopass", "allkeys", "allchannels", "allcommands"};
	struct kw_users *users = kw_zalloc(sizeof *users);
	struct kw_user *user = add_user(users, kw_slice_text(default_name));

	for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
		kw_user_rule(user, kw_slice_text(rules[i]), NULL);
	return users;
}

/* ---- the file ---- */

/* The next word of a line, which is taken off it. No bytes: there is none. */
static struct kw_slice take_word(struct kw_slice *line)
{
	const char *at = line->data, *end = at + line->length;
	struct kw_slice word;

	while (at < end && (*at == ' ' || *at == '\t' || *at == '\r'))
		at++;
	word.data = at;
	while (at < end && *at != ' ' && *at != '\t' && *at != '\r')
		at++;
	word.length = (size_t)(at - (const char *)word.data);
	*line = kw_slice(at, (size_t)(end - at));
	return word;
}

static bool contains(struct kw_slice word, char byte)
{
	return memchr(word.data, byte, word.length) != NULL;
}

static int check_name(const struct kw_users *users, struct kw_slice name, struct kw_error *error)
{
	if (name.length == 0)
		return kw_error_set(error, KW_E_CONFIG, "a name must follow the word user");
	if (users->count == KW_USERS_MAX)
		return kw_error_set(
			error, KW_E_CONFIG, "there are more than %d users", KW_USERS_MAX);
	return 0;
}

/*
 * A word is quoted so that it can be found. Only rules of commands and keys are quoted whole: any
 * other word might be a password whose > was forgotten.
 */
static int quote_word(struct kw_slice word, size_t position, struct kw_error *error)
{
	bool plain = strchr("+-~%&", *(const char *)word.data) && !contains(word, '\0');
	int most = plain ? 60 : 3;

	if (strchr("><#!", *(const char *)word.data))
		most = 1;
	return kw_error_wrap(error, "word %zu, \"%.*s%s\"", position,
		word.length < (size_t)most ? (int)word.length : most, (const char *)word.data,
		word.length > (size_t)most ? "…" : "");
}

static int read_line(struct kw_users *users, struct kw_slice line, struct kw_error *error)
{
	struct kw_slice word = take_word(&line);
	struct kw_user *user;

	if (word.length == 0 || *(const char *)word.data == '#')
		return 0;
	if (contains(line, '\0'))
		return kw_error_set(error, KW_E_CONFIG, "a zero byte: is it the right file?");
	if (!kw_slice_equal(word, kw_slice_text("user")))
		return kw_error_set(error, KW_E_CONFIG,
			"a line begins with the word user: \"user NAME on >PASSWORD ~PATTERN "
			"+@read\"");
	word = take_word(&line);
	if (check_name(users, word, error))
		return KW_E_CONFIG;
	user = add_user(users, word);
	for (size_t position = 3; (word = take_word(&line)).length > 0; position++)
		if (kw_user_rule(user, word, error))
			return quote_word(word, position, error);
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct kw_user *)a)->name, ((const struct kw_user *)b)->name);
}

static int sort(struct kw_users *users, struct kw_error *error)
{
	if (users->count > 0)
		qsort(users->list, users->count, sizeof *users->list, by_name);
	for (size_t i = 1; i < users->count; i++)
		if (by_name(&users->list[i - 1], &users->list[i]) == 0)
			return kw_error_set(error, KW_E_CONFIG,
				"there are two lines for the user %s: leave one",
				users->list[i].name);
	return 0;
}

static int read_lines(struct kw_users *users, struct kw_slice text, struct kw_error *error)
{
	const char *at = text.data, *end = at + text.length;

	for (size_t number = 1; at < end; number++) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));
		struct kw_slice line = kw_slice(at, (size_t)((stop ? stop : end) - at));

		if (read_line(users, line, error))
			return kw_error_wrap(error, "line %zu", number);
		at = stop ? stop + 1 : end;
	}
	return sort(users, error);
}

struct kw_users *kw_users_parse(struct kw_slice text, struct kw_error *error)
{
	struct kw_users *users = kw_zalloc(sizeof *users);

	if (text.length > 0 && read_lines(users, text, error)) {
		kw_users_free(users);
		return NULL;
	}
	return users;
}

struct kw_users *kw_users_load(const char *path, struct kw_error *error)
{
	struct kw_buffer text = {0};
	struct kw_users *users = NULL;
	int code = kw_small_file_read(
		path, KW_USERS_FILE_MAX, KW_FILE_SECRET, "the file of users", &text, error);

	if (!code) {
		users = kw_users_parse(
			kw_slice(kw_buffer_bytes(&text), kw_buffer_length(&text)), error);
		if (!users)
			kw_error_wrap(error, "the file of users %s", path);
	}
	if (text.data)
		explicit_bzero(text.data, text.capacity);
	kw_buffer_close(&text);
	return users;
}

/* ---- who is it? ---- */

const struct kw_user *kw_users_find(const struct kw_users *users, struct kw_slice name)
{
	size_t low = 0, high = users->count;

	if (name.length == 0 || contains(name, '\0'))
		return NULL;
	while (low < high) {
		size_t middle = (low + high) / 2;
		const char *other = users->list[middle].name;
		int order = strncmp(name.data, other, name.length);

		if (order == 0 && other[name.length] == '\0')
			return &users->list[middle];
		if (order > 0)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

static bool knows_password(const struct kw_user *user, const uint8_t hash[KW_USER_HASH_BYTES])
{
	int found = 0;

	for (size_t i = 0; i < user->password_count; i++)
		found |= memeql_sec(user->passwords[i].hash, hash, KW_USER_HASH_BYTES);
	return found;
}

bool kw_user_admits(const struct kw_user *user, const uint8_t hash[KW_USER_HASH_BYTES])
{
	const bool known = knows_password(user, hash);

	return user->enabled && (known || user->any_password);
}

const struct kw_user *kw_users_login(
	const struct kw_users *users, struct kw_slice name, struct kw_slice password)
{
	const struct kw_user *user = kw_users_find(users, name);
	uint8_t hash[KW_USER_HASH_BYTES];

	kw_user_hash(password, hash);
	return user && kw_user_admits(user, hash) ? user : NULL;
}

const struct kw_user *kw_users_unnamed(const struct kw_users *users)
{
	const struct kw_user *user = kw_users_find(users, kw_slice_text(default_name));

	return user && user->enabled && user->any_password ? user : NULL;
}
