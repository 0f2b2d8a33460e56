/*
 * Arbitrary bytes as what a server says of its events: the channel of a notification, the flags of
 * notify-keyspace-events, and the payload by which keys are told that change without an event.
 */
#include "fuzz.h"

#include "feed/flags.h"
#include "feed/notify/channel.h"
#include "feed/watch/silent.h"

#include <string.h>

static const struct kw_fuzz_bytes seeds[] = {
	KW_FUZZ_BYTES("__keyevent@0__:set"),
	KW_FUZZ_BYTES("__keyevent@2147483647__:xgroup-createconsumer"),
	KW_FUZZ_BYTES("__keyevent@2147483648__:del"),
	KW_FUZZ_BYTES("__keyevent@7__:keymiss"),
	KW_FUZZ_BYTES("__keyspace@0__:key"),
	KW_FUZZ_BYTES("KEA$lshzxetdmno"),
	KW_FUZZ_BYTES("\x13\x01\x10"
		      "0123456789abcdef\x0c"),
	KW_FUZZ_BYTES("\x00\x10HYLL\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x7f\xff"),
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kw_slice bytes = kw_slice(data, size), event;
	char merged[KW_FLAGS_TEXT];
	uint32_t database;
	kw_flags flags;

	if (kw_channel_parse(bytes, &database, &event)) {
		must(database <= INT32_MAX && event.length < size);
		must((const uint8_t *)event.data + event.length == data + size);
		(void)kw_channel_is_change(event);
		(void)kw_channel_may_expire(event);
	}
	(void)kw_channel_may_expire(bytes);
	flags = kw_flags_parse(bytes);
	kw_flags_merged(flags, merged);
	must(memchr(merged, 0, sizeof merged) != NULL);
	must(kw_flags_sufficient(kw_flags_parse(kw_slice_text(merged))));
	must(kw_silent_classify(bytes) < KW_SILENT_KINDS);
	return 0;
}

KW_FUZZ_SEEDS(seeds)
