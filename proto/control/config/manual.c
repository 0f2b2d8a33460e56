/* The table of keys as a manual, for people and for scdoc. */
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

void kw_config_manual(const struct kw_config_key *keys, bool scdoc, struct kw_buffer *out)
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
