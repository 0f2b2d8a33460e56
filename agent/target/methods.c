#include "target/target.h"

#include "control/config/config.h"
#include "control/json_text.h"

#include <stdlib.h>

/* One address, or a list of them. KW_E_CONFIG: neither. */
static int read_proxies(const json_t *params, struct kw_proxies *proxies, struct kw_error *error)
{
	const json_t *one = json_object_get(params, "proxy");
	const json_t *list = json_object_get(params, "proxies");
	int code = KW_OK;

	if (!one == !list)
		return kw_error_set(error, KW_E_CONFIG, "give proxy, or proxies");
	if (one)
		return kw_proxies_add(proxies, json_string_value(one), error);
	for (size_t i = 0; i < json_array_size(list) && !code; i++) {
		const char *proxy = json_string_value(json_array_get(list, i));

		code = proxy ? kw_proxies_add(proxies, proxy, error)
			     : kw_error_set(error, KW_E_CONFIG, "proxies: a list of addresses");
	}
	return code;
}

/* The addresses are known to be good. */
static int save_proxies(
	struct kw_config *config, const struct kw_proxies *proxies, struct kw_error *error)
{
	json_t *list = json_array();
	char *text;
	int code;

	for (size_t i = 0; i < proxies->count; i++)
		json_array_append_new(list, json_string(proxies->address[i]));
	text = json_dumps(list, 0);
	code = kw_config_save(config, "proxy", text, error);
	free(text);
	json_decref(list);
	return code;
}

int kw_target_asked(struct kw_config *config, const json_t *params, struct kw_proxies *proxies,
	struct kw_error *error)
{
	if (read_proxies(params, proxies, error) || kw_proxies_check(proxies, error))
		return error->code;
	return json_is_true(json_object_get(params, "save")) ? save_proxies(config, proxies, error)
							     : KW_OK;
}

/* none: not asked for, or not over this carrier; zstd; refused: the reason says why. */
static void show_compression(json_t *status, const struct kw_follow *follow)
{
	const struct kw_remote_info *info = &follow->info;
	const bool asked = kw_follow_up(follow) && info->wished;
	const bool granted = asked && info->compression == KW_COMPRESSION_ZSTD;

	json_object_set_new(status, "compression",
		json_string(granted ? "zstd"
			    : asked ? "refused"
				    : "none"));
	json_object_set_new(status, "compression_reason",
		json_string(asked ? kw_compression_text(info->compression) : ""));
}

void kw_target_show(json_t *status, const struct kw_scouts *scouts)
{
	json_t *list = json_array();

	for (size_t i = 0; i < scouts->proxies.count; i++) {
		const struct kw_follow *known = kw_scouts_known(scouts, i);
		bool seen = known && kw_follow_up(known) && known->superblock.epoch != 0;
		const struct kw_history *history = seen ? &known->history : NULL;

		json_array_append_new(
			list, json_pack("{s:s,s:b,s:b,s:s,s:I,s:b,s:o}", "proxy",
				      scouts->proxies.address[i], "followed",
				      (int)(i == scouts->current), "seen", (int)seen, "mandate",
				      history ? kw_mandate_state_name(history->mandate) : "",
				      "term", history ? (json_int_t)history->term : (json_int_t)0,
				      "complete", (int)(seen && known->superblock.complete), "why",
				      kw_json_text(known && !seen ? known->why : "")));
	}
	json_object_set_new(status, "proxies", list);
	show_compression(status, scouts->follow);
}
