#include "mode.h"

#include <stddef.h>
#include <string.h>

static const struct kw_mode modes[] = {
	{"commands", KW_MODE_LOADER_RESTORE, KW_MODE_APPLIER_COMMANDS},
	{"replica", KW_MODE_LOADER_RDB, KW_MODE_APPLIER_LINK},
	{"hybrid", KW_MODE_LOADER_RDB, KW_MODE_APPLIER_COMMANDS},
	{"discard", KW_MODE_LOADER_NONE, KW_MODE_APPLIER_NONE},
};

const struct kw_mode *kw_mode_find(const char *name)
{
	for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
		if (strcmp(modes[i].name, name) == 0)
			return &modes[i];
	return NULL;
}
