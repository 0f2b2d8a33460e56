#include "doctor/link.h"

#include "doctor/host.h"

#include <inttypes.h>
#include <string.h>

/* A RoCE packet carries 4096 bytes only through an interface with this much. */
#define MTU_JUMBO 4200
#define READ_SLOW_US UINT64_C(20000)

static struct kw_check check_of(const struct kw_link_facts *facts, const char *part)
{
	return (struct kw_check){facts->what, part};
}

static const struct state {
	const char *word, *remedy;
	enum kw_severity severity;
} states[] = {
	[KW_SOURCE_CONNECTING] = {"is not connected to its primary", NULL, KW_FINDING_WRONG},
	[KW_SOURCE_SCANNING] = {"scans its primary for the first time", NULL, KW_FINDING_WARNING},
	[KW_SOURCE_LIVE] = {"is live", NULL, KW_FINDING_OK},
	[KW_SOURCE_RECONCILING] = {"scans its primary again", NULL, KW_FINDING_OK},
	[KW_SOURCE_FULL] = {"has no room for what changes",
		"keywakectl config set table.max_bytes, at the proxy", KW_FINDING_WRONG},
	[KW_SOURCE_DOWN] = {"has lost its primary", NULL, KW_FINDING_WRONG},
	[KW_SOURCE_HELD] = {"holds deletions back", "keywakectl status, then approve, at the proxy",
		KW_FINDING_WRONG},
	[KW_SOURCE_STALLED] = {"hears nothing from its primary, which hangs", NULL,
		KW_FINDING_WRONG},
	[KW_SOURCE_UNCONFIRMED] = {"is not confirmed as the primary's", NULL, KW_FINDING_WARNING},
};

static void judge_state(const struct kw_link_facts *facts, struct kw_findings *findings)
{
	const struct kw_superblock *superblock = &facts->superblock;
	const struct kw_check check = check_of(facts, "state");
	const struct state *state;
	struct kw_finding *finding;

	if (!facts->beats) {
		kw_finding_mend(
			kw_finding_add(findings, KW_FINDING_WRONG, check,
				"its heartbeat stands still: READs work, and the proxy does not"),
			"systemctl status keywake-proxy@NAME, on its host");
		return;
	}
	if (superblock->source_state >= sizeof states / sizeof *states)
		return;
	state = &states[superblock->source_state];
	finding = kw_finding_add(findings, state->severity, check,
		"the proxy %s; its table has %" PRIu64 " keys%s", state->word, superblock->keys,
		superblock->complete ? "" : " and is not complete yet");
	if (state->severity != KW_FINDING_OK)
		kw_finding_mend(finding, "%s",
			state->remedy ? state->remedy : "keywakectl doctor, at the proxy");
}

/* Less than a microsecond is one. */
static uint64_t rounded_up(uint64_t us)
{
	return us > 0 ? us : 1;
}

static void judge_reads(const struct kw_link_facts *facts, struct kw_findings *findings)
{
	enum kw_severity severity =
		facts->median_us >= READ_SLOW_US ? KW_FINDING_WARNING : KW_FINDING_OK;
	struct kw_finding *finding;

	if (facts->reads == 0)
		return;
	if (facts->bytes > 0 && facts->took_us > 0)
		finding = kw_finding_add(findings, severity, check_of(facts, "READs"),
			"a READ over %s takes %" PRIu64 " us (the slowest of %" PRIu64 ": %" PRIu64
			" us), and large ones bring %" PRIu64 " MB/s",
			facts->carrier, rounded_up(facts->median_us), facts->reads,
			rounded_up(facts->slowest_us), facts->bytes / facts->took_us);
	else
		finding = kw_finding_add(findings, severity, check_of(facts, "READs"),
			"a READ over %s takes %" PRIu64 " us (the slowest of %" PRIu64 ": %" PRIu64
			" us)",
			facts->carrier, rounded_up(facts->median_us), facts->reads,
			rounded_up(facts->slowest_us));
	if (severity != KW_FINDING_OK)
		kw_finding_mend(finding, "ping, and mtr, to the proxy's host");
}

static void judge_device(const struct kw_link_facts *facts, struct kw_findings *findings)
{
	if (!facts->rdma)
		return;
	if (facts->mtu == 0 || facts->mtu >= MTU_JUMBO) {
		kw_finding_add(findings, KW_FINDING_OK, check_of(facts, "device"),
			"it goes over the RDMA device %s", facts->device);
		return;
	}
	kw_finding_mend(kw_finding_add(findings, KW_FINDING_WARNING, check_of(facts, "device"),
				"the interface of the RDMA device %s has an MTU of %" PRIu64
				": a packet of RoCE carries 1024 bytes in place of 4096",
				facts->device, facts->mtu),
		"ip link set dev NETDEV mtu 9000, on both hosts and on each switch between them");
}

void kw_judge_link(const struct kw_link_facts *facts, struct kw_findings *findings)
{
	kw_finding_add(findings, KW_FINDING_OK, check_of(facts, "connection"),
		"it lets us in over %s%s, after %" PRIu64 " ms", facts->carrier,
		facts->scoped ? ", for a part of the table" : "", facts->connect_us / 1000);
	judge_device(facts, findings);
	if (!facts->superblock_told)
		return;
	judge_state(facts, findings);
	if (facts->beats)
		kw_judge_clock(facts->what, facts->skew_us, findings);
	judge_reads(facts, findings);
}
