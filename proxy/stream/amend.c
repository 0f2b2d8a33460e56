#include "stream/amend.h"

#include <assert.h>
#include <inttypes.h>

static int too_long(size_t most, struct kw_error *error)
{
	return kw_error_set(error, KW_E_FULL, "the string would have more than %zu bytes", most);
}

static int add(
	int64_t number, struct kw_slice before, struct kw_buffer *after, struct kw_error *error)
{
	int64_t value = 0, sum;

	if (!kw_repl_number(before, &value))
		return kw_error_set(error, KW_E_STATE, "the value before INCRBY is no integer");
	if (__builtin_add_overflow(value, number, &sum))
		return kw_error_set(error, KW_E_STATE, "INCRBY is beyond 64 bits");
	kw_buffer_printf(after, "%" PRId64, sum);
	return KW_OK;
}

/* Bytes between the old end and `at` are zero. */
static void overwrite(
	size_t at, struct kw_slice bytes, struct kw_slice before, struct kw_buffer *after)
{
	size_t end = at + bytes.length > before.length ? at + bytes.length : before.length;
	uint8_t *text = kw_buffer_reserve(after, end);

	if (before.length > 0)
		memcpy(text, before.data, before.length);
	if (at > before.length)
		memset(text + before.length, 0, at - before.length);
	memcpy(text + at, bytes.data, bytes.length);
	kw_buffer_filled(after, end);
}

int kw_repl_amend(const struct kw_repl_effect *effect, const struct kw_slice *before, size_t most,
	struct kw_buffer *after, bool *exists, struct kw_error *error)
{
	const struct kw_slice old = before ? *before : kw_slice(NULL, 0);
	const struct kw_slice bytes = effect->bytes;
	uint64_t at = effect->kind == KW_REPL_WRITE ? (uint64_t)effect->number : old.length;

	assert(effect->kind == KW_REPL_ADD || effect->kind == KW_REPL_APPEND ||
		effect->kind == KW_REPL_WRITE);
	kw_buffer_clear(after);
	*exists = true;
	if (effect->kind == KW_REPL_ADD)
		return add(effect->number, before ? *before : kw_slice("0", 1), after, error);
	if (old.length > most || at > most || bytes.length > most - at)
		return too_long(most, error);
	if (bytes.length > 0) {
		overwrite((size_t)at, bytes, old, after);
		return KW_OK;
	}
	/* APPEND of nothing makes an empty key, SETRANGE of nothing changes nothing. */
	*exists = before || effect->kind == KW_REPL_APPEND;
	if (old.length > 0)
		kw_buffer_append(after, old.data, old.length);
	return KW_OK;
}
