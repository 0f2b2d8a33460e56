#include "ctl/switchover/lock.h"

#include "base/clock.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define RENEW_US UINT64_C(10000000)
#define CALL_MS 10000
#define OWNER 80

static void let_go(struct kw_switchover_lock *lock)
{
	kw_rpc_client_close(lock->client);
	*lock = (struct kw_switchover_lock){0};
}

static json_t *params_of(const struct kw_switchover_lock *lock)
{
	json_t *params = json_pack("{s:i}", "seconds", KW_SWITCHOVER_LOCK_S);
	char host[48] = "", owner[OWNER];

	(void)gethostname(host, sizeof host - 1);
	snprintf(owner, sizeof owner, "keywakectl on %.40s, process %d", host, (int)getpid());
	json_object_set_new(params, "owner", json_string(owner));
	if (lock->token)
		json_object_set_new(params, "lock", json_integer(lock->token));
	return params;
}

static int ask(struct kw_switchover_lock *lock, struct kw_error *error)
{
	json_t *answer;
	int code =
		kw_rpc_client_call(lock->client, "lock", params_of(lock), CALL_MS, &answer, error);

	if (code)
		return code;
	lock->token = json_integer_value(json_object_get(answer, "lock"));
	lock->renew_us = kw_clock_us() + RENEW_US;
	json_decref(answer);
	return 0;
}

/* One that is away is not locked: the checks say what follows from that. */
static int take(const struct kw_site *site, struct kw_switchover_lock *lock, struct kw_error *error)
{
	int code = kw_rpc_client_open(site->ctl.socket, &lock->client, error);

	if (code == KW_E_IO) {
		lock->client = NULL;
		return 0;
	}
	if (!code)
		code = ask(lock, error);
	if (!code)
		return 0;
	let_go(lock);
	return kw_error_wrap(error, "%s", site->name);
}

static int take_both(struct kw_switchover *run, struct kw_error *error)
{
	int code = take(&run->sites.from, &run->locks.from, error);

	if (!code)
		code = take(&run->sites.to, &run->locks.to, error);
	if (code)
		let_go(&run->locks.from); /* who has the other one may want this one */
	return code;
}

int kw_switchover_lock(struct kw_switchover *run, struct kw_error *error)
{
	uint64_t deadline_us = kw_clock_us() + (uint64_t)(run->options.timeout_s * 1e6);
	struct kw_error end;
	int code;

	do
		code = take_both(run, error);
	while (code == KW_E_REFUSED && !kw_switchover_go_on(run, deadline_us, &end));
	if (code == KW_E_REFUSED && end.code != KW_E_TIMEOUT) {
		*error = end;
		code = (int)end.code;
	}
	return code;
}

static int keep(const struct kw_site *site, struct kw_switchover_lock *lock, struct kw_error *error)
{
	if (!lock->client || kw_clock_us() < lock->renew_us || !ask(lock, error))
		return 0;
	return kw_error_wrap(error, "%s: its lock is lost", site->name);
}

int kw_switchover_lock_keep(struct kw_switchover *run, struct kw_error *error)
{
	int code = keep(&run->sites.from, &run->locks.from, error);

	if (!code)
		code = keep(&run->sites.to, &run->locks.to, error);
	return code ? (int)(error->code = KW_E_STATE) : 0;
}

int kw_switchover_lock_again(struct kw_switchover *run, struct kw_error *error)
{
	run->locks.from.renew_us = run->locks.to.renew_us = 0;
	if (!kw_switchover_lock_keep(run, error))
		return 0;
	kw_switchover_unlock(run);
	return take_both(run, error);
}

void kw_switchover_unlock(struct kw_switchover *run)
{
	let_go(&run->locks.from);
	let_go(&run->locks.to);
}
