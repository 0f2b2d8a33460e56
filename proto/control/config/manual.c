/* The table of keys as a manual: for people, for scdoc, and as the page that lists them all. */
#include "control/config/internal.h"

#include <string.h>

void kw_config_put_scdoc(struct kw_buffer *out, const char *text)
{
	for (; *text; text++) {
		if (strchr("\\_*~#[]|.-", *text))
			kw_buffer_append(out, "\\", 1);
		kw_buffer_append(out, text, 1);
	}
}

static void put_text(struct kw_buffer *out, bool scdoc, const char *text)
{
	if (scdoc)
		kw_config_put_scdoc(out, text);
	else
		kw_buffer_append(out, text, strlen(text));
}

static void put_choices(struct kw_buffer *out, bool scdoc, const char *choices)
{
	put_text(out, scdoc, ": ");
	for (; *choices; choices++) {
		char one[2] = {*choices, '\0'};

		put_text(out, scdoc, *choices == '|' ? ", " : one);
	}
}

static void put_bounds(struct kw_buffer *out, bool scdoc, const struct kw_config_key *key)
{
	char bounds[80];

	if (key->lowest == 0 && key->highest == 0)
		return;
	if (key->highest >= key->lowest)
		snprintf(bounds, sizeof bounds, " from %.15g to %.15g", key->lowest, key->highest);
	else
		snprintf(bounds, sizeof bounds, " from %.15g", key->lowest);
	put_text(out, scdoc, bounds);
}

/* "(text: a, b; default "a"; needs a restart)" */
static void put_shape(struct kw_buffer *out, bool scdoc, const struct kw_config_key *key)
{
	put_text(out, scdoc, " (");
	put_text(out, scdoc, kw_config_type_name(key->type));
	if (key->choices)
		put_choices(out, scdoc, key->choices);
	put_bounds(out, scdoc, key);
	if (key->fallback) {
		put_text(out, scdoc, "; default ");
		put_text(out, scdoc, key->fallback);
	} else {
		put_text(out, scdoc, "; required");
	}
	put_text(out, scdoc, key->live ? "; live)" : ")");
}

static void put_sources(struct kw_buffer *out, bool scdoc, const char *path)
{
	struct kw_buffer variable = {0};

	kw_config_put_variable(&variable, path);
	kw_buffer_append(&variable, "", 1);
	put_text(out, scdoc,
		"In the environment, a key is KEYWAKE_ and its name in capitals, with _ for each "
		"dot: ");
	put_text(out, scdoc, (const char *)kw_buffer_bytes(&variable));
	put_text(out, scdoc, " is ");
	put_text(out, scdoc, path);
	put_text(out, scdoc, ". It counts over the file, and under what was saved and --set.");
	kw_buffer_printf(out, "\n\n");
	kw_buffer_close(&variable);
}

static void put_entries(const struct kw_config_key *keys, bool scdoc, struct kw_buffer *out)
{
	if (keys->path)
		put_sources(out, scdoc, keys->path);
	for (; keys->path; keys++) {
		if (scdoc)
			kw_buffer_append(out, "*", 1);
		put_text(out, scdoc, keys->path);
		if (scdoc)
			kw_buffer_append(out, "*", 1);
		put_shape(out, scdoc, keys);
		kw_buffer_printf(out, scdoc ? "\n\t" : "\n    ");
		put_text(out, scdoc, keys->doc);
		kw_buffer_printf(out, "\n\n");
	}
}

/* ---- as a table of Markdown ---- */

static bool ends_with(const char *text, const char *end)
{
	const size_t length = strlen(text), end_length = strlen(end);

	return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

/* By the end of the key's name, as these names are made; "": it counts things. */
static const char *unit_of(const struct kw_config_key *key)
{
	static const char *const units[][2] = {
		{"bytes_per_second", "bytes a second"},
		{"keys_per_second", "keys a second"},
		{"_seconds", "s"},
		{"_ms", "ms"},
		{"_us", "µs"},
	};

	for (size_t i = 0; i < sizeof units / sizeof *units; i++)
		if (ends_with(key->path, units[i][0]))
			return units[i][1];
	if (key->type == KW_CONFIG_NUMBER && key->highest > 0 && key->highest <= 1)
		return "share of 1";
	return key->type == KW_CONFIG_BYTES ? "bytes" : "";
}

/* Text in a cell: a bar would end it, and < begin a tag. */
static void put_cell(struct kw_buffer *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '|')
			kw_buffer_append(out, "\\", 1);
		if (*text == '<')
			kw_buffer_printf(out, "&lt;");
		else
			kw_buffer_append(out, text, 1);
	}
}

/* "integer, ms, from 50 to 60000" */
static void put_values(struct kw_buffer *out, const struct kw_config_key *key)
{
	const char *unit = unit_of(key);

	/* Of a type that its unit names, once is enough. */
	kw_buffer_printf(out, "%s", kw_config_type_name(key->type));
	if (*unit && strcmp(unit, kw_config_type_name(key->type)) != 0)
		kw_buffer_printf(out, ", %s", unit);
	if (key->choices)
		put_choices(out, false, key->choices);
	if (key->lowest != 0 || key->highest != 0)
		kw_buffer_append(out, ",", 1);
	put_bounds(out, false, key);
}

static void put_row(struct kw_buffer *out, const struct kw_config_key *key)
{
	kw_buffer_printf(out, "| `%s`<br>`", key->path);
	kw_config_put_variable(out, key->path);
	kw_buffer_printf(out, "` | ");
	put_values(out, key);
	if (key->fallback)
		kw_buffer_printf(out, " | `%s`", key->fallback);
	else
		kw_buffer_printf(out, " | required");
	kw_buffer_printf(out, key->live ? " | while running | " : " | at a start | ");
	put_cell(out, key->doc);
	kw_buffer_printf(out, " |\n");
}

static void put_table(const struct kw_config_key *keys, const char *program, struct kw_buffer *out)
{
	kw_buffer_printf(out,
		"## %s\n\n"
		"| key, and its variable | value | default | changes | meaning |\n"
		"|---|---|---|---|---|\n",
		program);
	for (; keys->path; keys++)
		put_row(out, keys);
	kw_buffer_printf(out, "\n");
}

void kw_config_manual(const struct kw_config_key *keys, const char *program,
	enum kw_config_form form, struct kw_buffer *out)
{
	if (form == KW_CONFIG_FORM_MARKDOWN)
		put_table(keys, program, out);
	else
		put_entries(keys, form == KW_CONFIG_FORM_SCDOC, out);
}
