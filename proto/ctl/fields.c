/* An object for people: a line for each field, aligned. */
#include "ctl/ctl.h"

#include <string.h>

#define GAP 2       /* between a name and its value */
#define INDENT 2    /* of what stands below a name */
#define DEPTH_MAX 8 /* what lies deeper is shown as JSON */

static bool is_list_of_objects(const json_t *value)
{
	return json_is_object(json_array_get(value, 0));
}

/* What has lines of its own, below its name. */
static bool stands_below(const json_t *value, int indent)
{
	return indent < DEPTH_MAX * INDENT && (json_is_object(value) || is_list_of_objects(value));
}

static int name_width(const json_t *object, int indent)
{
	const char *name;
	json_t *value;
	int most = 0;

	json_object_foreach((json_t *)(uintptr_t)object, name, value)
	{
		int own = indent + ctl_width(name);

		if (stands_below(value, indent))
			own = json_is_object(value) ? name_width(value, indent + INDENT) : 0;
		if (own > most)
			most = own;
	}
	return most;
}

static bool is_empty(const json_t *value)
{
	return (json_is_object(value) && json_object_size(value) == 0) ||
	       (json_is_string(value) && json_string_length(value) == 0);
}

static void print_rows(const struct ctl *ctl, const json_t *list, int indent)
{
	const struct ctl_rows rows = {
		.stream = stdout, .columns = ctl_columns_of_output(), .indent = indent};

	ctl_put_rows(ctl, &rows, list);
}

static void print_fields(const struct ctl *ctl, const json_t *object, int indent, int column)
{
	char cell[CTL_CELL], label[CTL_CELL];
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)object, name, value)
	{
		ctl_show_text(name, label, sizeof label);
		if (is_empty(value))
			continue;
		if (stands_below(value, indent)) {
			printf("%*s%s\n", indent, "", label);
			if (json_is_object(value))
				print_fields(ctl, value, indent + INDENT, column);
			else
				print_rows(ctl, value, indent + INDENT);
			continue;
		}
		printf("%*s%s%*s", indent, "", label, column - indent - ctl_width(label) + GAP, "");
		ctl_show_value(name, value, cell);
		if (strcmp(name, "state") == 0 && json_is_string(value))
			printf("%s%s%s\n", ctl_mood_colour(ctl, ctl_mood_of(object)), cell,
				ctl_colour_end(ctl));
		else
			ctl_print_wrapped(cell, column + GAP);
	}
}

void ctl_print_fields(const struct ctl *ctl, const json_t *object)
{
	print_fields(ctl, object, INDENT, name_width(object, INDENT));
}
