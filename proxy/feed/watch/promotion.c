#include "feed/watch/promotion.h"

#include <string.h>

enum kw_promotion_data kw_promotion_seen(
	enum kw_promotion_data before, enum kw_server_upstream upstream)
{
	if (upstream == KW_UPSTREAM_SYNCING)
		return KW_PROMOTION_DATA_LOADING;
	return kw_upstream_is_well(upstream) ? KW_PROMOTION_DATA_WHOLE : before;
}

/* What servers show for no id is a row of zeros. */
static bool is_id(const char *id)
{
	return *id && strspn(id, "0") != strlen(id);
}

bool kw_promotion_goes_on(const struct kw_server_identity *old,
	const struct kw_server_identity *now, enum kw_promotion_data data)
{
	return data == KW_PROMOTION_DATA_WHOLE && is_id(now->run_id) &&
	       strcmp(now->run_id, old->run_id) == 0 && strcmp(old->role, "slave") == 0 &&
	       strcmp(now->role, "master") == 0 && is_id(now->replid2) &&
	       strcmp(now->replid2, old->replid) == 0;
}
