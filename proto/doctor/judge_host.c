#include "doctor/host.h"

#include <inttypes.h>
#include <stdio.h>

#define MIB (UINT64_C(1) << 20)
#define SKEW_WARNING_US 200000
#define SKEW_WRONG_US 2000000
#define DAY_S 86400
#define SOON_DAYS 14

/* Rounded up, so that a limit set to it is enough. */
static uint64_t mib(uint64_t bytes)
{
	return bytes / MIB + (bytes % MIB > 0);
}

static void judge_locked(const struct kw_host_table *table, const struct kw_host_facts *host,
	struct kw_findings *findings)
{
	const struct kw_check check = {"host", "locked memory"};

	if (!table->over_rdma)
		return;
	if (host->locked_bytes >= table->max_bytes) {
		kw_finding_add(findings, KW_FINDING_OK, check, "the table may be locked for RDMA");
		return;
	}
	kw_finding_mend(kw_finding_add(findings, KW_FINDING_WRONG, check,
				"RDMA locks the table, up to %" PRIu64
				" MiB (table.max_bytes), and a process may lock %" PRIu64 " MiB",
				mib(table->max_bytes), host->locked_bytes / MIB),
		"LimitMEMLOCK=infinity in the unit, or ulimit -l unlimited");
}

/* As vm.nr_hugepages counts them. */
static uint64_t pages_for(uint64_t bytes)
{
	const uint64_t page = 2 * MIB;

	return (bytes + bytes / 4 + page - 1) / page;
}

static void judge_huge(const struct kw_host_table *table, const struct kw_host_facts *host,
	struct kw_findings *findings)
{
	const struct kw_check check = {"host", "huge pages"};
	const uint64_t wanted = pages_for(table->max_bytes);

	if (!table->huge_pages || table->running)
		return;
	if (host->free_huge_bytes / (2 * MIB) >= wanted)
		kw_finding_add(findings, KW_FINDING_OK, check, "there are enough of them");
	else
		kw_finding_mend(kw_finding_add(findings, KW_FINDING_WRONG, check,
					"table.huge_pages needs %" PRIu64
					" pages of 2 MiB (1.25 times table.max_bytes), and %" PRIu64
					" are free",
					wanted, host->free_huge_bytes / (2 * MIB)),
			"sysctl vm.nr_hugepages=%" PRIu64, wanted);
}

static void judge_memory(const struct kw_host_table *table, const struct kw_host_facts *host,
	struct kw_findings *findings)
{
	const struct kw_check check = {"host", "memory"};

	if (host->memory_bytes == KW_HOST_UNKNOWN || table->max_bytes <= host->memory_bytes)
		return;
	kw_finding_mend(kw_finding_add(findings, KW_FINDING_WARNING, check,
				"table.max_bytes is %" PRIu64 " MiB, and this host has %" PRIu64
				" MiB of memory",
				mib(table->max_bytes), host->memory_bytes / MIB),
		"table.max_bytes = %" PRIu64 "MiB, or less", host->memory_bytes / MIB / 2);
}

void kw_judge_table(const struct kw_host_table *table, const struct kw_host_facts *host,
	struct kw_findings *findings)
{
	judge_locked(table, host, findings);
	judge_huge(table, host, findings);
	judge_memory(table, host, findings);
}

void kw_judge_kernel(
	const char *what, const struct kw_host_facts *host, struct kw_findings *findings)
{
	if (host->huge_always)
		kw_finding_mend(
			kw_finding_add(findings, KW_FINDING_WARNING,
				(struct kw_check){what, "huge pages"},
				"transparent huge pages are on for all processes of this host: "
				"after a fork of the server, a small write copies 2 MiB, and the "
				"server stands still longer"),
			"echo madvise > /sys/kernel/mm/transparent_hugepage/enabled");
	if (host->overcommit_told && host->overcommit != 1)
		kw_finding_mend(
			kw_finding_add(findings, KW_FINDING_WARNING,
				(struct kw_check){what, "overcommit"},
				"vm.overcommit_memory is %d on this host: the server's fork can "
				"fail, and then it neither saves nor synchronises replicas",
				host->overcommit),
			"sysctl vm.overcommit_memory=1");
}

void kw_judge_clock(const char *what, int64_t skew_us, struct kw_findings *findings)
{
	int64_t skew = skew_us < 0 ? -skew_us : skew_us;
	enum kw_severity severity = skew >= SKEW_WRONG_US     ? KW_FINDING_WRONG
				    : skew >= SKEW_WARNING_US ? KW_FINDING_WARNING
							      : KW_FINDING_OK;
	struct kw_finding *finding;

	finding = kw_finding_add(findings, severity, (struct kw_check){what, "clock"},
		"its clock is %" PRId64 " ms %s ours%s", skew / 1000,
		skew_us < 0 ? "behind" : "ahead of",
		severity == KW_FINDING_OK ? "" : ", so keys expire at different times");
	if (severity != KW_FINDING_OK)
		kw_finding_mend(finding, "timedatectl set-ntp true, on both hosts");
}

static struct kw_finding *judge_date(
	struct kw_check check, int64_t left_s, struct kw_findings *findings)
{
	if (left_s <= 0)
		return kw_finding_add(findings, KW_FINDING_WRONG, check,
			"it ran out %" PRId64 " days ago", -left_s / DAY_S);
	return kw_finding_add(findings,
		left_s < SOON_DAYS * DAY_S ? KW_FINDING_WARNING : KW_FINDING_OK, check,
		"it runs out in %" PRId64 " days", left_s / DAY_S);
}

static void judge_file(
	const char *group, const char *file, int64_t left_s, struct kw_findings *findings)
{
	struct kw_finding *finding;
	char key[64];

	snprintf(key, sizeof key, "%s.%s", group, file);
	finding = judge_date((struct kw_check){"certificate", key}, left_s, findings);
	if (finding->severity != KW_FINDING_OK)
		kw_finding_mend(finding, "a new file in %s, then keywakectl config reload", key);
}

void kw_judge_key(const char *id, int64_t left_s, struct kw_findings *findings)
{
	struct kw_finding *finding = judge_date((struct kw_check){"key", id}, left_s, findings);

	if (finding->severity != KW_FINDING_OK)
		kw_finding_mend(finding,
			"a second line for %s with a new secret in auth.keys_file, then "
			"keywakectl config reload, then the new secret at the agent",
			id);
}

void kw_judge_expiry(const char *group, const struct kw_tls_expiry *expiry, int64_t now_s,
	struct kw_findings *findings)
{
	if (expiry->cert)
		judge_file(group, "cert", expiry->cert - now_s, findings);
	if (expiry->ca)
		judge_file(group, "ca", expiry->ca - now_s, findings);
	if (expiry->crl)
		judge_file(group, "crl", expiry->crl - now_s, findings);
}
