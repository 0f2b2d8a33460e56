/* Values for people: units are known by the fields' names, so new fields need no change here. */
#include "ctl/ctl.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/printable.h"
#include "control/json_text.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COLUMNS_MAX 24

enum unit { COUNT, NUMBER, HEX, BYTES, MILLISECONDS, MICROSECONDS, MOMENT, SECONDS, RATIO };

/* Names whose unit is not in their last word; the rest is known by suffix. */
static const struct {
	const char *name;
	enum unit unit;
} named_units[] = {
	{"id", NUMBER},
	{"pid", NUMBER},
	{"epoch", HEX},
	{"port", NUMBER},
	{"database", NUMBER},
	{"db", NUMBER},
	{"bytes", BYTES},
	{"bytes_read", BYTES},
	{"progress", RATIO},
	{"utilisation", RATIO},
	{"begun_us", MOMENT},
	{"connected_us", MOMENT},
	{"fresh_us", MOMENT},
	{"heartbeat_us", MOMENT},
	{"published_us", MOMENT},
	{"since_us", MOMENT},
	{"started_us", MOMENT},
};

static const struct {
	const char *suffix;
	enum unit unit;
} suffix_units[] = {
	{"_bytes", BYTES},
	{"_ms", MILLISECONDS},
	{"_us", MICROSECONDS},
	{"_at_us", MOMENT},
	{"_seconds", SECONDS},
	{"_s", SECONDS},
};

static bool ends_with(const char *text, const char *end)
{
	size_t length = strlen(text), tail = strlen(end);

	return length >= tail && strcmp(text + length - tail, end) == 0;
}

static enum unit unit_of(const char *name)
{
	enum unit unit = COUNT;

	for (size_t i = 0; i < sizeof named_units / sizeof *named_units; i++)
		if (strcmp(named_units[i].name, name) == 0)
			return named_units[i].unit;
	for (size_t i = 0; i < sizeof suffix_units / sizeof *suffix_units; i++)
		if (ends_with(name, suffix_units[i].suffix))
			unit = suffix_units[i].unit;
	return unit;
}

const char *ctl_show_slice(struct kw_slice raw, char *text, size_t size)
{
	kw_printable(text, size, raw, KW_NEWLINE_ESCAPED);
	return text;
}

const char *ctl_show_text(const char *raw, char *text, size_t size)
{
	return ctl_show_slice(kw_slice_text(raw), text, size);
}

const char *ctl_show_count(double count, char *text, size_t size)
{
	char digits[32];
	size_t length, at = 0;

	if (!isfinite(count) || fabs(count) >= 1e18) {
		snprintf(text, size, "%g", count);
		return text;
	}
	snprintf(digits, sizeof digits, "%.0f", count);
	length = strlen(digits);
	for (size_t i = 0; i < length && at + 2 < size; i++) {
		size_t left = length - i;

		if (i > 0 && digits[i - 1] != '-' && left % 3 == 0)
			text[at++] = ',';
		text[at++] = digits[i];
	}
	text[at] = '\0';
	return text;
}

const char *ctl_show_bytes(double bytes, char *text, size_t size)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
	size_t unit = 0;

	for (; fabs(bytes) >= 1024 && unit + 1 < sizeof units / sizeof *units; unit++)
		bytes /= 1024;
	snprintf(
		text, size, "%.*f %s", unit == 0 || fabs(bytes) >= 100 ? 0 : 1, bytes, units[unit]);
	return text;
}

const char *ctl_show_us(double us, char *text, size_t size)
{
	double seconds = us / 1e6;
	unsigned long long whole;

	if (fabs(us) < 1000)
		snprintf(text, size, "%.0f µs", us);
	else if (fabs(us) < 1e6)
		snprintf(text, size, "%.1f ms", us / 1e3);
	else if (fabs(seconds) < 100)
		snprintf(text, size, "%.1f s", seconds);
	else if (seconds < 0 || seconds > 1e15)
		snprintf(text, size, "%.0f s", seconds);
	else if ((whole = (unsigned long long)seconds) < 3600)
		snprintf(text, size, "%llu min %llu s", whole / 60, whole % 60);
	else if (whole < 86400)
		snprintf(text, size, "%llu h %llu min", whole / 3600, whole / 60 % 60);
	else
		snprintf(text, size, "%llu d %llu h", whole / 86400, whole / 3600 % 24);
	return text;
}

static void show_moment(double us, char cell[CTL_CELL])
{
	char age[64];
	double ago = (double)kw_wall_us() - us;

	if (us <= 0)
		snprintf(cell, CTL_CELL, "unknown");
	else if (ago >= 0)
		snprintf(cell, CTL_CELL, "%s ago", ctl_show_us(ago, age, sizeof age));
	else
		snprintf(cell, CTL_CELL, "in %s", ctl_show_us(-ago, age, sizeof age));
}

static void show_number(const char *name, const json_t *value, char cell[CTL_CELL])
{
	double number = json_number_value(value);

	switch (unit_of(name)) {
	case COUNT:
		if (json_is_real(value))
			snprintf(cell, CTL_CELL, "%.6g", number);
		else
			ctl_show_count(number, cell, CTL_CELL);
		break;
	case NUMBER:
		snprintf(cell, CTL_CELL, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
		break;
	case HEX:
		snprintf(cell, CTL_CELL, "%016llx", (unsigned long long)json_integer_value(value));
		break;
	case BYTES:
		ctl_show_bytes(number, cell, CTL_CELL);
		break;
	case MILLISECONDS:
		ctl_show_us(number * 1e3, cell, CTL_CELL);
		break;
	case MICROSECONDS:
		ctl_show_us(number, cell, CTL_CELL);
		break;
	case SECONDS:
		ctl_show_us(number * 1e6, cell, CTL_CELL);
		break;
	case MOMENT:
		show_moment(number, cell);
		break;
	case RATIO:
		snprintf(cell, CTL_CELL, "%.1f %%", number * 100);
		break;
	}
}

const char *ctl_show_value(const char *name, const json_t *value, char cell[CTL_CELL])
{
	char *text;

	if (json_is_number(value)) {
		show_number(name, value, cell);
	} else if (json_is_string(value)) {
		ctl_show_slice(kw_slice(json_string_value(value), json_string_length(value)), cell,
			CTL_CELL);
	} else if (json_is_boolean(value)) {
		snprintf(cell, CTL_CELL, "%s", json_is_true(value) ? "yes" : "no");
	} else if (!value || json_is_null(value)) {
		snprintf(cell, CTL_CELL, "-");
	} else {
		text = json_dumps(value, JSON_COMPACT | KW_JSON_DIGITS);
		ctl_show_text(text ? text : "-", cell, CTL_CELL);
		free(text);
	}
	return cell;
}

void ctl_print_json(const json_t *value)
{
	bool people = isatty(STDOUT_FILENO);
	char *text = json_dumps(
		value, JSON_ENCODE_ANY | KW_JSON_DIGITS |
			       (people ? JSON_INDENT(2) | JSON_ENSURE_ASCII : JSON_COMPACT));

	/* DEL is ASCII to jansson. It can only be inside a text, where this escape means the same.
	 */
	for (const char *c = text; c && *c; c++)
		if (people && *c == '\x7f')
			fputs("\\u007f", stdout);
		else
			fputc(*c, stdout);
	free(text);
	fputc('\n', stdout);
	fflush(stdout);
}

void ctl_print_text(struct kw_slice raw)
{
	const char *bytes = raw.data;
	char piece[CTL_CELL];

	/* Each turn takes at least one character. */
	for (size_t at = 0; at < raw.length;) {
		at += kw_printable(piece, sizeof piece, kw_slice(bytes + at, raw.length - at),
			KW_NEWLINE_KEPT);
		fputs(piece, stdout);
	}
}

/* Columns text takes on a terminal: code points, as near as it goes without tables. */
static int width(const char *text)
{
	int columns = 0;

	for (; *text; text++)
		columns += ((unsigned char)*text & 0xc0) != 0x80;
	return columns;
}

static int name_width(const json_t *object, int indent)
{
	const char *name;
	json_t *value;
	int most = 0;

	json_object_foreach((json_t *)(uintptr_t)object, name, value)
	{
		int own = json_is_object(value) ? name_width(value, indent + 2)
						: indent + width(name);

		if (own > most)
			most = own;
	}
	return most;
}

static void print_fields(const struct ctl *ctl, const json_t *object, int indent, int column)
{
	char cell[CTL_CELL], label[CTL_CELL];
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)object, name, value)
	{
		ctl_show_text(name, label, sizeof label);
		if (json_is_object(value) && json_object_size(value) == 0)
			continue;
		if (json_is_object(value)) {
			printf("%*s%s\n", indent, "", label);
			print_fields(ctl, value, indent + 2, column);
			continue;
		}
		if (json_is_string(value) && json_string_length(value) == 0)
			continue;
		printf("%*s%s%*s", indent, "", label, column - indent - width(label) + 2, "");
		if (strcmp(name, "state") == 0 && json_is_string(value))
			printf("%s%s%s\n", ctl_state_colour(ctl, json_string_value(value)),
				ctl_show_value(name, value, cell), ctl_colour_end(ctl));
		else
			printf("%s\n", ctl_show_value(name, value, cell));
	}
}

void ctl_print_fields(const struct ctl *ctl, const json_t *object)
{
	print_fields(ctl, object, 2, name_width(object, 2));
}

struct grid {
	const char *names[COLUMNS_MAX];
	int widths[COLUMNS_MAX];
	bool right[COLUMNS_MAX]; /* numbers stand to the right */
	int columns;
};

/* "lag_ms" is headed LAG: its cells name their unit. */
static const char *heading(const char *name, char text[CTL_CELL])
{
	size_t length;

	ctl_show_text(name, text, CTL_CELL);
	for (size_t i = 0; i < sizeof suffix_units / sizeof *suffix_units; i++) {
		length = strlen(text);
		if (ends_with(text, suffix_units[i].suffix) &&
			strlen(suffix_units[i].suffix) < length)
			text[length - strlen(suffix_units[i].suffix)] = '\0';
	}
	for (char *c = text; *c; c++)
		*c = (char)toupper((unsigned char)*c);
	return text;
}

static void measure(struct grid *grid, const json_t *list)
{
	char cell[CTL_CELL];
	const char *name;
	json_t *value;

	json_object_foreach(json_array_get(list, 0), name, value)
	{
		if (grid->columns == COLUMNS_MAX)
			break;
		grid->names[grid->columns] = name;
		grid->right[grid->columns] = json_is_number(value);
		grid->widths[grid->columns] = width(heading(name, cell));
		for (size_t row = 0; row < json_array_size(list); row++) {
			const json_t *object = json_array_get(list, row);
			int own = width(ctl_show_value(name, json_object_get(object, name), cell));

			if (own > grid->widths[grid->columns])
				grid->widths[grid->columns] = own;
		}
		grid->columns++;
	}
}

static void print_cell(const struct grid *grid, int column, const char *text, const char *colour,
	const char *colour_end)
{
	int pad = grid->widths[column] - width(text);
	bool last = column + 1 == grid->columns;

	printf("%s%*s%s%s%s%*s", column ? "  " : "", grid->right[column] ? pad : 0, "", colour,
		text, colour_end, grid->right[column] || last ? 0 : pad, "");
}

void ctl_print_rows(const struct ctl *ctl, const json_t *list)
{
	struct grid grid = {0};
	char cell[CTL_CELL];

	measure(&grid, list);
	for (int column = 0; column < grid.columns; column++)
		print_cell(&grid, column, heading(grid.names[column], cell), ctl_bold(ctl),
			ctl_colour_end(ctl));
	printf("\n");
	for (size_t row = 0; row < json_array_size(list); row++) {
		const json_t *object = json_array_get(list, row);

		for (int column = 0; column < grid.columns; column++) {
			const char *name = grid.names[column];
			bool state = strcmp(name, "state") == 0;

			ctl_show_value(name, json_object_get(object, name), cell);
			print_cell(&grid, column, cell, state ? ctl_state_colour(ctl, cell) : "",
				state ? ctl_colour_end(ctl) : "");
		}
		printf("\n");
	}
}
