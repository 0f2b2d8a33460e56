#include "resume.h"

#include <assert.h>

enum kw_resume kw_resume_judge(enum kw_sync_phase phase, bool positioned)
{
	switch (phase) {
	case KW_SYNC_WAIT:
	case KW_SYNC_COUNT:
	case KW_SYNC_SAMPLE:
	case KW_SYNC_CLAIM:
		break;
	case KW_SYNC_SNAPSHOT:
		assert(!positioned);
		return KW_RESUME_OVER;
	case KW_SYNC_SETTLE:
		return positioned ? KW_RESUME_NOTHING : KW_RESUME_OVER;
	case KW_SYNC_PRUNE:
		assert(positioned);
		break; /* TAIL follows, and goes on reading */
	case KW_SYNC_HELD:
		assert(positioned);
		return KW_RESUME_ON;
	case KW_SYNC_TAIL:
		return positioned ? KW_RESUME_ON : KW_RESUME_OVER;
	}
	return KW_RESUME_NOTHING;
}
