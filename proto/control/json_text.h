/* Text of any origin as JSON, and JSON values as short text for sentences. Any thread. */
#ifndef KW_CONTROL_JSON_TEXT_H
#define KW_CONTROL_JSON_TEXT_H

#include <jansson.h>
#include <stddef.h>

/*
 * A JSON string of text; never NULL. Text that is not UTF-8 (key names in sentences, log lines) has
 * its bytes beyond ASCII shown as \xNN.
 */
json_t *kw_json_text(const char *text);

/* The value as it would be written in a file, cut to fit, for "given ..." in sentences. */
#define KW_JSON_SHOWN 72
const char *kw_json_show(const json_t *value, char shown[KW_JSON_SHOWN]);

/*
 * For output that others read: numbers have the digits that a person gave, 0.05 and not
 * 0.050000000000000003.
 */
#define KW_JSON_DIGITS JSON_REAL_PRECISION(15)

/* "an object", "a list", "a text" ... */
const char *kw_json_type_name(json_type type);

#endif
