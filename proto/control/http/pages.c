#include "control/http/internal.h"

#include "base/clock.h"
#include "control/json_text.h"

#include <stdlib.h>
#include <string.h>

#define TEXT "text/plain; charset=utf-8"
#define JSON "application/json"
#define PROMETHEUS "text/plain; version=0.0.4; charset=utf-8"

#define HTML "text/html; charset=utf-8"

#define TRANSITIONS_SHOWN 20
#define RETRY_MS 1000 /* a browser comes back after so long */

#define LAG_DIGITS 9 /* of max_lag_ms: eleven days are enough */

struct page {
	const char *path, *doc;
	bool open;
	void (*answer)(const struct kw_http_source *source, const struct http_request *request,
		struct http_answer *answer);
};

static void say(struct http_answer *answer, unsigned status, const char *text)
{
	answer->status = status;
	answer->type = TEXT;
	kw_buffer_printf(&answer->body, "%s\n", text);
}

static void answer_health(const struct kw_http_source *source, const struct http_request *request,
	struct http_answer *answer)
{
	say(answer, 200, "ok");
}

/* Microseconds; false: it is no number of milliseconds. */
static bool read_lag(const char *text, uint64_t *lag_us)
{
	size_t length = strlen(text);

	if (length == 0 || length > LAG_DIGITS || strspn(text, "0123456789") != length)
		return false;
	*lag_us = strtoull(text, NULL, 10) * 1000;
	return true;
}

/* A stranger gets the words alone: a sentence can have addresses and names in it. */
static void say_readiness(const struct kw_http_readiness *now, bool ready,
	const struct http_request *request, struct http_answer *answer)
{
	answer->status = ready ? 200 : 503;
	answer->type = TEXT;
	kw_buffer_printf(&answer->body, "%s: %s", ready ? "ready" : "not ready", now->state);
	if (!request->stranger && now->lag_us != KW_HTTP_LAG_UNKNOWN)
		kw_buffer_printf(&answer->body, ", lag_ms %.1f", (double)now->lag_us / 1000);
	if (!request->stranger && *now->reason)
		kw_buffer_printf(&answer->body, ": %s", now->reason);
	kw_buffer_append(&answer->body, "\n", 1);
}

static void answer_ready(const struct kw_http_source *source, const struct http_request *request,
	struct http_answer *answer)
{
	struct kw_http_readiness now = {.reason = "", .lag_us = KW_HTTP_LAG_UNKNOWN};
	uint64_t most_us = UINT64_MAX;

	if (request->max_lag_ms && !read_lag(request->max_lag_ms, &most_us)) {
		say(answer, 400, "max_lag_ms must be a number of milliseconds, like 200");
		return;
	}
	source->ready(source->arg, &now);
	say_readiness(&now, now.ready && (!request->max_lag_ms || now.lag_us <= most_us), request,
		answer);
}

/* As JSON, with the texts of control/json_text.h. Takes the value; the caller frees the text. */
static char *dump(json_t *value, size_t flags)
{
	json_t *exact = kw_json_exact(value);
	char *text = json_dumps(exact, KW_JSON_DIGITS | flags);

	json_decref(exact);
	json_decref(value);
	return text;
}

/* Names of keys are told to few. */
static json_t *make_status(const struct kw_http_source *source, bool names)
{
	json_t *status = source->status(source->arg);

	if (!names)
		json_object_del(status, "quarantine");
	return status;
}

static void answer_status(const struct kw_http_source *source, const struct http_request *request,
	struct http_answer *answer)
{
	char *text = dump(make_status(source, request->names), JSON_INDENT(2));

	say(answer, text ? 200 : 500, text ? text : "the status could not be written");
	answer->type = text ? JSON : TEXT;
	free(text);
}

static void answer_metrics(const struct kw_http_source *source, const struct http_request *request,
	struct http_answer *answer)
{
	answer->status = 200;
	answer->type = PROMETHEUS;
	source->metrics(source->arg, &answer->body);
}

/* Each text of a message stands in a JSON string, so no byte of others ends the line. */
void http_page_event(const struct kw_http_source *source, bool names, struct kw_buffer *event)
{
	json_t *status = make_status(source, names); /* first: it can move the state */
	json_t *agents = source->agents ? source->agents(source->arg) : json_array();
	json_t *all = json_pack("{s:s,s:s,s:I,s:o,s:o,s:o}", "daemon", source->daemon, "version",
		KW_VERSION, "now_us", (json_int_t)kw_wall_us(), "status", status, "agents", agents,
		"transitions", kw_transitions_json(source->transitions, TRANSITIONS_SHOWN));
	char *text = dump(all, JSON_COMPACT);

	kw_buffer_printf(event, "retry: %d\ndata: %s\n\n", RETRY_MS, text ? text : "{}");
	free(text);
}

static void answer_events(const struct kw_http_source *source, const struct http_request *request,
	struct http_answer *answer)
{
	answer->status = 200;
	answer->type = HTTP_EVENT_STREAM;
	http_page_event(source, request->names, &answer->body);
}

static void answer_page(const struct kw_http_source *source, const struct http_request *request,
	struct http_answer *answer)
{
	answer->status = 200;
	answer->type = HTML;
	answer->policy = http_page_policy;
	kw_buffer_append(&answer->body, http_page_html, http_page_length);
}

static const struct page pages[] = {
	{"/", "this, for people: a page that stays up to date", false, answer_page},
	{"/healthz", "200 while the daemon runs", true, answer_health},
	{"/readyz", "200 while it is ready, 503 otherwise; ?max_lag_ms=N asks for more", true,
		answer_ready},
	{"/metrics", "the figures, for Prometheus", false, answer_metrics},
	{"/status", "what keywakectl status tells, as JSON", false, answer_status},
	{"/events", "the same each second, as a stream of events", false, answer_events},
};

#define PAGES (sizeof pages / sizeof *pages)

static const struct page *find(const char *path)
{
	for (size_t i = 0; i < PAGES; i++)
		if (strcmp(pages[i].path, path) == 0)
			return &pages[i];
	return NULL;
}

bool http_page_is_open(const char *path)
{
	const struct page *page = find(path);

	return page && page->open;
}

static void say_what_there_is(struct http_answer *answer)
{
	say(answer, 404, "there is no such page; these are there:");
	for (size_t i = 0; i < PAGES; i++)
		kw_buffer_printf(&answer->body, "  %s  %s\n", pages[i].path, pages[i].doc);
}

void http_page_answer(const struct kw_http_source *source, const struct http_request *request,
	struct http_answer *answer)
{
	const struct page *page = find(request->path);

	if (page)
		page->answer(source, request, answer);
	else
		say_what_there_is(answer);
}

void http_page_refuse_stream(struct http_answer *answer)
{
	char text[128];

	snprintf(text, sizeof text, "%d clients listen already: close one, or ask for /status",
		KW_HTTP_STREAMS_MAX);
	say(answer, 503, text);
}

void http_page_refuse(enum kw_http_verdict verdict, struct http_answer *answer)
{
	if (verdict == KW_HTTP_UNPROVED)
		say(answer, 401,
			"send the secret of http.secret_file: as the password of the user keywake, "
			"or by Authorization: Bearer");
	else
		say(answer, 421,
			"ask for this port by an IP address or by localhost, or set "
			"http.secret_file: without a secret, other names are refused (DNS "
			"rebinding)");
}
