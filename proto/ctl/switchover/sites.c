#include "ctl/switchover/sites.h"

#include <stdio.h>
#include <string.h>

#define CALL_MS 10000 /* a step cannot wait for a daemon that hangs */

static void open_site(struct kw_site *site, const char *socket, const char *what)
{
	*site = (struct kw_site){.ctl = {.socket = socket}};
	snprintf(site->name, sizeof site->name, "%s (%.108s)", what, socket);
}

void kw_sites_open(struct kw_sites *sites, const char *const *sockets, size_t count)
{
	*sites = (struct kw_sites){.other_count = count - 3};
	open_site(&sites->from, sockets[0], "the old proxy");
	open_site(&sites->to, sockets[1], "the new proxy");
	open_site(&sites->agent, sockets[2], "the agent");
	for (size_t i = 0; i < sites->other_count; i++)
		open_site(&sites->others[i], sockets[3 + i], "another agent");
}

static void close_site(struct kw_site *site)
{
	kw_rpc_client_close(site->ctl.client);
	json_decref(site->status);
}

void kw_sites_close(struct kw_sites *sites)
{
	close_site(&sites->from);
	close_site(&sites->to);
	close_site(&sites->agent);
	for (size_t i = 0; i < sites->other_count; i++)
		close_site(&sites->others[i]);
}

int kw_site_call(struct kw_site *site, const char *method, json_t *params, json_t **result,
	struct kw_error *error)
{
	int code = ctl_call(&site->ctl, method, params, CALL_MS, result, error);

	/* An answer that comes later would be taken for that of the next call. */
	if (code == KW_E_TIMEOUT) {
		kw_rpc_client_close(site->ctl.client);
		site->ctl.client = NULL;
	}
	return code ? kw_error_wrap(error, "%s", site->name) : 0;
}

int kw_site_look(struct kw_site *site, struct kw_error *error)
{
	json_t *status;
	int code = kw_site_call(site, "status", NULL, &status, error);

	json_decref(site->status);
	site->status = code ? NULL : status;
	snprintf(site->why, sizeof site->why, "%s",
		code ? error->text : kw_site_text(site, "reason"));
	if (!code && !site->why[0])
		snprintf(site->why, sizeof site->why, "its state is %.40s",
			kw_site_text(site, "state"));
	return code;
}

static const json_t *find(const struct kw_site *site, const char *path)
{
	const json_t *value = site->status;
	char name[64];

	while (value && *path) {
		size_t length = strcspn(path, ".");

		snprintf(name, sizeof name, "%.*s", (int)length, path);
		value = json_object_get(value, name);
		path += length + (path[length] == '.');
	}
	return value;
}

const char *kw_site_text(const struct kw_site *site, const char *path)
{
	const char *text = json_string_value(find(site, path));

	return text ? text : "";
}

double kw_site_number(const struct kw_site *site, const char *path)
{
	return json_number_value(find(site, path));
}

int kw_site_set_term(struct kw_site *proxy, json_int_t lock, uint64_t term, struct kw_error *error)
{
	json_t *params = json_pack("{s:I,s:I}", "term", (json_int_t)term, "lock", lock);
	json_t *answer;
	int code = kw_site_call(proxy, "term", params, &answer, error);

	if (!code)
		json_decref(answer);
	return code;
}

/* A key of its configuration; NULL: a daemon of a version that has no such key. */
static json_t *ask_key(struct kw_site *site, const char *path)
{
	struct kw_error error;
	json_t *value;

	if (kw_site_call(site, "config.get", json_pack("{s:s}", "path", path), &value, &error))
		return NULL;
	return value;
}

uint64_t kw_site_term(struct kw_site *proxy)
{
	json_t *value = ask_key(proxy, "authority.term");
	uint64_t term = (uint64_t)json_integer_value(value);

	json_decref(value);
	return term;
}

static bool ask_is(struct kw_site *site, const char *path, const char *wanted, bool equal)
{
	json_t *value = ask_key(site, path);
	const char *text = json_string_value(value);
	bool same = text && strcmp(text, wanted) == 0;

	same = text && same == equal;
	json_decref(value);
	return same;
}

static void ask_proxy(struct kw_site *site, struct kw_switchover_proxy *proxy)
{
	struct kw_error error;

	*proxy = (struct kw_switchover_proxy){.identity = "", .run_id = "", .why = site->why};
	if (kw_site_look(site, &error))
		return;
	proxy->reached = true;
	proxy->by_operator = ask_is(site, "authority.by", "operator", true);
	proxy->saves = ask_is(site, "control.saved_file", "", false);
	proxy->live = strcmp(kw_site_text(site, "state"), "live") == 0;
	proxy->primary = strcmp(kw_site_text(site, "mandate.role"), "master") == 0;
	proxy->last_term = (uint64_t)kw_site_number(site, "mandate.term");
	proxy->identity = kw_site_text(site, "table.history.proxy");
	proxy->run_id = kw_site_text(site, "mandate.run_id");
	proxy->term = kw_site_term(site);
}

static enum kw_switchover_mode read_mode(const char *mode)
{
	return strcmp(mode, "replica") == 0   ? KW_SWITCHOVER_REPLICA
	       : strcmp(mode, "discard") == 0 ? KW_SWITCHOVER_DISCARD
					      : KW_SWITCHOVER_COMMANDS;
}

static void ask_agent(struct kw_site *site, struct kw_switchover_agent *agent)
{
	struct kw_error error;

	*agent = (struct kw_switchover_agent){
		.proven_s = -1, .follows = "", .run_id = "", .why = site->why};
	if (kw_site_look(site, &error))
		return;
	/* One that is ending answers a little longer. */
	agent->reached = !json_is_true(json_object_get(site->status, "stopping"));
	if (!agent->reached)
		snprintf(site->why, sizeof site->why, "%s is shutting down", site->name);
	agent->saves = ask_is(site, "control.saved_file", "", false);
	agent->warm = strcmp(kw_site_text(site, "state"), "warm") == 0;
	agent->listed = json_array_size(json_object_get(site->status, "proxies")) > 1;
	agent->mode = read_mode(kw_site_text(site, "mode"));
	agent->term = (uint64_t)kw_site_number(site, "history.data.term");
	if (json_is_integer(json_object_get(site->status, "proven_equal_s")))
		agent->proven_s = (int64_t)kw_site_number(site, "proven_equal_s");
	agent->follows = kw_site_text(site, "history.table.proxy");
	agent->run_id = kw_site_text(site, "local.run_id");
}

void kw_sites_ask(struct kw_sites *sites, struct kw_switchover_facts *facts)
{
	ask_proxy(&sites->from, &facts->from);
	ask_proxy(&sites->to, &facts->to);
	ask_agent(&sites->agent, &facts->agent);
	facts->other_count = sites->other_count;
	for (size_t i = 0; i < sites->other_count; i++)
		ask_agent(&sites->others[i], &facts->others[i]);
}
