#include "source/channel.h"

#include <string.h>

bool kw_channel_database(struct kw_slice channel, uint32_t *database)
{
	static const char front[] = "__keyevent@";
	static const char behind[] = "__:";
	const char *text = channel.data;
	size_t at = sizeof(front) - 1, digits = at;
	uint64_t number = 0;

	if (channel.length < at || memcmp(text, front, at) != 0)
		return false;
	for (; at < channel.length && text[at] >= '0' && text[at] <= '9'; at++) {
		number = number * 10 + (uint64_t)(text[at] - '0');
		if (number > INT32_MAX) /* a server counts its databases in an int */
			return false;
	}
	if (at == digits || channel.length - at < sizeof(behind) - 1 ||
		memcmp(text + at, behind, sizeof(behind) - 1) != 0)
		return false;
	*database = (uint32_t)number;
	return true;
}
