/* Text of any origin as JSON, and JSON values as short text for sentences. Any thread. */
#ifndef KW_CONTROL_JSON_TEXT_H
#define KW_CONTROL_JSON_TEXT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/*
 * Numbers that a reader with doubles (jq, JavaScript) would round are told as texts, wherever other
 * programs read: by HTTP, and by keywakectl in JSON. They are integers beyond KW_JSON_EXACT_MOST,
 * as their digits, and each epoch, which is 64 random bits, as 16 hexadecimal digits.
 *
 * The control socket itself has numbers, as it had in version 0.1: its clients read them as
 * integers, and keywakectl of either version does. A client of its own must read 64 bits.
 */
#define KW_JSON_EXACT_MOST (INT64_C(1) << 53)
#define KW_JSON_EXACT_TEXT 24

/* Is the field of that name told as a text? Then text has it. */
bool kw_json_exact_text(const char *name, const json_t *value, char text[KW_JSON_EXACT_TEXT]);

/* The same value, with these texts in it, however deep. The caller's. */
json_t *kw_json_exact(const json_t *value);

/* "an object", "a list", "a text" ... */
const char *kw_json_type_name(json_type type);

#endif
