#include "ctl/top/row.h"

#include <math.h>
#include <string.h>

#define WHOLE_MOST 9e18     /* that an integer of JSON can be */
#define RATE_LEAST_US 50000 /* two looks that are nearer say nothing about a rate */

/* The word of --sort, and the field's name, whose ending is the unit (show.c). */
static const struct {
	const char *word, *field;
} columns[TOP_COLUMNS] = {
	[TOP_NAME] = {"name", "name"},
	[TOP_KIND] = {"kind", "kind"},
	[TOP_STATE] = {"state", "state"},
	[TOP_LAG] = {"lag", "lag_ms"},
	[TOP_FRESH] = {"fresh", "fresh_ms"},
	[TOP_RECORDS] = {"records", "records_per_second"},
	[TOP_BYTES] = {"bytes", "bytes_per_second"},
	[TOP_KEYS] = {"keys", "keys"},
	[TOP_CODE] = {"code", "code"},
};

const char *const top_row_names[] = {"name", "kind", "state", "lag_ms", "fresh_ms",
	"records_per_second", "bytes_per_second", "keys", "code", NULL};

const char *top_column_word(enum top_column column)
{
	return columns[column].word;
}

int top_column_parse(const char *word)
{
	for (int i = 0; i < TOP_COLUMNS; i++)
		if (strcmp(word, columns[i].word) == 0)
			return i;
	return -1;
}

/* ---- what an answer says ---- */

static void take_text(char text[TOP_TEXT], const json_t *object, const char *name)
{
	const char *value = json_string_value(json_object_get(object, name));

	snprintf(text, TOP_TEXT, "%s", value ? value : "");
}

static double number(const json_t *object, const char *name)
{
	const json_t *value = json_object_get(object, name);

	return json_is_number(value) ? json_number_value(value) : NAN;
}

static struct top_figure figure(double value)
{
	if (!isfinite(value))
		return (struct top_figure){.is = TOP_UNKNOWN};
	return (struct top_figure){TOP_KNOWN, value};
}

static void put(struct top_row *row, enum top_column column, struct top_figure value)
{
	row->figures[column - TOP_FIRST_FIGURE] = value;
}

/* A counter that went back is that of another process: no rate. */
static struct top_figure rate(double now, double before, uint64_t us)
{
	if (!(now >= before) || us == 0)
		return (struct top_figure){.is = TOP_UNKNOWN};
	return figure((now - before) / ((double)us / 1e6));
}

static void measure(struct top_meter *meter, uint64_t now_us, double records, double bytes)
{
	uint64_t us = meter->at_us ? now_us - meter->at_us : 0;

	if (meter->at_us && us < RATE_LEAST_US)
		return;
	meter->records_rate = rate(records, meter->records, us);
	meter->bytes_rate = rate(bytes, meter->bytes, us);
	meter->records = records;
	meter->bytes = bytes;
	meter->at_us = now_us;
}

/* Milliseconds since a moment of the clock that is `skew_us` before ours; 0: it is not known. */
static double age_ms(double moment_us, double skew_us, uint64_t wall_us)
{
	double age_us = (double)wall_us + (isfinite(skew_us) ? skew_us : 0) - moment_us;

	if (!(moment_us > 0))
		return NAN;
	return age_us > 0 ? age_us / 1e3 : 0;
}

static void put_rates(struct top_row *row, const struct top_meter *meter)
{
	put(row, TOP_RECORDS, meter->records_rate);
	put(row, TOP_BYTES, meter->bytes_rate);
}

/* ---- by kind ---- */

static void fill_proxy(struct top_row *row, const json_t *status, const struct top_moment *now,
	struct top_meter *meter)
{
	measure(meter, now->clock_us, number(status, "version"),
		number(json_object_get(status, "table"), "written_bytes"));
	put(row, TOP_FRESH, figure(age_ms(number(status, "fresh_us"), 0, now->wall_us)));
	put(row, TOP_KEYS, figure(number(status, "keys")));
}

static void fill_agent(struct top_row *row, const json_t *status, const struct top_moment *now,
	struct top_meter *meter)
{
	measure(meter, now->clock_us, number(status, "keys_applied"), number(status, "bytes_read"));
	put(row, TOP_LAG, figure(number(status, "lag_ms")));
	put(row, TOP_FRESH,
		figure(age_ms(number(status, "fresh_us"), number(status, "clock_skew_us"),
			now->wall_us)));
	put(row, TOP_KEYS, figure(number(json_object_get(status, "local"), "keys")));
}

static void fill_gateway(struct top_row *row, const json_t *status, const struct top_moment *now,
	struct top_meter *meter)
{
	measure(meter, now->clock_us, number(status, "gets"), number(status, "bytes_out"));
	put(row, TOP_FRESH, figure(number(status, "age_ms")));
}

static void begin(struct top_row *row, const char *kind, const json_t *object)
{
	*row = (struct top_row){.group = row->group, .socket = row->socket};
	snprintf(row->kind, sizeof row->kind, "%s", kind);
	take_text(row->name, object, "name");
	take_text(row->state, object, "state");
	take_text(row->code, object, "reason_code");
	row->mood = ctl_mood_of(object);
}

void top_row_daemon(struct top_row *row, const char *kind, const char *label, const json_t *status,
	const struct top_moment *now, struct top_meter *meter)
{
	const char *reason = json_string_value(json_object_get(status, "reason"));

	begin(row, kind, status);
	/* That of a proxy is long if nobody gave it one: its socket's says as much. */
	if (!*row->name || strcmp(kind, "proxy") == 0)
		snprintf(row->name, sizeof row->name, "%s", label);
	snprintf(row->reason, sizeof row->reason, "%s", reason ? reason : "");
	if (strcmp(kind, "proxy") == 0)
		fill_proxy(row, status, now, meter);
	else if (strcmp(kind, "gateway") == 0)
		fill_gateway(row, status, now, meter);
	else
		fill_agent(row, status, now, meter);
	put_rates(row, meter);
}

void top_row_agent(struct top_row *row, const struct top_row *proxy, const json_t *session,
	const struct top_moment *now, struct top_meter *meter)
{
	const char *role = json_string_value(json_object_get(session, "role"));

	begin(row, role ? role : "agent", session);
	row->below = true;
	/* It reports to its proxy, so what it is not connected to is its own server. */
	if (strcmp(row->kind, "agent") == 0 && strcmp(row->state, "connecting") == 0)
		row->mood = CTL_MOOD_BAD;
	row->of = proxy->name;
	measure(meter, now->clock_us, number(session, "applied"), number(session, "bytes"));
	put(row, TOP_LAG, figure(number(session, "lag_ms")));
	put_rates(row, meter);
}

void top_row_away(struct top_row *row, const char *kind, const char *label, const char *sentence)
{
	begin(row, *kind ? kind : "unknown", NULL);
	snprintf(row->name, sizeof row->name, "%s", label);
	snprintf(row->state, sizeof row->state, "away");
	snprintf(row->reason, sizeof row->reason, "%s", sentence);
	row->mood = ctl_state_mood(row->state);
}

/* ---- told ---- */

static json_t *whole(double value)
{
	return json_integer((json_int_t)llround(fmin(fmax(value, -WHOLE_MOST), WHOLE_MOST)));
}

/* One digit after the point below 100, none above. */
static json_t *rounded(double value)
{
	return value >= 100 ? whole(value) : json_real(round(value * 10) / 10);
}

static json_t *figure_json(enum top_column column, const struct top_figure *value)
{
	if (value->is == TOP_UNKNOWN)
		return json_null();
	if (column == TOP_LAG || column == TOP_FRESH)
		return json_real(round(value->value * 1000) / 1000);
	return column == TOP_KEYS ? whole(value->value) : rounded(value->value);
}

static json_t *text_json(const char *raw)
{
	char text[4 * KW_ERROR_TEXT];

	/* What was cut in the midst of a character is shown as its bytes. */
	return json_string(ctl_show_text(raw, text, sizeof text));
}

static json_t *row_json(const struct top_row *row)
{
	json_t *json = json_object();

	json_object_set_new(json, "name", text_json(row->name));
	json_object_set_new(json, "kind", text_json(row->kind));
	json_object_set_new(json, "state", text_json(row->state));
	for (int i = TOP_FIRST_FIGURE; i < TOP_FIRST_FIGURE + TOP_FIGURES; i++) {
		const struct top_figure *value = &row->figures[i - TOP_FIRST_FIGURE];

		if (value->is != TOP_NONE)
			json_object_set_new(
				json, columns[i].field, figure_json((enum top_column)i, value));
	}
	if (*row->code)
		json_object_set_new(json, "code", text_json(row->code));
	json_object_set_new(json, "grade", json_string(ctl_mood_grade(row->mood)));
	return json;
}

json_t *top_row_json(const struct top_row *row)
{
	json_t *json = row_json(row);

	if (!row->below)
		json_object_set_new(json, "reason", text_json(row->reason));
	if (row->of)
		json_object_set_new(json, "of", text_json(row->of));
	json_object_set_new(json, "socket", text_json(row->socket));
	return json;
}

json_t *top_row_cells(const struct top_row *row)
{
	json_t *json = row_json(row);
	char name[4 * TOP_TEXT], note[KW_ERROR_TEXT + TOP_TEXT + 4];

	if (row->below) {
		snprintf(name, sizeof name, "  %s", row->name);
		json_object_set_new(json, "name", text_json(name));
	}
	if (row->mood == CTL_MOOD_GOOD || !*row->reason)
		return json;
	snprintf(note, sizeof note, *row->code ? "%s [%s]" : "%s", row->reason, row->code);
	json_object_set_new(json, TOP_ROW_NOTE, text_json(note));
	return json;
}
