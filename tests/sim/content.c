#include "sim.h"

#include "base/hash.h"

#include <string.h>

/* Every length from the number's own 4 bytes on; most keys are short, some are not. */
struct kw_slice sim_key(uint32_t number, uint8_t buffer[SIM_KEY_BYTES_MAX])
{
	uint32_t length = 4 + number % 5 * (number % 11);

	if (number == 0)
		return kw_slice(buffer, 0);
	memcpy(buffer, &number, sizeof number);
	for (uint32_t i = 4; i < length; i++)
		buffer[i] = (uint8_t)(number * 31 + i * 7);
	return kw_slice(buffer, length);
}

int sim_key_number(struct kw_slice key)
{
	uint8_t buffer[SIM_KEY_BYTES_MAX];
	uint32_t number;

	if (key.length == 0)
		return 0;
	if (key.length < sizeof number)
		return -1;
	memcpy(&number, key.data, sizeof number);
	if (number >= SIM_KEYS_MAX || !kw_slice_equal(key, sim_key(number, buffer)))
		return -1;
	return (int)number;
}

struct kw_slice sim_value_bytes(uint64_t tag, uint32_t length)
{
	static uint8_t bytes[SIM_VALUE_MAX + 8];
	struct prng prng = {tag};

	for (uint32_t at = 0; at < length; at += 8) {
		uint64_t word = prng_next(&prng);

		memcpy(bytes + at, &word, sizeof word);
	}
	return kw_slice(bytes, length);
}

uint64_t sim_value_hash(struct kw_slice value)
{
	return kw_hash_key(0, 0, value.data, value.length);
}
