#include "fetch/cooldown.h"

#include <assert.h>

uint64_t kw_cooldown_rest_us(uint64_t bytes, uint64_t dump_us, double share)
{
	uint64_t size_us = bytes / KW_COOLDOWN_BYTES_PER_US, share_us;
	uint64_t slowest_us = bytes / KW_COOLDOWN_SLOWEST_BYTES_PER_US;
	double rest_us;

	assert(share > 0);
	dump_us = dump_us < slowest_us ? dump_us : slowest_us;
	rest_us = share < 1 ? (double)dump_us * (1 - share) / share : 0;
	share_us = rest_us < (double)KW_COOLDOWN_MOST_US ? (uint64_t)rest_us : KW_COOLDOWN_MOST_US;
	return share_us > size_us ? share_us : size_us;
}

void kw_cooldown_note(struct kw_cooldown *cooldown, uint64_t hash, uint64_t bytes, uint64_t rest_us,
	uint64_t now_us)
{
	uint64_t until_us = now_us + rest_us;
	int best = 0;

	if (bytes <= KW_COOLDOWN_FROM_BYTES)
		return;
	for (int way = 0; way < KW_COOLDOWN_WAYS; way++) {
		uint64_t set = hash % KW_COOLDOWN_SETS;

		if (cooldown->places[set][way].hash == hash) {
			best = way;
			break;
		}
		if (cooldown->places[set][way].until_us < cooldown->places[set][best].until_us)
			best = way;
	}
	cooldown->places[hash % KW_COOLDOWN_SETS][best].hash = hash;
	cooldown->places[hash % KW_COOLDOWN_SETS][best].until_us = until_us;
	assert(until_us >= now_us);
	if (until_us > cooldown->longest_us)
		cooldown->longest_us = until_us;
}

uint64_t kw_cooldown_until(const struct kw_cooldown *cooldown, uint64_t hash, uint64_t now_us)
{
	if (cooldown->longest_us <= now_us)
		return 0;
	for (int way = 0; way < KW_COOLDOWN_WAYS; way++) {
		uint64_t set = hash % KW_COOLDOWN_SETS;

		if (cooldown->places[set][way].hash == hash)
			return cooldown->places[set][way].until_us > now_us
				       ? cooldown->places[set][way].until_us
				       : 0;
	}
	return 0;
}
