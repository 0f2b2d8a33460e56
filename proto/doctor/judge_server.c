#include "doctor/server.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)

static struct kw_check check_of(const struct kw_doctor_server_facts *facts, const char *part)
{
	return (struct kw_check){facts->what, part};
}

static bool is_written(const struct kw_doctor_server_facts *facts)
{
	return facts->use == KW_DOCTOR_WRITTEN || facts->use == KW_DOCTOR_LED;
}

static const char *kind_of(const struct kw_server_identity *identity)
{
	return identity->valkey ? "Valkey" : "Redis";
}

/* ---- which server it is ---- */

static void judge_sentinel(const struct kw_doctor_server_facts *facts, struct kw_findings *findings)
{
	const struct kw_check check = check_of(facts, "server");

	switch (facts->sentinel) {
	case KW_DOCTOR_SENTINEL_UNASKED: /* the permissions tell it */
		break;
	case KW_DOCTOR_SENTINEL_KNOWS:
		kw_finding_add(findings, KW_FINDING_OK, check, "the sentinel at %s monitors \"%s\"",
			facts->address, facts->master);
		break;
	case KW_DOCTOR_SENTINEL_FOREIGN:
		kw_finding_mend(kw_finding_add(findings, KW_FINDING_WRONG, check,
					"the sentinel at %s monitors no \"%s\"", facts->address,
					facts->master),
			"sentinel.name = a name that SENTINEL MASTERS shows there");
		break;
	case KW_DOCTOR_SENTINEL_NONE:
		kw_finding_mend(kw_finding_add(findings, KW_FINDING_WRONG, check,
					"%s is no Sentinel but a server with data", facts->address),
			"sentinel.addresses = the sentinel's address, mostly port 26379");
		break;
	}
}

static void judge_identity(const struct kw_doctor_server_facts *facts, struct kw_findings *findings)
{
	const struct kw_server_identity *identity = &facts->identity;
	const struct kw_check check = check_of(facts, "server");
	struct kw_error error;

	if (kw_server_identity_check(identity, &error))
		kw_finding_of(findings, check, &error, NULL);
	else if (identity->loading)
		kw_finding_mend(kw_finding_add(findings, KW_FINDING_WARNING, check,
					"the server is loading its data set"),
			"wait until it is done, then run doctor again");
	else
		kw_finding_add(findings, KW_FINDING_OK, check,
			"%s %d.%d.%d (RDB version %u) answers at %s", kind_of(identity),
			identity->major, identity->minor, identity->patch,
			kw_server_rdb_version(identity), facts->address);
}

static void judge_role(const struct kw_doctor_server_facts *facts, struct kw_findings *findings)
{
	const struct kw_check check = check_of(facts, "role");

	if (strcmp(facts->identity.role, "master") == 0 || facts->use == KW_DOCTOR_LED)
		return;
	if (facts->use == KW_DOCTOR_WRITTEN)
		kw_finding_mend(
			kw_finding_add(findings, KW_FINDING_WRONG, check,
				"the server is a replica of another one, and refuses writes"),
			"REPLICAOF NO ONE there, if its data may come from the agent alone");
	else if (!kw_upstream_is_well(facts->identity.upstream))
		kw_finding_mend(kw_finding_add(findings, KW_FINDING_WRONG, check,
					"the server is a replica, and %s",
					kw_upstream_trouble(facts->identity.upstream)),
			"mend that link, or run REPLICAOF NO ONE there if it shall be the primary");
	else
		kw_finding_mend(
			kw_finding_add(findings, KW_FINDING_WARNING, check,
				"the server is itself a replica: what it has not received is "
				"missing here, too, and nobody knows how old its data are between "
				"two signs of life of its primary"),
			"redis.address = the address of its primary; or set "
			"repl-ping-replica-period 1 there, and warm.lag_ms of the agents to 3000");
}

/* ---- its settings ---- */

static void judge_memory(const struct kw_doctor_server_facts *facts, struct kw_findings *findings)
{
	const struct kw_check check = check_of(facts, "memory");

	if (!is_written(facts) || facts->maxmemory == 0)
		return;
	if (facts->policy[0] && strcmp(facts->policy, "noeviction") != 0)
		kw_finding_mend(kw_finding_add(findings, KW_FINDING_WARNING, check,
					"the server evicts keys at %" PRIu64
					" MiB (maxmemory-policy %s): it is no whole replica then",
					facts->maxmemory / MIB, facts->policy),
			"CONFIG SET maxmemory-policy noeviction, and maxmemory above that of the "
			"primary");
	else if (facts->used_memory > facts->maxmemory / 10 * 9)
		kw_finding_mend(
			kw_finding_add(findings, KW_FINDING_WARNING, check,
				"the server uses %" PRIu64 " MiB of maxmemory, which is %" PRIu64
				" MiB: above it, it refuses writes",
				facts->used_memory / MIB, facts->maxmemory / MIB),
			"CONFIG SET maxmemory, to a higher value");
}

static void judge_replicas(const struct kw_doctor_server_facts *facts, struct kw_findings *findings)
{
	bool writes = is_written(facts) || facts->use == KW_DOCTOR_FORWARDED;

	if (!facts->wants_replicas || facts->good > 0 || facts->use == KW_DOCTOR_STREAMED)
		return;
	kw_finding_mend(kw_finding_add(findings, writes ? KW_FINDING_WRONG : KW_FINDING_WARNING,
				check_of(facts, "min-replicas-to-write"),
				"the server refuses writes (NOREPLICAS): min-replicas-to-write is "
				"set, and it has no replica of that kind; agents are none"),
		"CONFIG SET min-replicas-to-write 0");
}

/* A proxy does not read the stream of such a server. */
static void judge_stream(const struct kw_doctor_server_facts *facts, struct kw_findings *findings)
{
	const struct kw_check check = check_of(facts, "replication stream");

	if (facts->wants_replicas)
		kw_finding_mend(
			kw_finding_add(findings, KW_FINDING_WRONG, check,
				"the server has min-replicas-to-write, and would take the proxy "
				"for a replica that holds its data"),
			"source.feed = notifications, or CONFIG SET min-replicas-to-write 0");
	if (facts->identity.writable_replica)
		kw_finding_mend(
			kw_finding_add(findings, KW_FINDING_WRONG, check,
				"the server is a replica with replica-read-only no, and what "
				"clients write there is not in it"),
			"source.feed = notifications, or CONFIG SET replica-read-only yes");
}

/* ---- what CONFIG tells ---- */

static void judge_no_config(
	const struct kw_doctor_server_facts *facts, struct kw_findings *findings)
{
	const struct kw_check check = check_of(facts, "notify-keyspace-events");

	if (facts->config == KW_DOCTOR_CONFIG_GONE)
		kw_finding_mend(
			kw_finding_add(findings, KW_FINDING_WRONG, check,
				"the server has no command CONFIG (it is managed, or renames it)"),
			"notify-keyspace-events AE in its configuration, and source.flags = trust");
	else
		kw_finding_mend(
			kw_finding_add(findings, KW_FINDING_WRONG, check,
				"the user '%s' may not look at it (CONFIG GET)", facts->user),
			"ACL SETUSER %s +config|get +config|set; or notify-keyspace-events AE in "
			"the server's configuration, and source.flags = trust",
			facts->user);
}

static void judge_few_flags(
	const struct kw_doctor_server_facts *facts, struct kw_findings *findings)
{
	const struct kw_check check = check_of(facts, "notify-keyspace-events");
	struct kw_finding *finding;

	if (facts->sets_flags && facts->may_set == KW_DOCTOR_MAY) {
		kw_finding_add(findings, KW_FINDING_OK, check,
			"it is \"%s\", and the proxy sets it to \"%s\" when it connects",
			facts->flags, facts->flags_wanted);
		return;
	}
	if (facts->sets_flags && facts->may_set == KW_DOCTOR_MAY_UNKNOWN)
		finding = kw_finding_add(findings, KW_FINDING_WARNING, check,
			"it is \"%s\" and must have A and E; whether the user '%s' may set it "
			"could not be asked",
			facts->flags, facts->user);
	else
		finding = kw_finding_add(findings, KW_FINDING_WRONG, check,
			"it is \"%s\" and must have A and E, or changes raise no events%s",
			facts->flags, facts->sets_flags ? "; the proxy may not set it" : "");
	kw_finding_mend(finding, "CONFIG SET notify-keyspace-events %s", facts->flags_wanted);
}

static void judge_flags(const struct kw_doctor_server_facts *facts, struct kw_findings *findings)
{
	if (!facts->flags_matter)
		return;
	if (facts->config == KW_DOCTOR_CONFIG_REFUSED || facts->config == KW_DOCTOR_CONFIG_GONE)
		judge_no_config(facts, findings);
	else if (facts->config == KW_DOCTOR_CONFIG_TOLD && facts->flags_good)
		kw_finding_add(findings, KW_FINDING_OK, check_of(facts, "notify-keyspace-events"),
			"it is \"%s\"", facts->flags);
	else if (facts->config == KW_DOCTOR_CONFIG_TOLD)
		judge_few_flags(facts, findings);
}

/* A class of clients, and what servers have for it by default. */
struct buffer {
	const char *name, *spelled;
	uint64_t hard, soft;
	const char *breaks, *remedy;
};

static const struct buffer pubsub = {
	.name = "pubsub",
	.hard = 32 * MIB,
	.soft = 8 * MIB,
	.breaks = "a burst of events closes the proxy's connection, and all keys are scanned again",
	.remedy = "pubsub 32mb 8mb 60",
};
/* Servers still write the older name. */
static const struct buffer replica = {
	.name = "replica",
	.spelled = "slave",
	.hard = 256 * MIB,
	.soft = 64 * MIB,
	.breaks = "a burst of writes closes the proxy's connection, and beyond "
		  "repl-backlog-size all keys are scanned again",
	.remedy = "replica 256mb 64mb 60",
};
static const struct buffer normal = {.name = "normal"};

struct limit {
	uint64_t hard, soft;
};

/* "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60" */
static bool find_limit(const char *text, const struct buffer *buffer, struct limit *limit)
{
	char name[16];
	uint64_t seconds;
	int taken;

	while (sscanf(text, "%15s %" SCNu64 " %" SCNu64 " %" SCNu64 "%n", name, &limit->hard,
		       &limit->soft, &seconds, &taken) == 4) {
		if (strcmp(name, buffer->name) == 0 ||
			(buffer->spelled && strcmp(name, buffer->spelled) == 0))
			return true;
		text += taken;
	}
	return false;
}

/*
 * Of what the proxy listens to. From 7.0 on a server takes its backlog as the hard limit for
 * replicas, if that is more. (Older ones are not asked for it.)
 */
static void judge_buffer(const struct kw_doctor_server_facts *facts, const struct buffer *buffer,
	struct kw_findings *findings)
{
	struct limit limit;

	if (!find_limit(facts->buffers, buffer, &limit))
		return;
	if (buffer == &replica && limit.hard > 0 && limit.hard < facts->backlog_bytes)
		limit.hard = facts->backlog_bytes;
	if ((limit.hard == 0 || limit.hard >= buffer->hard) &&
		(limit.soft == 0 || limit.soft >= buffer->soft))
		return;
	kw_finding_mend(kw_finding_add(findings, KW_FINDING_WARNING,
				check_of(facts, "client-output-buffer-limit"),
				"for %s it is %" PRIu64 " KiB (soft %" PRIu64 " KiB): %s",
				buffer->name, limit.hard >> 10, limit.soft >> 10, buffer->breaks),
		"CONFIG SET client-output-buffer-limit \"%s\"", buffer->remedy);
}

static void judge_normal(const struct kw_doctor_server_facts *facts, struct kw_findings *findings)
{
	struct limit limit;

	if (!find_limit(facts->buffers, &normal, &limit) || limit.hard == 0)
		return;
	kw_finding_mend(kw_finding_add(findings, KW_FINDING_WARNING,
				check_of(facts, "client-output-buffer-limit"),
				"for normal clients it is %" PRIu64
				" KiB: a larger value cannot be read, and is not replicated",
				limit.hard >> 10),
		"CONFIG SET client-output-buffer-limit \"normal 0 0 0\"");
}

void kw_judge_server(const struct kw_doctor_server_facts *facts, struct kw_findings *findings)
{
	if (facts->use == KW_DOCTOR_SENTINEL) {
		judge_sentinel(facts, findings);
		if (facts->clock_told)
			kw_judge_clock(facts->what, facts->skew_us, findings);
		return;
	}
	judge_identity(facts, findings);
	if (strcmp(facts->identity.mode, "sentinel") == 0)
		return;
	judge_role(facts, findings);
	judge_memory(facts, findings);
	judge_replicas(facts, findings);
	if (facts->clock_told)
		kw_judge_clock(facts->what, facts->skew_us, findings);
	if (facts->use == KW_DOCTOR_STREAMED) {
		judge_stream(facts, findings);
		judge_buffer(facts, &replica, findings);
		judge_normal(facts, findings);
	}
	if (facts->use == KW_DOCTOR_FOLLOWED) {
		judge_flags(facts, findings);
		judge_buffer(facts, &pubsub, findings);
		judge_normal(facts, findings);
	}
	if (facts->near)
		kw_judge_kernel(facts->what, &facts->host, findings);
}
