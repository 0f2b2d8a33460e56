/* Each fault that the doctor can tell has its severity, its words and its remedy. */
#include "ctl/doctor/kind.h"
#include "doctor/host.h"
#include "doctor/link.h"
#include "doctor/server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)

/* What must be found; check NULL: nothing but what is well. */
struct wanted {
	enum kw_severity severity;
	const char *check, *text, *remedy;
};

static struct kw_findings findings;

static void begin(const char *name)
{
	print_message("%s\n", name);
	memset(&findings, 0, sizeof findings);
}

static bool fits(const struct kw_finding *finding, const struct wanted *wanted)
{
	return finding->severity == wanted->severity && strstr(finding->check, wanted->check) &&
	       strstr(finding->text, wanted->text) && strstr(finding->remedy, wanted->remedy);
}

/* It is found, it alone is not well, and has a remedy. */
static void expect(const struct wanted *wanted)
{
	size_t found = 0;

	for (size_t i = 0; i < findings.count; i++) {
		const struct kw_finding *finding = &findings.list[i];

		if (wanted->check && fits(finding, wanted)) {
			found++;
		} else if (finding->severity != KW_FINDING_OK) {
			fail_msg("%s: %s (%s)", finding->check, finding->text, finding->remedy);
		}
		assert_int_equal(finding->remedy[0] == '\0', finding->severity == KW_FINDING_OK);
	}
	assert_int_equal(found, wanted->check != NULL);
}

/* ---- servers ---- */

static const struct kw_doctor_server_facts good_server = {
	.what = "primary",
	.address = "redis://10.0.0.1:6379",
	.user = "proxy",
	.identity = {.major = 7, .minor = 2, .mode = "standalone", .role = "master"},
	.used_memory = 10 * MIB,
	.policy = "noeviction",
	.config = KW_DOCTOR_CONFIG_TOLD,
	.flags_matter = true,
	.sets_flags = true,
	.flags_good = true,
	.flags = "AE",
	.flags_wanted = "AE",
	.buffers = "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
	.clock_told = true,
	.master = "main",
	.host = {.overcommit_told = true, .overcommit = 1},
};

/* In the order of its fields: what is other than in good_server. */
typedef void (*spoil_fn)(struct kw_doctor_server_facts *facts);

#define SPOIL(name, ...)                                                                           \
	static void name(struct kw_doctor_server_facts *facts)                                     \
	{                                                                                          \
		__VA_ARGS__;                                                                       \
	}

SPOIL(nothing, (void)facts)
SPOIL(too_old, facts->identity.major = 5)
SPOIL(a_node, strcpy(facts->identity.mode, "cluster"))
SPOIL(a_sentinel, strcpy(facts->identity.mode, "sentinel"))
SPOIL(loading, facts->identity.loading = true)
SPOIL(a_replica, strcpy(facts->identity.role, "slave"))
SPOIL(a_lost_replica, a_replica(facts); facts->identity.upstream = KW_UPSTREAM_DOWN)
SPOIL(a_local_replica, a_replica(facts); facts->use = KW_DOCTOR_WRITTEN)
SPOIL(led, a_replica(facts); facts->use = KW_DOCTOR_LED)
SPOIL(evicts, facts->use = KW_DOCTOR_WRITTEN; facts->maxmemory = 100 * MIB;
	strcpy(facts->policy, "volatile-lru"))
SPOIL(nearly_full, facts->use = KW_DOCTOR_LED; facts->maxmemory = 11 * MIB)
SPOIL(evicts_as_primary, facts->maxmemory = 11 * MIB; strcpy(facts->policy, "allkeys-lfu"))
SPOIL(no_replicas, facts->wants_replicas = true)
SPOIL(some_replicas, facts->wants_replicas = true; facts->good = 1)
SPOIL(no_writes, facts->wants_replicas = true; facts->use = KW_DOCTOR_WRITTEN)
SPOIL(no_forwarding, facts->wants_replicas = true; facts->use = KW_DOCTOR_FORWARDED)
SPOIL(streamed, facts->use = KW_DOCTOR_STREAMED)
SPOIL(streamed_counting, streamed(facts); facts->wants_replicas = true)
SPOIL(streamed_counted, streamed_counting(facts); facts->good = 1)
SPOIL(streamed_writable, streamed(facts); facts->identity.writable_replica = true)
SPOIL(streamed_small, streamed(facts); strcpy(facts->buffers, "slave 1048576 524288 60"))
SPOIL(streamed_small_named, streamed(facts); strcpy(facts->buffers, "replica 0 1048576 60"))
SPOIL(streamed_backlog, streamed(facts); strcpy(facts->buffers, "slave 1048576 0 0");
	facts->backlog_bytes = 256 * MIB)
SPOIL(streamed_small_backlog, streamed_backlog(facts); facts->backlog_bytes = 8 * MIB)
SPOIL(streamed_backlog_unlimited, streamed_small_backlog(facts);
	strcpy(facts->buffers, "slave 0 0 0"))
SPOIL(streamed_normal, streamed(facts); strcpy(facts->buffers, "normal 1048576 0 0 slave 0 0 0"))
SPOIL(streamed_small_pubsub, streamed(facts); strcpy(facts->buffers, "slave 0 0 0 pubsub 1 1 1"))
SPOIL(small_replica, strcpy(facts->buffers, "normal 0 0 0 slave 1 1 1"))
SPOIL(behind, facts->skew_us = -300000)
SPOIL(ahead, facts->skew_us = 3000000)
SPOIL(a_little_ahead, facts->skew_us = 150000)
SPOIL(few_flags, facts->flags_good = false; strcpy(facts->flags, "Kg"))
SPOIL(few_flags_checked, few_flags(facts); facts->sets_flags = false)
SPOIL(few_flags_may_not, few_flags(facts); facts->may_set = KW_DOCTOR_MAY_NOT)
SPOIL(few_flags_may, few_flags(facts); facts->may_set = KW_DOCTOR_MAY)
SPOIL(config_refused, facts->config = KW_DOCTOR_CONFIG_REFUSED)
SPOIL(config_gone, facts->config = KW_DOCTOR_CONFIG_GONE)
SPOIL(trusted, facts->flags_matter = false; facts->config = KW_DOCTOR_CONFIG_UNASKED;
	facts->buffers[0] = '\0')
SPOIL(small_pubsub, strcpy(facts->buffers, "normal 0 0 0 pubsub 102400 0 0"))
SPOIL(limited_normal, strcpy(facts->buffers, "normal 1048576 0 0 pubsub 0 0 0"))
SPOIL(broken_buffers, strcpy(facts->buffers, "normal 1 pubsub x 0"))
SPOIL(huge_pages, facts->near = facts->host.huge_always = true)
SPOIL(huge_pages_far, facts->host.huge_always = true)
SPOIL(overcommit, facts->near = true; facts->host.overcommit = 0)
SPOIL(sentinel_knows, facts->use = KW_DOCTOR_SENTINEL; facts->sentinel = KW_DOCTOR_SENTINEL_KNOWS)
SPOIL(sentinel_foreign, facts->use = KW_DOCTOR_SENTINEL;
	facts->sentinel = KW_DOCTOR_SENTINEL_FOREIGN)
SPOIL(no_sentinel, facts->use = KW_DOCTOR_SENTINEL; facts->sentinel = KW_DOCTOR_SENTINEL_NONE)

#define WRONG KW_FINDING_WRONG
#define WARNING KW_FINDING_WARNING

static void servers_are_judged_by_their_use(void **state)
{
	static const struct {
		const char *name;
		spoil_fn spoil;
		struct wanted wanted;
	} cases[] = {
		{"nothing is wrong", nothing, {0}},
		{"too old", too_old, {WRONG, "primary: server", "5.2", "6.2"}},
		{"a node of a cluster", a_node, {WRONG, "server", "cluster", ""}},
		{"a Sentinel", a_sentinel, {WRONG, "server", "Sentinel", ""}},
		{"it loads", loading, {WARNING, "server", "loading", "wait"}},
		{"a replica", a_replica, {WARNING, "role", "itself a replica", "redis.address"}},
		{"a replica without its primary", a_lost_replica,
			{WRONG, "role", "link to its own primary is down", "REPLICAOF NO ONE"}},
		{"a local server that is a replica", a_local_replica,
			{WRONG, "role", "refuses writes", "REPLICAOF NO ONE"}},
		{"a local server that the agent leads", led, {0}},
		{"a local server that evicts", evicts,
			{WARNING, "memory", "volatile-lru", "maxmemory-policy noeviction"}},
		{"a local server that is nearly full", nearly_full,
			{WARNING, "memory", "refuses writes", "CONFIG SET maxmemory"}},
		{"a primary that evicts", evicts_as_primary, {0}},
		{"a primary without its replicas", no_replicas,
			{WARNING, "min-replicas", "NOREPLICAS", "min-replicas-to-write 0"}},
		{"a primary with its replicas", some_replicas, {0}},
		{"a local server without replicas", no_writes,
			{WRONG, "min-replicas", "NOREPLICAS", "min-replicas-to-write 0"}},
		{"a primary that clients of a gateway write to", no_forwarding,
			{WRONG, "min-replicas", "NOREPLICAS", "min-replicas-to-write 0"}},
		{"a primary whose stream is read", streamed, {0}},
		{"a stream, and replicas are waited for", streamed_counting,
			{WRONG, "replication stream", "for a replica", "source.feed"}},
		{"the same, and one is there", streamed_counted,
			{WRONG, "replication stream", "for a replica", "source.feed"}},
		{"the stream of a replica that is written to", streamed_writable,
			{WRONG, "replication stream", "is not in it", "source.feed"}},
		{"a small buffer of replicas", streamed_small,
			{WARNING, "client-output-buffer-limit", "1024 KiB (soft 512 KiB)",
				"replica 256mb"}},
		{"the same by its newer name", streamed_small_named,
			{WARNING, "client-output-buffer-limit", "soft 1024 KiB", "replica 256mb"}},
		{"a buffer below a large backlog", streamed_backlog, {0}},
		{"a buffer below a small backlog", streamed_small_backlog,
			{WARNING, "client-output-buffer-limit", "8192 KiB (soft 0 KiB)",
				"replica 256mb"}},
		{"no limit, and a small backlog", streamed_backlog_unlimited, {0}},
		{"a limit of normal clients beside a stream", streamed_normal,
			{WARNING, "client-output-buffer-limit", "1024 KiB", "normal 0 0 0"}},
		{"a small buffer of subscribers beside a stream", streamed_small_pubsub, {0}},
		{"a small buffer of replicas that no proxy is", small_replica, {0}},
		{"a clock behind", behind, {WARNING, "clock", "300 ms behind", "timedatectl"}},
		{"a clock ahead", ahead, {WRONG, "clock", "3000 ms ahead", "timedatectl"}},
		{"a clock a little ahead", a_little_ahead, {0}},
		{"flags, and it is not known whether they may be set", few_flags,
			{WARNING, "notify", "\"Kg\"", "CONFIG SET notify-keyspace-events AE"}},
		{"flags, and they are only checked", few_flags_checked,
			{WRONG, "notify", "\"Kg\"", "CONFIG SET notify-keyspace-events AE"}},
		{"flags, and they may not be set", few_flags_may_not,
			{WRONG, "notify", "may not set", "CONFIG SET notify-keyspace-events AE"}},
		{"flags that the proxy sets", few_flags_may, {0}},
		{"CONFIG is not allowed", config_refused,
			{WRONG, "notify", "'proxy' may not", "ACL SETUSER proxy +config|get"}},
		{"CONFIG is renamed away", config_gone,
			{WRONG, "notify", "no command CONFIG", "source.flags = trust"}},
		{"source.flags=trust", trusted, {0}},
		{"a small buffer of subscribers", small_pubsub,
			{WARNING, "client-output-buffer-limit", "100 KiB", "pubsub 32mb"}},
		{"a limit of normal clients", limited_normal,
			{WARNING, "client-output-buffer-limit", "1024 KiB", "normal 0 0 0"}},
		{"limits of another form", broken_buffers, {0}},
		{"huge pages on its host", huge_pages,
			{WARNING, "huge pages", "copies 2 MiB", "madvise"}},
		{"huge pages here, and it is on another host", huge_pages_far, {0}},
		{"no overcommit on its host", overcommit,
			{WARNING, "overcommit", "vm.overcommit_memory is 0",
				"sysctl vm.overcommit_memory=1"}},
		{"a sentinel", sentinel_knows, {0}},
		{"a sentinel of others", sentinel_foreign,
			{WRONG, "server", "monitors no \"main\"", "sentinel.name"}},
		{"no sentinel", no_sentinel,
			{WRONG, "server", "is no Sentinel", "sentinel.addresses"}},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct kw_doctor_server_facts facts = good_server;

		begin(cases[i].name);
		cases[i].spoil(&facts);
		kw_judge_server(&facts, &findings);
		expect(&cases[i].wanted);
	}
}

/* ---- proxies ---- */

static void links_are_judged(void **state)
{
	static const struct {
		const char *name;
		uint8_t source_state;
		bool still;
		int64_t skew_us;
		uint64_t median_us, mtu;
		struct wanted wanted;
	} cases[] = {
		{"nothing is wrong", KW_SOURCE_LIVE, false, 0, 20, 9000, {0}},
		{"a first scan", KW_SOURCE_SCANNING, false, 0, 20, 9000,
			{WARNING, "state", "for the first time", "doctor, at the proxy"}},
		{"no primary", KW_SOURCE_DOWN, false, 0, 20, 9000,
			{WRONG, "state", "lost its primary", "doctor, at the proxy"}},
		{"no room", KW_SOURCE_FULL, false, 0, 20, 9000,
			{WRONG, "state", "no room", "table.max_bytes"}},
		{"deletions wait", KW_SOURCE_HELD, false, 0, 20, 9000,
			{WRONG, "state", "holds deletions", "approve"}},
		{"a state of a later version", 200, false, 0, 20, 9000, {0}},
		{"it hangs", KW_SOURCE_LIVE, true, 0, 20, 9000,
			{WRONG, "state", "heartbeat stands still", "systemctl status"}},
		{"another clock", KW_SOURCE_LIVE, false, -5000000, 20, 9000,
			{WRONG, "clock", "5000 ms behind", "timedatectl"}},
		{"a far network", KW_SOURCE_LIVE, false, 0, 30000, 9000,
			{WARNING, "READs", "30000 us", "mtr"}},
		{"small packets", KW_SOURCE_LIVE, false, 0, 20, 1500,
			{WARNING, "device", "1024 bytes", "mtu 9000"}},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const struct kw_link_facts facts = {
			.what = "proxy rdma://10.0.0.1:7471",
			.carrier = "rdma",
			.rdma = true,
			.device = "mlx5_0",
			.mtu = cases[i].mtu,
			.superblock_told = true,
			.superblock = {.source_state = cases[i].source_state, .complete = 1},
			.beats = !cases[i].still,
			.skew_us = cases[i].skew_us,
			.reads = 100,
			.median_us = cases[i].median_us,
			.slowest_us = cases[i].median_us,
			.bytes = 10 * MIB,
			.took_us = 1000,
		};

		begin(cases[i].name);
		kw_judge_link(&facts, &findings);
		expect(&cases[i].wanted);
	}
}

/* ---- this host ---- */

static void tables_are_judged_by_their_host(void **state)
{
	static const struct {
		const char *name;
		struct kw_host_table table;
		struct kw_host_facts host;
		struct wanted wanted;
	} cases[] = {
		{"nothing is wrong", {.max_bytes = MIB}, {.memory_bytes = MIB}, {0}},
		{"not over rdma", {.max_bytes = 2 * MIB}, {.memory_bytes = 4 * MIB}, {0}},
		{"over rdma, locked", {.max_bytes = 2 * MIB, .over_rdma = true},
			{.memory_bytes = 4 * MIB, .locked_bytes = KW_HOST_UNKNOWN}, {0}},
		{"over rdma, not locked", {.max_bytes = 2 * MIB + 1, .over_rdma = true},
			{.memory_bytes = 4 * MIB, .locked_bytes = 2 * MIB},
			{WRONG, "locked memory", "up to 3 MiB", "LimitMEMLOCK=infinity"}},
		{"too large", {.max_bytes = 8 * MIB}, {.memory_bytes = 4 * MIB},
			{WARNING, "memory", "has 4 MiB", "table.max_bytes = 2MiB"}},
		{"huge pages", {.max_bytes = 16 * MIB, .huge_pages = true},
			{.memory_bytes = KW_HOST_UNKNOWN, .free_huge_bytes = 20 * MIB}, {0}},
		{"too few huge pages", {.max_bytes = 16 * MIB, .huge_pages = true},
			{.memory_bytes = KW_HOST_UNKNOWN, .free_huge_bytes = 18 * MIB},
			{WRONG, "huge pages", "10 pages", "sysctl vm.nr_hugepages=10"}},
		{"huge pages that the proxy has",
			{.max_bytes = 16 * MIB, .huge_pages = true, .running = true},
			{.memory_bytes = KW_HOST_UNKNOWN}, {0}},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		begin(cases[i].name);
		kw_judge_table(&cases[i].table, &cases[i].host, &findings);
		expect(&cases[i].wanted);
	}
}

static void certificates_are_judged_by_the_clock(void **state)
{
	const int64_t now_s = 1000 * 86400, day_s = 86400;
	const struct {
		const char *name;
		struct kw_tls_expiry expiry;
		struct wanted wanted;
	} cases[] = {
		{"there is none", {0}, {0}},
		{"all count", {now_s + 100 * day_s, now_s + 20 * day_s, now_s + 30 * day_s}, {0}},
		{"one ends soon", {now_s + 13 * day_s, 0, 0},
			{WARNING, "certificate: tls.cert", "in 13 days", "tls.cert"}},
		{"a CA ended", {0, now_s - 2 * day_s, 0},
			{WRONG, "tls.ca", "ran out 2 days ago", "tls.ca"}},
		{"a list ends now", {0, 0, now_s}, {WRONG, "tls.crl", "ran out", "tls.crl"}},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		begin(cases[i].name);
		kw_judge_expiry("tls", &cases[i].expiry, now_s, &findings);
		expect(&cases[i].wanted);
	}
}

static void a_key_that_expires_is_told_in_time(void **state)
{
	const int64_t day_s = 86400;
	const struct {
		const char *name;
		int64_t left_s;
		struct wanted wanted;
	} cases[] = {
		{"a year", 365 * day_s, {0}},
		{"soon", 13 * day_s,
			{WARNING, "key: edge-1", "in 13 days", "a second line for edge-1"}},
		{"over", -2 * day_s, {WRONG, "key: edge-1", "ran out 2 days ago", "a new secret"}},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		begin(cases[i].name);
		kw_judge_key("edge-1", cases[i].left_s, &findings);
		expect(&cases[i].wanted);
	}
}

/* ---- findings ---- */

static void findings_are_bounded_and_safe_to_print(void **state)
{
	const struct kw_check check = {"what", "part"};
	const struct kw_error error = {KW_E_CONFIG, "the file a is open: chmod o-rwx a"};

	(void)state;
	begin("bounds");
	for (int i = 0; i < KW_FINDINGS_MAX + 5; i++)
		kw_finding_mend(kw_finding_add(&findings, WRONG, check, "\x1b[1m%d", i), "\n");
	assert_int_equal(findings.count, KW_FINDINGS_MAX);
	assert_int_equal(kw_findings_of_severity(&findings, WRONG), KW_FINDINGS_MAX + 5);
	assert_string_equal(findings.list[0].text, "\\x1b[1m0");
	assert_string_equal(findings.list[0].remedy, "\\x0a");
	assert_string_equal(kw_finding_of(&findings, check, &error, NULL)->remedy, "chmod o-rwx a");
	assert_string_equal(kw_finding_of(&findings, check, &error, "do")->remedy, "do");
}

static void a_file_tells_whose_it_is(void **state)
{
	static const struct {
		const char *json, *file, *program;
	} cases[] = {
		{"{\"proxy\": \"shm:///p\"}", "x", "keywake-agent"},
		{"{\"proxy\": \"shm:///p\", \"gateway\": {}}", "x", "keywake-gateway"},
		{"{\"gateway.resp\": [], \"proxy\": \"shm:///p\"}", "x", "keywake-gateway"},
		{"{\"redis\": {\"address\": \"unix:///p\"}}", "agent", "keywake-proxy"},
		{"{\"proxy\": \"shm:///p\", \"include\": \"d/*\"}", "/etc/gateway-x.json",
			"keywake-gateway"},
		{"{\"gateway\": {}, \"include\": \"d/*\"}", "/etc/agent-x.json", "keywake-gateway"},
		{"{\"proxy\": \"shm:///p\", \"include\": \"d/*\"}", "x", "keywake-agent"},
		{NULL, "/etc/keywake/agent-main.json", "keywake-agent"},
		{NULL, "/etc/keywake/gateway.json", "keywake-gateway"},
		{NULL, "/proxy/main.json", NULL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		json_t *json = cases[i].json ? json_loads(cases[i].json, 0, NULL) : NULL;
		const char *program = ctl_doctor_kind(json, cases[i].file);

		if (cases[i].program)
			assert_string_equal(program, cases[i].program);
		else
			assert_null(program);
		json_decref(json);
	}
	assert_string_equal(ctl_doctor_program("proxy"), "keywake-proxy");
	assert_string_equal(ctl_doctor_program("keywake-agent"), "keywake-agent");
	assert_null(ctl_doctor_program("redis"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(servers_are_judged_by_their_use),
		cmocka_unit_test(links_are_judged),
		cmocka_unit_test(tables_are_judged_by_their_host),
		cmocka_unit_test(certificates_are_judged_by_the_clock),
		cmocka_unit_test(a_key_that_expires_is_told_in_time),
		cmocka_unit_test(findings_are_bounded_and_safe_to_print),
		cmocka_unit_test(a_file_tells_whose_it_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
