/* One value: from any accepted spelling to the one shape its type has. */
#include "control/config/internal.h"

#include "base/buffer.h"
#include "control/json_text.h"
#include "control/nearest.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *expected(enum kw_config_type type)
{
	switch (type) {
	case KW_CONFIG_BOOL:
		return "true or false";
	case KW_CONFIG_INTEGER:
		return "an integer";
	case KW_CONFIG_NUMBER:
		return "a number";
	case KW_CONFIG_BYTES:
		return "a number of bytes, like 1048576 or \"16MiB\"";
	case KW_CONFIG_TEXT:
		return "a text";
	case KW_CONFIG_TEXTS:
		return "a list of texts, like [\"a\", \"b\"]";
	case KW_CONFIG_INTEGERS:
		return "a list of integers, like [0, 1]";
	}
	abort();
}

const char *kw_config_type_name(enum kw_config_type type)
{
	static const char *const names[] = {
		[KW_CONFIG_BOOL] = "boolean",
		[KW_CONFIG_INTEGER] = "integer",
		[KW_CONFIG_NUMBER] = "number",
		[KW_CONFIG_BYTES] = "bytes",
		[KW_CONFIG_TEXT] = "text",
		[KW_CONFIG_TEXTS] = "list of texts",
		[KW_CONFIG_INTEGERS] = "list of integers",
	};

	return names[type];
}

static int wrong_type(const struct kw_config_key *key, const json_t *given, struct kw_error *error)
{
	char shown[KW_JSON_SHOWN];

	return kw_error_set(error, KW_E_CONFIG, "%s: expected %s; given %s", key->path,
		expected(key->type), kw_json_show(given, shown));
}

static double unit_factor(const char *unit)
{
	static const struct {
		const char *name;
		double factor;
	} units[] = {
		{"", 1},
		{"B", 1},
		{"k", 0x1p10},
		{"K", 0x1p10},
		{"M", 0x1p20},
		{"G", 0x1p30},
		{"T", 0x1p40},
		{"KiB", 0x1p10},
		{"kiB", 0x1p10},
		{"MiB", 0x1p20},
		{"GiB", 0x1p30},
		{"TiB", 0x1p40},
		{"kB", 1e3},
		{"KB", 1e3},
		{"MB", 1e6},
		{"GB", 1e9},
		{"TB", 1e12},
	};

	for (size_t i = 0; i < sizeof units / sizeof *units; i++)
		if (strcmp(units[i].name, unit) == 0)
			return units[i].factor;
	return 0;
}

bool kw_bytes_parse(const char *text, int64_t *bytes)
{
	int64_t whole = 0, product;
	double fraction = 0, scale = 0.1, factor;

	if (!isdigit((unsigned char)*text))
		return false;
	for (; isdigit((unsigned char)*text); text++)
		if (__builtin_mul_overflow(whole, 10, &whole) ||
			__builtin_add_overflow(whole, *text - '0', &whole))
			return false;
	if (*text == '.') {
		if (!isdigit((unsigned char)text[1]))
			return false;
		for (text++; isdigit((unsigned char)*text); text++, scale /= 10)
			fraction += (*text - '0') * scale;
	}
	while (*text == ' ')
		text++;
	factor = unit_factor(text);
	/* Half a byte is a mistake, half a GiB is not. */
	if (factor == 0 || (factor == 1 && fraction != 0) ||
		__builtin_mul_overflow(whole, (int64_t)factor, &product) ||
		__builtin_add_overflow(product, (int64_t)(fraction * factor + 0.5), bytes))
		return false;
	return true;
}

/* What config.get shows can be written, the fallback too, which can lie outside the bounds. */
static bool is_fallback(const struct kw_config_key *key, const json_t *given)
{
	json_t *fallback = key->fallback ? json_loads(key->fallback, JSON_DECODE_ANY, NULL) : NULL;
	bool same = json_equal(fallback, given);

	json_decref(fallback);
	return same;
}

static int check_bounds(
	const struct kw_config_key *key, double value, const json_t *given, struct kw_error *error)
{
	char shown[KW_JSON_SHOWN];

	if ((key->lowest == 0 && key->highest == 0) || is_fallback(key, given))
		return 0;
	kw_json_show(given, shown);
	if (value < key->lowest)
		return kw_error_set(error, KW_E_CONFIG, "%s: %s is too small; at least %.15g",
			key->path, shown, key->lowest);
	if (key->highest >= key->lowest && value > key->highest)
		return kw_error_set(error, KW_E_CONFIG, "%s: %s is too large; at most %.15g",
			key->path, shown, key->highest);
	return 0;
}

/* The choice that was probably meant, as a question for the end of a sentence; "": none. */
static void suggest_choice(const char *choices, const char *text, char question[KW_JSON_SHOWN])
{
	char *copy = kw_strdup(choices), *rest = copy;
	struct kw_nearest nearest;
	const char *choice;

	kw_nearest_init(&nearest, text);
	while ((choice = strsep(&rest, "|")))
		kw_nearest_try(&nearest, choice);
	question[0] = '\0';
	if (kw_nearest_word(&nearest))
		snprintf(question, KW_JSON_SHOWN, ": did you mean %s?", kw_nearest_word(&nearest));
	free(copy);
}

static int check_choice(const struct kw_config_key *key, const char *text, struct kw_error *error)
{
	char question[KW_JSON_SHOWN];
	size_t length = strlen(text);
	const char *at = key->choices;

	while (at) {
		const char *bar = strchr(at, '|');
		size_t choice = bar ? (size_t)(bar - at) : strlen(at);

		if (choice == length && memcmp(at, text, length) == 0)
			return 0;
		at = bar ? bar + 1 : NULL;
	}
	suggest_choice(key->choices, text, question);
	return kw_error_set(error, KW_E_CONFIG, "%s: expected one of %s; given \"%.*s\"%s",
		key->path, key->choices, KW_JSON_SHOWN, text, question);
}

static int check_scalar(const struct kw_config_key *key, enum kw_config_type type, json_t *given,
	json_t **value, struct kw_error *error)
{
	int64_t bytes;
	int code = 0;

	*value = NULL;
	if (type == KW_CONFIG_BOOL && json_is_boolean(given)) {
		*value = json_incref(given);
	} else if (type == KW_CONFIG_INTEGER && json_is_integer(given)) {
		code = check_bounds(key, (double)json_integer_value(given), given, error);
		*value = json_incref(given);
	} else if (type == KW_CONFIG_NUMBER && json_is_number(given)) {
		code = check_bounds(key, json_number_value(given), given, error);
		*value = json_real(json_number_value(given));
	} else if (type == KW_CONFIG_BYTES && json_is_integer(given)) {
		if (json_integer_value(given) < 0)
			return wrong_type(key, given, error);
		code = check_bounds(key, (double)json_integer_value(given), given, error);
		*value = json_incref(given);
	} else if (type == KW_CONFIG_BYTES && json_is_string(given) &&
		   kw_bytes_parse(json_string_value(given), &bytes)) {
		code = check_bounds(key, (double)bytes, given, error);
		*value = json_integer(bytes);
	} else if (type == KW_CONFIG_TEXT && json_is_string(given)) {
		if (key->choices)
			code = check_choice(key, json_string_value(given), error);
		if (!code && key->check && key->check(json_string_value(given), error))
			code = kw_error_wrap(error, "%s", key->path);
		*value = json_incref(given);
	} else {
		return wrong_type(key, given, error);
	}
	if (code) {
		json_decref(*value);
		*value = NULL;
	}
	return code;
}

static int check_list(const struct kw_config_key *key, enum kw_config_type item_type, json_t *given,
	json_t **value, struct kw_error *error)
{
	json_t *list, *item;
	size_t index;

	if (json_array_size(given) > KW_CONFIG_LIST_MAX)
		return kw_error_set(error, KW_E_CONFIG, "%s: a list of %zu is too long; at most %d",
			key->path, json_array_size(given), KW_CONFIG_LIST_MAX);
	list = json_array();
	json_array_foreach(given, index, item)
	{
		json_t *checked;
		int code = check_scalar(key, item_type, item, &checked, error);

		if (code) {
			json_decref(list);
			return code;
		}
		json_array_append_new(list, checked);
	}
	*value = list;
	return 0;
}

int kw_config_value_check(
	const struct kw_config_key *key, json_t *given, json_t **value, struct kw_error *error)
{
	enum kw_config_type item_type;
	json_t *item, *list;
	int code;

	*value = NULL;
	if (key->type != KW_CONFIG_TEXTS && key->type != KW_CONFIG_INTEGERS)
		return check_scalar(key, key->type, given, value, error);
	item_type = key->type == KW_CONFIG_TEXTS ? KW_CONFIG_TEXT : KW_CONFIG_INTEGER;
	if (json_is_array(given))
		return check_list(key, item_type, given, value, error);
	code = check_scalar(key, item_type, given, &item, error);
	if (code)
		return code;
	list = json_array();
	json_array_append_new(list, item);
	*value = list;
	return 0;
}

static bool wants_text(const struct kw_config_key *key)
{
	return key->type == KW_CONFIG_TEXT || key->type == KW_CONFIG_TEXTS;
}

/*
 * If another type is wanted, a JSON text can hold it as text ("\"12\"" for 12): a shell script that
 * quotes once too often writes this. NULL: it does not.
 */
static json_t *unquoted(const struct kw_config_key *key, const json_t *given)
{
	if (!json_is_string(given) || wants_text(key) || key->type == KW_CONFIG_BYTES)
		return NULL;
	return json_loads(json_string_value(given), JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
}

int kw_config_value_parse(
	const struct kw_config_key *key, const char *text, json_t **value, struct kw_error *error)
{
	json_t *given, *inner;
	json_error_t where;
	int code;

	given = json_loads(text, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &where);
	/* A list that is not closed would otherwise be a list of one odd text. */
	if (!given && *text == '[' && key->type != KW_CONFIG_TEXT)
		return kw_error_set(error, KW_E_CONFIG, "%s: not a JSON list: column %d: %s",
			key->path, where.column, where.text);
	/* A name may be "7" or "true": if a text is wanted, a scalar is its own text. */
	if (given && wants_text(key) && !json_is_string(given) && !json_is_array(given) &&
		!json_is_object(given)) {
		json_decref(given);
		given = NULL;
	}
	if (!given)
		given = json_string(text);
	if (!given)
		return kw_error_set(
			error, KW_E_CONFIG, "%s: the value is not valid UTF-8", key->path);
	inner = unquoted(key, given);
	if (inner) {
		json_decref(given);
		given = inner;
	}
	code = kw_config_value_check(key, given, value, error);
	json_decref(given);
	return code;
}
