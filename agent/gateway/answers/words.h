/* Words of requests: what they mean. Pure. */
#ifndef KW_AGENT_GATEWAY_ANSWERS_WORDS_H
#define KW_AGENT_GATEWAY_ANSWERS_WORDS_H

#include "base/slice.h"
#include "command.h"

#include <stdbool.h>
#include <stdint.h>

/* Is it this word, in any case? */
bool kw_word_is(struct kw_slice word, const char *text);

/*
 * Does the text match the pattern of a SCAN or KEYS: *, ?, [a-z], [^a], and \ before a character
 * that shall stand for itself? Takes time in proportion to both lengths, whatever the pattern.
 */
bool kw_word_matches(struct kw_slice text, struct kw_slice pattern);

/* What HSCAN, SSCAN or ZSCAN is asked for. */
struct kw_scan_words {
	struct kw_slice pattern; /* no data: all */
	bool no_values;          /* HSCAN … NOVALUES */
};

/*
 * Read `key cursor [MATCH pattern] [COUNT n] [NOVALUES]`, and begin the reply: all is told at once,
 * with the cursor 0. False: an error was replied.
 */
bool kw_answer_scan(const struct kw_ask *ask, struct kw_scan_words *scan);

#endif
