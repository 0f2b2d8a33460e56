/*
 * Configuration: a JSON file, which can have comments (control/json_comments.h) and include others;
 * the environment; --set path.to.key=VALUE; and config.set at run time. All are checked against one
 * table of keys, which also yields the manual.
 *
 * Loop thread only. Strings returned stay valid until the configuration changes or is freed.
 */
#ifndef KW_CONTROL_CONFIG_CONFIG_H
#define KW_CONTROL_CONFIG_CONFIG_H

#include "base/buffer.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum kw_config_type {
	KW_CONFIG_BOOL,
	KW_CONFIG_INTEGER,
	KW_CONFIG_NUMBER,
	KW_CONFIG_BYTES, /* an integer, or text with a unit: "4GiB", "16 MiB", "64k" */
	KW_CONFIG_TEXT,
	KW_CONFIG_TEXTS, /* a list; one text is a list of one */
	KW_CONFIG_INTEGERS,
};

/* Is this text a value of the key? KW_E_CONFIG with a sentence; the key is named by the caller. */
typedef int (*kw_config_check_fn)(const char *text, struct kw_error *error);

struct kw_config_key {
	const char *path; /* "redis.address" */
	enum kw_config_type type;
	const char *fallback; /* JSON; NULL: required */
	bool live;            /* config.set and reload take effect without a restart */
	double lowest,
		highest;          /* of numbers and of list items; both 0: no bound; highest below
				     lowest: no upper bound. Fallbacks may lie outside ("" or 0: off) */
	const char *choices;      /* of texts: "a|b|c"; NULL: any */
	const char *doc;          /* one sentence, for the manual */
	kw_config_check_fn check; /* of texts and of list items, after choices; NULL: any */
};

struct kw_config;

/*
 * All that is wrong with a configuration, and not the first of it alone: for a person who looks at
 * it. A daemon starts with none. More than fit are counted.
 */
#define KW_CONFIG_MISTAKES_MAX 32
struct kw_config_mistakes {
	struct kw_error list[KW_CONFIG_MISTAKES_MAX];
	size_t count;
};

/* One more, unless the same sentence is there. */
void kw_config_mistake(struct kw_config_mistakes *mistakes, const struct kw_error *error);

/* keys: a table ended by a NULL path, static. Starts with the fallbacks. */
struct kw_config *kw_config_new(const struct kw_config_key *keys);
void kw_config_free(struct kw_config *config);

/*
 * Every function below that changes the configuration refuses with KW_E_CONFIG and leaves all as it
 * was. The sentence names the file, line or key, and the remedy (for an unknown key: the nearest
 * known one).
 */
/*
 * "include" at the top of a file is a name or a list of names of more files. Relative names start
 * from the folder of the file that has them; * ? [ are those of a shell, and may match nothing. A
 * file is read first, then those that it includes, in their order: what is read later counts. At
 * most 256 files, and 8 that include each other in a row; a file that would include itself is
 * refused. What is saved includes nothing.
 */
int kw_config_load(struct kw_config *config, const char *file, struct kw_error *error);
int kw_config_set(struct kw_config *config, const char *assignment, struct kw_error *error);

/*
 * KEYWAKE_REDIS_ADDRESS is redis.address: the key in capitals, with _ for each dot. environment is
 * that of the process, and a copy is kept for reloads. The values count over the file; JSON or
 * text, as with --set. An empty one is none. The names that Kubernetes makes of services are passed
 * over, and KEYWAKE_SOCKET. Other unknown names are judged as those of a file. Called once at most,
 * and after the file.
 */
int kw_config_load_environment(
	struct kw_config *config, const char *const *environment, struct kw_error *error);

/*
 * A file may be that of a later version. A key of it that is not known is refused if it is near a
 * known one, which is a typo, and in the groups that say what is followed, who may read and what is
 * deleted: redis, auth, tls, sentinel, authority, source, apply, filter. All others are passed
 * over. The names of those of the last files read, and of the environment, separated by ", "; those
 * of an included file with that in brackets; "": there were none.
 */
const char *kw_config_passed_over(const struct kw_config *config);

/*
 * The values of control.saved_file, if that is set and there. They count over the file and the
 * environment, and under --set. Called once all of these were read; a reload reads them again.
 */
int kw_config_load_saved(struct kw_config *config, struct kw_error *error);

/*
 * Keep a value (as JSON or text) for the next starts, and take it for the present one: `changed` is
 * not called, so the caller has made it take effect, or does so now. The rule is kept. KW_E_STATE:
 * it cannot be saved, and the sentence says why. No file that a person writes is touched: what is
 * saved has a file of its own. If a person put comments there, it is refused.
 */
int kw_config_save(
	struct kw_config *config, const char *path, const char *value, struct kw_error *error);

/* What is saved, as the JSON text of one object, appended to out. */
int kw_config_saved_json(
	const struct kw_config *config, struct kw_buffer *out, struct kw_error *error);

/*
 * A rule about several keys: they exclude each other, or need each other. KW_E_CONFIG with a
 * sentence that names them. It reads the configuration and nothing else.
 */
typedef int (*kw_config_rule_fn)(const struct kw_config *config, struct kw_error *error);
void kw_config_set_rule(struct kw_config *config, kw_config_rule_fn rule);

/* Required keys present, and the rule kept? Called once all sources were read. */
int kw_config_complete(const struct kw_config *config, struct kw_error *error);

/*
 * Read the file again, and the --set assignments after it (what config.set changed is forgotten).
 * A configuration with which the daemon could not start or go on is refused, too: the rule is kept.
 * `changed` is called for each key that has another value now; the new value can be read already.
 * If it refuses, the old values are restored, and it is called again for the keys told before
 * (error NULL). Keys that are not live keep their old value; *notes names them, separated by ", ".
 * changed and notes may be NULL.
 */
typedef int (*kw_config_changed_fn)(void *arg, const char *path, struct kw_error *error);
int kw_config_reload(struct kw_config *config, kw_config_changed_fn changed, void *arg,
	struct kw_buffer *notes, struct kw_error *error);

/* One key at run time, as JSON or text. KW_E_STATE when the key is not live. The rule is kept. */
int kw_config_change(struct kw_config *config, const char *path, const char *value,
	kw_config_changed_fn changed, void *arg, struct kw_error *error);

/*
 * kw_config_change and kw_config_save. It is saved first: a value that cannot be saved never takes
 * effect. Nor is one kept that `changed` refuses.
 */
int kw_config_change_and_save(struct kw_config *config, const char *path, const char *value,
	kw_config_changed_fn changed, void *arg, struct kw_error *error);

bool kw_config_bool(const struct kw_config *config, const char *path);
int64_t kw_config_integer(const struct kw_config *config, const char *path); /* BYTES too */
double kw_config_number(const struct kw_config *config, const char *path);
const char *kw_config_text(const struct kw_config *config, const char *path); /* "" when empty */
size_t kw_config_count(const struct kw_config *config, const char *path);
const char *kw_config_text_at(const struct kw_config *config, const char *path, size_t index);
int64_t kw_config_integer_at(const struct kw_config *config, const char *path, size_t index);

/* Is path a key or a group of keys ("redis")? KW_E_CONFIG names the nearest known one. */
int kw_config_check_path(const struct kw_config *config, const char *path, struct kw_error *error);

/*
 * The whole configuration, one key, or a group of keys, as JSON text, appended to out; null
 * for a path that kw_config_check_path refuses.
 */
void kw_config_json(
	const struct kw_config *config, const char *path_or_null, struct kw_buffer *out);

/*
 * Where each of these values comes from, as the JSON text of one object: {"log.level": {"value":
 * "debug", "source": "/etc/keywake/proxy.json"}}. A source is a file, "the environment", "--set",
 * "config set", or "default". path_or_null: as for kw_config_json.
 */
void kw_config_sources_json(
	const struct kw_config *config, const char *path_or_null, struct kw_buffer *out);

enum kw_config_form {
	KW_CONFIG_FORM_TEXT,     /* for --help-config */
	KW_CONFIG_FORM_SCDOC,    /* for the manual pages */
	KW_CONFIG_FORM_MARKDOWN, /* for the reference page */
};

/* The table of keys. program: whose, for the heading of the reference page. */
void kw_config_manual(const struct kw_config_key *keys, const char *program,
	enum kw_config_form form, struct kw_buffer *out);

/*
 * A secret from a file: the content less trailing newlines. KW_E_CONFIG when it is empty or larger
 * than 4 KiB, or in other hands than KW_FILE_SECRET wants (small_file.h), each with the remedy.
 * Empty path: an empty result.
 */
int kw_secret_load(const char *path, struct kw_buffer *secret, struct kw_error *error);

/*
 * Load it again. *changed: it is another than before, which is wiped. KW_E_CONFIG: *secret is as it
 * was.
 */
int kw_secret_reload(
	const char *path, struct kw_buffer *secret, bool *changed, struct kw_error *error);

/* The same of a secret that a proxy and its agents share: it has 16 bytes at least. */
int kw_key_file_load(const char *path, struct kw_buffer *secret, struct kw_error *error);

/*
 * The command line that all daemons share: --config FILE, --set K=V …, --check-config, --doctor,
 * --help, --help-config[=scdoc|markdown], --version. The other forms are for the manual. Returns -1
 * to go on (all is read and complete), or the process's exit status, with the sentence on standard
 * error. The status is 0, or 2 for a failure that a restart does not mend.
 *
 * --check-config says all that is wrong at once, a line each on standard error: with keys, with all
 * of them together, and with the files of secrets, keys and certificates that they name. The status
 * is 2 then. It calls look (unless NULL) for what only the daemon knows: files without which it
 * would not start, and what this host lacks at this moment, for which it would wait. The latter
 * does not change the status.
 *
 * --doctor calls doctor. config NULL: the file could not be read at all. mistakes: why, or what is
 * wrong with keys of the file, which have their fallbacks then, and with all keys together. The
 * status is what doctor returns.
 */
struct kw_config_looked {
	struct kw_config_mistakes files, moment;
};
typedef void (*kw_config_look)(const struct kw_config *config, struct kw_config_looked *looked);
typedef int (*kw_config_doctor)(
	const struct kw_config *config, const struct kw_config_mistakes *mistakes);
struct kw_config_program {
	const char *name;
	const struct kw_config_key *keys;
	kw_config_look look;     /* NULL: there is nothing to look at */
	kw_config_doctor doctor; /* NULL: it has none */
};
int kw_config_command_line(
	struct kw_config *config, const struct kw_config_program *program, int argc, char **argv);

#endif
