#include "control/json_text.h"

#include "base/buffer.h"

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
