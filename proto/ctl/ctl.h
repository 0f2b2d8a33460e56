/*
 * keywakectl: one command, one process.
 *
 *   main.c      arguments           commands.c  the table of commands, and the simple ones
 *   help.c      usage, manual page  completion/ for shells: all from that table
 *   link.c      which socket, calls, exit statuses
 *   status.c    status, agents      summary.c   the first lines of status
 *   wait.c      wait, watch         progress.c  of long calls
 *   pace.c      rates, and how long the rest takes
 *   export.c    export              target.c    a file that is whole or not there
 *   config.c    config get
 *   show.c      values for people   fields.c    aligned fields of an object
 *   table.c     rows                text.c      how wide text is, where lines end
 *   term.c      the terminal        lag.c       explain lag
 *   logs.c      logs                top/        the live table of a fleet
 *   switchover/ the switch-over by hand, step by step
 *   doctor/     what is wrong with a configuration, all at once
 */
#ifndef KW_CTL_CTL_H
#define KW_CTL_CTL_H

#include "base/error.h"
#include "base/slice.h"
#include "control/rpc/rpc.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Exit statuses; promised in the manual page. */
enum ctl_exit {
	CTL_DONE = 0,
	CTL_FAILED = 1,  /* usage or transport */
	CTL_REFUSED = 2, /* the daemon said no, or verify found differences */
	CTL_TIMEOUT = 3,
};

#define CTL_OPTIONS_MAX 6
#define CTL_ARGS_MAX 64
#define CTL_SERVERS_MAX 16        /* arguments that name servers or proxies */
#define CTL_CALL_TIMEOUT_MS 60000 /* of calls that are answered at once */
#define CTL_QUIET_MS 2000         /* of calls that take long: then ask whether the daemon hangs */

struct ctl;

struct ctl_option {
	const char *name;  /* "--timeout" */
	const char *value; /* "SECONDS"; NULL: it takes none */
	const char *doc;
};

/* What the arguments of a command are, for the completion of shells. */
enum ctl_words {
	CTL_WORDS_OTHER, /* none, or what cannot be listed */
	CTL_WORDS_SOCKETS,
	CTL_WORDS_FILES,
	CTL_WORDS_KEYS,      /* of the configuration */
	CTL_WORDS_LIVE_KEYS, /* of these: what `config set` takes */
	CTL_WORDS_LEVELS,
};

struct ctl_command {
	const char *name; /* "status", "config get" */
	const char *args; /* as in the usage line: "KEY", "[PATH]"; NULL: none */
	enum ctl_words words;
	int least, most; /* of them */
	struct ctl_option options[CTL_OPTIONS_MAX];
	const char *brief;   /* one line, without a full stop */
	const char *help;    /* sentences */
	const char *example; /* a command line, without the program's name */
	const char *method;  /* what run_simple calls */
	const char *at;      /* the daemons that it is for: "agent or proxy"; NULL: any */
	bool figures;        /* -o prometheus shows the daemon's figures; others refuse it */
	enum ctl_exit (*run)(struct ctl *ctl);
};

/* Ended by a NULL name. */
extern const struct ctl_command ctl_commands[];

/* Options that go with every command; ended by a NULL name. */
extern const struct ctl_option ctl_global_options[];

enum ctl_format {
	CTL_BY_OUTPUT, /* a table on a terminal, JSON otherwise */
	CTL_TABLE,
	CTL_JSON,
	CTL_PROMETHEUS,
};

struct ctl {
	const struct ctl_command *command;
	const char *args[CTL_ARGS_MAX];
	int arg_count;
	const char *options[CTL_OPTIONS_MAX]; /* values, "" of one without; NULL: not given */
	const char *socket;                   /* NULL until it is looked for */
	char socket_found[108];
	enum ctl_format format;
	bool json;           /* that format is JSON */
	bool colour;         /* on standard output */
	uint64_t started_us; /* wall clock, before anything else was done */
	struct kw_rpc_client *client;
};

/* link.c */

/* Say "keywakectl: sentence" on standard error; returns the exit status that goes with the code. */
enum ctl_exit ctl_fail(const struct kw_error *error);
/*
 * The same after a call of the command's method. If the daemon is none that the command is for, say
 * so, and where to run it.
 */
enum ctl_exit ctl_fail_at(struct ctl *ctl, const struct kw_error *error);
/* KW_E_REFUSED, and that sentence: the daemon is none that the command is for. */
int ctl_check_at(struct ctl *ctl, struct kw_error *error);
enum ctl_exit ctl_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Settle which socket to use. */
int ctl_find_socket(struct ctl *ctl, struct kw_error *error);

/*
 * For a command at several daemons: the socket that was named (-s, KEYWAKE_SOCKET), or all in
 * /run/keywake, `most` at most. Their number; the caller frees each. 0, and KW_E_ARGUMENT in
 * *error: there is none, or there are more.
 */
size_t ctl_find_sockets(const struct ctl *ctl, char **sockets, size_t most, struct kw_error *error);

/* Connect if not connected, and call. After a failure of the connection it is closed. */
int ctl_call(struct ctl *ctl, const char *method, json_t *params, int timeout_ms, json_t **result,
	struct kw_error *error);

/*
 * As ctl_call, for commands that outlive a restart of the daemon. Failures of the connection are
 * passed over. KW_E_TIMEOUT: it was away for 10 s, or deadline_us (monotonic) has come. *away (may
 * be NULL) is told each failure, for the progress line.
 */
int ctl_call_patiently(struct ctl *ctl, const char *method, uint64_t deadline_us,
	void (*away)(void *arg, const struct kw_error *error), void *arg, json_t **result,
	struct kw_error *error);

/*
 * The answer to the call that was begun on ctl->client, however long it takes. KW_E_TIMEOUT: the
 * daemon hangs, because it has not even answered `version` on another connection for 10 s.
 */
struct ctl_progress;
int ctl_await(
	struct ctl *ctl, struct ctl_progress *progress, json_t **result, struct kw_error *error);
int ctl_check_alive(const struct ctl *ctl, struct kw_error *error); /* does it answer `version`? */

/*
 * A daemon's program name, from its answer to `version`: "keywake-agent"; "" when it does not say.
 */
int ctl_program(struct ctl *ctl, uint64_t deadline_us, char program[64], struct kw_error *error);

/* The value of the command's option, as seconds; false (and a sentence) when it is no such number.
 */
bool ctl_seconds(const struct ctl *ctl, int option, double fallback, double *seconds);

/* show.c */

/*
 * JSON on standard output: a line when piped; on a terminal indented, and in ASCII, so that no text
 * in it reaches the terminal as it is. Numbers that other programs would round are texts
 * (control/json_text.h): the same ones as in a table.
 */
void ctl_print_json(const json_t *value);

/* A text of several lines, safe for a terminal. */
void ctl_print_text(struct kw_slice raw);

/* "lag_ms" becomes "lag", and "bytes_per_second" becomes "bytes/s". */
void ctl_cut_unit(char *name);

/* text.c */

/* Columns that text takes on a terminal: code points, as near as it goes without tables. */
int ctl_width(const char *text);
/* Bytes of the first code points of text, which take at most `columns`. */
size_t ctl_bytes_within(const char *text, int columns);
/* Where to end a line of it: after the last word that fits, or in the midst of one that never does.
 */
size_t ctl_end_of_line(const char *text, int columns);
/* How many columns there are; 0: no limit, because no terminal shows it. */
int ctl_columns_of_output(void);
/*
 * Text that began at column `indent`, on as many lines as it needs, and the end of the last one. Of
 * a terminal with so many columns; 0: no limit.
 */
void ctl_put_wrapped(FILE *stream, const char *text, int indent, int columns);
void ctl_print_wrapped(const char *text, int indent); /* to standard output */

/* fields.c: aligned lines, units by the fields' names, nested objects and rows below. */
void ctl_print_fields(const struct ctl *ctl, const json_t *object);

/* table.c: a list of objects, a row for each */

/* What becomes of a table that is wider than the terminal. The columns `at`, `state` and `code`
 * keep their width. */
enum ctl_rest {
	CTL_REST_BELOW, /* texts go on in their column, columns stand below their row: all is shown
			 */
	CTL_REST_CUT, /* a row is one line: texts end in "…", and the last columns are left out */
};

struct ctl_rows {
	FILE *stream;
	int columns;    /* of the terminal; 0: no limit */
	int indent;     /* of all lines */
	int least_name; /* the first column stays as wide as that; 0: as the others */
	enum ctl_rest rest;
	const char *const *names; /* of the columns, ended by NULL; NULL: those of the first row */
	const char *const *first; /* of the first row's fields, those that stand first; or NULL */
	const char
		*sentence; /* the last column, if it stands below where it has no room; or NULL */
	const char *note;  /* a field with a sentence that stands below its row; NULL: none */
};
/* A row without a field of that name has "-" there. */
void ctl_put_rows(const struct ctl *ctl, const struct ctl_rows *rows, const json_t *list);
/* To standard output, with all fields of the first row. */
void ctl_print_rows(const struct ctl *ctl, const json_t *list);

/* show.c: one value by the unit in its name; what is not printable is shown as \xNN. */
#define CTL_CELL (4 * KW_ERROR_TEXT) /* a sentence with every byte shown as \xNN */
const char *ctl_show_value(const char *name, const json_t *value, char cell[CTL_CELL]);
const char *ctl_show_count(double count, char *text, size_t size);
const char *ctl_show_bytes(double bytes, char *text, size_t size);
const char *ctl_show_us(double us, char *text, size_t size);

/* Text from a daemon, safe for a terminal (base/printable.h), in one line. */
const char *ctl_show_text(const char *raw, char *text, size_t size);
const char *ctl_show_slice(struct kw_slice raw, char *text, size_t size); /* NULs too */

/* The moment as UTC, to the second: "2026-11-27 20:21:32Z". */
const char *ctl_show_time(uint64_t us, char *text, size_t size);

/* summary.c: the dozen lines that matter first. */
void ctl_print_summary(const struct ctl *ctl, const char *program, const json_t *status);
/* The first line, and why it is so. */
void ctl_print_state(const struct ctl *ctl, const char *program, const json_t *status);

/* term.c */

/* What stands for the rest of a text, in the terminal's character set: one column. */
const char *ctl_ellipsis(void);

/* Is a daemon in this state well? */
enum ctl_mood { CTL_MOOD_GOOD, CTL_MOOD_PASSING, CTL_MOOD_BAD };
enum ctl_mood ctl_state_mood(const char *state);
/* Of a status, or of a row: by its grade if it tells one, otherwise by its state. */
enum ctl_mood ctl_mood_of(const json_t *object);
const char *ctl_mood_grade(enum ctl_mood mood); /* as daemons tell it: "good" */

/* SGR codes around a state's name, "" without colour. */
const char *ctl_mood_colour(const struct ctl *ctl, enum ctl_mood mood);
const char *ctl_state_colour(const struct ctl *ctl, const char *state);
const char *ctl_colour_end(const struct ctl *ctl);
const char *ctl_bold(const struct ctl *ctl);

/* Is it a terminal that can do more than print (TERM)? */
bool ctl_can_steer(FILE *stream);

/* May colours be used on that stream (terminal, NO_COLOR, TERM)? */
bool ctl_colour_wanted(FILE *stream);

/*
 * One line that is drawn again and again. Ctrl-C and exit leave the terminal as it was. If the
 * stream is no terminal, each drawing is a line of its own.
 */
void ctl_line_begin(FILE *stream);
void ctl_line_draw(const char *text);
void ctl_line_end(bool keep);

/* Unlink this file when a signal ends the program; NULL: no more. The text is the caller's. */
void ctl_remove_on_signal(const char *path);

/*
 * Call fn when a signal or an exit ends the program; NULL: no more. It may do only what a signal
 * handler may.
 */
void ctl_restore_at_end(void (*fn)(void));

/* "[#####-----]  43 %" of that many columns, in the terminal's character set. */
void ctl_bar(double progress, int columns, char *text, size_t size);
int ctl_columns(FILE *stream);

/* pace.c */

#define CTL_LINE 512 /* bytes of a line that is drawn */

/* Append before, text and after; what does not fit is cut. Returns the new length. */
size_t ctl_add(
	char line[CTL_LINE], size_t at, const char *before, const char *text, const char *after);

struct ctl_rate {
	double value;      /* at the last look */
	double per_second; /* smoothed; 0: not known yet */
};

/* Zeroed: nothing was seen. */
struct ctl_pace {
	uint64_t looked_us;
	struct ctl_rate progress, keys, bytes;
};
void ctl_pace_look(struct ctl_pace *pace, double progress, double keys, double bytes);
/* "[###---] 43 %  12 s left  1,234 keys/s  5.0 MiB/s", after what the line has. */
size_t ctl_pace_compose(const struct ctl_pace *pace, char line[CTL_LINE], size_t at);

/* progress.c: of a call that takes long; nothing if standard error is no terminal */
struct ctl_progress {
	const char *kind;             /* of its events; static */
	struct kw_rpc_client *events; /* NULL: none are told */
	struct ctl_pace pace;
	uint64_t drawn_us;
};
/* Before the call, so that no event is missed. */
void ctl_progress_begin(struct ctl_progress *progress, const char *socket, const char *kind);
void ctl_progress_look(struct ctl_progress *progress); /* draw it, if there is news */
void ctl_progress_end(struct ctl_progress *progress);  /* of a zeroed one, too */

/* commands.c */

/* A whole number; false (and a sentence that names `what`) when the text is none. */
bool ctl_number(const char *what, const char *text, json_int_t *number);
bool ctl_found_differences(const json_t *answer); /* of verify */

/* config.c, history.c, lag.c, logs.c, metrics.c, status.c, wait.c, export.c, doctor/, switchover/,
 * top/ */
enum ctl_exit ctl_run_config_get(struct ctl *ctl);
enum ctl_exit ctl_run_history(struct ctl *ctl);
enum ctl_exit ctl_run_logs(struct ctl *ctl);
enum ctl_exit ctl_run_explain_lag(struct ctl *ctl);
enum ctl_exit ctl_run_metrics(struct ctl *ctl);
enum ctl_exit ctl_run_top(struct ctl *ctl);
enum ctl_exit ctl_run_doctor(struct ctl *ctl);
enum ctl_exit ctl_run_switchover(struct ctl *ctl);
enum ctl_exit ctl_run_export(struct ctl *ctl);
enum ctl_exit ctl_run_status(struct ctl *ctl);
enum ctl_exit ctl_run_agents(struct ctl *ctl);
enum ctl_exit ctl_run_wait(struct ctl *ctl);
enum ctl_exit ctl_run_watch(struct ctl *ctl);

/* completion/ */

/* "bash", "zsh" or "fish"; false: another one. */
bool ctl_completion(const char *shell);
/*
 * Before it: configuration keys, as --help-config of the daemons prints them. After a line
 * "[agent]" come those of the agent, and so on. Without such a line each daemon has them.
 */
void ctl_completion_keys(FILE *stream);

/* help.c */
void ctl_help(FILE *stream);
void ctl_help_command(const struct ctl_command *command, FILE *stream);
void ctl_help_scdoc(void);
/* "status, agents and metrics": the commands that -o prometheus goes with. */
const char *ctl_with_figures(char text[CTL_CELL]);

#endif
