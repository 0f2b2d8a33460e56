#include "control/json_text.h"

#include "base/buffer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

json_t *kw_json_text(const char *text)
{
	struct kw_buffer escaped = {0};
	json_t *string = json_string(text);

	if (string)
		return string;
	for (; *text; text++) {
		if ((unsigned char)*text < 0x80)
			kw_buffer_append(&escaped, text, 1);
		else
			kw_buffer_printf(&escaped, "\\x%02x", (unsigned char)*text);
	}
	string = json_stringn((const char *)kw_buffer_bytes(&escaped), kw_buffer_length(&escaped));
	kw_buffer_close(&escaped);
	return string;
}

const char *kw_json_show(const json_t *value, char shown[KW_JSON_SHOWN])
{
	static const char more[] = "...";
	size_t length;

	length = json_dumpb(value, shown, KW_JSON_SHOWN - 1, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
	if (length < KW_JSON_SHOWN) {
		shown[length] = '\0';
		return shown;
	}
	memcpy(shown + KW_JSON_SHOWN - sizeof more, more, sizeof more);
	return shown;
}

bool kw_json_exact_text(const char *name, const json_t *value, char text[KW_JSON_EXACT_TEXT])
{
	json_int_t number = json_integer_value(value);

	if (!json_is_integer(value))
		return false;
	if (strcmp(name, "epoch") == 0)
		snprintf(text, KW_JSON_EXACT_TEXT, "%016llx", (unsigned long long)number);
	else if (number > KW_JSON_EXACT_MOST || number < -KW_JSON_EXACT_MOST)
		snprintf(text, KW_JSON_EXACT_TEXT, "%" JSON_INTEGER_FORMAT, number);
	else
		return false;
	return true;
}

/* `name` of a list's items is that of the list. No deeper than jansson reads and writes. */
static json_t *exact(const char *name, const json_t *value)
{
	char text[KW_JSON_EXACT_TEXT];
	json_t *copy, *item;
	const char *key;
	size_t i;

	if (kw_json_exact_text(name, value, text))
		return json_string(text);
	if (json_is_object(value)) {
		copy = json_object();
		json_object_foreach((json_t *)(uintptr_t)value, key, item)
			json_object_set_new_nocheck(copy, key, exact(key, item));
		return copy;
	}
	if (!json_is_array(value))
		return json_incref((json_t *)(uintptr_t)value);
	copy = json_array();
	json_array_foreach((json_t *)(uintptr_t)value, i, item)
		json_array_append_new(copy, exact(name, item));
	return copy;
}

json_t *kw_json_exact(const json_t *value)
{
	return exact("", value);
}

const char *kw_json_type_name(json_type type)
{
	switch (type) {
	case JSON_OBJECT:
		return "object";
	case JSON_ARRAY:
		return "list";
	case JSON_STRING:
		return "text";
	case JSON_INTEGER:
		return "integer";
	case JSON_REAL:
		return "number";
	case JSON_TRUE:
	case JSON_FALSE:
		return "boolean";
	case JSON_NULL:
		break;
	}
	return "any";
}
