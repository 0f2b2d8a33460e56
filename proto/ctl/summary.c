/* The dozen lines of a status that matter first, for a person who has just been woken. */
#include "ctl/ctl.h"

#include "base/clock.h"

#include <string.h>

#define PARTS_MAX 3
#define BAR_COLUMNS 40
#define INDENT 2

enum shown { ALWAYS, UNLESS_ZERO };

/*
 * A value within the status ("local.keys"), with the words around it. Without the value there are
 * no words. A null is a word of its own.
 */
struct part {
	const char *before, *path, *after;
	enum shown shown;
};

static const struct line {
	const char *program, *label;
	struct part parts[PARTS_MAX];
} lines[] = {
	{"keywake-proxy", "fresh", {{"", "fresh_us", ""}}},
	{"keywake-proxy", "keys",
		{{"", "keys", ""}, {", to be fetched: ", "dirty_keys", "", UNLESS_ZERO}}},
	{"keywake-proxy", "table",
		{{"", "table.used_bytes", ""}, {" of ", "table.capacity_bytes", ""}}},
	{"keywake-proxy", "primary", {{"", "redis", ""}, {" (", "mandate.role", ")"}}},
	{"keywake-proxy", "feed", {{"", "feed.kind", ""}}},
	{"keywake-proxy", "pace",
		{{"", "pace.taken", " of the primary's time"}, {", at most ", "pace.target", ""}}},
	{"keywake-proxy", "agents", {{"", "agents", ""}}},

	{"keywake-agent", "lag", {{"", "lag_ms", ""}}},
	{"keywake-agent", "fresh", {{"", "fresh_us", ""}}},
	{"keywake-agent", "keys",
		{{"", "local.keys", ""}, {", in quarantine: ", "quarantined", "", UNLESS_ZERO}}},
	{"keywake-agent", "proxy", {{"", "proxy", ""}, {" (", "transport", ")"}}},
	{"keywake-agent", "server", {{"", "local.address", ""}, {" (", "local.version", ")"}}},
	{"keywake-agent", "mode", {{"", "mode", ""}}},
	{"keywake-agent", "audit", {{"each key within the last ", "proven_equal_s", ""}}},

	{"keywake-gateway", "age", {{"", "age_ms", ""}}},
	{"keywake-gateway", "proxy", {{"", "proxy", ""}, {" (", "transport", ")"}}},
	{"keywake-gateway", "clients", {{"", "clients", ""}}},
	{"keywake-gateway", "forward", {{"", "forward", ""}}},
};

static const char *field_text(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));

	return text ? text : "";
}

/* ---- the first lines ---- */

static void print_reason(const json_t *status)
{
	char text[CTL_CELL], code[CTL_CELL], line[2 * CTL_CELL + 4];

	ctl_show_text(field_text(status, "reason"), text, sizeof text);
	ctl_show_text(field_text(status, "reason_code"), code, sizeof code);
	snprintf(line, sizeof line, *code ? "%s [%s]" : "%s", text, code);
	printf("%*s", INDENT, "");
	ctl_print_wrapped(line, INDENT);
}

void ctl_print_state(const struct ctl *ctl, const char *program, const json_t *status)
{
	double progress = json_number_value(json_object_get(status, "progress"));
	const char *state = field_text(status, "state");
	char text[CTL_CELL];

	printf("%s%s%s", ctl_bold(ctl), ctl_show_text(program, text, sizeof text),
		ctl_colour_end(ctl));
	if (*field_text(status, "name"))
		printf(" %s", ctl_show_text(field_text(status, "name"), text, sizeof text));
	printf(": %s%s%s\n", ctl_mood_colour(ctl, ctl_mood_of(status)),
		ctl_show_text(state, text, sizeof text), ctl_colour_end(ctl));
	if (*field_text(status, "reason"))
		print_reason(status);
	if (progress > 0 && progress < 1) {
		ctl_bar(progress, BAR_COLUMNS, text, sizeof text);
		printf("%*s%s\n", INDENT, "", text);
	}
}

/* When the state began; the reason alone can have changed since. */
static void add_since(json_t *fields, const json_t *status)
{
	uint64_t since = (uint64_t)json_integer_value(json_object_get(status, "since_us"));
	uint64_t now = kw_wall_us();
	char at[40], ago[64];

	if (since == 0)
		return;
	json_object_set_new(fields, "since",
		json_sprintf("%s, for %s", ctl_show_time(since, at, sizeof at),
			ctl_show_us(now > since ? (double)(now - since) : 0, ago, sizeof ago)));
}

/* ---- the figures ---- */

/* "local.keys", and its last name, which has the unit. */
static const json_t *find(const json_t *status, const char *path, char name[CTL_CELL])
{
	const char *dot;

	for (; (dot = strchr(path, '.')) != NULL; path = dot + 1) {
		snprintf(name, CTL_CELL, "%.*s", (int)(dot - path), path);
		status = json_object_get(status, name);
	}
	snprintf(name, CTL_CELL, "%s", path);
	return json_object_get(status, path);
}

static bool is_nothing(const json_t *value, enum shown shown)
{
	return !value || (json_is_string(value) && json_string_length(value) == 0) ||
	       (shown == UNLESS_ZERO && json_number_value(value) == 0);
}

static void add_line(json_t *fields, const struct line *line, const json_t *status)
{
	char text[PARTS_MAX * CTL_CELL] = "", name[CTL_CELL], cell[CTL_CELL];
	size_t at = 0;

	for (int i = 0; i < PARTS_MAX && line->parts[i].path; i++) {
		const struct part *part = &line->parts[i];
		const json_t *value = find(status, part->path, name);

		if (is_nothing(value, part->shown))
			continue;
		ctl_show_value(name, value, cell);
		at += (size_t)snprintf(text + at, sizeof text - at,
			json_is_null(value) ? "%.0s%s%.0s" : "%s%s%s", part->before, cell,
			part->after);
	}
	/* What is printable already is not changed when it is shown once more. */
	if (at > 0)
		json_object_set_new(fields, line->label, json_string(text));
}

void ctl_print_summary(const struct ctl *ctl, const char *program, const json_t *status)
{
	json_t *fields = json_object();

	ctl_print_state(ctl, program, status);
	if (*field_text(status, "remedy"))
		json_object_set(fields, "do", json_object_get(status, "remedy"));
	add_since(fields, status);
	for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
		if (strcmp(lines[i].program, program) == 0)
			add_line(fields, &lines[i], status);
	ctl_print_fields(ctl, fields);
	printf("%*s(every figure: keywakectl status --all)\n", INDENT, "");
	json_decref(fields);
}
