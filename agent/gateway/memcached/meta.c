#include "meta.h"

#include <string.h>

enum flag {
	UNKNOWN, /* for what is none, too */
	IGNORED, /* nothing to do: hints for proxies in between, and `do not bump` */
	RETURNED,
	VALUE,
	QUIET,
	BASE64,
	CHANGES, /* the key, or who may refresh it */
	OF_READS,
};

/* protocol.txt, `The flags used by the 'mg' command`. */
static const enum flag flags[128] = {
	['b'] = BASE64,
	['c'] = RETURNED,
	['f'] = RETURNED,
	['h'] = OF_READS,
	['k'] = RETURNED,
	['l'] = OF_READS,
	['q'] = QUIET,
	['s'] = RETURNED,
	['t'] = RETURNED,
	['u'] = IGNORED,
	['v'] = VALUE,
	['L'] = IGNORED,
	['N'] = CHANGES,
	['O'] = RETURNED,
	['P'] = IGNORED,
	['R'] = CHANGES,
	['T'] = CHANGES,
};

static const char *apply(struct kw_memcached_how *how, char flag)
{
	switch (flags[(uint8_t)flag]) {
	case UNKNOWN:
		return "CLIENT_ERROR invalid flag\r\n";
	case CHANGES:
		return "SERVER_ERROR this gateway only reads: leave out the flags N, R and T\r\n";
	case OF_READS:
		return "SERVER_ERROR this gateway does not know when a key was read last: "
		       "leave out the flags h and l\r\n";
	case VALUE:
		how->value = 1;
		break;
	case QUIET:
		how->quiet = 1;
		break;
	case BASE64:
		how->base64 = 1;
		break;
	case RETURNED:
		how->returned[strnlen(how->returned, sizeof how->returned)] = flag;
		break;
	case IGNORED:
		break;
	}
	return NULL;
}

static const char *apply_word(
	struct kw_memcached_how *how, struct kw_slice *opaque, struct kw_slice word)
{
	const char *text = word.data;

	if (*text == 'O') {
		if (word.length > 1 + KW_MEMCACHED_OPAQUE_MAX)
			return "CLIENT_ERROR opaque token too long\r\n";
		*opaque = kw_slice(text + 1, word.length - 1);
	}
	return apply(how, *text);
}

const char *kw_memcached_meta_flags(struct kw_memcached_how *how, struct kw_slice *opaque,
	const struct kw_slice *words, size_t count)
{
	bool seen[128] = {false};
	const char *refused = NULL;

	if (count > KW_MEMCACHED_FLAGS_MAX)
		return "CLIENT_ERROR options flags are too long\r\n";
	for (size_t i = 0; i < count; i++) {
		uint8_t flag = *(const uint8_t *)words[i].data;
		const char *why;

		/* What is no ASCII has memcached's own strange name. */
		if (flag >= 127 || seen[flag])
			return "CLIENT_ERROR duplicate flag\r\n";
		seen[flag] = true;
		why = apply_word(how, opaque, words[i]);
		if (why && flags[flag] == UNKNOWN)
			return why;
		if (!refused)
			refused = why;
	}
	return refused;
}
