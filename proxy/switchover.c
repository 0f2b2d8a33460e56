/* What a switch-over asks of a proxy on the control socket: its lock, the fence, and another term.
 */
#include "proxy.h"

#include "base/clock.h"
#include "base/log.h"
#include "source/compare.h"
#include "source/pause.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/random.h>

#define FENCE_SECONDS_MAX 86400

/* Another one for each holder, and nobody guesses it; positive, as JSON has it. */
static uint64_t new_token(void)
{
	uint64_t token = 0;

	if (getrandom(&token, sizeof token, GRND_NONBLOCK) != sizeof token)
		token ^= kw_clock_us();
	return (token & INT64_MAX) | 1;
}

static uint64_t token_of(const json_t *params)
{
	return (uint64_t)json_integer_value(json_object_get(params, "lock"));
}

static void expire(struct kw_proxy *proxy)
{
	kw_proxy_lock_expire(&proxy->lock, kw_rpc_is_connected(proxy->rpc, proxy->lock.connection),
		kw_clock_us());
}

/* May this client act? It is told if not. */
static bool may_act(struct kw_proxy *proxy, struct kw_rpc_call *call, const json_t *params)
{
	struct kw_error error;

	expire(proxy);
	if (!kw_proxy_lock_check(&proxy->lock, token_of(params), &error))
		return true;
	kw_rpc_fail_error(call, &error);
	return false;
}

static void take_lock(
	struct kw_proxy *proxy, struct kw_rpc_call *call, const json_t *params, double seconds)
{
	const char *owner = json_string_value(json_object_get(params, "owner"));
	const struct kw_proxy_lock_asker asker = {
		token_of(params), kw_rpc_call_connection(call), owner ? owner : "not named"};
	bool was_free = proxy->lock.token == 0;
	struct kw_error error;

	if (kw_proxy_lock_take(&proxy->lock, &asker, new_token(),
		    kw_clock_us() + (uint64_t)(seconds * 1e6), &error)) {
		kw_rpc_fail_error(call, &error);
		return;
	}
	if (was_free)
		kw_log_info("proxy", "a switchover has the lock: %s", proxy->lock.owner);
	kw_rpc_result(call, json_pack("{s:I}", "lock", (json_int_t)proxy->lock.token));
}

void kw_proxy_on_lock(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	struct kw_proxy *proxy = arg;
	double seconds = json_number_value(json_object_get(params, "seconds"));

	expire(proxy);
	if (!(seconds >= 0 && seconds <= KW_PROXY_LOCK_SECONDS)) {
		kw_rpc_fail(call, KW_RPC_CODE(KW_E_ARGUMENT), "seconds: from 0 to %d",
			KW_PROXY_LOCK_SECONDS);
	} else if (seconds > 0) {
		take_lock(proxy, call, params, seconds);
	} else {
		kw_proxy_lock_release(&proxy->lock, token_of(params));
		kw_rpc_result(call, json_object());
	}
}

static void on_fenced(
	void *arg, const struct kw_source_paused *paused, const struct kw_error *error)
{
	struct kw_rpc_call *call = arg;

	if (error)
		kw_rpc_fail_error(call, error);
	else
		kw_rpc_result(call,
			json_pack("{s:s,s:I,s:I,s:I}", "run_id", paused->run_id, "changes",
				(json_int_t)paused->changes, "saved_s", (json_int_t)paused->saved_s,
				"since_last", (json_int_t)paused->since_last));
}

void kw_proxy_on_fence(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	struct kw_proxy *proxy = arg;
	double seconds = json_number_value(json_object_get(params, "seconds"));
	uint32_t ms;

	if (!(seconds >= 0 && seconds <= FENCE_SECONDS_MAX)) {
		kw_rpc_fail(call, KW_RPC_CODE(KW_E_ARGUMENT), "seconds: from 0 to %d",
			FENCE_SECONDS_MAX);
		return;
	}
	if (!may_act(proxy, call, params))
		return;
	if (seconds > 0)
		kw_log_warn("source",
			"writes at the primary wait for up to %.1f s: asked for on the control "
			"socket",
			seconds);
	else
		kw_log_warn(
			"source", "writes at the primary go on: asked for on the control socket");
	/* Rounded up: 0 has another meaning. */
	ms = (uint32_t)(seconds * 1000);
	ms += ms < seconds * 1000;
	kw_source_pause_writes(proxy->source, ms, on_fenced, call);
}

static void on_compared(
	void *arg, const struct kw_source_compared *compared, const struct kw_error *error)
{
	struct kw_rpc_call *call = arg;

	if (error)
		kw_rpc_fail_error(call, error);
	else
		kw_rpc_result(call, json_pack("{s:I,s:I,s:f}", "keys", (json_int_t)compared->keys,
					    "changed", (json_int_t)compared->changed, "seconds",
					    (double)compared->us / 1e6));
}

static bool is_wanted(void *arg)
{
	return kw_rpc_call_wanted(arg);
}

void kw_proxy_compare(struct kw_proxy *proxy, struct kw_rpc_call *call)
{
	kw_source_compare(
		proxy->source, &(const struct kw_source_comparing){on_compared, is_wanted, call});
}

/* As config.set with save, for who has the lock alone. */
void kw_proxy_on_term(void *arg, struct kw_rpc_call *call, const json_t *params)
{
	struct kw_proxy *proxy = arg;
	char text[24];
	struct kw_error error;

	if (token_of(params) == 0) {
		kw_rpc_fail(call, KW_RPC_CODE(KW_E_ARGUMENT), "lock: take it first");
		return;
	}
	if (!may_act(proxy, call, params))
		return;
	snprintf(text, sizeof text, "%" JSON_INTEGER_FORMAT,
		json_integer_value(json_object_get(params, "term")));
	if (kw_config_change_and_save(proxy->daemon.config, "authority.term", text,
		    proxy->daemon.changed, &proxy->daemon, &error))
		kw_rpc_fail_error(call, &error);
	else
		kw_rpc_result(call, json_pack("{s:s}", "term", text));
}
