#include "modes.h"

#include "primary/replica.h"

#include <string.h>

const struct kw_apply_ops *kw_apply_find(const char *mode)
{
	static const struct kw_apply_ops *const modes[] = {
		&kw_apply_commands, &kw_apply_replica, &kw_apply_hybrid, &kw_apply_discard};

	for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
		if (strcmp(modes[i]->mode, mode) == 0)
			return modes[i];
	return NULL;
}

bool kw_apply_leads(const struct kw_apply_ops *ops)
{
	return ops == &kw_apply_replica || ops == &kw_apply_hybrid;
}
