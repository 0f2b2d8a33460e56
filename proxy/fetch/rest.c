#include "fetch/rest.h"

#include <assert.h>

void kw_rest_note(struct kw_rest *rest, uint64_t hash, uint64_t bytes, uint64_t now_us)
{
	uint64_t until_us = now_us + bytes / KW_REST_BYTES_PER_US;
	int best = 0;

	if (bytes <= KW_REST_FROM_BYTES)
		return;
	for (int way = 0; way < KW_REST_WAYS; way++) {
		uint64_t set = hash % KW_REST_SETS;

		if (rest->places[set][way].hash == hash) {
			best = way;
			break;
		}
		if (rest->places[set][way].until_us < rest->places[set][best].until_us)
			best = way;
	}
	rest->places[hash % KW_REST_SETS][best].hash = hash;
	rest->places[hash % KW_REST_SETS][best].until_us = until_us;
	assert(until_us > now_us);
	if (until_us > rest->longest_us)
		rest->longest_us = until_us;
}

uint64_t kw_rest_until(const struct kw_rest *rest, uint64_t hash, uint64_t now_us)
{
	if (rest->longest_us <= now_us)
		return 0;
	for (int way = 0; way < KW_REST_WAYS; way++) {
		uint64_t set = hash % KW_REST_SETS;

		if (rest->places[set][way].hash == hash)
			return rest->places[set][way].until_us > now_us
				       ? rest->places[set][way].until_us
				       : 0;
	}
	return 0;
}
