#include "lease.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* All agents' connections begin with this. An agent without leases has this name alone. */
#define MARK "keywake-agent"
#define ALLOWED "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

/* A line of CLIENT LIST is some 400 bytes; of a longer one the end is not looked at. */
#define LINE_MAX_BYTES 1024

static const char *const stages[] = {
	[KW_LEASE_WAITS] = "waits",
	[KW_LEASE_CLAIMS] = "claims",
	[KW_LEASE_WRITES] = "writes",
};
#define STAGES (sizeof stages / sizeof *stages)

/* ---- an owner, and its text ---- */

static void copy_allowed(char to[static KW_LEASE_TEXT], const char *from)
{
	size_t length = 0;

	for (; from[length] && length < KW_LEASE_TEXT - 1; length++)
		to[length] = strchr(ALLOWED, from[length]) ? from[length] : '_';
	if (length == 0)
		to[length++] = '_';
	to[length] = '\0';
}

void kw_lease_owner_set(
	struct kw_lease_owner *owner, uint64_t session, const char *agent, const char *host)
{
	assert(session != 0);
	*owner = (struct kw_lease_owner){.session = session};
	copy_allowed(owner->agent, agent);
	copy_allowed(owner->host, host);
}

void kw_lease_owner_text(const struct kw_lease_owner *owner, char text[static KW_LEASE_OWNER_TEXT])
{
	snprintf(text, KW_LEASE_OWNER_TEXT, "%016" PRIx64 ":%s@%s", owner->session, owner->agent,
		owner->host);
}

void kw_lease_name(const struct kw_lease_owner *owner, enum kw_lease_stage stage,
	char name[static KW_LEASE_NAME])
{
	char text[KW_LEASE_OWNER_TEXT];

	assert((size_t)stage < STAGES);
	kw_lease_owner_text(owner, text);
	snprintf(name, KW_LEASE_NAME, MARK ":%s:%s", stages[stage], text);
}

bool kw_lease_owner_parse(struct kw_slice slice, struct kw_lease_owner *owner)
{
	char text[KW_LEASE_OWNER_TEXT], again[KW_LEASE_OWNER_TEXT];
	struct kw_lease_owner found = {0};

	static_assert(KW_LEASE_TEXT == 65, "the field width below");
	if (slice.length == 0 || slice.length >= sizeof text)
		return false;
	memcpy(text, slice.data, slice.length);
	text[slice.length] = '\0';
	if (sscanf(text, "%16" SCNx64 ":%64[-._a-zA-Z0-9]@%64[-._a-zA-Z0-9]", &found.session,
		    found.agent, found.host) != 3 ||
		found.session == 0)
		return false;
	/* sscanf accepts signs and what follows; only the text that we would write is one. */
	kw_lease_owner_text(&found, again);
	if (strcmp(text, again) != 0)
		return false;
	*owner = found;
	return true;
}

/* ---- CLIENT LIST ---- */

/* The value of ` field=` in a line that ends with a NUL. Empty when it is not there. */
static struct kw_slice field_of(const char *line, const char *field)
{
	size_t length = strlen(field);
	const char *at = line;

	while (at && (strncmp(at, field, length) != 0 || at[length] != '=')) {
		at = strchr(at, ' ');
		if (at)
			at++;
	}
	if (!at)
		return (struct kw_slice){0};
	at += length + 1;
	return kw_slice(at, strcspn(at, " "));
}

/* Up to 19 digits: more than a server has ever counted, and no overflow. */
static bool is_number(struct kw_slice slice, uint64_t *number)
{
	char text[20];

	if (slice.length == 0 || slice.length >= sizeof text)
		return false;
	memcpy(text, slice.data, slice.length);
	text[slice.length] = '\0';
	if (strspn(text, "0123456789") != slice.length)
		return false;
	*number = strtoull(text, NULL, 10);
	return true;
}

/* Is this the name of an agent's connection? */
static bool parse_name(struct kw_slice name, struct kw_lease_seen *seen)
{
	const char *at = name.data;
	size_t left = name.length, mark = strlen(MARK);

	if (left < mark || memcmp(at, MARK, mark) != 0)
		return false;
	at += mark;
	left -= mark;
	/* Before there were leases: such an agent writes as soon as it is connected. */
	if (left == 0) {
		seen->stage = KW_LEASE_WRITES;
		return true;
	}
	for (size_t i = 0; i < STAGES; i++) {
		size_t length = strlen(stages[i]);

		if (left > length + 2 && at[0] == ':' && memcmp(at + 1, stages[i], length) == 0 &&
			at[length + 1] == ':') {
			seen->stage = (enum kw_lease_stage)i;
			return kw_lease_owner_parse(
				kw_slice(at + length + 2, left - length - 2), &seen->owner);
		}
	}
	return false;
}

static bool parse_line(const char *line, struct kw_lease_seen *seen)
{
	*seen = (struct kw_lease_seen){0};
	return is_number(field_of(line, "id"), &seen->id) && seen->id > 0 &&
	       is_number(field_of(line, "idle"), &seen->idle_s) &&
	       parse_name(field_of(line, "name"), seen);
}

static void add_dead(struct kw_lease_survey *survey, uint64_t id)
{
	if (survey->dead_count < KW_LEASE_DEAD_MAX)
		survey->dead[survey->dead_count++] = id;
}

/* The newest connection of this agent is the one that asked; earlier ones were lost. */
static void note_own(struct kw_lease_survey *survey, const struct kw_lease_seen *seen)
{
	uint64_t former = seen->id;

	if (seen->id > survey->own) {
		former = survey->own;
		survey->own = seen->id;
		survey->stage = seen->stage;
	}
	if (former > 0)
		add_dead(survey, former);
}

static void note_other(struct kw_lease_survey *survey, const struct kw_lease_seen *seen)
{
	if (seen->stage == KW_LEASE_WAITS)
		return;
	if (seen->idle_s > KW_LEASE_IDLE_S)
		add_dead(survey, seen->id);
	else if (seen->stage == KW_LEASE_WRITES && survey->writer.id == 0)
		survey->writer = *seen;
	else if (seen->stage == KW_LEASE_CLAIMS &&
		 (survey->claimer.id == 0 || seen->id < survey->claimer.id))
		survey->claimer = *seen;
}

/* A server that lists one id twice, under two names, is not to make us end our own connection. */
static void spare_own(struct kw_lease_survey *survey)
{
	size_t kept = 0;

	for (size_t i = 0; i < survey->dead_count; i++)
		if (survey->dead[i] != survey->own)
			survey->dead[kept++] = survey->dead[i];
	survey->dead_count = kept;
}

void kw_lease_look(
	struct kw_lease_survey *survey, struct kw_slice list, const struct kw_lease_owner *me)
{
	const char *at = list.data;
	size_t left = list.length;

	*survey = (struct kw_lease_survey){0};
	while (left > 0) {
		const char *end = memchr(at, '\n', left);
		size_t whole = end ? (size_t)(end - at) : left, length = whole;
		char line[LINE_MAX_BYTES];
		struct kw_lease_seen seen;

		if (length >= sizeof line)
			length = sizeof line - 1;
		memcpy(line, at, length);
		line[length] = '\0';
		if (parse_line(line, &seen)) {
			if (seen.owner.session == me->session)
				note_own(survey, &seen);
			else
				note_other(survey, &seen);
		}
		at += whole + (end != NULL);
		left -= whole + (end != NULL);
	}
	spare_own(survey);
}

/* ---- the verdicts ---- */

enum kw_lease_verdict kw_lease_judge(const struct kw_lease_survey *survey)
{
	bool unseen = survey->own == 0 || survey->stage == KW_LEASE_WAITS;

	if (survey->writer.id > 0)
		return KW_LEASE_TAKEN;
	/* A claimer that cannot see this agent goes on to write. */
	if (survey->claimer.id > 0 && (unseen || survey->claimer.id < survey->own))
		return KW_LEASE_YIELD;
	if (unseen)
		return KW_LEASE_UNSEEN;
	return survey->claimer.id > 0 ? KW_LEASE_AWAIT : KW_LEASE_FREE;
}

const struct kw_lease_seen *kw_lease_other(const struct kw_lease_survey *survey)
{
	return survey->writer.id > 0 ? &survey->writer : &survey->claimer;
}

bool kw_lease_lost(const struct kw_lease_owner *me, const struct kw_lease_owner *entered,
	const struct kw_lease_owner *found)
{
	return found->session != me->session && found->session != entered->session;
}

void kw_lease_refusal(const struct kw_lease_owner *other, char *text, size_t room)
{
	if (other->session == 0)
		snprintf(text, room,
			"an agent of an earlier version writes to this server: stop it, or give "
			"this agent another server (redis.address)");
	else
		snprintf(text, room,
			"agent %s on %s writes to this server: stop it, or give this agent another "
			"server (redis.address)",
			other->agent, other->host);
}
