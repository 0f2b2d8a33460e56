/* CONFIG GET: the few settings that clients ask for, as they hold here. */
#include "calls.h"

#include "gateway/answers/words.h"
#include "gateway/resp/request.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PATTERN_MAX 64 /* no setting has so long a name */

struct setting {
	const char *name;
	char value[24];
};

/* In the order of their names. */
static const struct setting fixed[] = {
	{"appendonly", "no"},
	{"io-threads", "1"},
	{"maxmemory", "0"},
	{"maxmemory-policy", "noeviction"},
	{"notify-keyspace-events", ""},
	{"protected-mode", "no"},
	{"requirepass", ""},
	{"save", ""},
	{"slave-read-only", "yes"},
	{"replica-read-only", "yes"},
	{"tcp-keepalive", "300"},
};
#define FIXED (sizeof fixed / sizeof *fixed)
#define SETTINGS (FIXED + 4)

static void fill(const struct kw_call *call, struct setting settings[SETTINGS])
{
	const struct kw_session_host *host = call->host;
	const struct kw_session_facts facts = kw_session_look(call->session, host);
	struct setting *at = settings;

	for (size_t i = 0; i < FIXED; i++)
		*at++ = fixed[i];
	at->name = "databases";
	snprintf(at->value, sizeof at->value, "%" PRIu32, host->databases ? host->databases : 16);
	at++;
	at->name = "maxclients";
	snprintf(at->value, sizeof at->value, "%" PRIu64, facts.max_clients);
	at++;
	at->name = "proto-max-bulk-len";
	snprintf(at->value, sizeof at->value, "%" PRIu64, KW_REQUEST_BULK_MAX);
	at++;
	at->name = "timeout";
	snprintf(at->value, sizeof at->value, "%" PRIu64, facts.idle_timeout_s);
}

static bool is_pattern(struct kw_slice word)
{
	const char *text = word.data;

	for (size_t i = 0; i < word.length; i++)
		if (strchr("*?[", text[i]))
			return true;
	return false;
}

static bool matches(const struct setting *setting, struct kw_slice pattern)
{
	char lower[PATTERN_MAX];
	const char *text = pattern.data;

	if (pattern.length > sizeof lower)
		return false;
	for (size_t i = 0; i < pattern.length; i++)
		lower[i] = (char)tolower((unsigned char)text[i]);
	return kw_word_matches(kw_slice_text(setting->name), kw_slice(lower, pattern.length));
}

/*
 * By which name a setting is told: a word that is no pattern is repeated as it was written, as the
 * server does. False: it was not asked for.
 */
static bool is_wanted(
	const struct kw_call *call, const struct setting *setting, struct kw_slice *name)
{
	for (size_t i = 2; i < call->count; i++) {
		struct kw_slice word = call->words[i];
		bool pattern = is_pattern(word);

		*name = pattern ? kw_slice_text(setting->name) : word;
		if (pattern ? matches(setting, word) : kw_word_is(word, setting->name))
			return true;
	}
	return false;
}

void kw_call_config_get(struct kw_call *call)
{
	struct setting settings[SETTINGS];
	struct kw_slice name;
	size_t wanted = 0;

	fill(call, settings);
	for (size_t i = 0; i < SETTINGS; i++)
		wanted += is_wanted(call, &settings[i], &name);
	kw_reply_map(call->to, wanted);
	for (size_t i = 0; i < SETTINGS; i++)
		if (is_wanted(call, &settings[i], &name)) {
			kw_reply_bulk(call->to, name);
			kw_reply_bulk(call->to, kw_slice_text(settings[i].value));
		}
}
