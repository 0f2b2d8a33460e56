#include "control/transitions.h"

#include "base/buffer.h"
#include "control/json_text.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static const char *after_number(const char *text)
{
	while (is_digit(*text))
		text++;
	return text;
}

/* The same words; each number can be another one. */
static bool is_alike(const char *a, const char *b)
{
	while (*a && *b) {
		if (is_digit(*a) && is_digit(*b)) {
			a = after_number(a);
			b = after_number(b);
		} else if (*a++ != *b++) {
			return false;
		}
	}
	return *a == *b;
}

static char *copy_reason(const char *reason)
{
	char *copy = kw_strdup(reason);

	if (strlen(copy) > KW_TRANSITION_REASON)
		copy[KW_TRANSITION_REASON] = '\0';
	return copy;
}

static void put_word(char word[KW_TRANSITION_WORD], const char *text)
{
	snprintf(word, KW_TRANSITION_WORD, "%s", text);
}

bool kw_transitions_add(struct kw_transitions *ring, uint64_t now_us, const char *state,
	const char *code, const char *reason)
{
	struct kw_transition *last =
		&ring->items[(ring->count + KW_TRANSITIONS - 1) % KW_TRANSITIONS];
	char *copy = copy_reason(reason);

	if (ring->count > 0 && strcmp(last->state, state) == 0 && strcmp(last->code, code) == 0 &&
		is_alike(last->reason, copy)) {
		free(last->reason);
		last->reason = copy;
		return false;
	}
	last = &ring->items[ring->count++ % KW_TRANSITIONS];
	free(last->reason);
	*last = (struct kw_transition){.at_us = now_us, .reason = copy};
	put_word(last->state, state);
	put_word(last->code, code);
	return true;
}

uint64_t kw_transitions_since_us(const struct kw_transitions *ring, const char *state)
{
	uint64_t since_us = 0;

	for (uint64_t i = 0; i < ring->count && i < KW_TRANSITIONS; i++) {
		const struct kw_transition *t =
			&ring->items[(ring->count - 1 - i) % KW_TRANSITIONS];

		if (strcmp(t->state, state) != 0)
			break;
		since_us = t->at_us;
	}
	return since_us;
}

json_t *kw_transitions_json(const struct kw_transitions *ring, size_t most)
{
	json_t *list = json_array();

	for (uint64_t i = 0; i < ring->count && i < KW_TRANSITIONS && i < most; i++) {
		const struct kw_transition *t =
			&ring->items[(ring->count - 1 - i) % KW_TRANSITIONS];

		json_array_append_new(
			list, json_pack("{s:I,s:s,s:s,s:o}", "at_us", (json_int_t)t->at_us, "state",
				      t->state, "reason_code", t->code, "reason",
				      kw_json_text(t->reason)));
	}
	return list;
}

static bool is_word(const json_t *value)
{
	const char *text = json_string_value(value);

	return text && *text && strlen(text) < KW_TRANSITION_WORD &&
	       text[strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_")] == '\0';
}

static bool is_transition(const json_t *item)
{
	return json_integer_value(json_object_get(item, "at_us")) > 0 &&
	       is_word(json_object_get(item, "state")) &&
	       is_word(json_object_get(item, "reason_code")) &&
	       json_is_string(json_object_get(item, "reason"));
}

bool kw_transitions_take(struct kw_transitions *ring, const json_t *list)
{
	size_t count = json_array_size(list);

	assert(ring->count == 0);
	if (!json_is_array(list) || count > KW_TRANSITIONS)
		return false;
	for (size_t i = 0; i < count; i++)
		if (!is_transition(json_array_get(list, i)))
			return false;
	for (size_t i = count; i > 0; i--) {
		const json_t *item = json_array_get(list, i - 1);

		kw_transitions_add(ring,
			(uint64_t)json_integer_value(json_object_get(item, "at_us")),
			json_string_value(json_object_get(item, "state")),
			json_string_value(json_object_get(item, "reason_code")),
			json_string_value(json_object_get(item, "reason")));
	}
	return true;
}

void kw_transitions_close(struct kw_transitions *ring)
{
	for (size_t i = 0; i < KW_TRANSITIONS; i++)
		free(ring->items[i].reason);
	*ring = (struct kw_transitions){0};
}
