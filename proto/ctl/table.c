/* Tables for people: aligned fields and rows that fit the terminal. */
#include "ctl/ctl.h"

#include <ctype.h>
#include <string.h>
#include <unistd.h>

#define COLUMNS_MAX 24
#define NARROW 8 /* no column with text is made narrower than that */
#define GAP 2    /* between two columns */
#define NOTE_INDENT 4

/* Columns text takes on a terminal: code points, as near as it goes without tables. */
static int width(const char *text)
{
	int columns = 0;

	for (; *text; text++)
		columns += ((unsigned char)*text & 0xc0) != 0x80;
	return columns;
}

/* Bytes of the first code points of text, so that they take at most `columns`. */
static size_t bytes_within(const char *text, int columns)
{
	size_t at = 0;

	for (int used = 0; text[at]; at++)
		if (((unsigned char)text[at] & 0xc0) != 0x80 && ++used > columns)
			break;
	return at;
}

/* How many columns there are; 0: no limit, because no terminal shows it. */
static int columns_of_output(void)
{
	return isatty(STDOUT_FILENO) ? ctl_columns(stdout) : 0;
}

/* ---- fields ---- */

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

/* Where to end the line: behind the last word that fits, or in the midst of one that never does. */
static size_t end_of_line(const char *text, int room)
{
	size_t most = bytes_within(text, room), end = most;

	if (!text[most])
		return most;
	while (end > 0 && text[end] != ' ')
		end--;
	return end > 0 ? end : most;
}

static void put_wrapped(FILE *stream, const char *text, int indent, int columns)
{
	int room = columns - indent - 1;

	while (columns > 0 && room >= NARROW && width(text) > room) {
		size_t end = end_of_line(text, room);

		fprintf(stream, "%.*s\n%*s", (int)end, text, indent, "");
		text += end;
		text += strspn(text, " ");
	}
	fprintf(stream, "%s\n", text);
}

void ctl_print_wrapped(const char *text, int indent)
{
	put_wrapped(stdout, text, indent, columns_of_output());
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
		printf("%*s%s%*s", indent, "", label, column - indent - width(label) + GAP, "");
		ctl_show_value(name, value, cell);
		if (strcmp(name, "state") == 0 && json_is_string(value))
			printf("%s%s%s\n", ctl_state_colour(ctl, json_string_value(value)), cell,
				ctl_colour_end(ctl));
		else
			ctl_print_wrapped(cell, column + GAP);
	}
}

void ctl_print_fields(const struct ctl *ctl, const json_t *object)
{
	print_fields(ctl, object, 2, name_width(object, 2));
}

/* ---- rows ---- */

struct grid {
	FILE *stream;
	const char *names[COLUMNS_MAX];
	int widths[COLUMNS_MAX];
	bool right[COLUMNS_MAX]; /* numbers stand to the right */
	int least_name;          /* the first column is made no narrower than that */
	int columns;
	int left_out; /* columns for which there is no room */
};

/* "lag_ms" is headed LAG: its cells name their unit. */
static const char *heading(const char *name, char text[CTL_CELL])
{
	ctl_show_text(name, text, CTL_CELL);
	ctl_cut_unit(text);
	for (char *c = text; *c; c++)
		*c = (char)toupper((unsigned char)*c);
	return text;
}

static void add_column(struct grid *grid, const char *name, const json_t *list)
{
	int column = grid->columns;
	char cell[CTL_CELL];

	if (column == COLUMNS_MAX)
		return;
	grid->names[column] = name;
	grid->widths[column] = width(heading(name, cell));
	for (size_t row = 0; row < json_array_size(list); row++) {
		const json_t *value = json_object_get(json_array_get(list, row), name);
		int own = width(ctl_show_value(name, value, cell));

		if (own > grid->widths[column])
			grid->widths[column] = own;
		grid->right[column] = grid->right[column] || json_is_number(value);
	}
	grid->columns++;
}

static void measure(struct grid *grid, const struct ctl_rows *rows, const json_t *list)
{
	const char *name;
	json_t *value;

	for (size_t i = 0; rows->names && rows->names[i]; i++)
		add_column(grid, rows->names[i], list);
	if (rows->names)
		return;
	json_object_foreach(json_array_get(list, 0), name, value) add_column(grid, name, list);
}

static int whole_width(const struct grid *grid)
{
	int sum = 0;

	for (int i = 0; i < grid->columns; i++)
		sum += grid->widths[i] + (i ? GAP : 0);
	return sum;
}

/* The widest column of text that can be made narrower; -1: there is none. */
static int widest_text(const struct grid *grid)
{
	int found = -1;

	for (int i = 0; i < grid->columns; i++)
		if (!grid->right[i] && grid->widths[i] > (i ? NARROW : grid->least_name) &&
			(found < 0 || grid->widths[i] > grid->widths[found]))
			found = i;
	return found;
}

/* Texts are cut first, the widest before the others. Then the last columns go. */
static void fit(struct grid *grid, int columns)
{
	int wide;

	while (whole_width(grid) > columns && (wide = widest_text(grid)) >= 0)
		grid->widths[wide]--;
	while (whole_width(grid) > columns && grid->columns > 1) {
		grid->columns--;
		grid->left_out++;
	}
}

/* What does not fit ends in "…", or in "~" where the terminal has no such character. */
static void print_cell(const struct grid *grid, int column, const char *text, const char *colour,
	const char *colour_end)
{
	bool last = column + 1 == grid->columns, cut = width(text) > grid->widths[column];
	size_t bytes = bytes_within(text, grid->widths[column] - cut);
	int pad = cut ? 0 : grid->widths[column] - width(text);

	fprintf(grid->stream, "%*s%*s%s%.*s%s%s%*s", column ? GAP : 0, "",
		grid->right[column] ? pad : 0, "", colour, (int)bytes, text,
		cut ? ctl_ellipsis() : "", colour_end, grid->right[column] || last ? 0 : pad, "");
}

static void print_row(const struct ctl *ctl, const struct grid *grid, const json_t *object)
{
	char cell[CTL_CELL];

	for (int column = 0; column < grid->columns; column++) {
		const char *name = grid->names[column];
		bool state = strcmp(name, "state") == 0;

		ctl_show_value(name, json_object_get(object, name), cell);
		print_cell(grid, column, cell, state ? ctl_state_colour(ctl, cell) : "",
			state ? ctl_colour_end(ctl) : "");
	}
	fprintf(grid->stream, "\n");
}

/* The row's note, below it and indented. */
static void put_note(const struct ctl_rows *rows, const json_t *object)
{
	const char *raw = json_string_value(json_object_get(object, rows->note));
	char note[4 * KW_ERROR_TEXT];

	if (!raw || !*raw)
		return;
	fprintf(rows->stream, "%*s", NOTE_INDENT, "");
	put_wrapped(
		rows->stream, ctl_show_text(raw, note, sizeof note), NOTE_INDENT, rows->columns);
}

void ctl_put_rows(const struct ctl *ctl, const struct ctl_rows *rows, const json_t *list)
{
	struct grid grid = {.stream = rows->stream, .least_name = rows->least_name};
	char cell[CTL_CELL];

	if (grid.least_name < NARROW)
		grid.least_name = NARROW;
	measure(&grid, rows, list);
	if (rows->columns > 0)
		fit(&grid, rows->columns - 1);
	for (int column = 0; column < grid.columns; column++)
		print_cell(&grid, column, heading(grid.names[column], cell), ctl_bold(ctl),
			ctl_colour_end(ctl));
	fprintf(grid.stream, "\n");
	for (size_t row = 0; row < json_array_size(list); row++) {
		print_row(ctl, &grid, json_array_get(list, row));
		if (rows->note)
			put_note(rows, json_array_get(list, row));
	}
	if (grid.left_out > 0)
		fprintf(grid.stream, "(columns left out: %d; see -o json)\n", grid.left_out);
}

void ctl_print_rows(const struct ctl *ctl, const json_t *list)
{
	const struct ctl_rows rows = {.stream = stdout, .columns = columns_of_output()};

	ctl_put_rows(ctl, &rows, list);
}
