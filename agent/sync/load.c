#include "load.h"

#include <assert.h>

void kw_load_begin(struct kw_load_watch *watch, uint64_t bytes, uint64_t vanished, uint64_t now_us)
{
	*watch = (struct kw_load_watch){
		.bytes = bytes,
		.moved_us = now_us,
		.vanished = vanished,
	};
}

bool kw_load_is_stuck(struct kw_load_watch *watch, uint64_t bytes, uint64_t room, uint64_t now_us)
{
	assert(bytes >= watch->bytes);
	if (bytes == watch->bytes && room > 0)
		return now_us > watch->moved_us && now_us - watch->moved_us > KW_LOAD_IDLE_US;
	watch->bytes = bytes;
	watch->moved_us = now_us;
	return false;
}
