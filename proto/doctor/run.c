/*
 * One run: the daemon tells what there is; servers are looked at, then proxies, so that nothing
 * disturbs the READs; then all facts are judged, in the order of the configuration.
 */
#include "doctor/internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "control/http/address.h"
#include "control/rpc/rpc.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXIT_WRONG 2

/* ---- what the daemon tells ---- */

struct kw_findings *kw_doctor_findings(struct kw_doctor *doctor)
{
	return &doctor->findings;
}

bool kw_doctor_is_running(const struct kw_doctor *doctor)
{
	return doctor->running;
}

void kw_doctor_read(
	struct kw_doctor *doctor, const char *part, int code, const struct kw_error *error)
{
	const struct kw_check check = {"file", part};

	if (code)
		kw_finding_of(&doctor->findings, check, error, NULL);
	else
		kw_finding_add(&doctor->findings, KW_FINDING_OK, check, "it can be read");
}

void kw_doctor_certificates(struct kw_doctor *doctor, const struct kw_tls_context *context)
{
	if (context)
		kw_judge_expiry(kw_tls_context_keys(context), kw_tls_context_expiry(context),
			(int64_t)(kw_wall_us() / 1000000), &doctor->findings);
}

void kw_doctor_key(struct kw_doctor *doctor, const char *id, int64_t at_s)
{
	kw_judge_key(id, at_s - (int64_t)(kw_wall_us() / 1000000), &doctor->findings);
}

void kw_doctor_server(struct kw_doctor *doctor, const struct kw_doctor_server *server)
{
	struct kw_server_look *look = &doctor->servers[doctor->server_count];

	if (doctor->server_count == KW_DOCTOR_SERVERS_MAX) {
		kw_tls_context_unref(server->tls);
		return;
	}
	doctor->server_count++;
	look->doctor = doctor;
	look->server = *server;
	snprintf(look->what, sizeof look->what, "%s", server->what);
	snprintf(look->address, sizeof look->address, "%s", server->address);
	snprintf(look->master, sizeof look->master, "%s", server->master ? server->master : "");
	kw_tls_current_put(&look->tls, server->tls);
}

void kw_doctor_proxy(
	struct kw_doctor *doctor, const char *address, const struct kw_remote_options *options)
{
	if (doctor->link_count < KW_DOCTOR_LINKS_MAX)
		doctor->links[doctor->link_count++] = kw_link_look_new(doctor, address, options);
}

void kw_doctor_table(struct kw_doctor *doctor, const struct kw_host_table *table)
{
	kw_judge_table(table, &doctor->host, &doctor->findings);
}

/* ---- what all daemons have ---- */

static bool is_answering(const char *path)
{
	struct kw_rpc_client *client;
	bool answers;

	if (kw_rpc_client_open(path, &client, NULL))
		return false;
	answers = kw_rpc_client_call(client, "version", NULL, KW_DOCTOR_PROBE_MS, NULL, NULL) ==
		  KW_OK;
	kw_rpc_client_close(client);
	return answers;
}

static void look_at_http(struct kw_doctor *doctor, const struct kw_config *config)
{
	const char *text = kw_config_text(config, "http.listen");
	struct kw_http_address address;
	char host[INET6_ADDRSTRLEN] = "", port[8];
	bool six;

	if (!*text || kw_http_address_parse(text, &address, NULL))
		return;
	if (address.reach == KW_HTTP_UNIX) {
		kw_doctor_path(doctor, "http.listen", address.path);
		return;
	}
	six = address.tcp.ss_family == AF_INET6;
	inet_ntop(address.tcp.ss_family,
		six ? (void *)&((struct sockaddr_in6 *)&address.tcp)->sin6_addr
		    : (void *)&((struct sockaddr_in *)&address.tcp)->sin_addr,
		host, sizeof host);
	snprintf(port, sizeof port, "%u",
		ntohs(six ? ((struct sockaddr_in6 *)&address.tcp)->sin6_port
			  : ((struct sockaddr_in *)&address.tcp)->sin_port));
	kw_doctor_port(doctor, "http.listen", host, port);
}

static void look_at_http_secret(struct kw_doctor *doctor, const struct kw_config *config)
{
	const char *path = kw_config_text(config, "http.secret_file");
	struct kw_buffer secret = {0};
	struct kw_error error;

	if (*path)
		kw_doctor_read(
			doctor, "http.secret_file", kw_secret_load(path, &secret, &error), &error);
	kw_buffer_close(&secret);
}

static void look_at_common(struct kw_doctor *doctor, const struct kw_config *config)
{
	const char *passed_over = kw_config_passed_over(config);

	if (*passed_over)
		kw_finding_mend(kw_finding_add(&doctor->findings, KW_FINDING_WARNING,
					(struct kw_check){"configuration", "keys"},
					"this version does not know these keys, and passes them "
					"over: %s",
					passed_over),
			"%s --help-config lists those that it knows", doctor->subject->program);
	kw_doctor_path(doctor, "control.socket", kw_config_text(config, "control.socket"));
	kw_doctor_written(
		doctor, "control.saved_file", kw_config_text(config, "control.saved_file"));
	look_at_http(doctor, config);
	look_at_http_secret(doctor, config);
}

/* ---- the phases ---- */

static void begin_links(struct kw_doctor *doctor)
{
	doctor->linking = true;
	doctor->pending = doctor->link_count + 1;
	for (size_t i = 0; i < doctor->link_count; i++)
		kw_link_look_begin(doctor->links[i]);
	kw_doctor_over(doctor);
}

void kw_doctor_over(struct kw_doctor *doctor)
{
	if (--doctor->pending > 0)
		return;
	if (!doctor->linking) {
		begin_links(doctor);
		return;
	}
	kw_remote_end(&doctor->loop);
	uv_close((uv_handle_t *)&doctor->deadline, NULL);
}

static void on_deadline(uv_timer_t *timer)
{
	struct kw_doctor *doctor = timer->data;

	doctor->late = true;
	uv_stop(&doctor->loop);
}

static void look_at_all(struct kw_doctor *doctor)
{
	uv_loop_init(&doctor->loop);
	uv_timer_init(&doctor->loop, &doctor->deadline);
	doctor->deadline.data = doctor;
	uv_timer_start(&doctor->deadline, on_deadline, KW_DOCTOR_ALL_MS, 0);
	doctor->pending = doctor->server_count + 1;
	for (size_t i = 0; i < doctor->server_count; i++)
		kw_server_look_begin(&doctor->servers[i]);
	kw_doctor_over(doctor);
	uv_run(&doctor->loop, UV_RUN_DEFAULT);
}

/* ---- the end ---- */

/* Does what a proxy has fit into the local server? */
static void judge_fit(struct kw_doctor *doctor, const struct kw_link_look *link)
{
	const struct kw_superblock *superblock = kw_link_look_superblock(link);
	const struct kw_check check = {kw_link_look_what(link), "fit"};
	struct kw_error error;

	for (size_t i = 0; i < doctor->server_count; i++) {
		const struct kw_server_look *look = &doctor->servers[i];
		bool local =
			look->server.use == KW_DOCTOR_WRITTEN || look->server.use == KW_DOCTOR_LED;

		if (!superblock || !local || !look->told || !doctor->subject->fit)
			continue;
		if (doctor->subject->fit(superblock, &look->facts.identity, &error))
			kw_finding_of(&doctor->findings, check, &error, NULL);
		else
			kw_finding_add(&doctor->findings, KW_FINDING_OK, check,
				"its table (RDB version %u) fits into the local server",
				superblock->rdb_version);
	}
}

static void judge_all(struct kw_doctor *doctor)
{
	for (size_t i = 0; i < doctor->server_count; i++)
		kw_server_look_judge(&doctor->servers[i], &doctor->findings);
	for (size_t i = 0; i < doctor->link_count; i++) {
		if (kw_link_look_is_over(doctor->links[i])) {
			kw_link_look_judge(doctor->links[i], &doctor->findings);
			judge_fit(doctor, doctor->links[i]);
			continue;
		}
		kw_finding_mend(kw_finding_add(&doctor->findings, KW_FINDING_WRONG,
					(struct kw_check){
						kw_link_look_what(doctor->links[i]), "connection"},
					"the READs have not come to an end in time"),
			"ping, and mtr, to the proxy's host");
	}
}

static void release(struct kw_doctor *doctor)
{
	for (size_t i = 0; i < doctor->server_count; i++)
		kw_server_look_close(&doctor->servers[i]);
	for (size_t i = 0; i < doctor->link_count; i++)
		kw_link_look_free(doctor->links[i]);
	if (doctor->subject->done)
		doctor->subject->done();
	uv_loop_close(&doctor->loop);
}

static void tell_mistakes(struct kw_doctor *doctor, const struct kw_config_mistakes *mistakes)
{
	const struct kw_check check = {"configuration", "keys"};

	if (mistakes->count == 0)
		kw_finding_add(&doctor->findings, KW_FINDING_OK, check, "it is complete and valid");
	for (size_t i = 0; i < mistakes->count && i < KW_CONFIG_MISTAKES_MAX; i++)
		kw_finding_of(&doctor->findings, check, &mistakes->list[i], NULL);
}

int kw_doctor_run(const struct kw_doctor_subject *subject, const struct kw_config *config,
	const struct kw_config_mistakes *mistakes)
{
	struct kw_doctor *doctor = kw_zalloc(sizeof *doctor);
	int status;

	signal(SIGPIPE, SIG_IGN);
	kw_log_set_level(KW_LOG_ERROR);
	doctor->subject = subject;
	doctor->config = config;
	kw_host_look(&doctor->host);
	doctor->running = config && is_answering(kw_config_text(config, "control.socket"));
	tell_mistakes(doctor, mistakes);
	if (config) {
		look_at_common(doctor, config);
		subject->look(doctor, config);
	}
	look_at_all(doctor);
	judge_all(doctor);
	kw_doctor_report(doctor);
	status = kw_findings_of_severity(&doctor->findings, KW_FINDING_WRONG) > 0 ? EXIT_WRONG : 0;
	if (doctor->late)
		_exit(status); /* what is under way cannot be waited for */
	release(doctor);
	free(doctor);
	return status;
}
