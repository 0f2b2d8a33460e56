/*
 * What every daemon answers in the same way: config.get, config.set, config.reload, and the order
 * of signals. A daemon puts KW_DAEMON_METHODS into its table of methods and struct kw_daemon first
 * into the object it registers as the handlers' argument.
 */
#ifndef KW_CONTROL_DAEMON_H
#define KW_CONTROL_DAEMON_H

#include "base/reason.h"
#include "control/config/config.h"
#include "control/http/http.h"
#include "control/rpc/rpc.h"
#include "control/transitions_file.h"
#include "control/turns.h"

struct kw_daemon {
	struct kw_config *config;
	/* A live key has a new value (kw_config_changed_fn); arg is the struct kw_daemon. */
	kw_config_changed_fn changed;
	/*
	 * After a reload: read again the files that the configuration names, and add what came of
	 * it to the answer of config.reload. It fails if a file is not valid, and all files that
	 * were read before stay in force. arg as above.
	 */
	int (*reloaded)(void *arg, json_t *answer, struct kw_error *error);
	struct kw_http_server *http; /* NULL: http.listen is empty */
	struct kw_transitions transitions;
	struct kw_transitions_file kept; /* … over a restart */
	uint64_t begun_us;               /* wall clock: kw_daemon_begin */
	uint64_t moves;                  /* since then: calls of kw_daemon_moved */
	struct kw_turns turns;           /* of its loop */
};

/*
 * The config is there: read what the process before kept, and measure the turns of the loop.
 * component: of log lines. kw_daemon_end writes what is not written and closes the handles;
 * kw_daemon_close frees the rest after the loop has ended.
 */
void kw_daemon_begin(struct kw_daemon *daemon, uv_loop_t *loop, const char *component);
void kw_daemon_end(struct kw_daemon *daemon);
void kw_daemon_close(struct kw_daemon *daemon);

/*
 * The state or its reason has changed. code: of the reason. False: this process has said so before,
 * and only numbers in the reason are other ones.
 */
bool kw_daemon_moved(
	struct kw_daemon *daemon, const char *state, const char *code, const char *reason);

/*
 * Add to a status what is told of the reason besides its sentence: reason_code, grade, remedy and
 * since_us, the time from which it has been in the state that the status names.
 */
void kw_daemon_tell_reason(
	const struct kw_daemon *daemon, json_t *status, const struct kw_reason_row *row);

/* On the control socket: the last changes, the newest first. */
void kw_daemon_history(void *arg, struct kw_rpc_call *call, const json_t *params);

void kw_daemon_config_get(void *arg, struct kw_rpc_call *call, const json_t *params);
void kw_daemon_config_set(void *arg, struct kw_rpc_call *call, const json_t *params);
void kw_daemon_config_reload(void *arg, struct kw_rpc_call *call, const json_t *params);

/* Reload as SIGHUP does it: the outcome goes to the log. */
void kw_daemon_reload(struct kw_daemon *daemon);

/* Warn of keys that the file has and this version does not know (kw_config_passed_over). */
void kw_daemon_log_passed_over(const struct kw_config *config);

#define KW_DAEMON_METHODS                                                                          \
	{"history", "The last changes of state, with reasons and times, the newest first.",        \
		{{NULL, JSON_NULL, false, NULL}}, kw_daemon_history},                              \
		{"config.get", "The configuration in force, whole or one key or group of it.",     \
			{{"path", JSON_STRING, false,                                              \
				 "key or group, e.g. redis.address or redis"},                     \
				{"saved", JSON_TRUE, false, "only what was saved, whole"},         \
				{"sources", JSON_TRUE, false,                                      \
					"each key with its value and where that comes from"}},     \
			kw_daemon_config_get},                                                     \
		{"config.set", "Change one live key until the next start or reload.",              \
			{{"path", JSON_STRING, true, "key"},                                       \
				{"value", JSON_NULL, true, "new value, as in the file"},           \
				{"save", JSON_TRUE, false, "keep it for the next starts, too"}},   \
			kw_daemon_config_set},                                                     \
	{                                                                                          \
		"config.reload",                                                                   \
			"Read the configuration file again with those that it includes, and the "  \
			"files of keys and users that it "                                         \
			"names; keys that are not live are named.",                                \
			{{NULL, JSON_NULL, false, NULL}}, kw_daemon_config_reload                  \
	}

#endif
