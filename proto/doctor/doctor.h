/*
 * The doctor of a daemon: looks at all that its configuration names, and lists what is wrong, all
 * of it at once.
 *
 *   the daemon ──tells what there is──▶ looks ──facts──▶ judges (pure) ──findings──▶ JSON
 *                (struct kw_doctor_subject)  servers, proxies, listeners, files, host
 *
 * It runs in the daemon's own program (`keywake-agent --doctor`), so the daemon's own readers judge
 * its files, its own tables say what it needs of a server, and its own carriers read the table.
 * `keywakectl doctor` starts that program.
 *
 * Nothing is changed on a server: all that is sent to it reads, or is refused before it has an
 * effect. What changes keys is only asked for by ACL DRYRUN. A look takes KW_DOCTOR_PROBE_MS at
 * most, and all of them together KW_DOCTOR_ALL_MS.
 *
 * One run a process. Loop thread only.
 */
#ifndef KW_DOCTOR_DOCTOR_H
#define KW_DOCTOR_DOCTOR_H

#include "control/config/config.h"
#include "doctor/finding.h"
#include "doctor/host.h"
#include "doctor/server.h"
#include "redis/wanted.h"
#include "remote/remote.h"
#include "table/layout.h"
#include "tls/context.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KW_DOCTOR_PROBE_MS 2000
#define KW_DOCTOR_ALL_MS 10000

struct kw_doctor;

/* What a daemon does with one of its servers. */
struct kw_doctor_server {
	const char *what;    /* "primary"; copied */
	const char *group;   /* of its keys: "redis" for redis.username; static */
	const char *address; /* copied */
	enum kw_doctor_use use;
	struct kw_tls_context *tls;     /* of rediss://; the caller's reference goes over */
	const struct kw_wanted *wanted; /* what its user needs there; static */
	size_t wanted_count;            /* 0: not looked at */
	/* NULL: flags do not matter, and only of KW_DOCTOR_STREAMED CONFIG is asked at all. */
	bool (*flags)(struct kw_slice text, char wanted[KW_DOCTOR_FLAGS]);
	const struct kw_wanted *set_flags; /* it sets them; NULL: it does not */
	const char *master;                /* KW_DOCTOR_SENTINEL: sentinel.name; copied */
};

/* What a daemon has for its doctor. */
struct kw_doctor_subject {
	const char *program; /* "keywake-agent" */
	/* Tell the doctor what there is. Files are read here. */
	void (*look)(struct kw_doctor *doctor, const struct kw_config *config);
	/*
	 * Does a table fit into the local server? KW_OK, or a sentence with its remedy. NULL: there
	 * is no local server.
	 */
	int (*fit)(const struct kw_superblock *superblock,
		const struct kw_server_identity *identity, struct kw_error *error);
	void (*done)(void); /* all is looked at: release what look has made. NULL: nothing */
};

/* ---- for look: what is there ---- */

/* A file, or several, were read: nothing for KW_OK but a line. part: "auth.secret_file". */
void kw_doctor_read(
	struct kw_doctor *doctor, const char *part, int code, const struct kw_error *error);

/* When what it was made of runs out. NULL: there is none. */
void kw_doctor_certificates(struct kw_doctor *doctor, const struct kw_tls_context *context);

/* A key of auth.keys_file that expires. */
void kw_doctor_key(struct kw_doctor *doctor, const char *id, int64_t at_s);

void kw_doctor_server(struct kw_doctor *doctor, const struct kw_doctor_server *server);

/* A test READ of its table. options: stays until done; NULL: they are wrong, and nothing but its
 * port is looked at. */
void kw_doctor_proxy(
	struct kw_doctor *doctor, const char *address, const struct kw_remote_options *options);

/* Where the daemon listens: could it, now? key: "listen". port: in digits. */
void kw_doctor_path(struct kw_doctor *doctor, const char *key, const char *path);
void kw_doctor_port(struct kw_doctor *doctor, const char *key, const char *host, const char *port);

/* A file that the daemon writes now and then. */
void kw_doctor_written(struct kw_doctor *doctor, const char *key, const char *path);

void kw_doctor_table(struct kw_doctor *doctor, const struct kw_host_table *table);

/* Any other finding. */
struct kw_findings *kw_doctor_findings(struct kw_doctor *doctor);

/* Does a daemon answer at the control socket of this configuration? */
bool kw_doctor_is_running(const struct kw_doctor *doctor);

/* ---- the run ---- */

/*
 * A kw_config_doctor but for the subject: look at everything, and print one JSON object on standard
 * output. The exit status: 0, or 2 if anything is wrong.
 */
int kw_doctor_run(const struct kw_doctor_subject *subject, const struct kw_config *config,
	const struct kw_config_mistakes *mistakes);

#endif
