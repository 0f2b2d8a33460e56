/* The table of commands, and the commands that are little more than a call. */
#include "ctl/ctl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The answer of a call that changed something. */
static void print_answer(const struct ctl *ctl, const json_t *answer)
{
	char cell[CTL_CELL];

	if (ctl->json)
		ctl_print_json(answer);
	else if (json_is_object(answer) && json_object_size(answer) > 0)
		ctl_print_fields(ctl, answer);
	else if (json_is_string(answer))
		printf("%s\n", ctl_show_value("", answer, cell));
	else
		printf("done\n");
}

/* How many: a count, a list, or an object with a count. */
static double amount(const json_t *value)
{
	if (json_is_object(value))
		value = json_object_get(value, "count");
	return json_is_array(value) ? (double)json_array_size(value) : json_number_value(value);
}

static enum ctl_exit call_and_print(struct ctl *ctl, json_t *params, int timeout_ms)
{
	struct kw_error error;
	json_t *answer;

	if (ctl_call(ctl, ctl->command->method, params, timeout_ms, &answer, &error))
		return ctl_fail_at(ctl, &error);
	print_answer(ctl, answer);
	json_decref(answer);
	return CTL_DONE;
}

static enum ctl_exit run_simple(struct ctl *ctl)
{
	return call_and_print(ctl, NULL, CTL_CALL_TIMEOUT_MS);
}

bool ctl_number(const char *what, const char *text, json_int_t *number)
{
	char *end;

	errno = 0;
	*number = strtoll(text, &end, 10);
	if (errno == 0 && end != text && *end == '\0' && *number >= 0)
		return true;
	ctl_usage("%s: expected a whole number; given %.40s", what, text);
	return false;
}

static enum ctl_exit run_disconnect(struct ctl *ctl)
{
	json_int_t id;

	if (!ctl_number("ID (see keywakectl agents)", ctl->args[0], &id))
		return CTL_FAILED;
	return call_and_print(ctl, json_pack("{s:I}", "id", id), CTL_CALL_TIMEOUT_MS);
}

/*
 * Nothing has that id. A proxy with certificates refuses the name all the same, because its holder
 * might only be away. But it might be a typing error, and the agent that was meant reads on.
 */
static enum ctl_exit judge_revocation(const json_t *answer, const char *id)
{
	char text[CTL_CELL];

	if (amount(json_object_get(answer, "keys")) > 0 ||
		amount(json_object_get(answer, "sessions")) > 0)
		return CTL_DONE;
	fprintf(stderr,
		"keywakectl: no key and no session is called %s: is it a typing error? "
		"`keywakectl agents` shows who is connected. The name is remembered (%.0f of "
		"%.0f): a certificate of it is refused until the next reload\n",
		ctl_show_text(id, text, sizeof text),
		amount(json_object_get(answer, "names_refused")),
		amount(json_object_get(answer, "names_most")));
	return CTL_REFUSED;
}

static enum ctl_exit run_revoke(struct ctl *ctl)
{
	json_t *id = json_string(ctl->args[0]), *answer;
	enum ctl_exit status;
	struct kw_error error;

	if (!id)
		return ctl_usage("the id is not valid UTF-8");
	if (ctl_call(ctl, ctl->command->method, json_pack("{s:o}", "id", id), CTL_CALL_TIMEOUT_MS,
		    &answer, &error))
		return ctl_fail_at(ctl, &error);
	print_answer(ctl, answer);
	status = judge_revocation(answer, ctl->args[0]);
	json_decref(answer);
	return status;
}

static enum ctl_exit run_get(struct ctl *ctl)
{
	json_t *key = json_string(ctl->args[0]), *params;
	json_int_t database;

	if (!key)
		return ctl_usage("the key is not valid UTF-8: the control socket speaks JSON");
	params = json_pack("{s:o}", "key", key);
	if (ctl->options[0]) {
		if (!ctl_number("--db", ctl->options[0], &database)) {
			json_decref(params);
			return CTL_FAILED;
		}
		json_object_set_new(params, "database", json_integer(database));
	}
	return call_and_print(ctl, params, CTL_CALL_TIMEOUT_MS);
}

static enum ctl_exit run_retarget(struct ctl *ctl)
{
	json_t *proxies = json_array(), *params;

	for (int i = 0; i < ctl->arg_count; i++) {
		if (!json_array_append_new(proxies, json_string(ctl->args[i])))
			continue;
		json_decref(proxies);
		return ctl_usage("the address is not valid UTF-8");
	}
	if (ctl->arg_count > 1) {
		params = json_pack("{s:o}", "proxies", proxies);
	} else {
		params = json_pack("{s:O}", "proxy", json_array_get(proxies, 0));
		json_decref(proxies);
	}
	if (ctl->options[0])
		json_object_set_new(params, "save", json_true());
	return call_and_print(ctl, params, CTL_CALL_TIMEOUT_MS);
}

static enum ctl_exit run_shutdown(struct ctl *ctl)
{
	json_t *params = ctl->options[0] ? json_pack("{s:b}", "promote", 1) : NULL;
	struct kw_error error;
	json_t *answer;

	if (ctl_call(ctl, "shutdown", params, CTL_CALL_TIMEOUT_MS, &answer, &error))
		return ctl_fail(&error);
	print_answer(ctl, answer);
	json_decref(answer);
	return CTL_DONE;
}

/* Does the answer of verify speak of differences? */
bool ctl_found_differences(const json_t *answer)
{
	static const char *const names[] = {"differences", "different", "missing", "extra"};

	if (json_is_false(json_object_get(answer, "equal")))
		return true;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (amount(json_object_get(answer, names[i])) > 0)
			return true;
	return false;
}

/* One that takes long. Takes the parameters. */
static int call_long(struct ctl *ctl, const char *method, json_t *params, json_t **answer,
	struct kw_error *error)
{
	struct ctl_progress progress;
	int code = ctl_find_socket(ctl, error);

	if (!code)
		code = kw_rpc_client_open(ctl->socket, &ctl->client, error);
	if (code) {
		json_decref(params);
		return code;
	}
	ctl_progress_begin(&progress, ctl->socket, method);
	code = kw_rpc_client_begin(ctl->client, method, params, -1, error);
	if (!code)
		code = ctl_await(ctl, &progress, answer, error);
	ctl_progress_end(&progress);
	return code;
}

static enum ctl_exit run_verify(struct ctl *ctl)
{
	json_t *params = json_object(), *answer;
	enum ctl_exit status = CTL_DONE;
	struct kw_error error;
	json_int_t sample;

	if (ctl->options[0]) {
		if (!ctl_number("--sample", ctl->options[0], &sample)) {
			json_decref(params);
			return CTL_FAILED;
		}
		json_object_set_new(params, "sample", json_integer(sample));
	}
	if (call_long(ctl, "verify", params, &answer, &error))
		return ctl_fail_at(ctl, &error);
	print_answer(ctl, answer);
	if (ctl_found_differences(answer)) {
		fprintf(stderr, "keywakectl: primary and replica differ\n");
		status = CTL_REFUSED;
	}
	json_decref(answer);
	return status;
}

static enum ctl_exit run_reconcile(struct ctl *ctl)
{
	struct kw_error error;
	json_t *answer;

	if (!ctl->options[0])
		return run_simple(ctl);
	if (call_long(ctl, "reconcile", json_pack("{s:b}", "wait", 1), &answer, &error))
		return ctl_fail_at(ctl, &error);
	print_answer(ctl, answer);
	json_decref(answer);
	return CTL_DONE;
}

static enum ctl_exit run_config_set(struct ctl *ctl)
{
	const char *text = ctl->args[1];
	json_t *path = json_string(ctl->args[0]);
	json_t *value = json_loads(text, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL), *params;

	if (!value)
		value = json_string(text);
	if (!value || !path) {
		json_decref(value);
		json_decref(path);
		return ctl_usage("path and value must be valid UTF-8");
	}
	params = json_pack("{s:o,s:o}", "path", path, "value", value);
	if (ctl->options[0])
		json_object_set_new(params, "save", json_true());
	return call_and_print(ctl, params, CTL_CALL_TIMEOUT_MS);
}

static enum ctl_exit run_fence(struct ctl *ctl)
{
	json_int_t seconds;

	if (!ctl_number("SECONDS", ctl->args[0], &seconds))
		return CTL_FAILED;
	return call_and_print(ctl, json_pack("{s:I}", "seconds", seconds), CTL_CALL_TIMEOUT_MS);
}

static enum ctl_exit run_log(struct ctl *ctl)
{
	return call_and_print(ctl, json_pack("{s:s}", "level", ctl->args[0]), CTL_CALL_TIMEOUT_MS);
}

static void print_method(const struct ctl *ctl, const json_t *method)
{
	const char *name = json_string_value(json_object_get(method, "name"));
	const char *doc = json_string_value(json_object_get(method, "doc"));
	const json_t *params = json_object_get(method, "params");
	char text[CTL_CELL];

	printf("%s%s%s", ctl_bold(ctl), ctl_show_text(name ? name : "", text, sizeof text),
		ctl_colour_end(ctl));
	for (size_t i = 0; i < json_array_size(params); i++) {
		const json_t *param = json_array_get(params, i);
		bool required = json_is_true(json_object_get(param, "required"));

		ctl_show_value("", json_object_get(param, "name"), text);
		printf(required ? " %s" : " [%s]", text);
	}
	printf("\n  %s\n", ctl_show_text(doc ? doc : "", text, sizeof text));
}

static enum ctl_exit run_methods(struct ctl *ctl)
{
	struct kw_error error;
	json_t *methods;

	if (ctl_call(ctl, "rpc.methods", NULL, CTL_CALL_TIMEOUT_MS, &methods, &error))
		return ctl_fail(&error);
	if (ctl->json)
		ctl_print_json(methods);
	for (size_t i = 0; !ctl->json && i < json_array_size(methods); i++)
		print_method(ctl, json_array_get(methods, i));
	json_decref(methods);
	return CTL_DONE;
}

static enum ctl_exit run_version(struct ctl *ctl)
{
	struct kw_error error;
	json_t *version;

	if (!ctl->json)
		printf("keywakectl %s\n", KW_VERSION);
	if (ctl_call(ctl, "version", NULL, CTL_CALL_TIMEOUT_MS, &version, &error))
		return ctl_fail(&error);
	if (ctl->json) {
		json_object_set_new(version, "keywakectl", json_string(KW_VERSION));
		ctl_print_json(version);
	} else {
		char name[CTL_CELL], number[CTL_CELL];

		printf("%s %s\n", ctl_show_value("", json_object_get(version, "program"), name),
			ctl_show_value("", json_object_get(version, "version"), number));
	}
	json_decref(version);
	return CTL_DONE;
}

#define TIMEOUT_OPTION                                                                             \
	{                                                                                          \
		"--timeout", "SECONDS", "give up after that long, with exit status 3"              \
	}

const struct ctl_command ctl_commands[] = {
	{.name = "status",
		.options = {{"--all", NULL, "every figure that the daemon keeps"}},
		.brief = "show what a daemon is doing",
		.help = "On a terminal the dozen lines that matter first: the state and since "
			"when, "
			"the reason and what to do, lag, keys and both ends. In a pipe, and with "
			"-o "
			"json, all of it.",
		.example = "-s /run/keywake/agent.sock status",
		.figures = true,
		.run = ctl_run_status},
	{.name = "doctor",
		.args = "[FILE]",
		.words = CTL_WORDS_FILES,
		.most = 1,
		.options = {{"--daemon", "NAME",
			"whose configuration FILE is: proxy, agent or gateway; if not given, its "
			"keys tell it"}},
		.brief = "list all that is wrong with a configuration, and what mends it",
		.help = "FILE is the configuration of a daemon, which need not run; without it, "
			"that of "
			"the running daemon is taken. Looks at servers and permissions, proxies "
			"(with some READs of the table), files, ports, clocks and this host, "
			"within 15 seconds, and changes nothing anywhere. Each finding has a "
			"severity (wrong, warning, ok) and a remedy. Exit status 2 when anything "
			"is "
			"wrong. Run as root, it looks at a running daemon's files as that daemon's "
			"user.",
		.example = "doctor /etc/keywake/agent-main.json",
		.run = ctl_run_doctor},
	{.name = "agents revoke",
		.at = "proxy",
		.args = "ID",
		.least = 1,
		.most = 1,
		.brief = "refuse an agent's key at a proxy, and end its connections",
		.help = "ID is that of the key, in auth.keys_file, or the name in a certificate. "
			"Its agents are refused until the "
			"next reload or start of the proxy; take its lines out of the file before "
			"that. Says how many keys and sessions it was. Exit status 2 when it was "
			"none: a proxy that asks for certificates refuses the name all the same. "
			"Over shm the memory stays mapped in a process that will not let go "
			"of it.",
		.example = "-s /run/keywake/proxy.sock agents revoke edge-1",
		.method = "agents.revoke",
		.run = run_revoke},
	{.name = "agents",
		.at = "proxy",
		.brief = "list the agents that are connected to a proxy",
		.help = "One line for each agent: its state, how far it has come, how it reads.",
		.example = "-s /run/keywake/proxy.sock agents",
		.figures = true,
		.run = ctl_run_agents},
	{.name = "metrics",
		.brief = "show a daemon's figures as Prometheus text",
		.help = "The text, on a terminal and in a pipe. With -o table the samples alone, "
			"aligned; with -o json the text in a field of that name.",
		.example = "-s /run/keywake/agent.sock metrics",
		.figures = true,
		.run = ctl_run_metrics},
	{.name = "history",
		.options = {{"--count", "N", "no more than the last N changes"}},
		.brief = "show the last changes of a daemon's state",
		.help = "Each with its reason and its time, the newest last, and in a table how "
			"long it "
			"lasted. They are kept over a restart in control.history_file. A reason "
			"that only counts is one change.",
		.example = "-s /run/keywake/agent.sock history --count 10",
		.run = ctl_run_history},
	{.name = "explain lag",
		.at = "agent or proxy",
		.args = "[SOCKET]",
		.words = CTL_WORDS_SOCKETS,
		.most = 1,
		.options = {{"--reset", NULL, "begin the figures anew after this answer"}},
		.brief = "show where the time goes from a write to the replica",
		.help = "Each stage with its median, its 99th percentile and its longest time in "
			"the last one to two minutes, which one is the largest, and what "
			"shortens it. What holds changes up at this moment comes first. A proxy "
			"knows the stages up to publish, an agent those from look on. SOCKET is "
			"the control socket of the other half. Without "
			"it the other half is looked for among the sockets beside the first one.",
		.example = "-s /run/keywake/agent.sock explain lag /run/keywake/proxy.sock",
		.run = ctl_run_explain_lag},
	{.name = "logs",
		.options = {{"-f", NULL, "go on with new lines as they come"},
			{"-n", "LINES", "begin with the last LINES lines, 100 if not given"},
			{"--level", "LEVEL",
				"only lines as serious as LEVEL: error, warn, info, debug or "
				"trace"}},
		.brief = "show the last lines of a daemon's log",
		.help = "The daemon keeps them in memory, up to 1,024 lines or 128 KiB. A line "
			"below the level of its log was never written: keywakectl log LEVEL sets "
			"that. With -f a daemon that is restarted is waited for, up to 10 seconds. "
			"If this program reads too slowly, it says how many lines are missing. In "
			"a pipe one JSON object a line: number, at_us, level, where and text; or "
			"missed, in the place of missing lines.",
		.example = "-s /run/keywake/agent.sock logs -f --level warn",
		.run = ctl_run_logs},
	{.name = "top",
		.args = "[SOCKET...]",
		.words = CTL_WORDS_SOCKETS,
		.most = CTL_ARGS_MAX,
		.options = {{"--once", NULL, "print one table and exit"},
			{"--interval", "SECONDS",
				"time between two looks, 0.1 to 3600; 1 if not given"},
			{"--sort", "COLUMN",
				"name, kind, state, lag, fresh, records, bytes, keys or code; "
				"state if not given"},
			{"--reverse", NULL, "the other order"}},
		.brief = "show a live table of several daemons",
		.help = "A row for each control socket, and below its proxy for each agent that "
			"has no row of its own. Without SOCKET: all sockets in /run/keywake, also "
			"those that come later. The sentence below a row "
			"says why the daemon is not well. s and S choose the column to sort by, r "
			"reverses the order, the space bar pauses, arrows and pages scroll, q "
			"quits. Not on a terminal, or with --once or -o json, one table after two "
			"looks; exit status 1 if no daemon answered. records are changes written "
			"(proxy) or applied (agent), and keys asked for (gateway); bytes are those "
			"written, read, or sent to clients.",
		.example = "top /run/keywake/*.sock --interval 2",
		.run = ctl_run_top},
	{.name = "watch",
		.options = {{"--count", "N", "end after N looks"},
			{"--interval", "SECONDS", "time between two looks"}},
		.brief = "follow a daemon's state until interrupted",
		.help = "A progress bar while the daemon is filling up, one refreshed line "
			"afterwards; when piped, one JSON status a line, each second.",
		.example = "-s /run/keywake/agent.sock watch",
		.run = ctl_run_watch},
	{.name = "wait warm",
		.options = {TIMEOUT_OPTION},
		.brief = "wait until an agent's replica holds all that was written before",
		.help = "Returns when the agent is warm and every write that the primary had "
			"executed when this command started is applied to the replica. A daemon "
			"that is being restarted meanwhile is waited for, up to 10 seconds.",
		.example = "-s /run/keywake/agent.sock wait warm --timeout 60",
		.run = ctl_run_wait},
	{.name = "wait live",
		.options = {TIMEOUT_OPTION},
		.brief = "wait until a proxy's table holds all that was written before",
		.help = "Returns when the proxy is live and every write that the primary had "
			"executed when this command started is in the table.",
		.example = "-s /run/keywake/proxy.sock wait live --timeout 60",
		.run = ctl_run_wait},
	{.name = "get",
		.at = "agent",
		.args = "KEY",
		.least = 1,
		.most = 1,
		.options = {{"--db", "N", "the key's database, 0 if not given"}},
		.brief = "look one key up in the proxy's table, through an agent",
		.help = "Shows version, expiry and size of the newest record of the key. A key "
			"that is not there is refused, with exit status 2.",
		.example = "-s /run/keywake/agent.sock get user:42 --db 3",
		.method = "get",
		.run = run_get},
	{.name = "verify",
		.at = "agent",
		.options = {{"--sample", "N", "compare N keys picked at random instead of all"}},
		.brief = "compare the replica with the proxy's table",
		.help = "Values are compared by content, with a second look before a difference is "
			"reported. Takes as long as it needs, while the daemon answers. Exit "
			"status "
			"2 when there are differences.",
		.example = "-s /run/keywake/agent.sock verify --sample 10000",
		.method = "verify",
		.run = run_verify},
	{.name = "export",
		.at = "agent",
		.args = "FILE|-",
		.words = CTL_WORDS_FILES,
		.least = 1,
		.most = 1,
		.brief = "write the table as an RDB file, through an agent",
		.help = "A backup that costs the primary nothing, of the keys that the agent's "
			"filter covers; redis-server loads it, redis-check-rdb passes it. Each key "
			"is there once; one_moment says whether all are as the table was when "
			"this began, or each as it was at some moment since. The file is opened "
			"by this program: FILE is replaced when the new one is whole and on the "
			"disk, not before, and belongs to the caller, mode 0600. Interrupted, or "
			"on a full disk, nothing stays behind. With - the bytes go to standard "
			"output; a stream cut short by a failure lacks its end, and the exit "
			"status says so. One export runs at a time; the primary may be down, the "
			"replica "
			"too, and the agent paused.",
		.example = "-s /run/keywake/agent.sock export /backup/today.rdb",
		.run = ctl_run_export},
	{.name = "resync",
		.at = "agent",
		.brief = "let an agent read the whole table again",
		.help = "Keys that are not in the table are deleted from the replica afterwards.",
		.example = "-s /run/keywake/agent.sock resync",
		.method = "resync",
		.run = run_simple},
	{.name = "approve",
		.at = "agent or proxy",
		.brief = "approve what a daemon waits with",
		.help = "The daemon's reason says what waits for approval. The approval counts for "
			"this finding and no other, and the daemon logs it. When nothing waits it "
			"is refused, with exit status 2.",
		.example = "-s /run/keywake/agent.sock approve",
		.method = "approve",
		.run = run_simple},
	{.name = "reconcile",
		.at = "proxy",
		.options = {{"--wait", NULL,
			"at full speed, and return when the table has what the primary has"}},
		.brief = "let a proxy scan its primary again and mend the table",
		.help = "Agents go on meanwhile; unchanged values are not sent again. With --wait "
			"the limits of fetching do not hold, and the answer says how many keys "
			"there are, and how many records the table lacked.",
		.example = "-s /run/keywake/proxy.sock reconcile",
		.method = "reconcile",
		.run = run_reconcile},
	{.name = "pause",
		.at = "agent",
		.brief = "stop an agent applying changes",
		.help = "The replica stays as it is until resume.",
		.example = "-s /run/keywake/agent.sock pause",
		.method = "pause",
		.run = run_simple},
	{.name = "resume",
		.at = "agent",
		.brief = "let a paused agent go on",
		.help = "It catches up from where it stopped.",
		.example = "-s /run/keywake/agent.sock resume",
		.method = "resume",
		.run = run_simple},
	{.name = "disconnect",
		.at = "proxy",
		.args = "ID",
		.least = 1,
		.most = 1,
		.brief = "end an agent's connection to a proxy",
		.help = "ID is the first column of agents. Over rdma and tcp nothing is read from "
			"that "
			"moment on; over shm the memory stays mapped in a process that will not "
			"let "
			"go of it. The agent connects again by itself: to keep one out, revoke "
			"its key.",
		.example = "-s /run/keywake/proxy.sock disconnect 3",
		.method = "agents.disconnect",
		.run = run_disconnect},
	{.name = "retarget",
		.at = "agent or gateway",
		.args = "PROXY...",
		.least = 1,
		.most = CTL_SERVERS_MAX,
		.options = {{"--save", NULL, "keep it for the next starts, too"}},
		.brief = "let an agent or a gateway follow another proxy",
		.help = "PROXY is its address, as the key proxy has it. Of several, which must be "
			"proxies of one primary, the one that is confirmed is followed. Without "
			"--save it holds until the next start. Until the other proxy is connected, "
			"a gateway answers by gateway.forward, or not at all.",
		.example = "-s /run/keywake/gateway.sock retarget tcp://10.0.0.7:7471",
		.method = "retarget",
		.run = run_retarget},
	{.name = "fence",
		.at = "proxy",
		.args = "SECONDS",
		.least = 1,
		.most = 1,
		.brief = "let the writes of all clients at a proxy's primary wait",
		.help = "The primary holds them back (CLIENT PAUSE WRITE) and goes on by itself "
			"after "
			"that time. 0: they go on at once. The proxy's user needs +client|pause "
			"and "
			"+client|unpause.",
		.example = "-s /run/keywake/proxy.sock fence 30",
		.method = "fence",
		.run = run_fence},
	{.name = "switchover",
		.args = "OLD NEW AGENT [AGENT...]",
		.words = CTL_WORDS_SOCKETS,
		.least = 3,
		.most = CTL_SERVERS_MAX,
		.options = {{"--dry-run", NULL, "show each check and step, and change nothing"},
			{"--proxy", "ADDRESS",
				"of the new proxy, for other agents that have one proxy and no "
				"list"},
			{"--audit-age", "SECONDS",
				"accept an audit not older than that, instead of comparing all "
				"keys"},
			{"--fence-command", "WORDS",
				"a command of the shell that keeps writes from the old primary; it "
				"gets one more word: fence, or open"},
			{"--hold", "SECONDS",
				"how long writes wait at the old primary after it was deposed; 600 "
				"if not given, and at least 30"},
			{"--timeout", "SECONDS",
				"how long one step may take, verify apart; 30 if not given"}},
		.brief = "make an agent's server the primary, without Sentinel",
		.help = "Control sockets: of the old primary's proxy, of the new one's, of the "
			"agent "
			"beside the new primary, and of other agents. Both proxies have "
			"authority.by=operator and control.saved_file. Writes are held back, the "
			"agent gets level, all keys are compared from end to end, the old primary "
			"loses its term, "
			"the "
			"agent lets its server go, the new primary gets the next term, and the "
			"other "
			"agents follow. A failure before the old primary has lost its term undoes "
			"all. "
			"After that the next step is shown, and the same command goes on. Nothing "
			"is "
			"done to the old primary but the fence: it becomes a replica by your hand.",
		.example = "switchover old.sock new.sock agent.sock --dry-run",
		.run = ctl_run_switchover},
	{.name = "config get",
		.args = "[PATH]",
		.words = CTL_WORDS_KEYS,
		.most = 1,
		.options = {{"--saved", NULL, "only what --save has kept"},
			{"--sources", NULL, "where each value comes from"}},
		.brief = "show the configuration in effect",
		.help = "Without PATH all of it; PATH is a key (log.level) or a group (log). A "
			"source is a file, the environment, --set, config set, or default.",
		.example = "-s /run/keywake/agent.sock config get poll",
		.run = ctl_run_config_get},
	{.name = "config set",
		.args = "PATH VALUE",
		.words = CTL_WORDS_LIVE_KEYS,
		.least = 2,
		.most = 2,
		.options = {{"--save", NULL, "keep it for the next starts, too"}},
		.brief = "change a live key until the next start or reload",
		.help = "VALUE is JSON, or else a text. Keys that take effect only at start are "
			"refused. With --save the value is kept in control.saved_file. It counts "
			"over the configuration files, which stay as they are, with their "
			"comments. `config get --saved` shows it.",
		.example = "-s /run/keywake/proxy.sock config set table.max_bytes 8GiB",
		.method = "config.set",
		.run = run_config_set},
	{.name = "config reload",
		.brief = "let a daemon read its configuration file again",
		.help = "All or nothing: a file with a mistake changes nothing. The files that it "
			"includes are read again, too. Says which changed "
			"keys need a restart. The files of secrets, keys and users are read again, "
			"too: a proxy says how many keys it has now, how many sessions it "
			"revoked because their key is gone, and how many revocations by `agents "
			"revoke` ended.",
		.example = "-s /run/keywake/proxy.sock config reload",
		.method = "config.reload",
		.run = run_simple},
	{.name = "log",
		.args = "LEVEL",
		.words = CTL_WORDS_LEVELS,
		.least = 1,
		.most = 1,
		.brief = "set the level of a daemon's log until its next start",
		.help = "LEVEL is error, warn, info, debug or trace.",
		.example = "-s /run/keywake/agent.sock log debug",
		.method = "log.set",
		.run = run_log},
	{.name = "methods",
		.brief = "list the methods of a daemon's control socket",
		.help = "For programs that talk to the socket themselves: JSON-RPC 2.0, one object "
			"a line.",
		.example = "-s /run/keywake/agent.sock methods",
		.run = run_methods},
	{.name = "version",
		.brief = "show the versions of this program and of the daemon",
		.help = "keywakectl --version shows this program's alone, without a daemon.",
		.example = "-s /run/keywake/agent.sock version",
		.run = run_version},
	{.name = "shutdown",
		.brief = "end a daemon in good order",
		.help = "As SIGTERM does. A service manager may start it again.",
		.options = {{"--promote", NULL,
			"agent in mode replica: send its server REPLICAOF NO ONE; agents leave it "
			"alone from then on, until resync"}},
		.example = "-s /run/keywake/agent.sock shutdown --promote",
		.run = run_shutdown},
	{0},
};
