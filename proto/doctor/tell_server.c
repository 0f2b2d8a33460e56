/* From a look at a server to its findings: what went wrong with the look itself, and the judges. */
#include "doctor/internal.h"

static struct kw_check check_of(const struct kw_server_look *look, const char *part)
{
	return (struct kw_check){look->what, part};
}

/* The connection's own sentences end in many ways. NULL: with the remedy. */
static const char *remedy_for_code(const struct kw_server_look *look)
{
	switch (look->error.code) {
	case KW_E_IO:
		return "start the server, or name the address where it listens";
	case KW_E_TIMEOUT:
		return "see whether a firewall is in the way, and whether the server is saturated "
		       "(redis-cli --latency)";
	case KW_E_REFUSED:
		return look->tls.context ? NULL
					 : "username and password_file of a user that the server "
					   "has (ACL LIST there)";
	default:
		return NULL;
	}
}

/* What to write in place of the address, when something else listens there. */
static const char *remedy_for(enum kw_port_kind kind)
{
	switch (kind) {
	case KW_PORT_TLS:
		return "write rediss://host:port, and redis.tls, for a port of TLS";
	case KW_PORT_BUS:
		return "the server's own port is mostly 10000 below that one";
	default:
		return "the address and port of the Redis server";
	}
}

static void judge_failure(const struct kw_server_look *look, struct kw_findings *findings)
{
	const struct kw_check check = check_of(look, "connection");
	const enum kw_port_kind kind = look->port.kind;

	if (kind == KW_PORT_UNKNOWN || kind == KW_PORT_REDIS) {
		kw_finding_of(findings, check, &look->error, remedy_for_code(look));
		return;
	}
	kw_finding_mend(kw_finding_add(findings, KW_FINDING_WRONG, check,
				"%s is no Redis server but %s", look->address, kw_port_name(kind)),
		"%s: %s",
		look->server.use == KW_DOCTOR_SENTINEL ? "sentinel.addresses" : "redis.address",
		remedy_for(kind));
}

static void judge_permissions(const struct kw_server_look *look, struct kw_findings *findings)
{
	const struct kw_check check = check_of(look, "permissions");
	const char *user = look->facts.user;
	struct kw_wanted_texts texts;

	if (look->server.wanted_count == 0 || look->wanted.state != KW_WANTED_OVER)
		return;
	kw_wanted_texts(&look->wanted, &texts);
	if (kw_wanted_any_lacks(&look->wanted))
		kw_finding_mend(kw_finding_add(findings, KW_FINDING_WRONG, check,
					"the user '%s' lacks %s", user, texts.lacks),
			"ACL SETUSER %s%s", user, texts.rules);
	else if (look->wanted.unknown)
		kw_finding_add(findings, KW_FINDING_OK, check,
			"the user '%s' has all that could be tried without an effect; these could "
			"not be asked for, because it lacks +acl|dryrun:%s",
			user, texts.rules);
	else
		kw_finding_add(findings, KW_FINDING_OK, check,
			"the user '%s' has all that it needs", user);
}

void kw_server_look_judge(const struct kw_server_look *look, struct kw_findings *findings)
{
	if (!look->over) {
		kw_finding_mend(
			kw_finding_add(findings, KW_FINDING_WRONG, check_of(look, "connection"),
				"%s has not answered all questions in time", look->address),
			"see whether the server is saturated: SLOWLOG GET, LATENCY DOCTOR");
		return;
	}
	if (look->error.code != KW_OK)
		judge_failure(look, findings);
	judge_permissions(look, findings);
	if (look->told || look->server.use == KW_DOCTOR_SENTINEL)
		kw_judge_server(&look->facts, findings);
}
