/*
 * Rows for people: aligned columns that fit the terminal.
 *
 *     ID  NAME  STATE    LAG       APPLIED      what fits
 *      1  r1    warm     1.2 ms    1,234,567
 *         carrier tcp  peer 10.0.0.7:41822      what does not, below its row, each with its name
 *         the sentence of a row                 and what is a sentence by nature
 */
#include "ctl/ctl.h"

#include "base/buffer.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS_MAX 24
#define NARROW 8       /* no column with text is made narrower than that */
#define COMFORTABLE 24 /* nor than that, as long as other columns can go below */
#define GAP 2          /* between two columns */
#define NOTE_INDENT 4

struct column {
	const char *name;
	int width;
	bool right; /* numbers stand to the right */
};

struct grid {
	const struct ctl_rows *rows;
	struct column columns[COLUMNS_MAX];
	int count; /* of those that stand in the row; the others come after them */
	int all;
	int room;             /* of the terminal; 0: no limit */
	const char *sentence; /* the field that stands below as it is; NULL: none */
	char (*cells)[CTL_CELL];
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

/* ---- which columns there are ---- */

static bool is_among(const char *name, const char *const *names)
{
	for (; names && *names; names++)
		if (strcmp(name, *names) == 0)
			return true;
	return false;
}

static bool is_blank(const json_t *list, const char *name)
{
	for (size_t row = 0; row < json_array_size(list); row++) {
		const json_t *value = json_object_get(json_array_get(list, row), name);

		if (!json_is_string(value) || json_string_length(value) > 0)
			return false;
	}
	return true;
}

static void add_column(struct grid *grid, const char *name, const json_t *list)
{
	struct column *column = &grid->columns[grid->count];
	char cell[CTL_CELL];

	if (grid->count == COLUMNS_MAX)
		return;
	*column = (struct column){name, ctl_width(heading(name, cell)), false};
	for (size_t row = 0; row < json_array_size(list); row++) {
		const json_t *value = json_object_get(json_array_get(list, row), name);
		int own = ctl_width(ctl_show_value(name, value, cell));

		if (own > column->width)
			column->width = own;
		column->right = column->right || json_is_number(value);
	}
	grid->all = ++grid->count;
}

/* Of the first row's fields, a column that is blank in all rows is left out. */
static void add_columns(struct grid *grid, const json_t *list)
{
	const char *const *names = grid->rows->names, *const *first = grid->rows->first;
	const json_t *row = json_array_get(list, 0);
	const char *name;
	json_t *value;

	for (; names && *names; names++)
		add_column(grid, *names, list);
	if (grid->rows->names)
		return;
	for (; first && *first; first++)
		if (json_object_get(row, *first) && !is_blank(list, *first))
			add_column(grid, *first, list);
	json_object_foreach((json_t *)(uintptr_t)row, name, value)
	{
		if (!is_among(name, grid->rows->first) && !is_blank(list, name))
			add_column(grid, name, list);
	}
}

/* ---- what fits ---- */

static bool is_too_wide(const struct grid *grid)
{
	int sum = grid->rows->indent;

	for (int i = 0; i < grid->count; i++)
		sum += grid->columns[i].width + (i ? GAP : 0);
	return grid->room > 0 && sum > grid->room;
}

/* Cut short, these would say nothing. */
static bool stays_whole(const struct column *column)
{
	static const char *const names[] = {"at", "code", "state", NULL};

	return column->right || is_among(column->name, names);
}

/* Make the widest columns of text narrower, as far as that helps. */
static void shrink(struct grid *grid, int least)
{
	int least_name = grid->rows->least_name > least ? grid->rows->least_name : least;

	while (is_too_wide(grid)) {
		struct column *widest = NULL;

		for (int i = 0; i < grid->count; i++) {
			struct column *column = &grid->columns[i];

			if (!stays_whole(column) && column->width > (i ? least : least_name) &&
				(!widest || column->width > widest->width))
				widest = column;
		}
		if (!widest)
			return;
		widest->width--;
	}
}

static void drop_last_columns(struct grid *grid)
{
	while (is_too_wide(grid) && grid->count > 1)
		grid->count--;
}

/* It is the last one by then. */
static void drop_sentence(struct grid *grid)
{
	const char *sentence = grid->rows->sentence;

	if (!sentence || !is_too_wide(grid) || grid->count < 2 ||
		strcmp(grid->columns[grid->count - 1].name, sentence) != 0)
		return;
	grid->sentence = sentence;
	grid->all = --grid->count;
}

static void fit(struct grid *grid)
{
	drop_sentence(grid);
	if (grid->rows->rest == CTL_REST_BELOW)
		shrink(grid, COMFORTABLE);
	else
		shrink(grid, NARROW);
	drop_last_columns(grid);
	shrink(grid, NARROW);
}

/* ---- printing ---- */

/*
 * One line of a cell. Returns what is left of it. If it must stay on one line, it ends in "…", or
 * in
 * "~" where the terminal has no such character.
 */
static const char *put_cell(
	const struct grid *grid, int at, const char *text, const char *colour, const char *end)
{
	const struct column *column = &grid->columns[at];
	bool last = at + 1 == grid->count;
	bool cut = grid->rows->rest == CTL_REST_CUT && ctl_width(text) > column->width;
	size_t bytes = cut ? ctl_bytes_within(text, column->width - 1)
			   : ctl_end_of_line(text, column->width);
	char line[CTL_CELL];
	int pad;

	snprintf(line, sizeof line, "%.*s%s", (int)bytes, text, cut ? ctl_ellipsis() : "");
	pad = column->width - ctl_width(line);
	fprintf(grid->rows->stream, "%*s%*s%s%s%s%*s", at ? GAP : grid->rows->indent, "",
		column->right ? pad : 0, "", colour, line, *line ? end : "",
		column->right || last ? 0 : pad, "");
	text += cut ? strlen(text) : bytes;
	return text + strspn(text, " ");
}

/* As many lines as the longest cell needs. */
static void put_row(const struct ctl *ctl, const struct grid *grid, const json_t *object)
{
	const char *rest[COLUMNS_MAX];
	bool more = true;

	for (int i = 0; i < grid->count; i++) {
		const char *name = grid->columns[i].name;

		rest[i] = ctl_show_value(name, json_object_get(object, name), grid->cells[i]);
	}
	while (more) {
		more = false;
		for (int i = 0; i < grid->count; i++) {
			bool state = strcmp(grid->columns[i].name, "state") == 0 && *rest[i];

			rest[i] = put_cell(grid, i, rest[i],
				state ? ctl_mood_colour(ctl, ctl_mood_of(object)) : "",
				state ? ctl_colour_end(ctl) : "");
			more = more || *rest[i];
		}
		fprintf(grid->rows->stream, "\n");
	}
}

/* "peer 10.0.0.7:41822"; "" if there is nothing to tell. */
static const char *pair_of(const struct grid *grid, int at, const json_t *object, char *pair)
{
	const char *name = grid->columns[at].name;
	const json_t *value = json_object_get(object, name);
	char label[CTL_CELL], cell[CTL_CELL];

	ctl_show_value(name, value, cell);
	if (*cell == '\0' || strcmp(cell, "-") == 0)
		return "";
	ctl_show_text(name, label, sizeof label);
	ctl_cut_unit(label);
	snprintf(pair, 2 * CTL_CELL, "%s %s", label, cell);
	return pair;
}

/* The columns that have no room, below the row. A line ends between two of them. */
static void put_below(const struct grid *grid, const json_t *object)
{
	int indent = grid->rows->indent + NOTE_INDENT, used = 0;
	FILE *stream = grid->rows->stream;
	char memory[2 * CTL_CELL];

	for (int i = grid->count; i < grid->all; i++) {
		const char *pair = pair_of(grid, i, object, memory);
		int own = ctl_width(pair);

		if (own == 0)
			continue;
		if (used > 0 && used + GAP + own > grid->room) {
			fprintf(stream, "\n");
			used = 0;
		}
		fprintf(stream, "%*s", used ? GAP : indent, "");
		used = used ? used + GAP + own : indent + own;
		if (used > grid->room) {
			ctl_put_wrapped(stream, pair, indent, grid->rows->columns);
			used = 0;
		} else {
			fprintf(stream, "%s", pair);
		}
	}
	if (used > 0)
		fprintf(stream, "\n");
}

/* A sentence, below its row. */
static void put_note(const struct grid *grid, const json_t *object, const char *name)
{
	int indent = grid->rows->indent + NOTE_INDENT;
	const char *raw = name ? json_string_value(json_object_get(object, name)) : NULL;
	char note[CTL_CELL];

	if (!raw || !*raw)
		return;
	fprintf(grid->rows->stream, "%*s", indent, "");
	ctl_put_wrapped(grid->rows->stream, ctl_show_text(raw, note, sizeof note), indent,
		grid->rows->columns);
}

static void put_headings(const struct ctl *ctl, const struct grid *grid)
{
	char cell[CTL_CELL];

	for (int i = 0; i < grid->count; i++)
		put_cell(grid, i, heading(grid->columns[i].name, cell), ctl_bold(ctl),
			ctl_colour_end(ctl));
	fprintf(grid->rows->stream, "\n");
}

void ctl_put_rows(const struct ctl *ctl, const struct ctl_rows *rows, const json_t *list)
{
	struct grid grid = {.rows = rows, .room = rows->columns > 0 ? rows->columns - 1 : 0};

	grid.cells = kw_alloc(COLUMNS_MAX * sizeof *grid.cells);
	add_columns(&grid, list);
	fit(&grid);
	put_headings(ctl, &grid);
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *row = json_array_get(list, i);

		put_row(ctl, &grid, row);
		if (rows->rest == CTL_REST_BELOW)
			put_below(&grid, row);
		put_note(&grid, row, grid.sentence);
		put_note(&grid, row, rows->note);
	}
	if (rows->rest == CTL_REST_CUT && grid.count < grid.all)
		fprintf(rows->stream, "(columns left out: %d; see -o json)\n",
			grid.all - grid.count);
	free(grid.cells);
}

void ctl_print_rows(const struct ctl *ctl, const json_t *list)
{
	const struct ctl_rows rows = {.stream = stdout, .columns = ctl_columns_of_output()};

	ctl_put_rows(ctl, &rows, list);
}
