/* Values for people: units are known by the fields' names, so new fields need no change here. */
#include "ctl/ctl.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/printable.h"
#include "control/json_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PER_SECOND "_per_second"

enum unit {
	COUNT,
	NUMBER,
	BYTES,
	MILLISECONDS,
	MICROSECONDS,
	SECONDS,
	MOMENT_US, /* of the wall clock */
	MOMENT_MS,
	RATIO,
};

/* Names whose unit is not in their last word; the rest is known by suffix. */
static const struct {
	const char *name;
	enum unit unit;
} named_units[] = {
	{"id", NUMBER},
	{"pid", NUMBER},
	{"port", NUMBER},
	{"database", NUMBER},
	{"db", NUMBER},
	{"bytes", BYTES},
	{"bytes_read", BYTES},
	{"bytes_per_second", BYTES},
	{"seconds", SECONDS},
	{"allowed", RATIO},
	{"primary_busy", RATIO},
	{"primary_waiting", RATIO},
	{"progress", RATIO},
	{"taken", RATIO},
	{"target", RATIO},
	{"utilisation", RATIO},
	{"at_us", MOMENT_US},
	{"begun_us", MOMENT_US},
	{"connected_us", MOMENT_US},
	{"expires_ms", MOMENT_MS},
	{"fresh_us", MOMENT_US},
	{"heartbeat_us", MOMENT_US},
	{"published_us", MOMENT_US},
	{"since_us", MOMENT_US},
	{"started_us", MOMENT_US},
};

static const struct {
	const char *suffix;
	enum unit unit;
} suffix_units[] = {
	{"_bytes", BYTES},
	{"_ms", MILLISECONDS},
	{"_us", MICROSECONDS},
	{"_at_us", MOMENT_US},
	{"_seconds", SECONDS},
	{"_s", SECONDS},
};

/* What these fields say where a number would say nothing. NULL: the number. */
static const struct {
	const char *name, *zero, *null;
} words_for_nothing[] = {
	{"age_s", "never", "never"},
	{"at_us", "unknown", "unknown"},
	{"begun_us", "never", "never"},
	{"bytes", NULL, "unknown"},
	{"cleaner_us", "none", "none"},
	{"clock_error_us", "none", "unknown"},
	{"connected_us", "never", "never"},
	{"expires_ms", "never", "never"},
	{"fresh_ms", NULL, "unknown"},
	{"fresh_us", "unknown", "unknown"},
	{"heartbeat_us", "unknown", "unknown"},
	{"key_us", "unknown", "unknown"},
	{"lag_max_us", "none", "none"},
	{"lag_ms", "none", "unknown"},
	{"lag_p50_us", "none", "none"},
	{"lag_p99_us", "none", "none"},
	{"max_us", "< 1 µs", "none"},
	{"p50_us", "< 1 µs", "none"},
	{"p99_us", "< 1 µs", "none"},
	{"passed", NULL, "none"},
	{"proven_equal_s", NULL, "never"},
	{"published_us", "never", "never"},
	{"reads", NULL, "unknown"},
	{"since_us", "never", "never"},
	{"staleness_max_us", "none", "none"},
	{"staleness_p50_us", "none", "none"},
	{"staleness_p99_us", "none", "none"},
	{"started_us", "never", "never"},
	{"upstream_silent_ms", "none", "unknown"},
};

/* The word for a number that is 0 or less, or for null. NULL: none, or there is no such field. */
static const char *word_for_nothing(const char *name, const json_t *value)
{
	bool null = json_is_null(value);

	if (!null && !(json_is_number(value) && json_number_value(value) <= 0))
		return NULL;
	for (size_t i = 0; i < sizeof words_for_nothing / sizeof *words_for_nothing; i++)
		if (strcmp(words_for_nothing[i].name, name) == 0)
			return null ? words_for_nothing[i].null : words_for_nothing[i].zero;
	return NULL;
}

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

void ctl_cut_unit(char *name)
{
	if (ends_with(name, PER_SECOND)) {
		strcpy(name + strlen(name) - strlen(PER_SECOND), "/s");
		return;
	}
	for (size_t i = 0; i < sizeof suffix_units / sizeof *suffix_units; i++) {
		size_t length = strlen(name), end = strlen(suffix_units[i].suffix);

		if (ends_with(name, suffix_units[i].suffix) && end < length)
			name[length - end] = '\0';
	}
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

/* "1234567" as "1,234,567". */
static const char *group_digits(const char *digits, char *text, size_t size)
{
	size_t length = strlen(digits), at = 0;

	for (size_t i = 0; i < length && at + 2 < size; i++) {
		size_t left = length - i;

		if (i > 0 && digits[i - 1] != '-' && left % 3 == 0)
			text[at++] = ',';
		text[at++] = digits[i];
	}
	text[at] = '\0';
	return text;
}

const char *ctl_show_count(double count, char *text, size_t size)
{
	char digits[32];

	if (!isfinite(count) || fabs(count) >= 1e18) {
		snprintf(text, size, "%g", count);
		return text;
	}
	snprintf(digits, sizeof digits, "%.0f", count);
	return group_digits(digits, text, size);
}

static void show_integer(const json_t *value, char cell[CTL_CELL])
{
	char digits[32];

	snprintf(digits, sizeof digits, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
	group_digits(digits, cell, CTL_CELL);
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

const char *ctl_show_time(uint64_t us, char *text, size_t size)
{
	time_t seconds = (time_t)(us / 1000000);
	struct tm tm;

	if (!gmtime_r(&seconds, &tm) || !strftime(text, size, "%Y-%m-%d %H:%M:%SZ", &tm))
		snprintf(text, size, "unknown");
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

/* What is not zero never looks like it. */
static void show_ratio(double ratio, char cell[CTL_CELL])
{
	double percent = ratio * 100;
	bool tiny = percent != 0 && fabs(percent) < 0.1;

	snprintf(cell, CTL_CELL, tiny ? "%.2g %%" : "%.1f %%", percent);
}

static void show_number(const char *name, const json_t *value, char cell[CTL_CELL])
{
	double number = json_number_value(value);

	if (kw_json_exact_text(name, value, cell))
		return;
	switch (unit_of(name)) {
	case COUNT:
		if (json_is_real(value))
			snprintf(cell, CTL_CELL, "%.6g", number);
		else
			show_integer(value, cell);
		break;
	case NUMBER:
		snprintf(cell, CTL_CELL, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
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
		if (json_is_integer(value) && number == 0)
			snprintf(cell, CTL_CELL, "< 1 s"); /* whole ones were told */
		else
			ctl_show_us(number * 1e6, cell, CTL_CELL);
		break;
	case MOMENT_US:
		show_moment(number, cell);
		break;
	case MOMENT_MS:
		show_moment(number * 1e3, cell);
		break;
	case RATIO:
		show_ratio(number, cell);
		break;
	}
}

static const char *show_json(const json_t *value, char cell[CTL_CELL])
{
	char *text = json_dumps(value, JSON_COMPACT | KW_JSON_DIGITS);

	ctl_show_text(text ? text : "-", cell, CTL_CELL);
	free(text);
	return cell;
}

/* "a, b". Lists and objects in it, for which a cell has no room, are JSON. */
static void show_list(const char *name, const json_t *list, char cell[CTL_CELL])
{
	char memory[CTL_CELL];
	size_t at = 0;

	for (size_t i = 0; i < json_array_size(list) && at < CTL_CELL; i++) {
		const json_t *item = json_array_get(list, i);
		const char *text = json_is_array(item) ? show_json(item, memory)
						       : ctl_show_value(name, item, memory);

		at += (size_t)snprintf(cell + at, CTL_CELL - at, "%s%s", i ? ", " : "", text);
	}
	if (at == 0)
		snprintf(cell, CTL_CELL, "none");
}

const char *ctl_show_value(const char *name, const json_t *value, char cell[CTL_CELL])
{
	const char *word = word_for_nothing(name, value);

	if (word) {
		snprintf(cell, CTL_CELL, "%s", word);
	} else if (json_is_number(value)) {
		show_number(name, value, cell);
	} else if (json_is_string(value)) {
		ctl_show_slice(kw_slice(json_string_value(value), json_string_length(value)), cell,
			CTL_CELL);
	} else if (json_is_boolean(value)) {
		snprintf(cell, CTL_CELL, "%s", json_is_true(value) ? "yes" : "no");
	} else if (!value || json_is_null(value)) {
		snprintf(cell, CTL_CELL, "-");
	} else if (json_is_array(value)) {
		show_list(name, value, cell);
	} else {
		show_json(value, cell);
	}
	return cell;
}

void ctl_print_json(const json_t *raw)
{
	bool people = isatty(STDOUT_FILENO);
	json_t *value = kw_json_exact(raw);
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
	json_decref(value);
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
