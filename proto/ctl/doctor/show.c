#include "ctl/doctor/show.h"

#include <string.h>

#define INDENT 9
#define LEAST_COLUMNS 40

static const char *const severities[] = {"wrong", "warning", "ok"};
#define SEVERITIES (sizeof severities / sizeof *severities)

static const char *text_of(const json_t *finding, const char *name)
{
	const char *text = json_string_value(json_object_get(finding, name));

	return text ? text : "";
}

void ctl_doctor_sort(json_t *report)
{
	json_t *findings = json_object_get(report, "findings"), *sorted = json_array();

	for (size_t s = 0; s < SEVERITIES; s++)
		for (size_t i = 0; i < json_array_size(findings); i++) {
			json_t *finding = json_array_get(findings, i);

			if (strcmp(text_of(finding, "severity"), severities[s]) == 0)
				json_array_append(sorted, finding);
		}
	json_object_set_new(report, "findings", sorted);
}

/* The bytes of text that one line of so many columns takes: whole words, if there is a space. */
static size_t line_length(const char *text, size_t columns)
{
	size_t length = strlen(text), at = columns;

	if (length <= columns)
		return length;
	while (at > 0 && text[at] != ' ')
		at--;
	if (at > 0)
		return at;
	at = columns;
	while (at < length && ((unsigned char)text[at] & 0xc0) == 0x80)
		at++;
	return at;
}

/* first stands before the first line, in place of the indent. */
static void print_wrapped(const char *first, const char *text)
{
	int columns = ctl_columns(stdout);
	size_t room = (size_t)(columns < LEAST_COLUMNS ? LEAST_COLUMNS : columns) - INDENT;

	for (; *text; first = "") {
		size_t length = line_length(text, room);

		printf("%-*s%.*s\n", INDENT, first, (int)length, text);
		text += length;
		text += strspn(text, " ");
	}
}

static const char *colour_of(const struct ctl *ctl, const char *severity)
{
	if (strcmp(severity, "wrong") == 0)
		return ctl_state_colour(ctl, "failed");
	return ctl_state_colour(ctl, strcmp(severity, "ok") == 0 ? "live" : "lagging");
}

static void show_one(const struct ctl *ctl, const json_t *finding)
{
	char shown[KW_ERROR_TEXT * 3];
	const char *severity = text_of(finding, "severity");

	printf("%s%-*s%s", colour_of(ctl, severity), INDENT, severity, ctl_colour_end(ctl));
	printf("%s%s%s\n", ctl_bold(ctl),
		ctl_show_text(text_of(finding, "check"), shown, sizeof shown), ctl_colour_end(ctl));
	print_wrapped("", ctl_show_text(text_of(finding, "finding"), shown, sizeof shown));
	if (*text_of(finding, "remedy"))
		print_wrapped("     do: ",
			ctl_show_text(text_of(finding, "remedy"), shown, sizeof shown));
}

void ctl_doctor_show(const struct ctl *ctl, const json_t *report)
{
	const json_t *findings = json_object_get(report, "findings");

	for (size_t i = 0; i < json_array_size(findings); i++)
		show_one(ctl, json_array_get(findings, i));
	printf("\n%lld wrong, %lld with a warning, %lld ok\n",
		(long long)json_integer_value(json_object_get(report, "wrong")),
		(long long)json_integer_value(json_object_get(report, "warnings")),
		(long long)json_integer_value(json_object_get(report, "ok")));
}
