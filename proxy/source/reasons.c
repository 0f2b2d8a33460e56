/* The reasons of the proxy: deploy/doc/operate.md has them in the same words. */
#include "source/completeness.h"

#include <assert.h>

#define GOOD KW_GRADE_GOOD
#define PASSING KW_GRADE_PASSING
#define BAD KW_GRADE_BAD

static const struct kw_reason_row reasons[] = {
	[KW_CLAIM_NOTHING_WRONG] = {"none", GOOD, "Nothing is wrong: live.", ""},
	[KW_CLAIM_NOT_CONNECTED] = {"primary_away", BAD,
		"There is no connection to the primary, or it is loading. By the stream also: it "
		"shuts down, a FAILOVER is under way, or the proxy pauses between forks.",
		"Do what the reason says: start the primary, or mend the network. The proxy tries "
		"again by itself."},
	[KW_CLAIM_REFUSED] = {"primary_refuses", BAD,
		"The primary refuses: password, ACL, cluster mode, its version, or by the stream "
		"min-replicas-to-write. Or something else listens at its address, which the reason "
		"names.",
		"Do what the reason says. The proxy tries again by itself."},
	[KW_CLAIM_BUSY] = {"primary_busy", BAD, "A script on the primary runs for too long.",
		"Wait, or run SCRIPT KILL there. Nothing is scanned again."},
	[KW_CLAIM_SILENT] = {"primary_silent", BAD,
		"The primary is connected, and has not answered for 3 s or more.",
		"Look at the primary: its log, and SLOWLOG GET there. Restart it if it hangs."},
	[KW_CLAIM_CHAIN_CUT] = {"chain_cut", BAD,
		"The server is a replica without its own primary, or hears nothing of it.",
		"Mend its link. If the server shall be the primary, run REPLICAOF NO ONE there."},
	[KW_CLAIM_UNCONFIRMED] = {"unconfirmed", BAD, "Nobody confirms the server as the primary.",
		"See mandate in keywakectl status --all: it says who does not confirm it, and "
		"why."},
	[KW_CLAIM_STANDBY] = {"standby", GOOD,
		"Another server is the primary. The proxy stands by at a replica.", ""},
	[KW_CLAIM_HELD] = {"held", BAD, "The primary lacks many keys, and their deletion waits.",
		"Nothing is deleted. Look whether the primary came back empty; then restore it, or "
		"run keywakectl approve."},
	[KW_CLAIM_NO_ROOM] = {"no_room", BAD, "The table is full, and changed keys wait for room.",
		"Raise table.max_bytes: keywakectl config set table.max_bytes 16GiB."},
	[KW_CLAIM_MENDING] = {"scan", PASSING,
		"The primary is scanned, for the cause that the reason names.",
		"Wait: agents get warm after the scan, and keep what they have until then."},
	[KW_CLAIM_UNREADABLE] = {"keys_unreadable", BAD,
		"The connection breaks when some keys are fetched. The log names them.",
		"Raise client-output-buffer-limit normal there, then run keywakectl reconcile."},
	[KW_CLAIM_TOO_LARGE] = {"keys_too_large", BAD,
		"Some keys are larger than the table can hold. The log names them.",
		"Raise table.max_bytes, or shrink the values."},
	[KW_CLAIM_BEYOND] = {"databases_beyond", BAD,
		"Databases from 65536 on have keys, and are not replicated.",
		"Move the keys, or name the databases to replicate in source.databases."},
};

const struct kw_reason_row *kw_claim_row(enum kw_claim_cause cause)
{
	assert((unsigned)cause < sizeof reasons / sizeof *reasons && reasons[cause].code);
	return &reasons[cause];
}
