/* The values of all keys, each with where it comes from. */
#include "control/config/internal.h"

#include "base/log.h"

#include <stdlib.h>

/* A table of keys that contradicts itself is a bug of ours: it shows at the first start. */
static json_t *fallback_value(const struct kw_config_key *key)
{
	struct kw_config_key unbounded = *key;
	struct kw_error error;
	json_t *given, *value;

	if (!key->fallback)
		return NULL;
	/* A fallback can lie outside what may be set: "" or 0 for "off". */
	unbounded.lowest = unbounded.highest = 0;
	unbounded.choices = NULL;
	given = json_loads(key->fallback, JSON_DECODE_ANY, NULL);
	if (!given || kw_config_value_check(&unbounded, given, &value, &error)) {
		kw_log_error("config", "BUG: the fallback of %s is not a %s: %s", key->path,
			kw_config_type_name(key->type), key->fallback);
		abort();
	}
	json_decref(given);
	return value;
}

struct kw_config_slot *kw_config_slots_new(const struct kw_config *config)
{
	struct kw_config_slot *slots = kw_zalloc((config->count + 1) * sizeof *slots);

	for (size_t i = 0; i < config->count; i++)
		slots[i].value = fallback_value(&config->keys[i]);
	return slots;
}

struct kw_config_slot *kw_config_slots_copy(const struct kw_config *config)
{
	struct kw_config_slot *copy = kw_zalloc((config->count + 1) * sizeof *copy);

	for (size_t i = 0; i < config->count; i++) {
		copy[i].value = json_incref(config->slots[i].value);
		copy[i].source = json_incref(config->slots[i].source);
	}
	return copy;
}

void kw_config_slots_free(const struct kw_config *config, struct kw_config_slot *slots)
{
	for (size_t i = 0; slots && i < config->count; i++) {
		json_decref(slots[i].value);
		json_decref(slots[i].source);
	}
	free(slots);
}

void kw_config_put(struct kw_config_slot *slot, json_t *value, json_t *source)
{
	json_incref(source);
	json_decref(slot->value);
	json_decref(slot->source);
	slot->value = value;
	slot->source = source;
}
