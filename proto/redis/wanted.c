#include "redis/wanted.h"

#include "redis/server.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define NAME_SHOWN 64
/* Of the sentence: the words around the two lists, and what the rules of a whole table take. */
#define FIXED 60
#define RULES (KW_WANTED_TEXT - FIXED - 2 * NAME_SHOWN)

static uint32_t bit(size_t index)
{
	return UINT32_C(1) << index;
}

static const char *name_of(const struct kw_wanted_check *check)
{
	return check->user[0] ? check->user : "default";
}

static bool is_of_phase(const struct kw_wanted_check *check, size_t index)
{
	const bool tried = check->wanted[index].way == KW_WANTED_TRIED;

	return tried == (check->state == KW_WANTED_TRYING);
}

/* From `next` on, the first that this phase sends. */
static void skip(struct kw_wanted_check *check)
{
	while (check->next < check->count && !is_of_phase(check, check->next))
		check->next++;
}

static void answered(void *arg, const struct kw_reply *reply);

static void send_one(struct kw_wanted_check *check, const struct kw_wanted *wanted)
{
	struct kw_slice argv[KW_WANTED_WORDS + 3];
	int argc = 0;

	if (check->state == KW_WANTED_ASKING) {
		argv[argc++] = kw_slice_text("ACL");
		argv[argc++] = kw_slice_text("DRYRUN");
		argv[argc++] = kw_slice_text(name_of(check));
	}
	for (int i = 0; wanted->words[i]; i++)
		argv[argc++] = kw_slice_text(wanted->words[i]);
	check->send(check->arg, answered, check, argc, argv);
}

static void begin_phase(struct kw_wanted_check *check, enum kw_wanted_state state)
{
	check->state = state;
	for (size_t i = 0; i < check->count; i++)
		if (is_of_phase(check, i))
			send_one(check, &check->wanted[i]);
	check->next = 0;
	skip(check);
}

static void end_phase(struct kw_wanted_check *check)
{
	if (check->state == KW_WANTED_TRYING &&
		(check->lacking || check->denied || check->thorough)) {
		begin_phase(check, KW_WANTED_ASKING);
		if (check->next < check->count)
			return;
	}
	check->state = KW_WANTED_OVER;
	check->done(check->arg);
}

/* ACL DRYRUN says OK, or in words what is missing; an error is that it is not allowed itself. */
static void judge(struct kw_wanted_check *check, const struct kw_reply *reply)
{
	const bool error = reply->type == KW_REPLY_ERROR;

	if (check->state == KW_WANTED_TRYING) {
		if (error && kw_server_error(reply->text) == KW_SERVER_E_PERMISSION)
			check->lacking |= bit(check->next);
	} else if (error) {
		check->unknown |= bit(check->next);
	} else if (reply->type == KW_REPLY_STRING) {
		check->lacking |= bit(check->next);
	}
}

static void answered(void *arg, const struct kw_reply *reply)
{
	struct kw_wanted_check *check = arg;

	if (!reply)
		return;
	assert(check->next < check->count);
	judge(check, reply);
	check->next++;
	skip(check);
	if (check->next == check->count)
		end_phase(check);
}

void kw_wanted_begin(struct kw_wanted_check *check)
{
	assert(check->count > 0 && check->count <= KW_WANTED_MAX && check->wanted[0].words[0]);
	assert(check->wanted[0].way == KW_WANTED_TRIED);
	check->lacking = check->unknown = 0;
	begin_phase(check, KW_WANTED_TRYING);
}

/* What does not fit is left out: the line at the end matters more than the last reason. */
static void add(char *text, size_t room, const char *before, const char *word)
{
	const size_t length = strlen(text);

	if (length + strlen(before) + strlen(word) < room)
		stpcpy(stpcpy(text + length, before), word);
}

/* The rules of all that is lacking, and of all that is not known. */
static void list_rules(const struct kw_wanted_check *check, char *line, size_t room)
{
	line[0] = '\0';
	for (size_t i = 0; i < check->count; i++)
		if ((check->lacking | check->unknown) & bit(i))
			add(line, room, " ", check->wanted[i].acl);
}

static void list_reasons(const struct kw_wanted_check *check, char *reasons, size_t room)
{
	reasons[0] = '\0';
	for (size_t i = 0; i < check->count; i++) {
		if (!(check->lacking & bit(i)))
			continue;
		add(reasons, room, reasons[0] ? ", " : "", check->wanted[i].acl);
		add(reasons, room, " ", check->wanted[i].why);
	}
}

void kw_wanted_texts(const struct kw_wanted_check *check, struct kw_wanted_texts *texts)
{
	assert(check->state == KW_WANTED_OVER);
	list_reasons(check, texts->lacks, sizeof texts->lacks);
	list_rules(check, texts->rules, sizeof texts->rules);
}

int kw_wanted_sentence(const struct kw_wanted_check *check, struct kw_error *error)
{
	char reasons[KW_WANTED_TEXT], line[RULES];
	const char *name = name_of(check);
	size_t room;

	assert(check->state == KW_WANTED_OVER && kw_wanted_any_lacks(check));
	list_rules(check, line, sizeof line);
	if (!check->lacking)
		return kw_error_set(error, KW_E_REFUSED,
			"the user '%.64s' lacks a permission, and ACL DRYRUN does not tell which: "
			"give it all with ACL SETUSER %.64s%s",
			name, name, line);
	room = KW_WANTED_TEXT - FIXED - strlen(line) - 2 * strnlen(name, NAME_SHOWN);
	list_reasons(check, reasons, room);
	return kw_error_set(error, KW_E_REFUSED,
		"the user '%.64s' lacks %s: give it all with ACL SETUSER %.64s%s", name, reasons,
		name, line);
}
