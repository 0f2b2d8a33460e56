/* What waits until the operator approves it. */
#include "internal.h"

int kw_sync_approve(struct kw_sync *sync, char finding[KW_SYNC_WHY], struct kw_error *error)
{
	finding[0] = '\0';
	return kw_error_set(error, KW_E_STATE, "nothing waits for approval");
}
