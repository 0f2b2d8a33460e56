/* What waits until the operator approves it. */
#include "internal.h"

#include "base/log.h"

#include <stdio.h>

int kw_sync_approve(struct kw_sync *sync, char finding[KW_SYNC_WHY], struct kw_error *error)
{
	finding[0] = '\0';
	if (sync->authority.permission == KW_PERMISSION_REFUSED) {
		snprintf(finding, KW_SYNC_WHY, "%s", sync->why);
		kw_log_warn("sync", "approved by the operator: %s", finding);
		kw_sync_approve_table(sync);
		return KW_OK;
	}
	if (!kw_brake_holds(&sync->brake))
		return kw_error_set(error, KW_E_STATE, "nothing waits for approval");
	kw_brake_words(&sync->brake, finding, KW_SYNC_WHY);
	kw_log_warn("sync", "approved by the operator: %s", finding);
	kw_brake_approve(&sync->brake);
	if (kw_sync_phase(sync) == KW_SYNC_HELD) {
		kw_sync_save_approval(sync);
		kw_sync_enter(sync, KW_SYNC_SETTLE, "approved");
	} else if (kw_sync_phase(sync) == KW_SYNC_WAIT) {
		sync->in.wait.retry_us = 0;
	}
	return KW_OK;
}
