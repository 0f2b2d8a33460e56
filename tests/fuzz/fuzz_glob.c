/*
 * Any bytes as a pattern of keys, and as a key: what is tried stays within both and ends. Every
 * text that matches begins with the pattern's beginning. A pattern that quotes each byte matches
 * that text alone.
 *
 * The first byte is the length of the pattern, the rest of the input is the text.
 */
#include "fuzz.h"

#include "keys/glob.h"

static const struct kw_fuzz_bytes seeds[] = {
	KW_FUZZ_BYTES("\006user:*user:7"),
	KW_FUZZ_BYTES("\005h[^e]hallo"),
	KW_FUZZ_BYTES("\013*a*a*a*a*a*baaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
	KW_FUZZ_BYTES("\010[a-\\]\\*]?]*"),
	KW_FUZZ_BYTES("\003[a-]"),
};
KW_FUZZ_SEEDS(seeds)

static struct kw_slice bytes_of(const struct kw_buffer *buffer)
{
	return kw_slice(kw_buffer_bytes(buffer), kw_buffer_length(buffer));
}

static void quote(struct kw_slice text)
{
	struct kw_buffer pattern = {0};

	for (size_t i = 0; i < text.length; i++) {
		kw_buffer_append(&pattern, "\\", 1);
		kw_buffer_append(&pattern, (const uint8_t *)text.data + i, 1);
	}
	must(kw_glob_matches(bytes_of(&pattern), text));
	if (text.length > 0)
		must(!kw_glob_matches(bytes_of(&pattern), kw_slice(text.data, text.length - 1)));
	kw_buffer_append(&pattern, "*", 1);
	must(kw_glob_matches(bytes_of(&pattern), text));
	kw_buffer_close(&pattern);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kw_buffer beginning = {0};
	struct kw_slice pattern, text, start;
	size_t length = size > 0 ? data[0] : 0;

	if (size == 0)
		return 0;
	if (length > size - 1)
		length = size - 1;
	pattern = kw_slice(data + 1, length);
	text = kw_slice(data + 1 + length, size - 1 - length);
	kw_glob_beginning(pattern, &beginning);
	start = bytes_of(&beginning);
	if (kw_glob_matches(pattern, text)) {
		must(start.length <= text.length);
		must(start.length == 0 || memcmp(start.data, text.data, start.length) == 0);
	}
	must(!kw_glob_is_everything(pattern) || kw_glob_matches(pattern, text));
	kw_buffer_close(&beginning);
	quote(text);
	return 0;
}
